//! What no policy, token or grant can loosen: the gate's own protection.
//!
//! Paths here are real: symlinks, `..` and doubled slashes are gone before anything is compared. **Invariant.** At most ten, beside
//! those of the process tree.

mod tree;

use crate::decide::{Facts, RealPath};
pub use tree::TreeRule;
pub use tree::tree_calls;
use tree::{ALLOWS as TREE_ALLOWS, is_tree_call};
use world::{Mode, Remedy};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Builtin {
    /// `skep.yml` and `.skep/` change only through `skep trust`.
    PolicyFiles,
    /// The running `skep` program.
    Bootstrap,
    /// `$SKEP_HOME`, which holds keys: not even read.
    KernelFiles,
    /// The journal, which is audit log and state in one.
    Journal,
    /// `.git` directories: hooks and configuration there run as the person.
    GitDirectory,
    /// Nothing changes outside the project.
    OutsideProject,
    /// `skep ask` changes nothing.
    AskMode,
    /// A change of policy is always a person's.
    PolicyUpdate,
    /// Debug lets programs run that otherwise never do, so it is always a person's.
    DebugMode,
    /// What holds between processes of the tree.
    Tree(TreeRule),
}

/// The call that says how strictly tests come first.
pub const SET_MODE: &str = "session.set_mode";
/// What a brain says of its own work. Like the mode, it is allowed where nobody says anything.
pub const WORKFLOW_CALLS: [&str; 3] = ["plan.complete", "workflow.request_exemption", "workflow.state"];
/// Who allows such a call.
pub(crate) const WORKFLOW_ALLOWS: &str = "builtin:workflow";

/// Who allows a call that no rule speaks about, if somebody does.
pub(crate) fn allows_silently(tool: &str) -> Option<&'static str> {
    if is_tree_call(tool) {
        return Some(TREE_ALLOWS);
    }
    (tool == SET_MODE || WORKFLOW_CALLS.contains(&tool)).then_some(WORKFLOW_ALLOWS)
}

/// A file or directory of the kernel's own that lies inside the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guard {
    /// Relative to the project, normalised.
    pub path: String,
    pub rule: Builtin,
}

/// What the built-ins have to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BuiltinVerdict {
    Nothing,
    Review(Builtin),
    Deny(Builtin),
}

impl Builtin {
    /// The one call that changes a policy.
    pub(crate) const POLICY_UPDATE: &str = "policy.update";

    pub fn name(self) -> &'static str {
        match self {
            Builtin::PolicyFiles => "builtin:policy-files",
            Builtin::Bootstrap => "builtin:bootstrap",
            Builtin::KernelFiles => "builtin:kernel-files",
            Builtin::Journal => "builtin:journal",
            Builtin::GitDirectory => "builtin:git-directory",
            Builtin::OutsideProject => "builtin:outside-project",
            Builtin::AskMode => "builtin:ask-mode",
            Builtin::PolicyUpdate => "builtin:policy-update",
            Builtin::DebugMode => "builtin:debug-mode",
            Builtin::Tree(rule) => rule.name(),
        }
    }

    pub(crate) fn reason(self) -> &'static str {
        match self {
            Builtin::PolicyFiles => "policy files are not written by calls",
            Builtin::Bootstrap => "the skep program does not change itself",
            Builtin::KernelFiles => "the kernel's own files are closed",
            Builtin::Journal => "the journal is written by the kernel alone",
            Builtin::GitDirectory => "git directories hold hooks and settings that run as you",
            Builtin::OutsideProject => "it lies outside the project",
            Builtin::AskMode => "`ask` only reads",
            Builtin::PolicyUpdate => "a change of policy is always a person's decision",
            Builtin::DebugMode => "debug mode runs what the other modes never run",
            Builtin::Tree(rule) => rule.reason(),
        }
    }

    /// What the caller can do differently.
    pub(crate) fn hint(self) -> Option<&'static str> {
        match self {
            Builtin::Bootstrap => Some("install another version yourself, outside skep"),
            Builtin::KernelFiles => Some("move SKEP_HOME out of the project, or work on another path"),
            Builtin::GitDirectory => Some("run git in the sandbox with shell.run; its writes stay in the task's private layer"),
            Builtin::OutsideProject => Some("write inside the project, or copy the file yourself afterwards"),
            Builtin::PolicyUpdate | Builtin::DebugMode => Some("answer the review"),
            Builtin::Tree(rule) => Some(rule.hint()),
            Builtin::PolicyFiles | Builtin::Journal | Builtin::AskMode => None,
        }
    }

    /// What the operator can do.
    pub(crate) fn remedy(self) -> Option<Remedy> {
        match self {
            Builtin::PolicyFiles => Some(Remedy::EditPolicyFiles),
            Builtin::Journal => Some(Remedy::ReadJournal),
            Builtin::AskMode => Some(Remedy::ActInstead),
            _ => None,
        }
    }
}

