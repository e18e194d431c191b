//! Merging without a question: when a rule lets merges pass, and the changes are listed as safe, small and tested.
//!
//! **Invariant.** Only paths that the trusted `merge.safe` lists go in unread, and of these none that decides what tests mean: no test, no
//! configuration of a runner, nothing that the test command or a script it names mentions, no new name that means something elsewhere. The
//! kernel itself ran the trusted test command, in a fresh room on exactly these changes and the project's own ignored files, and counted at
//! least one test.

mod mention;
mod names;
mod runs;
mod shadow;
mod test_files;

use crate::aside;
use crate::diff::lines;
use crate::frozen::{Frozen, FrozenPath};
use crate::git_room::git;
use crate::shape::ReadBlob;
use crate::tree::{FileState, FileTree, State};
use mention::{Mentions, Script};
use policy::Globs;
pub use runs::runs_by_itself;
use sandbox::Workspace;
use shadow::Outside;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
pub use test_files::is_test;
use world::{Code, Fault, Refusal, Stop};

/// Seed 003: more than this is read by a person.
const LINES_MAX: usize = 500;

/// Why these changes want a person, as far as can be said without running them: every reason, path by path.
pub fn doubts(frozen: &Frozen, trusted: &UnreadRules<'_>, project: Option<Project>, blobs: &ReadBlob<'_>) -> Result<Vec<String>, Stop> {
    let mut doubts = Vec::new();
    let safe = Globs::parse(trusted.safe)
        .map_err(|bad| Refusal::new(Code::BadInput, format!("`merge.safe` in skep.yml: {bad}")).hint(bad.hint))?;
    if trusted.command.is_none() {
        doubts.push("no test command is trusted, so nothing vouches for the changes".to_owned());
    }
    let project = match project {
        Some(Project::Known(known)) => Some(known),
        Some(Project::Unknown(why)) => {
            doubts.push(why);
            None
        }
        None => None,
    };
    if trusted.safe.is_empty() {
        doubts.push("no path is listed as safe: `merge: {safe: […]}` in skep.yml is empty".to_owned());
    }
    let mut changed = 0;
    for change in &frozen.changes {
        let mut why: Vec<String> = Vec::new();
        if !trusted.safe.is_empty() {
            why.extend(unlisted(&safe, &change.path).map(str::to_owned));
        }
        why.extend(names::always_reviewed(&change.path).map(str::to_owned));
        why.extend(project.iter().flat_map(|project| project.doubts(change)));
        let (old, new) = aside(|| Ok::<_, Fault>((change.old.bytes(blobs)?, change.new.bytes(blobs)?)))?;
        why.extend(by_content(change, &old, &new).map(str::to_owned));
        match lines(&old, &new) {
            Some((removed, added)) => {
                if change.from.is_none() && change.to.is_none() {
                    changed += removed.len() + added.len();
                }
                why.extend(weakens(&removed, &added).map(str::to_owned));
            }
            None => why.push("it is not text, or too large to be counted".to_owned()),
        }
        if !why.is_empty() {
            doubts.push(format!("{}: {}", change.path, why.join("; ")));
        }
    }
    if changed >= LINES_MAX {
        doubts.push(format!("{changed} lines change; fewer than {LINES_MAX} go in unread"));
    }
    Ok(doubts)
}

/// The first wall: only what the trusted list names goes in unread.
fn unlisted(safe: &Globs, path: &str) -> Option<&'static str> {
    (!safe.matches(path)).then_some("it is not on the list of safe paths, `merge.safe` in skep.yml")
}

/// What a change says by what it is, whatever its name.
fn by_content(change: &FrozenPath, old: &[u8], new: &[u8]) -> Option<&'static str> {
    let runs = |state: &State| matches!(state, State::File { mode: Some(mode), .. } if mode & 0o111 != 0);
    if matches!(change.new, State::Link { .. }) || matches!(change.old, State::Link { .. }) {
        return Some("links are looked at");
    }
    if test_files::holds_tests(old) || test_files::holds_tests(new) {
        return Some("it holds tests, which are always looked at");
    }
    if old.starts_with(b"#!") || new.starts_with(b"#!") {
        return Some("scripts are looked at");
    }
    (runs(&change.new) || (runs(&change.old) && change.new == State::Absent)).then_some("what can be executed is looked at")
}

