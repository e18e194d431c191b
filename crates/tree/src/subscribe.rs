//! Messages for whoever comes to get them: virtual processes, clients outside, and whoever reads a queue.
//!
//! What is given out is on record first, some at a time, and what was not taken goes back to its place. **Invariant.** A message is given to one
//! reader once; a reader that stops reading keeps nobody else waiting.

use crate::Tree;
use crate::calls::{CallEffect, TreeCall};
use crate::mailroom::{Arrival, MailListener, QueueFilter};
use gate::TreeRequest;
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::task::JoinHandle;
use world::event::{MessageAnswered, MessageDelivered};
use world::{Code, DeadLetter, Event, Fault, FaultKind, MessageId, Pid, Recipient, Refusal, ReplyStatus, Stop, TreeMessage, World, limits};

/// How many a reader is given at once: few first, and more when it takes them all.
const BATCH_MIN: usize = 8;
const BATCH_MAX: usize = 1024;
/// Messages of one look into a mailbox.
const INBOX_MAX: usize = 1000;

/// A message with its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    pub message: TreeMessage,
    pub body: Vec<u8>,
}

/// A reader of one mailbox. What it gives out counts as dealt with when the next one is asked for.
pub struct Subscription {
    tree: Arc<Tree>,
    pid: Pid,
    to: Recipient,
    listener: Arc<MailListener>,
    ready: VecDeque<ReceivedMessage>,
    /// Given out, and not on record as dealt with.
    taken: Vec<MessageId>,
    batch: usize,
    fetching: Option<JoinHandle<Result<Fetched, Fault>>>,
}

/// What one look at the mailbox brought.
struct Fetched {
    messages: Vec<ReceivedMessage>,
    /// Its process is gone, and with it the mailbox.
    is_over: bool,
}

impl Tree {
    /// Reads a process's own mailbox, or a queue, as messages come.
    pub async fn subscribe(&self, by: Pid, filter: QueueFilter) -> Result<Subscription, Stop> {
        if filter.queue.as_ref().is_some_and(|name| name.len() > limits::QUEUE_NAME_MAX) {
            return Err(Refusal::new(Code::TooLarge, "the queue's name is too long").into());
        }
        let input = json!({ "queue": filter.queue, "kind": filter.kind });
        self.may_read(by, by, input).await?;
        let tree = self.me.upgrade().ok_or_else(|| Refusal::new(Code::WrongState, "the kernel stops"))?;
        let to = filter.queue.clone().map_or(Recipient::Process(by), Recipient::Queue);
        let listener = Arc::new(MailListener { filter, ready: parking_lot::Mutex::default(), bell: tokio::sync::Notify::new() });
        self.mail.listen(to.clone(), listener.clone());
        // What waits already; what comes from here on is told.
        let waiting = self.ledger.look(|world| {
            let wanted = world.mail.in_order(&to).filter(|message| listener.filter.wants(&message.kind, message.priority));
            wanted.map(|message| (message.place_ms(), message.id)).collect::<Vec<_>>()
        });
        listener.ready.lock().extend(waiting);
        Ok(Subscription { tree, pid: by, to, listener, ready: VecDeque::new(), taken: Vec::new(), batch: BATCH_MIN, fetching: None })
    }

    async fn may_read(&self, by: Pid, of: Pid, input: serde_json::Value) -> Result<(), Stop> {
        let about = Some(TreeRequest::Direct { target: of, only_children: false });
        let call = TreeCall { by, tool: "message.read", input, about, read_only: true };
        self.commit_call(call, |_, _, _| Ok(CallEffect { events: Vec::new(), output: json!({}), value: () })).await
    }

    /// What waits for a process and what it has in hand, first things first. Takes nothing away.
    pub async fn inbox(&self, by: Pid, of: Pid) -> Result<Vec<ReceivedMessage>, Stop> {
        self.may_read(by, of, json!({ "of": of })).await?;
        let found: Vec<TreeMessage> = self.ledger.look(|world| {
            let handed = world.mail.boxes.get(&of).into_iter().flat_map(|mailbox| mailbox.handed().collect::<Vec<_>>());
            let handed = handed.filter_map(|id| world.mail.messages.get(&id));
            handed.chain(world.mail.in_order(&Recipient::Process(of))).take(INBOX_MAX).cloned().collect()
        });
        Ok(self.with_bodies(found)?)
    }

