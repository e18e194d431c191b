//! `shell.run` and `test.run`: a program in the room.

use super::{number, words};
use crate::env;
use crate::fault::ToolStop;
use crate::place::{Found, Place, Real};
use crate::tool::{Context, Output};
use sandbox::{Exit, JobSpec, Outcome, Profile, Workspace};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;
use world::limits::JOB_MS_DEFAULT;
use world::{Code, Refusal};

pub(super) async fn shell(input: &Value, place: Place, context: &Context<'_>) -> Result<Output, ToolStop> {
    let cwd = match (&place.real, place.found) {
        (Real::Inside(path), Found::Directory) => {
            if path == "." {
                PathBuf::new()
            } else {
                PathBuf::from(path)
            }
        }
        (Real::Inside(path), Found::File { .. }) => {
            return Err(Refusal::new(Code::BadInput, format!("`{path}` is a file, and `cwd` wants a directory"))
                .hint("leave `cwd` out, or name the directory")
                .into());
        }
        _ => return Err(place.absent().into()),
    };
    let outcome = run(words(input, "command"), cwd, input, context).await?;
    Ok(output(&outcome, input))
}

pub(super) async fn test(input: &Value, context: &Context<'_>) -> Result<Output, ToolStop> {
    let argv = test_command(input, context)?;
    let outcome = run(argv.clone(), PathBuf::new(), input, context).await?;
    let mut output = output(&outcome, input);
    output.value["command"] = argv.into();
    Ok(output)
}

/// The trusted configuration's command with the caller's arguments.
pub(super) fn test_command(input: &Value, context: &Context<'_>) -> Result<Vec<String>, Refusal> {
    let Some(command) = context.test_command.filter(|command| !command.is_empty()) else {
        return Err(Refusal::new(Code::WrongState, "this project has no test command")
            .hint("set `test.command` in skep.yml, such as [cargo, test], and run `skep trust`"));
    };
    Ok(command.iter().cloned().chain(words(input, "args")).collect())
}

async fn run(argv: Vec<String>, cwd: PathBuf, input: &Value, context: &Context<'_>) -> Result<Outcome, ToolStop> {
    job(argv, cwd, None, Duration::from_millis(wall_ms(input)), context.environment, context).await
}

/// A program in the room, with what a trusted configuration lets into its environment.
pub(super) async fn job(
    argv: Vec<String>,
    cwd: PathBuf,
    stdin: Option<Vec<u8>>,
    time: Duration,
    environment: &[(String, String)],
    context: &Context<'_>,
) -> Result<Outcome, ToolStop> {
    let mut spec = JobSpec::exec(argv);
    spec.cwd = cwd;
    // A room has one user, so git's question whose repository this is has one answer.
    let git = [("GIT_CONFIG_COUNT", "1"), ("GIT_CONFIG_KEY_0", "safe.directory"), ("GIT_CONFIG_VALUE_0", "*")];
    let passed = env::scrub(environment);
    spec.env = passed.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
    spec.env.extend(git.iter().map(|(key, value)| (key.into(), value.into())));
    // There is no network in the room but loopback, and tests that bind localhost should work.
    spec.profile = Profile::StandardNet;
    spec.output_max = context.output_max;
    spec.limits.wall = Some(time);
    spec.limits.memory_bytes = memory_bytes();
    if let Some(template) = context.template {
        template.bound(&mut spec);
    }
    let room = room(context)?;
    let Some(network) = context.network else { return Ok(room.run(spec, stdin).await?) };
    spec.doors = network.doors();
    spec.env.extend(network.environment().into_iter().map(|(key, value)| (key.into(), value.into())));
    Ok(room.run_attended(spec, stdin, |doors| network.attend(doors)).await?)
}

fn wall_ms(input: &Value) -> u64 {
    number(input, "timeout_ms").unwrap_or(JOB_MS_DEFAULT)
}

/// Half of what the machine has, so that a job that eats memory ends before the machine does.
fn memory_bytes() -> Option<u64> {
    let machine = rustix::system::sysinfo();
    let total = u64::from(machine.mem_unit) * machine.totalram;
    (total > 0).then_some(total / 2)
}

pub(super) fn room<'a>(context: &Context<'a>) -> Result<&'a Workspace, Refusal> {
    context
        .room
        .ok_or_else(|| Refusal::new(Code::WrongState, "there is no room to run it in").hint("make the call as part of a task: `skep act`"))
}

fn output(outcome: &Outcome, input: &Value) -> Output {
    let mut value = json!({
        "stdout": String::from_utf8_lossy(&outcome.stdout),
        "stderr": String::from_utf8_lossy(&outcome.stderr),
        "truncated": outcome.truncated,
        "timed_out": outcome.timed_out,
        "ms": u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
    });
    match outcome.exit {
        Exit::Code(code) => value["exit_code"] = code.into(),
        Exit::Signal(signal) => value["signal"] = signal.into(),
    }
    if outcome.timed_out {
        value["error"] = format!("it ran longer than {} ms and was ended", wall_ms(input)).into();
        value["hint"] = "give it more time with `timeout_ms`, or less to do".into();
    } else if outcome.out_of_memory {
        value["error"] = "it needed more memory than the room has and was ended".into();
        value["hint"] = "do it in smaller parts".into();
    }
    Output::new(outcome.exit.success() && !outcome.timed_out, value)
}
