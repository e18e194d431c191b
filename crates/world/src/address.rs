//! How people name workers and work trees: `researcher.1@kimi`, `org/repo@branch`.

use crate::{Code, Refusal, TaskId};
use serde::{Deserialize, Serialize};

/// Where a new task goes, beside its repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TaskPlacement {
    /// A [`WorkerAddress`]; the project's own worker without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// Before all that is queued.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prioritize: bool,
    /// At once: what its worker does is interrupted, and goes on after it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disrupt: bool,
    /// When these have finished.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<TaskId>,
    /// How long it may be worked on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// `[role][.n][@brain][++]`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerAddress {
    pub role: Option<String>,
    pub index: Option<u32>,
    pub brain: Option<String>,
    /// Take somebody on, whoever is there.
    pub is_new: bool,
}

impl WorkerAddress {
    /// The forms that there are.
    const FORMS: &str = "a worker is `[role][.n][@brain][++]`: `worker`, `worker.2`, `researcher@kimi`, `@kimi`, `researcher++`";

    pub fn parse(text: &str) -> Result<WorkerAddress, Refusal> {
        let bad = |why: &str| Refusal::new(Code::BadInput, format!("`{text}` names no worker: {why}")).hint(WorkerAddress::FORMS);
        let (rest, is_new) = text.strip_suffix("++").map_or((text, false), |rest| (rest, true));
        let (who, brain) = rest.split_once('@').map_or((rest, None), |(who, brain)| (who, Some(brain)));
        if brain == Some("") {
            return Err(bad("no brain stands after `@`"));
        }
        let (role, index) = match who.rsplit_once('.') {
            None => (who, None),
            Some((role, index)) => {
                let number = index.parse::<u32>().ok().filter(|number| *number > 0 && !index.starts_with('+'));
                (role, Some(number.ok_or_else(|| bad("a number from 1 on stands after `.`"))?))
            }
        };
        if index.is_some() && role.is_empty() {
            return Err(bad("no role stands before the number"));
        }
        if !role.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
            return Err(bad("a role has letters, digits, `-` and `_`"));
        }
        if is_new && index.is_some() {
            return Err(bad("`++` takes the next number"));
        }
        if text.is_empty() {
            return Err(bad("it is empty"));
        }
        let role = (!role.is_empty()).then(|| role.to_owned());
        Ok(WorkerAddress { role, index, brain: brain.map(str::to_owned), is_new })
    }
}

/// `@branch`, `repo@branch` or `org/repo@branch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneAddress {
    /// `org/repo`, or the last part of it; `None` is the repository that one is in.
    pub site: Option<String>,
    pub branch: String,
}

impl ZoneAddress {
    /// The forms that there are.
    pub const FORMS: &str = "`@branch`, `repo@branch`, `org/repo@branch`, or a folder";

    pub fn parse(text: &str) -> Result<ZoneAddress, Refusal> {
        let bad = |why: &str| {
            Refusal::new(Code::BadInput, format!("`{text}` names no work tree: {why}")).hint(format!("name one as {}", ZoneAddress::FORMS))
        };
        let (site, branch) = text.split_once('@').ok_or_else(|| bad("it has no `@`, and there is no such folder"))?;
        if !is_branch(branch) {
            return Err(bad("what stands after `@` is no name of a branch"));
        }
        let site = if site.is_empty() { None } else { Some(site) };
        let part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if site.is_some_and(|site| site.split('/').count() > 2 || !site.split('/').all(part)) {
            return Err(bad("what stands before `@` is neither `repo` nor `org/repo`"));
        }
        Ok(ZoneAddress { site: site.map(str::to_owned), branch: branch.to_owned() })
    }
}

/// A name that git takes for a branch, and that no option of git's begins with.
pub fn is_branch(name: &str) -> bool {
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock") && !part.ends_with('.');
    let plain = |letter: char| !letter.is_whitespace() && !letter.is_control() && !"~^:?*[\\".contains(letter);
    name.len() <= 200
        && !name.starts_with('-')
        && name.chars().all(plain)
        && !name.contains("..")
        && !name.contains("@{")
        && name != "@"
        && name.split('/').all(part)
}

