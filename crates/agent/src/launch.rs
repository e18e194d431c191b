//! A vendor's client at work: the call that runs it, and what it is started for.
//!
//! The program runs as one call, `brain.run`, through the same door as everything else: in a room of the template `brain`, over the task's
//! overlay, with the gateway as its way to models. Its own calls come back as moves of the brain. **Invariant.** The program does not
//! outlive the brain that stands for it, and nothing of it is left when that brain is closed.

use crate::Brains;
use crate::program::{AgentProgram, is_hooked_at_work};
use crate::talk::hook_command;
use brain::BrainSpec;
use brain::agent::{ASK, AgentBoot, AgentExit, LaunchPlan, UnreadableCheckpoint, series_in};
use gate::{CallEnd, Request};
use sandbox::TOOLS_PORT;
use serde_json::{Value, json};
use std::path::Path;
use world::{Mode, Refusal, Stop, Task};

/// The call that runs a vendor's client.
pub const BRAIN_RUN: &str = "brain.run";

impl Brains {
    /// What the client of a task is started for.
    pub fn boot_of(&self, task: &Task, spec: &BrainSpec, project: &Path) -> Result<AgentBoot, Stop> {
        let model = match spec {
            BrainSpec::Vendor { model, .. } => model.clone(),
            _ => None,
        };
        Ok(AgentBoot {
            series: self.last_series(task)?.unwrap_or_default(),
            model,
            project: project.to_string_lossy().into_owned(),
            brief: brief(),
            role: self.gate.role_text(task)?,
            may_change: task.present_mode() != Mode::Ask,
            tools_url: Some(format!("http://127.0.0.1:{TOOLS_PORT}/mcp")),
            hook: is_hooked_at_work(spec).then(hook_command),
        })
    }

    /// The conversation that the worker had last with this brain, or why that cannot be said.
    pub fn last_series(&self, task: &Task) -> Result<Result<Option<String>, UnreadableCheckpoint>, Stop> {
        let blob = self.last_memory(task).map(|blob| self.gate.ledger.blob_if_kept(&blob)).transpose()?.flatten();
        Ok(blob.map_or(Ok(None), |bytes| series_in(&bytes)))
    }

    /// The last checkpoint of the worker's task before this one with this brain.
    pub fn last_memory(&self, task: &Task) -> Option<String> {
        self.gate.ledger.look(|world| {
            let same = world.tasks.values().filter(|other| other.pid == task.pid && other.brain == task.brain && other.id < task.id);
            same.filter_map(|other| Some((other.id, other.memory.last()?.clone()))).max().map(|(_, blob)| blob)
        })
    }
}

/// What every client is told of its place. The same for each of its tasks: a client that stays has heard it once.
fn brief() -> String {
    format!(
        "You work in a sandbox on a project. A policy decides about each of your tool calls; a refusal comes with its reason: take another way, \
         or say what you need. What you change stays in a copy; a person looks at it before it goes into the project. Commit only if you are asked to. A turn that \
         begins with {ASK} is to be answered only: in it you may read, and every change is refused. There is no network beyond your model unless \
         the policy allows a host."
    )
}

/// The call that runs a client.
pub fn run_request(task: &Task, program: &AgentProgram, plan: &LaunchPlan) -> Request {
    let command: Vec<&String> = plan.before.iter().chain(&program.command).chain(&plan.arguments).collect();
    let map = |pairs: &[(String, String)]| Value::Object(pairs.iter().map(|(name, value)| (name.clone(), json!(value))).collect());
    let mut input = json!({ "brain": task.brain, "command": command });
    if !plan.environment.is_empty() {
        input["environment"] = map(&plan.environment);
    }
    if !plan.home_files.is_empty() {
        input["files"] = map(&plan.home_files);
    }
    Request::new(task.pid, Some(task.id), task.zone, BRAIN_RUN, input)
}

/// How a client ended, by the end of the call that ran it.
pub fn exit_of(end: CallEnd) -> AgentExit {
    match end {
        CallEnd::Done { value, .. } => {
            let (how, is_own_doing) = how_it_ended(&value);
            // What it wrote before somebody else killed it is no reason.
            let error_output = value["stderr"].as_str().filter(|_| is_own_doing).unwrap_or_default().to_owned();
            AgentExit::Ended { how, error_output }
        }
        CallEnd::Pending(Refusal { review: Some(review), .. }) => AgentExit::Waits(review),
        CallEnd::Refused(refusal) | CallEnd::Pending(refusal) => AgentExit::Refused { hint: refusal.advice(), reason: refusal.reason },
        CallEnd::CallerExecutes => AgentExit::Ended { how: "was never run and ended".to_owned(), error_output: String::new() },
    }
}

/// Signals that a program gets for what it did itself: ILL, TRAP, ABRT, BUS, FPE, SEGV and SYS. All others somebody sends.
const OWN_SIGNALS: [i64; 7] = [4, 5, 6, 7, 8, 11, 31];
/// What a shell adds to the number of the signal that killed its program, to make an exit code of it.
const SHELL_SIGNALS: std::ops::RangeInclusive<i64> = 129..=159;

/// What is to be said of a program that ended, and whether it did that by itself.
fn how_it_ended(value: &Value) -> (String, bool) {
    match (value["exit_code"].as_i64(), value["signal"].as_i64(), value["error"].as_str()) {
        (_, _, Some(error)) => (format!("ended ({error})"), false),
        // Some clients are started by a shell, or by a program that does as shells do.
        (Some(code), ..) if SHELL_SIGNALS.contains(&code) => {
            let signal = code - SHELL_SIGNALS.start() + 1;
            (format!("was killed (signal {signal}, told as exit code {code})"), OWN_SIGNALS.contains(&signal))
        }
        (Some(code), ..) => (format!("ended with exit code {code}"), true),
        (None, Some(signal), _) => (format!("was killed (signal {signal})"), OWN_SIGNALS.contains(&signal)),
        (None, None, None) => ("ended without an exit code".to_owned(), true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_the_cause_is_told_of_a_program_that_ended() {
        let check = |value: Value, told: &str, has_output: bool| {
            let mut value = value;
            value["stderr"] = json!("a warning");
            let expected = if has_output { "a warning" } else { "" };
            let ended = AgentExit::Ended { how: told.to_owned(), error_output: expected.to_owned() };
            assert_eq!(exit_of(CallEnd::Done { ok: false, value }), ended);
        };
        check(json!({"exit_code": 2}), "ended with exit code 2", true);
        check(json!({"signal": 9}), "was killed (signal 9)", false);
        check(json!({"signal": 15}), "was killed (signal 15)", false);
        check(json!({"signal": 6}), "was killed (signal 6)", true);
        check(json!({"exit_code": 137}), "was killed (signal 9, told as exit code 137)", false);
        check(json!({"exit_code": 134}), "was killed (signal 6, told as exit code 134)", true);
        check(json!({"error": "it used more memory than it may"}), "ended (it used more memory than it may)", false);
        check(json!({}), "ended without an exit code", true);
    }
}