pub(crate) fn weigh(guards: &[Guard], facts: &Facts<'_>, path: Option<RealPath<'_>>) -> BuiltinVerdict {
    if let Some(RealPath::Inside(path)) = path {
        let is_guarded = |guard: &&Guard| within(path, &guard.path) || within(&spelled(path), &spelled(&guard.path));
        let guard = guards.iter().find(|guard| (!facts.read_only || guard.rule == Builtin::KernelFiles) && is_guarded(guard));
        if let Some(guard) = guard {
            return BuiltinVerdict::Deny(guard.rule);
        }
    }
    if let Some(rule) = tree::weigh(facts) {
        return BuiltinVerdict::Deny(Builtin::Tree(rule));
    }
    if !facts.read_only && facts.mode == Mode::Ask {
        return BuiltinVerdict::Deny(Builtin::AskMode);
    }
    // The one way to a policy file, so the paths below do not concern it.
    if facts.tool == Builtin::POLICY_UPDATE {
        return BuiltinVerdict::Review(Builtin::PolicyUpdate);
    }
    if facts.tool == SET_MODE && facts.session_mode == "debug" {
        return BuiltinVerdict::Review(Builtin::DebugMode);
    }
    if facts.read_only {
        return BuiltinVerdict::Nothing;
    }
    match path {
        None => BuiltinVerdict::Nothing,
        Some(RealPath::Outside(_)) => BuiltinVerdict::Deny(Builtin::OutsideProject),
        Some(RealPath::Inside(path)) => path.split('/').find_map(kept).map_or(BuiltinVerdict::Nothing, BuiltinVerdict::Deny),
    }
}

/// Whether git or skep keeps what has this name, in any spelling that some file system takes for it.
pub fn is_kept(name: &str) -> bool {
    kept(name).is_some()
}

/// Whose name this is, also on file systems that see no difference between letters, drop final dots and blanks, pass over characters
/// without a shape, know a file's streams by name, or take a backslash for a slash: the project may lie on one, or go to one by git.
fn kept(name: &str) -> Option<Builtin> {
    name.split('\\').find_map(kept_part)
}

fn kept_part(name: &str) -> Option<Builtin> {
    let first = name.as_bytes().first()?;
    if !matches!(first, b'.' | b's' | b'S' | b'g' | b'G' | 0x80..) {
        return None;
    }
    if name.is_ascii() {
        return reserved(name);
    }
    reserved(&folded(name))
}

fn reserved(name: &str) -> Option<Builtin> {
    let name = plain(name);
    let is = |reserved: &str| name.eq_ignore_ascii_case(reserved);
    if is(".git") || is("git~1") {
        return Some(Builtin::GitDirectory);
    }
    (is(".skep") || is("skep~1") || is("skep.yml")).then_some(Builtin::PolicyFiles)
}

/// Without the name of a stream of it, as in `.git::$INDEX_ALLOCATION`, and without what Windows drops from a name's end.
fn plain(name: &str) -> &str {
    name.split(':').next().unwrap_or(name).trim_end_matches(['.', ' '])
}

/// By Unicode's case folding, in which the Kelvin sign is a `k` and the long s an `s`, and without what has no shape.
fn folded(name: &str) -> String {
    name.chars().filter(|letter| !is_shapeless(*letter)).flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// A path as such a file system compares it.
fn spelled(path: &str) -> String {
    let part = |part: &str| plain(&folded(part)).to_owned();
    path.split(['/', '\\']).map(part).collect::<Vec<_>>().join("/")
}

/// What HFS+ leaves out when it compares names.
fn is_shapeless(letter: char) -> bool {
    matches!(letter, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// Is `path` the guarded one or below it? SQLite's `-wal` and `-shm` files belong to their database.
fn within(path: &str, guarded: &str) -> bool {
    path.strip_prefix(guarded).is_some_and(|rest| matches!(rest, "" | "-wal" | "-shm" | "-journal") || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_name_is_kept_in_every_spelling() {
        for name in [
            ".git",
            ".GIT",
            ".Git",
            ".git.",
            ".git ",
            ".git. .",
            ".g\u{200c}it",
            "\u{feff}.git",
            "GIT~1",
            ".git::$INDEX_ALLOCATION",
            ".GIT. ::$DATA",
            "a\\.git\\hooks",
        ] {
            assert_eq!(kept(name), Some(Builtin::GitDirectory), "{name:?}");
        }
        for name in [
            ".skep",
            ".SKEP",
            "skep.yml",
            "Skep.YML",
            "skep.yml.",
            "sk\u{200d}ep.yml",
            "SKEP~1",
            ".s\u{212a}ep",
            ".\u{17f}kep",
            "\u{17f}\u{212a}EP.yml",
            "skep.yml::$DATA",
            "skep.yml:x",
        ] {
            assert_eq!(kept(name), Some(Builtin::PolicyFiles), "{name:?}");
        }
        for name in [
            "git",
            ".gitignore",
            ".github",
            ".git2",
            "skep",
            "skep.yaml",
            ".skeptic",
            "",
            "...",
            "src",
            "grün",
            "é.git",
            "a:.git",
            "\u{17f}rc",
        ] {
            assert_eq!(kept(name), None, "{name:?}");
        }
    }

    #[test]
    fn a_guarded_path_is_guarded_in_every_spelling() {
        for path in [".Home/\u{212a}eys", ".home./keys", ".home/keys::$INDEX_ALLOCATION", ".home\\keys/x"] {
            assert!(within(&spelled(path), &spelled(".home/keys")), "{path:?}");
        }
        assert!(!within(&spelled(".home/keyring"), &spelled(".home/keys")), "the control");
    }
}
