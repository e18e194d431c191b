//! Messages between processes.

use super::speaker::GrpcSpeaker;
use super::status::{of_process, refused, status};
use futures_util::Stream;
use futures_util::stream::unfold;
use hive::generated::agent::{AgentMessage, SendMessageRequest, SendMessageResponse};
use hive::generated::core::{ListInboxRequest, ListInboxResponse, SubscribeRequest};
use hive::tonic::Status;
use tree::{QueueFilter, ReceivedMessage, Tree, contract};
use world::{MessagePriority, Pid};

pub(super) async fn send(tree: &Tree, speaker: GrpcSpeaker, request: SendMessageRequest) -> Result<SendMessageResponse, Status> {
    // Who speaks for the kernel sends as the kernel: answers go where such a client looks for them.
    let sender = speaker.me()?;
    let sent = match contract::message_order(request) {
        Ok(order) => tree.send(sender, order).await,
        Err(refusal) => Err(refusal.into()),
    };
    Ok(match sent {
        Ok(id) => SendMessageResponse { delivered: true, message_id: id.to_string(), error: String::new() },
        Err(stop) => SendMessageResponse { delivered: false, message_id: String::new(), error: contract::error_text(&stop) },
    })
}

/// Messages as they come. A reader takes the next one when it is ready for it, so a slow one holds up nobody.
pub(super) async fn subscribe(
    tree: &Tree,
    speaker: GrpcSpeaker,
    request: SubscribeRequest,
) -> Result<impl Stream<Item = Result<AgentMessage, Status>> + Send + use<>, Status> {
    let said = |text: String| Some(text).filter(|text| !text.is_empty());
    // proto3 cannot tell the first priority from none: it filters nothing.
    let least = contract::priority(request.min_priority).map_err(refused)?;
    let min_priority = Some(least).filter(|least| *least != MessagePriority::Critical);
    let filter = QueueFilter { queue: said(request.queue), kind: said(request.type_filter), min_priority };
    let subscription = tree.subscribe(speaker.me()?, filter).await.map_err(status)?;
    Ok(unfold(subscription, |mut subscription| async move {
        let received = subscription.next().await?;
        Some((Ok(shown(received)), subscription))
    }))
}

pub(super) async fn inbox(tree: &Tree, speaker: GrpcSpeaker, request: ListInboxRequest) -> Result<ListInboxResponse, Status> {
    let of = speaker.or_me(request.pid)?;
    let received = tree.inbox(speaker.by, of).await.map_err(of_process(of))?;
    let total = i32::try_from(received.len()).unwrap_or(i32::MAX);
    Ok(ListInboxResponse { messages: received.into_iter().map(shown).collect(), total })
}

fn shown(received: ReceivedMessage) -> AgentMessage {
    let ReceivedMessage { message, body } = received;
    AgentMessage {
        message_id: message.id.to_string(),
        from_pid: message.from.0,
        from_name: contract_name(message.from, message.from_name),
        relation: contract::message_relation(message.relation) as i32,
        r#type: message.kind,
        priority: contract::agent_priority(message.priority) as i32,
        payload: body,
        // The contract counts seconds.
        timestamp: u64::try_from(message.sent_ms / 1_000).unwrap_or(0),
        requires_ack: message.requires_ack,
        reply_to: message.reply_to.unwrap_or_default(),
    }
}

/// The kernel is called king there.
pub(super) fn contract_name(pid: Pid, name: String) -> String {
    if pid == Pid::KERNEL { "king".to_owned() } else { name }
}
