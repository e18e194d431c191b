//! Messages between processes, and the order in which a mailbox gives them out.
//!
//! The effective priority of a message is what its sender's place in the tree is worth, plus its own priority, plus its age. All three
//! are counted in milliseconds. **Why no heap is built again.** Every message ages at the same rate, so the difference between two of
//! them never changes: `(a.boost + now - a.sent) - (b.boost + now - b.sent)` has no `now` in it. The order is therefore fixed when a message is
//! sent, by `sent - boost`, and a mailbox is a sorted set: draining n messages is O(n log n).
//!
//! **Invariant.** A message is waiting, or handed to one incarnation of one process, or gone. Nothing hands it over twice to one incarnation.

use crate::{MessageId, Pid};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What one step of a message's own priority is worth: so much longer a lower one has waited when they are equal.
pub const PRIORITY_STEP_MS: i64 = 10_000;
/// What one step between kernel, parent, sibling and child is worth: more than all steps of a message's own priority.
pub const RELATION_STEP_MS: i64 = 4 * PRIORITY_STEP_MS;

/// A message on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeMessage {
    pub id: MessageId,
    pub from: Pid,
    /// The sender's name, who may be gone when it is read.
    pub from_name: String,
    /// The sender's parent: who may hear him in a queue when he is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_parent: Option<Pid>,
    /// Whom the sender acts for.
    #[serde(default)]
    pub from_user: String,
    pub to: Recipient,
    pub relation: SenderRelation,
    /// What it is about, in the sender's word.
    pub kind: String,
    pub priority: MessagePriority,
    pub sent_ms: i64,
    /// From then on it is worth nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_ack: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// Its body; a short one stands beside the record instead, under the message's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    pub bytes: u64,
    /// The message that this is a copy of, for whoever sees the traffic of its children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<MessageId>,
    /// How often it was handed over.
    #[serde(default)]
    pub handed: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<MessageHolder>,
    /// Who sent it one level up instead of answering, first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalated_by: Vec<Pid>,
}

impl TreeMessage {
    /// Its place in a mailbox: less goes first, and no time that passes changes which of two does.
    pub fn place_ms(&self) -> i64 {
        place_ms(self.sent_ms, self.relation, self.priority)
    }

    /// What it is worth at `now_ms`: more goes first.
    pub fn effective_priority(&self, now_ms: i64) -> i64 {
        now_ms.saturating_sub(self.place_ms())
    }

    pub fn is_over(&self, now_ms: i64) -> bool {
        self.deadline_ms.is_some_and(|deadline| deadline <= now_ms)
    }
}

/// The place in a mailbox of a message that is sent then.
pub fn place_ms(sent_ms: i64, relation: SenderRelation, priority: MessagePriority) -> i64 {
    sent_ms.saturating_sub(boost_ms(relation, priority))
}

fn boost_ms(relation: SenderRelation, priority: MessagePriority) -> i64 {
    relation.rank() * RELATION_STEP_MS + priority.rank() * PRIORITY_STEP_MS
}

/// A short body on its way to its place beside the record.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct MessageBody(pub Option<std::sync::Arc<[u8]>>);

/// Says nothing of what it holds: it may be a secret.
impl std::fmt::Debug for MessageBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.as_ref().map_or(0, |bytes| bytes.len()))
    }
}

/// Who has a message that is not answered yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageHolder {
    pub pid: Pid,
    pub incarnation: u64,
    /// It said that it will answer later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_queued: bool,
}

/// Whom a message is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recipient {
    Process(Pid),
    /// Whoever reads this queue and may hear the sender.
    Queue(String),
}

/// What the sender is to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SenderRelation {
    /// The kernel, or the operator.
    Kernel,
    /// Its parent, or one above that.
    Parent,
    Sibling,
    /// A child of it, or one below that.
    Child,
    /// One of another branch.
    Branch,
}

