//! Messages: sent, handed over, answered or dropped.

use super::{CheckResult, Transition, alive, ensure};
use crate::event::{MessageAnswered, MessageDelivered, MessageDropped, MessageSent};
use crate::{DropReason, MessageId, Pid, Recipient, ReplyStatus, SenderRelation, TreeMessage, World, limits, route};

impl Transition for MessageSent {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)?;
        ensure(self.message == world.next_message(), || format!("{} is not the next", self.message))?;
        if let Some(of) = self.copy_of {
            ensure(of < self.message, || format!("{} is no copy of {of}", self.message))?;
        }
        match &self.to {
            Recipient::Queue(name) => {
                ensure(!name.is_empty() && name.len() <= limits::QUEUE_NAME_MAX, || "a queue has a name".into())?;
                let is_known = world.mail.queues.contains_key(name);
                ensure(is_known || world.mail.queues.len() < limits::QUEUES_MAX, || "there are too many queues".into())?;
            }
            Recipient::Process(to) => {
                // A copy goes to whoever sees the traffic, whatever he is to the sender.
                if self.copy_of.is_none() {
                    let route = route(world, self.pid, *to).map_err(|refusal| refusal.to_string())?;
                    let relation = self.relation;
                    ensure(route.relation == relation, || format!("process {} is no {} of {to}", self.pid, relation.as_str()))?;
                }
                alive(world, *to)?;
            }
        }
        ensure(world.mail.waiting(&self.to) < limits::MAILBOX_MAX, || "the mailbox is full".into())
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        world.last.message = world.last.message.max(self.message.0);
        let sender = world.processes.get(&self.pid);
        let from_name = sender.map(|process| process.name.clone()).unwrap_or_default();
        let from_parent = sender.and_then(|process| process.parent);
        let message = TreeMessage {
            id: self.message,
            from: self.pid,
            from_name,
            from_parent,
            from_user: sender.map(|process| process.user.clone()).unwrap_or_default(),
            to: self.to.clone(),
            relation: self.relation,
            kind: self.kind.clone(),
            priority: self.priority,
            sent_ms: at_ms,
            deadline_ms: self.deadline_ms,
            requires_ack: self.requires_ack,
            reply_to: self.reply_to.clone(),
            blob: self.blob.clone(),
            bytes: self.bytes,
            copy_of: self.copy_of,
            handed: 0,
            holder: None,
            escalated_by: Vec::new(),
        };
        // Whatever is recorded can be applied: nobody has two messages of one id.
        world.mail.take(self.message);
        world.mail.add(message);
    }
}

impl Transition for MessageDelivered {
    fn check(&self, world: &World) -> CheckResult {
        for id in all(self.message, &self.further) {
            let message = find(world, id)?;
            ensure(message.holder.is_none(), || format!("{} was handed over", message.id))?;
            ensure(!message.is_over(world.now_ms), || format!("the time of {} is over", message.id))?;
            match &message.to {
                Recipient::Process(to) => ensure(*to == self.pid, || format!("{} is for process {to}", message.id))?,
                // A queue is no way round the routes.
                Recipient::Queue(_) => drop(world.queue_route(message, self.pid).map_err(|refusal| refusal.to_string())?),
            }
        }
        alive(world, self.pid)?;
        let Some(process) = world.processes.get(&self.pid) else { return Err(format!("no process {}", self.pid)) };
        let runs = match (&process.program, &process.run) {
            (Some(program), Some(run)) => !program.runtime.has_program() || run.is_up,
            _ => true,
        };
        ensure(runs, || format!("process {} does not run", self.pid))?;
        ensure(process.incarnation() == self.incarnation, || format!("process {} is in another incarnation", self.pid))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        all(self.message, &self.further).for_each(|id| world.mail.hand(id, self.pid, self.incarnation));
    }
}

impl Transition for MessageAnswered {
    fn check(&self, world: &World) -> CheckResult {
        all(self.message, &self.further).try_for_each(|id| {
            let holds = find(world, id)?.holder.is_some_and(|holder| holder.pid == self.pid);
            ensure(holds, || format!("process {} does not have {id}", self.pid))
        })
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        for id in all(self.message, &self.further) {
            match self.status {
                ReplyStatus::Accepted => drop(world.mail.take(id)),
                ReplyStatus::Rejected => world.mail.bury(id, DropReason::Rejected, at_ms),
                ReplyStatus::Returned => world.mail.put_back(id),
                ReplyStatus::Queued => {
                    if let Some(holder) = world.mail.messages.get_mut(&id).and_then(|message| message.holder.as_mut()) {
                        holder.is_queued = true;
                    }
                }
                ReplyStatus::Escalate => escalate(world, id, self.pid, at_ms),
            }
        }
    }
}

impl Transition for MessageDropped {
    fn check(&self, world: &World) -> CheckResult {
        all(self.message, &self.further).try_for_each(|id| find(world, id).map(drop))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        all(self.message, &self.further).for_each(|id| world.mail.bury(id, self.why, at_ms));
    }
}

fn all(first: MessageId, further: &[MessageId]) -> impl Iterator<Item = MessageId> {
    std::iter::once(first).chain(further.iter().copied())
}

fn find(world: &World, id: MessageId) -> Result<&TreeMessage, String> {
    world.mail.messages.get(&id).ok_or_else(|| format!("no {id}"))
}

/// One level up, with the age that it has. The kernel has nobody above it.
fn escalate(world: &mut World, id: MessageId, by: Pid, at_ms: i64) {
    let Some(above) = world.nearest_live_ancestor(by) else { return world.mail.bury(id, DropReason::Unhandled, at_ms) };
    let Some(mut message) = world.mail.take(id) else { return };
    message.holder = None;
    message.to = Recipient::Process(above);
    // What comes from below is worth what a child's message is; the kernel's word stays the kernel's.
    if message.relation != SenderRelation::Kernel {
        message.relation = SenderRelation::Child;
    }
    message.escalated_by.push(by);
    world.mail.add(message);
}
