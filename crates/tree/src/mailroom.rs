//! Who waits for mail, and who is handed some: what the loops of messages share.
//!
//! **Invariant.** A listener is woken only by a message that it wants: whoever listens for what nobody sends costs nothing.

use crate::Tree;
use crate::preview::MessagePreviews;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use world::{MessageId, MessagePriority, Pid, Recipient, Refusal, TaskId, TreeMessage, World};

/// What a listener wants to hear. What is absent is not asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueFilter {
    /// A named queue instead of its own mailbox.
    pub queue: Option<String>,
    pub kind: Option<String>,
    /// At least so urgent.
    pub min_priority: Option<MessagePriority>,
}

impl QueueFilter {
    pub(crate) fn wants(&self, kind: &str, priority: MessagePriority) -> bool {
        self.kind.as_deref().is_none_or(|wanted| wanted == kind) && self.min_priority.is_none_or(|least| priority <= least)
    }
}

/// Whoever waits for messages of one mailbox.
pub(crate) struct MailListener {
    pub filter: QueueFilter,
    /// What it is to have next, in the mailbox's order. Some of it may be gone when it looks.
    pub ready: Mutex<BTreeSet<(i64, MessageId)>>,
    pub bell: Notify,
}

/// A message that waits since a commit that is on disk.
pub(crate) struct Arrival {
    pub id: MessageId,
    pub to: Recipient,
    pub kind: String,
    pub priority: MessagePriority,
    pub place_ms: i64,
    pub deadline_ms: Option<i64>,
    /// A program runs that it is handed to.
    pub is_pushed: bool,
}

impl Arrival {
    pub fn of(world: &World, message: &TreeMessage) -> Arrival {
        Arrival {
            id: message.id,
            to: message.to.clone(),
            kind: message.kind.clone(),
            priority: message.priority,
            place_ms: message.place_ms(),
            deadline_ms: message.deadline_ms,
            is_pushed: is_pushed(world, &message.to) && message.copy_of.is_none(),
        }
    }
}

/// Is what is for this receiver handed to a program that runs?
pub(crate) fn is_pushed(world: &World, to: &Recipient) -> bool {
    let Recipient::Process(pid) = to else { return false };
    world.processes.get(pid).is_some_and(|process| {
        let is_program = process.program.as_ref().is_some_and(|program| program.runtime.has_program());
        is_program && process.run.as_ref().is_some_and(|run| run.is_up)
    })
}

/// An answer of the policy, and the versions of rights and policy that it holds for.
pub(crate) type KnownVerdict = ((u64, Option<u64>), Result<(), Refusal>);

#[derive(Default)]
pub(crate) struct MailRoom {
    listeners: Mutex<BTreeMap<Recipient, Vec<Arc<MailListener>>>>,
    /// Receivers that are being handed something; true where more came meanwhile.
    pub pushing: Mutex<BTreeMap<Pid, bool>>,
    /// The deadline that is waited for, and the bell when an earlier one comes.
    pub expiry_ms: AtomicI64,
    pub expiry: Notify,
    /// What followers of the tree see of messages.
    pub previews: Arc<MessagePreviews>,
    /// Rung when the entries of cron change.
    pub cron: Notify,
    /// Reads of the process table that have no record yet, by who read, and for which task.
    pub reads: Mutex<BTreeMap<(Pid, Option<TaskId>), u64>>,
    /// Copies of messages that somebody was to see and that have no record yet, by who has too many.
    pub unseen: Mutex<BTreeMap<Pid, u64>>,
    /// The loops, and what is done when readers leave.
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// What the policy said of calls that make no record, by who asks and for what, and on which state of things.
    pub verdicts: Mutex<BTreeMap<(Pid, &'static str), KnownVerdict>>,
}

impl MailRoom {
    /// Work that a stop waits for.
    pub fn keep_task(&self, task: JoinHandle<()>) {
        let mut tasks = self.tasks.lock();
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    pub fn take_tasks(&self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut *self.tasks.lock())
    }

    pub fn listen(&self, to: Recipient, listener: Arc<MailListener>) {
        self.listeners.lock().entry(to).or_default().push(listener);
    }

