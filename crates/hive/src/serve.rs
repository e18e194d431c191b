//! Listeners: who connected, within which bounds, and how all of it ends.
//!
//! hyper's HTTP/2 carries the generated services directly; tonic's own transport is not used.
//!
//! **Invariant.** A request reaches its service with the [`RpcCaller`] that its connection and headers prove, or not at all. A server that
//! is stopped is gone after its grace, whatever its peers do: a call that must outlive its caller runs in a task of its own.

mod authority;
pub(crate) mod body;
pub(crate) mod connection;

use crate::generated::core::core_service_server::{CoreService, CoreServiceServer};
use crate::identity::{CallerOrigin, PeerIdentity};
use crate::limits::ServeLimits;
use crate::secret::ProcessSecrets;
use crate::tcp_owner::tcp_peer_uid;
use body::PendingBytes;
use connection::{OpenedConnection, attend};
use parking_lot::Mutex;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tonic::codegen::http;

pub use body::GrpcRequestBody;

/// Without descriptors no connection can be accepted, and the next try finds the same.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The peer of a unix socket, as the system knows it.
#[derive(Debug)]
pub struct UnixPeer<'a> {
    pub uid: u32,
    pub gid: u32,
    /// Of the operating system. `None` where our pid namespace cannot name it.
    pub os_pid: Option<i32>,
    /// For whoever wants to know more, such as a descriptor of the process.
    pub stream: &'a UnixStream,
}

/// Says who the peer of a unix socket is.
pub type IdentifyPeer = Arc<dyn Fn(&UnixPeer<'_>) -> PeerIdentity + Send + Sync>;

/// Where calls come from, and how their callers are known.
pub enum GrpcListener {
    /// A unix socket: the peer's credentials decide.
    Unix { socket: UnixListener, identify: IdentifyPeer },
    /// TCP: a secret of the process; or the bare header, from sockets of the kernel's own user.
    Tcp { socket: TcpListener, secrets: Arc<ProcessSecrets>, trust_pid_header: bool },
    /// A listener that one process alone can reach, such as the door of its room.
    Door { socket: TcpListener, pid: u64 },
    /// The same with a unix socket.
    UnixDoor { socket: UnixListener, pid: u64 },
}

impl fmt::Debug for GrpcListener {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GrpcListener::Unix { socket, .. } => write!(formatter, "Unix({socket:?})"),
            GrpcListener::Tcp { socket, .. } => write!(formatter, "Tcp({socket:?})"),
            GrpcListener::Door { socket, pid } => write!(formatter, "Door({socket:?}, {pid})"),
            GrpcListener::UnixDoor { socket, pid } => write!(formatter, "UnixDoor({socket:?}, {pid})"),
        }
    }
}

/// A connection whose owner may still have to be found out.
enum Accepted {
    Unix(UnixStream, Option<IdentifyPeer>, PeerIdentity),
    Tcp(TcpStream, Option<(Arc<ProcessSecrets>, bool)>, PeerIdentity),
}

impl GrpcListener {
    async fn accept(&self) -> io::Result<Accepted> {
        Ok(match self {
            GrpcListener::Unix { socket, identify } => {
                Accepted::Unix(socket.accept().await?.0, Some(Arc::clone(identify)), PeerIdentity::Unknown)
            }
            GrpcListener::UnixDoor { socket, pid } => Accepted::Unix(socket.accept().await?.0, None, PeerIdentity::Process(*pid)),
            GrpcListener::Tcp { socket, secrets, trust_pid_header } => {
                let known_by = Some((Arc::clone(secrets), *trust_pid_header));
                Accepted::Tcp(socket.accept().await?.0, known_by, PeerIdentity::Unknown)
            }
            GrpcListener::Door { socket, pid } => Accepted::Tcp(socket.accept().await?.0, None, PeerIdentity::Process(*pid)),
        })
    }
}

