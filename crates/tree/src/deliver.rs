//! The loop that hands messages to agents, and the clock of their deadlines.
//!
//! Each receiver has one conversation at a time, in its mailbox's order, so a slow one keeps nobody else waiting. **Invariant.** A message is
//! handed to an incarnation once: it is on record before it leaves, and whatever becomes of that is on record before the next one.

use crate::mailroom::Arrival;
use crate::send::notice;
use crate::{Tree, clock};
use serde_json::json;
use std::sync::atomic::Ordering;
use std::time::Duration;
use world::event::{MessageAnswered, MessageDelivered, MessageDropped};
use world::{DropReason, Event, Fault, MessageId, Pid, ProcessState, Recipient, ReplyStatus, TreeMessage, World, limits};

/// Why a message was not answered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandOverError {
    #[error("it did not reach the agent: {0}")]
    NotSent(String),
    #[error("the agent had it and did not answer: {0}")]
    NoAnswer(String),
}

/// How long one is left alone that could not be reached or wants its message later; it grows with each time.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(60);
/// How often a message is put off before it is a dead letter.
const PUT_OFF_MAX: u32 = 20;
/// Messages whose time is over that one record names.
const EXPIRED_AT_ONCE: usize = 1_000;
/// Bytes of a reply that are kept.
const REPLY_MAX: usize = 4 * 1024;

/// What is to be done for a receiver next.
enum PushTurn {
    Handed,
    /// Nothing waits, or nobody is there to have it.
    Idle,
    /// It could not be reached.
    Later(Duration),
}

