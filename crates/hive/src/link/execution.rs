//! One task of an agent, as a stream in both directions.
//!
//! **Invariant.** Each call that the agent makes has an id of its own while it is open, and gets one answer under that id. Once the task has
//! ended nothing more is read, so an agent cannot hold its kernel by leaving the stream open. Dropped, an execution is cancelled.

use super::HiveFuture;
use super::fault::{LinkError, LinkErrorKind};
use crate::channel::GrpcChannel;
use crate::generated::agent::agent_service_client::AgentServiceClient;
use crate::generated::agent::{
    ExecuteInput, ProgressType, SyscallResult, SystemCall, TaskProgress, TaskRequest, TaskResult, execute_input, syscall_result,
    system_call,
};
use futures_util::stream::{FuturesUnordered, StreamExt, poll_fn};
use std::collections::HashMap;
use std::fmt;
use std::mem::{Discriminant, discriminant};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::{Response, Status, Streaming};

const METHOD: &str = "Execute";

/// Answers that wait until the agent reads them. With more, the agent is not read either.
const INPUTS_MAX: usize = 16;

type Starting = HiveFuture<'static, Result<Response<Streaming<TaskProgress>>, Status>>;

/// What an agent reports while it works.
#[derive(Clone, Debug, PartialEq)]
pub enum ProgressNote {
    /// `percent` is `None` where the agent does not know.
    Update {
        message: String,
        percent: Option<f32>,
    },
    Log {
        message: String,
    },
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq)]
pub enum ExecutionEnd {
    Completed(TaskResult),
    Failed { message: String, result: Option<TaskResult> },
}

/// One thing that an agent says in the stream of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskEvent {
    /// The agent has the task: it began to answer. An agent may do so with the first thing that it says.
    Taken,
    Note(ProgressNote),
    /// To be answered with [`Execution::send_input`].
    Question(String),
    /// Each to be answered with [`Execution::answer`].
    Calls(Vec<(String, system_call::Call)>),
    End(ExecutionEnd),
}

/// Whoever answers what an agent asks during a task.
pub trait ExecutionHost: Send + Sync {
    /// Carries out a call. The result is of the same kind as the call.
    fn call(&self, call: system_call::Call) -> HiveFuture<'_, syscall_result::Result>;
    /// Answers a question; `None` if nobody will.
    fn ask(&self, question: String) -> HiveFuture<'_, Option<String>>;
    fn note(&self, note: ProgressNote);
    /// The agent has the task.
    fn taken(&self) {}
}

/// A task that an agent works on.
pub struct Execution {
    task_id: String,
    starting: Option<Starting>,
    progress: Option<Streaming<TaskProgress>>,
    inputs: mpsc::Sender<ExecuteInput>,
    /// What is not answered yet, and of which kind an answer has to be.
    open: HashMap<String, Discriminant<syscall_result::Result>>,
    /// Questions that are not answered yet.
    questions: usize,
    open_calls_max: usize,
    timeout: Option<Duration>,
    deadline: Option<Instant>,
}

impl fmt::Debug for Execution {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Execution").field("task_id", &self.task_id).field("open", &self.open.len()).finish_non_exhaustive()
    }
}

impl Execution {
    pub(super) fn new(
        mut client: AgentServiceClient<GrpcChannel>,
        task: TaskRequest,
        timeout: Option<Duration>,
        open_calls_max: usize,
    ) -> Execution {
        let (inputs, mut waiting) = mpsc::channel(INPUTS_MAX);
        let task_id = task.task_id.clone();
        let mut first = Some(ExecuteInput { input: Some(execute_input::Input::Task(task)) });
        let stream = poll_fn(move |context| match first.take() {
            Some(first) => std::task::Poll::Ready(Some(first)),
            None => waiting.poll_recv(context),
        });
        // An agent that has nothing to say yet answers with nothing, not even headers; so the answer is waited for with the first event.
        let starting: Starting = Box::pin(async move { client.execute(stream).await });
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        Execution {
            task_id,
            starting: Some(starting),
            progress: None,
            inputs,
            open: HashMap::new(),
            questions: 0,
            open_calls_max,
            timeout,
            deadline,
        }
    }

