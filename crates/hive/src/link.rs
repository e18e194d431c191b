//! The kernel's link to one agent: all that a kernel asks of it.
//!
//! The caller brings the connection, because only it knows the way: an agent in a room is reached through an inlet. A link has one connection;
//! when that is lost the link is, and the caller makes another.
//!
//! **Invariant.** Every answer has a bound of bytes and of time, or the caller said that it has none.

pub(crate) mod execution;
pub(crate) mod fault;

use crate::channel::GrpcChannel;
use crate::generated::agent::agent_service_client::AgentServiceClient;
use crate::generated::agent::{
    AgentMessage, HeartbeatRequest, HeartbeatResponse, InitRequest, InterruptRequest, InterruptResponse, MessageAck, ShutdownReason,
    ShutdownRequest, ShutdownResponse, TaskRequest,
};
use crate::limits::LinkLimits;
use execution::Execution;
use fault::{LinkError, LinkErrorKind};
use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tonic::{Response, Status};

/// By which an agent says, with its answer to `Init`, that a message may be delivered to it again.
const REMEMBERS_HEADER: &str = "x-skep-remembers-ids";

/// Work of a trait whose method somebody else writes.
pub type HiveFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Connects to an agent on this machine's loopback: one that runs in no room.
pub async fn connect_loopback(port: u16) -> io::Result<TcpStream> {
    // Agents listen on both families; those of an IPv4 host on this one only.
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// One agent, connected. Cheap to copy; the connection ends with the last copy and the last execution.
#[derive(Clone, Debug)]
pub struct AgentLink {
    client: AgentServiceClient<GrpcChannel>,
    channel: GrpcChannel,
    limits: Arc<LinkLimits>,
}

impl AgentLink {
    /// Begins HTTP/2 on a connection to the agent. A TCP stream must have `nodelay` set, or each call takes the 40 ms of a delayed
    /// acknowledgement; an inlet of a room is handed over as `Pin::new(inlet)`.
    pub async fn connect<S>(stream: S, limits: LinkLimits) -> Result<AgentLink, LinkError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let channel = GrpcChannel::open(stream, &limits).await?;
        let client = AgentServiceClient::with_origin(channel.clone(), GrpcChannel::origin())
            .max_decoding_message_size(limits.message_bytes_max)
            .max_encoding_message_size(limits.message_bytes_max);
        Ok(AgentLink { client, channel, limits: Arc::new(limits) })
    }

    /// The connection is lost: every further call fails.
    pub fn is_closed(&self) -> bool {
        self.channel.is_closed()
    }

    /// Tells the agent who it is. Done when it says that it is ready; true where it says too that it remembers the ids of messages.
    pub async fn init(&self, request: InitRequest) -> Result<bool, LinkError> {
        let mut client = self.client.clone();
        let call = async { client.init(request).await.map(Response::new) };
        let answer = within("Init", self.limits.init_timeout, call).await?;
        let remembers = answer.metadata().get(REMEMBERS_HEADER).is_some_and(|value| value == "1");
        let answer = answer.into_inner();
        if answer.ready { Ok(remembers) } else { Err(LinkErrorKind::NotReady(answer.error).of("Init")) }
    }

    /// Asks how the agent is.
    pub async fn heartbeat(&self, timestamp: u64) -> Result<HeartbeatResponse, LinkError> {
        let mut client = self.client.clone();
        within("Heartbeat", self.limits.heartbeat_timeout, client.heartbeat(HeartbeatRequest { timestamp })).await
    }

    /// Gives the agent a task. Nothing is sent before the execution is asked for its first event. `None` is no limit of time.
    pub fn execute(&self, task: TaskRequest, timeout: Option<Duration>) -> Execution {
        Execution::new(self.client.clone(), task, timeout, self.limits.open_calls_max)
    }

    /// Has the agent break off a task; what it has of it comes back.
    pub async fn interrupt(&self, task_id: &str, reason: &str) -> Result<InterruptResponse, LinkError> {
        let mut client = self.client.clone();
        let request = InterruptRequest { task_id: task_id.to_owned(), reason: reason.to_owned() };
        within("Interrupt", self.limits.interrupt_timeout, client.interrupt(request)).await
    }

    /// Hands the agent a message and waits until it has handled it.
    pub async fn deliver(&self, message: AgentMessage) -> Result<MessageAck, LinkError> {
        let mut client = self.client.clone();
        let id = message.message_id.clone();
        let ack = within("DeliverMessage", self.limits.deliver_timeout, client.deliver_message(message)).await?;
        // An agent may leave the id out. If it gives one, it is of this message.
        if ack.message_id.is_empty() || ack.message_id == id {
            Ok(ack)
        } else {
            Err(LinkErrorKind::OtherMessage { expected: id, found: ack.message_id }.of("DeliverMessage"))
        }
    }

    /// Asks the agent to end itself, and gets what it wants back at its next start and what it has of its task.
    pub async fn shutdown(&self, reason: ShutdownReason, grace: Duration) -> Result<ShutdownResponse, LinkError> {
        let mut client = self.client.clone();
        let grace_period_seconds = u32::try_from(grace.as_secs()).unwrap_or(u32::MAX);
        let request = ShutdownRequest { reason: reason.into(), grace_period_seconds };
        within("Shutdown", grace + self.limits.shutdown_margin, client.shutdown(request)).await
    }
}

async fn within<T>(
    method: &'static str,
    timeout: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<T, LinkError> {
    match tokio::time::timeout(timeout, call).await {
        Ok(Ok(answer)) => Ok(answer.into_inner()),
        Ok(Err(status)) => Err(LinkErrorKind::Status(Box::new(status)).of(method)),
        Err(_) => Err(LinkErrorKind::Timeout(timeout).of(method)),
    }
}