impl SenderRelation {
    fn rank(self) -> i64 {
        match self {
            SenderRelation::Kernel => 3,
            SenderRelation::Parent => 2,
            SenderRelation::Sibling => 1,
            SenderRelation::Child | SenderRelation::Branch => 0,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            SenderRelation::Kernel => "kernel",
            SenderRelation::Parent => "parent",
            SenderRelation::Sibling => "sibling",
            SenderRelation::Child => "child",
            SenderRelation::Branch => "branch",
        }
    }
}

/// How urgent the sender says it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessagePriority {
    Critical,
    High,
    #[default]
    Normal,
    Low,
}

impl MessagePriority {
    fn rank(self) -> i64 {
        match self {
            MessagePriority::Critical => 3,
            MessagePriority::High => 2,
            MessagePriority::Normal => 1,
            MessagePriority::Low => 0,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            MessagePriority::Critical => "critical",
            MessagePriority::High => "high",
            MessagePriority::Normal => "normal",
            MessagePriority::Low => "low",
        }
    }
}

/// What a receiver says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyStatus {
    /// It is dealt with.
    Accepted,
    /// It will be: the receiver keeps it and answers again.
    Queued,
    /// It is a dead letter.
    Rejected,
    /// It goes to the receiver's parent.
    Escalate,
    /// The receiver has not seen it, or wants it later: it waits again, in its old place.
    Returned,
}

/// Why a message reached nobody, or nobody answered it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// Its time was over before anybody had it.
    Expired,
    /// The receiver said no.
    Rejected,
    /// It was handed over, and its receiver ended before it answered: nobody knows whether it had an effect.
    Unknown,
    /// The receiver ended before it had it.
    Ended,
    /// The mailbox had no room for it.
    Full,
    /// It went up to the top, and nobody took it.
    Unhandled,
    /// The sender or the operator took it back.
    Withdrawn,
}

impl DropReason {
    pub fn as_str(self) -> &'static str {
        match self {
            DropReason::Expired => "expired",
            DropReason::Rejected => "rejected",
            DropReason::Unknown => "unknown",
            DropReason::Ended => "ended",
            DropReason::Full => "full",
            DropReason::Unhandled => "unhandled",
            DropReason::Withdrawn => "withdrawn",
        }
    }
}

/// A message that nobody answered, for whoever asks what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    pub message: TreeMessage,
    pub why: DropReason,
    pub at_ms: i64,
}

/// The messages of one process or queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mailbox {
    /// By place, then in the order in which they came.
    waiting: BTreeSet<(i64, MessageId)>,
    /// Handed over and not answered.
    handed: BTreeSet<MessageId>,
}

impl Mailbox {
    /// What waits, first things first.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = MessageId> {
        self.waiting.iter().map(|(_, id)| *id)
    }

    /// What was handed over and is not answered.
    pub fn handed(&self) -> impl ExactSizeIterator<Item = MessageId> {
        self.handed.iter().copied()
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.handed.is_empty()
    }
}

/// All messages that are on their way, and the dead letters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mail {
    pub messages: BTreeMap<MessageId, TreeMessage>,
    pub boxes: BTreeMap<Pid, Mailbox>,
    pub queues: BTreeMap<String, Mailbox>,
    /// Those that wait and have a deadline, by it.
    deadlines: BTreeSet<(i64, MessageId)>,
    /// Oldest first, at most [`crate::limits::DEAD_LETTERS_MAX`].
    pub dead: VecDeque<DeadLetter>,
}

