//! Handing one message to the program of a process.

use crate::{HandOverError, Tree, contract};
use hive::LinkErrorKind;
use hive::generated::agent::{AckStatus, AgentMessage};
use world::{Pid, ReplyStatus, TreeMessage};

impl Tree {
    pub(crate) async fn hand_over(
        &self,
        pid: Pid,
        message: &TreeMessage,
        body: Vec<u8>,
    ) -> Result<(ReplyStatus, Option<String>), HandOverError> {
        let live = self.live(pid).ok_or_else(|| HandOverError::NotSent(format!("process {pid} does not run")))?;
        if live.is_ending() || live.is_held() {
            return Err(HandOverError::NotSent(format!("process {pid} is stopped")));
        }
        let message = AgentMessage {
            message_id: message.id.to_string(),
            from_pid: message.from.0,
            // The contract calls the kernel king.
            from_name: if message.from == Pid::KERNEL { "king".to_owned() } else { message.from_name.clone() },
            relation: contract::message_relation(message.relation).into(),
            r#type: message.kind.clone(),
            priority: contract::agent_priority(message.priority).into(),
            payload: body,
            timestamp: u64::try_from(message.sent_ms / 1_000).unwrap_or(0),
            requires_ack: message.requires_ack,
            reply_to: message.reply_to.clone().unwrap_or_default(),
        };
        match live.link.deliver(message).await {
            Ok(ack) => {
                let status = match AckStatus::try_from(ack.status) {
                    Ok(AckStatus::AckAccepted) => ReplyStatus::Accepted,
                    Ok(AckStatus::AckQueued) => ReplyStatus::Queued,
                    Ok(AckStatus::AckRejected) => ReplyStatus::Rejected,
                    Ok(AckStatus::AckEscalate) => ReplyStatus::Escalate,
                    Err(_) => return Err(HandOverError::NoAnswer(format!("it acknowledged with the unknown status {}", ack.status))),
                };
                Ok((status, Some(ack.reply).filter(|reply| !reply.is_empty())))
            }
            Err(error) if matches!(error.kind, LinkErrorKind::Connection(_)) => Err(HandOverError::NotSent(error.to_string())),
            Err(error) => Err(HandOverError::NoAnswer(error.to_string())),
        }
    }
}
