//! `skep call`: one call by the operator. The kernel decides about it as about every other.

pub mod input;

use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, folder};
use crate::show::{call, describe};
use serde_json::Value;
use std::path::PathBuf;
use wire::code::EXIT_FAILED;
use wire::method::call::{CallDecision, CallMode, CallRunParams};
use wire::table::CallRun;
use wire::{ErrorCode, TaskId};

/// Call a tool yourself, under the same rules as a task
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep call fs.read path=README.md\n  skep call search.grep pattern=TODO\n  \
skep call fs.write path=notes.txt content=@draft.txt\n  skep call shell.run 'command=[\"sh\",\"tests/run.sh\"]'\n  \
skep call shell.run --input '{\"command\":[\"true\"]}' --json\n  skep call fs.delete path=old.txt --mode dry_run\n\n\
A value is JSON if it reads as a list, an object, a number, true or false, and text otherwise. key=@FILE takes a file's text, \
key:=JSON takes JSON as it is. Writes go to a workspace; `skep list tools` names the tools.")]
pub struct CallArgs {
    /// Which tool
    tool: String,
    /// Its input, key by key
    #[arg(value_name = "KEY=VALUE")]
    pairs: Vec<String>,
    /// Its input as one JSON object; pairs are added to it
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// The repository [default: where you are]
    #[arg(long, value_name = "DIR")]
    zone: Option<PathBuf>,
    /// In the workspace of this task
    #[arg(long, value_name = "TASK")]
    task: Option<TaskId>,
    /// Run it (live), only say what it would do (dry_run), or give the tool's example (mock)
    #[arg(long, value_name = "MODE", default_value = "live")]
    mode: Mode,
    /// A capability token that was issued to this very process; see `skep help token issue`
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum Mode {
    #[value(alias = "real")]
    Live,
    DryRun,
    Mock,
}

impl Mode {
    /// As it is sent; `live` is the default and is left out.
    fn param(self) -> Option<CallMode> {
        match self {
            Mode::Live => None,
            Mode::DryRun => Some(CallMode::DryRun),
            Mode::Mock => Some(CallMode::Mock),
        }
    }
}

impl CallArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let input = input::read(self.input.as_deref(), &self.pairs)?;
        let path = folder(self.zone.as_deref())?;
        let params = CallRunParams { tool: self.tool, input, path, task: self.task, mode: self.mode.param(), token: self.token };
        let mut kernel = console.kernel().await?;
        let result = console.wait(&describe::describe(&params.tool, &params.input), kernel.call::<CallRun>(&params)).await?;
        match &result.refusal {
            Some(refusal) => {
                let mut error = CommandError::refused(what(&params.tool, &params.input, result.decision), refusal);
                if let Some(key) = input::read_as_json(&params.input, &self.pairs).filter(|_| error.code == ErrorCode::BadInput) {
                    let text = format!("if `{key}` is meant as text, write {key}:='\"…\"'");
                    error.fix = Some(error.fix.map_or(text.clone(), |fix| format!("{fix}\n{text}")));
                }
                if console.json {
                    console.out.json(&result);
                } else {
                    console.report(&error);
                    console.err.page(&call::timings(&result));
                }
                Ok(error.code.exit())
            }
            None => {
                console.show_uncut(&result, |result| call::ran(&params.tool, result));
                Ok(match (result.decision, result.ok) {
                    (CallDecision::Allowed, true) => 0,
                    (CallDecision::Allowed, false) => EXIT_FAILED,
                    (CallDecision::Refused, _) => ErrorCode::Denied.exit(),
                    (CallDecision::Pending, _) => ErrorCode::Pending.exit(),
                })
            }
        }
    }
}

fn what(tool: &str, input: &Value, decision: CallDecision) -> String {
    let path = input.get("path").and_then(Value::as_str);
    let call = match (tool, path) {
        ("fs.read", Some(path)) => format!("the read of `{path}`"),
        ("fs.write", Some(path)) => format!("the write to `{path}`"),
        (tool, Some(path)) => format!("`{tool}` on `{path}`"),
        (tool, None) => format!("the call of `{tool}`"),
    };
    match decision {
        CallDecision::Pending => format!("{call} waits for a review"),
        _ => format!("{call} is refused"),
    }
}
