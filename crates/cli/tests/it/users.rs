//! The whole way from `act` to a merge, as an ordinary user, as root in somebody else's project, and in a linked work tree.

use crate::common::Site;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown};
use std::path::Path;
use std::process::{Command, Output};

const SCRIPT: &str = "call fs.write path=a.txt content=\"new\\n\"\ncall fs.write path=made/b.txt content=\"born\\n\"\ncall shell.run command=[\"sh\", \"-c\", \"id -u; chmod 755 run.sh; rm gone.txt; git status --short\"]\ndone\n";
const FILES: &[(&str, &str)] = &[("a.txt", "old\n"), ("run.sh", "true\n"), ("gone.txt", "x\n")];
const OTHER: u32 = 64_998;

fn give(path: &Path, uid: u32) {
    lchown(path, Some(uid), Some(uid)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        std::fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path(), uid));
    }
}

/// What must have come of [`SCRIPT`], with everything owned by `uid`.
fn check(site: &Site, uid: u32) {
    assert_eq!((site.read("a.txt").as_str(), site.read("made/b.txt").as_str()), ("new\n", "born\n"));
    assert!(!site.project().join("gone.txt").exists());
    for path in ["a.txt", "made", "made/b.txt", "run.sh", "skep.yml", ".skep/policy.yaml"] {
        let meta = std::fs::metadata(site.project().join(path)).unwrap();
        assert_eq!((meta.uid(), meta.gid()), (uid, uid), "{path}");
    }
    assert_eq!(std::fs::metadata(site.project().join("run.sh")).unwrap().mode() & 0o777, 0o755);
}

#[test]
fn root_in_somebody_elses_project_leaves_it_theirs() {
    assert!(rustix::process::geteuid().is_root(), "this test gives files to another user: run the tests as root, or in a container");
    let site = Site::new(FILES);
    give(&site.project(), OTHER);
    let mode = |path: &str| std::fs::metadata(site.project().join(path)).unwrap().mode() & 0o777;
    std::fs::set_permissions(site.project().join("a.txt"), std::fs::Permissions::from_mode(0o640)).unwrap();
    let brain = site.script(SCRIPT);
    site.ok(&["act", "x", "--brain", &brain, "--await"]);
    site.ok(&["merge", "task-1", "--yes"]);
    check(&site, OTHER);
    assert_eq!(mode("a.txt"), 0o640, "a file that was written again keeps its bits");
    let shell = site
        .records(&["--kind", "call.finished"])
        .iter()
        .map(|record| record["payload"]["output"]["stdout"].to_string())
        .collect::<String>();
    assert!(!shell.contains("\"0\\n") && shell.contains(" D gone.txt"), "the job is not root and git works: {shell}");
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn an_ordinary_user_needs_no_root() {
    let root = rustix::process::geteuid().is_root();
    let uid = if root { OTHER } else { rustix::process::geteuid().as_raw() };
    let site = Site::new(FILES);
    let program = site.folder.path().join("skep");
    std::fs::copy(env!("CARGO_BIN_EXE_skep"), &program).unwrap();
    let brain = site.script(SCRIPT);
    if root {
        std::fs::set_permissions(site.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        give(site.folder.path(), OTHER);
    }
    let skep = |arguments: &[&str]| -> Output {
        let mut command = Command::new(if root { "setpriv" } else { "env" });
        if root {
            command.args(["--reuid", &uid.to_string(), "--regid", &uid.to_string(), "--clear-groups"]);
        }
        command.arg(&program).args(arguments).current_dir(site.project()).env("SKEP_HOME", site.home()).output().unwrap()
    };
    let output = skep(&["act", "x", "--brain", &brain, "--await"]);
    assert!(output.status.success(), "{}", crate::common::text(&output));
    let output = skep(&["merge", "task-1", "--yes"]);
    assert!(output.status.success(), "{}", crate::common::text(&output));
    check(&site, uid);
    let said = crate::common::text(&skep(&["doctor"]));
    assert!(said.contains("✓ sandbox") && said.contains("✓ user namespaces"), "{said}");
    // Who may make no cgroups cannot promise a branch its limits, and is told so; without limits the same process is there.
    let refused = skep(&["spawn", "small", "--memory", "100M"]);
    assert!(!refused.status.success(), "{}", crate::common::text(&refused));
    assert!(crate::common::text(&refused).contains("the limits of a branch need a memory cgroup"), "{}", crate::common::text(&refused));
    let spawned = skep(&["spawn", "small"]);
    assert!(spawned.status.success(), "{}", crate::common::text(&spawned));
    // What overlayfs leaves behind is without any permission, even for its owner.
    let output = skep(&["sandbox", "run", "--discard", "--", "rm", "a.txt"]);
    assert!(output.status.success(), "{}", crate::common::text(&output));
    assert!(skep(&["kernel", "stop"]).status.success());
    assert_eq!(std::fs::read_dir(site.home().join("work")).unwrap().count(), 0, "no workspace is left");
}

#[test]
fn a_linked_work_tree_is_a_zone_of_its_own() {
    let site = Site::new(FILES);
    site.git(&["worktree", "add", "-q", "-b", "feat/x", "../linked"]);
    let linked = site.folder.path().join("linked");
    let brain = site.script(SCRIPT);
    let skep = |arguments: &[&str]| site.command(arguments).current_dir(&linked).output().unwrap();
    let output = skep(&["act", "x", "--brain", &brain, "--await"]);
    assert!(crate::common::text(&output).contains("(@feat/x)"), "{}", crate::common::text(&output));
    let output = skep(&["merge", "task-1", "--yes"]);
    assert!(output.status.success(), "{}", crate::common::text(&output));
    assert_eq!(std::fs::read_to_string(linked.join("a.txt")).unwrap(), "new\n");
    assert_eq!(site.read("a.txt"), "old\n", "the other work tree is untouched");
}

/// A password in the repository's configuration does not reach a room; the rest of the configuration does.
#[test]
fn credentials_in_git_config_stay_out_of_the_room() {
    let site = Site::new(FILES);
    site.git(&["config", "remote.origin.url", "https://me:hunter2pass@example.com/x.git"]);
    site.git(&["config", "skep.control", "visible"]);
    site.ok(&["init"]);
    let said = site.ok(&["call", "shell.run", "command=[\"git\", \"config\", \"--list\"]", "--json"]);
    assert!(said.contains("skep.control=visible") && said.contains("https://example.com/x.git"), "{said}");
    assert!(!said.contains("hunter2pass"), "{said}");
    assert!(std::fs::read_to_string(site.project().join(".git/config")).unwrap().contains("hunter2pass"));
}