    pub fn leave(&self, to: &Recipient, listener: &Arc<MailListener>) {
        let mut listeners = self.listeners.lock();
        if let Some(all) = listeners.get_mut(to) {
            all.retain(|other| !Arc::ptr_eq(other, listener));
            if all.is_empty() {
                listeners.remove(to);
            }
        }
    }

    /// Tells those who want it of a message. Says whether anybody did.
    fn tell(&self, arrival: &Arrival) -> bool {
        let listeners = self.listeners.lock();
        let wanting = listeners.get(&arrival.to).into_iter().flatten().filter(|one| one.filter.wants(&arrival.kind, arrival.priority));
        let mut is_wanted = false;
        for listener in wanting {
            is_wanted = true;
            listener.ready.lock().insert((arrival.place_ms, arrival.id));
            listener.bell.notify_one();
        }
        is_wanted
    }

    /// Does somebody listen to this mailbox for such a message?
    pub fn is_wanted(&self, message: &TreeMessage) -> bool {
        let listeners = self.listeners.lock();
        listeners.get(&message.to).into_iter().flatten().any(|one| one.filter.wants(&message.kind, message.priority))
    }

    fn mailboxes(&self) -> Vec<Recipient> {
        self.listeners.lock().keys().cloned().collect()
    }
}

impl Tree {
    /// Messages wait that did not before: whoever wants them is told.
    pub(crate) fn announce(&self, arrivals: &[Arrival]) {
        for arrival in arrivals {
            if !self.mail.tell(arrival)
                && arrival.is_pushed
                && let Recipient::Process(pid) = arrival.to
            {
                self.push_to(pid);
            }
            self.await_deadline(arrival.deadline_ms);
        }
    }

    /// Looks at all mailboxes again: at boot, when a program starts, and when one that ended gave back what it had.
    pub(crate) fn wake_mail(&self) {
        let heard = self.mail.mailboxes();
        let (arrivals, receivers) = self.ledger.look(|world| {
            let of = |to: &Recipient| world.mail.in_order(to).map(|message| Arrival::of(world, message)).collect::<Vec<_>>();
            let receivers: Vec<Pid> = world.mail.boxes.keys().copied().filter(|pid| is_pushed(world, &Recipient::Process(*pid))).collect();
            (heard.iter().flat_map(of).collect::<Vec<_>>(), receivers)
        });
        for arrival in &arrivals {
            self.mail.tell(arrival);
        }
        receivers.into_iter().for_each(|pid| self.push_to(pid));
        self.mail.expiry.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrival(id: u64, kind: &str, priority: MessagePriority) -> Arrival {
        let (id, to) = (MessageId(id), Recipient::Process(Pid(7)));
        Arrival { id, to, kind: kind.into(), priority, place_ms: 0, deadline_ms: None, is_pushed: false }
    }

    #[tokio::test]
    async fn a_listener_is_woken_only_by_what_it_wants() {
        let room = MailRoom::default();
        let filter = QueueFilter { queue: None, kind: Some("wanted".into()), min_priority: Some(MessagePriority::High) };
        let listener = Arc::new(MailListener { filter, ready: Mutex::default(), bell: Notify::new() });
        room.listen(Recipient::Process(Pid(7)), listener.clone());
        for id in 0..100 {
            assert!(!room.tell(&arrival(id, "other", MessagePriority::Critical)));
            assert!(!room.tell(&arrival(id, "wanted", MessagePriority::Low)));
        }
        assert!(listener.ready.lock().is_empty());
        let mut woken = bell_of(&listener);
        assert!(!woken(), "nobody rang");
        assert!(room.tell(&arrival(200, "wanted", MessagePriority::High)));
        assert!(woken(), "control: this one is for it");
        assert_eq!(listener.ready.lock().len(), 1);
        room.leave(&Recipient::Process(Pid(7)), &listener);
        assert!(!room.tell(&arrival(201, "wanted", MessagePriority::High)), "it has left");
    }

    /// Says whether the bell has rung, without waiting for it.
    fn bell_of(listener: &Arc<MailListener>) -> impl FnMut() -> bool {
        let listener = listener.clone();
        move || {
            let mut rung = std::pin::pin!(listener.bell.notified());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            rung.as_mut().poll(&mut context).is_ready()
        }
    }
}
