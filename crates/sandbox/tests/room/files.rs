//! What becomes of files: the project stays as it was, and Changes say what a job made of it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use sandbox::{Act, Change, ChangeKind, FileKind, JobSpec, SandboxError, Workspace, WorkspaceSpec};

use super::host::{Host, Test, text};

pub const TESTS: &[Test] = &[
    ("a_read_sees_the_write", a_read_sees_the_write),
    ("write_makes_and_replaces", write_makes_and_replaces),
    ("write_stays_in_the_project", write_stays_in_the_project),
    ("delete_and_move_change_the_overlay_only", delete_and_move_change_the_overlay_only),
    ("delete_and_move_stay_in_the_project", delete_and_move_stay_in_the_project),
    ("foreign_files_are_refused", foreign_files_are_refused),
    ("changes_are_complete", changes_are_complete),
    ("changes_refuse_what_must_not_merge", changes_refuse_what_must_not_merge),
    ("a_workspace_opens_again", a_workspace_opens_again),
    ("projects_that_cannot_be", projects_that_cannot_be),
    ("a_sweep_spares_strangers", a_sweep_spares_strangers),
];

fn write(host: &Host, workspace: &Workspace, path: &str, content: &[u8]) -> Result<(), SandboxError> {
    host.block_on(workspace.run(JobSpec::write(path), Some(content.to_vec()))).map(|outcome| assert!(outcome.exit.success()))
}

