//! Projects whose own files are links, pipes, devices or without end: the kernel answers, shows nothing of them, and stops when told to.

use crate::common::Site;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

const SECRET: &str = "correct-horse-battery-staple";

/// Everything that can stand at a file's place and is no file.
const KINDS: &[&str] = &["pipe", "secret", "endless", "dangling", "round", "folder", "socket", "sparse"];

fn site() -> Site {
    let site = Site::new(&[("a.txt", "hello\n")]);
    fs::create_dir(site.folder.path().join("private")).unwrap();
    fs::write(site.folder.path().join("private/config"), format!("token {SECRET}\n")).unwrap();
    site
}

fn put(site: &Site, name: &str, kind: &str) {
    let path = site.project().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        fs::remove_dir_all(&path).unwrap();
    } else {
        drop(fs::remove_file(&path));
    }
    match kind {
        "pipe" => mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
        "secret" => symlink(site.folder.path().join("private/config"), &path).unwrap(),
        "endless" => symlink("/dev/zero", &path).unwrap(),
        "dangling" => symlink("nowhere", &path).unwrap(),
        "round" => symlink(path.file_name().unwrap(), &path).unwrap(),
        "folder" => fs::create_dir(&path).unwrap(),
        "socket" => drop(std::os::unix::net::UnixListener::bind(&path).unwrap()),
        "sparse" => fs::File::create(&path).unwrap().set_len(1 << 40).unwrap(),
        text => fs::write(&path, text).unwrap(),
    }
}

/// What may be told of any of them: never what a link led to.
#[track_caller]
fn refused(site: &Site, code: i32, arguments: &[&str], part: &str) {
    let told = site.fails(code, arguments);
    assert!(told.contains(part), "`{part}` is not said in:\n{told}");
    assert!(!told.contains(SECRET), "{told}");
}

#[test]
fn proposals_are_ordinary_files_or_refused() {
    let site = site();
    site.ok(&["init"]);
    for name in ["skep.yml", ".skep/policy.yaml", ".skep/rules/own.ts"] {
        let before = fs::read_to_string(site.project().join(name)).unwrap_or_default();
        for kind in KINDS {
            put(&site, name, kind);
            refused(&site, 2, &["trust"], &format!("`{name}` is not an ordinary file"));
            // The rest goes on, under the policy in force.
            site.ok(&["status"]);
            site.ok(&["call", "fs.read", "path=a.txt"]);
        }
        if before.is_empty() {
            fs::remove_file(site.project().join(name)).unwrap();
        } else {
            put(&site, name, &before);
        }
        site.ok(&["trust"]);
    }
    // The folder they lie in.
    fs::rename(site.project().join(".skep"), site.folder.path().join("elsewhere")).unwrap();
    symlink(site.folder.path().join("elsewhere"), site.project().join(".skep")).unwrap();
    refused(&site, 2, &["trust"], "a link or another file system is on the way to it");
    assert!(!format!("{:?}", site.records(&[])).contains(SECRET));
}

#[test]
fn the_command_reads_a_project_s_rules_as_carefully() {
    let site = site();
    site.ok(&["init"]);
    let before = site.read(".skep/policy.yaml");
    for kind in KINDS {
        put(&site, ".skep/policy.yaml", kind);
        let told = crate::common::text(&site.skep(&["policy", "check"]));
        assert!(told.contains("cannot read `.skep/policy.yaml`") && !told.contains(SECRET), "{kind}: {told}");
    }
    put(&site, ".skep/policy.yaml", &before);
    site.ok(&["policy", "check"]);
}

#[test]
fn a_script_that_a_project_names_is_a_file_of_it() {
    let site = site();
    site.ok(&["init"]);
    let config = site.read("skep.yml");
    let trust = |brain: &str| {
        site.write("skep.yml", &format!("{config}\nbrain: 'script:{brain}'\n"));
        site.trust();
    };
    trust("brain.skep");
    put(&site, "brain.skep", "say hello\ndone\n");
    site.ok(&["act", "x", "--await"]);
    for kind in KINDS {
        put(&site, "brain.skep", kind);
        refused(&site, 5, &["act", "x"], "cannot read the script");
    }
    fs::remove_file(site.project().join("brain.skep")).unwrap();
    for outside in ["../private/config", &format!("{}/private/config", site.folder.path().display()), ".env"] {
        site.write(".env", &format!("{SECRET}\n"));
        trust(outside);
        refused(&site, 5, &["act", "x"], "cannot read the script");
    }
    // The operator may name any file of their own.
    let own = site.script("say hello\ndone\n");
    site.ok(&["act", "x", "--await", "--brain", &own]);
    assert!(!format!("{:?}", site.records(&[])).contains(SECRET));
}

