//! The process tree as tools of a brain in a room: it spawns agents, directs them, and speaks with them.
//!
//! Each tool is a call of the room's own process, by the tree's own methods: gate, policy, budgets and journal hold as for everybody, and the
//! task's tool lists with them. **Invariant.** NoInput that a brain says here names who asks: the listener of its room is the identity.

mod cards;
mod input;

pub(crate) use cards::cards;

use input::{
    ArtifactInput, ArtifactsInput, Awaited, EscalateInput, KillInput, MailInput, NoInput, SendInput, SpawnInput, StoreInput, WaitInput,
    WorkInput,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tree::{ProcessView, ReadArtifact, ReceivedMessage, Tree};
use world::{Code, ExecuteResult, Fault, FaultKind, Pid, Refusal, Stop};

/// What the tools are called, in the order of their cards.
pub(crate) const NAMES: [&str; 11] = [
    "agent_spawn",
    "agent_execute",
    "agent_wait",
    "agent_kill",
    "agent_list",
    "message_send",
    "message_read",
    "escalate",
    "artifact_store",
    "artifact_read",
    "artifact_list",
];

/// Characters of bodies and contents in one answer.
const TEXT_CHARS: usize = 40_000;
/// Messages in one answer.
const MESSAGES_MAX: usize = 32;
/// Tasks for children that are not waited for at once.
const WORKS_MAX: usize = 64;

/// A task that a child works on.
type RunningWork = JoinHandle<Result<ExecuteResult, Stop>>;

/// The tools of one room.
#[derive(Default)]
pub(crate) struct TreeTools {
    works: Mutex<Works>,
}

/// Tasks whose results the brain has not heard.
#[derive(Default)]
struct Works {
    last: u64,
    /// `None` while one call waits for it.
    open: BTreeMap<u64, Option<RunningWork>>,
}

impl TreeTools {
    /// Calls a tool for the process `by`.
    pub async fn call(&self, tree: &Arc<Tree>, by: Pid, name: &str, arguments: &Value) -> Result<Value, Stop> {
        match name {
            "agent_spawn" => {
                let order = input::read::<SpawnInput>(arguments)?.order()?;
                Ok(json!({ "pid": tree.spawn(by, order).await? }))
            }
            "agent_execute" => self.execute(tree, by, input::read(arguments)?).await,
            "agent_wait" => self.wait(tree, by, input::read(arguments)?).await,
            "agent_kill" => {
                let ended = tree.kill(by, input::read::<KillInput>(arguments)?.order(), true).await?;
                Ok(json!({ "ended": ended }))
            }
            "agent_list" => {
                let NoInput {} = input::read(arguments)?;
                let shown = |views: Vec<ProcessView>| views.iter().map(shown_process).collect::<Vec<_>>();
                let (own, below, beside) = (tree.info(by, by)?, tree.children(by, true, None)?, tree.siblings(by)?);
                Ok(json!({ "you": shown_process(&own), "below": shown(below), "beside": shown(beside) }))
            }
            "message_send" => {
                let order = input::read::<SendInput>(arguments)?.order()?;
                Ok(json!({ "message": tree.send(by, order).await? }))
            }
            "message_read" => read_messages(tree, by, input::read(arguments)?).await,
            "escalate" => {
                let reply = tree.escalate(by, input::read::<EscalateInput>(arguments)?.order()).await?;
                let (escalation, with, review) = (reply.escalation, reply.with, reply.review);
                Ok(
                    json!({ "escalation": escalation, "with": with, "handled": reply.is_handled, "response": reply.response, "review": review }),
                )
            }
            "artifact_store" => {
                let id = tree.store(by, input::read::<StoreInput>(arguments)?.order()).await?;
                Ok(json!({ "artifact": id }))
            }
            "artifact_read" => read_artifact(tree, by, input::read(arguments)?).await,
            "artifact_list" => {
                let ArtifactsInput { prefix, stored_by } = input::read(arguments)?;
                let found = tree.artifacts(by, &prefix, stored_by.map(Pid)).await?;
                let shown = found.iter().map(|one| {
                    let (id, key, version, by, bytes) = (one.id, &one.key, one.version, one.owner, one.bytes);
                    json!({ "id": id, "key": key, "version": version, "by": by, "bytes": bytes, "type": one.content_type, "visibility": one.visibility })
                });
                Ok(json!({ "artifacts": shown.collect::<Vec<_>>() }))
            }
            other => Err(Refusal::new(Code::NotFound, format!("there is no tool `{other}`")).into()),
        }
    }

    async fn execute(&self, tree: &Arc<Tree>, by: Pid, input: WorkInput) -> Result<Value, Stop> {
        let (target, order, wait) = input.order()?;
        let work = {
            let mut works = self.works.lock();
            if works.open.len() >= WORKS_MAX {
                let full = Refusal::new(Code::Exhausted, format!("{WORKS_MAX} tasks are at work, and nobody asked for their results"));
                return Err(full.hint("ask for one with agent_wait").into());
            }
            works.last += 1;
            let (work, tree) = (works.last, tree.clone());
            let running = tokio::spawn(async move { tree.execute(by, target, order, true).await });
            works.open.insert(work, Some(running));
            work
        };
        self.result_of(work, wait).await
    }

    async fn wait(&self, tree: &Tree, by: Pid, input: WaitInput) -> Result<Value, Stop> {
        match input.order()? {
            (Awaited::End(target), wait) => {
                let exit = tree.wait(by, target, Some(wait), true).await?;
                Ok(json!({ "pid": target, "ended": exit }))
            }
            (Awaited::Work(work), wait) => self.result_of(work, wait).await,
        }
    }

    /// The result of a task, or that it is still at work.
    async fn result_of(&self, work: u64, wait: Duration) -> Result<Value, Stop> {
        let mut claimed = ClaimedWork::take(&self.works, work)?;
        let Some(running) = &mut claimed.running else { return Err(unheard(work).into()) };
        let Ok(done) = tokio::time::timeout(wait, running).await else {
            return Ok(json!({ "work": work, "running": true, "hint": "ask again with agent_wait and this `work`" }));
        };
        claimed.running = None;
        let done = done.map_err(|error| Fault::new(FaultKind::Bug, "a task was lost", error))?;
        Ok(json!({ "result": done? }))
    }
}

/// Work that one call waits for. What is not over when the call ends, also because its client hung up, waits for the next one.
struct ClaimedWork<'a> {
    works: &'a Mutex<Works>,
    work: u64,
    running: Option<RunningWork>,
}