    /// Messages that nobody answered: of one sender, or of everybody where the kernel or the operator asks.
    pub async fn dead_letters(&self, by: Pid, of: Option<Pid>) -> Result<Vec<DeadLetter>, Stop> {
        let is_top = by == Pid::KERNEL || by == Pid::OPERATOR;
        let of = of.or(if is_top { None } else { Some(by) });
        self.may_read(by, of.unwrap_or(by), json!({ "dead_letters_of": of })).await?;
        Ok(self
            .ledger
            .look(|world| world.mail.dead.iter().filter(|letter| of.is_none_or(|of| letter.message.from == of)).cloned().collect()))
    }

    /// Messages with their bodies. One whose message ended meanwhile is left out.
    pub(crate) fn with_bodies(&self, messages: Vec<TreeMessage>) -> Result<Vec<ReceivedMessage>, Fault> {
        let ids: Vec<MessageId> = messages.iter().map(|message| message.id).collect();
        let bodies = self.ledger.bodies(&ids)?;
        let mut received = Vec::with_capacity(messages.len());
        for (message, body) in messages.into_iter().zip(bodies) {
            let body = match (&message.blob, body) {
                (Some(blob), _) => self.ledger.blob_if_kept(blob)?,
                (None, None) if message.bytes == 0 => Some(Vec::new()),
                (None, body) => body,
            };
            received.extend(body.map(|body| ReceivedMessage { message, body }));
        }
        Ok(received)
    }

    /// Gives a reader what it is to have next, and takes note of what it took before.
    async fn fetch(&self, pid: Pid, picked: Vec<MessageId>, taken: Vec<MessageId>) -> Result<Fetched, Fault> {
        let found = self.ledger.look(|world| picked.iter().filter_map(|id| world.mail.messages.get(id).cloned()).collect());
        let mut received = self.with_bodies(found)?;
        let pending = self.ledger.commit(|world, now_ms| {
            let mut events: Vec<Event> = answered(world, pid, &taken, ReplyStatus::Accepted).into_iter().collect();
            let Some(process) = world.processes.get(&pid).filter(|process| process.state.alive()) else { return (events, None) };
            let is_free = |message: &TreeMessage| message.holder.is_none() && !message.is_over(now_ms);
            let is_heard = |message: &TreeMessage| match &message.to {
                Recipient::Process(to) => *to == pid,
                Recipient::Queue(_) => world.queue_route(message, pid).is_ok(),
            };
            let valid = |id: &MessageId| world.mail.messages.get(id).is_some_and(|message| is_free(message) && is_heard(message));
            let given: Vec<MessageId> = received.iter().map(|one| one.message.id).filter(valid).collect();
            if let Some((first, further)) = given.split_first() {
                let (message, further) = (*first, further.to_vec());
                events.push(MessageDelivered { pid, task: None, message, incarnation: process.incarnation(), further }.into());
            }
            (events, Some(given))
        })?;
        let given = pending.durable().await?;
        let is_over = given.is_none();
        let given: std::collections::BTreeSet<MessageId> = given.unwrap_or_default().into_iter().collect();
        received.retain(|one| given.contains(&one.message.id));
        Ok(Fetched { messages: received, is_over })
    }

    /// What a reader took is dealt with, and what it did not take waits again.
    async fn give_back(&self, pid: Pid, taken: Vec<MessageId>, left: Vec<MessageId>) -> Result<(), Fault> {
        let pending = self.ledger.commit(|world, _| {
            let taken = answered(world, pid, &taken, ReplyStatus::Accepted);
            let left = answered(world, pid, &left, ReplyStatus::Returned);
            (taken.into_iter().chain(left).collect(), ())
        })?;
        pending.durable().await?;
        let again = self.ledger.look(|world| {
            let back = left.iter().filter_map(|id| world.mail.messages.get(id)).filter(|message| message.holder.is_none());
            back.map(|message| Arrival::of(world, message)).collect::<Vec<_>>()
        });
        self.announce(&again);
        Ok(())
    }
}

