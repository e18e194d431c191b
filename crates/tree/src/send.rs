//! `message.send`: one message, its copies and its body in one commit.

use crate::calls::{CallEffect, TreeCall};
use crate::mailroom::{Arrival, is_pushed};
use crate::preview::MessagePreview;
use crate::{MessageOrder, Tree, TreeCaller};
use gate::TreeRequest;
use serde_json::json;
use std::sync::Arc;
use world::event::MessageSent;
use world::{
    Code, Event, MessageBody, MessageId, MessagePriority, Pid, Recipient, Refusal, Route, SenderRelation, Stop, World, limits, place_ms,
    route,
};

/// Kinds of copies for whoever sees the traffic of its children.
const SIBLINGS: &str = "sibling_traffic:";
const BRANCHES: &str = "branch_traffic:";

impl Tree {
    /// Sends a message. It is on disk when this returns, with its body.
    pub async fn send(&self, by: impl Into<TreeCaller>, order: MessageOrder) -> Result<MessageId, Stop> {
        let TreeCaller { pid: by, asked } = by.into();
        check(&order)?;
        if let Some(refusal) = self.ledger.flood_refusal(by) {
            return Err(refusal.into());
        }
        let preview = || Arc::new(MessagePreview::of(&self.ledger.redactor, &order.body));
        let preview = self.mail.previews.is_followed().then(preview);
        let mail = Outgoing::new(self, order)?;
        let to = mail.order.to.clone();
        let input = json!({ "to": to, "kind": mail.order.kind, "bytes": mail.bytes });
        let call = TreeCall { by, tool: "message.send", input, about: Some(TreeRequest::Send { to }), read_only: false };
        let sent = self
            .commit_asked(call, asked, |world, _, now_ms| {
                let SentMail { events, arrivals, unseen_by } = mail.events(world, by, now_ms)?;
                let id = arrivals[0].id;
                if let Some(preview) = &preview {
                    self.mail.previews.keep(id, preview);
                }
                Ok(CallEffect { events, output: json!({ "message": id }), value: (arrivals, unseen_by) })
            })
            .await?;
        let (sent, unseen_by) = sent;
        if let Some(above) = unseen_by {
            self.count_unseen(above);
        }
        self.announce(&sent);
        Ok(sent[0].id)
    }
}

/// A message with its body in its place.
pub(crate) struct Outgoing {
    pub order: MessageOrder,
    bytes: u64,
    body: MessageBody,
    blob: Option<String>,
}

/// A message on its way.
pub(crate) struct SentMail {
    pub events: Vec<Event>,
    /// What arrives by it, the message first.
    pub arrivals: Vec<Arrival>,
    /// Who was to see it and has too many to see already.
    pub unseen_by: Option<Pid>,
}

impl Outgoing {
    /// A short body goes beside the record, a longer one is kept now.
    pub fn new(tree: &Tree, mut order: MessageOrder) -> Result<Outgoing, Stop> {
        let body = std::mem::take(&mut order.body);
        let bytes = body.len() as u64;
        Ok(match body.len() {
            0 => Outgoing { order, bytes, body: MessageBody::default(), blob: None },
            len if len <= limits::MESSAGE_INLINE_MAX => Outgoing { order, bytes, body: MessageBody(Some(Arc::from(body))), blob: None },
            _ => Outgoing { order, bytes, body: MessageBody::default(), blob: Some(tree.ledger.keep(&body)?) },
        })
    }

    /// What sending it comes to.
    pub fn events(&self, world: &World, by: Pid, now_ms: i64) -> Result<SentMail, Refusal> {
        let MessageOrder { to, .. } = &self.order;
        let way = way(world, by, to)?;
        room_for(world, to)?;
        let id = world.next_message();
        let ttl_ms = self.order.ttl.map(|ttl| i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX));
        let deadline_ms = ttl_ms.map(|ttl| now_ms.saturating_add(ttl));
        let sent = MessageSent {
            pid: by,
            task: None,
            message: id,
            to: to.clone(),
            relation: way.relation,
            kind: self.order.kind.clone(),
            priority: self.order.priority,
            bytes: self.bytes,
            deadline_ms,
            requires_ack: self.order.requires_ack,
            reply_to: self.order.reply_to.clone(),
            blob: self.blob.clone(),
            copy_of: None,
            body: self.body.clone(),
        };
        let copy = way.seen_by.and_then(|above| copy(world, &sent, above, now_ms));
        let is_alive = |above: &Pid| world.processes.get(above).is_some_and(|process| process.state.alive());
        let unseen_by = way.seen_by.filter(|above| copy.is_none() && is_alive(above));
        let events: Vec<MessageSent> = std::iter::once(sent).chain(copy).collect();
        let arrivals = events.iter().map(|event| arrival(world, event, now_ms)).collect();
        Ok(SentMail { events: events.into_iter().map(Event::from).collect(), arrivals, unseen_by })
    }
}

