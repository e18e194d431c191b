//! The tools of the tree as brains are told of them.

use serde_json::{Value, json};

pub(super) fn cards() -> Vec<Value> {
    agents().into_iter().chain(mail()).chain(artifacts()).collect()
}

fn card(name: &str, description: &str, required: &[&str], properties: &Value) -> Value {
    let schema = json!({ "type": "object", "required": required, "properties": properties, "additionalProperties": false });
    json!({ "name": name, "description": description, "inputSchema": schema })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn number(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": description })
}

fn choice(names: &[&str], description: &str) -> Value {
    json!({ "type": "string", "enum": names, "description": description })
}

fn texts(description: &str) -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": description })
}

const PID: &str = "the number of an agent, as agent_spawn and agent_list give it";
const WAIT: &str = "how long to wait for it, 50 without it; ask again after that";

fn agents() -> [Value; 5] {
    let limits = json!({
        "type": "object",
        "additionalProperties": false,
        "description": "what it may use at most; never more than you have",
        "properties": {
            "tokens": number("in all, taken from your own budget"), "tokens_per_hour": number(""), "context": number("tokens of its context"),
            "children": number("alive at once"), "tasks": number("at once"), "timeout_seconds": number("of one task"),
        },
    });
    let spawn = json!({
        "name": text("what it is called"),
        "role": choice(&["daemon", "agent", "architect", "lead", "worker", "task"], "worker without it"),
        "tier": choice(&["strategic", "tactical", "operational"], "never above your own; operational without it"),
        "model": text("the tier's own without it"),
        "runtime": choice(&["python", "claw", "custom", "virtual"], "virtual runs nothing and has a mailbox; that without it"),
        "image": text("what it runs: `module:Class` for python, else a program"),
        "brain": text("another brain, instead of runtime and image: native, claude, codex, opencode, gemini; works on your project in a sandbox of its own"),
        "prompt": text("its system prompt"),
        "task": text("what it does first"),
        "tools": { "type": "array", "items": { "type": "string" }, "description": "the tools that it may use" },
        "limits": limits,
    });
    let execute = json!({
        "pid": number(PID), "task": text("what it is to do"), "params": texts("what the task needs to know"),
        "timeout_seconds": number("the task fails after that"), "wait_seconds": number(WAIT),
    });
    let wait = json!({
        "pid": number("the agent whose end is waited for"), "work": number("the work that agent_execute named"), "wait_seconds": number(WAIT),
    });
    let kill = json!({
        "pid": number(PID), "recursive": { "type": "boolean", "description": "with all below it; yes without it" },
        "grace_seconds": number("how long it has to finish, 5 without it"),
    });
    [
        card("agent_spawn", "Starts an agent as your child, within your rights and budget. Gives its pid.", &["name"], &spawn),
        card(
            "agent_execute",
            "Has one of your children do a task and gives its result. Work that takes longer than the wait goes on: agent_wait gives its result then.",
            &["pid", "task"],
            &execute,
        ),
        card(
            "agent_wait",
            "Waits until one of your children ends, or until work of agent_execute is done, and gives the outcome.",
            &[],
            &wait,
        ),
        card("agent_kill", "Ends one of your children.", &["pid"], &kill),
        card("agent_list", "Lists you, the agents below you, and those beside you.", &[], &json!({})),
    ]
}

fn mail() -> [Value; 3] {
    let send = json!({
        "to_pid": number("your parent, a sibling or a child"), "to_queue": text("or a named queue"), "kind": text("what it is about"),
        "body": text("what it says"), "priority": choice(&["critical", "high", "normal", "low"], "normal without it"),
        "ttl_seconds": number("it is worth nothing after that"), "reply_to": text("what it answers"),
        "requires_ack": { "type": "boolean", "description": "the receiver must acknowledge it" },
    });
    let read = json!({
        "queue": text("a named queue; your own mailbox without it"), "kind": text("only messages of this kind"),
        "wait_seconds": number("how long to wait where there is none; not at all without it"),
    });
    let escalate = json!({
        "issue": text("what is wrong"), "severity": choice(&["info", "warning", "error", "critical"], "warning without it"),
        "context": texts("what whoever helps needs to know"),
        "auto": { "type": "boolean", "description": "whoever cannot help passes it on; yes without it" },
    });
    [
        card("message_send", "Sends a message to an agent or a queue.", &["kind"], &send),
        card("message_read", "Gives the messages that wait for you, and acknowledges them: none is given twice.", &[], &read),
        card(
            "escalate",
            "Tells those above you of trouble that you cannot deal with, up to the person in charge. A later answer comes as a message.",
            &["issue"],
            &escalate,
        ),
    ]
}

fn artifacts() -> [Value; 3] {
    let visibility = choice(&["private", "user", "subtree", "global"], "who can read it; you alone without it");
    let store = json!({ "key": text("its name"), "content": text("what it holds"), "content_type": text("text/plain without it"), "visibility": visibility });
    let read = json!({
        "key": text("its name: your own first, then of those above you"), "id": text("or one version, as `art-3`"),
        "offset": number("characters to pass over, where an answer was cut"),
    });
    let list = json!({ "prefix": text("how the keys begin"), "stored_by": number("only those of this agent") });
    [
        card("artifact_store", "Stores a text for yourself or others, as a new version of its key.", &["key", "content"], &store),
        card("artifact_read", "Reads what was stored.", &[], &read),
        card("artifact_list", "Lists what you can read.", &[], &list),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_has_a_card_that_clients_take() {
        let cards = cards();
        let names: Vec<&str> = cards.iter().map(|card| card["name"].as_str().unwrap()).collect();
        assert_eq!(names, crate::tree_tools::NAMES.map(|(name, _)| name));
        for card in &cards {
            let (name, schema) = (card["name"].as_str().unwrap(), &card["inputSchema"]);
            assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
            assert!(card["description"].as_str().unwrap().ends_with('.'), "{card}");
            let properties = schema["properties"].as_object().unwrap();
            for required in schema["required"].as_array().unwrap() {
                assert!(properties.contains_key(required.as_str().unwrap()), "{name} requires {required}");
            }
        }
    }
}
