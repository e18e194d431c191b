use super::*;
use rustix::fs::{CWD, Mode, mknodat};
use std::fs;
use std::os::unix::fs::symlink;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const SECRET: &str = "correct-horse-battery-staple";

fn git(dir: &Path, args: &[&str]) -> String {
    let output = std::process::Command::new("git")
        .arg("-C")
        .arg(dir)
        .args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "protocol.file.allow=always"])
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn work_tree(path: &Path) -> Option<PathBuf> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    match runtime.block_on(toplevel(path)).unwrap() {
        WorkTree::At(top) => Some(top),
        WorkTree::None(_) | WorkTree::Unseen(_) => None,
    }
}

#[test]
fn a_work_tree_that_the_system_remembers_needs_no_other_thread() {
    let yard = Yard::new();
    let top = yard.project();
    fs::create_dir_all(top.join(".git")).unwrap();
    fs::create_dir_all(top.join("sub/deep")).unwrap();
    symlink(&top, yard.at("link")).unwrap();
    // Looked at once, it is remembered.
    assert_eq!(work_tree(&top.join("sub/deep")), Some(top.clone()));
    assert_eq!(remembered_toplevel(&top), Some(top.clone()));
    assert_eq!(remembered_toplevel(&top.join("sub//deep/")), Some(top.clone()));
    for other in [yard.at("link"), yard.at("link/sub"), top.join("sub/../sub"), top.join("missing"), PathBuf::from("sub")] {
        assert_eq!(remembered_toplevel(&other), None, "{}", other.display());
    }
    assert_eq!(work_tree(&yard.at("link/sub")), Some(top), "the control: what it does not know is looked up");
}

/// A user's folder: a kernel's home, private files, a repository with a commit, and a project.
struct Yard {
    dir: tempfile::TempDir,
}

impl Yard {
    fn new() -> Yard {
        let yard = Yard { dir: tempfile::tempdir().unwrap() };
        for name in ["home/keys", ".ssh", "project"] {
            fs::create_dir_all(yard.at(name)).unwrap();
        }
        fs::write(yard.at(".ssh/config"), format!("Host x\n  Password {SECRET}\n")).unwrap();
        fs::write(yard.at(".ssh/HEAD"), format!("{SECRET}\n")).unwrap();
        yard
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(name)
    }

    fn project(&self) -> PathBuf {
        self.at("project")
    }

    fn open(&self, project: &str) -> Result<Repository, Unusable> {
        Repository::open(&self.at(project), &self.at("home"))
    }

    fn head(&self, project: &str) -> Option<String> {
        self.open(project).ok()?.head()
    }

    fn needs(&self, project: &str) -> Result<Needs, Unusable> {
        self.open(project)?.needs(&self.at(project), &BTreeSet::new())
    }

    fn outside(&self, project: &str) -> Result<Option<PathBuf>, Unusable> {
        Ok(self.needs(project)?.outside)
    }

    /// A folder with the looks of a repository.
    fn repository(&self, name: &str) -> PathBuf {
        for folder in ["objects", "refs/heads"] {
            fs::create_dir_all(self.at(name).join(folder)).unwrap();
        }
        fs::write(self.at(name).join("HEAD"), "ref: refs/heads/main\n").unwrap();
        self.at(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.at(name), text).unwrap();
    }
}

