//! Git's machine-readable answers.

use serde_json::{Value, json};

/// Fields apart by the unit separator, commits by NUL.
pub(super) const LOG_FORMAT: &str = "%H%x1f%an%x1f%ae%x1f%aI%x1f%s%x1f%b";

#[derive(Debug, Default, PartialEq)]
pub(super) struct GitStatusOutput {
    pub branch: Option<String>,
    pub head: Option<String>,
    pub changes: Vec<GitChange>,
}

#[derive(Debug, PartialEq)]
pub(super) struct GitChange {
    pub path: String,
    index: &'static str,
    worktree: &'static str,
}

impl GitChange {
    pub fn shown(&self) -> Value {
        json!({ "path": self.path, "index": self.index, "worktree": self.worktree })
    }
}

/// `status --porcelain=v2 -z --branch` without renames.
pub(super) fn status(bytes: &[u8]) -> GitStatusOutput {
    let mut status = GitStatusOutput::default();
    for line in names(bytes) {
        if let Some(branch) = line.strip_prefix("# branch.head ") {
            status.branch = (branch != "(detached)").then(|| branch.to_owned());
        } else if let Some(head) = line.strip_prefix("# branch.oid ") {
            status.head = (head != "(initial)").then(|| head.to_owned());
        } else {
            status.changes.extend(change(&line));
        }
    }
    status
}

fn change(line: &str) -> Option<GitChange> {
    // Fields before the path, which may hold spaces itself.
    let (fields, path) = match line.split_once(' ')? {
        ("?", path) => return Some(GitChange { path: path.to_owned(), index: "unmodified", worktree: "untracked" }),
        ("1", rest) => rest.splitn(8, ' ').collect::<Vec<_>>().split_last().map(|(path, fields)| (fields.to_vec(), *path))?,
        ("u", rest) => {
            let path = rest.splitn(10, ' ').last()?;
            return Some(GitChange { path: path.to_owned(), index: "conflicted", worktree: "conflicted" });
        }
        _ => return None,
    };
    let mut letters = fields.first()?.chars();
    let (index, worktree) = (word(letters.next()?), word(letters.next()?));
    (fields.len() == 7).then(|| GitChange { path: path.to_owned(), index, worktree })
}

fn word(letter: char) -> &'static str {
    match letter {
        'M' => "modified",
        'T' => "type_changed",
        'A' => "added",
        'D' => "deleted",
        'R' => "renamed",
        'C' => "copied",
        'U' => "conflicted",
        _ => "unmodified",
    }
}

/// Texts that end with NUL. What is not UTF-8 is left out: no tool could name it.
pub(super) fn names(bytes: &[u8]) -> Vec<String> {
    let texts = bytes.split(|byte| *byte == 0).filter(|text| !text.is_empty());
    texts.filter_map(|text| std::str::from_utf8(text).ok()).map(str::to_owned).collect()
}

pub(super) fn log(bytes: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(bytes);
    let commits = text.split('\0').map(|commit| commit.splitn(6, '\x1f').collect::<Vec<_>>());
    commits
        .filter_map(|fields| match fields[..] {
            [id, name, mail, time, subject, body] => {
                let author = format!("{name} <{mail}>");
                Some(json!({ "id": id.trim(), "author": author, "time": time, "subject": subject, "body": body.trim_end() }))
            }
            _ => None,
        })
        .collect()
}

/// Settings that turn off the programs which a key of the repository's configuration names. Sections with names of the
/// repository's own choosing, which may be any bytes, can be turned off only when they are known.
pub(super) fn programs_off(key: &[u8]) -> Vec<(Vec<u8>, &'static str)> {
    let dots = (key.iter().position(|byte| *byte == b'.'), key.iter().rposition(|byte| *byte == b'.'));
    let (Some(first), Some(last)) = dots else { return Vec::new() };
    let off: &[(&str, &str)] = match &key[..first] {
        _ if first == last => &[],
        b"filter" => &[("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")],
        b"diff" => &[("command", ""), ("textconv", "")],
        b"merge" => &[("driver", "false")],
        b"trailer" => &[("command", ""), ("cmd", "")],
        b"hook" => &[("command", ""), ("enabled", "false")],
        b"remote" => &[("promisor", "false"), ("uploadpack", "false")],
        _ => &[],
    };
    off.iter().map(|(variable, value)| ([&key[..=last], variable.as_bytes()].concat(), *value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read() {
        let text = b"# branch.oid abc\0# branch.head main\x001 .M N... 100644 100644 100644 aa bb src/a b.rs\x001 A. N... 0 1 1 a b new\0\
            u UU N... 1 2 3 4 h1 h2 h3 both here\0? odd name\0";
        let status = status(text);
        assert_eq!((status.branch.as_deref(), status.head.as_deref()), (Some("main"), Some("abc")));
        let shown: Vec<String> = status.changes.iter().map(|c| format!("{} {} {}", c.index, c.worktree, c.path)).collect();
        let expect =
            ["unmodified modified src/a b.rs", "added unmodified new", "conflicted conflicted both here", "unmodified untracked odd name"];
        assert_eq!(shown, expect);
    }

    #[test]
    fn programs_of_any_name_are_turned_off() {
        let off = programs_off(b"filter.My.Odd=Name\xff.clean");
        assert!(off.contains(&(b"filter.My.Odd=Name\xff.process".to_vec(), "")), "{off:?}");
        assert!(programs_off(b"core.bare").is_empty());
        assert!(programs_off(b"filter.clean").is_empty());
        assert!(programs_off(b"diff.x.textconv").contains(&(b"diff.x.command".to_vec(), "")));
    }
}