    /// The next thing that the agent says. May be dropped and asked again. After [`TaskEvent::End`] there is nothing more.
    pub async fn next(&mut self) -> Result<TaskEvent, LinkError> {
        let (deadline, timeout) = (self.deadline, self.timeout);
        let message = match deadline {
            None => self.message().await?,
            Some(deadline) => match tokio::time::timeout_at(deadline, self.message()).await {
                Ok(message) => message?,
                Err(_) => return Err(LinkErrorKind::Timeout(timeout.unwrap_or_default()).of(METHOD)),
            },
        };
        match message {
            None => Ok(TaskEvent::Taken),
            Some(message) => self.event(message).map_err(|kind| kind.of(METHOD)),
        }
    }

    /// What the agent says next; `None` is its headers.
    async fn message(&mut self) -> Result<Option<TaskProgress>, LinkError> {
        let broken = |status| LinkErrorKind::Status(Box::new(status)).of(METHOD);
        if let Some(starting) = &mut self.starting {
            let started = starting.await;
            self.starting = None;
            self.progress = Some(started.map_err(broken)?.into_inner());
            return Ok(None);
        }
        let ended = || LinkErrorKind::EndedEarly.of(METHOD);
        let progress = self.progress.as_mut().ok_or_else(ended)?;
        progress.message().await.map_err(broken)?.ok_or_else(ended).map(Some)
    }

