//! The process tree as tools of a brain: it spawns agents, directs them, and speaks with them.
//!
//! A vendor's client finds them in its room, the built-in brain among its other tools. Each is a call of the brain's own process, by the tree's own
//! methods: gate, policy, budgets and journal hold as for everybody, and the task's tool lists with them. **Invariant.** Nothing that a brain says here
//! names who asks. What is on record of a call is enough to tell its outcome again ([`recall`]), so a brain that is taken up again does nothing twice.

mod cards;
mod input;

use cards::cards;
use input::{
    ArtifactInput, ArtifactsInput, Awaited, EscalateInput, KillInput, MailInput, NoInput, SendInput, SpawnInput, StoreInput, WaitInput,
    WorkInput,
};
use serde_json::{Value, json};
use std::time::Duration;
use tree::{EscalationReply, ProcessView, ReadArtifact, ReceivedMessage, Tree, TreeCaller};
use world::{Code, EscalationId, Pid, Refusal, Stop, TaskId};

/// What the tools are called, in the order of their cards, and the call that each is.
pub(crate) const NAMES: [(&str, &str); 11] = [
    ("agent_spawn", "proc.spawn"),
    ("agent_execute", "proc.execute"),
    ("agent_wait", "proc.wait"),
    ("agent_kill", "proc.kill"),
    ("agent_list", "proc.info"),
    ("message_send", "message.send"),
    ("message_read", "message.read"),
    ("escalate", "escalation.raise"),
    ("artifact_store", "artifact.store"),
    ("artifact_read", "artifact.read"),
    ("artifact_list", "artifact.read"),
];

/// Those that only look.
const READS: [&str; 3] = ["agent_list", "artifact_read", "artifact_list"];
/// Characters of bodies and contents in one answer.
const TEXT_CHARS: usize = 40_000;
/// Messages in one answer.
const MESSAGES_MAX: usize = 32;

/// A tool of the tree as a brain is told of it.
pub struct TreeTool {
    pub name: &'static str,
    /// The call that it is, by the name that policies know.
    pub call: &'static str,
    pub read_only: bool,
    pub description: String,
    pub input_schema: Value,
}

/// All of them.
pub fn tree_tools() -> Vec<TreeTool> {
    let all = NAMES.into_iter().zip(cards());
    let tool = |((name, call), mut card): ((&'static str, &'static str), Value)| TreeTool {
        name,
        call,
        read_only: READS.contains(&name),
        description: card["description"].as_str().unwrap_or_default().to_owned(),
        input_schema: card["inputSchema"].take(),
    };
    all.map(tool).collect()
}

/// The call that a tool of the tree is; `None` for every other tool.
pub fn tree_call(tool: &str) -> Option<&'static str> {
    NAMES.iter().find(|(name, _)| *name == tool).map(|(_, call)| *call)
}

/// Calls a tool.
pub async fn call_tree(tree: &Tree, caller: TreeCaller, name: &str, arguments: &Value) -> Result<Value, Stop> {
    let by = caller.pid;
    match name {
        "agent_spawn" => {
            let order = input::read::<SpawnInput>(arguments)?.order()?;
            Ok(json!({ "pid": tree.spawn(caller, order).await? }))
        }
        "agent_execute" => {
            let (target, order, wait) = input::read::<WorkInput>(arguments)?.order()?;
            let work = tree.assign(caller, target, order, true).await?;
            result_of(tree, by, work, wait).await
        }
        "agent_wait" => match input::read::<WaitInput>(arguments)?.order()? {
            (Awaited::End(target), wait) => {
                let exit = tree.wait(by, target, Some(wait), true).await?;
                Ok(json!({ "pid": target, "ended": exit }))
            }
            (Awaited::Work(work), wait) => result_of(tree, by, TaskId(work), wait).await,
        },
        "agent_kill" => {
            let ended = tree.kill(caller, input::read::<KillInput>(arguments)?.order(), true).await?;
            Ok(json!({ "ended": ended }))
        }
        "agent_list" => {
            let NoInput {} = input::read(arguments)?;
            let shown = |views: Vec<ProcessView>| views.iter().map(shown_process).collect::<Vec<_>>();
            let [own, below, beside] = tree.around(by).await?.map(shown);
            Ok(json!({ "you": own.first(), "below": below, "beside": beside }))
        }
        "message_send" => {
            let order = input::read::<SendInput>(arguments)?.order()?;
            Ok(json!({ "message": tree.send(caller, order).await? }))
        }
        "message_read" => read_messages(tree, by, input::read(arguments)?).await,
        "escalate" => Ok(shown_escalation(tree.escalate(caller, input::read::<EscalateInput>(arguments)?.order()).await?)),
        "artifact_store" => {
            let id = tree.store(caller, input::read::<StoreInput>(arguments)?.order()).await?;
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

/// The outcome of a call that was made before, from its record: what it did is not done again, and what it waited for is waited for again. `None`
/// for what may be made again, because it only looks or waits.
pub async fn recall_tree(tree: &Tree, by: Pid, name: &str, arguments: &Value, recorded: &Value) -> Option<Result<Value, Stop>> {
    match name {
        "agent_spawn" => Some(Ok(json!({ "pid": recorded["pid"] }))),
        "agent_execute" => {
            let work: TaskId = recorded["task"].as_str()?.parse().ok()?;
            let wait = input::read::<WorkInput>(arguments).and_then(WorkInput::order).map(|(_, _, wait)| wait);
            Some(match wait {
                Ok(wait) => result_of(tree, by, work, wait).await,
                Err(refusal) => Err(refusal.into()),
            })
        }
        // A kernel that ended in the middle left some of them alive: to end them is no second act.
        "agent_kill" => {
            let ended: Vec<Pid> = serde_json::from_value(recorded["pids"].clone()).ok()?;
            ended.iter().all(|pid| tree.has_ended(*pid)).then(|| Ok(json!({ "ended": ended })))
        }
        "message_send" => Some(Ok(json!({ "message": recorded["message"] }))),
        "artifact_store" => Some(Ok(json!({ "artifact": recorded["artifact"] }))),
        "escalate" => {
            let raised: EscalationId = recorded["escalation"].as_str()?.parse().ok()?;
            Some(tree.escalation_reply(raised).map(shown_escalation))
        }
        _ => None,
    }
}

/// The result of work, or that it is still under way.
async fn result_of(tree: &Tree, by: Pid, work: TaskId, wait: Duration) -> Result<Value, Stop> {
    Ok(match tree.work_result(by, work, wait).await? {
        Some(result) => json!({ "result": result }),
        None => {
            let mut shown = json!({ "work": work.0, "running": true, "hint": "ask again with agent_wait and this `work`" });
            if let Some(review) = tree.work_question(work) {
                shown["waits_for_person"] = review.to_string().into();
            }
            shown
        }
    })
}

fn shown_escalation(reply: EscalationReply) -> Value {
    let (escalation, with, review) = (reply.escalation, reply.with, reply.review);
    json!({ "escalation": escalation, "with": with, "handled": reply.is_handled, "response": reply.response, "review": review })
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
