//! What the kernel reads of a repository itself: no program runs here, so nothing a repository configures can.

use std::path::{Path, PathBuf};

/// The work tree that `path` is in.
pub(crate) fn toplevel(path: &Path) -> Option<PathBuf> {
    path.ancestors().find(|dir| dir.join(".git").exists()).map(Path::to_path_buf)
}

/// The branch a work tree is on, or the short commit when it is on none.
pub(crate) fn branch(top: &Path) -> String {
    let Some(text) = git_dir(top).and_then(|dir| read_line(&dir.join("HEAD"))) else { return "?".into() };
    match text.strip_prefix("ref: refs/heads/") {
        Some(branch) => branch.to_owned(),
        None => text.chars().take(8).collect(),
    }
}

/// The commit a work tree stands at, or `None` before the first.
pub(crate) fn head(top: &Path) -> Option<String> {
    let dir = git_dir(top)?;
    let text = read_line(&dir.join("HEAD"))?;
    let Some(name) = text.strip_prefix("ref: ") else { return Some(text) };
    // A linked work tree keeps its branches in the common directory.
    let common = read_line(&dir.join("commondir")).map_or_else(|| dir.clone(), |path| dir.join(path));
    [&dir, &common].iter().find_map(|dir| read_line(&dir.join(name))).or_else(|| packed(&common, name))
}

/// The directory that a linked work tree shares with its repository; `None` for a tree that has its own.
pub(crate) fn shared_dir(top: &Path) -> Option<PathBuf> {
    if top.join(".git").is_dir() {
        return None;
    }
    let dir = git_dir(top)?;
    let common = read_line(&dir.join("commondir")).map_or_else(|| dir.clone(), |path| dir.join(path));
    common.canonicalize().ok()
}

/// A repository's `config` file and, if it holds credentials, its text without them.
pub(crate) fn without_credentials(top: &Path) -> Option<(PathBuf, String)> {
    let file = shared_dir(top).unwrap_or_else(|| top.join(".git")).join("config");
    let text = std::fs::read_to_string(&file).ok()?;
    let clean = strip_credentials(&text);
    (clean != text).then_some((file, clean))
}

fn strip_credentials(text: &str) -> String {
    let secret = |line: &str| {
        let key = line.split('=').next().unwrap_or("").trim().to_ascii_lowercase();
        ["extraheader", "password", "token", "oauth", "cookiefile"].iter().any(|word| key.contains(word))
    };
    let lines = text.split_inclusive('\n').filter(|line| !secret(line));
    lines.map(strip_userinfo).collect()
}

/// `https://user:secret@host/` becomes `https://host/`; `ssh://git@host/` names no secret and stays.
fn strip_userinfo(line: &str) -> String {
    let Some((before, after)) = line.split_once("://") else { return line.to_owned() };
    let host_end = after.find(['/', '\n', '"']).unwrap_or(after.len());
    match after[..host_end].rfind('@') {
        Some(at) if !before.trim_end().ends_with("ssh") => format!("{before}://{}", &after[at + 1..]),
        _ => line.to_owned(),
    }
}

fn packed(common: &Path, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(common.join("packed-refs")).ok()?;
    text.lines().filter_map(|line| line.split_once(' ')).find(|(_, of)| *of == name).map(|(id, _)| id.to_owned())
}

fn git_dir(top: &Path) -> Option<PathBuf> {
    let dot = top.join(".git");
    if dot.is_dir() {
        return Some(dot);
    }
    let text = read_line(&dot)?;
    Some(top.join(text.strip_prefix("gitdir: ")?))
}

fn read_line(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim_end().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_leave_a_config_and_nothing_else_does() {
        let plain = "[core]\n\tbare = false\n[remote \"o\"]\n\turl = ssh://git@host/x.git\n\turl = git@host:x.git\n";
        assert_eq!(strip_credentials(plain), plain);
        let held =
            "[remote \"o\"]\n\turl = https://me:s3cret@host/x.git\n[http]\n\textraHeader = Authorization: Basic abc\n\tproxy = none\n";
        assert_eq!(strip_credentials(held), "[remote \"o\"]\n\turl = https://host/x.git\n[http]\n\tproxy = none\n");
    }

    fn git(dir: &Path, args: &[&str]) -> String {
        let output = std::process::Command::new("git")
            .arg("-C")
            .arg(dir)
            .args(["-c", "user.name=t", "-c", "user.email=t@t"])
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn head_and_branch_are_what_git_says_also_packed_and_in_a_linked_tree() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("repo");
        std::fs::create_dir_all(top.join("sub")).unwrap();
        git(&top, &["init", "-q", "-b", "trunk"]);
        assert_eq!((branch(&top), head(&top)), ("trunk".into(), None));
        git(&top, &["commit", "-q", "--allow-empty", "-m", "one"]);
        let commit = git(&top, &["rev-parse", "HEAD"]);
        assert_eq!(head(&top), Some(commit.clone()));
        git(&top, &["pack-refs", "--all"]);
        assert_eq!(head(&top), Some(commit.clone()));
        git(&top, &["worktree", "add", "-q", "-b", "feat/x", "../linked"]);
        let linked = dir.path().join("linked");
        assert_eq!((branch(&linked), head(&linked)), ("feat/x".into(), Some(commit)));
        assert_eq!((shared_dir(&top), shared_dir(&linked)), (None, Some(top.join(".git").canonicalize().unwrap())));
        assert_eq!(toplevel(&top.join("sub")), Some(top));
    }
}
