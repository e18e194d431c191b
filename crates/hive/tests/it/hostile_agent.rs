//! Agents that break the contract, and one that keeps it.

use hive::generated::agent::agent_service_server::{AgentService, AgentServiceServer};
use hive::generated::agent::*;
use hive::tonic::{Request, Response, Status, Streaming, async_trait};
use hive::{
    AgentLink, Execution, ExecutionEnd, ExecutionHost, GrpcListener, HiveFuture, LinkErrorKind, LinkLimits, OutboxStream, ProgressNote,
    ServeLimits, ServerHandle, TaskEvent, outbox, serve,
};
use std::time::Duration;
use tokio::net::TcpListener;

/// What the agent says in the stream of its task, whatever it hears. Then it ends the stream, or waits for ever.
#[derive(Default)]
struct Script {
    says: Vec<TaskProgress>,
    is_endless: bool,
    /// Other methods never answer.
    is_silent: bool,
    ack_id: String,
}

#[async_trait]
impl AgentService for Script {
    type ExecuteStream = OutboxStream<TaskProgress>;

    async fn execute(&self, request: Request<Streaming<ExecuteInput>>) -> Result<Response<Self::ExecuteStream>, Status> {
        let (outbox, stream) = outbox(self.says.len().max(1));
        for says in &self.says {
            outbox.push(says.clone()).map_err(|lagging| Status::internal(lagging.to_string()))?;
        }
        if self.is_endless {
            tokio::spawn(async move {
                let _inputs = request;
                outbox.closed().await;
            });
        }
        Ok(Response::new(stream))
    }

    async fn init(&self, _: Request<InitRequest>) -> Result<Response<InitResponse>, Status> {
        Ok(Response::new(InitResponse { ready: false, error: "no model".into() }))
    }

    async fn heartbeat(&self, _: Request<HeartbeatRequest>) -> Result<Response<HeartbeatResponse>, Status> {
        if self.is_silent {
            std::future::pending::<()>().await;
        }
        Ok(Response::new(HeartbeatResponse { current_task_id: "x".repeat(100_000), ..Default::default() }))
    }

    async fn interrupt(&self, _: Request<InterruptRequest>) -> Result<Response<InterruptResponse>, Status> {
        Err(Status::unimplemented("not here"))
    }

    async fn deliver_message(&self, _: Request<AgentMessage>) -> Result<Response<MessageAck>, Status> {
        Ok(Response::new(MessageAck { message_id: self.ack_id.clone(), ..Default::default() }))
    }

    async fn shutdown(&self, _: Request<ShutdownRequest>) -> Result<Response<ShutdownResponse>, Status> {
        std::future::pending().await
    }
}

async fn linked(script: Script, limits: LinkLimits) -> (AgentLink, ServerHandle) {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = hive::connect_loopback(socket.local_addr().unwrap().port()).await.unwrap();
    let serving = ServeLimits { request_timeout: None, ..Default::default() };
    let handle = serve(GrpcListener::Door { socket, pid: 7 }, AgentServiceServer::new(script), serving);
    (AgentLink::connect(stream, limits).await.unwrap(), handle)
}

fn progress(kind: ProgressType, message: &str) -> TaskProgress {
    TaskProgress { task_id: "t".into(), r#type: kind.into(), message: message.into(), ..Default::default() }
}

fn calls(ids: &[&str]) -> TaskProgress {
    let call = || Some(system_call::Call::ListSiblings(ListSiblingsRequest {}));
    let syscalls = ids.iter().map(|id| SystemCall { call_id: (*id).to_owned(), call: call() }).collect();
    TaskProgress { syscalls, ..progress(ProgressType::ProgressSyscall, "") }
}

fn completed() -> TaskProgress {
    let result = TaskResult { exit_code: 3, output: "out".into(), ..Default::default() };
    TaskProgress { result: Some(result), ..progress(ProgressType::ProgressCompleted, "") }
}

struct Host;

impl ExecutionHost for Host {
    fn call(&self, call: system_call::Call) -> HiveFuture<'_, syscall_result::Result> {
        assert!(matches!(call, system_call::Call::ListSiblings(_)), "{call:?}");
        Box::pin(async { syscall_result::Result::ListSiblings(ListSiblingsResponse::default()) })
    }
    fn ask(&self, _: String) -> HiveFuture<'_, Option<String>> {
        Box::pin(async { None })
    }
    fn note(&self, _: ProgressNote) {}
}

