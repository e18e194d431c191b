//! HiveKernel's gRPC contract: its messages, the client of one agent, and listeners that know who speaks on them.
//!
//! A driver: the one outside thing is HTTP/2 with gRPC on it. `proto/` has the contract, `generated` what is made of it. [`AgentLink`] is the
//! kernel's side of one agent; [`serve`] answers agents, tools and people with a `CoreService` that somebody else implements.
//!
//! **Invariant.** The listener, a peer's credentials or a secret say who speaks; a header alone says it only where the operator trusts it.
//! Everything that a peer can send has a bound: its bytes, its streams, its connections, its time.
//!
//! It does not know the kernel, what a process may do, or what any message means.
#![forbid(unsafe_code)]

mod byte_stream;
mod channel;
pub mod generated;
mod identity;
pub mod limits;
mod link;
mod metadata;
mod outbox;
mod ready;
mod secret;
mod serve;
mod stream_tasks;
mod tcp_owner;

pub use byte_stream::{
    BYTE_STREAM_PATH, ByteStreams, ChunkStream, PEER_HEADER, STREAM_HEADER, StreamChunk, StreamRequest, TreeServices, WAIT_HEADER,
    tree_services,
};
pub use channel::GrpcChannel;
pub use identity::{CallerOrigin, PeerIdentity, RpcCaller, may_lack_pid};
pub use limits::{LinkLimits, ReadyLimits, ServeLimits};
pub use link::execution::{Execution, ExecutionEnd, ExecutionHost, ProgressNote, TaskEvent};
pub use link::fault::{LinkError, LinkErrorKind};
pub use link::{AgentLink, HiveFuture, connect_loopback};
pub use metadata::{PID_HEADER, SECRET_HEADER, parse_pid};
pub use outbox::{Lagging, Outbox, OutboxStream, outbox};
pub use ready::{AgentReady, ReadyError, ReadyErrorKind, ReadyScanner, wait_ready};
pub use secret::{ProcessSecrets, SecretError};
pub use serve::{GrpcListener, GrpcRequestBody, IdentifyPeer, ServeCounts, ServerHandle, UnixPeer, core_service, serve};
pub use tcp_owner::{TcpOwnerError, tcp_peer_uid};
pub use tonic;
