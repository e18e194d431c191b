//! What a program asks for in the stream of its task: each a call of its process, answered by its id.

use crate::contract::{self, error_text};
use crate::live::LiveProgram;
use crate::{ArtifactQuery, LogLine, ProcessView, ReadArtifact, Tree};
use gate::PERSON_ASK;
use hive::generated::agent::{
    EscalateResponse, ExecuteOnResponse, GetArtifactRequest, GetArtifactResponse, KillResponse, ListSiblingsResponse, LogResponse,
    SendMessageResponse, SiblingInfo, SpawnResponse, StoreArtifactResponse, WaitChildResponse, syscall_result, system_call,
};
use hive::{ExecutionHost, HiveFuture, ProgressNote};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use syscall_result::Result as Answer;
use system_call::Call;
use world::event::{ReviewAsked, TaskParked};
use world::{Answer as Verdict, CallPattern, Code, Event, Pid, Refusal, ReviewState, Stop, TaskId, TaskState};

/// Answers one program while it works on one task.
pub(crate) struct TaskHost {
    tree: Arc<Tree>,
    pid: Pid,
    incarnation: u64,
    task: TaskId,
    /// Held while a person is asked: a task has one question at a time.
    asking: tokio::sync::Mutex<()>,
}

impl TaskHost {
    pub fn new(tree: Arc<Tree>, live: &LiveProgram, task: TaskId) -> TaskHost {
        TaskHost { tree, pid: live.pid, incarnation: live.incarnation, task, asking: tokio::sync::Mutex::default() }
    }

    async fn answer(&self, call: Call) -> Answer {
        let (tree, pid) = (&self.tree, self.pid);
        match call {
            Call::Spawn(request) => {
                let spawned = async { tree.spawn(pid, contract::spawn_order(request)?).await };
                Answer::Spawn(match spawned.await {
                    Ok(child) => SpawnResponse { success: true, child_pid: child.0, error: String::new() },
                    Err(stop) => SpawnResponse { success: false, child_pid: 0, error: error_text(&stop) },
                })
            }
            Call::Kill(request) => {
                let killed = async { tree.kill(pid, contract::kill_order(&request)?, true).await };
                Answer::Kill(match killed.await {
                    Ok(pids) => {
                        KillResponse { success: true, killed_pids: pids.into_iter().map(|pid| pid.0).collect(), error: String::new() }
                    }
                    Err(stop) => KillResponse { success: false, killed_pids: Vec::new(), error: error_text(&stop) },
                })
            }
            Call::ExecuteOn(request) => {
                let order = contract::task_order(request.task.unwrap_or_default());
                Answer::ExecuteOn(match tree.execute(pid, Pid(request.target_pid), order, true).await {
                    Ok(result) => ExecuteOnResponse { success: true, result: Some(contract::task_result(result)), error: String::new() },
                    Err(stop) => ExecuteOnResponse { success: false, result: None, error: error_text(&stop) },
                })
            }
            Call::WaitChild(request) => {
                let target = Pid(request.target_pid);
                let timeout = u64::try_from(request.timeout_seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs);
                Answer::WaitChild(match tree.wait(pid, target, timeout, true).await {
                    Ok(exit) => {
                        let (exit_code, output) = (exit.code.unwrap_or(-1), exit.output);
                        WaitChildResponse { success: true, pid: target.0, exit_code, output, error: String::new() }
                    }
                    Err(stop) => {
                        WaitChildResponse { success: false, pid: target.0, exit_code: -1, output: String::new(), error: error_text(&stop) }
                    }
                })
            }
            Call::Send(request) => {
                let sent = async { tree.send(pid, contract::message_order(request)?).await };
                Answer::Send(match sent.await {
                    Ok(id) => SendMessageResponse { delivered: true, message_id: id.to_string(), error: String::new() },
                    Err(stop) => SendMessageResponse { delivered: false, message_id: String::new(), error: error_text(&stop) },
                })
            }
            other => self.answer_mail(other).await,
        }
    }