impl Accepted {
    /// What the connection proves. `None`: its peer is gone already.
    async fn opened(self) -> Option<OpenedConnection> {
        match self {
            Accepted::Unix(stream, None, identity) => {
                Some(OpenedConnection { stream: Box::new(stream), origin: CallerOrigin::Known(identity), is_unix: true })
            }
            Accepted::Unix(stream, Some(identify), _) => {
                let peer = stream.peer_cred().ok()?;
                let os_pid = peer.pid().filter(|pid| *pid > 0);
                let identity = identify(&UnixPeer { uid: peer.uid(), gid: peer.gid(), os_pid, stream: &stream });
                Some(OpenedConnection { stream: Box::new(stream), origin: CallerOrigin::Known(identity), is_unix: true })
            }
            Accepted::Tcp(stream, None, identity) => {
                stream.set_nodelay(true).ok()?;
                Some(OpenedConnection { stream: Box::new(stream), origin: CallerOrigin::Known(identity), is_unix: false })
            }
            Accepted::Tcp(stream, Some((secrets, trust_pid_header)), _) => {
                stream.set_nodelay(true).ok()?;
                let is_header_trusted = trust_pid_header && is_own_user(&stream).await;
                let origin = CallerOrigin::Tcp { secrets, is_header_trusted };
                Some(OpenedConnection { stream: Box::new(stream), origin, is_unix: false })
            }
        }
    }
}

/// Whether the socket at the other end is of the user who runs us. Doubt is no.
async fn is_own_user(stream: &TcpStream) -> bool {
    let (Ok(local), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else { return false };
    let owner = tokio::task::spawn_blocking(move || tcp_peer_uid(local, peer)).await;
    matches!(owner, Ok(Ok(Some(uid))) if uid == rustix::process::geteuid().as_raw())
}

/// What a listener has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServeCounts {
    pub accepted: u64,
    /// Connections that were one too many.
    pub over_limit: u64,
    /// Connections that could not be accepted, mostly for want of descriptors.
    pub accept_faults: u64,
}

/// A listener that is served. Dropped, it is cut off at once, with all of its connections.
#[derive(Debug)]
pub struct ServerHandle {
    stopping: watch::Sender<Option<Duration>>,
    counts: Arc<Mutex<ServeCounts>>,
    task: JoinHandle<()>,
}

impl ServerHandle {
    pub fn counts(&self) -> ServeCounts {
        *self.counts.lock()
    }

    /// Accepts nothing more, tells every client so, lets running calls end within `grace`, and cuts off the rest.
    pub async fn stop(mut self, grace: Duration) {
        self.stopping.send_replace(Some(grace));
        // A panic of the accepting task left no connections behind either.
        let _: Result<(), tokio::task::JoinError> = (&mut self.task).await;
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The kernel's service, within the bounds of its listener.
pub fn core_service<T: CoreService>(service: Arc<T>, limits: &ServeLimits) -> CoreServiceServer<T> {
    CoreServiceServer::from_arc(service)
        .max_decoding_message_size(limits.message_bytes_max)
        .max_encoding_message_size(limits.message_bytes_max)
}

/// Serves a listener in a task of its own, until the handle is stopped or dropped.
pub fn serve<S>(listener: GrpcListener, service: S, limits: ServeLimits) -> ServerHandle
where
    S: tower_service::Service<http::Request<GrpcRequestBody>, Response = http::Response<tonic::body::Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let (stopping, stop) = watch::channel(None);
    let counts = Arc::new(Mutex::new(ServeCounts::default()));
    let task = tokio::spawn(accept_all(listener, service, limits, Arc::clone(&counts), stop));
    ServerHandle { stopping, counts, task }
}

async fn accept_all<S>(
    listener: GrpcListener,
    service: S,
    limits: ServeLimits,
    counts: Arc<Mutex<ServeCounts>>,
    mut stop: watch::Receiver<Option<Duration>>,
) where
    S: tower_service::Service<http::Request<GrpcRequestBody>, Response = http::Response<tonic::body::Body>, Error = Infallible>,
    S: Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let pending = Arc::new(PendingBytes::new(limits.pending_bytes_max));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                // One too many is closed by being dropped.
                Ok(_) if connections.len() >= limits.connections_max => counts.lock().over_limit += 1,
                Ok(accepted) => {
                    counts.lock().accepted += 1;
                    let (service, limits, pending, stop) = (service.clone(), limits.clone(), Arc::clone(&pending), stop.clone());
                    connections.spawn(async move {
                        if let Some(opened) = accepted.opened().await {
                            attend(opened, service, &limits, pending, stop).await;
                        }
                    });
                }
                Err(_) => {
                    counts.lock().accept_faults += 1;
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let grace = (*stop.borrow()).unwrap_or_default();
    let all_end = async { while connections.join_next().await.is_some() {} };
    // Whoever is not done by then is cut off.
    let _: Result<(), tokio::time::error::Elapsed> = tokio::time::timeout(grace, all_end).await;
    connections.shutdown().await;
}