/// The slug of a repository from the address of its remote, else from its folder: two parts of letters, digits, `.`, `_` and `-`.
pub fn slug_of(remote: Option<&str>, folder: &str) -> String {
    let clean = |part: &str| {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || "._-".contains(letter) { letter } else { '-' };
        part.chars().map(plain).collect::<String>().trim_matches('.').to_owned()
    };
    let from_remote = remote.and_then(|remote| {
        let remote = remote.trim().trim_end_matches('/');
        let remote = remote.strip_suffix(".git").unwrap_or(remote);
        let path = match remote.split_once("://") {
            Some(("file", _)) => return None,
            Some((_, rest)) => rest.split_once('/')?.1,
            // `git@host:org/repo`, and no path of this machine.
            None => remote.split_once(':').filter(|(host, _)| !host.contains('/'))?.1,
        };
        let (before, repo) = path.trim_matches('/').rsplit_once('/')?;
        let org = before.rsplit('/').next()?;
        Some((clean(org), clean(repo)))
    });
    match from_remote {
        Some((org, repo)) if !org.is_empty() && !repo.is_empty() => format!("{org}/{repo}"),
        _ => match clean(folder).as_str() {
            "" => "local/repository".to_owned(),
            folder => format!("local/{folder}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_worker_is_read() {
        let read = |text: &str| WorkerAddress::parse(text).map(|a| (a.role, a.index, a.brain, a.is_new)).map_err(|no| no.reason);
        let is = |role: &str, index, brain: &str, is_new| {
            let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            Ok::<_, String>((some(role), index, some(brain), is_new))
        };
        for (text, wanted) in [
            ("hero", is("hero", None, "", false)),
            ("researcher", is("researcher", None, "", false)),
            ("@kimi", is("", None, "kimi", false)),
            ("researcher@kimi", is("researcher", None, "kimi", false)),
            ("mechanic.1", is("mechanic", Some(1), "", false)),
            ("mechanic.1@kimi", is("mechanic", Some(1), "kimi", false)),
            ("researcher++", is("researcher", None, "", true)),
            ("researcher@kimi++", is("researcher", None, "kimi", true)),
            ("@kimi++", is("", None, "kimi", true)),
            ("++", is("", None, "", true)),
            ("worker@claude@anthropic/claude/opus", is("worker", None, "claude@anthropic/claude/opus", false)),
        ] {
            assert_eq!(read(text), wanted, "{text}");
        }
        for text in ["", "a.0", "a.x", ".1", "a.1++", "a@", "a b", "a.+1", "@++", "a/b"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_form_of_a_work_tree_is_read() {
        let read = |text: &str| ZoneAddress::parse(text).map(|a| (a.site, a.branch)).map_err(|no| no.hint.unwrap_or_default());
        assert_eq!(read("@feat/auth"), Ok((None, "feat/auth".to_owned())));
        assert_eq!(read("repo@main"), Ok((Some("repo".to_owned()), "main".to_owned())));
        assert_eq!(read("org/my.repo@main"), Ok((Some("org/my.repo".to_owned()), "main".to_owned())));
        for text in ["main", "@", "a/b/c@main", "org/@main", "@-x", "@a..b", "@a b", "@a.lock", "@a//b", "o r/g@main", "@@{u}"] {
            assert!(read(text).is_err_and(|hint| hint.contains("`org/repo@branch`")), "{text}");
        }
    }

    #[test]
    fn a_slug_comes_from_the_remote_or_the_folder() {
        for (remote, slug) in [
            (Some("https://github.com/ehmpathy/myrepo.git"), "ehmpathy/myrepo"),
            (Some("git@github.com:ehmpathy/myrepo.git"), "ehmpathy/myrepo"),
            (Some("ssh://git@host:22/group/sub/repo/"), "sub/repo"),
            (Some("https://host/only"), "local/folder"),
            (Some("/srv/git/repo.git"), "local/folder"),
            (Some("../up:stream/x"), "local/folder"),
            (Some("file:///srv/a/b.git"), "local/folder"),
            (Some("https://h/o rg/re\u{202e}po"), "o-rg/re-po"),
            (Some("https://h/o/../repo"), "local/folder"),
            (None, "local/folder"),
        ] {
            let found = slug_of(remote, "folder");
            assert!(found.ends_with(slug), "{remote:?}: {found}");
            assert_eq!(found.split('/').count(), 2);
        }
        assert_eq!(slug_of(None, "..."), "local/repository");
    }
}