    /// The rest of them: what is kept, told and looked up.
    async fn answer_mail(&self, call: Call) -> Answer {
        let (tree, pid) = (&self.tree, self.pid);
        match call {
            Call::Store(request) => {
                let stored = async { tree.store(pid, contract::artifact_order(request)?).await };
                Answer::Store(match stored.await {
                    Ok(id) => StoreArtifactResponse { success: true, artifact_id: id.to_string(), error: String::new() },
                    Err(stop) => StoreArtifactResponse { success: false, artifact_id: String::new(), error: error_text(&stop) },
                })
            }
            Call::GetArtifact(request) => {
                Answer::GetArtifact(self.read_artifact(request).await.unwrap_or_else(|stop| GetArtifactResponse {
                    found: false,
                    error: error_text(&stop),
                    ..GetArtifactResponse::default()
                }))
            }
            Call::Escalate(request) => {
                let raised = async { tree.escalate(pid, contract::escalation_order(request)?).await };
                Answer::Escalate(match raised.await {
                    Ok(reply) => EscalateResponse { received: true, handled_by_pid: reply.with.0, response: reply.response },
                    Err(stop) => EscalateResponse { received: false, handled_by_pid: 0, response: error_text(&stop) },
                })
            }
            Call::Log(request) => {
                let written = async { tree.log(pid, contract::log_line(request)?).await };
                if let Err(stop) = written.await {
                    // The contract has no word for it in the answer.
                    world::log!("skep: a line of process {pid} was not recorded: {stop}");
                }
                Answer::Log(LogResponse {})
            }
            _ => {
                let siblings = tree.siblings(pid).unwrap_or_else(|stop| {
                    world::log!("skep: process {pid} was not told its siblings: {stop}");
                    Vec::new()
                });
                let sibling = |view: ProcessView| SiblingInfo {
                    pid: view.pid.0,
                    name: view.name,
                    role: view.role.map_or_else(String::new, |role| role.as_str().to_owned()),
                    state: view.state.as_str().to_owned(),
                };
                Answer::ListSiblings(ListSiblingsResponse { siblings: siblings.into_iter().map(sibling).collect() })
            }
        }
    }

    async fn read_artifact(&self, request: GetArtifactRequest) -> Result<GetArtifactResponse, Stop> {
        let query = if request.artifact_id.is_empty() {
            ArtifactQuery::Key(request.key)
        } else {
            let id = request.artifact_id.parse().ok();
            ArtifactQuery::Id(id.ok_or_else(|| Refusal::new(Code::BadInput, format!("`{}` is no id of an artifact", request.artifact_id)))?)
        };
        Ok(match self.tree.artifact(self.pid, query).await? {
            Some(ReadArtifact { artifact, content }) => GetArtifactResponse {
                found: true,
                content,
                content_type: artifact.content_type,
                stored_by_pid: artifact.owner.0,
                stored_at: u64::try_from(artifact.stored_ms / 1_000).unwrap_or(0),
                error: String::new(),
            },
            None => GetArtifactResponse { found: false, error: "artifact not found".to_owned(), ..GetArtifactResponse::default() },
        })
    }

    /// Parks the task as a question to a person, until there is an answer.
    async fn ask_person(&self, question: String) -> Result<Option<String>, Stop> {
        let _one = self.asking.lock().await;
        let (pid, task, ledger) = (self.pid, self.task, &self.tree.ledger);
        let asked = ledger.commit(|world, _| {
            if !world.tasks.get(&task).is_some_and(|task| task.state == TaskState::Running) {
                return (Vec::new(), None);
            }
            let review = world.next_review();
            let bind = ledger.journal().vault().digest(format!("{task} {review} {question}").as_bytes());
            let event = ReviewAsked {
                pid,
                task: Some(task),
                review,
                tool: PERSON_ASK.to_owned(),
                input: json!({ "question": question }),
                like: CallPattern::Exact { tool: PERSON_ASK.to_owned(), bind: bind.clone() },
                bind,
                reasons: vec!["an agent asks".to_owned()],
                rules: Vec::new(),
                paths: Vec::new(),
                size: None,
                zone: None,
                whole: None,
                room: None,
            };
            (vec![Event::from(event), TaskParked { pid, task: Some(task), review }.into()], Some(review))
        })?;
        let Some(review) = asked.durable().await? else { return Ok(None) };
        let answer = self.tree.until(|world| match world.reviews.get(&review).map(|review| &review.state) {
            Some(ReviewState::Open) => None,
            // Who says yes without a word has said that.
            Some(ReviewState::Answered { answer: Verdict::Allow, reason, .. }) => {
                Some(Some(reason.clone().unwrap_or_else(|| "yes".to_owned())))
            }
            _ => Some(None),
        });
        let answer = answer.await;
        let goes_on = self.tree.resume_task(task).await?;
        Ok(answer.filter(|_| goes_on))
    }
}

impl ExecutionHost for TaskHost {
    fn call(&self, call: Call) -> HiveFuture<'_, Answer> {
        Box::pin(self.answer(call))
    }

    fn ask(&self, question: String) -> HiveFuture<'_, Option<String>> {
        Box::pin(async move {
            match self.ask_person(question).await {
                Ok(answer) => answer,
                Err(stop) => {
                    world::log!("skep: a question of process {} was not asked: {stop}", self.pid);
                    None
                }
            }
        })
    }

    fn taken(&self) {
        self.tree.task_taken(self.pid, self.incarnation, self.task);
    }

    fn note(&self, note: ProgressNote) {
        let message = match note {
            ProgressNote::Log { message } | ProgressNote::Update { message, .. } => message,
        };
        if message.is_empty() {
            return;
        }
        let (tree, pid, task) = (Arc::clone(&self.tree), self.pid, self.task);
        tokio::spawn(async move {
            let fields = [("task".to_owned(), task.to_string())].into();
            if let Err(stop) = tree.log(pid, LogLine { level: "info".to_owned(), message, fields }).await {
                world::log!("skep: what process {pid} says of {task} was not recorded: {stop}");
            }
        });
    }
}
