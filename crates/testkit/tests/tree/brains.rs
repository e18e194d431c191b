//! A brain in a room has agents work for it: real Python agents, directed by the tools that its client finds in the room.

use crate::ground::{Ground, agent, play};
use ::agent::RoomTools;
use kernel::{Reply, Request};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use testkit::harness::Test;
use world::{CallId, ProcessRole, ReviewState, ZoneId};

pub fn tests() -> Vec<Test> {
    vec![Test::new("a_brain_has_agents_work_and_hears_their_results", || play(directs))]
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The text of an answer, and whether it tells of a failure.
async fn call(tools: &RoomTools, name: &str, arguments: Value) -> Result<(String, bool), String> {
    let message = json!({ "id": 1, "method": "tools/call", "params": { "name": name, "arguments": arguments } });
    let answer = tools.respond(message.to_string().as_bytes()).await.map_err(text)?;
    let result = &answer["result"];
    let said = result["content"][0]["text"].as_str().ok_or_else(|| format!("no text: {answer}"))?;
    Ok((said.to_owned(), result["isError"] != json!(false)))
}

async fn ok(tools: &RoomTools, name: &str, arguments: Value) -> Result<Value, String> {
    match call(tools, name, arguments).await? {
        (text, false) => serde_json::from_str(&text).map_err(|error| format!("{text}: {error}")),
        (text, true) => Err(format!("{name}: {text}")),
    }
}

async fn directs(ground: Ground) -> Result<(), String> {
    let lead = ground.spawn(agent("lead", ProcessRole::Lead, "")).await?;
    let run = Request::new(lead, None, ZoneId::NONE, "brain.run", json!({}));
    let tools = RoomTools::new(ground.kernel.clone(), &run, CallId(1));
    let spawn = json!({ "name": "echo", "runtime": "python", "image": "agents.plain:Echo", "role": "worker", "prompt": "be brief" });
    let echo = ok(&tools, "agent_spawn", spawn).await?["pid"].clone();
    let done = ok(&tools, "agent_execute", json!({ "pid": echo, "task": "hello", "params": { "a": "b" } })).await?;
    assert_eq!(done, json!({ "result": { "exit_code": 0, "output": "hello", "metadata": { "a": "b" } } }));
    let who = ok(&tools, "agent_execute", json!({ "pid": echo, "task": "who" })).await?["result"]["output"].to_string();
    assert!(who.contains(&format!("ppid\\\": {lead}")) && who.contains("be brief"), "it is the brain's child: {who}");
    let failed = call(&tools, "agent_execute", json!({ "pid": echo, "task": "fail" })).await?;
    assert_eq!(failed, ("task failed: told to fail".to_owned(), true));

    // Work that takes longer than the brain waits goes on, and its result is for the one who asked for it.
    let late = ok(&tools, "agent_execute", json!({ "pid": echo, "task": "ask", "wait_seconds": 0 })).await?;
    assert_eq!(late["running"], true, "{late}");
    let again = ok(&tools, "agent_wait", json!({ "work": late["work"], "wait_seconds": 0 })).await?;
    assert_eq!(again["running"], true, "{again}");
    let begun = Instant::now();
    let asked = loop {
        let open = |world: &world::World| world.reviews.values().find(|review| review.state == ReviewState::Open).map(|review| review.id);
        match ground.kernel.ledger.look(open) {
            Some(review) => break review,
            None if begun.elapsed() > Duration::from_secs(30) => return Err("nobody was asked".into()),
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    ground.kernel.answer(asked, Reply::yes(), "human", Some("blue".into())).await.map_err(text)?;
    let done = ok(&tools, "agent_wait", json!({ "work": late["work"] })).await?;
    assert_eq!(done, json!({ "result": { "exit_code": 0, "output": "blue" } }));
    assert_eq!(ok(&tools, "agent_wait", json!({ "work": late["work"] })).await?, done, "it is on record");
    let other = ground.spawn(agent("other", ProcessRole::Lead, "")).await?;
    let run = Request::new(other, None, ZoneId::NONE, "brain.run", json!({}));
    let others = RoomTools::new(ground.kernel.clone(), &run, CallId(1));
    let (told, is_error) = call(&others, "agent_wait", json!({ "work": late["work"] })).await?;
    assert!(is_error && told.contains("is no work of yours"), "{told}");

    assert_eq!(ok(&tools, "agent_kill", json!({ "pid": echo })).await?, json!({ "ended": [echo] }));
    assert_eq!(ok(&tools, "agent_wait", json!({ "pid": echo })).await?["ended"]["reason"], "user_request");
    ground.kernel.stop("test").await.map_err(text)
}