impl<'a> ClaimedWork<'a> {
    fn take(works: &'a Mutex<Works>, work: u64) -> Result<ClaimedWork<'a>, Refusal> {
        let running = match works.lock().open.get_mut(&work) {
            None => return Err(unheard(work)),
            Some(place) => place.take(),
        };
        match running {
            None => Err(Refusal::new(Code::WrongState, format!("another call waits for work {work}"))),
            running => Ok(ClaimedWork { works, work, running }),
        }
    }
}

impl Drop for ClaimedWork<'_> {
    fn drop(&mut self) {
        let mut works = self.works.lock();
        match self.running.take() {
            None => drop(works.open.remove(&self.work)),
            running => drop(works.open.insert(self.work, running)),
        }
    }
}

fn unheard(work: u64) -> Refusal {
    Refusal::new(Code::NotFound, format!("there is no work {work} whose result nobody heard"))
}

/// Messages as they wait, and their acknowledgement on disk before anybody hears them.
async fn read_messages(tree: &Tree, by: Pid, input: MailInput) -> Result<Value, Stop> {
    let (filter, wait) = input.order();
    let mut reader = tree.subscribe(by, filter).await?;
    let mut messages = Vec::new();
    let mut chars = 0;
    let mut next = reader.next_waiting().await;
    if next.is_none() && !wait.is_zero() {
        next = tokio::time::timeout(wait, reader.next()).await.ok().flatten();
    }
    while let Some(received) = next {
        let shown = shown_message(&received);
        chars += shown["body"].as_str().map_or(0, |body| body.chars().count());
        messages.push(shown);
        let is_full = chars >= TEXT_CHARS || messages.len() >= MESSAGES_MAX;
        next = if is_full { None } else { reader.next_waiting().await };
    }
    reader.close().await?;
    Ok(json!({ "messages": messages }))
}