/// `.git` as a file that leads elsewhere: no room shows what it names.
#[test]
fn a_room_shows_no_folder_that_a_git_file_names() {
    let site = site();
    site.ok(&["init"]);
    let real = site.folder.path().join("real.git");
    fs::rename(site.project().join(".git"), &real).unwrap();
    let home = site.home();
    let list = |folder: &Path| {
        let command = format!("command={}", serde_json::json!(["ls", folder]));
        site.skep(&["call", "shell.run", &command])
    };
    for folder in [site.folder.path().join("private"), home.clone(), home.join("keys"), site.folder.path().to_owned(), real.clone()] {
        fs::write(site.project().join(".git"), format!("gitdir: {}\n", folder.display())).unwrap();
        let told = crate::common::text(&list(&folder));
        assert!(told.contains("`.git` names a"), "{told}");
        fs::remove_file(site.project().join(".git")).unwrap();
    }
    for kind in KINDS.iter().filter(|kind| **kind != "folder") {
        put(&site, ".git", kind);
        let why = if *kind == "endless" { "`.git` leads to `/dev/zero`" } else { "`.git` cannot be used" };
        refused(&site, 12, &["call", "shell.run", "command=[\"ls\"]"], why);
        site.ok(&["status"]);
        fs::remove_file(site.project().join(".git")).unwrap();
    }
    // The control: the same repository once it names the project as its work tree.
    fs::write(site.project().join(".git"), format!("gitdir: {}\n", real.display())).unwrap();
    fs::write(real.join("config"), format!("[core]\n\tworktree = {}\n", site.project().display())).unwrap();
    let listed = list(&real);
    assert!(listed.status.success() && crate::common::text(&listed).contains("objects"), "{}", crate::common::text(&listed));
    let text = crate::common::text(&list(&site.folder.path().join("private")));
    assert!(text.contains("No such file"), "{text}");
    // Who may read nothing of the project sees nothing of its repository, wherever that lies.
    site.write(".skep/policy.yaml", "capabilities:\n  - { name: run, match: { syscall: shell.run }, action: allow }\n");
    let told = site.trust();
    assert!(told.contains("no rule lets this project's brains read a file"), "{told}");
    let text = crate::common::text(&list(&real));
    assert!(text.contains("No such file"), "{text}");
}

/// Nothing of HEAD goes anywhere but a commit or a branch.
#[test]
fn a_head_that_leads_elsewhere_is_none() {
    let site = site();
    for kind in KINDS.iter().copied().chain([SECRET, "ref: ../../private/config\n"]) {
        put(&site, ".git/HEAD", kind);
        site.ok(&["init"]);
        let shown = site.json(&["status"]);
        assert!(!shown.to_string().contains(SECRET) && shown.to_string().contains("\"branch\":\"?\""), "{kind}: {shown}");
    }
    put(&site, ".git/HEAD", "ref: refs/heads/main\n");
    assert!(site.json(&["status"]).to_string().contains("\"branch\":\"main\""));
    assert!(!format!("{:?}", site.records(&[])).contains(SECRET));
}

/// A kernel that looks at such a project ends when it is told to.
#[test]
fn a_signal_ends_the_kernel_meanwhile() {
    let site = site();
    site.ok(&["init"]);
    site.ok(&["kernel", "stop"]);
    let mut kernel = site.kernel(None);
    let mut waiting = Vec::new();
    for name in [".git/HEAD", "skep.yml", ".skep/policy.yaml"] {
        put(&site, name, "pipe");
        waiting.extend([["status"], ["trust"]].map(|arguments| site.command(&arguments).spawn().unwrap()));
    }
    let id = rustix::process::Pid::from_child(&kernel);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert!(kernel.wait().unwrap().success());
    for mut command in waiting {
        // Whatever it was told, by this kernel or by one that it started itself, it was told something.
        command.wait().unwrap();
    }
}

