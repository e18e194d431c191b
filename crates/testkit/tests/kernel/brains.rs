//! A brain in a room directs others: the tools of the process tree, as its client calls them at the door of its room.

use agent::RoomTools;
use kernel::{NewTask, Reply, Request, TaskShape};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use testkit::harness::Test;
use testkit::stage::{self, Setup, Stage};
use tree::{ArtifactOrder, ArtifactQuery, MessageOrder, SpawnOrder};
use world::{
    CallId, Event, MessagePriority, Mode, Pid, ProcessRole, ProcessState, ProgramLimits, ProgramRuntime, Recipient, ReviewId, TaskId, Tier,
    Visibility,
};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("a_brain_spawns_and_speaks_with_its_agents", || play("", speaks)),
        Test::new("a_brain_keeps_to_its_rights", || play("", rights)),
        Test::new("trouble_of_a_brain_comes_back_with_its_answer", || play("", trouble)),
        Test::new("the_projects_rules_and_a_tasks_list_hold_for_the_tree", || play(RULES, narrowed)),
        Test::new("a_brain_below_a_strict_brain_is_held_as_strictly", held_below),
    ]
}

/// A brain has another one write a source. Rules let small changes pass unread that tests vouch for.
const DELEGATES: &str = r#"file src/greeting.txt one
file tests/a_test.sh true
file check.sh echo TAP version 13; echo 1..1; if sh tests/a_test.sh; then echo ok 1 - a; else echo not ok 1 - a; exit 1; fi
test sh check.sh
safe src/**
rule allow *
tools fs.* proc.*
budget set 10000000
model
  on "play the"
    call agent_spawn {"name": "writer", "brain": "native"}
  then
    call agent_execute {"pid": 4, "task": "write it"}
  then
    say it is written
  on "write it"
    call fs.write {"path": "src/greeting.txt", "content": "two\n"}
  then
    say done
show src/greeting.txt
"#;

fn held_below() -> Result<(), String> {
    let has = |journal: &str, words: &[&str]| journal.lines().any(|line| words.iter().all(|word| line.contains(word)));
    // The control: the brain below a free one is free, and what it writes goes in.
    let free = testkit::scenario::tell(DELEGATES)?;
    assert!(
        has(&free, &["merge.finished", "p4", "src/greeting.txt"]) && free.lines().any(|line| line == "src/greeting.txt: two"),
        "{free}"
    );
    assert!(!has(&free, &["discipline.switched"]), "{free}");
    let held = testkit::scenario::tell(&DELEGATES.replace("budget set", "discipline strict\nbudget set"))?;
    assert!(has(&held, &["discipline.switched", "p4", "strict", "whoever asks for it is held so"]), "{held}");
    assert!(has(&held, &["call.refused", "p4", "fs.write src/greeting.txt", "planning"]), "{held}");
    assert!(!has(&held, &["merge.finished"]) && held.lines().any(|line| line == "src/greeting.txt: one"), "{held}");
    Ok(())
}

const RULES: &str = "  - { name: asks, match: { syscall: proc.spawn }, action: require_review, reason: look first }\n\
                     \x20 - { name: quiet, match: { syscall: message.send }, action: deny, reason: be quiet, hint: store it }\n";

fn play<F: Future<Output = Result<(), String>>>(policy: &str, test: impl FnOnce(Arc<Stage>) -> F) -> Result<(), String> {
    stage::play(Setup { policy: policy.to_owned(), ..Setup::default() }, test)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The tools of a room, as the client in it sees them.
struct Client {
    tools: RoomTools,
    pid: Pid,
}

impl Client {
    fn of(stage: &Stage, task: TaskId) -> Result<Client, String> {
        let pid = stage.kernel.ledger.look(|world| world.tasks.get(&task).map(|task| task.pid)).ok_or("there is no such task")?;
        let run = Request::new(pid, Some(task), stage.zone, "brain.run", json!({}));
        Ok(Client { tools: RoomTools::new(stage.kernel.clone(), &run, CallId(1)), pid })
    }

    async fn ask(&self, method: &str, params: Value) -> Result<Value, String> {
        let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer = self.tools.respond(message.to_string().as_bytes()).await.map_err(text)?;
        Ok(answer["result"].clone())
    }

    /// The text of an answer, and whether it tells of a failure.
    async fn call(&self, name: &str, arguments: Value) -> Result<(String, bool), String> {
        let result = self.ask("tools/call", json!({ "name": name, "arguments": arguments })).await?;
        let text = result["content"][0]["text"].as_str().ok_or_else(|| format!("no text: {result}"))?;
        Ok((text.to_owned(), result["isError"].as_bool().ok_or("it does not say how it went")?))
    }

    async fn ok(&self, name: &str, arguments: Value) -> Result<Value, String> {
        match self.call(name, arguments).await? {
            (text, false) => serde_json::from_str(&text).map_err(|error| format!("{text}: {error}")),
            (text, true) => Err(format!("{name}: {text}")),
        }
    }

    async fn refused(&self, name: &str, arguments: Value) -> Result<String, String> {
        match self.call(name, arguments).await? {
            (text, true) => Ok(text),
            (text, false) => Err(format!("{name} was not refused: {text}")),
        }
    }
}

fn number(value: &Value) -> Result<u64, String> {
    value.as_u64().ok_or_else(|| format!("no number: {value}"))
}

fn message(to: Pid, kind: &str, body: &str) -> MessageOrder {
    MessageOrder {
        to: Recipient::Process(to),
        kind: kind.into(),
        priority: MessagePriority::Normal,
        body: body.as_bytes().to_vec(),
        requires_ack: false,
        ttl: None,
        reply_to: None,
    }
}

/// The rules by which the newest call was refused.
fn refused_by(stage: &Stage) -> Result<Vec<String>, String> {
    let refused = |event| match event {
        Event::CallRefused(refused) => Some(refused.rules),
        _ => None,
    };
    stage.events()?.into_iter().filter_map(refused).next_back().ok_or_else(|| "nothing was refused".into())
}

async fn speaks(stage: Arc<Stage>) -> Result<(), String> {
    let (brain, tree) = (Client::of(&stage, stage.task)?, &stage.kernel.tree);
    let cards = brain.ask("tools/list", json!({})).await?;
    let names: Vec<&str> = cards["tools"].as_array().into_iter().flatten().filter_map(|card| card["name"].as_str()).collect();
    assert_eq!((names.len(), names[0], names[2]), (13, "test_run", "agent_spawn"), "{names:?}");

    let helper = Pid(number(&brain.ok("agent_spawn", json!({ "name": "helper", "limits": { "children": 2 } })).await?["pid"])?);
    let found = stage.kernel.ledger.look(|world| world.processes.get(&helper).cloned()).ok_or("it is not in the table")?;
    assert_eq!((found.parent, found.tree_role(), found.tree_tier()), (Some(brain.pid), Some(ProcessRole::Worker), Some(Tier::Operational)));
    let admitted = stage.events()?.into_iter().find_map(|event| match event {
        Event::CallAdmitted(call) if call.tool == "proc.spawn" => Some(call),
        _ => None,
    });
    let admitted = admitted.ok_or("the spawn is not on record")?;
    assert_eq!((admitted.pid, admitted.task), (brain.pid, Some(stage.task)), "it is part of the brain's task");

    let list = brain.ok("agent_list", json!({})).await?;
    assert_eq!((&list["you"]["pid"], &list["below"][0]["name"]), (&json!(brain.pid), &json!("helper")), "{list}");

    brain.ok("message_send", json!({ "to_pid": helper.0, "kind": "job", "body": "count to three" })).await?;
    let inbox = tree.inbox(helper, helper).await.map_err(text)?;
    assert_eq!(inbox.iter().map(|one| (one.message.from, &*one.body)).collect::<Vec<_>>(), [(brain.pid, &b"count to three"[..])]);
    assert_eq!(brain.ok("message_read", json!({})).await?, json!({ "messages": [] }));
    for body in ["one", "two"] {
        tree.send(helper, message(brain.pid, "done", body)).await.map_err(text)?;
    }
    tree.send(helper, message(brain.pid, "other", "later")).await.map_err(text)?;
    let read = brain.ok("message_read", json!({ "kind": "done" })).await?;
    let bodies: Vec<&Value> = read["messages"].as_array().into_iter().flatten().map(|one| &one["body"]).collect();
    assert_eq!((bodies, &read["messages"][0]["from_name"]), (vec![&json!("one"), &json!("two")], &json!("helper")));
    let left = brain.ok("message_read", json!({})).await?;
    assert_eq!((left["messages"].as_array().map(Vec::len), &left["messages"][0]["body"]), (Some(1), &json!("later")), "none comes twice");
    let queue = MessageOrder { to: Recipient::Queue("results".into()), ..message(brain.pid, "result", "42") };
    tree.send(helper, queue).await.map_err(text)?;
    let read = brain.ok("message_read", json!({ "queue": "results", "wait_seconds": 10 })).await?;
    assert_eq!(read["messages"][0]["body"], "42");

    let long = "é".repeat(45_000);
    let stored = brain.ok("artifact_store", json!({ "key": "plan", "content": long, "visibility": "subtree" })).await?;
    let seen = tree.artifact(helper, ArtifactQuery::Key("plan".into())).await.map_err(text)?.ok_or("the child cannot read it")?;
    assert_eq!((seen.artifact.owner, seen.content), (brain.pid, long.as_bytes().to_vec()));
    let first = brain.ok("artifact_read", json!({ "key": "plan" })).await?;
    let next = brain.ok("artifact_read", json!({ "id": stored["artifact"], "offset": first["next_offset"] })).await?;
    let whole = [&first, &next].map(|part| part["content"].as_str().unwrap_or_default()).concat();
    assert_eq!((whole, &next["next_offset"]), (long, &Value::Null));
    assert_eq!(brain.ok("artifact_list", json!({ "prefix": "pl" })).await?["artifacts"][0]["key"], "plan");

    assert_eq!(brain.ok("agent_kill", json!({ "pid": helper.0 })).await?, json!({ "ended": [helper] }));
    let end = brain.ok("agent_wait", json!({ "pid": helper.0 })).await?;
    assert_eq!((&end["pid"], &end["ended"]["reason"]), (&json!(helper), &json!("user_request")), "{end}");
    assert!(stage.kernel.ledger.look(|world| world.processes.get(&helper).is_none_or(|gone| gone.state == ProcessState::Dead)));
    Ok(())
}

async fn rights(stage: Arc<Stage>) -> Result<(), String> {
    let (brain, tree) = (Client::of(&stage, stage.task)?, &stage.kernel.tree);
    let high = brain.refused("agent_spawn", json!({ "name": "boss", "tier": "strategic" })).await?;
    let reason = "a process spawns none of a higher tier than its own (ask for a lower tier, or escalate to one above who may)";
    assert_eq!(high, format!("`proc.spawn` is denied by `builtin:spawn-tier`: {reason}"));
    assert_eq!(refused_by(&stage)?, ["builtin:spawn-tier"]);

    let order = SpawnOrder {
        parent: Some(Pid::KERNEL),
        name: "stranger".into(),
        role: ProcessRole::Agent,
        tier: Tier::Operational,
        model: String::new(),
        system_prompt: String::new(),
        tools: Vec::new(),
        env: BTreeMap::new(),
        metadata: BTreeMap::new(),
        limits: ProgramLimits::default(),
        budget: None,
        runtime: ProgramRuntime::Virtual,
        image: String::new(),
        initial_task: None,
        schedule: None,
        user: None,
        confined: true,
    };
    let stranger = tree.spawn(Pid::OPERATOR, order).await.map_err(text)?;
    let artifact =
        |visibility| ArtifactOrder { key: "diary".into(), content: b"mine".to_vec(), content_type: "text/plain".into(), visibility };
    let private = tree.store(stranger, artifact(Visibility::Private)).await.map_err(text)?;
    let foreign = brain.refused("artifact_read", json!({ "id": private })).await?;
    let reason = "the artifact is not visible to this process (ask the one who stored it to make it visible)";
    assert_eq!(foreign, format!("`artifact.read` is denied by `builtin:artifact-reader`: {reason}"));
    assert_eq!(refused_by(&stage)?, ["builtin:artifact-reader"]);
    assert_eq!(brain.refused("artifact_read", json!({ "key": "diary" })).await?, "there is no such artifact that you can read");
    let shown = tree.store(stranger, artifact(Visibility::Global)).await.map_err(text)?;
    assert_eq!(brain.ok("artifact_read", json!({ "id": shown })).await?["content"], "mine", "what is for everybody can be read");
    let foreign = brain.refused("agent_kill", json!({ "pid": stranger })).await?;
    assert!(foreign.contains("children"), "{foreign}");
    assert_eq!(refused_by(&stage)?, ["builtin:own-children"]);

    let helper = brain.ok("agent_spawn", json!({ "name": "helper" })).await?["pid"].clone();
    let idle = brain.refused("agent_execute", json!({ "pid": helper, "task": "work" })).await?;
    assert!(idle.contains("is virtual: nothing runs that could execute a task"), "{idle}");
    let late = brain.refused("agent_wait", json!({ "pid": helper, "wait_seconds": 0 })).await?;
    assert!(late.starts_with("timeout: process"), "{late}");
    assert_eq!(brain.refused("agent_wait", json!({ "work": 1 })).await?, "task-1 is no work of yours");
    let typo = brain.refused("agent_spawn", json!({ "name": "helper", "teir": "tactical" })).await?;
    assert!(typo.starts_with("unknown field `teir`, expected one of `name`"), "{typo}");
    assert_eq!(brain.refused("agent_clone", json!({})).await?, "there is no tool `agent_clone`");
    Ok(())
}

async fn trouble(stage: Arc<Stage>) -> Result<(), String> {
    let brain = Client::of(&stage, stage.task)?;
    let told = brain.ok("escalate", json!({ "issue": "no key for the shop", "severity": "error" })).await?;
    assert_eq!((&told["handled"], &told["escalation"]), (&json!(false), &json!("esc-1")), "{told}");
    let review: ReviewId = told["review"].as_str().ok_or_else(|| format!("nobody was asked: {told}"))?.parse().map_err(text)?;
    stage.kernel.answer(review, Reply::yes(), "human", Some("it is in the drawer".into())).await.map_err(text)?;
    let read = brain.ok("message_read", json!({ "kind": "escalation_handled", "wait_seconds": 10 })).await?;
    let body = read["messages"][0]["body"].as_str().ok_or_else(|| format!("no answer: {read}"))?;
    assert!(body.contains("it is in the drawer") && body.contains("esc-1"), "{body}");
    Ok(())
}

async fn narrowed(stage: Arc<Stage>) -> Result<(), String> {
    let brain = Client::of(&stage, stage.task)?;
    let waits = brain.refused("agent_spawn", json!({ "name": "helper" })).await?;
    assert!(waits.contains("waits for a person (look first)"), "{waits}");
    let asked = stage.kernel.ledger.look(|world| world.reviews.values().find(|review| review.tool == "proc.spawn").cloned());
    let asked = asked.ok_or("nobody was asked")?;
    assert_eq!((asked.pid, asked.task), (brain.pid, Some(stage.task)));
    stage.answer(asked.id, Reply::yes()).await?;
    let helper = number(&brain.ok("agent_spawn", json!({ "name": "helper" })).await?["pid"])?;
    let quiet = brain.refused("message_send", json!({ "to_pid": helper, "kind": "x" })).await?;
    assert_eq!(quiet, "`message.send` is denied by `quiet`: be quiet (store it)", "the project's own rule");
    assert_eq!(refused_by(&stage)?, ["quiet"]);

    let script = stage.bed.home().with_extension("script");
    let park = async |mode, tools: Option<&[&str]>| {
        let tools = tools.map(|tools| tools.iter().map(|tool| (*tool).to_owned()).collect());
        let new =
            NewTask { mode, new_worker: true, shape: TaskShape { tools, ..TaskShape::default() }, ..stage.bed.task("park too", &script) };
        let task = stage.kernel.add(new).await.map_err(text)?.task;
        stage.kernel.tasks.settled(task).await.map_err(text)?;
        Client::of(&stage, task)
    };
    let listed = park(Mode::Act, Some(&["fs.*", "artifact.*"])).await?;
    listed.ok("artifact_store", json!({ "key": "k", "content": "c" })).await?;
    for (tool, arguments, call) in [
        ("agent_spawn", json!({ "name": "helper" }), "proc.spawn"),
        ("message_read", json!({}), "message.read"),
        ("agent_list", json!({}), "proc.info"),
        ("escalate", json!({ "issue": "x" }), "escalation.raise"),
    ] {
        let refused = listed.refused(tool, arguments).await?;
        assert_eq!(refused, format!("`{call}` is not on the tool list of the task (tools on it: fs.*, artifact.*)"));
    }

    let asks = park(Mode::Ask, None).await?;
    asks.ok("agent_list", json!({})).await?;
    let refused = asks.refused("artifact_store", json!({ "key": "k", "content": "c" })).await?;
    assert!(refused.contains("ask"), "{refused}");
    Ok(())
}