fn shown_message(ReceivedMessage { message, body }: &ReceivedMessage) -> Value {
    let body = String::from_utf8_lossy(body);
    let mut shown = json!({
        "id": message.id, "from": message.from, "from_name": message.from_name, "relation": message.relation, "kind": message.kind,
        "priority": message.priority, "body": body.chars().take(TEXT_CHARS).collect::<String>(),
    });
    if body.chars().nth(TEXT_CHARS).is_some() {
        shown["cut_bytes"] = message.bytes.into();
    }
    if let Some(reply_to) = &message.reply_to {
        shown["reply_to"] = reply_to.clone().into();
    }
    shown
}

async fn read_artifact(tree: &Tree, by: Pid, input: ArtifactInput) -> Result<Value, Stop> {
    let (which, offset) = input.order()?;
    let found = tree.artifact(by, which).await?;
    let ReadArtifact { artifact, content } =
        found.ok_or_else(|| Refusal::new(Code::NotFound, "there is no such artifact that you can read"))?;
    let mut shown =
        json!({ "id": artifact.id, "key": artifact.key, "version": artifact.version, "by": artifact.owner, "type": artifact.content_type });
    let Ok(content) = String::from_utf8(content) else {
        let binary = Refusal::new(
            Code::BadInput,
            format!("{} is no text: it has {} bytes of {}", artifact.id, artifact.bytes, artifact.content_type),
        );
        return Err(binary.hint("leave it to an agent that reads such files").into());
    };
    let mut rest = content.chars().skip(offset);
    shown["content"] = rest.by_ref().take(TEXT_CHARS).collect::<String>().into();
    if rest.next().is_some() {
        shown["next_offset"] = (offset + TEXT_CHARS).into();
    }
    Ok(shown)
}

fn shown_process(view: &ProcessView) -> Value {
    json!({
        "pid": view.pid, "parent": view.parent, "name": view.name, "role": view.role, "tier": view.tier, "state": view.state,
        "runtime": view.runtime, "tokens": view.tokens, "children": view.children, "task": view.task,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(result: Result<Value, Stop>) -> String {
        match result {
            Ok(value) => format!("it was not refused: {value}"),
            Err(stop) => stop.to_string(),
        }
    }

    #[tokio::test]
    async fn work_that_takes_longer_is_heard_once() {
        let tools = TreeTools::default();
        let (finish, finished) = tokio::sync::oneshot::channel::<()>();
        let running = tokio::spawn(async move {
            finished.await.unwrap();
            Ok(ExecuteResult { output: "done".into(), ..ExecuteResult::default() })
        });
        tools.works.lock().open.insert(1, Some(running));
        assert_eq!(tools.result_of(1, Duration::ZERO).await.unwrap()["running"], true);
        // A call that waits, and whose client hangs up in the middle.
        let waits = tools.result_of(1, Duration::from_secs(60));
        tokio::pin!(waits);
        assert!(std::future::poll_fn(|context| std::task::Poll::Ready(waits.as_mut().poll(context).is_pending())).await);
        assert_eq!(reason(tools.result_of(1, Duration::ZERO).await), "another call waits for work 1");
        waits.set(tools.result_of(2, Duration::ZERO));
        assert_eq!(reason(waits.await), "there is no work 2 whose result nobody heard");
        finish.send(()).unwrap();
        assert_eq!(tools.result_of(1, Duration::from_secs(60)).await.unwrap()["result"]["output"], "done");
        assert_eq!(reason(tools.result_of(1, Duration::ZERO).await), "there is no work 1 whose result nobody heard");
    }
}
