//! The kernel's own tools for a vendor's client: an MCP server at a door of the client's room.
//!
//! It stands on the room's own loopback, and the listener is the room's, so whoever asks there is the task's process and nobody else. It is
//! served by the kernel itself over HTTP, because a server inside the room would need a program and a socket of its own there (record 0058).
//! **Invariant.** A tool is called through the same door as any other call of that process; those of the process tree (`tree_tools.rs`) are calls of
//! the tree, which pass the same gate.

use crate::CallDoor;
use crate::tree_tools::{call_tree, tree_call, tree_tools};
use crate::workflow_tools::workflow_tools;
use gate::{CallEnd, CallOutcome, PERSON_ASK, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use world::{CallId, Code, Refusal};

/// The version of the protocol that is spoken where the client names none that we know.
const VERSION: &str = "2025-06-18";
const VERSIONS: [&str; 3] = ["2025-03-26", VERSION, "2025-11-25"];
/// Far above any call of these tools.
const BODY_BYTES_MAX: usize = 1 << 20;
/// Connections of one room at a time.
const CONNECTIONS_MAX: usize = 16;
const TOOLS_OF_KERNEL: &str = "Tools of the kernel that runs you: test_run runs the project's tests, person_ask asks the person in charge, agent_spawn and others direct agents.";
const WORKFLOW_TOOLS: &str = "Tests come first here: plan_complete ends a phase, workflow_state tells where your work stands, workflow_request_exemption asks for leave to change files without tests.";
/// What a client gets of one result.
const RESULT_CHARS: usize = 60_000;

/// Serves the tools of one client's room.
pub struct RoomTools {
    door: Arc<dyn CallDoor>,
    /// The call that runs the client: what it asks for here is part of that.
    run: Request,
    call: CallId,
}

impl RoomTools {
    pub fn new(door: Arc<dyn CallDoor>, run: &Request, call: CallId) -> RoomTools {
        RoomTools { door, run: run.clone(), call }
    }

    /// Serves until `over`; then every connection ends.
    pub fn serve<F: Future<Output = ()> + Send>(self: &Arc<Self>, door: TcpListener, over: F) -> impl Future<Output = ()> + Send + use<F> {
        let tools = self.clone();
        async move {
            tokio::select! {
                () = tools.listen(door) => {}
                () = over => {}
            }
        }
    }

    async fn listen(self: Arc<Self>, door: TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        // Dropped with this future, which ends what is open.
        let mut open = tokio::task::JoinSet::new();
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            match door.accept().await {
                Ok((stream, _)) => {
                    let tools = self.clone();
                    open.spawn(async move {
                        let service = service_fn(move |request| tools.clone().answer(request));
                        // A client that hangs up has nothing more to hear.
                        drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
                        drop(place);
                    });
                }
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
            while open.try_join_next().is_some() {}
        }
    }

    async fn answer(self: Arc<Self>, request: hyper::Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        if request.method() != Method::POST {
            return Ok(plain(StatusCode::METHOD_NOT_ALLOWED));
        }
        let Ok(body) = Limited::new(request.into_body(), BODY_BYTES_MAX).collect().await else {
            return Ok(plain(StatusCode::PAYLOAD_TOO_LARGE));
        };
        Ok(match self.respond(&body.to_bytes()).await {
            Ok(answer) => {
                let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
                response.headers_mut().insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
                response
            }
            Err(status) => plain(status),
        })
    }

    /// The answer to one message; a status alone where there is none.
    pub async fn respond(&self, body: &[u8]) -> Result<Value, StatusCode> {
        let message: Value = serde_json::from_slice(body).map_err(|_| StatusCode::BAD_REQUEST)?;
        // What has no id wants no answer.
        let id = message.get("id").cloned().ok_or(StatusCode::ACCEPTED)?;
        Ok(match self.reply(&message).await {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err((code, text)) => json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text } }),
        })
    }

    async fn reply(&self, message: &Value) -> Result<Value, (i64, String)> {
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "initialize" => {
                let asked = params["protocolVersion"].as_str().filter(|asked| VERSIONS.contains(asked));
                Ok(json!({
                    "protocolVersion": asked.unwrap_or(VERSION),
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "skep", "version": env!("CARGO_PKG_VERSION") },
                    "instructions": self.instructions(),
                }))
            }
            "ping" => Ok(json!({})),
            "tools/list" => Ok(json!({ "tools": cards(self.is_test_first()) })),
            "tools/call" => Ok(self.call(params["name"].as_str().unwrap_or_default(), &params["arguments"]).await),
            other => Err((-32601, format!("there is no method `{other}`"))),
        }
    }

    fn is_test_first(&self) -> bool {
        self.run.task.is_some_and(|task| self.door.is_test_first(task))
    }

    /// What the tools are for. A client that shows its model no tool before it is looked for shows it this.
    fn instructions(&self) -> String {
        let of_workflow = if self.is_test_first() { format!(" {WORKFLOW_TOOLS}") } else { String::new() };
        format!("{TOOLS_OF_KERNEL}{of_workflow}")
    }

    /// Calls a tool, and says what came of it.
    async fn call(&self, name: &str, arguments: &Value) -> Value {
        let outcome = if tree_call(name).is_some() {
            self.direct(name, arguments).await.map(|value| (value.to_string(), false))
        } else {
            self.run(name, arguments).await
        };
        let (text, is_error) = match outcome {
            Ok(told) => told,
            Err(world::Stop::Refused(refusal)) => (self.refused(refusal), true),
            Err(world::Stop::Failed(fault)) => (fault.to_string(), true),
        };
        let text: String = text.chars().take(RESULT_CHARS).collect();
        json!({ "content": [{ "type": "text", "text": text }], "isError": is_error })
    }

    /// A call of the process tree, by the process that this room is.
    async fn direct(&self, name: &str, arguments: &Value) -> Result<Value, world::Stop> {
        let tree = self.door.tree().ok_or_else(|| Refusal::new(Code::WrongState, "there is no process tree here"))?;
        call_tree(&tree, self.run.pid.into(), name, arguments).await
    }

    /// A tool that is called through the door. Gives its text, and whether that tells of a failure.
    async fn run(&self, name: &str, arguments: &Value) -> Result<(String, bool), world::Stop> {
        let outcome = match name {
            "test_run" => {
                let request = self.request("test.run", arguments.as_object().map_or(json!({}), |_| arguments.clone()));
                self.door.call(&request).await?
            }
            "person_ask" => self.ask_person(arguments["question"].as_str().unwrap_or_default()).await?,
            other => match workflow_tools().into_iter().find(|(_, tool)| tool.name == other) {
                Some((call, _)) => {
                    let input = arguments.as_object().map_or(json!({}), |_| arguments.clone());
                    self.door.call(&self.request(call, input)).await?
                }
                None => return Err(Refusal::new(Code::NotFound, format!("there is no tool `{other}`")).into()),
            },
        };
        match outcome.end {
            CallEnd::Done { ok, value } => Ok((value["answer"].as_str().map_or_else(|| value.to_string(), str::to_owned), !ok)),
            CallEnd::Pending(refusal) | CallEnd::Refused(refusal) => Err(refusal.into()),
            CallEnd::CallerExecutes => Ok(("it was not run".to_owned(), true)),
        }
    }

    /// A refusal as its brain reads it. One that waits for a person stops the brain here; it goes on when the answer is there.
    fn refused(&self, refusal: Refusal) -> String {
        if refusal.code == Code::Pending {
            if let (Some(review), Some(task)) = (refusal.review, self.run.task) {
                self.door.await_review(task, review);
            }
            return refusal.reason;
        }
        match refusal.advice() {
            Some(fix) => format!("{} ({fix})", refusal.reason),
            None => refusal.reason,
        }
    }

    /// A question to the person. It is a call that asks for a review; the reason that comes with the yes is the answer.
    async fn ask_person(&self, question: &str) -> Result<CallOutcome, world::Stop> {
        if question.trim().is_empty() {
            return Err(Refusal::new(Code::BadInput, "`question` is empty").into());
        }
        self.door.ask_person(&self.request(PERSON_ASK, json!({ "question": question }))).await
    }

    fn request(&self, tool: &str, input: Value) -> Request {
        let Request { pid, task, zone, .. } = self.run;
        Request { of: Some(self.call), ..Request::new(pid, task, zone, tool, input) }
    }
}

/// The tools as the protocol tells of them, with those of test-first where the task is held to it.
fn cards(is_test_first: bool) -> Vec<Value> {
    let own = [
        json!({
            "name": "test_run",
            "description": "Runs the project's own test command, as its owner trusted it, over your changes in a closed sandbox. Gives exit code and output.",
            "inputSchema": { "type": "object", "properties": { "args": { "type": "array", "items": { "type": "string" }, "description": "further arguments" } } },
        }),
        json!({
            "name": "person_ask",
            "description": "Asks the person in charge a question. Your work pauses until they answer; then ask again with the same words to get the answer.",
            "inputSchema": { "type": "object", "required": ["question"], "properties": { "question": { "type": "string" } } },
        }),
    ];
    let of_tree = tree_tools()
        .into_iter()
        .map(|tool| json!({ "name": tool.name, "description": tool.description, "inputSchema": tool.input_schema }));
    let of_workflow = workflow_tools()
        .into_iter()
        .filter(|_| is_test_first)
        .map(|(_, tool)| json!({ "name": tool.name, "description": tool.description, "inputSchema": tool.input_schema }));
    own.into_iter().chain(of_workflow).chain(of_tree).collect()
}

fn plain(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::new()));
    *response.status_mut() = status;
    response
}
