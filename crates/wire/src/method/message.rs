//! Messages between processes.

use serde::{Deserialize, Serialize};
use world::{DropReason, MessageId, MessagePriority, Pid, SenderRelation};

/// Notification of `message.subscribe`: one message, which is taken out of its mailbox.
pub const RECEIVED: &str = "message.received";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageSendParams {
    /// For this process, or
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Pid>,
    /// for whoever reads this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    pub kind: String,
    #[serde(default)]
    pub priority: MessagePriority,
    /// In base64.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    #[serde(default)]
    pub requires_ack: bool,
    /// From then on it is worth nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageSendResult {
    pub message: MessageId,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MessageSubscribeParams {
    /// This queue, instead of the caller's own mailbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Only what is about this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Only what is at least as urgent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<MessagePriority>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessageListParams {
    /// Whose mailbox; the caller's own without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<Pid>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageListResult {
    /// What waits, first things first.
    pub messages: Vec<MessageView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageView {
    pub message: MessageId,
    pub from: Pid,
    pub from_name: String,
    pub relation: SenderRelation,
    pub kind: String,
    pub priority: MessagePriority,
    pub sent_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_ack: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    pub bytes: u64,
    /// In base64.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetterView {
    pub message: MessageId,
    pub from: Pid,
    pub from_name: String,
    /// `process 7`, or `queue results`.
    pub to: String,
    pub kind: String,
    pub why: DropReason,
    pub at_ms: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageDeadResult {
    /// Oldest first.
    pub letters: Vec<DeadLetterView>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamOpenParams {
    /// The caller's parent or child.
    pub peer: Pid,
    /// What both call it.
    pub name: String,
}

/// Notification of `event.follow`: what happened in the process tree, in HiveKernel's words.
pub const EVENT: &str = "tree.event";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EventFollowParams {
    /// What came after this record; what comes from now on without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_seq: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeEventNote {
    /// Number of the record that it is made from.
    pub seq: u64,
    pub at_ms: i64,
    pub kind: String,
    pub pid: u64,
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The beginning of a message, without secrets.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub payload_preview: String,
    /// What it belongs to, as whoever began it says.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub trace_id: String,
}