/// What the trusted `skep.yml` says about merging unread.
pub struct UnreadRules<'a> {
    pub safe: &'a [String],
    pub command: Option<&'a [String]>,
}

/// What the project says today about its files, its tests and the names around it.
pub enum Project {
    Known(KnownProject),
    /// Why it can't be asked.
    Unknown(String),
}

pub struct KnownProject {
    mentions: Mentions,
    outside: Outside,
    folders: BTreeSet<String>,
    /// Files and folders by their paths without extensions, with one path of each name.
    stems: BTreeMap<String, String>,
    /// Paths that the project ignores, whatever the task's own layer says.
    ignored: BTreeSet<String>,
}

impl Project {
    /// `room` shows the project alone; `shown` are folders of the host that rooms see.
    pub async fn look(room: &Workspace, tree: &FileTree, frozen: &Frozen, command: &[String], shown: &[PathBuf]) -> Result<Project, Stop> {
        let listed = git(room, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"], None).await;
        // A script that git ignores is run all the same. Folders that are ignored as a whole are named, and not looked through.
        let hidden = git(room, &["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory"], None).await;
        let mut paths: Vec<u8> = Vec::new();
        for change in &frozen.changes {
            paths.extend_from_slice(change.path.as_bytes());
            paths.push(0);
        }
        let ignored = git(room, &["check-ignore", "-z", "--stdin"], Some(paths)).await;
        let (listed, hidden, ignored) = match (listed, hidden, ignored) {
            (Ok(listed), Ok(hidden), Ok(ignored)) => (listed, hidden, ignored),
            (Err(stop), ..) | (_, Err(stop), _) | (.., Err(stop)) => {
                return Ok(Project::Unknown(format!("git can't say which files the project has: {stop}")));
            }
        };
        let split = |bytes: &[u8]| -> Vec<String> {
            String::from_utf8_lossy(bytes).split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect()
        };
        let files = split(&listed);
        let mut folders = BTreeSet::new();
        for path in &files {
            folders.extend(Path::new(path).ancestors().skip(1).map(|folder| folder.to_string_lossy().into_owned()));
        }
        let hidden = split(&hidden);
        // What git ignores can be loaded too.
        let all =
            hidden.iter().map(|path| path.trim_end_matches('/').to_owned()).chain(files.iter().cloned()).chain(folders.iter().cloned());
        let stems = all.map(|path| (shadow::stem_of(&path), path)).collect();
        let scripts: Vec<String> = files.iter().cloned().chain(hidden.into_iter().filter(|path| !path.ends_with('/'))).collect();
        let read = |path: &str| {
            Ok::<_, Fault>(match tree.now(path)? {
                FileState::File { bytes, .. } => Script::Text(bytes),
                FileState::Link { target } => Script::Link(target),
                FileState::Absent | FileState::Folder | FileState::Other => Script::Unreadable,
            })
        };
        let (mentions, outside) = aside(|| (Mentions::of(command, &scripts, read), Outside::look(&tree.project, shown)));
        let (mentions, ignored) = (mentions?, split(&ignored).into_iter().collect());
        Ok(Project::Known(KnownProject { mentions, outside, folders, stems, ignored }))
    }
}

impl KnownProject {
    fn doubts(&self, change: &FrozenPath) -> Vec<String> {
        let path = &change.path;
        let mut why: Vec<String> = self.mentions.of_path(path).into_iter().collect();
        if self.ignored.contains(path) {
            why.push("the project ignores it".to_owned());
        }
        // What comes takes a name, and what goes gives it back.
        if (change.old == State::Absent || change.new == State::Absent)
            && let Some(name) = self.outside.shadowed(path, |folder| self.folders.contains(folder))
        {
            why.push(format!("`{name}` means something outside the project too"));
        }
        if change.old == State::Absent
            && let Some(twin) = shadow::twin(path, &self.stems, |folder| self.folders.contains(folder))
        {
            why.push(format!("it may be found in the place of `{twin}`"));
        }
        why
    }
}

/// What makes tests say less than before, where they stand beside the code.
fn weakens(removed: &[String], added: &[String]) -> Option<&'static str> {
    const CHECKS: &[&str] = &["#[test]", "assert", "expect(", "#[tokio::test]", "it(", "test(", "def test", "should", "@test"];
    const SKIPS: &[&str] = &[
        "#[ignore",
        "should_panic",
        ".skip(",
        ".only(",
        "xit(",
        "xdescribe(",
        "@skip",
        "pytest.mark.skip",
        "xfail",
        "# skip",
        "t.skip",
        "todo(",
    ];
    let has = |lines: &[String], marks: &[&str]| lines.iter().any(|line| marks.iter().any(|mark| line.to_ascii_lowercase().contains(mark)));
    if has(removed, CHECKS) {
        return Some("a check is removed");
    }
    has(added, SKIPS).then_some("a test is switched off")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_lets_nothing_pass() {
        let none = Globs::parse::<&str>(&[]).unwrap();
        let all = Globs::parse(&["**"]).unwrap();
        let parts = ["a", "docs", "x.md", ".x", "README.md", "*", "**", "!a", "ü", " ", "src"];
        for one in parts {
            for other in parts {
                let path = format!("{one}/{other}");
                assert!(unlisted(&none, &path).is_some() && unlisted(&none, one).is_some(), "{path}");
                assert!(unlisted(&all, &path).is_none(), "control: {path}");
            }
        }
        let some = Globs::parse(&["docs/**", "!docs/api/**"]).unwrap();
        for (path, listed) in [("docs/a.md", true), ("docs/api/a.md", false), ("src/docs/a.md", false), ("docs.md", false)] {
            assert_eq!(unlisted(&some, path).is_none(), listed, "{path}");
        }
    }

