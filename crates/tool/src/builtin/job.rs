//! A program in the task's room: what `shell.run`, `sandbox.run`, `test.run` and tools with a command of their own share.

use super::number;
use crate::context::Context;
use crate::env;
use crate::fault::ToolStop;
use crate::follower::{Followed, Streams};
use crate::kept_job::let_go_end;
use crate::tool::Output;
use sandbox::{Exit, JobSpec, Outcome, Profile, Template, Workspace};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use world::{Code, Refusal, Remedy};

/// A program in the room, with what a trusted configuration lets into its environment.
pub(crate) async fn run(
    argv: Vec<String>,
    cwd: PathBuf,
    stdin: Option<Vec<u8>>,
    time: Duration,
    environment: &[(String, String)],
    context: &Context<'_>,
) -> Result<Outcome, ToolStop> {
    let mut spec = JobSpec::exec(argv);
    spec.cwd = cwd;
    let passed = env::scrub(environment);
    // The kernel's own words last, so that nobody's variable stands for one of them.
    let told = context.job.variables.iter().cloned();
    spec.env = passed.into_iter().chain(told).map(|(key, value)| (key.into(), value.into())).collect();
    if context.job.follower.is_some_and(|follower| matches!(follower.streams, Streams::Terminal(_))) {
        spec.env.push(("TERM".into(), "xterm-256color".into()));
    }
    spec.env.extend(env::for_git(sandbox::owners_are_mapped()).into_iter().map(|(key, value)| (key.into(), value.into())));
    // The template takes away what it does not have.
    spec.profile = Profile::StandardNet;
    spec.output_max = context.output_max;
    spec.tail = context.job.tail.cloned();
    spec.limits.wall = Some(time);
    bound(&mut spec, context)?;
    let room = room(context)?;
    let attend = |doors| {
        if let Some(network) = context.job.network {
            network.serve_doors(doors);
        }
    };
    if let Some(network) = context.job.network {
        spec.doors = network.doors();
        spec.env.extend(network.environment().into_iter().map(|(key, value)| (key.into(), value.into())));
    }
    let Some(follower) = context.job.follower else { return Ok(room.run_attended(spec, stdin, attend).await?) };
    let began = Instant::now();
    let Followed { ended, stdout, stderr, truncated } = follower.follow(room, spec, attend).await?;
    let sandbox::JobEnd { exit, timed_out, out_of_memory, overfull, usage, memory, pids, .. } = ended.unwrap_or_else(let_go_end);
    Ok(Outcome { exit, stdout, stderr, truncated, timed_out, out_of_memory, overfull, duration: began.elapsed(), usage, memory, pids })
}

/// Puts a job under the call's template. A caller's own wishes count only where they are less.
fn bound(spec: &mut JobSpec, context: &Context<'_>) -> Result<(), Refusal> {
    let built_in;
    let template = match context.job.template {
        Some(template) => template,
        None => {
            built_in = Template::built_in().into_iter().find(|template| template.name == Template::DEFAULT);
            built_in.as_ref().ok_or_else(|| Refusal::new(Code::NotFound, "there is no default template"))?
        }
    };
    if template.profile == Profile::Strict {
        let reason = format!("no command starts under `{}`: its profile is `strict`", template.name);
        return Err(Refusal::new(Code::Unsupported, reason)
            .hint("it is for Skep's own children, which load it once they have started; take another template"));
    }
    template.bound(spec);
    Ok(())
}

/// The time a call wants, or may have, whichever is less.
pub(super) fn wall(input: &Value, default_ms: u64, context: &Context<'_>) -> Result<Duration, Refusal> {
    let asked = Duration::from_millis(number(input, "timeout_ms")?.unwrap_or(default_ms));
    Ok(context.job.template.and_then(|template| template.wall).map_or(asked, |most| most.min(asked)))
}

pub(super) fn room<'a>(context: &Context<'a>) -> Result<&'a Workspace, Refusal> {
    context.room.ok_or_else(|| Refusal::new(Code::WrongState, "there is no sandbox to run it in").remedy(Remedy::ActInstead))
}

/// A job's end as a result.
pub(super) fn output(outcome: &Outcome, time: Duration) -> Output {
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
        value["error"] = format!("it ran longer than {} ms and was ended", time.as_millis()).into();
        value["hint"] = "give it more time with `timeout_ms`, or less to do".into();
    } else if let Some(limit) = outcome.overfull {
        value["error"] = format!("it made the workspace hold more than {limit} and was ended").into();
        value["hint"] = "remove what is not needed, or write less".into();
    } else if outcome.out_of_memory {
        value["error"] = "it needed more memory than the sandbox has and was ended".into();
        value["hint"] = "do it in smaller parts".into();
    }
    Output::new(outcome.exit.success() && !outcome.timed_out, value)
}