/// The record by which a reader answers what it has of these.
fn answered(world: &World, pid: Pid, ids: &[MessageId], status: ReplyStatus) -> Option<Event> {
    let holds = |id: &&MessageId| world.mail.messages.get(id).and_then(|message| message.holder).is_some_and(|holder| holder.pid == pid);
    let mut held = ids.iter().filter(holds).copied();
    let message = held.next()?;
    Some(MessageAnswered { pid, task: None, message, further: held.collect(), status, reply: None }.into())
}

impl Subscription {
    /// The next message; `None` when its process or the kernel ends. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<ReceivedMessage> {
        self.take(true).await
    }

    /// The next message that is there already; `None` where none is.
    pub async fn next_waiting(&mut self) -> Option<ReceivedMessage> {
        self.take(false).await
    }

    /// Ends the reading. When it returns, what was given out is on record as dealt with, and the rest waits again.
    pub async fn close(mut self) -> Result<(), Fault> {
        self.tree.mail.leave(&self.to, &self.listener);
        let mut left: Vec<MessageId> = self.ready.drain(..).map(|one| one.message.id).collect();
        if let Some(fetching) = self.fetching.take() {
            let fetched = fetching.await.map_err(|error| Fault::new(FaultKind::Bug, "a reader of messages failed", error))??;
            left.extend(fetched.messages.into_iter().map(|one| one.message.id));
        }
        let taken = std::mem::take(&mut self.taken);
        if taken.is_empty() && left.is_empty() { Ok(()) } else { self.tree.give_back(self.pid, taken, left).await }
    }

    async fn take(&mut self, waits: bool) -> Option<ReceivedMessage> {
        let mut stopping = self.tree.stopping.subscribe();
        loop {
            if let Some(next) = self.ready.pop_front() {
                self.taken.push(next.message.id);
                return Some(next);
            }
            if *stopping.borrow() {
                return None;
            }
            if self.fetching.is_none() {
                let picked = self.pick();
                if picked.is_empty() && (self.taken.is_empty() || !waits) {
                    if !waits {
                        return None;
                    }
                    tokio::select! {
                        () = self.listener.bell.notified() => {}
                        _ = stopping.changed() => {}
                    }
                    continue;
                }
                self.batch = if picked.len() == self.batch { (2 * self.batch).min(BATCH_MAX) } else { self.batch };
                let (tree, pid, taken) = (self.tree.clone(), self.pid, std::mem::take(&mut self.taken));
                self.fetching = Some(tokio::spawn(async move { tree.fetch(pid, picked, taken).await }));
            }
            let Some(fetching) = &mut self.fetching else { continue };
            let fetched = fetching.await;
            self.fetching = None;
            match fetched {
                Ok(Ok(Fetched { messages, is_over })) => {
                    self.ready.extend(messages);
                    if is_over && self.ready.is_empty() {
                        return None;
                    }
                }
                Ok(Err(fault)) => {
                    world::log!("skep: messages of process {} could not be given out: {fault}", self.pid);
                    return None;
                }
                Err(error) => {
                    world::log!("skep: a reader of messages failed: {error}");
                    return None;
                }
            }
        }
    }

    /// What waits for it, as many as it may have at once.
    fn pick(&self) -> Vec<MessageId> {
        let mut ready = self.listener.ready.lock();
        std::iter::from_fn(|| ready.pop_first()).take(self.batch).map(|(_, id)| id).collect()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.tree.mail.leave(&self.to, &self.listener);
        let (tree, pid) = (self.tree.clone(), self.pid);
        let (taken, fetching) = (std::mem::take(&mut self.taken), self.fetching.take());
        let mut left: Vec<MessageId> = self.ready.drain(..).map(|one| one.message.id).collect();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if taken.is_empty() && left.is_empty() && fetching.is_none() {
            return;
        }
        let room = self.tree.clone();
        let given_back = runtime.spawn(async move {
            if let Some(Ok(Ok(fetched))) = match fetching {
                Some(fetching) => Some(fetching.await),
                None => None,
            } {
                left.extend(fetched.messages.into_iter().map(|one| one.message.id));
            }
            if let Err(fault) = tree.give_back(pid, taken, left).await {
                world::log!("skep: messages that process {pid} did not take stay with it: {fault}");
            }
        });
        room.mail.keep_task(given_back);
    }
}