#[test]
fn head_and_branch_are_what_git_says_also_packed_and_in_a_linked_tree() {
    let yard = Yard::new();
    let top = yard.at("repo");
    fs::create_dir_all(top.join("sub")).unwrap();
    git(&top, &["init", "-q", "-b", "trunk"]);
    let branch = |project: &str| yard.open(project).unwrap().branch();
    assert_eq!((branch("repo").as_deref(), yard.head("repo")), (Some("trunk"), None));
    git(&top, &["commit", "-q", "--allow-empty", "-m", "one"]);
    let commit = git(&top, &["rev-parse", "HEAD"]);
    assert_eq!(yard.head("repo"), Some(commit.clone()));
    git(&top, &["symbolic-ref", "refs/heads/alias", "refs/heads/trunk"]);
    git(&top, &["symbolic-ref", "HEAD", "refs/heads/alias"]);
    assert_eq!(yard.head("repo"), Some(commit.clone()));
    git(&top, &["symbolic-ref", "HEAD", "refs/heads/trunk"]);
    git(&top, &["pack-refs", "--all"]);
    assert_eq!(yard.head("repo"), Some(commit.clone()));
    git(&top, &["worktree", "add", "-q", "-b", "feat/x", "../linked"]);
    assert_eq!((branch("linked").as_deref(), yard.head("linked")), (Some("feat/x"), Some(commit.clone())));
    assert_eq!((yard.outside("repo"), yard.outside("linked")), (Ok(None), Ok(Some(top.join(".git")))));
    git(&top, &["checkout", "-q", "--detach"]);
    assert_eq!((branch("repo").as_deref(), yard.head("repo")), (Some(&commit[..8]), Some(commit.clone())));
    assert_eq!(work_tree(&top.join("sub")), Some(top.clone()));
    symlink(top.join("sub"), yard.at("to-sub")).unwrap();
    assert_eq!(work_tree(&yard.at("to-sub")), Some(top), "the operator's own path may be a link");
}

#[test]
fn repositories_that_git_itself_puts_outside_are_used() {
    let yard = Yard::new();
    let source = yard.at("source");
    fs::create_dir(&source).unwrap();
    git(&source, &["init", "-q"]);
    git(&source, &["commit", "-q", "--allow-empty", "-m", "one"]);
    let commit = git(&source, &["rev-parse", "HEAD"]);
    let above = yard.at("above");
    fs::create_dir(&above).unwrap();
    git(&above, &["init", "-q"]);
    git(&above, &["submodule", "--quiet", "add", source.to_str().unwrap(), "sub"]);
    assert_eq!((yard.head("above/sub"), yard.outside("above/sub")), (Some(commit.clone()), Ok(Some(above.join(".git/modules/sub")))));
    // The usual layout of those who work in linked trees only.
    git(&yard.at(""), &["clone", "-q", "--bare", "source", "many/.bare"]);
    git(&yard.at("many/.bare"), &["worktree", "add", "-q", "../tree"]);
    assert_eq!((yard.head("many/tree"), yard.outside("many/tree")), (Some(commit.clone()), Ok(Some(yard.at("many/.bare")))));
    // This one names no work tree until it is told to.
    git(&yard.at(""), &["clone", "-q", "--separate-git-dir", yard.at("apart").to_str().unwrap(), "source", "tree"]);
    let why = yard.outside("tree").unwrap_err();
    assert!(why.what.ends_with("does not name this project as its work tree") && why.fix.contains("core.worktree"), "{why:?}");
    git(&yard.at("tree"), &["config", "core.worktree", yard.at("tree").to_str().unwrap()]);
    assert_eq!((yard.head("tree"), yard.outside("tree")), (Some(commit), Ok(Some(yard.at("apart")))));
}

/// Each with the control that the same tree is used once the repository says so too.
#[test]
fn a_git_file_shows_nothing_that_does_not_point_back() {
    let yard = Yard::new();
    let refused = |what: &str| {
        let why = yard.outside("project").unwrap_err();
        assert!(why.what.contains(what), "{why:?}, not {what}");
        assert!(!format!("{why:?}").contains(SECRET));
        assert_eq!(yard.head("project"), None);
    };
    for name in [".ssh", "home", "home/keys", "", "project/../.ssh"] {
        yard.write("project/.git", format!("gitdir: {}\n", yard.at(name).display()));
        refused("`.git` names a folder that");
    }
    // Somebody else's repository, by name, by a link, and by the other's `commondir`.
    let other = yard.repository("other");
    yard.write("project/.git", "gitdir: ../other\n");
    refused("does not name this project as its work tree");
    symlink("../other", yard.at("project/link")).unwrap();
    yard.write("project/.git", "gitdir: link\n");
    refused("does not name this project as its work tree");
    fs::create_dir_all(yard.at("project/own")).unwrap();
    yard.write("project/.git", "gitdir: own\n");
    yard.write("project/own/commondir", yard.at(".ssh").as_os_str().as_bytes());
    refused("names another folder");
    fs::create_dir_all(yard.at("side")).unwrap();
    yard.write("project/.git", "gitdir: ../side\n");
    yard.write("side/commondir", yard.at(".ssh").as_os_str().as_bytes());
    yard.write("side/gitdir", yard.at("project/.git").as_os_str().as_bytes());
    refused("is not a repository");
    yard.write("side/commondir", other.as_os_str().as_bytes());
    refused("does not name this project as its work tree");
    // Registered in the repository, but for another tree.
    fs::create_dir_all(yard.at("other/worktrees/t")).unwrap();
    yard.write("project/.git", "gitdir: ../other/worktrees/t\n");
    yard.write("other/worktrees/t/commondir", "../..\n");
    yard.write("other/worktrees/t/HEAD", format!("{COMMIT}\n"));
    yard.write("other/worktrees/t/gitdir", yard.at("elsewhere/.git").as_os_str().as_bytes());
    refused("does not name this project as its work tree");
    yard.write("other/worktrees/t/gitdir", yard.at("project").as_os_str().as_bytes());
    refused("does not name this project as its work tree");
    yard.write("other/worktrees/t/gitdir", "../../../project/.git\n");
    assert_eq!((yard.outside("project"), yard.head("project")), (Ok(Some(other)), Some(COMMIT.into())));
}

