//! The tools that change something, in real rooms.
//!
//! A launcher must start while its process has one thread, so this suite has its own main: `--list` and `--exact` are all that
//! nextest asks of it, and `cargo test` runs each test in a process of its own.

#[path = "rooms/git.rs"]
mod git;
#[path = "rooms/modes.rs"]
mod modes;
#[path = "rooms/races.rs"]
mod races;

use sandbox::{Launcher, Workspace, WorkspaceSpec};
use serde_json::{Value, json};
use std::cell::Cell;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, exit};
use tool::{AddressFilter, Context, NoSubcalls, Output, PathKind, Real, Registry, ResolvedPath, RunMode, ToolStop};
use world::{Code, Refusal};

type Test = (&'static str, fn(&Host));

const TESTS: &[Test] = &[
    ("a_write_is_seen_by_reads_and_not_by_the_project", a_write_is_seen_by_reads_and_not_by_the_project),
    ("a_write_follows_links_inside", a_write_follows_links_inside),
    ("a_write_that_cannot_be_says_why", a_write_that_cannot_be_says_why),
    ("a_command_runs", a_command_runs),
    ("a_command_that_cannot_run_says_why", a_command_that_cannot_run_says_why),
    ("a_command_is_ended_in_time", a_command_is_ended_in_time),
    ("output_is_capped", output_is_capped),
    ("tests_run", tests_run),
    ("searches_see_the_overlay", searches_see_the_overlay),
    ("an_edit_replaces_exactly_one_text", an_edit_replaces_exactly_one_text),
    ("names_are_deleted_and_moved", names_are_deleted_and_moved),
    ("only_harmless_variables_reach_a_room", only_harmless_variables_reach_a_room),
    ("git_tells_and_commits_what_the_task_changed", git::git_tells_and_commits_what_the_task_changed),
    ("a_hostile_repository_runs_nothing", git::a_hostile_repository_runs_nothing),
    ("masked_files_stay_out_of_diffs_and_commits", git::masked_files_stay_out_of_diffs_and_commits),
    ("a_swapped_path_fools_nobody", races::a_swapped_path_fools_nobody),
    ("dry_runs_and_mocks_do_nothing", modes::dry_runs_and_mocks_do_nothing),
    ("a_foreign_tool_runs_in_the_room_and_is_held_to_its_manifest", modes::a_foreign_tool_runs_in_the_room_and_is_held_to_its_manifest),
];

struct Host {
    folder: tempfile::TempDir,
    runtime: tokio::runtime::Runtime,
    room: Option<Workspace>,
    registry: Registry,
    mode: Cell<RunMode>,
    environment: Vec<(String, String)>,
    _launcher: Launcher,
}

impl Host {
    #[expect(clippy::unwrap_used, reason = "a test's ground")]
    fn new() -> Host {
        let launcher = Launcher::start().unwrap();
        let folder = tempfile::Builder::new().prefix("skep-tool-").tempdir_in("/var/tmp").unwrap();
        for path in ["project/src", "home"] {
            fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        fs::set_permissions(folder.path().join("home"), fs::Permissions::from_mode(0o700)).unwrap();
        fs::write(folder.path().join("project/src/lib.rs"), "fn old() {}\n").unwrap();
        symlink("lib.rs", folder.path().join("project/src/link.rs")).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let spec = WorkspaceSpec::new(folder.path().join("project"), folder.path().join("home/work"));
        let room = runtime.block_on(launcher.open(spec)).unwrap();
        let environment =
            [("CI", "1"), ("NPM_TOKEN", "secret"), ("AWS_REGION", "x")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        Host {
            folder,
            runtime,
            room: Some(room),
            registry: Registry::builtin(),
            mode: Cell::default(),
            environment: environment.to_vec(),
            _launcher: launcher,
        }
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    #[expect(clippy::unwrap_used, reason = "a test's ground")]
    fn call_with(&self, name: &str, input: &Value, test_command: Option<&[String]>) -> Result<Output, ToolStop> {
        let (room, project) = (self.room.as_ref().unwrap(), self.project());
        let tool = self.registry.find(name)?;
        tool.check(input)?;
        let root = room.root().as_fd();
        let resolved_paths =
            tool.named_paths(input).iter().map(|target| ResolvedPath::open(root, &project, target)).collect::<Result<Vec<_>, _>>()?;
        let visible = |path: &str| !path.contains("hidden");
        let context = Context {
            root,
            project: &project,
            room: Some(room),
            test_command,
            output_max: 10_000,
            visible: &visible,
            mode: self.mode.get(),
            addresses: &AddressFilter::default(),
            subcalls: &NoSubcalls,
            environment: &self.environment,
            job: Default::default(),
            secrets: &[],
        };
        self.runtime.block_on(tool.run(input, resolved_paths, &context))
    }

    #[track_caller]
    fn call(&self, name: &str, input: Value) -> Output {
        match self.call_with(name, &input, None) {
            Ok(output) => output,
            Err(stop) => panic!("{name} {input}: {stop:?}"),
        }
    }

    #[track_caller]
    fn refused(&self, name: &str, input: Value) -> Refusal {
        match self.call_with(name, &input, None) {
            Err(ToolStop::Refused(refusal)) => refusal,
            other => panic!("{name} {input}: {other:?}"),
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has("--list") {
        if !has("--ignored") {
            TESTS.iter().for_each(|(name, _)| println!("{name}: test"));
        }
        return;
    }
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    if has("--exact") {
        let Some((_, test)) = TESTS.iter().find(|(name, _)| Some(*name) == wanted.map(String::as_str)) else { exit(2) };
        test(&Host::new());
        return;
    }
    let Ok(me) = std::env::current_exe() else { exit(2) };
    let chosen = TESTS.iter().filter(|(name, _)| wanted.is_none_or(|part| name.contains(part.as_str())));
    let passes = |name: &str| Command::new(&me).args(["--exact", name]).status().is_ok_and(|status| status.success());
    let failed: Vec<&str> = chosen.map(|(name, _)| *name).filter(|name| !passes(name)).collect();
    if !failed.is_empty() {
        println!("failed: {failed:?}");
        exit(1);
    }
}

fn read(host: &Host, path: &str) -> String {
    host.call("fs.read", json!({ "path": path })).value["content"].as_str().unwrap_or_default().to_owned()
}

fn on_disk(host: &Host, path: &str) -> Option<String> {
    fs::read_to_string(host.project().join(path)).ok()
}

fn a_write_is_seen_by_reads_and_not_by_the_project(host: &Host) {
    let output = host.call("fs.write", json!({ "path": "src/lib.rs", "content": "fn new() {}\n" }));
    assert_eq!(output.value, json!({ "path": "src/lib.rs", "bytes": 12, "created": false }));
    let output = host.call("fs.write", json!({ "path": "./bin//tool.sh", "content": "#!/bin/sh\necho hi\n", "mode": "755" }));
    assert_eq!(output.value, json!({ "path": "bin/tool.sh", "bytes": 18, "created": true }));
    assert_eq!(read(host, "src/lib.rs"), "fn new() {}\n");
    assert_eq!(on_disk(host, "src/lib.rs").as_deref(), Some("fn old() {}\n"));
    assert_eq!(on_disk(host, "bin/tool.sh"), None);
    assert_eq!(host.call("shell.run", json!({ "command": ["./bin/tool.sh"] })).value["stdout"], "hi\n");
    let absolute = format!("{}/src/lib.rs", host.project().display());
    assert_eq!(read(host, &absolute), "fn new() {}\n");
}

fn a_write_follows_links_inside(host: &Host) {
    let output = host.call("fs.write", json!({ "path": "src/link.rs", "content": "x" }));
    assert_eq!(output.value["path"], "src/lib.rs");
    assert_eq!(read(host, "src/lib.rs"), "x");
    // A link that a job makes is resolved like any other: to where it leads.
    host.call("shell.run", json!({ "command": ["ln", "-s", "/etc/passwd", "src/out"] }));
    let Some(room) = &host.room else { panic!() };
    let target = tool::NamedPath { path: "src/out".into(), access: tool::Access::Read };
    match ResolvedPath::open(room.root().as_fd(), &host.project(), &target) {
        Ok(ResolvedPath { real: Real::Outside(path), kind: PathKind::Unknown, fd: None }) => assert_eq!(path, "/etc/passwd"),
        other => panic!("{other:?}"),
    }
}

fn a_write_that_cannot_be_says_why(host: &Host) {
    let refusal = host.refused("fs.write", json!({ "path": "src", "content": "" }));
    assert_eq!((refusal.code, refusal.reason.as_str()), (Code::BadInput, "`src` is a directory"));
    let refusal = host.refused("fs.write", json!({ "path": "src/lib.rs/x", "content": "" }));
    assert_eq!(refusal.reason, "`src/lib.rs/x` does not exist: a part of it is a file");
    let refusal = host.refused("fs.write", json!({ "path": "/etc/x", "content": "" }));
    assert_eq!(refusal.reason, "`/etc/x` lies outside the project");
    host.call("shell.run", json!({ "command": ["mkfifo", "pipe"] }));
    let refusal = host.refused("fs.write", json!({ "path": "pipe", "content": "" }));
    assert_eq!(refusal.reason, "`pipe` is a named pipe");
}

fn a_command_runs(host: &Host) {
    let output = host.call("shell.run", json!({ "command": ["sh", "-c", "pwd; echo no >&2; exit 3"], "cwd": "src" }));
    assert!(!output.ok);
    assert_eq!(output.value["stdout"], format!("{}/src\n", host.project().display()));
    assert_eq!((&output.value["stderr"], &output.value["exit_code"]), (&json!("no\n"), &json!(3)));
    assert!(host.call("shell.run", json!({ "command": ["true"] })).ok);
    let output = host.call("shell.run", json!({ "command": ["sh", "-c", "kill -TERM $$"] }));
    assert_eq!(output.value["signal"], 15);
}

fn a_command_that_cannot_run_says_why(host: &Host) {
    let refusal = host.refused("shell.run", json!({ "command": ["no-such-program"] }));
    assert_eq!((refusal.code, refusal.reason.as_str()), (Code::NotFound, "`no-such-program` was not found in the sandbox"));
    assert!(refusal.hint.is_some());
    let refusal = host.refused("shell.run", json!({ "command": ["./src/lib.rs"] }));
    assert_eq!(refusal.code, Code::WrongState, "{refusal:?}");
    let refusal = host.refused("shell.run", json!({ "command": ["true"], "cwd": "nowhere" }));
    assert_eq!(refusal.reason, "`nowhere` does not exist");
    let refusal = host.refused("shell.run", json!({ "command": ["true"], "cwd": "src/lib.rs" }));
    assert_eq!(refusal.reason, "`src/lib.rs` is a file, and `cwd` wants a directory");
    let refusal = host.refused("shell.run", json!({ "command": [] }));
    assert_eq!(refusal.code, Code::BadInput);
}

fn a_command_is_ended_in_time(host: &Host) {
    // Each time twice as long, until it was long enough on this machine for the command to begin.
    for ms in (0..8).map(|times| 500 << times) {
        let output = host.call("shell.run", json!({ "command": ["sh", "-c", "echo begun; sleep 600"], "timeout_ms": ms }));
        assert!(!output.ok);
        assert_eq!(output.value["timed_out"], json!(true));
        assert_eq!(output.value["error"], format!("it ran longer than {ms} ms and was ended"));
        assert_eq!(output.value["hint"], "give it more time with `timeout_ms`, or less to do");
        if output.value["stdout"] == "begun\n" {
            return;
        }
    }
    panic!("what it said before its end is lost");
}

fn output_is_capped(host: &Host) {
    let output = host.call("shell.run", json!({ "command": ["sh", "-c", "yes | head -c 1000000"] }));
    assert!(output.ok, "{:?}", output.value["exit_code"]);
    assert_eq!((&output.value["truncated"], output.value["stdout"].as_str().map(str::len)), (&json!(true), Some(10_000)));
}

fn tests_run(host: &Host) {
    let refusal = host.refused("test.run", json!({}));
    assert_eq!((refusal.code, refusal.reason.as_str()), (Code::WrongState, "this project has no test command"));
    assert_eq!(refusal.remedy.as_deref(), Some(&world::Remedy::SetTestCommand));
    let command = ["sh".to_owned(), "-c".to_owned(), "echo \"$0\"; test \"$0\" = pass".to_owned()];
    for (argument, ok) in [("pass", true), ("fail", false)] {
        match host.call_with("test.run", &json!({ "args": [argument] }), Some(&command)) {
            Ok(output) => {
                assert_eq!((output.ok, &output.value["stdout"]), (ok, &json!(format!("{argument}\n"))));
                assert_eq!(output.value["command"][3], argument);
            }
            Err(stop) => panic!("{stop:?}"),
        }
    }
}

fn searches_see_the_overlay(host: &Host) {
    host.call("fs.write", json!({ "path": "src/fresh.rs", "content": "fn needle() {}\n" }));
    let output = host.call("search.grep", json!({ "pattern": "needle" }));
    assert_eq!(output.value["matches"], json!([{ "path": "src/fresh.rs", "line": 1, "text": "fn needle() {}" }]));
    assert_eq!(host.call("search.glob", json!({ "pattern": "*.rs" })).value["paths"], json!(["src/fresh.rs", "src/lib.rs"]));
    let listed = host.call("fs.list", json!({ "path": "src" }));
    assert_eq!(
        listed.value["entries"],
        json!([
            { "name": "fresh.rs", "kind": "file", "size": 15 },
            { "name": "lib.rs", "kind": "file", "size": 12 },
            { "name": "link.rs", "kind": "link" },
        ])
    );
}

fn an_edit_replaces_exactly_one_text(host: &Host) {
    let output = host.call("fs.edit", json!({ "path": "src/link.rs", "old": "old", "new": "fresh" }));
    assert_eq!(output.value, json!({ "path": "src/lib.rs", "replaced": 1, "line": 1, "bytes": 14 }));
    assert_eq!((read(host, "src/lib.rs").as_str(), on_disk(host, "src/lib.rs").as_deref()), ("fn fresh() {}\n", Some("fn old() {}\n")));
    let refusal = host.refused("fs.edit", json!({ "path": "src/lib.rs", "old": "old", "new": "x" }));
    assert_eq!((refusal.code, refusal.reason.as_str()), (Code::BadInput, "`old` does not occur in `src/lib.rs`"));
    let refusal = host.refused("fs.edit", json!({ "path": "src/none.rs", "old": "a", "new": "b" }));
    assert_eq!(refusal.reason, "`src/none.rs` does not exist");
    let refusal = host.refused("fs.edit", json!({ "path": "src/lib.rs", "old": "f", "new": "g" }));
    assert_eq!(refusal.reason, "`old` occurs 2 times in `src/lib.rs`, at lines 1, 1");
}

fn names_are_deleted_and_moved(host: &Host) {
    assert_eq!(host.call("fs.delete", json!({ "path": "src/link.rs" })).value, json!({ "path": "src/link.rs", "deleted": true }));
    assert_eq!(host.call("fs.exists", json!({ "path": "src/link.rs" })).value["exists"], false);
    assert_eq!(read(host, "src/lib.rs"), "fn old() {}\n", "a link is deleted, not what it leads to");
    let output = host.call("fs.move", json!({ "from": "src/lib.rs", "to": "core/lib.rs" }));
    assert_eq!(output.value, json!({ "from": "src/lib.rs", "to": "core/lib.rs" }));
    assert_eq!(read(host, "core/lib.rs"), "fn old() {}\n");
    assert_eq!(on_disk(host, "src/lib.rs").as_deref(), Some("fn old() {}\n"), "the project is untouched");
    assert_eq!(host.refused("fs.delete", json!({ "path": "src/lib.rs" })).reason, "`src/lib.rs` does not exist");
    assert_eq!(host.refused("fs.delete", json!({ "path": "." })).reason, "`.` is the project itself");
    let refusal = host.refused("fs.delete", json!({ "path": "core" }));
    assert_eq!((refusal.code, refusal.reason.contains("cannot be deleted")), (Code::WrongState, true), "{refusal:?}");
    host.call("fs.write", json!({ "path": "b", "content": "" }));
    assert_eq!(host.refused("fs.move", json!({ "from": "b", "to": "core/lib.rs" })).reason, "`core/lib.rs` exists already");
    assert_eq!(host.refused("fs.move", json!({ "from": "b", "to": "/etc/b" })).reason, "`/etc/b` lies outside the project");
    // A folder of the project cannot change its name in one step; one that the task made can.
    host.call("fs.move", json!({ "from": "core", "to": "kernel" }));
    assert_eq!(read(host, "kernel/lib.rs"), "fn old() {}\n");
}

fn only_harmless_variables_reach_a_room(host: &Host) {
    let output = host.call("shell.run", json!({ "command": ["sh", "-c", "echo $CI-$NPM_TOKEN-$AWS_REGION"] }));
    assert_eq!(output.value["stdout"], "1--\n");
}
