//! What no room shows to a process: names that are secret everywhere, what `mask` in `skep.yml` adds, and every path whose `fs.read` is not
//! allowed to it under a template that its task may use.
//!
//! Rooms are masked before each job (the kernel does), and the door refuses calls on masked paths by the same sight, so that a program in a room
//! and a tool of the kernel agree. **Invariant.** A change of policy, grant, ban or project counts for the next job that starts.

mod walk;

use crate::aside;
use crate::reader::{Folder, Unread};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use policy::{HiddenBy, ReadSilence, ReadView};
use rustix::fs::FileType;
use std::fmt;
use std::path::{Path, PathBuf};
use world::{Code, Refusal, Remedy};

pub use walk::{MaskSet, Walks};

/// Never visible in a room, whatever `skep.yml` says.
pub const MASKED: &[&str] = &[".env", ".env.*", "!.env.example", "*.pem", "*.key", ".npmrc", ".netrc"];

/// Why a path is hidden.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hidden {
    /// Its name is secret in every project, by this pattern.
    Always(String),
    /// `mask` in `skep.yml` has this pattern.
    Mask(String),
    Policy(HiddenBy),
    /// It is another name of this hidden file.
    Same(PathBuf),
}

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hidden::Always(pattern) => write!(f, "names like `{pattern}` are masked in every project"),
            Hidden::Mask(pattern) => write!(f, "`mask` in skep.yml has `{pattern}`"),
            Hidden::Policy(by) => by.fmt(f),
            Hidden::Same(of) => write!(f, "it is the same file as `{}`", of.display()),
        }
    }
}

impl Hidden {
    /// What the operator can do to show the path again.
    fn remedy(&self) -> Option<Remedy> {
        match self {
            Hidden::Mask(pattern) => Some(Remedy::Unmask { pattern: pattern.clone() }),
            Hidden::Policy(HiddenBy::Ban(ban)) => Some(Remedy::RevokeBan { ban: *ban }),
            Hidden::Policy(HiddenBy::Rule(rule)) if rule.starts_with("builtin:") => None,
            Hidden::Policy(HiddenBy::Rule(rule)) => Some(match policy::home_rule(rule) {
                Some(rule) => Remedy::ChangeHomePolicy { rule: Some(rule.to_owned()) },
                None => Remedy::ChangeRule { rule: rule.clone() },
            }),
            Hidden::Policy(HiddenBy::NoRule(ReadSilence { is_home: true, .. })) => Some(Remedy::ChangeHomePolicy { rule: None }),
            Hidden::Policy(HiddenBy::NoRule(_)) => Some(Remedy::AddRule { tool: "fs.read".into(), host: None }),
            Hidden::Always(_) | Hidden::Policy(HiddenBy::Review(_)) | Hidden::Same(_) => None,
        }
    }

    /// What the caller can do where no operator unmasks it.
    fn hint(&self) -> &'static str {
        match self {
            Hidden::Always(_) => "work from a template such as .env.example, or have the operator do this step; nothing unmasks it",
            Hidden::Policy(HiddenBy::Review(_)) => {
                "ask for it with fs.read; a yes for the session or for always shows it to the next command"
            }
            Hidden::Same(_) => "make it a file of its own if it is not secret",
            Hidden::Mask(_) | Hidden::Policy(_) => "work on another path; no rule opens this one",
        }
    }

    /// The refusal of a call on such a path.
    pub fn refusal(&self, path: &str) -> Refusal {
        let why = match self {
            Hidden::Always(_) | Hidden::Mask(_) => "no brain may see it".to_owned(),
            other => other.to_string(),
        };
        let refusal = Refusal::new(Code::Denied, format!("`{path}` is masked: {why}"));
        match self.remedy() {
            Some(remedy) => refusal.remedy(remedy),
            None => refusal.hint(self.hint()),
        }
    }
}

/// Names that no room shows and no tool reads, whatever the policy says.
#[derive(Debug)]
pub struct MaskedNames {
    always: Gitignore,
    /// Of `skep.yml`.
    also: Gitignore,
}

impl MaskedNames {
    pub fn new(project: &Path, extra: &[String]) -> Result<MaskedNames, Refusal> {
        let bad = |line: &str, error: &dyn fmt::Display| {
            Refusal::new(Code::BadInput, format!("`mask: {line}` in skep.yml is not a pattern: {error}"))
                .hint("write it as in a .gitignore")
        };
        let build = |lines: &mut dyn Iterator<Item = &str>| {
            let mut patterns = GitignoreBuilder::new(project);
            for line in lines {
                patterns.add_line(None, line).map_err(|error| bad(line, &error))?;
            }
            patterns.build().map_err(|error| bad("…", &error))
        };
        let always = build(&mut MASKED.iter().copied())?;
        Ok(MaskedNames { always, also: build(&mut extra.iter().map(String::as_str))? })
    }

