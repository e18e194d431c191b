//! The engine's API: the nine requests that rooms need, as HTTP over the engine's socket.
//!
//! **Invariant.** Each request has a connection of its own and ends with an answer or with [`ANSWER_MAX`]: an engine that hangs
//! holds up one request and no other.
//!
//! It does not know what a room is: bodies are JSON that its callers write, answers are the few fields that they read.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::UnixStream;

/// For one answer. Removing a container that does not want to go takes the longest.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The newest version of the API that this file was written for.
const NEWEST: ApiVersion = ApiVersion { major: 1, minor: 53 };

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    #[error("{message} (status {status})")]
    Status { status: u16, message: String },
    #[error("connecting to its socket: {0}")]
    Connect(std::io::Error),
    #[error("it did not answer within {} s", ANSWER_MAX.as_secs())]
    Silent,
    #[error("{0}")]
    Http(#[from] hyper::Error),
    #[error("an unreadable answer: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("a request that HTTP has no words for: {0}")]
    Request(#[from] hyper::http::Error),
    #[error("it names no version of its API")]
    NoVersion,
}

impl ApiError {
    pub(super) fn status(&self) -> Option<u16> {
        match self {
            ApiError::Status { status, .. } => Some(*status),
            _ => None,
        }
    }
}

/// A version of the API, `1.41`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ApiVersion {
    major: u32,
    minor: u32,
}