fn read(workspace: &Workspace, path: &str) -> String {
    let file = rustix::fs::openat(workspace.root(), path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
    std::io::read_to_string(fs::File::from(file)).unwrap()
}

fn a_read_sees_the_write(host: &Host) {
    host.write("file", "old");
    let workspace = host.open();
    assert_eq!(read(&workspace, "file"), "old");
    host.sh(&workspace, "printf new > file; mkdir d; printf made > d/e");
    assert_eq!((read(&workspace, "file"), read(&workspace, "d/e")), ("new".into(), "made".into()));
    write(host, &workspace, "d/e", b"again").unwrap();
    assert_eq!(read(&workspace, "d/e"), "again");
    host.sh(&workspace, "rm file");
    assert!(rustix::fs::statat(workspace.root(), "file", rustix::fs::AtFlags::empty()).is_err());
    // The project knows nothing of it.
    let names: Vec<_> = fs::read_dir(host.project()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["file"]);
    assert_eq!(fs::read_to_string(host.project().join("file")).unwrap(), "old");
}

fn delete(host: &Host, workspace: &Workspace, path: &str) -> Result<(), SandboxError> {
    host.run(workspace, JobSpec::new(Act::Delete { path: path.into() })).map(|outcome| assert!(outcome.exit.success()))
}

fn rename(host: &Host, workspace: &Workspace, from: &str, to: &str) -> Result<(), SandboxError> {
    host.run(workspace, JobSpec::new(Act::Move { from: from.into(), to: to.into() })).map(|outcome| assert!(outcome.exit.success()))
}

fn delete_and_move_change_the_overlay_only(host: &Host) {
    for (name, content) in [("old", "1"), ("kept", "2"), ("full/a", "3"), ("target", "4")] {
        host.write(name, content);
    }
    symlink("target", host.project().join("link")).unwrap();
    let workspace = host.open();
    delete(host, &workspace, "old").unwrap();
    delete(host, &workspace, "link").unwrap();
    rename(host, &workspace, "kept", "new/folder/kept").unwrap();
    delete(host, &workspace, "full/a").unwrap();
    delete(host, &workspace, "full").unwrap();
    assert_eq!(text(&host.sh(&workspace, "find . -type f -o -type l | sort; cat new/folder/kept")), "./new/folder/kept\n./target\n2");
    let mut names: Vec<_> = fs::read_dir(host.project()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["full", "kept", "link", "old", "target"]);
}

fn delete_and_move_stay_in_the_project(host: &Host) {
    for (name, content) in [("a", "1"), ("b", "2"), ("full/x", "3")] {
        host.write(name, content);
    }
    let workspace = host.open();
    host.sh(&workspace, "ln -s /tmp out; ln -s full inside; touch /tmp/victim");
    let why = |result: Result<(), SandboxError>| match result {
        Err(SandboxError::Delete { cause, .. } | SandboxError::Move { cause, .. }) => cause.raw_os_error(),
        other => panic!("{other:?}"),
    };
    for path in ["out/victim", "inside/x"] {
        assert_eq!(why(delete(host, &workspace, path)), Some(40), "{path}: ELOOP");
        assert_eq!(why(rename(host, &workspace, path, "here")), Some(40), "{path}");
        assert_eq!(why(rename(host, &workspace, "a", path)), Some(40), "{path}");
    }
    for path in ["../a", "/etc/passwd", "", "full/../a"] {
        assert_eq!(why(delete(host, &workspace, path)), Some(22), "{path}: EINVAL");
        assert_eq!(why(rename(host, &workspace, "a", path)), Some(22), "{path}");
    }
    assert_eq!(why(rename(host, &workspace, "a", "b")), Some(17), "EEXIST: nothing is replaced");
    assert_eq!(why(delete(host, &workspace, "full")), Some(39), "ENOTEMPTY");
    assert_eq!(why(delete(host, &workspace, "none/x")), Some(2), "ENOENT, and no folder is made");
    assert_eq!(text(&host.sh(&workspace, "cat a b full/x; ls -d none 2>/dev/null | wc -l")), "1230");
}

fn write_makes_and_replaces(host: &Host) {
    host.write("script", "#!/bin/sh\n");
    fs::set_permissions(host.project().join("script"), fs::Permissions::from_mode(0o750)).unwrap();
    let workspace = host.open();
    let big: Vec<u8> = (0..2_000_000_u32).map(|n| (n % 251) as u8).collect();
    write(host, &workspace, "a/b/c/big", &big).unwrap();
    write(host, &workspace, "script", b"#!/bin/sh\necho new\n").unwrap();
    let modes = host.sh(&workspace, "stat -c '%a %u' script a/b/c/big a/b; id -u; wc -c < a/b/c/big; ./script; ls -A a/b/c");
    let seen = text(&modes);
    let uid = seen.lines().nth(3).unwrap().to_owned();
    assert_eq!(seen, format!("750 {uid}\n644 {uid}\n755 {uid}\n{uid}\n2000000\nnew\nbig"));
    let secret = JobSpec::new(Act::Write { path: "secret".into(), mode: Some(0o600) });
    host.block_on(workspace.run(secret, Some(Vec::new()))).unwrap();
    assert_eq!(text(&host.sh(&workspace, "stat -c %a.%s secret")), "600.0");
}

fn write_stays_in_the_project(host: &Host) {
    host.write("inside/file", "");
    let outside = host.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, host.project().join("away")).unwrap();
    symlink("inside", host.project().join("near")).unwrap();
    symlink("inside/file", host.project().join("name")).unwrap();
    let workspace = host.open();
    let mut elsewhere = JobSpec::write("top");
    elsewhere.cwd = "inside".into();
    host.block_on(workspace.run(elsewhere, Some(Vec::new()))).unwrap();
    assert_eq!(text(&host.sh(&workspace, "ls -d top")), "top");
    let errno = |path: &str| match write(host, &workspace, path, b"x") {
        Ok(()) => 0,
        Err(SandboxError::Write { cause, .. }) => cause.raw_os_error().unwrap(),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(errno("away/x"), libc::ELOOP);
    assert_eq!(errno("../x"), libc::EINVAL);
    assert_eq!(errno("/tmp/x"), libc::EINVAL);
    assert_eq!(errno("inside/../../x"), libc::EINVAL);
    assert_eq!(errno(""), libc::EINVAL);
    assert_eq!(errno("name"), libc::ELOOP);
    assert_eq!(errno("inside"), libc::EISDIR);
    assert_eq!(errno("inside/file/x"), libc::ENOTDIR);
    // A link inside the project is no way either: the caller names real paths.
    assert_eq!(errno("near/x"), libc::ELOOP);
    assert_eq!(errno("inside/x"), 0);
    assert_eq!(text(&host.sh(&workspace, "ls inside")), "file\nx");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

fn foreign_files_are_refused(host: &Host) {
    let spec = WorkspaceSpec::new(host.foreign_project(), host.work("foreign"));
    let workspace = host.open_with(spec).unwrap();
    assert_eq!(text(&host.sh(&workspace, "cat file")), "of somebody else");
    let refused = write(host, &workspace, "file", b"mine");
    assert!(matches!(&refused, Err(SandboxError::ForeignOwner { path }) if path.as_os_str() == "file"), "{refused:?}");
    assert!(!host.sh(&workspace, "echo mine > file").exit.success());
    write(host, &workspace, "own", b"mine").unwrap();
    assert_eq!(read(&workspace, "own"), "mine");
}

fn show(change: &Change) -> String {
    let kind = match change.kind {
        ChangeKind::Created => "+",
        ChangeKind::Deleted => "-",
        ChangeKind::Modified => "~",
        ChangeKind::ModeChanged => "m",
    };
    let file = match &change.file {
        FileKind::File => format!("file {:o} {}", change.mode, change.size),
        FileKind::Folder => format!("folder {:o}", change.mode),
        FileKind::Symlink { target } => format!("link {}", target.display()),
        FileKind::Special => "special".to_owned(),
    };
    format!("{kind} {} {file}", change.path.display())
}

fn changes_are_complete(host: &Host) {
    for name in ["kept", "touched", "edited", "grown", "moded", "gone", "old/a", "old/b/c", "again/x", "again/y", "turns", "deep/er/f"] {
        host.write(name, name);
    }
    symlink("kept", host.project().join("link")).unwrap();
    symlink("/etc/passwd", host.project().join("absolute-of-old")).unwrap();
    let workspace = host.open();
    assert_eq!(host.block_on(workspace.changes()).unwrap(), sandbox::Changes::default());
    let outcome = host.sh(
        &workspace,
        "touch touched; printf EDITED > edited; echo more >> grown; chmod 755 moded; rm gone; rm -r old; \
         rm -r again && mkdir again && printf x2 > again/x && printf new > again/z; \
         rm turns && mkdir turns && echo > turns/inner; ln -sfn edited link; ln -s ../kept deep/up; touch -h absolute-of-old; \
         mkdir -p new/empty; printf n > 'new/odd name'; printf q > $(printf 'new/\\377'); echo tmp > .skep-write-1; chmod 700 deep/er",
    );
    assert!(outcome.exit.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    let found = host.block_on(workspace.changes()).unwrap();
    let shown: Vec<String> = found.changes.iter().map(show).collect();
    assert_eq!(
        shown,
        [
            "~ again/x file 644 2",
            "- again/y file 644 7",
            "+ again/z file 644 3",
            "m deep/er folder 700",
            "+ deep/up link ../kept",
            "~ edited file 644 6",
            "- gone file 644 4",
            "~ grown file 644 10",
            "~ link link edited",
            "m moded file 755 5",
            "+ new folder 755",
            "+ new/empty folder 755",
            "+ new/odd name file 644 1",
            "+ new/\u{fffd} file 644 1",
            "- old folder 755",
            "- old/a file 644 5",
            "- old/b folder 755",
            "- old/b/c file 644 7",
            "- turns file 644 5",
            "+ turns folder 755",
            "+ turns/inner file 644 1",
        ]
    );
    assert_eq!(found.refused, []);
    assert_eq!(found, sandbox::changes(&host.project(), workspace.work()).unwrap());
}

fn changes_refuse_what_must_not_merge(host: &Host) {
    host.write(".git/config", "[core]\n");
    host.write("sub/.skep/policy", "");
    let workspace = host.open();
    let outcome = host.sh(
        &workspace,
        "echo hook > .git/hooks; rm sub/.skep/policy; mkdir -p x/.git && echo > x/.git/config; mkfifo pipe; \
         echo > suid; chmod u+s suid; ln -s /etc/shadow abs; ln -s ../../x esc; printf fine > fine; echo > x/fine",
    );
    assert!(outcome.exit.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    // Deeper than anyone means it.
    assert!(host.sh(&workspace, "i=0; while [ $i -lt 300 ]; do mkdir d && cd d && i=$((i+1)); done; echo > bottom").exit.success());
    let found = host.block_on(workspace.changes()).unwrap();
    let refused: Vec<String> = found.refused.iter().map(|refused| refused.path.display().to_string()).collect();
    let deep = refused.iter().find(|path| path.starts_with("d/")).cloned().unwrap();
    assert_eq!(refused, [".git", "abs", &deep, "esc", "pipe", "sub/.skep", "suid", "x/.git"]);
    let changed: Vec<PathBuf> = found.changes.iter().map(|change| change.path.clone()).filter(|path| !path.starts_with("d")).collect();
    assert_eq!(changed, ["fine", "x", "x/fine"].map(PathBuf::from));
}

fn a_workspace_opens_again(host: &Host) {
    host.write("file", "base");
    let workspace = host.open();
    host.sh(&workspace, "echo kept > new; rm file; mkdir -m 000 locked");
    let before = host.block_on(workspace.changes()).unwrap();
    host.block_on(workspace.close()).unwrap();
    let workspace = host.open();
    assert_eq!(text(&host.sh(&workspace, "cat new; ls")), "kept\nlocked\nnew");
    assert_eq!(host.block_on(workspace.changes()).unwrap(), before);
    host.block_on(workspace.close()).unwrap();
    // The last holder is gone, so there is nothing to kill, and folders without permissions are no obstacle.
    let mut swept = sandbox::sweep(&[host.work("t1")], |_| false);
    // Groups of other users' kernels that died a moment ago are not this one's to remove.
    swept.left.retain(|(path, _)| path.starts_with(host.folder.path()));
    assert_eq!((swept.killed, swept.directories, swept.left), (0, 1, vec![]));
    assert!(!host.work("t1").exists());
    assert_eq!(fs::read_to_string(host.project().join("file")).unwrap(), "base");
}

fn projects_that_cannot_be(host: &Host) {
    symlink(host.project(), host.folder.path().join("alias")).unwrap();
    let open = |project: PathBuf| host.open_with(WorkspaceSpec::new(project, host.work("no")));
    for project in ["/", "/usr", "/etc", "/proc/sys", "/tmp", "relative"] {
        assert!(open(project.into()).is_err(), "{project}");
    }
    assert!(matches!(open(host.folder.path().join("alias")), Err(SandboxError::Project { .. })));
    // The workspace inside its own project: the kernel would overlay a tree with itself.
    let inside = host.open_with(WorkspaceSpec::new(host.project(), host.project().join("work")));
    assert!(matches!(inside, Err(SandboxError::Project { .. })), "{inside:?}");
    assert!(!host.project().join("work").exists());
    let odd = host.folder.path().join("odd, name:with=\\ things");
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("file"), "odd").unwrap();
    if host.engine.is_some() {
        assert!(matches!(open(odd), Err(SandboxError::Project { .. })), "an engine would take the colon for its own");
        return;
    }
    let workspace = open(odd.clone()).unwrap();
    assert_eq!(text(&host.sh(&workspace, "cat file; pwd")), format!("odd{}", odd.display()));
}

fn a_sweep_spares_strangers(host: &Host) {
    let workspace = host.open();
    let noted = fs::read_to_string(workspace.work().join("holder")).unwrap();
    assert!(noted.contains(&workspace.holder_pid().unwrap().to_string()));
    // The same pid with another start time is a stranger.
    let other = host.work("other");
    fs::create_dir_all(&other).unwrap();
    let start = noted.split("\"start\":").nth(1).unwrap().split(',').next().unwrap();
    fs::write(other.join("holder"), noted.replace(start, "1")).unwrap();
    assert_eq!(sandbox::sweep(&[other], |_| true).killed, 0);
    assert!(host.sh(&workspace, "true").exit.success());
    // The very process is ended.
    assert_eq!(sandbox::sweep(&[workspace.work().to_owned()], |_| true).killed, 1);
    assert!(host.run(&workspace, JobSpec::exec(["true"])).is_err());
    assert_eq!(fs::metadata(host.project()).unwrap().mode() & 0o777, 0o755);
    if host.root {
        // Groups of a kernel that is no more go, those of one that runs stay.
        let parent = super::run::memory_group(host);
        // No process has this number.
        let gone = 1_000_000_000 + std::process::id();
        let dead = parent.join(format!("skep-{gone}-1-1"));
        fs::create_dir(&dead).unwrap();
        let own = format!("skep-{}-{}-77", std::process::id(), start_time());
        fs::create_dir(parent.join(&own)).unwrap();
        // One that is not empty, in each version: whoever is in it is ended first.
        let unified = fs::read("/proc/self/mounts").unwrap();
        let unified = String::from_utf8_lossy(&unified);
        let unified = unified.lines().find(|line| line.contains(" cgroup2 ")).and_then(|line| line.split(' ').nth(1));
        let mut orphans = Vec::new();
        for group in [dead.clone()].into_iter().chain(unified.map(|mount| Path::new(mount).join(format!("skep-{gone}-1-2")))) {
            let orphan = std::process::Command::new("sleep").arg("60").spawn().unwrap();
            // Every kernel that starts on this host sweeps too, and may take the group away while it is empty.
            let enter = || fs::create_dir_all(&group).and_then(|()| fs::write(group.join("cgroup.procs"), orphan.id().to_string()));
            while let Err(error) = enter() {
                assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{}", group.display());
            }
            orphans.push((orphan, group));
        }
        // Buried while the sweep waits for them, as init buries real orphans.
        let swept = std::thread::spawn(|| sandbox::sweep(&[], |_| true));
        for (orphan, group) in &mut orphans {
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&orphan.wait().unwrap()), Some(libc::SIGKILL), "{}", group.display());
        }
        // Whatever else is on its way out on this host belongs to others.
        let left = swept.join().unwrap().left.into_iter().filter(|(path, _)| orphans.iter().any(|(_, group)| path == group));
        assert_eq!(left.collect::<Vec<_>>(), []);
        assert!(orphans.iter().all(|(_, group)| !group.exists()));
        assert!(!dead.exists() && parent.join(&own).exists());
        fs::remove_dir(parent.join(own)).unwrap();
    }
}

fn start_time() -> String {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().to_owned()
}