    /// Why a path of the project, or a folder that it lies in, is hidden.
    pub fn find(&self, path: &str) -> Option<Hidden> {
        let by = |patterns: &Gitignore| match patterns.matched_path_or_any_parents(path, false) {
            Match::Ignore(glob) => Some(glob.original().to_owned()),
            Match::None | Match::Whitelist(_) => None,
        };
        by(&self.always).map(Hidden::Always).or_else(|| by(&self.also).map(Hidden::Mask))
    }

    /// The same of one name whose folders were looked at before.
    fn matched(&self, path: &Path, is_dir: bool) -> Option<Hidden> {
        let by = |patterns: &Gitignore| match patterns.matched(path, is_dir) {
            Match::Ignore(glob) => Some(glob.original().to_owned()),
            Match::None | Match::Whitelist(_) => None,
        };
        // The store of git has names of its own.
        if path.starts_with(".git") {
            return None;
        }
        by(&self.always).map(Hidden::Always).or_else(|| by(&self.also).map(Hidden::Mask))
    }
}

/// What a process may see of a project.
#[derive(Debug)]
pub struct Sight {
    names: MaskedNames,
    view: ReadView,
    project: PathBuf,
}

impl Sight {
    /// `extra` are the patterns of `mask` in `skep.yml`; `view` is what the policy lets the process read.
    pub fn new(project: PathBuf, extra: &[String], view: ReadView) -> Result<Sight, Refusal> {
        Ok(Sight { names: MaskedNames::new(&project, extra)?, view, project })
    }

    /// Why a path is hidden by its name, whatever the policy says.
    pub fn hides_name(&self, path: &str) -> Option<Hidden> {
        self.names.find(path)
    }

    pub fn project(&self) -> &Path {
        &self.project
    }

    /// Whether no rule lets the process read anything of the project, or asks.
    pub fn shows_nothing(&self) -> bool {
        matches!(self.view.below(""), Some(HiddenBy::NoRule(ReadSilence { is_whole: true, .. })))
    }

    /// Why a path of the project is hidden.
    pub fn hides(&self, path: &str) -> Option<Hidden> {
        self.names.find(path).or_else(|| by_policy(path, self.view.at(path)))
    }

    /// Why a path is masked for calls and changes too. Where only silence hides it, it is while the project has it: what a task makes where
    /// nothing was is its own.
    pub fn masks(&self, path: &str) -> Option<Hidden> {
        self.hides(path).filter(|by| self.counts(by, path))
    }

    /// The same of a folder with all that is in it.
    pub fn hides_folder(&self, path: &str) -> Option<Hidden> {
        if path == "." {
            return None;
        }
        let hidden = self.names.find(path).or_else(|| by_policy(path, self.view.below(path)));
        hidden.filter(|by| self.counts(by, path))
    }

    /// Whether the project has a folder there. Opens nothing and follows no link.
    pub fn is_folder(&self, path: &str) -> bool {
        let look = || Folder::open(&self.project).and_then(|project| project.look_within(Path::new(path)));
        aside(look).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
    }

    fn counts(&self, by: &Hidden, path: &str) -> bool {
        // Opens nothing, follows no link, and waits beside the async workers. What cannot be told counts as there.
        !matches!(by, Hidden::Policy(HiddenBy::NoRule(_)))
            || aside(|| {
                !matches!(Folder::open(&self.project).and_then(|project| project.look_within(Path::new(path))), Err(Unread::Absent))
            })
    }

    fn at(&self, path: &Path) -> Option<Hidden> {
        let text = path.to_string_lossy();
        self.names.matched(path, false).or_else(|| by_policy(&text, self.view.at(&text)))
    }

    fn below(&self, path: &Path) -> Option<Hidden> {
        let text = path.to_string_lossy();
        self.names.matched(path, true).or_else(|| by_policy(&text, self.view.below(&text)))
    }
}

/// Rules that let some folders be read hardly mean that git is to break: its own folder is hidden where a rule or a ban says so, and from
/// who may read nothing at all. What its store gives away is told by `policy check`.
fn by_policy(path: &str, hidden: Option<HiddenBy>) -> Option<Hidden> {
    let of_git = path == ".git" || path.starts_with(".git/");
    let is_partial = |by: &HiddenBy| matches!(by, HiddenBy::NoRule(ReadSilence { is_whole: false, .. }));
    hidden.filter(|by| !of_git || !is_partial(by)).map(Hidden::Policy)
}

#[cfg(test)]
mod tests;