impl ApiVersion {
    fn parse(text: &str) -> Option<ApiVersion> {
        let (major, minor) = text.split_once('.')?;
        Some(ApiVersion { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

/// What an engine says of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct EngineVersion {
    api_version: Option<String>,
    version: Option<String>,
    components: Option<Vec<EngineComponent>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct EngineComponent {
    name: String,
}

impl EngineVersion {
    pub(super) fn version(self) -> String {
        self.version.unwrap_or_default()
    }

    pub(super) fn is_podman(&self) -> bool {
        self.components.iter().flatten().any(|component| component.name.to_ascii_lowercase().contains("podman"))
    }
}

/// A container as a list shows it.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct ListedContainer {
    pub(super) id: Option<String>,
    pub(super) names: Option<Vec<String>>,
    pub(super) labels: Option<HashMap<String, String>>,
}

/// How a container is doing, or how it ended.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct ContainerState {
    pub(super) running: bool,
    pub(super) exit_code: i64,
    #[serde(rename = "OOMKilled")]
    pub(super) out_of_memory: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct InspectedContainer {
    state: Option<ContainerState>,
}

/// An engine at its socket. Holds no connection.
#[derive(Debug, Clone)]
pub(super) struct Api {
    socket: PathBuf,
    version: ApiVersion,
}

impl Api {
    /// Asks who listens at a socket, and agrees with it on the newest version of the API that both know.
    pub(super) async fn connect(socket: PathBuf) -> Result<(Api, EngineVersion), ApiError> {
        let mut api = Api { socket, version: NEWEST };
        // Without a version in its path, so that every engine answers it.
        let said: EngineVersion = serde_json::from_slice(&api.send(Method::GET, "/version", Content::None).await?)?;
        let spoken = said.api_version.as_deref().and_then(ApiVersion::parse).ok_or(ApiError::NoVersion)?;
        api.version = spoken.min(NEWEST);
        Ok((api, said))
    }

    pub(super) async fn ping(&self) -> Result<(), ApiError> {
        self.request(Method::GET, "/_ping", Content::None).await.map(drop)
    }

    pub(super) async fn create_container(&self, name: &str, body: &Value) -> Result<(), ApiError> {
        let path = format!("/containers/create?name={}", escaped(name));
        self.request(Method::POST, &path, Content::Json(body.to_string())).await.map(drop)
    }

    pub(super) async fn start_container(&self, name: &str) -> Result<(), ApiError> {
        self.request(Method::POST, &format!("/containers/{name}/start"), Content::None).await.map(drop)
    }

    pub(super) async fn container_state(&self, name: &str) -> Result<ContainerState, ApiError> {
        let inspected: InspectedContainer = self.read(&format!("/containers/{name}/json")).await?;
        Ok(inspected.state.unwrap_or_default())
    }

    /// Kills it if it runs, and removes it with its volumes.
    pub(super) async fn remove_container(&self, name: &str) -> Result<(), ApiError> {
        self.request(Method::DELETE, &format!("/containers/{name}?force=true&v=true"), Content::None).await.map(drop)
    }

    /// Every container with a label, also those that have ended.
    pub(super) async fn list_containers(&self, label: &str) -> Result<Vec<ListedContainer>, ApiError> {
        let filters = serde_json::json!({ "label": [label] }).to_string();
        self.read(&format!("/containers/json?all=true&filters={}", escaped(&filters))).await
    }

    pub(super) async fn has_image(&self, name: &str) -> bool {
        self.request(Method::GET, &format!("/images/{name}/json"), Content::None).await.is_ok()
    }

    /// Makes an image out of a tar archive.
    pub(super) async fn import_image(&self, repository: &str, tag: &str, archive: Vec<u8>) -> Result<(), ApiError> {
        let path = format!("/images/create?fromSrc=-&repo={}&tag={}", escaped(repository), escaped(tag));
        let progress = self.request(Method::POST, &path, Content::Tar(archive)).await?;
        // The status is sent before the work is done, so a failure is one of the lines.
        for line in serde_json::Deserializer::from_slice(&progress).into_iter::<Value>() {
            if let Some(message) = line?.get("error").and_then(Value::as_str) {
                return Err(ApiError::Status { status: 500, message: message.to_owned() });
            }
        }
        Ok(())
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        Ok(serde_json::from_slice(&self.request(Method::GET, path, Content::None).await?)?)
    }

    async fn request(&self, method: Method, path: &str, content: Content) -> Result<Bytes, ApiError> {
        let ApiVersion { major, minor } = self.version;
        self.send(method, &format!("/v{major}.{minor}{path}"), content).await
    }

    async fn send(&self, method: Method, path: &str, content: Content) -> Result<Bytes, ApiError> {
        let (kind, body) = match content {
            Content::None => (None, Bytes::new()),
            Content::Json(text) => (Some("application/json"), text.into()),
            Content::Tar(archive) => (Some("application/x-tar"), archive.into()),
        };
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if let Some(kind) = kind {
            request = request.header("content-type", kind);
        }
        let request = request.body(Full::new(body))?;
        tokio::time::timeout(ANSWER_MAX, self.exchange(request)).await.map_err(|_| ApiError::Silent)?
    }

    /// Sends one request over a connection of its own, and reads the whole answer.
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Bytes, ApiError> {
        let stream = UnixStream::connect(&self.socket).await.map_err(ApiError::Connect)?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let answered = async {
            let response = sender.send_request(request).await?;
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            // Without it the connection stays open for another request, which never comes.
            drop(sender);
            Ok::<_, ApiError>((status, body))
        };
        let (answer, _) = tokio::join!(answered, connection);
        let (status, body) = answer?;
        if status.is_success() || status.as_u16() == NOT_MODIFIED {
            return Ok(body);
        }
        Err(ApiError::Status { status: status.as_u16(), message: message(&body) })
    }
}

/// How an engine answers when what was asked for is so already, as a start of what runs.
const NOT_MODIFIED: u16 = 304;

/// What goes with a request.
enum Content {
    None,
    Json(String),
    Tar(Vec<u8>),
}

/// What an engine says is wrong: `{"message": "…"}`, or whatever else it wrote.
fn message(body: &[u8]) -> String {
    let said = serde_json::from_slice::<Value>(body).ok().and_then(|said| Some(said.get("message")?.as_str()?.to_owned()));
    said.unwrap_or_else(|| String::from_utf8_lossy(body).trim().to_owned())
}

/// A text as a query takes it.
fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
