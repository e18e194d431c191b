//! The one client: asks the kernel and waits for the answer.
//!
//! One request at a time; notifications that arrive in between are kept in order. **Invariant.** Nothing is sent before the listener's
//! uid is known to be this user's.

use crate::frame::Frames;
use crate::method::Method;
use crate::{ErrorCode, FrameError, Message, Notification, RpcError, RpcId, RpcRequest, RpcResponse, frame, socket_path};
use rustix::process::geteuid;
use serde::Serialize;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use world::json;
use world::{Remedy, ReviewId};

/// A listener with a full backlog says "try again"; this is how long we do.
const BUSY_MS_MAX: u64 = 2_000;
const BUSY_STEP_MS: u64 = 5;

pub struct KernelClient {
    frames: Frames<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    last_id: u64,
    notes: VecDeque<Notification>,
}

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("no kernel answers at `{}`", socket.display())]
    Absent { socket: PathBuf, source: io::Error },
    #[error("cannot connect to `{}`", socket.display())]
    Connect { socket: PathBuf, source: io::Error },
    #[error("the listener at `{}` is not yours", socket.display())]
    Foreign { socket: PathBuf, uid: u32 },
    #[error("the connection to the kernel broke")]
    Broken { why: String },
    #[error("the kernel did not answer `{method}` within {ms} ms")]
    Late { method: &'static str, ms: u64 },
    #[error("the answer to `{method}` cannot be read")]
    Unreadable { method: &'static str, why: String },
    /// The kernel refused, or reported a fault.
    #[error(transparent)]
    Answered(#[from] RpcError),
}

impl ClientError {
    pub fn code(&self) -> ErrorCode {
        match self {
            ClientError::Absent { .. } | ClientError::Connect { .. } | ClientError::Broken { .. } => ErrorCode::Unavailable,
            ClientError::Foreign { .. } => ErrorCode::Denied,
            ClientError::Late { .. } => ErrorCode::Timeout,
            ClientError::Unreadable { .. } => ErrorCode::Internal,
            ClientError::Answered(error) => error.data.code,
        }
    }

    pub fn why(&self) -> Option<String> {
        match self {
            ClientError::Absent { source, .. } | ClientError::Connect { source, .. } => Some(source.to_string()),
            ClientError::Foreign { uid, .. } => Some(format!("it runs as uid {uid}, you are uid {}", geteuid().as_raw())),
            ClientError::Broken { why } | ClientError::Unreadable { why, .. } => Some(why.clone()),
            ClientError::Late { .. } => None,
            ClientError::Answered(error) => error.data.reason.clone(),
        }
    }

    /// What the operator can do, where the kernel says so.
    pub fn remedy(&self) -> Option<&Remedy> {
        match self {
            ClientError::Answered(error) => error.data.remedy.as_deref(),
            _ => None,
        }
    }

    /// The question that a person must answer first.
    pub fn review(&self) -> Option<ReviewId> {
        match self {
            ClientError::Answered(error) => error.data.review,
            _ => None,
        }
    }

    pub fn fix(&self) -> Option<String> {
        match self {
            ClientError::Absent { .. } => Some("start one with `skep kernel start`".into()),
            ClientError::Connect { .. } => Some("look at $SKEP_HOME: its owner, its mode and its disk".into()),
            ClientError::Foreign { .. } => Some("set $SKEP_HOME to a folder of your own".into()),
            ClientError::Broken { .. } => Some("run the command again; `run/kernel.log` in $SKEP_HOME says more".into()),
            ClientError::Late { .. } => Some("look at `skep kernel status` and at `run/kernel.log` in $SKEP_HOME".into()),
            ClientError::Unreadable { .. } => {
                Some("the kernel may be of another version: `skep kernel stop`, then run the command again".into())
            }
            ClientError::Answered(error) => error.data.hint.clone(),
        }
    }
}

impl KernelClient {
    /// Connects to the kernel of `home`.
    pub async fn connect(home: &Path) -> Result<KernelClient, ClientError> {
        let socket = socket_path(home);
        let stream = open(&socket).await?;
        match stream.peer_cred() {
            Ok(peer) if peer.uid() == geteuid().as_raw() => {}
            Ok(peer) => return Err(ClientError::Foreign { socket, uid: peer.uid() }),
            Err(source) => return Err(ClientError::Connect { socket, source }),
        }
        let (reader, writer) = stream.into_split();
        Ok(KernelClient { frames: Frames::new(reader), writer, last_id: 0, notes: VecDeque::new() })
    }

    /// Sends `M` and waits for its answer.
    pub async fn call<M: Method>(&mut self, params: &M::Params) -> Result<M::Result, ClientError> {
        let id = self.send(M::ID.name(), params).await?;
        let answer = self.answer(&id);
        let result = match M::ID.row().wait_ms_max {
            None => answer.await?,
            Some(ms) => match tokio::time::timeout(Duration::from_millis(ms), answer).await {
                Ok(answer) => answer?,
                Err(_) => return Err(ClientError::Late { method: M::ID.name(), ms }),
            },
        };
        json::from_json(result.get()).map_err(|error| ClientError::Unreadable { method: M::ID.name(), why: json::what(&error) })
    }

    /// Sends `M` and splits the connection: one half receives notes and the answer, the other sends notes meanwhile.
    pub async fn begin<M: Method>(mut self, params: &M::Params) -> Result<(ResponseStream<M>, NoteSender), ClientError> {
        let id = self.send(M::ID.name(), params).await?;
        let KernelClient { frames, writer, .. } = self;
        Ok((ResponseStream { frames, id, method: std::marker::PhantomData }, NoteSender { writer }))
    }

    /// The next notification; `None` when the kernel has hung up. Cancel-safe.
    pub async fn next_note(&mut self) -> Result<Option<Notification>, ClientError> {
        loop {
            if let Some(note) = self.notes.pop_front() {
                return Ok(Some(note));
            }
            match self.message().await? {
                None => return Ok(None),
                Some(Message::Notification(note)) => self.notes.push_back(note),
                Some(Message::Request(_) | Message::Response(_)) => {}
            }
        }
    }

    async fn send(&mut self, method: &'static str, params: &impl Serialize) -> Result<RpcId, ClientError> {
        let params = serde_json::value::to_raw_value(params).map_err(|error| broken(error.to_string()))?;
        self.last_id += 1;
        let request = RpcRequest { id: RpcId::Number(self.last_id), method: method.to_owned(), params: Some(params) };
        frame::write(&mut self.writer, &request.text()).await.map_err(|error| match error {
            FrameError::TooLong { .. } => RpcError::new(ErrorCode::TooLarge, "the request is too large")
                .why(error.to_string())
                .fix("put large texts into files")
                .into(),
            error => broken(error.to_string()),
        })?;
        Ok(request.id)
    }

    async fn answer(&mut self, id: &RpcId) -> Result<Box<serde_json::value::RawValue>, ClientError> {
        loop {
            match self.message().await? {
                None => return Err(broken("the kernel hung up before it answered")),
                Some(Message::Notification(note)) => self.notes.push_back(note),
                // An error without an id is about a message that the kernel could not read: ours.
                Some(Message::Response(RpcResponse { id: answered, outcome })) if answered == *id || answered == RpcId::Null => {
                    return Ok(outcome?);
                }
                Some(Message::Request(_) | Message::Response(_)) => {}
            }
        }
    }

    async fn message(&mut self) -> Result<Option<Message>, ClientError> {
        let text = self.frames.next().await.map_err(|error| broken(error.to_string()))?;
        text.map(|text| Message::parse(&text).map_err(|error| broken(error.to_string()))).transpose()
    }
}

/// Receives what the kernel sends for one request.
pub struct ResponseStream<M> {
    frames: Frames<OwnedReadHalf>,
    id: RpcId,
    method: std::marker::PhantomData<M>,
}

/// A note while the request runs, or its answer.
#[derive(Debug)]
pub enum StreamItem<R> {
    Note(Notification),
    /// Nothing follows it.
    Answer(R),
}

impl<M: Method> ResponseStream<M> {
    /// The next note, or the answer. Cancel-safe.
    pub async fn next(&mut self) -> Result<StreamItem<M::Result>, ClientError> {
        loop {
            let text = self.frames.next().await.map_err(|error| broken(error.to_string()))?;
            let text = text.ok_or_else(|| broken("the kernel hung up before it answered"))?;
            match Message::parse(&text).map_err(|error| broken(error.to_string()))? {
                Message::Notification(note) => return Ok(StreamItem::Note(note)),
                Message::Response(RpcResponse { id, outcome }) if id == self.id || id == RpcId::Null => {
                    let unreadable = |error: serde_json::Error| ClientError::Unreadable { method: M::ID.name(), why: error.to_string() };
                    return Ok(StreamItem::Answer(json::from_json(outcome?.get()).map_err(unreadable)?));
                }
                Message::Request(_) | Message::Response(_) => {}
            }
        }
    }
}

/// Sends notes about a request that runs.
pub struct NoteSender {
    writer: OwnedWriteHalf,
}

impl NoteSender {
    pub async fn note(&mut self, method: &str, params: &impl Serialize) -> Result<(), ClientError> {
        let params = serde_json::value::to_raw_value(params).map_err(|error| broken(error.to_string()))?;
        let note = Notification { method: method.to_owned(), params: Some(params) };
        frame::write(&mut self.writer, &note.text()).await.map_err(|error| broken(error.to_string()))
    }
}

fn broken(why: impl Into<String>) -> ClientError {
    ClientError::Broken { why: why.into() }
}

async fn open(socket: &Path) -> Result<UnixStream, ClientError> {
    let mut waited_ms = 0;
    loop {
        let source = match UnixStream::connect(socket).await {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        let socket = socket.to_owned();
        match source.kind() {
            io::ErrorKind::WouldBlock if waited_ms < BUSY_MS_MAX => {
                tokio::time::sleep(Duration::from_millis(BUSY_STEP_MS)).await;
                waited_ms += BUSY_STEP_MS;
            }
            // Reset: the listener went away while we connected.
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => {
                return Err(ClientError::Absent { socket, source });
            }
            _ => return Err(ClientError::Connect { socket, source }),
        }
    }
}