    fn event(&mut self, progress: TaskProgress) -> Result<TaskEvent, LinkErrorKind> {
        // An agent may leave the id out. If it gives one, it is of this task.
        if !progress.task_id.is_empty() && progress.task_id != self.task_id {
            return Err(LinkErrorKind::OtherTask { expected: self.task_id.clone(), found: progress.task_id });
        }
        let kind = ProgressType::try_from(progress.r#type).map_err(|_| LinkErrorKind::UnknownProgress(progress.r#type))?;
        let message = progress.message;
        Ok(match kind {
            ProgressType::ProgressUpdate => {
                let percent = Some(progress.progress_percent).filter(|percent| *percent >= 0.0);
                TaskEvent::Note(ProgressNote::Update { message, percent })
            }
            ProgressType::ProgressLog => TaskEvent::Note(ProgressNote::Log { message }),
            ProgressType::ProgressNeedsInput => {
                self.questions += 1;
                self.check_open(self.open.len())?;
                TaskEvent::Question(message)
            }
            ProgressType::ProgressSyscall => TaskEvent::Calls(self.opened(progress.syscalls)?),
            ProgressType::ProgressCompleted => self.ended(ExecutionEnd::Completed(progress.result.unwrap_or_default())),
            ProgressType::ProgressFailed => self.ended(ExecutionEnd::Failed { message, result: progress.result }),
        })
    }

    fn ended(&mut self, end: ExecutionEnd) -> TaskEvent {
        self.progress = None;
        self.open.clear();
        TaskEvent::End(end)
    }

    fn opened(&mut self, calls: Vec<SystemCall>) -> Result<Vec<(String, system_call::Call)>, LinkErrorKind> {
        self.check_open(self.open.len() + calls.len())?;
        let mut opened = Vec::new();
        for SystemCall { call_id, call } in calls {
            let call = call.ok_or_else(|| LinkErrorKind::EmptyCall(call_id.clone()))?;
            if self.open.insert(call_id.clone(), answer_kind(&call)).is_some() {
                return Err(LinkErrorKind::RepeatedCall(call_id));
            }
            opened.push((call_id, call));
        }
        Ok(opened)
    }

    fn check_open(&self, calls: usize) -> Result<(), LinkErrorKind> {
        if calls + self.questions > self.open_calls_max { Err(LinkErrorKind::TooManyCalls(self.open_calls_max)) } else { Ok(()) }
    }

    /// Answers an open call.
    pub async fn answer(&mut self, call_id: &str, result: syscall_result::Result) -> Result<(), LinkError> {
        let kind = self.open.get(call_id).ok_or_else(|| LinkErrorKind::UnknownCall(call_id.to_owned()).of(METHOD))?;
        if *kind != discriminant(&result) {
            return Err(LinkErrorKind::OtherAnswer(call_id.to_owned()).of(METHOD));
        }
        self.open.remove(call_id);
        let result = SyscallResult { call_id: call_id.to_owned(), result: Some(result) };
        self.send(execute_input::Input::SyscallResult(result)).await
    }

    /// Answers a question of the agent.
    pub async fn send_input(&mut self, text: String) -> Result<(), LinkError> {
        self.questions = self.questions.saturating_sub(1);
        self.send(execute_input::Input::UserInput(text)).await
    }

    async fn send(&mut self, input: execute_input::Input) -> Result<(), LinkError> {
        let sent = self.inputs.send(ExecuteInput { input: Some(input) });
        let sent = match self.deadline {
            None => sent.await,
            Some(deadline) => match tokio::time::timeout_at(deadline, sent).await {
                Ok(sent) => sent,
                Err(_) => return Err(LinkErrorKind::Timeout(self.timeout.unwrap_or_default()).of(METHOD)),
            },
        };
        sent.map_err(|_| LinkErrorKind::InputClosed.of(METHOD))
    }

    /// Works the task off: answers what the agent asks by what `host` says, many calls at a time, until the task has ended.
    pub async fn drive(mut self, host: &dyn ExecutionHost) -> Result<ExecutionEnd, LinkError> {
        let mut calls = FuturesUnordered::new();
        let mut questions = FuturesUnordered::new();
        loop {
            tokio::select! {
                Some((call_id, result)) = calls.next() => {
                    let call_id: String = call_id;
                    or_unheard(self.answer(&call_id, result).await)?;
                }
                Some(answer) = questions.next() => {
                    let answer: Option<String> = answer;
                    or_unheard(self.send_input(answer.ok_or_else(|| LinkErrorKind::NoInput.of(METHOD))?).await)?;
                }
                event = self.next() => match event? {
                    TaskEvent::Taken => host.taken(),
                    TaskEvent::Note(note) => host.note(note),
                    TaskEvent::Question(question) => questions.push(host.ask(question)),
                    TaskEvent::Calls(made) => {
                        calls.extend(made.into_iter().map(|(call_id, call)| async move { (call_id, host.call(call).await) }));
                    }
                    TaskEvent::End(end) => return Ok(end),
                },
            }
        }
    }
}

/// An agent may end its task without waiting for answers. What it said before that is still to be read, and decides.
fn or_unheard(sent: Result<(), LinkError>) -> Result<(), LinkError> {
    match sent {
        Err(LinkError { kind: LinkErrorKind::InputClosed, .. }) => Ok(()),
        sent => sent,
    }
}

/// The kind of result that answers a call.
fn answer_kind(call: &system_call::Call) -> Discriminant<syscall_result::Result> {
    use syscall_result::Result as Of;
    use system_call::Call;
    discriminant(&match call {
        Call::Spawn(_) => Of::Spawn(Default::default()),
        Call::Kill(_) => Of::Kill(Default::default()),
        Call::Send(_) => Of::Send(Default::default()),
        Call::Store(_) => Of::Store(Default::default()),
        Call::GetArtifact(_) => Of::GetArtifact(Default::default()),
        Call::Escalate(_) => Of::Escalate(Default::default()),
        Call::Log(_) => Of::Log(Default::default()),
        Call::ExecuteOn(_) => Of::ExecuteOn(Default::default()),
        Call::WaitChild(_) => Of::WaitChild(Default::default()),
        Call::ListSiblings(_) => Of::ListSiblings(Default::default()),
    })
}