/// Git opens some names by itself. A pipe there is covered, so that git goes on at once; the control is the same task without pipes.
#[test]
fn pipes_where_git_reads_keep_no_task_waiting() {
    for has_pipes in [false, true] {
        let site = Site::new(&[("a.txt", "one\n"), ("sub/b.txt", "two\n"), ("kept.log", "x\n"), (".gitignore", "*.log\n")]);
        if has_pipes {
            let pipe = |name: &str| {
                let path = site.project().join(name);
                drop(std::fs::remove_file(&path));
                assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
            };
            ["sub/.gitignore", "sub/.gitattributes", "far.pipe", ".gitmodules"].into_iter().for_each(pipe);
            drop(std::fs::remove_file(site.project().join(".git/info/exclude")));
            std::os::unix::fs::symlink("../../far.pipe", site.project().join(".git/info/exclude")).unwrap();
        }
        site.ok(&["init"]);
        // The task's own layer gets a pipe too, where git would look for what is ignored.
        let made = if has_pipes { "; mkdir new; mkfifo new/.gitignore" } else { "" };
        let command = format!("echo three > a.txt; echo four > sub/c.txt{made}");
        let brain = site.script(&format!("call shell.run command={}\ndone\n", serde_json::json!(["sh", "-c", command])));
        site.skep(&["act", "write", "--brain", &brain, "--await"]);
        let shown = site.ok(&["diff", "task-1", "--text"]);
        assert!(shown.contains("+three") && shown.contains("sub/c.txt"), "{shown}");
        site.ok(&["merge", "task-1", "--yes"]);
        assert_eq!((site.read("a.txt"), site.read("sub/c.txt")), ("three\n".to_owned(), "four\n".to_owned()));
        let records = site.records(&[]);
        assert!(records.iter().any(|record| record["type"] == "workspace.based"), "git has looked through the project");
    }
}

/// A link of git's that leads to a device can not be covered: the work is refused at once, and says which.
#[test]
fn a_link_of_gits_to_a_device_is_named() {
    let site = Site::new(&[("a.txt", "one\n")]);
    site.ok(&["init"]);
    let link = site.project().join(".git/info/grafts");
    std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
    let run = || crate::common::text(&site.skep(&["sandbox", "run", "--discard", "--", "echo", "ran"]));
    let refused = run();
    assert!(refused.contains("`.git/info/grafts` leads to `/dev/zero`") && !refused.contains("ran\n"), "{refused}");
    std::fs::remove_file(&link).unwrap();
    assert!(run().contains("ran"), "the control");
}

/// A commit that was dropped is still in git's store: its masked files are named like those of the history.
#[test]
fn masked_files_of_a_dropped_commit_are_named() {
    let site = Site::new(&[("a.txt", "a\n")]);
    site.write("private/dropped.txt", "SECRET\n");
    site.write("shown/dropped.txt", "open\n");
    site.git(&["add", "-A"]);
    site.git(&["commit", "-q", "-m", "by mistake"]);
    site.git(&["reset", "-q", "--hard", "HEAD~1"]);
    site.git(&["reflog", "expire", "--expire=now", "--all"]);
    site.ok(&["init"]);
    let rule = "\n  - {name: private, match: {syscall: fs.read, path_glob: '/private/**'}, action: deny}\n";
    site.write(".skep/policy.yaml", &format!("{}{rule}", site.read(".skep/policy.yaml")));
    let said = crate::common::text(&site.skep(&["trust", "--yes"]));
    assert!(said.contains("gives away the masked file `private/dropped.txt`") && !said.contains("shown/dropped.txt"), "{said}");
}