impl Tree {
    /// Has what waits for this receiver handed to it, unless that is being done.
    pub(crate) fn push_to(&self, pid: Pid) {
        let Some(tree) = self.me.upgrade() else { return };
        {
            let mut pushing = self.mail.pushing.lock();
            if let Some(has_more) = pushing.get_mut(&pid) {
                *has_more = true;
                return;
            }
            pushing.insert(pid, false);
        }
        let mut stopping = self.stopping.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                () = tree.push_all(pid) => {}
                _ = stopping.wait_for(|stops| *stops) => {}
            }
            tree.mail.pushing.lock().remove(&pid);
        });
    }

    async fn push_all(&self, pid: Pid) {
        loop {
            match self.push_next(pid).await {
                Ok(PushTurn::Handed) => {}
                Ok(PushTurn::Later(wait)) => tokio::time::sleep(wait).await,
                Ok(PushTurn::Idle) => {
                    let mut pushing = self.mail.pushing.lock();
                    match pushing.get_mut(&pid) {
                        Some(has_more) if *has_more => *has_more = false,
                        _ => {
                            // Under the lock: whoever comes now begins anew.
                            pushing.remove(&pid);
                            return;
                        }
                    }
                }
                Err(fault) => {
                    world::log!("skep: messages for process {pid} wait: {fault}");
                    return;
                }
            }
        }
    }

    async fn push_next(&self, pid: Pid) -> Result<PushTurn, Fault> {
        let next = self.ledger.look(|world| {
            let up = receiver(world, pid)?;
            let now_ms = world.now_ms.max(clock::now_ms());
            let mailbox = Recipient::Process(pid);
            let mut waiting = world.mail.in_order(&mailbox);
            let next = waiting.find(|one| one.copy_of.is_none() && !one.is_over(now_ms) && !self.mail.is_wanted(one))?;
            Some((next.clone(), up))
        });
        let Some((message, (incarnation, limit))) = next else { return Ok(PushTurn::Idle) };
        let id = message.id;
        let Some(received) = self.with_bodies(vec![message])?.pop() else { return Ok(PushTurn::Handed) };
        let pending = self.ledger.commit(|world, now_ms| {
            let is_free = world
                .mail
                .messages
                .get(&id)
                .is_some_and(|one| one.holder.is_none() && one.to == Recipient::Process(pid) && !one.is_over(now_ms));
            let is_up = receiver(world, pid).is_some_and(|(up, _)| up == incarnation);
            if !is_free || !is_up {
                return (Vec::new(), false);
            }
            (vec![MessageDelivered { pid, task: None, message: id, incarnation, further: Vec::new() }.into()], true)
        })?;
        if !pending.durable().await? {
            return Ok(PushTurn::Handed);
        }
        let handed = tokio::time::timeout(limit, self.hand_over(pid, &received.message, received.body));
        let answer = match handed.await {
            Ok(answer) => answer,
            Err(_) => Err(HandOverError::NoAnswer(format!("it took longer than {} s", limit.as_secs()))),
        };
        self.settle(pid, incarnation, &received.message, answer).await
    }

    /// Records what became of a message that was handed over.
    async fn settle(
        &self,
        pid: Pid,
        incarnation: u64,
        message: &TreeMessage,
        answer: Result<(ReplyStatus, Option<String>), HandOverError>,
    ) -> Result<PushTurn, Fault> {
        let id = message.id;
        let tries = message.handed + 1;
        let pending = self.ledger.commit(|world, now_ms| {
            let is_held = world
                .mail
                .messages
                .get(&id)
                .and_then(|one| one.holder)
                .is_some_and(|holder| holder.pid == pid && holder.incarnation == incarnation);
            // Its end was its answer.
            if !is_held {
                return (Vec::new(), (Vec::new(), PushTurn::Handed));
            }
            let answered = |status, reply| MessageAnswered { pid, task: None, message: id, further: Vec::new(), status, reply }.into();
            let dropped = |why| MessageDropped { pid, task: None, message: id, why, further: Vec::new() }.into();
            match &answer {
                Err(HandOverError::NotSent(_)) => {
                    (vec![answered(ReplyStatus::Returned, None)], (Vec::new(), PushTurn::Later(wait_after(tries))))
                }
                Err(HandOverError::NoAnswer(_)) => {
                    let (events, arrivals) = told(world, message, dropped(DropReason::Unknown), "unknown", None, now_ms);
                    (events, (arrivals, PushTurn::Handed))
                }
                Ok((ReplyStatus::Queued, _)) if tries >= PUT_OFF_MAX => {
                    let (events, arrivals) = told(world, message, dropped(DropReason::Unhandled), "unhandled", None, now_ms);
                    (events, (arrivals, PushTurn::Handed))
                }
                Ok((ReplyStatus::Rejected, reply)) => {
                    let answer = answered(ReplyStatus::Rejected, reply.as_deref().map(cut));
                    let (events, arrivals) = told(world, message, answer, "rejected", reply.as_deref(), now_ms);
                    (events, (arrivals, PushTurn::Handed))
                }
                Ok((status, reply)) => (vec![answered(*status, reply.as_deref().map(cut))], (Vec::new(), PushTurn::Handed)),
            }
        })?;
        let (arrivals, turn) = pending.durable().await?;
        self.announce(&arrivals);
        match answer {
            Ok((ReplyStatus::Queued, _)) if tries < PUT_OFF_MAX => self.put_back_later(pid, incarnation, id, wait_after(tries)),
            Ok((ReplyStatus::Escalate, _)) => {
                let above = self.ledger.look(|world| world.mail.messages.get(&id).map(|one| Arrival::of(world, one)));
                self.announce(above.as_slice());
            }
            Err(HandOverError::NoAnswer(why)) => world::log!("skep: {id} to process {pid}: {why}"),
            _ => {}
        }
        Ok(turn)
    }

    /// What a receiver wants later waits again after a while.
    fn put_back_later(&self, pid: Pid, incarnation: u64, id: MessageId, after: Duration) {
        let (me, mut stopping) = (self.me.clone(), self.stopping.subscribe());
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(after) => {}
                _ = stopping.wait_for(|stops| *stops) => return,
            }
            let Some(tree) = me.upgrade() else { return };
            let put_back = async {
                let pending = tree.ledger.commit(|world, _| {
                    let is_queued = world
                        .mail
                        .messages
                        .get(&id)
                        .and_then(|one| one.holder)
                        .is_some_and(|holder| holder.pid == pid && holder.incarnation == incarnation && holder.is_queued);
                    let status = ReplyStatus::Returned;
                    let back = MessageAnswered { pid, task: None, message: id, further: Vec::new(), status, reply: None };
                    (if is_queued { vec![back.into()] } else { Vec::new() }, ())
                })?;
                pending.durable().await
            };
            match put_back.await {
                Ok(()) => tree.push_to(pid),
                Err(fault) => world::log!("skep: {id} stays with process {pid}: {fault}"),
            }
        });
    }

    /// A deadline is known: the clock looks at it, unless it waits for an earlier one.
    pub(crate) fn await_deadline(&self, deadline_ms: Option<i64>) {
        if deadline_ms.is_some_and(|deadline| deadline < self.mail.expiry_ms.load(Ordering::SeqCst)) {
            self.mail.expiry.notify_one();
        }
    }

    /// Begins the loops of messages and of cron.
    pub(crate) async fn begin_mail(self: &std::sync::Arc<Self>) -> Result<(), Fault> {
        self.settle_readers().await?;
        self.mail.keep_task(tokio::spawn(self.clone().expire()));
        self.mail.keep_task(tokio::spawn(self.clone().run_cron()));
        self.mail.keep_task(tokio::spawn(self.clone().heed()));
        let tree = self.clone();
        tokio::spawn(async move { tree.resume_escalations().await });
        self.wake_mail();
        Ok(())
    }

    /// Waits for the loops, which end when the kernel stops, and records what is counted.
    pub(crate) async fn end_mail(&self) {
        for task in self.mail.take_tasks() {
            // One that panicked has said so.
            drop(task.await);
        }
        self.record_reads().await;
        self.tell_unseen().await;
    }

    /// Ends messages whose time is over, at the next deadline and never before.
    pub(crate) async fn expire(self: std::sync::Arc<Self>) {
        let mut stopping = self.stopping.subscribe();
        loop {
            let next_ms = self.ledger.look(|world| world.mail.next_deadline_ms());
            self.mail.expiry_ms.store(next_ms.unwrap_or(i64::MAX), Ordering::SeqCst);
            tokio::select! {
                () = clock::until(next_ms) => {}
                () = self.mail.expiry.notified() => continue,
                _ = stopping.wait_for(|stops| *stops) => return,
            }
            if let Err(fault) = self.drop_expired().await {
                world::log!("skep: messages whose time is over stay: {fault}");
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        }
    }

    async fn drop_expired(&self) -> Result<(), Fault> {
        let pending = self.ledger.commit(|world, now_ms| {
            let mut over = world.mail.expired(now_ms).map(|message| message.id).take(EXPIRED_AT_ONCE);
            let first = over.next();
            let expired =
                |message| MessageDropped { pid: Pid::KERNEL, task: None, message, why: DropReason::Expired, further: over.collect() };
            (first.map(expired).into_iter().map(Event::from).collect(), ())
        })?;
        pending.durable().await
    }

    /// What was handed to readers when the last kernel ended: nobody knows whether they had it.
    pub(crate) async fn settle_readers(&self) -> Result<(), Fault> {
        let pending = self.ledger.commit(|world, _| {
            let is_left = |message: &&TreeMessage| {
                message.holder.is_some_and(|holder| !crate::mailroom::is_pushed(world, &Recipient::Process(holder.pid)))
            };
            let mut left = world.mail.messages.values().filter(is_left).map(|message| message.id);
            let first = left.next();
            let unknown =
                |message| MessageDropped { pid: Pid::KERNEL, task: None, message, why: DropReason::Unknown, further: left.collect() };
            (first.map(unknown).into_iter().map(Event::from).collect(), ())
        })?;
        pending.durable().await
    }
}

