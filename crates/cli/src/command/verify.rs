//! `skep verify`: a commit of a merge, held against the journal.

use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::show::verify;
use std::path::Path;
use std::process::{Command, Stdio};
use wire::code::EXIT_FAILED;
use wire::table::CommitVerify;
use wire::{CommitChange, CommitFacts, CommitReport, CommitVerdict, ErrorCode};

/// Check a commit of a merge against the journal
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep verify\n  skep verify 3f2a1bc --json\n  skep verify main~2 --allow-rewritten && git push\n  skep verify HEAD --offline\n\n\
A commit that `skep merge --commit` made names its task (Skep-Session), the record of its merge with its hash (Skep-Journal) and the test \
runs that the kernel saw (Skep-Tests). Checked are that record, the chain up to it, the paths and their contents. What could not be \
checked is said. The exit code is 0 for the commit that the kernel made, and 1 for any other."
)]
pub struct CommitVerifyArgs {
    /// The commit, as git names it
    #[arg(default_value = "HEAD")]
    commit: String,
    /// Accept a commit that was rebased or amended and still changes exactly what the merge recorded
    #[arg(long)]
    allow_rewritten: bool,
    /// Read the journal's files themselves, without a kernel
    #[arg(long)]
    offline: bool,
    /// The repository [default: the one you are in]
    #[arg(long, value_name = "DIR", default_value = ".", hide_default_value = true)]
    repository: std::path::PathBuf,
}

impl CommitVerifyArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let facts = facts(&self.repository, &self.commit)?;
        let report = match self.offline {
            true => offline(console, facts).await?,
            false => {
                let mut kernel = console.kernel().await?;
                console.wait_counting("verifying the chain", None, kernel.call::<CommitVerify>(&facts)).await?
            }
        };
        console.show_wrapped(&report, verify::report);
        match report.verdict {
            CommitVerdict::Verified => OK,
            CommitVerdict::Rewritten if self.allow_rewritten => OK,
            CommitVerdict::Rewritten | CommitVerdict::Failed => Ok(EXIT_FAILED),
        }
    }
}

async fn offline(console: &Console, facts: CommitFacts) -> Result<CommitReport, CommandError> {
    let home = console.home.clone();
    let work = tokio::task::spawn_blocking(move || server::verify_commit_offline(&home, &facts));
    let checked = console.wait("verifying the files", work).await;
    checked.map_err(|error| error.to_string()).flatten().map_err(|why| {
        let what = format!("the journal in `{}` cannot be read", console.home.display());
        CommandError::new(ErrorCode::Unavailable, what).why(why).fix("look at its files and at $SKEP_HOME")
    })
}

/// What the person's own git knows of a commit.
fn facts(repository: &Path, named: &str) -> Result<CommitFacts, CommandError> {
    let failed = |why: String| {
        CommandError::new(ErrorCode::NotFound, format!("git has no commit `{named}` here"))
            .why(why)
            .fix("name a commit of this repository, such as HEAD or main~1")
    };
    let ask = |arguments: &[&str]| git(repository, arguments).map_err(failed);
    let id = ask(&["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{named}^{{commit}}")])?;
    let commit = String::from_utf8_lossy(&id).trim().to_owned();
    let object = String::from_utf8(ask(&["cat-file", "commit", &commit])?).map_err(|error| {
        CommandError::new(ErrorCode::Unsupported, format!("the commit `{named}` is not UTF-8 text"))
            .why(error)
            .fix("it was not made by skep, whose commits are")
    })?;
    let listed = ask(&["diff-tree", "-r", "-z", "--root", "--no-renames", "--no-commit-id", "--ignore-submodules=none", &commit])?;
    let changes = changes(&listed).ok_or_else(|| failed("`git diff-tree` says something that is no list of paths".to_owned()))?;
    Ok(CommitFacts { commit, object, changes })
}

fn git(repository: &Path, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let mut command = Command::new("git");
    // A replacement could give a commit another content.
    command.arg("-C").arg(repository).args(arguments).env("GIT_NO_REPLACE_OBJECTS", "1").stdin(Stdio::null());
    let output = command.output().map_err(|error| format!("git does not run: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("it is not there").to_owned()),
    }
}

/// `:100644 100644 OLD NEW M` and the path, each ended by a zero.
fn changes(listed: &[u8]) -> Option<Vec<CommitChange>> {
    let text = String::from_utf8_lossy(listed);
    let mut parts = text.split('\0').filter(|part| !part.is_empty());
    let mut found = Vec::new();
    while let Some(meta) = parts.next() {
        let fields: Vec<&str> = meta.strip_prefix(':')?.split(' ').collect();
        let [mode_before, mode, _, name, _] = fields[..] else { return None };
        let path = parts.next()?.to_owned();
        found.push(CommitChange { path, mode: mode.to_owned(), mode_before: mode_before.to_owned(), name: name.to_owned() });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_changes_is_read() {
        let listed = b":100644 000000 aa 00 D\0a b.txt\0:000000 100755 00 bb A\0run.sh\0";
        let found = changes(listed).unwrap();
        let told: Vec<_> = found.iter().map(|change| (change.path.as_str(), change.mode.as_str(), change.name.as_str())).collect();
        assert_eq!(told, [("a b.txt", "000000", "00"), ("run.sh", "100755", "bb")]);
        assert_eq!(changes(b"").unwrap(), []);
        assert_eq!(changes(b"nonsense\0"), None);
    }
}
