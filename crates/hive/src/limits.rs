//! What a peer may send and how long it may take. Every bound of this crate is here, with its reason.

use std::time::Duration;

/// The largest message in either direction. gRPC's own default, which clients that people have are made for.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// All headers of a request. Ours are some hundred bytes.
pub const HEADER_BYTES_MAX: u32 = 16 * 1024;

/// The contract gives a program ten seconds to say `READY`.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// The bounds of one listener.
#[derive(Clone, Debug)]
pub struct ServeLimits {
    /// Connections at once. One more is closed as soon as it is accepted.
    pub connections_max: usize,
    /// Open calls of one connection; HTTP/2 has the client wait with more.
    pub streams_max: u32,
    /// Bytes of one message, in and out.
    pub message_bytes_max: usize,
    /// Bytes of all requests of the listener that have begun and are not complete. A message is only parsed when it is whole, so this is what
    /// a peer can make us hold.
    pub pending_bytes_max: usize,
    /// Bytes of answers that one stream holds for a peer that does not read.
    pub send_buffer_bytes_max: usize,
    /// How long a request may take to arrive. `None` for a service with streams from its clients.
    pub request_timeout: Option<Duration>,
    /// How long a connection may take to begin HTTP/2.
    pub greeting_timeout: Duration,
    /// A peer is asked this often whether it is still there,
    pub keepalive_interval: Duration,
    /// and must answer within this.
    pub keepalive_timeout: Duration,
}

impl Default for ServeLimits {
    fn default() -> ServeLimits {
        ServeLimits {
            connections_max: 256,
            streams_max: 128,
            message_bytes_max: MESSAGE_BYTES_MAX,
            pending_bytes_max: 64 * 1024 * 1024,
            send_buffer_bytes_max: 64 * 1024,
            request_timeout: Some(Duration::from_secs(30)),
            greeting_timeout: Duration::from_secs(10),
            keepalive_interval: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
        }
    }
}

/// The bounds of a kernel's link to one agent.
#[derive(Clone, Debug)]
pub struct LinkLimits {
    /// Bytes of one message, in and out.
    pub message_bytes_max: usize,
    /// Calls of one task that are not answered yet.
    pub open_calls_max: usize,
    pub init_timeout: Duration,
    pub heartbeat_timeout: Duration,
    pub interrupt_timeout: Duration,
    /// Agents handle a message before they acknowledge it, and may ask a model for that.
    pub deliver_timeout: Duration,
    /// What an agent gets on top of the grace that `Shutdown` tells it.
    pub shutdown_margin: Duration,
    pub keepalive_interval: Duration,
    pub keepalive_timeout: Duration,
}

impl Default for LinkLimits {
    fn default() -> LinkLimits {
        LinkLimits {
            message_bytes_max: MESSAGE_BYTES_MAX,
            open_calls_max: 64,
            init_timeout: Duration::from_secs(10),
            heartbeat_timeout: Duration::from_secs(5),
            interrupt_timeout: Duration::from_secs(10),
            deliver_timeout: Duration::from_secs(60),
            shutdown_margin: Duration::from_secs(2),
            // Agents of grpc answer pings below their own code, also while a task runs.
            keepalive_interval: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
        }
    }
}

/// The bounds of the wait for a program's `READY` line.
#[derive(Clone, Debug)]
pub struct ReadyLimits {
    pub timeout: Duration,
    /// Bytes of earlier output that are kept: the last ones.
    pub output_bytes_max: usize,
}

impl Default for ReadyLimits {
    fn default() -> ReadyLimits {
        ReadyLimits { timeout: READY_TIMEOUT, output_bytes_max: 64 * 1024 }
    }
}
