//! An agent that starts in no time: this very program, which the kernel starts again as a `custom` one.
//!
//! It does not say that it remembers ids, so what it did not answer is a dead letter. It counts how often this incarnation of it was handed
//! each message, and answers with that number.

use hive::generated::agent::agent_service_server::{AgentService, AgentServiceServer};
use hive::generated::agent::*;
use hive::tonic::{Request, Response, Status, Streaming, async_trait};
use hive::{GrpcListener, Outbox, OutboxStream, ServeLimits, outbox, serve};
use std::collections::HashMap;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::oneshot;

/// Set for an agent, to what its test calls itself.
pub const MARK: &str = "SKEP_TREE_AGENT";
/// What ends it by itself, as a message's kind or a task.
pub const DIE: &str = "die";
/// What it never answers.
pub const SLOW: &str = "slow";

/// A task that it takes only after somebody has tried to interrupt it.
pub const LATE: &str = "late";
/// What it is told with, as tasks.
pub const ARGUMENTS: &str = "arguments";
pub const VARIABLE: &str = "variable";

#[derive(Default)]
struct CheapAgent {
    handed: Mutex<HashMap<String, u32>>,
    /// How often it was interrupted, and who waits for that.
    interrupted: Mutex<(u32, Option<oneshot::Sender<u32>>)>,
}

impl CheapAgent {
    async fn take_late(
        &self,
        task_id: String,
        says: Outbox<TaskProgress>,
        stream: OutboxStream<TaskProgress>,
    ) -> Result<Response<OutboxStream<TaskProgress>>, Status> {
        while self.interrupted.lock().unwrap().0 == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (end, ended) = oneshot::channel();
        self.interrupted.lock().unwrap().1 = Some(end);
        tokio::spawn(async move {
            let times = ended.await.unwrap();
            let message = format!("interrupted at the {times}. time");
            let failed = TaskProgress { task_id, r#type: ProgressType::ProgressFailed.into(), message, ..TaskProgress::default() };
            says.push(failed).unwrap();
        });
        Ok(Response::new(stream))
    }
}

/// Are we such an agent?
pub fn child() -> Option<ExitCode> {
    std::env::var_os(MARK)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = socket.local_addr().unwrap().port();
        let limits = ServeLimits { request_timeout: None, ..ServeLimits::default() };
        // Only the kernel reaches a port of this room; who it says that it is does not matter here.
        let _server = serve(GrpcListener::Door { socket, pid: 1 }, AgentServiceServer::new(CheapAgent::default()), limits);
        println!("READY {port}");
        std::io::stdout().flush().unwrap();
        std::future::pending::<()>().await
    });
    Some(ExitCode::SUCCESS)
}

#[async_trait]
impl AgentService for CheapAgent {
    type ExecuteStream = OutboxStream<TaskProgress>;

    async fn init(&self, _: Request<InitRequest>) -> Result<Response<InitResponse>, Status> {
        Ok(Response::new(InitResponse { ready: true, error: String::new() }))
    }

    async fn execute(&self, request: Request<Streaming<ExecuteInput>>) -> Result<Response<Self::ExecuteStream>, Status> {
        let (says, stream) = outbox(1);
        let mut inputs = request.into_inner();
        let first = inputs.message().await?;
        let Some(execute_input::Input::Task(task)) = first.and_then(|first| first.input) else {
            return Err(Status::invalid_argument("a task comes first"));
        };
        if task.description == DIE {
            std::process::exit(9);
        }
        if task.description == LATE {
            return self.take_late(task.task_id, says, stream).await;
        }
        let output = match task.description.split_once(' ') {
            None if task.description == ARGUMENTS => std::env::args().skip(1).collect::<Vec<_>>().join(" "),
            Some((VARIABLE, name)) => std::env::var(name).unwrap_or_default(),
            _ => task.description,
        };
        let result = Some(TaskResult { output, ..TaskResult::default() });
        let done =
            TaskProgress { task_id: task.task_id, r#type: ProgressType::ProgressCompleted.into(), result, ..TaskProgress::default() };
        says.push(done).map_err(|lagging| Status::internal(lagging.to_string()))?;
        Ok(Response::new(stream))
    }

    async fn heartbeat(&self, _: Request<HeartbeatRequest>) -> Result<Response<HeartbeatResponse>, Status> {
        Ok(Response::new(HeartbeatResponse::default()))
    }

    async fn interrupt(&self, _: Request<InterruptRequest>) -> Result<Response<InterruptResponse>, Status> {
        let mut asked = self.interrupted.lock().unwrap();
        asked.0 += 1;
        match asked.1.take() {
            // It knows of no task yet.
            None => Ok(Response::new(InterruptResponse::default())),
            Some(end) => {
                end.send(asked.0).map_err(|_| Status::internal("nobody waits for it"))?;
                Ok(Response::new(InterruptResponse { acknowledged: true, partial_result: None }))
            }
        }
    }

    async fn deliver_message(&self, request: Request<AgentMessage>) -> Result<Response<MessageAck>, Status> {
        let AgentMessage { message_id, r#type: kind, .. } = request.into_inner();
        let times = {
            let mut handed = self.handed.lock().unwrap();
            let times = handed.entry(message_id.clone()).or_default();
            *times += 1;
            *times
        };
        match kind.as_str() {
            DIE => std::process::exit(9),
            SLOW => std::future::pending().await,
            _ => Ok(Response::new(MessageAck { message_id, reply: times.to_string(), ..MessageAck::default() })),
        }
    }

    async fn shutdown(&self, _: Request<ShutdownRequest>) -> Result<Response<ShutdownResponse>, Status> {
        tokio::spawn(async {
            // After the answer is out.
            tokio::time::sleep(Duration::from_millis(20)).await;
            std::process::exit(0);
        });
        Ok(Response::new(ShutdownResponse::default()))
    }
}