impl Mail {
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.dead.is_empty()
    }

    /// How many wait for this receiver.
    pub fn waiting(&self, to: &Recipient) -> usize {
        self.mailbox(to).map_or(0, |mailbox| mailbox.waiting.len())
    }

    fn mailbox(&self, to: &Recipient) -> Option<&Mailbox> {
        match to {
            Recipient::Process(pid) => self.boxes.get(pid),
            Recipient::Queue(name) => self.queues.get(name),
        }
    }

    /// What a receiver is to have next, at `now_ms`: what is over is passed by.
    pub fn next(&self, to: &Recipient, now_ms: i64) -> Option<&TreeMessage> {
        self.in_order(to).find(|message| !message.is_over(now_ms))
    }

    /// What waits for a receiver, first things first.
    pub fn in_order(&self, to: &Recipient) -> impl Iterator<Item = &TreeMessage> {
        self.mailbox(to).into_iter().flat_map(Mailbox::waiting).filter_map(|id| self.messages.get(&id))
    }

    /// Those that wait and whose time is over.
    pub fn expired(&self, now_ms: i64) -> impl Iterator<Item = &TreeMessage> {
        self.deadlines.iter().take_while(move |(deadline, _)| *deadline <= now_ms).filter_map(|(_, id)| self.messages.get(id))
    }

    /// When the next one's time is over.
    pub fn next_deadline_ms(&self) -> Option<i64> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// What this sender's messages came to that nobody answered.
    pub fn dead_of(&self, from: Pid) -> impl Iterator<Item = &DeadLetter> {
        self.dead.iter().filter(move |letter| letter.message.from == from)
    }

    pub(crate) fn add(&mut self, message: TreeMessage) {
        let place = (message.place_ms(), message.id);
        match &message.to {
            Recipient::Process(pid) => self.boxes.entry(*pid).or_default().waiting.insert(place),
            Recipient::Queue(name) => self.queues.entry(name.clone()).or_default().waiting.insert(place),
        };
        self.deadlines.extend(message.deadline_ms.map(|deadline| (deadline, message.id)));
        self.messages.insert(message.id, message);
    }

    /// Takes a message out of wherever it is.
    pub(crate) fn take(&mut self, id: MessageId) -> Option<TreeMessage> {
        let message = self.messages.remove(&id)?;
        if let Some(holder) = message.holder {
            let mailbox = self.boxes.entry(holder.pid).or_default();
            mailbox.handed.remove(&id);
            if mailbox.is_empty() {
                self.boxes.remove(&holder.pid);
            }
            return Some(message);
        }
        let place = (message.place_ms(), id);
        if let Some(deadline) = message.deadline_ms {
            self.deadlines.remove(&(deadline, id));
        }
        match &message.to {
            Recipient::Process(pid) => {
                let mailbox = self.boxes.entry(*pid).or_default();
                mailbox.waiting.remove(&place);
                if mailbox.is_empty() {
                    self.boxes.remove(pid);
                }
            }
            Recipient::Queue(name) => {
                let mailbox = self.queues.entry(name.clone()).or_default();
                mailbox.waiting.remove(&place);
                if mailbox.is_empty() {
                    self.queues.remove(name);
                }
            }
        }
        Some(message)
    }

    pub(crate) fn hand(&mut self, id: MessageId, pid: Pid, incarnation: u64) {
        let Some(mut message) = self.take(id) else { return };
        message.handed += 1;
        message.holder = Some(MessageHolder { pid, incarnation, is_queued: false });
        self.boxes.entry(pid).or_default().handed.insert(id);
        self.messages.insert(id, message);
    }

    /// A message that was handed over waits again, in its old place.
    pub(crate) fn put_back(&mut self, id: MessageId) {
        if let Some(mut message) = self.take(id) {
            message.holder = None;
            self.add(message);
        }
    }

    pub(crate) fn bury(&mut self, id: MessageId, why: DropReason, at_ms: i64) {
        // Nobody misses a copy that nobody looked at.
        if let Some(message) = self.take(id).filter(|message| message.copy_of.is_none()) {
            self.dead.push_back(DeadLetter { message, why, at_ms });
            while self.dead.len() > crate::limits::DEAD_LETTERS_MAX {
                self.dead.pop_front();
            }
        }
    }
}