#[test]
fn neither_the_kernel_s_home_nor_what_holds_the_project_is_shown_however_it_points_back() {
    let yard = Yard::new();
    let refused = |project: &str, what: &str| {
        let why = yard.outside(project).unwrap_err();
        assert!(why.what.contains(what), "{why:?}");
    };
    let register = |repository: &str, project: &str| {
        yard.repository(repository);
        let own = yard.at(repository).join("worktrees/t");
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(yard.at(project)).unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        fs::write(own.join("HEAD"), format!("{COMMIT}\n")).unwrap();
        fs::write(own.join("gitdir"), yard.at(project).join(".git").as_os_str().as_bytes()).unwrap();
        fs::write(yard.at(project).join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
    };
    register("home/keys/repo", "one");
    refused("one", "the kernel's home");
    register("holder", "two");
    fs::create_dir_all(yard.at("holder/home")).unwrap();
    assert!(yard.outside("two").is_ok(), "the control");
    let why = Repository::open(&yard.at("two"), &yard.at("holder/home")).err().unwrap();
    assert!(why.what.contains("the kernel's home"), "{why:?}");
    register("over", "over/tree");
    refused("over/tree", "a folder that the project lies in");
}

#[test]
fn a_git_that_is_no_folder_and_no_file_is_not_looked_into() {
    let yard = Yard::new();
    let dot = yard.project().join(".git");
    let refused = || {
        let why = yard.outside("project").unwrap_err();
        assert!(why.what.starts_with("`.git` cannot be used:"), "{why:?}");
        assert_eq!(work_tree(&yard.project()), Some(yard.project()), "the tree is still its own");
        fs::remove_file(&dot).unwrap();
    };
    for target in [yard.at(".ssh"), yard.at(".ssh/config"), "/dev/zero".into(), "nowhere".into(), ".git".into()] {
        symlink(target, &dot).unwrap();
        refused();
    }
    mknodat(CWD, &dot, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    refused();
    fs::File::create(&dot).unwrap().set_len(1 << 40).unwrap();
    refused();
    for text in ["", "\n", SECRET, "gitdir:", "gitdir: \n", "gitdir: a\nb\n", "gitdir: /nowhere\n", "gitdir: \0\n"] {
        fs::write(&dot, text).unwrap();
        let why = yard.outside("project").unwrap_err();
        assert_eq!(why.what, "`.git` is a file that names no repository", "{text:?}");
    }
    fs::remove_file(&dot).unwrap();
    git(&yard.project(), &["init", "-q"]);
    assert_eq!(yard.outside("project"), Ok(None), "the control");
}

#[test]
fn a_repository_outside_with_a_pipe_in_it_is_not_shown() {
    let yard = Yard::new();
    let source = yard.at("source");
    fs::create_dir(&source).unwrap();
    git(&source, &["init", "-q", "-b", "main"]);
    git(&source, &["commit", "-q", "--allow-empty", "-m", "x"]);
    git(&source, &["worktree", "add", "-q", "../linked"]);
    let control = || assert_eq!(yard.outside("linked"), Ok(Some(source.join(".git"))), "the control");
    control();
    let refused = |name: &str| {
        let why = yard.outside("linked").unwrap_err();
        assert_eq!(why.what, format!("`{name}` of the repository is not an ordinary file"));
        fs::remove_file(source.join(".git").join(name)).unwrap();
    };
    fs::create_dir_all(source.join(".git/objects/ab")).unwrap();
    mknodat(CWD, source.join(".git/objects/ab/cd"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    refused("objects/ab/cd");
    symlink("/dev/zero", source.join(".git/info/sparse-checkout")).unwrap();
    refused("info/sparse-checkout");
    control();
}

#[test]
fn a_head_is_a_commit_or_the_name_of_one_or_nothing() {
    let yard = Yard::new();
    yard.repository("project/.git");
    yard.write("project/.git/refs/heads/main", format!("{COMMIT}\n"));
    let told = || {
        let repository = yard.open("project").unwrap();
        (repository.branch(), repository.head())
    };
    assert_eq!(told(), (Some("main".into()), Some(COMMIT.into())), "the control");
    let hostile = [
        SECRET.to_owned(),
        format!("{COMMIT}{SECRET}"),
        format!("{COMMIT}\n{SECRET}\n"),
        COMMIT.to_uppercase(),
        COMMIT[1..].to_owned(),
        "ref: HEAD".into(),
        format!("ref: {SECRET}"),
        "ref: ../../../.ssh/config".into(),
        "ref: refs/heads/../../../../.ssh/config".into(),
        "ref: /etc/passwd".into(),
        "ref: refs/heads/.hidden".into(),
        "ref: refs/heads/a b".into(),
        "ref: refs/heads/a\u{1b}[31m".into(),
        "ref: refs/heads/x.lock".into(),
        "ref: refs//heads".into(),
        "ref: refs/".into(),
        "ref: refs/heads/a@{1}".into(),
        format!("ref: refs/heads/{}", "a".repeat(2000)),
        "ref: refs/heads/main\0".into(),
        String::new(),
    ];
    for text in hostile {
        yard.write("project/.git/HEAD", &text);
        assert_eq!(told(), (None, None), "{text:?}");
    }
    yard.write("project/.git/HEAD", b"ref: refs/heads/\xff\n");
    assert_eq!(told(), (None, None));
    // References that name each other, a file, or nothing.
    yard.write("project/.git/HEAD", "ref: refs/heads/main\n");
    for text in ["ref: refs/heads/main", SECRET, "ref: ../../../.ssh/HEAD", ""] {
        yard.write("project/.git/refs/heads/main", text);
        assert_eq!(told(), (Some("main".into()), None), "{text:?}");
    }
    yard.write("project/.git/packed-refs", format!("# pack-refs\n{SECRET} refs/heads/main\n{COMMIT} refs/heads/xmain\n"));
    fs::remove_file(yard.at("project/.git/refs/heads/main")).unwrap();
    assert_eq!(told().1, None);
    yard.write("project/.git/packed-refs", format!("# pack-refs\n{COMMIT} refs/heads/main\n"));
    assert_eq!(told().1, Some(COMMIT.into()));
}

#[test]
fn no_file_of_a_repository_is_read_through_a_link_or_from_a_pipe() {
    let yard = Yard::new();
    yard.repository("project/.git");
    yard.write("commit", format!("{COMMIT}\n"));
    yard.write("config", format!("[http]\n\textraHeader = {SECRET}\n"));
    let told = || yard.open("project").unwrap().head();
    for name in ["HEAD", "refs/heads/main", "packed-refs"] {
        let file = yard.at("project/.git").join(name);
        let kept = fs::read(&file).ok();
        drop(fs::remove_file(&file));
        symlink(yard.at("commit"), &file).unwrap();
        assert_eq!(told(), None, "{name} is a link");
        fs::remove_file(&file).unwrap();
        mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(told(), None, "{name} is a pipe");
        fs::remove_file(&file).unwrap();
        if let Some(kept) = kept {
            fs::write(&file, kept).unwrap();
        }
    }
    // Git in a room would wait for what it opens by itself.
    for name in ["HEAD", "index", "packed-refs", "info/exclude", "objects/info/alternates"] {
        let file = yard.at("project/.git").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let kept = fs::read(&file).ok();
        drop(fs::remove_file(&file));
        mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let why = yard.outside("project").unwrap_err();
        assert_eq!(why.what, format!("`{name}` of the repository is not an ordinary file"));
        fs::remove_file(&file).unwrap();
        fs::File::create(&file).unwrap().set_len(1 << 40).unwrap();
        let why = yard.outside("project").unwrap_err();
        assert_eq!(why.what, format!("`{name}` of the repository is too large for git to read"));
        fs::remove_file(&file).unwrap();
        if let Some(kept) = kept {
            fs::write(&file, kept).unwrap();
        }
        assert_eq!(yard.outside("project"), Ok(None), "the control");
    }
    fs::remove_dir(yard.at("project/.git/refs/heads")).unwrap();
    fs::create_dir(yard.at("heads")).unwrap();
    yard.write("heads/main", format!("{COMMIT}\n"));
    symlink(yard.at("heads"), yard.at("project/.git/refs/heads")).unwrap();
    assert_eq!(told(), None, "a folder on the way is a link");
    // A configuration that cannot be cleaned keeps the room closed: it would be shown as it is.
    for name in ["config", "config.worktree"] {
        let file = yard.at("project/.git").join(name);
        symlink(yard.at("config"), &file).unwrap();
        let why = yard.outside("project").unwrap_err();
        assert!(why.what.contains("cannot be cleaned of credentials") && !why.what.contains(SECRET), "{why:?}");
        fs::remove_file(&file).unwrap();
        fs::File::create(&file).unwrap().set_len(1 << 40).unwrap();
        assert!(yard.outside("project").is_err());
        fs::remove_file(&file).unwrap();
        assert_eq!(yard.outside("project"), Ok(None), "the control");
    }
    yard.write("project/.git/config", format!("[core]\n\tbare = false\n[http]\n\textraHeader = {SECRET}\n"));
    let cleaned = yard.needs("project").unwrap().cleaned;
    assert_eq!(cleaned, [(yard.at("project/.git/config"), b"[core]\n\tbare = false\n[http]\n".to_vec())]);
}

#[test]
fn configurations_of_submodules_and_work_trees_are_cleaned_too() {
    let yard = Yard::new();
    yard.repository("project/.git");
    let text = format!("[core]\n\tbare = false\n[http]\n\textraHeader = {SECRET}\n");
    let inner = [
        "modules/lib/config",
        "modules/deep/er/config",
        "modules/lib/modules/x/config",
        "worktrees/w/config",
        "worktrees/w/config.worktree",
    ];
    for name in inner {
        fs::create_dir_all(yard.at("project/.git").join(name).parent().unwrap()).unwrap();
        yard.write(&format!("project/.git/{name}"), "[core]\n\tbare = false\n");
    }
    let cleaned = || yard.needs("project").unwrap().cleaned;
    assert_eq!(cleaned(), [], "the control: without credentials they stay as they are");
    for name in inner {
        yard.write(&format!("project/.git/{name}"), &text);
    }
    let mut names: Vec<PathBuf> = inner.iter().map(|name| yard.at("project/.git").join(name)).collect();
    names.sort();
    let found = cleaned();
    assert!(found.iter().all(|(_, text)| text == b"[core]\n\tbare = false\n[http]\n"), "{found:?}");
    assert_eq!(found.into_iter().map(|(path, _)| path).collect::<Vec<_>>(), names);
    let link = yard.at("project/.git/modules/lib/config");
    fs::remove_file(&link).unwrap();
    symlink("../deep/er/config", &link).unwrap();
    let why = yard.outside("project").unwrap_err();
    assert!(why.what.starts_with("`modules/lib/config` of the repository cannot be cleaned"), "{why:?}");
}

#[test]
fn a_repository_of_another_user_is_not_shown() {
    let yard = Yard::new();
    yard.repository("other");
    yard.write("other/config", format!("[core]\n\tworktree = {}\n", yard.project().display()));
    yard.write("project/.git", format!("gitdir: {}\n", yard.at("other").display()));
    assert_eq!(yard.outside("project"), Ok(Some(yard.at("other"))), "the control");
    // Only root can give files away; everybody else meets such a repository ready made.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let give = |name: &str, to: u32| std::os::unix::fs::chown(yard.at(name), Some(to), Some(to)).unwrap();
    give("other", 12_345);
    assert!(yard.outside("project").unwrap_err().what.contains("of another user"));
    give("project", 12_345);
    assert_eq!(yard.outside("project"), Ok(Some(yard.at("other"))), "root in a project and a repository of one user");
}

#[test]
fn configurations_of_repositories_in_folders_are_cleaned_too() {
    let yard = Yard::new();
    yard.repository("project/.git");
    yard.repository("project/lib/.git");
    let embedded: BTreeSet<PathBuf> = ["lib/.git/config".into(), "gone/config".into()].into();
    let needs = || yard.open("project").unwrap().needs(&yard.project(), &embedded);
    yard.write("project/lib/.git/config", "[core]\n\tbare = false\n");
    assert_eq!(needs().unwrap().cleaned, [], "the control");
    yard.write("project/lib/.git/config", format!("[remote \"o\"]\n\turl = https://me:{SECRET}@host/x.git\n"));
    let clean = b"[remote \"o\"]\n\turl = https://host/x.git\n".to_vec();
    assert_eq!(needs().unwrap().cleaned, [(yard.at("project/lib/.git/config"), clean)]);
    fs::File::create(yard.at("project/lib/.git/config")).unwrap().set_len(1 << 40).unwrap();
    assert!(needs().unwrap_err().what.contains("cannot be cleaned of credentials"));
}

#[test]
fn credentials_leave_a_config_and_nothing_else_does() {
    let clean = |text: &[u8]| String::from_utf8_lossy(&config::without_credentials(text)).into_owned();
    let plain = "[core]\n\tbare = false\n[remote \"o\"]\n\turl = ssh://git@host/x.git\n\turl = git@host:x.git\n";
    assert_eq!(clean(plain.as_bytes()), plain);
    let held = "[remote \"o\"]\n\turl = https://me:s3cret@host/x.git\n[http]\n\textraHeader = Authorization: Basic abc\n\tproxy = none\n";
    assert_eq!(clean(held.as_bytes()), "[remote \"o\"]\n\turl = https://host/x.git\n[http]\n\tproxy = none\n");
    let two = "[url \"https://me:s3cret@host/\"]\n\tinsteadOf = https://you:s3cret@other/ https://x@y/\n";
    assert_eq!(clean(two.as_bytes()), "[url \"https://host/\"]\n\tinsteadOf = https://other/ https://y/\n");
    let words =
        "[sendemail]\n\tsmtpPass = s3cret\n[credential]\n\thelper = \"!echo password=s3cret\"\n[core]\n\tsshCommand = sshpass -p s3cret\n";
    assert_eq!(clean(words.as_bytes()), "[sendemail]\n[credential]\n[core]\n");
    let long = "[http]\n\textraHeader = \\\n\t\tBasic \\\r\n\t\ts3cret\n\tproxy = \\\n\t\tnone\n";
    assert_eq!(clean(long.as_bytes()), "[http]\n\tproxy = \\\n\t\tnone\n");
    let bytes = b"[user]\n\tname = \xff\n[http]\n\ttoken = x\n";
    assert_eq!(config::without_credentials(bytes), b"[user]\n\tname = \xff\n[http]\n");
}

#[test]
fn a_work_tree_is_read_as_git_writes_it() {
    let read = |text: &str| config::work_tree(text.as_bytes()).map(|path| String::from_utf8(path).unwrap());
    assert_eq!(
        read("[core]\n\tbare = false\n\tworktree = ../../../sub\n[remote \"o\"]\n\tworktree = no\n").as_deref(),
        Some("../../../sub")
    );
    assert_eq!(read("[core]\n\tworktree = \"/a \\\"b\\\"\"\n").as_deref(), Some("/a \"b\""));
    assert_eq!(read("[remote \"core\"]\n\tworktree = no\n"), None);
    assert_eq!(read("worktree = no\n[core]\n"), None);
}
