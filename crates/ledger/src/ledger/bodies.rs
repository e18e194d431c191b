//! Bodies of messages: which come and go with an event.
//!
//! **Invariant.** A short body is beside the journal's records exactly as long as its message is on its way: it is written with the record that
//! sends it, and removed with the record that ends it.

use super::{Ledger, aside, fault};
use journal::{BodyChanges, Journal};
use world::{Event, Fault, Mailbox, MessageId, World};

/// Messages that this event may end.
pub(super) fn touched(world: &World, event: &Event) -> Vec<MessageId> {
    let mailbox = |mailbox: &Mailbox| mailbox.waiting().chain(mailbox.handed()).collect();
    match event {
        Event::MessageAnswered(answered) => all(answered.message, &answered.further),
        Event::MessageDropped(dropped) => all(dropped.message, &dropped.further),
        Event::ProcExited(_) | Event::ProcCrashed(_) | Event::ProcSlept(_) | Event::ProcStarted(_) | Event::ProcCollected(_) => {
            world.mail.boxes.get(&event.pid()).map(mailbox).unwrap_or_default()
        }
        Event::KernelStarted(_) => world.mail.boxes.values().flat_map(Mailbox::handed).collect(),
        _ => Vec::new(),
    }
}

fn all(first: MessageId, further: &[MessageId]) -> Vec<MessageId> {
    std::iter::once(first).chain(further.iter().copied()).collect()
}

/// What the event, which was applied, does to the bodies.
pub(super) fn change(world: &World, event: Event, touched: Vec<MessageId>, changes: &mut BodyChanges) {
    changes.remove.extend(touched.into_iter().filter(|id| !world.mail.messages.contains_key(id)).map(|id| id.0));
    if let Event::MessageSent(sent) = event
        && let Some(bytes) = sent.body.0
    {
        changes.put.push((sent.message.0, bytes));
    }
}

/// Bodies that no message needs, which something that is not foreseen here may have left.
pub(super) fn left_over(journal: &Journal, world: &World) -> Result<BodyChanges, Fault> {
    let all = aside(|| journal.body_ids()).map_err(fault)?;
    let is_over = |id: &u64| !world.mail.messages.contains_key(&MessageId(*id));
    Ok(BodyChanges { put: Vec::new(), remove: all.into_iter().filter(is_over).collect() })
}

impl Ledger {
    /// Bodies that stand beside the records of these messages; `None` where a message has none, or is over.
    pub fn bodies(&self, ids: &[MessageId]) -> Result<Vec<Option<Vec<u8>>>, Fault> {
        let ids: Vec<u64> = ids.iter().map(|id| id.0).collect();
        aside(|| self.journal.bodies(&ids)).map_err(fault)
    }
}