fn arrival(world: &World, sent: &MessageSent, now_ms: i64) -> Arrival {
    Arrival {
        id: sent.message,
        to: sent.to.clone(),
        kind: sent.kind.clone(),
        priority: sent.priority,
        place_ms: place_ms(now_ms, sent.relation, sent.priority),
        deadline_ms: sent.deadline_ms,
        is_pushed: sent.copy_of.is_none() && is_pushed(world, &sent.to),
    }
}

/// The copy for whoever sees it, unless he has more of them than anybody reads.
fn copy(world: &World, sent: &MessageSent, above: Pid, now_ms: i64) -> Option<MessageSent> {
    let to = Recipient::Process(above);
    let is_alive = world.processes.get(&above).is_some_and(|process| process.state.alive());
    if !is_alive || world.mail.waiting(&to) >= limits::COPIES_MAX {
        return None;
    }
    let over_ms = now_ms.saturating_add(limits::COPY_TTL_MS);
    let prefix = if sent.relation == SenderRelation::Sibling { SIBLINGS } else { BRANCHES };
    Some(MessageSent {
        message: MessageId(sent.message.0 + 1),
        to,
        relation: SenderRelation::Child,
        kind: format!("{prefix}{}", sent.kind),
        deadline_ms: Some(sent.deadline_ms.map_or(over_ms, |deadline| deadline.min(over_ms))),
        requires_ack: false,
        copy_of: Some(sent.message),
        ..sent.clone()
    })
}

fn way(world: &World, by: Pid, to: &Recipient) -> Result<Route, Refusal> {
    match to {
        Recipient::Process(to) => route(world, by, *to).map_err(|refusal| Refusal::new(Code::Denied, refusal.to_string())),
        Recipient::Queue(name) => {
            if !world.mail.queues.contains_key(name) && world.mail.queues.len() >= limits::QUEUES_MAX {
                let full = format!("there are {} queues with messages in them", limits::QUEUES_MAX);
                return Err(Refusal::new(Code::Exhausted, full).hint("read one of them first"));
            }
            let is_top = by == Pid::KERNEL || by == Pid::OPERATOR;
            let relation = if is_top { SenderRelation::Kernel } else { SenderRelation::Branch };
            Ok(Route { relation, seen_by: None })
        }
    }
}

fn room_for(world: &World, to: &Recipient) -> Result<(), Refusal> {
    let waiting = world.mail.waiting(to);
    if waiting < limits::MAILBOX_MAX {
        return Ok(());
    }
    Err(Refusal::new(Code::Exhausted, format!("{waiting} messages wait there already")).hint("wait until some of them are read"))
}

fn check(order: &MessageOrder) -> Result<(), Refusal> {
    let too_large = |what: &str, len: usize, max: usize| {
        let reason = format!("the {what} has {len} bytes, and may have {max}");
        if len > max { Err(Refusal::new(Code::TooLarge, reason)) } else { Ok(()) }
    };
    if let Recipient::Queue(name) = &order.to {
        if name.is_empty() {
            return Err(Refusal::new(Code::BadInput, "a queue has a name"));
        }
        too_large("queue's name", name.len(), limits::QUEUE_NAME_MAX)?;
    }
    too_large("kind", order.kind.len(), limits::MESSAGE_KIND_MAX)?;
    too_large("`reply_to`", order.reply_to.as_ref().map_or(0, String::len), limits::MESSAGE_KIND_MAX)?;
    too_large("body", order.body.len(), limits::MESSAGE_BYTES_MAX)
}

/// The kernel's own word to a process, as part of a commit: nothing where it has ended or its mailbox is full.
pub(crate) fn notice(world: &World, to: Pid, kind: &str, body: Vec<u8>, now_ms: i64) -> Option<(MessageSent, Arrival)> {
    let way = route(world, Pid::KERNEL, to).ok()?;
    let to = Recipient::Process(to);
    room_for(world, &to).ok()?;
    let sent = MessageSent {
        pid: Pid::KERNEL,
        task: None,
        message: world.next_message(),
        to,
        relation: way.relation,
        kind: kind.to_owned(),
        priority: MessagePriority::High,
        bytes: body.len() as u64,
        deadline_ms: None,
        requires_ack: false,
        reply_to: None,
        blob: None,
        copy_of: None,
        body: MessageBody(Some(Arc::from(body))),
    };
    let arrival = arrival(world, &sent, now_ms);
    Some((sent, arrival))
}
