//! What happens in the tree, as a stream. It is read from the journal at the reader's own pace, so a slow reader loses nothing and holds up nobody.

use super::message::contract_name;
use super::process::contract_parent;
use futures_util::Stream;
use futures_util::stream::unfold;
use hive::generated::core::{ProcessEvent, SubscribeEventsRequest};
use hive::tonic::Status;
use tree::{Tree, TreeEvent};
use world::Pid;

/// `since_seq` 0 is from now on, as the contract says.
pub(super) fn events(
    tree: &Tree,
    by: Pid,
    request: SubscribeEventsRequest,
) -> impl Stream<Item = Result<ProcessEvent, Status>> + Send + use<> {
    let events = tree.events(by, Some(request.since_seq).filter(|seq| *seq > 0));
    unfold(events, |mut events| async move {
        let event = events.next().await?;
        Some((Ok(shown(event)), events))
    })
}

fn shown(event: TreeEvent) -> ProcessEvent {
    // Of a message, `ppid` is the other side.
    let is_message = event.kind.starts_with("message_");
    ProcessEvent {
        seq: event.seq,
        timestamp_ms: event.at_ms,
        r#type: event.kind,
        pid: event.pid,
        ppid: if is_message { event.ppid } else { contract_parent(Pid(event.ppid)) },
        name: contract_name(Pid(event.pid), event.name),
        role: event.role,
        tier: event.tier,
        model: event.model,
        state: event.state,
        old_state: event.old_state,
        new_state: event.new_state,
        level: event.level,
        message: event.message,
        reply_to: event.reply_to,
        payload_preview: event.payload_preview,
        trace_id: event.trace_id,
        trace_span: event.trace_span,
        message_id: event.message_id,
        fields: event.fields.into_iter().collect(),
    }
}
