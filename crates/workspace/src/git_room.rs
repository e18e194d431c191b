//! Runs git in a room over a project, where nothing that a repository configures runs with it.

use crate::room_fault;
use sandbox::{JobSpec, Workspace};
use std::time::Duration;
use world::{Code, Fault, FaultKind, Refusal, Stop};

/// Runs git in a room and gives its output.
pub async fn git(room: &Workspace, args: &[&str], stdin: Option<Vec<u8>>) -> Result<Vec<u8>, Stop> {
    git_with(room, args, &[], stdin).await
}

/// The same with more of an environment: another index, another place for objects, whose commit it is.
pub async fn git_with(room: &Workspace, args: &[&str], more: &[(&str, &str)], stdin: Option<Vec<u8>>) -> Result<Vec<u8>, Stop> {
    let settings = [
        "core.fsmonitor=false",
        "core.hooksPath=/dev/null",
        "core.untrackedCache=false",
        // Outside the places that are looked at before git runs.
        "core.attributesFile=/dev/null",
        "safe.directory=*",
        // A room shows owners of its own, so git would take every file for changed and read them all.
        "core.checkStat=minimal",
    ];
    let settings = settings.iter().flat_map(|setting| ["-c", setting]);
    let argv = std::iter::once("git").chain(settings).chain(args.iter().copied()).map(str::to_owned);
    let mut job = JobSpec::exec(argv);
    let env = [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        // `check-ignore` reads its paths literally and refuses to be told so.
        ("GIT_LITERAL_PATHSPECS", if args.first() == Some(&"check-ignore") { "0" } else { "1" }),
        ("GIT_TERMINAL_PROMPT", "0"),
        // An object that is missing would be fetched, by whatever program the room's own settings name.
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_ALLOW_PROTOCOL", "none"),
        // A replacement could give a commit another content.
        ("GIT_NO_REPLACE_OBJECTS", "1"),
    ];
    job.env = env.iter().chain(more).map(|(key, value)| (key.into(), value.into())).collect();
    job.output_max = 64 * 1024 * 1024;
    job.limits.wall = Some(Duration::from_secs(120));
    let outcome = room.run(job, stdin).await.map_err(room_fault)?;
    let command = args.first().copied().unwrap_or("git");
    if outcome.truncated {
        return Err(Refusal::new(Code::TooLarge, format!("`git {command}` has more to say than fits in memory")).into());
    }
    // `check-ignore` answers 1 for "none of them".
    if outcome.exit.success() || (command == "check-ignore" && outcome.exit == sandbox::Exit::Code(1)) {
        return Ok(outcome.stdout);
    }
    let why = match outcome.timed_out {
        true => "it took too long; a file that git reads may be a pipe".to_owned(),
        false => String::from_utf8_lossy(&outcome.stderr).trim().to_owned(),
    };
    Err(Fault::new(FaultKind::Room, format!("`git {command}` failed in the sandbox"), why)
        .fix("run the same git command by hand in the project")
        .into())
}