#[test]
fn a_repository_in_a_folder_shows_no_credentials_to_rooms() {
    let site = site();
    let lib = site.project().join("lib");
    fs::create_dir(&lib).unwrap();
    site.git(&["-C", "lib", "init", "-q"]);
    let plain = "[core]\n\tbare = false\n\tlogAllRefUpdates = true\n";
    fs::write(lib.join(".git/config"), format!("{plain}[remote \"o\"]\n\turl = https://me:{SECRET}@host/x.git\n")).unwrap();
    fs::create_dir_all(site.project().join("bare.git/objects")).unwrap();
    fs::write(site.project().join("bare.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(site.project().join("bare.git/config"), format!("[http]\n\textraHeader = \\\n\t\tBasic {SECRET}\n\tproxy = none\n")).unwrap();
    site.ok(&["init"]);
    let shown = site.ok(&["sandbox", "run", "--discard", "--", "cat", "lib/.git/config", "bare.git/config"]);
    assert_eq!(shown, format!("{plain}[remote \"o\"]\n\turl = https://host/x.git\n[http]\n\tproxy = none\n"));
    // The control: git works there, and the person's own files are as they were.
    assert_eq!(site.ok(&["sandbox", "run", "--discard", "--", "git", "-C", "lib", "rev-parse", "--is-inside-work-tree"]), "true\n");
    assert!(fs::read_to_string(lib.join(".git/config")).unwrap().contains(SECRET));
}

#[test]
fn programs_of_a_submodule_do_not_run_where_the_kernel_asks_git() {
    let site = site();
    let lib = site.project().join("lib");
    fs::create_dir(&lib).unwrap();
    site.git(&["-C", "lib", "init", "-q"]);
    fs::write(lib.join("b.txt"), "b\n").unwrap();
    site.git(&["-C", "lib", "add", "b.txt"]);
    site.git(&["-C", "lib", "commit", "-q", "-m", "b"]);
    site.git(&["add", "lib"]);
    site.git(&["commit", "-q", "-m", "a submodule"]);
    // A monitor that says where it ran: in the room's own folder of the project, which a job sees.
    let monitor = "#!/bin/sh\necho ran > ../ran.txt\n";
    fs::write(lib.join(".git/monitor"), monitor).unwrap();
    fs::set_permissions(lib.join(".git/monitor"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    site.git(&["-C", "lib", "config", "core.fsmonitor", ".git/monitor"]);
    site.ok(&["init"]);
    let brain = site.script("call shell.run command=[\"sh\",\"-c\",\"echo b > b.txt; sleep 1; ls\"]\ndone\n");
    site.ok(&["act", "write", "--brain", &brain, "--await"]);
    let diff = site.ok(&["diff", "task-1"]);
    assert!(diff.contains("b.txt") && !diff.contains("ran.txt"), "{diff}");
    // The control: a job that asks git itself runs it, in the room.
    let shown = site.ok(&["sandbox", "run", "--discard", "--", "sh", "-c", "git -C lib status --short >/dev/null; cat ran.txt"]);
    assert_eq!(shown, "ran\n");
}

#[test]
fn what_git_s_store_holds_without_a_name_is_told() {
    let site = site();
    let policy = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow}\n\
        - {name: no, match: {syscall: fs.read, path_glob: /private/**}, action: deny}\n";
    site.write(".skep/policy.yaml", policy);
    site.write("private/x.txt", SECRET);
    site.trust();
    let told = || site.ok(&["policy", "check"]);
    assert!(!told().contains("git's store"), "the control: {}", told());
    // Added by mistake and taken back: no commit, no reflog and no index names it, and `git cat-file` prints it.
    site.git(&["add", "private/x.txt"]);
    assert!(told().contains("git's store gives away the masked file `private/x.txt` (rule `no`"), "{}", told());
    site.git(&["rm", "-q", "--cached", "private/x.txt"]);
    let gone = "git's store gives away the masked file `private/x.txt`, though no commit names it";
    assert!(told().contains(gone), "{}", told());
    // With another text, nothing tells whose it was.
    site.write("private/x.txt", "another");
    assert!(!told().contains(gone) && told().contains("git's store gives away 1 contents that no commit"), "{}", told());
    // A commit that no reference leads to names its files.
    site.git(&["add", "private/x.txt"]);
    site.git(&["commit", "-q", "-m", "by mistake"]);
    site.git(&["reset", "-q", "--soft", "HEAD~1"]);
    site.git(&["rm", "-q", "--cached", "private/x.txt"]);
    site.git(&["reflog", "expire", "--expire=now", "--all"]);
    assert!(told().contains("git's store gives away the masked file `private/x.txt` (rule `no`"), "{}", told());
    site.git(&["prune", "--expire=now"]);
    assert!(!told().contains("git's store"), "{}", told());
}