/// How a task ends whose agent says this.
async fn end_of(says: Vec<TaskProgress>, is_endless: bool) -> Result<ExecutionEnd, String> {
    let limits = LinkLimits { open_calls_max: 4, ..Default::default() };
    let (link, _handle) = linked(Script { says, is_endless, ..Default::default() }, limits).await;
    let execution = task(&link, Duration::from_millis(500));
    execution.drive(&Host).await.map_err(|error| error.to_string())
}

fn task(link: &AgentLink, timeout: Duration) -> Execution {
    link.execute(TaskRequest { task_id: "t".into(), ..Default::default() }, Some(timeout))
}

fn failed(why: &str) -> Result<ExecutionEnd, String> {
    Err(format!("`Execute` of the agent failed: {why}"))
}

#[tokio::test]
async fn a_task_ends_with_what_the_agent_says_also_if_its_stream_does_not() {
    let done = TaskResult { exit_code: 3, output: "out".into(), ..Default::default() };
    for is_endless in [false, true] {
        assert_eq!(end_of(vec![calls(&["a", "b"]), completed()], is_endless).await, Ok(ExecutionEnd::Completed(done.clone())));
    }
    let failure = progress(ProgressType::ProgressFailed, "no luck");
    assert_eq!(end_of(vec![failure], true).await, Ok(ExecutionEnd::Failed { message: "no luck".into(), result: None }));
    // An agent may leave out what its kernel knows.
    let nameless = TaskProgress { task_id: String::new(), ..completed() };
    assert_eq!(end_of(vec![nameless], false).await, Ok(ExecutionEnd::Completed(done)));
}

