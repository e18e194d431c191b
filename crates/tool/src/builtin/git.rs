//! `git.status`, `git.diff`, `git.log` and `git.commit`: git in the task's room.
//!
//! **Invariant.** No program that a repository can configure runs: no hook, file-system monitor, diff driver, text conversion,
//! filter, pager, editor, signer, helper or transport, and no configuration of the host is read. What stays is the repository's
//! own configuration without its programs.

mod commit;
mod diff;
mod log;
mod parse;
mod status;

pub(super) use commit::GitCommit;
pub(super) use diff::GitDiff;
pub(super) use log::GitLog;
pub(super) use status::GitStatus;

use super::job;
use crate::context::Context;
use crate::env;
use crate::fault::ToolStop;
use crate::resolved_path::{Real, ResolvedPath};
use parse::GitChange;
use rustix::fs::AtFlags;
use sandbox::{JobSpec, Outcome};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;
use world::{Code, Refusal};

/// Settings that would start a program or touch the network, whatever the repository says of them.
const OFF: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.untrackedCache", "false"),
    ("core.pager", "cat"),
    ("core.editor", ":"),
    ("core.askPass", ""),
    ("core.sshCommand", "false"),
    ("core.gitProxy", ""),
    ("core.alternateRefsCommand", ""),
    ("credential.helper", ""),
    ("commit.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("diff.external", ""),
    ("diff.ignoreSubmodules", "all"),
    ("submodule.recurse", "false"),
    ("status.submoduleSummary", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("protocol.allow", "never"),
    ("safe.directory", "*"),
];
/// The whole environment: git hears of the host neither by file nor by variable.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("GIT_DIR", ".git"),
    ("GIT_WORK_TREE", "."),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_ATTR_NOSYSTEM", "1"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", ":"),
    ("GIT_AUTHOR_NAME", "skep"),
    ("GIT_AUTHOR_EMAIL", "skep@localhost.invalid"),
    ("GIT_COMMITTER_NAME", "skep"),
    ("GIT_COMMITTER_EMAIL", "skep@localhost.invalid"),
];
/// Changes that are told.
const CHANGES_MAX: usize = 2_000;

fn status_arguments(paths: &[String]) -> Vec<String> {
    let options = ["status", "--porcelain=v2", "-z", "--branch", "--untracked-files=all", "--ignore-submodules=all", "--no-renames", "--"];
    options.iter().map(|word| (*word).to_owned()).chain(paths.iter().map(|path| pathspec(path))).collect()
}

/// A path for git, in which no character means anything else.
fn pathspec(path: &str) -> String {
    if path == "." { ":(top)".to_owned() } else { format!(":(top,literal){path}") }
}

fn inside(resolved: &ResolvedPath) -> Result<&str, Refusal> {
    match &resolved.real {
        Real::Inside(path) => Ok(path),
        Real::Outside(_) => Err(resolved.unusable()),
    }
}

/// Git in one room, with the repository's own programs named and turned off.
struct Git<'a> {
    context: &'a Context<'a>,
    time: Duration,
    /// Given as variables: an argument would end a name at its first `=`.
    off: Vec<(Vec<u8>, &'static str)>,
}

impl<'a> Git<'a> {
    async fn open(context: &'a Context<'a>, time: Duration) -> Result<Git<'a>, ToolStop> {
        job::room(context)?;
        if rustix::fs::statat(context.root, ".git", AtFlags::SYMLINK_NOFOLLOW).is_err() {
            return Err(no_repository().into());
        }
        let stat = sandbox::owners_are_mapped().then_some(&env::SIZE_AND_TIME);
        let off = OFF.iter().chain(stat).map(|(key, value)| (key.as_bytes().to_vec(), *value)).collect();
        let mut git = Git { context, time, off };
        let listed = git.run(&["config", "--list", "-z", "--name-only"].map(str::to_owned), None).await?;
        if listed.truncated {
            return Err(Refusal::new(Code::TooLarge, "the repository's configuration is too long to be looked through")
                .hint("the operator can shorten .git/config")
                .into());
        }
        git.off.extend(listed.stdout.split(|byte| *byte == 0).flat_map(parse::programs_off));
        Ok(git)
    }

    async fn run(&self, arguments: &[String], stdin: Option<Vec<u8>>) -> Result<Outcome, ToolStop> {
        let outcome = self.attempt(arguments, stdin).await?;
        if outcome.exit.success() {
            return Ok(outcome);
        }
        let said = String::from_utf8_lossy(&outcome.stderr);
        let said = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it was ended");
        if said.contains("not a git repository") {
            return Err(no_repository().into());
        }
        let command = arguments.first().map(String::as_str).unwrap_or_default();
        let hint = if outcome.timed_out { "ask for less: name a `path`" } else { "look at git.status" };
        Err(Refusal::new(Code::WrongState, format!("`git {command}` failed: {said}")).hint(hint).into())
    }

    async fn attempt(&self, arguments: &[String], stdin: Option<Vec<u8>>) -> Result<Outcome, ToolStop> {
        let argv = ["git", "--no-pager"].into_iter().chain(arguments.iter().map(String::as_str));
        let mut spec = JobSpec::exec(argv.map(OsString::from));
        spec.env = ENVIRONMENT.iter().map(|(key, value)| (key.into(), value.into())).collect();
        spec.env.push(("GIT_CONFIG_COUNT".into(), self.off.len().to_string().into()));
        for (index, (key, value)) in self.off.iter().enumerate() {
            spec.env.push((format!("GIT_CONFIG_KEY_{index}").into(), OsString::from_vec(key.clone())));
            spec.env.push((format!("GIT_CONFIG_VALUE_{index}").into(), value.into()));
        }
        spec.output_max = self.context.output_max;
        spec.limits.wall = Some(self.time);
        Ok(job::room(self.context)?.run(spec, stdin).await?)
    }

    /// Is there no commit yet?
    async fn is_unborn(&self) -> Result<bool, ToolStop> {
        let outcome = self.attempt(&["rev-parse", "--verify", "--quiet", "HEAD"].map(str::to_owned), None).await?;
        Ok(!outcome.exit.success())
    }

    fn shows(&self, change: &GitChange) -> bool {
        (self.context.visible)(&change.path)
    }
}

fn no_repository() -> Refusal {
    Refusal::new(Code::WrongState, "this project is not a git repository").hint("do without git, or have the operator run `git init`")
}
