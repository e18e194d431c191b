//! The kinds of brains, each with its own way to do the same things.

use crate::corpus::BrainAct;
use serde_json::{Value, json};

/// Plays Claude Code, with hands of its own.
const CLIENT: &str = include_str!("client.py");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrainKind {
    /// A script, whose calls the kernel makes.
    Script,
    /// The built-in brain, by a scripted model.
    Native,
    /// Steps of a plan.
    Plan,
    /// A vendor's client.
    Client,
}

impl BrainKind {
    pub const ALL: [BrainKind; 4] = [BrainKind::Script, BrainKind::Native, BrainKind::Plan, BrainKind::Client];

    pub fn as_str(self) -> &'static str {
        match self {
            BrainKind::Script => "script",
            BrainKind::Native => "native",
            BrainKind::Plan => "plan",
            BrainKind::Client => "client",
        }
    }

    /// The lines of a scenario in which this kind of brain does these things.
    pub fn lines(self, acts: &[&BrainAct]) -> String {
        match self {
            BrainKind::Script => script(acts),
            BrainKind::Native => native(acts),
            BrainKind::Plan => plan(acts),
            BrainKind::Client => client(acts),
        }
    }
}

const NEXT: &str = "plan.complete";

fn script(acts: &[&BrainAct]) -> String {
    let line = |act: &&BrainAct| match act {
        BrainAct::Next => format!("brain call {NEXT}\n"),
        BrainAct::Call { tool, input } => {
            let pairs: String = input.iter().map(|(key, value)| format!(" {key}={value}")).collect();
            format!("brain call {tool}{pairs}\n")
        }
    };
    acts.iter().map(line).chain(["brain done it is done\n".to_owned()]).collect()
}

fn native(acts: &[&BrainAct]) -> String {
    let answer = |act: &&BrainAct| match act {
        BrainAct::Next => format!("    call {NEXT} {{}}\n"),
        BrainAct::Call { tool, input } => format!("    call {tool} {}\n", Value::Object(input.clone())),
    };
    let answers: Vec<String> = acts.iter().map(answer).collect();
    format!("budget set 10000000\nmodel\n  on \"play the\"\n{}  then\n    say it is done\n", answers.join("  then\n"))
}

/// Each act is a step; steps that write what they do not name are in the order of the plan, and no step fails the others.
fn plan(acts: &[&BrainAct]) -> String {
    let step = |(number, act): (usize, &&BrainAct)| {
        let (tool, input) = match act {
            BrainAct::Next => (NEXT, json!({})),
            BrainAct::Call { tool, input } => (tool.as_str(), Value::Object(input.clone())),
        };
        let step = json!({ "step_id": format!("s{number}"), "tool_ref": { "name": tool }, "input": input, "failure_policy": "continue" });
        format!("    - {step}\n")
    };
    let steps: String = acts.iter().enumerate().map(step).collect();
    format!("session\nplan\n  schema_version: \"0.1\"\n  goal: two is two\n  steps:\n{steps}")
}

/// A turn for each phase.
fn client(acts: &[&BrainAct]) -> String {
    let turns: Vec<Vec<Value>> = acts
        .split(|act| matches!(act, BrainAct::Next))
        .map(|turn| {
            let named = |act: &&BrainAct| match act {
                BrainAct::Call { tool, input } => Some(json!({ "tool": tool, "input": input })),
                BrainAct::Next => None,
            };
            turn.iter().filter_map(named).collect()
        })
        .collect();
    let turns = serde_json::to_string(&json!(turns)).unwrap_or_default();
    // What is JSON twice is a text of Python.
    let program = CLIENT.replace("TURNS_AS_JSON", &Value::String(turns).to_string());
    format!("client\n{}", program.lines().map(|line| format!("  {line}\n")).collect::<String>())
}