#[tokio::test]
async fn a_stream_that_breaks_the_contract_fails_the_task() {
    let update = progress(ProgressType::ProgressUpdate, "busy");
    assert_eq!(end_of(vec![update.clone()], true).await, failed("no answer within 500ms"));
    assert_eq!(end_of(vec![], true).await, failed("no answer within 500ms"));
    assert_eq!(end_of(vec![update.clone()], false).await, failed("the agent ended the stream before the task"));
    assert_eq!(end_of(vec![], false).await, failed("the agent ended the stream before the task"));
    let other = TaskProgress { task_id: "u".into(), ..update.clone() };
    assert_eq!(end_of(vec![other], true).await, failed("the agent reports on task `u` in the stream of task `t`"));
    let unknown = TaskProgress { r#type: 77, ..update };
    assert_eq!(end_of(vec![unknown], true).await, failed("the agent sent a kind of progress that the contract does not have: 77"));
    assert_eq!(end_of(vec![calls(&["a", "a"])], true).await, failed("the agent made call `a` again before it was answered"));
    assert_eq!(end_of(vec![calls(&["a", "b", "c", "d", "e"])], true).await, failed("the agent has more than 4 calls open"));
    let mut empty = calls(&["a"]);
    empty.syscalls[0].call = None;
    assert_eq!(end_of(vec![empty], true).await, failed("the agent made call `a` without saying which"));
    let question = progress(ProgressType::ProgressNeedsInput, "which?");
    assert_eq!(end_of(vec![question], true).await, failed("nobody answered the agent's question"));
}

#[tokio::test]
async fn an_answer_goes_to_an_open_call_of_its_kind_and_once() {
    let (link, _handle) = linked(Script { says: vec![calls(&["a"])], is_endless: true, ..Default::default() }, LinkLimits::default()).await;
    let mut execution = task(&link, Duration::from_secs(10));
    let siblings = || syscall_result::Result::ListSiblings(ListSiblingsResponse::default());
    assert_eq!(execution.next().await.unwrap(), TaskEvent::Taken);
    assert!(matches!(execution.next().await.unwrap(), TaskEvent::Calls(made) if made.len() == 1));
    let wrong = execution.answer("b", siblings()).await.unwrap_err();
    assert!(matches!(&wrong.kind, LinkErrorKind::UnknownCall(id) if id == "b"), "{wrong}");
    let wrong = execution.answer("a", syscall_result::Result::Log(LogResponse {})).await.unwrap_err();
    assert!(matches!(&wrong.kind, LinkErrorKind::OtherAnswer(id) if id == "a"), "{wrong}");
    execution.answer("a", siblings()).await.unwrap();
    let again = execution.answer("a", siblings()).await.unwrap_err();
    assert!(matches!(&again.kind, LinkErrorKind::UnknownCall(id) if id == "a"), "{again}");
}

#[tokio::test]
async fn what_an_agent_does_not_answer_or_answers_wrongly_is_a_typed_error() {
    let limits = LinkLimits {
        message_bytes_max: 50_000,
        heartbeat_timeout: Duration::from_millis(200),
        shutdown_margin: Duration::from_millis(100),
        ..Default::default()
    };
    let (link, _handle) = linked(Script { ack_id: "m-2".into(), ..Default::default() }, limits.clone()).await;
    let said = |result: Result<(), hive::LinkError>| result.unwrap_err().to_string();
    assert_eq!(said(link.init(InitRequest::default()).await.map(drop)), "`Init` of the agent failed: the agent is not ready: no model");
    let large = link.heartbeat(1).await.unwrap_err();
    assert_eq!(large.code(), Some(hive::tonic::Code::OutOfRange), "{large}");
    let missing = link.interrupt("t", "why").await.unwrap_err();
    assert_eq!(missing.code(), Some(hive::tonic::Code::Unimplemented), "{missing}");
    let wrong = link.deliver(AgentMessage { message_id: "m-1".into(), ..Default::default() }).await.map(|_| ());
    assert_eq!(said(wrong), "`DeliverMessage` of the agent failed: the agent acknowledges message `m-2` instead of `m-1`");
    let right = link.deliver(AgentMessage { message_id: "m-2".into(), ..Default::default() }).await.unwrap();
    assert_eq!(right.message_id, "m-2");
    let late = link.shutdown(ShutdownReason::ShutdownNormal, Duration::ZERO).await.map(|_| ());
    assert_eq!(said(late), "`Shutdown` of the agent failed: no answer within 100ms");

    let (link, handle) = linked(Script { is_silent: true, ..Default::default() }, limits).await;
    assert_eq!(said(link.heartbeat(1).await.map(|_| ())), "`Heartbeat` of the agent failed: no answer within 200ms");
    assert!(!link.is_closed());
    handle.stop(Duration::ZERO).await;
    crate::bed::until("the link is closed", || link.is_closed()).await;
    assert!(link.heartbeat(1).await.is_err());
}

/// A port at which something else listens, or a program that says nothing.
#[tokio::test]
async fn what_does_not_speak_grpc_is_no_agent() {
    let limits = LinkLimits { init_timeout: Duration::from_millis(300), ..Default::default() };
    let (here, there) = tokio::io::duplex(1024);
    let link = AgentLink::connect(here, limits.clone()).await.unwrap();
    let silent = link.init(InitRequest::default()).await.unwrap_err();
    assert!(matches!(silent.kind, LinkErrorKind::Timeout(_)), "{silent}");
    drop(there);

    let (here, mut there) = tokio::io::duplex(1024);
    tokio::io::AsyncWriteExt::write_all(&mut there, b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    let refused = match AgentLink::connect(here, limits).await {
        Ok(link) => link.init(InitRequest::default()).await.unwrap_err(),
        Err(refused) => refused,
    };
    assert!(matches!(refused.kind, LinkErrorKind::Status(_) | LinkErrorKind::Connection(_)), "{refused}");
}

/// An agent that never reads what it is answered is not fed without end.
#[tokio::test]
async fn an_agent_that_does_not_listen_is_not_fed_for_ever() {
    let many: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let says: Vec<TaskProgress> = many.iter().map(|id| calls(&[id])).collect();
    let (link, _handle) = linked(Script { says, is_endless: true, ..Default::default() }, LinkLimits::default()).await;
    struct LargeHost;
    impl ExecutionHost for LargeHost {
        fn call(&self, _: system_call::Call) -> HiveFuture<'_, syscall_result::Result> {
            let sibling = SiblingInfo { name: "x".repeat(100_000), ..Default::default() };
            Box::pin(async { syscall_result::Result::ListSiblings(ListSiblingsResponse { siblings: vec![sibling] }) })
        }
        fn ask(&self, _: String) -> HiveFuture<'_, Option<String>> {
            Box::pin(async { None })
        }
        fn note(&self, _: ProgressNote) {}
    }
    let error = task(&link, Duration::from_millis(500)).drive(&LargeHost).await.unwrap_err();
    assert!(matches!(error.kind, LinkErrorKind::Timeout(_)), "{error}");
}