    #[test]
    fn tests_that_say_less_are_seen() {
        let lines = |text: &str| text.lines().map(|line| format!("{line}\n")).collect::<Vec<_>>();
        let check = |removed: &str, added: &str, weak: bool| {
            assert_eq!(weakens(&lines(removed), &lines(added)).is_some(), weak, "{removed} {added}");
        };
        check("    assert_eq!(1, 1);", "", true);
        check("", "#[ignore]", true);
        check("let x = 1;", "let x = 2;", false);
        check("", "it.skip('x')", true);
    }

    #[test]
    fn what_runs_is_looked_at_whatever_its_name() {
        let file = |mode| State::File { blob: String::new(), mode, owner: None };
        let change = |old: State, new: State| FrozenPath {
            path: "a".into(),
            kind: world::PathChange::Modified,
            from: None,
            to: None,
            size: 0,
            old,
            new,
            question: None,
            unguarded: false,
        };
        assert!(by_content(&change(State::Absent, file(Some(0o755))), b"", b"x").is_some());
        assert!(by_content(&change(file(Some(0o755)), State::Absent), b"x", b"").is_some());
        assert!(by_content(&change(file(Some(0o644)), file(None)), b"#!/bin/sh", b"x").is_some());
        assert!(by_content(&change(State::Absent, State::Link { target: "b".into() }), b"", b"-> b").is_some());
        assert!(by_content(&change(file(Some(0o644)), file(None)), b"fn a() {}\n#[cfg(test)]\nmod t {}", b"fn a() {}").is_some());
        assert!(by_content(&change(State::Absent, file(Some(0o644))), b"", b"def a():\n    \"\"\"\n    >>> a()\n").is_some());
        assert_eq!(by_content(&change(file(Some(0o644)), file(None)), b"old", b"new"), None);
        assert_eq!(by_content(&change(State::Absent, file(Some(0o644))), b"", b"new"), None);
    }
}