/// The incarnation of a receiver that can be handed something, and how long that may take.
fn receiver(world: &World, pid: Pid) -> Option<(u64, Duration)> {
    let process = world.processes.get(&pid).filter(|process| process.state.alive() && process.state != ProcessState::Paused)?;
    let run = process.run.as_ref().filter(|run| run.is_up)?;
    let limit = process.limits().and_then(|limits| limits.timeout_ms).unwrap_or(limits::HANDLER_MS_DEFAULT);
    Some((run.incarnation, Duration::from_millis(limit)))
}

fn wait_after(tries: u32) -> Duration {
    (AGAIN_AFTER * tries.clamp(1, 60)).min(AGAIN_AFTER_MAX)
}

fn cut(reply: &str) -> String {
    let mut end = reply.len().min(REPLY_MAX);
    while !reply.is_char_boundary(end) {
        end -= 1;
    }
    reply[..end].to_owned()
}

/// The record of a message's end, and the word to its sender about it.
fn told(world: &World, message: &TreeMessage, end: Event, what: &str, reply: Option<&str>, now_ms: i64) -> (Vec<Event>, Vec<Arrival>) {
    let body = json!({ "message_id": message.id, "type": message.kind, "status": what, "reply": reply.map(cut) });
    let is_told = message.from != Pid::KERNEL && message.from != Pid::OPERATOR;
    let notice = if is_told { notice(world, message.from, "message_dropped", body.to_string().into_bytes(), now_ms) } else { None };
    match notice {
        Some((sent, arrival)) => (vec![end, sent.into()], vec![arrival]),
        None => (vec![end], Vec::new()),
    }
}
