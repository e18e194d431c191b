//! What a commit of a merge needs to know of the person: who they are to git, and whether their commits are signed.
//!
//! Both are asked of the person's own git, as in any shell of theirs: the kernel reads no configuration of theirs.

use crate::command_error::CommandError;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use wire::method::task::{FileDiffView, TaskDiffResult, TaskIdParams};
use wire::method::zone::ZoneStatusParams;
use wire::table::{TaskShow, ZoneStatus};
use wire::{CommitWish, ErrorCode, KernelClient, Side};

/// Columns of a commit's first line.
const TITLE_COLUMNS: usize = 72;

/// What of the shown changes is to be committed, and where.
pub struct WantedCommit<'a> {
    pub shown: &'a TaskDiffResult,
    pub only: &'a [String],
    pub sides: &'a BTreeMap<String, Side>,
    pub branch: Option<String>,
    pub message: Option<String>,
}

/// The commit that is to be made of what was shown.
pub async fn wish(kernel: &mut KernelClient, wanted: WantedCommit<'_>) -> Result<CommitWish, CommandError> {
    let WantedCommit { shown, only, sides, branch, message } = wanted;
    let task = kernel.call::<TaskShow>(&TaskIdParams { task: shown.task }).await?;
    let zones = kernel.call::<ZoneStatus>(&ZoneStatusParams::default()).await?.zones;
    let project = zones.into_iter().find(|zone| zone.zone == task.zone).map(|zone| zone.path).unwrap_or_else(|| ".".into());
    if git(&project, &["config", "--type=bool", "--get", "commit.gpgsign"]).is_ok_and(|told| told == "true") {
        let switch = branch.as_deref().map(|branch| {
            let is_there = git(&project, &["rev-parse", "--verify", "--quiet", &format!("refs/heads/{branch}")]).is_ok();
            format!("`git switch {}{}`, then ", if is_there { "" } else { "-c " }, quoted(branch))
        });
        let fix = by_hand(shown, only, sides);
        return Err(CommandError::new(ErrorCode::Unsupported, "commits are signed here (commit.gpgsign), and the kernel has no key")
            .why("nothing was merged")
            .fix(format!("run {}{fix}", switch.unwrap_or_default())));
    }
    let ident = git(&project, &["var", "GIT_AUTHOR_IDENT"]).map_err(|why| {
        CommandError::new(ErrorCode::BadInput, "git does not know who you are")
            .why(why)
            .fix("run `git config --global user.name \"…\"` and `git config --global user.email …`")
    })?;
    let (name, email, zone) = parts(&ident).ok_or_else(|| {
        CommandError::new(ErrorCode::BadInput, format!("`git var GIT_AUTHOR_IDENT` says `{ident}`")).fix("set user.name and user.email")
    })?;
    let message = match message {
        Some(message) if message.trim().is_empty() => return Err(CommandError::new(ErrorCode::BadInput, "the message is empty")),
        Some(message) => message,
        None => default_message(&task.prompt, task.summary.as_deref().unwrap_or_default()),
    };
    Ok(CommitWish { branch, message, name, email, zone })
}

/// The commands that merge and commit the same.
fn by_hand(shown: &TaskDiffResult, only: &[String], sides: &BTreeMap<String, Side>) -> String {
    let mut merge = format!("skep merge {}", shown.task);
    let mut add = |flag: &str, paths: Vec<&String>| {
        paths.iter().for_each(|path| merge.push_str(&format!(" {flag} {}", quoted(path))));
    };
    let chosen = |side: Side| sides.iter().filter(move |(_, chosen)| **chosen == side).map(|(path, _)| path).collect();
    add("--mine", chosen(Side::Mine));
    add("--theirs", chosen(Side::Theirs));
    if !only.is_empty() {
        let only: Vec<String> = only.iter().map(|path| quoted(path)).collect();
        merge.push_str(&format!(" --only {}", only.join(" ")));
    }
    let is_below =
        |path: &str, name: &String| path.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let goes_in = |file: &&FileDiffView| {
        let names = || std::iter::once(file.path.as_str()).chain(file.from.as_deref());
        let is_named = only.is_empty() || names().any(|path| only.iter().any(|name| is_below(path, name)));
        is_named && (file.refused.is_none() || sides.get(&file.path) == Some(&Side::Theirs))
    };
    // Both names of a rename: the old one is gone by it.
    let paths = shown.files.iter().filter(goes_in).flat_map(|file| file.from.iter().chain([&file.path]));
    let paths = paths.map(|path| quoted(path)).collect::<Vec<_>>().join(" ");
    format!("`{merge}`, then `git add -A -- {paths} && git commit -- {paths}`")
}

/// One line of the person's own git.
fn git(project: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("git").arg("-C").arg(project).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("git does not run: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned()),
    }
}

/// `NAME <EMAIL> SECONDS ZONE`.
fn parts(ident: &str) -> Option<(String, String, String)> {
    let (name, rest) = ident.split_once(" <")?;
    let (email, rest) = rest.split_once("> ")?;
    let (_, zone) = rest.split_once(' ')?;
    Some((name.to_owned(), email.to_owned(), zone.to_owned()))
}

/// The prompt as a title, and what the brain said below it. The kernel adds where to look it up.
fn default_message(prompt: &str, summary: &str) -> String {
    let first = prompt.lines().find(|line| !line.trim().is_empty()).unwrap_or("changes of a task").trim();
    let title: String = match first.chars().count() > TITLE_COLUMNS {
        true => first.chars().take(TITLE_COLUMNS - 1).chain(['…']).collect(),
        false => first.to_owned(),
    };
    if summary.trim().is_empty() { title } else { format!("{title}\n\n{}", summary.trim()) }
}

fn quoted(path: &str) -> String {
    let is_plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-+,".contains(&byte)) && !path.starts_with('-');
    if is_plain { path.to_owned() } else { format!("'{}'", path.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_somebody_is_and_what_a_commit_says() {
        let told = parts("Ann Lee <ann@x.y> 1763370000 +0200").unwrap();
        assert_eq!(told, ("Ann Lee".to_owned(), "ann@x.y".to_owned(), "+0200".to_owned()));
        assert_eq!(parts("nobody"), None);
        assert_eq!(default_message("fix it\nmore", "did it"), "fix it\n\ndid it");
        let long = default_message(&"x".repeat(100), "");
        assert_eq!(long.lines().next().unwrap().chars().count(), TITLE_COLUMNS);
        assert_eq!((quoted("a/b.rs"), quoted("a b"), quoted("it's")), ("a/b.rs".into(), "'a b'".into(), "'it'\\''s'".into()));
    }
}
