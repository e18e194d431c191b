//! A `.git` that somebody made up tells the kernel a commit, a branch and a repository that knows the project, or nothing.

#[path = "../../testkit/fuzz/fuzz.rs"]
mod fuzz;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

const SECRET: &str = "correct-horse-battery-staple";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The files that are made up, one a field of the input; the last two lie in a repository outside.
const FILES: &[&str] = &[
    "project/.git",
    "project/.git/HEAD",
    "project/.git/refs/heads/main",
    "project/.git/packed-refs",
    "project/.git/config",
    "project/own/commondir",
    "project/own/HEAD",
    "other/worktrees/t/gitdir",
    "other/worktrees/t/commondir",
];

const WORDS: &[&str] = &[
    "|",
    "|",
    "gitdir: ",
    "../other/worktrees/t",
    "../other",
    "own",
    "../private",
    "../home",
    "ref: ",
    "refs/heads/main",
    "refs/heads/",
    COMMIT,
    "../..",
    "/",
    "..",
    ".git",
    "../../../project/.git",
    "../project/.git",
    "[core]\n\tworktree = ",
    "../project",
    "\n",
    " ",
    ">",
    "!",
    "/dev/zero",
    "../../private/HEAD",
];

/// Puts a file, a link (`>`) or a pipe (`!`) at a path. One whose folder is no folder is left out.
fn put(path: &Path, text: &str) {
    let Some(parent) = path.parent() else { return };
    if fs::create_dir_all(parent).is_err() {
        return;
    }
    // What is there already was put by an earlier field and stays.
    let _ = match (text.strip_prefix('>'), text.starts_with('!')) {
        (Some(target), _) => symlink(target, path),
        (_, true) => rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0).map_err(Into::into),
        _ => fs::write(path, text),
    };
}

/// The line of an ordinary file; the oracle's own reader.
fn line(path: PathBuf) -> Option<String> {
    fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
    Some(fs::read_to_string(path).ok()?.trim_end().to_owned())
}

#[test]
fn git_files() {
    let folder = tempfile::tempdir().unwrap();
    let yard = folder.path().canonicalize().unwrap();
    fuzz::text("git_files", WORDS, |text| {
        let (project, other) = (yard.join("project"), yard.join("other"));
        for name in ["project", "other", "private", "home"] {
            let _ = fs::remove_dir_all(yard.join(name));
            fs::create_dir(yard.join(name)).unwrap();
        }
        for name in ["other/objects", "other/refs", "other/worktrees/t", "private/objects", "private/refs"] {
            fs::create_dir_all(yard.join(name)).unwrap();
        }
        for name in ["private/HEAD", "private/config", "home/HEAD"] {
            fs::write(yard.join(name), format!("{SECRET}\n")).unwrap();
        }
        fs::write(other.join("HEAD"), format!("{COMMIT}\n")).unwrap();
        fs::write(other.join("worktrees/t/HEAD"), format!("{COMMIT}\n")).unwrap();
        for (file, text) in FILES.iter().zip(text.split('|')).filter(|(_, text)| !text.is_empty()) {
            put(&yard.join(file), text);
        }
        let read = workspace::repository::read_repository(&project, &yard.join("home"));
        assert!(!format!("{read:?}").contains(SECRET), "{read:?}");
        let Ok(repository) = read else { return };
        if let Some(head) = &repository.head {
            assert_eq!(head, COMMIT, "no other commit is written anywhere");
        }
        if let Some(branch) = &repository.branch {
            assert!(!branch.is_empty() && !branch.contains("..") && !branch.chars().any(char::is_control), "{branch:?}");
        }
        if let Some(outside) = repository.outside {
            assert_eq!(outside, other, "{text:?}");
            let registered = line(other.join("worktrees/t/gitdir")).is_some_and(|path| {
                let named = other.join("worktrees/t").join(path);
                named.parent().is_some_and(|tree| tree.canonicalize().is_ok_and(|tree| tree == project))
            });
            assert!(registered, "{text:?}: it does not point back");
        }
    });
}
