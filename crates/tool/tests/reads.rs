//! The tools that run in the kernel's own process, on real directories.

use rustix::fs::{FileType, Mode, OFlags};
use serde_json::{Value, json};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::pin::Pin;
use std::task::Poll;
use tool::{AddressFilter, Context, NoSubcalls, Output, Registry, ResolvedPath, RunMode, ToolStop};
use world::limits::READ_BYTES_MAX;
use world::{Code, Refusal};

struct Ground {
    folder: tempfile::TempDir,
    output_max: usize,
}

impl Ground {
    fn new(files: &[(&str, &str)]) -> Ground {
        let ground = Ground { folder: tempfile::tempdir().unwrap_or_else(|error| panic!("{error}")), output_max: 1000 };
        for (path, content) in files {
            ground.write(path, content.as_bytes());
        }
        ground
    }

    #[expect(clippy::unwrap_used, reason = "a test's ground")]
    fn write(&self, path: &str, content: &[u8]) {
        let path = self.folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    #[expect(clippy::unwrap_used, reason = "a test's ground")]
    fn run(&self, name: &str, input: &Value) -> Result<Output, ToolStop> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        match self.drive(name, input, |work| Poll::Ready(runtime.block_on(work))) {
            Some(result) => result,
            None => panic!("{name} did not end"),
        }
    }

    /// Runs a call by `drive`, as far as that goes. The kernel runs calls on any of its threads, so they are `Send`.
    fn drive(
        &self,
        name: &str,
        input: &Value,
        drive: impl FnOnce(&mut Pin<&mut (dyn Future<Output = Result<Output, ToolStop>> + Send)>) -> Poll<Result<Output, ToolStop>>,
    ) -> Option<Result<Output, ToolStop>> {
        match self.driven(name, input, drive) {
            Ok(Poll::Pending) => None,
            Ok(Poll::Ready(result)) => Some(result),
            Err(refusal) => Some(Err(refusal.into())),
        }
    }

    #[expect(clippy::unwrap_used, reason = "a test's ground")]
    fn driven(
        &self,
        name: &str,
        input: &Value,
        drive: impl FnOnce(&mut Pin<&mut (dyn Future<Output = Result<Output, ToolStop>> + Send)>) -> Poll<Result<Output, ToolStop>>,
    ) -> Result<Poll<Result<Output, ToolStop>>, Refusal> {
        let registry = Registry::builtin();
        let tool = registry.find(name)?;
        tool.check(input)?;
        let project = self.folder.path();
        let root = rustix::fs::open(project, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let root = root.as_fd();
        let resolved_paths =
            tool.named_paths(input).iter().map(|target| ResolvedPath::open(root, project, target)).collect::<Result<Vec<_>, _>>()?;
        let visible = |path: &str| !path.split('/').any(|part| part == ".env");
        let context = Context {
            root,
            project,
            room: None,
            test_command: None,
            output_max: self.output_max,
            visible: &visible,
            mode: RunMode::Live,
            addresses: &AddressFilter::default(),
            subcalls: &NoSubcalls,
            environment: &[],
            job: Default::default(),
            secrets: &[],
        };
        let mut work = std::pin::pin!(tool.run(input, resolved_paths, &context));
        let mut work: Pin<&mut (dyn Future<Output = _> + Send)> = work.as_mut();
        Ok(drive(&mut work))
    }

    #[track_caller]
    fn call(&self, name: &str, input: Value) -> Value {
        match self.run(name, &input) {
            Ok(output) => {
                assert!(output.ok);
                check_output(name, &output.value);
                output.value
            }
            Err(stop) => panic!("{name} {input}: {stop:?}"),
        }
    }

    #[track_caller]
    fn refused(&self, name: &str, input: Value) -> Refusal {
        match self.run(name, &input) {
            Err(ToolStop::Refused(refusal)) => {
                assert!(refusal.advice().is_some(), "no hint: {refusal:?}");
                refusal
            }
            other => panic!("{name} {input}: {other:?}"),
        }
    }
}

/// What a tool gives fits its own manifest.
#[track_caller]
fn check_output(name: &str, value: &Value) {
    let registry = Registry::builtin();
    let Ok(tool) = registry.find(name) else { panic!("no tool {name}") };
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    let added = compiler.add_resource("https://schema.invalid/", tool.manifest().output_schema.clone());
    assert!(added.is_ok(), "the schema of {name} is no JSON");
    let Ok(index) = compiler.compile("https://schema.invalid/", &mut schemas) else { panic!("the schema of {name} does not compile") };
    if let Err(error) = schemas.validate(value, index) {
        panic!("{name}: {error} in {value}");
    }
}

#[test]
fn a_file_is_read() {
    let ground = Ground::new(&[("src/a.txt", "héllo\n")]);
    let value = ground.call("fs.read", json!({ "path": "src/../src/./a.txt" }));
    let expect =
        json!({ "path": "src/a.txt", "content": "héllo\n", "encoding": "utf-8", "offset": 0, "bytes": 7, "size": 7, "truncated": false });
    assert_eq!(value, expect);
}

/// What a call gives without waiting for anything, if it does.
#[expect(clippy::unwrap_used, reason = "a test's ground")]
fn at_once(ground: &Ground, name: &str, input: &Value) -> Option<Result<Output, ToolStop>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    ground.drive(name, input, |work| runtime.block_on(std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context)))))
}

#[test]
fn what_the_system_has_in_memory_is_read_at_once() {
    let ground = Ground::new(&[("a.txt", "one\n"), ("empty.txt", "")]);
    for (path, content) in [("a.txt", "one\n"), ("empty.txt", "")] {
        match at_once(&ground, "fs.read", &json!({ "path": path })) {
            Some(Ok(output)) => assert_eq!(output.value["content"], content),
            other => panic!("{path}: {other:?}"),
        }
    }
    assert!(at_once(&ground, "fs.list", &json!({ "path": "." })).is_none(), "the control: a list is read on another thread");
}

#[test]
fn a_part_never_splits_a_character() {
    let ground = Ground::new(&[("a", "aéz")]);
    let part = |offset: u64, limit: u64| {
        let value = ground.call("fs.read", json!({ "path": "a", "offset": offset, "limit": limit }));
        (value["content"].as_str().map(str::to_owned), value["offset"].as_u64(), value["next_offset"].as_u64())
    };
    assert_eq!(part(0, 2), (Some("a".into()), Some(0), Some(1)));
    assert_eq!(part(1, 2), (Some("é".into()), Some(1), Some(3)));
    assert_eq!(part(2, 2), (Some("z".into()), Some(3), None));
    assert_eq!(part(9, 2), (Some(String::new()), Some(9), None));
}

#[test]
fn long_files_come_in_parts() {
    let ground = Ground::new(&[("long", &"x".repeat(2_500))]);
    let value = ground.call("fs.read", json!({ "path": "long" }));
    assert_eq!(
        (value["bytes"].as_u64(), value["next_offset"].as_u64(), value["truncated"].as_bool()),
        (Some(1_000), Some(1_000), Some(true))
    );
    let value = ground.call("fs.read", json!({ "path": "long", "offset": 2_000 }));
    assert_eq!((value["bytes"].as_u64(), value["truncated"].as_bool()), (Some(500), Some(false)));
}

#[test]
fn a_huge_file_is_not_read() {
    let ground = Ground::new(&[]);
    let file = fs::File::create(ground.folder.path().join("huge")).unwrap();
    file.set_len(1 << 30).unwrap();
    let refusal = ground.refused("fs.read", json!({ "path": "huge" }));
    assert_eq!(
        (refusal.code, refusal.reason),
        (Code::TooLarge, format!("`huge` has 1073741824 bytes; {READ_BYTES_MAX} are read without being asked twice"))
    );
    let value = ground.call("fs.read", json!({ "path": "huge", "offset": 1_000_000_000_u64, "limit": 3 }));
    assert_eq!(value["content"], "\0\0\0");
    assert_eq!(ground.call("search.grep", json!({ "pattern": "x" }))["skipped"], json!(["huge"]));
}

#[test]
fn what_is_not_text_is_told_and_not_mangled() {
    let ground = Ground::new(&[]);
    ground.write("bin", &[b'a', 0xff, 0xfe]);
    let refusal = ground.refused("fs.read", json!({ "path": "bin" }));
    assert_eq!((refusal.code, refusal.reason.as_str()), (Code::BadInput, "`bin` is not text: byte 1 of 3 is not UTF-8"));
    assert!(refusal.hint.unwrap().contains("base64"));
    let value = ground.call("fs.read", json!({ "path": "bin", "encoding": "base64" }));
    assert_eq!((&value["content"], &value["encoding"]), (&json!("Yf/+"), &json!("base64")));
}

#[test]
fn existence_is_told_without_opening_anything() {
    let ground = Ground::new(&[("src/a", "abc")]);
    assert_eq!(ground.call("fs.exists", json!({ "path": "src/a" })), json!({ "path": "src/a", "exists": true, "kind": "file", "size": 3 }));
    assert_eq!(ground.call("fs.exists", json!({ "path": "src" })), json!({ "path": "src", "exists": true, "kind": "directory" }));
    for path in ["src/b", "src/a/b", "none/x"] {
        assert_eq!(ground.call("fs.exists", json!({ "path": path })), json!({ "path": path, "exists": false }));
    }
    assert_eq!(ground.refused("fs.exists", json!({ "path": "/etc/passwd" })).code, Code::Denied);
}

#[test]
fn what_is_not_there_says_so() {
    let ground = Ground::new(&[("src/a", "")]);
    let refusal = ground.refused("fs.read", json!({ "path": "src/b" }));
    assert_eq!((refusal.code, refusal.reason.as_str()), (Code::NotFound, "`src/b` does not exist"));
    assert_eq!(ground.refused("fs.read", json!({ "path": "src" })).reason, "`src` is a directory");
    assert_eq!(ground.refused("fs.list", json!({ "path": "src/a" })).reason, "`src/a` is a file");
    assert_eq!(ground.refused("fs.read", json!({ "path": "/etc/passwd" })).reason, "`/etc/passwd` lies outside the project");
    symlink("/etc/passwd", ground.folder.path().join("out")).unwrap();
    assert_eq!(ground.refused("fs.read", json!({ "path": "out" })).code, Code::Denied);
}

#[test]
fn a_pipe_or_device_is_refused_before_it_is_opened() {
    let ground = Ground::new(&[]);
    rustix::fs::mknodat(rustix::fs::CWD, ground.folder.path().join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    assert_eq!(ground.refused("fs.read", json!({ "path": "pipe" })).reason, "`pipe` is a named pipe");
    let _listener = std::os::unix::net::UnixListener::bind(ground.folder.path().join("socket")).unwrap();
    assert_eq!(ground.refused("fs.read", json!({ "path": "socket" })).reason, "`socket` is a socket");
    assert_eq!(ground.call("search.grep", json!({ "pattern": "x" }))["files_searched"], 0);
}

/// Modes do not hold root back, so the reader becomes an ordinary user first. Credentials are a thread's own.
#[test]
fn a_closed_file_says_how_to_open_it() {
    let ground = Ground::new(&[("closed", "x"), ("locked/in", "x"), ("open", "x")]);
    let mode = |path: &str, mode: u32| fs::set_permissions(ground.folder.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
    mode("", 0o755);
    mode("closed", 0o000);
    mode("locked", 0o000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::fs::Uid::from_raw(65_534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            assert_eq!(ground.call("fs.read", json!({ "path": "open" }))["content"], "x");
            let refusal = ground.refused("fs.read", json!({ "path": "closed" }));
            assert_eq!(
                (refusal.code, refusal.reason.as_str()),
                (Code::WrongState, "`closed` cannot be read: Permission denied (os error 13)")
            );
            let refusal = ground.refused("fs.read", json!({ "path": "locked/in" }));
            assert_eq!(refusal.reason, "`locked/in` cannot be reached: a directory on the way is closed");
            assert_eq!(paths_of(&ground.call("search.grep", json!({ "pattern": "x" }))), ["open"]);
        });
    });
    mode("locked", 0o755);
}

#[test]
fn inputs_are_checked_and_the_field_is_named() {
    let ground = Ground::new(&[]);
    let check = |name: &str, input: Value, reason: &str, hint: &str| {
        let refusal = ground.refused(name, input);
        assert_eq!((refusal.code, refusal.reason.as_str(), refusal.advice().as_deref()), (Code::BadInput, reason, Some(hint)));
    };
    let fields = "its fields are encoding (optional), limit (optional), offset (optional), path";
    check("fs.read", json!({}), "`fs.read`: the input lacks `path`", fields);
    check("fs.read", json!({ "path": "a", "pth": "b" }), "`fs.read`: the input has no `pth`", fields);
    check("fs.read", json!({ "path": 7 }), "`fs.read`: `path` must be of type string", "see the list of tools and what they take");
    check(
        "shell.run",
        json!({ "command": ["a", 1] }),
        "`shell.run`: `command.1` must be of type string",
        "see the list of tools and what they take",
    );
    assert_eq!(ground.refused("fs.read", json!([])).code, Code::BadInput);
    assert_eq!(ground.refused("fs.write", json!({ "path": "a", "content": "", "mode": "999" })).code, Code::BadInput);
}

#[test]
fn a_directory_is_listed_without_what_is_hidden() {
    let ground = Ground::new(&[("b", "xy"), ("a/x", ""), (".env", "SECRET=1"), (".github/ci.yml", "")]);
    symlink("b", ground.folder.path().join("c")).unwrap();
    let expect = json!({
        "path": ".",
        "entries": [
            { "name": ".github", "kind": "directory" },
            { "name": "a", "kind": "directory" },
            { "name": "b", "kind": "file", "size": 2 },
            { "name": "c", "kind": "link" },
        ],
        "truncated": false,
    });
    assert_eq!(ground.call("fs.list", json!({})), expect);
    assert_eq!(ground.call("fs.list", json!({ "path": "a/../a" }))["entries"], json!([{ "name": "x", "kind": "file", "size": 0 }]));
}

fn repository() -> Ground {
    Ground::new(&[
        (".gitignore", "target/\n*.log\n!keep.log\n/only-root\n"),
        ("sub/.gitignore", "local.txt\n"),
        (".git/config", "needle"),
        ("a.txt", "one needle\nnothing\ntwo needles\n"),
        ("keep.log", "needle\n"),
        ("x.log", "needle\n"),
        ("target/out.txt", "needle\n"),
        ("sub/local.txt", "needle\n"),
        ("sub/only-root", "needle\n"),
        ("only-root", "needle\n"),
        ("sub/b.rs", "needle\r\n"),
        (".env", "needle\n"),
        ("binary.txt", "\0needle\n"),
    ])
}

fn paths_of(value: &Value) -> Vec<&str> {
    value["matches"].as_array().into_iter().flatten().filter_map(|hit| hit["path"].as_str()).collect()
}

#[test]
fn grep_finds_lines_as_git_sees_the_files() {
    let ground = repository();
    symlink("/etc", ground.folder.path().join("etc")).unwrap();
    let value = ground.call("search.grep", json!({ "pattern": "needles?" }));
    assert_eq!(paths_of(&value), ["a.txt", "a.txt", "keep.log", "sub/b.rs", "sub/only-root"]);
    assert_eq!(value["matches"][1], json!({ "path": "a.txt", "line": 3, "text": "two needles" }));
    assert_eq!((&value["truncated"], &value["matches"][3]["text"]), (&json!(false), &json!("needle")));
    assert_eq!(paths_of(&ground.call("search.grep", json!({ "pattern": "needle", "glob": "*.rs" }))), ["sub/b.rs"]);
    assert_eq!(paths_of(&ground.call("search.grep", json!({ "pattern": "needle", "path": "sub" }))), ["sub/b.rs", "sub/only-root"]);
    assert_eq!(paths_of(&ground.call("search.grep", json!({ "pattern": "needle", "path": "x.log" }))), ["x.log"]);
    let value = ground.call("search.grep", json!({ "pattern": "needle", "max": 2 }));
    assert_eq!((paths_of(&value).len(), &value["truncated"]), (2, &json!(true)));
    let value = ground.call("search.grep", json!({ "pattern": "needle", "path": "a.txt", "max": 2 }));
    assert_eq!((paths_of(&value).len(), &value["truncated"]), (2, &json!(false)));
}

#[test]
fn a_part_reaches_the_brain_whole() {
    let mut ground = Ground::new(&[("long", &"some line of text\n".repeat(20_000))]);
    ground.output_max = 1 << 20;
    (0..3_000).for_each(|number| ground.write(&format!("many/{number}-with-a-longer-name"), b"needle in this line\n"));
    let inputs = [
        ("fs.read", json!({ "path": "long" })),
        ("fs.read", json!({ "path": "long", "encoding": "base64" })),
        ("search.grep", json!({ "pattern": "needle", "max": 5000 })),
        ("search.glob", json!({ "pattern": "*", "max": 5000 })),
        ("fs.list", json!({ "path": "many" })),
    ];
    for (name, input) in inputs {
        let value = ground.call(name, input);
        assert_eq!(value["truncated"], true, "{name}: the test is about what does not fit");
        let mut read = value.clone();
        let registry = Registry::builtin();
        let cleaned = tool::Sanitizer::default().clean(registry.find(name).unwrap().manifest(), &mut read);
        assert!(!cleaned.shortened() && read == value, "{name}: {cleaned:?}");
    }
}

#[test]
fn results_are_capped() {
    let ground = Ground::new(&[]);
    for number in 0..60 {
        ground.write(&format!("{number:02}-{}", "n".repeat(30)), b"x\n");
    }
    let value = ground.call("search.glob", json!({ "pattern": "*" }));
    assert_eq!((value["paths"].as_array().map(Vec::len), &value["truncated"]), (Some(27), &json!(true)));
    let value = ground.call("search.grep", json!({ "pattern": "x" }));
    assert_eq!((paths_of(&value).len(), &value["truncated"]), (14, &json!(true)));
    ground.write("one", &[b'x'; 100_000]);
    let value = ground.call("search.grep", json!({ "pattern": "x", "path": "one" }));
    assert_eq!(value["matches"][0]["text"].as_str().map(|text| text.chars().count()), Some(401));
}

#[test]
fn glob_finds_files_as_git_sees_them() {
    let ground = repository();
    let paths = |input: Value| ground.call("search.glob", input)["paths"].clone();
    assert_eq!(paths(json!({ "pattern": "*.txt" })), json!(["a.txt", "binary.txt"]));
    assert_eq!(paths(json!({ "pattern": "sub/**" })), json!(["sub/.gitignore", "sub/b.rs", "sub/only-root"]));
    assert_eq!(paths(json!({ "pattern": "*", "path": "sub" })), json!(["sub/.gitignore", "sub/b.rs", "sub/only-root"]));
    let value = ground.call("search.glob", json!({ "pattern": "*.txt", "max": 1 }));
    assert_eq!(value, json!({ "paths": ["a.txt"], "truncated": true }));
}

#[test]
fn broken_patterns_say_why() {
    let ground = repository();
    let refusal = ground.refused("search.grep", json!({ "pattern": "(" }));
    assert!(refusal.code == Code::BadInput && refusal.reason.starts_with("`(` is not a regular expression"), "{refusal:?}");
    let refusal = ground.refused("search.glob", json!({ "pattern": "[a" }));
    assert!(refusal.code == Code::BadInput && refusal.reason.starts_with("`[a` is not a glob"), "{refusal:?}");
    assert_eq!(ground.refused("search.grep", json!({ "pattern": "a", "glob": "[a" })).code, Code::BadInput);
    assert_eq!(ground.refused("search.grep", json!({ "pattern": "(a{1000}){1000}" })).code, Code::BadInput);
    assert_eq!(ground.refused("search.glob", json!({ "pattern": "!a" })).reason, "the glob `!a` matches nothing");
}

#[test]
fn what_wants_a_room_says_so_without_one() {
    let ground = Ground::new(&[]);
    assert_eq!(ground.refused("shell.run", json!({ "command": ["true"] })).reason, "there is no sandbox to run it in");
    assert_eq!(ground.refused("fs.write", json!({ "path": "a", "content": "x" })).reason, "there is no sandbox to run it in");
}

#[test]
fn the_door_learns_what_a_call_is_about() {
    let registry = Registry::builtin();
    let tool = |name: &str| registry.find(name).unwrap();
    let paths = |name: &str, input: Value| tool(name).named_paths(&input).into_iter().map(|target| target.path).collect::<Vec<_>>();
    assert_eq!(paths("fs.read", json!({ "path": "a" })), ["a"]);
    assert_eq!(paths("search.grep", json!({ "pattern": "a" })), ["."]);
    assert_eq!(paths("shell.run", json!({ "command": ["ls"], "cwd": "src" })), ["src"]);
    assert!(paths("test.run", json!({})).is_empty());
    assert_eq!(tool("shell.run").command(&json!({ "command": ["ls", "-l"] })), Some(vec!["ls".into(), "-l".into()]));
    assert_eq!(tool("fs.read").command(&json!({ "path": "a" })), None);
    assert_eq!(tool("fs.write").size(&json!({ "path": "a", "content": "é" }), &[]), Some(2));
    let in_kernel = registry.list().map(tool::RegisteredTool::manifest).filter(|manifest| manifest.room == tool::Room::Kernel);
    let in_kernel: Vec<(&str, bool)> = in_kernel.map(|manifest| (manifest.name.as_str(), manifest.read_only)).collect();
    let expect =
        [("fs.exists", true), ("fs.list", true), ("fs.read", true), ("http.request", false), ("search.glob", true), ("search.grep", true)];
    assert_eq!(in_kernel, expect);
    let get = json!({ "url": "https://Example.com:8443/x" });
    let aim = tool("http.request").http_target(&get).unwrap().unwrap();
    assert_eq!((aim.host.as_str(), aim.port, aim.method.as_str()), ("example.com", 8443, "GET"));
    assert!(tool("http.request").reads_only(&get));
    assert!(!tool("http.request").reads_only(&json!({ "url": "https://example.com/", "method": "POST" })));
    assert!(tool("http.request").http_target(&json!({ "url": "file:///etc/passwd" })).is_err());
    let meet = |a: (&str, Value), b: (&str, Value)| tool::conflicts(&tool(a.0).touches_by_name(&a.1), &tool(b.0).touches_by_name(&b.1));
    let (read, write) =
        (|path: &str| ("fs.read", json!({ "path": path })), |path: &str| ("fs.write", json!({ "path": path, "content": "" })));
    assert!(meet(read("./src//a"), write("src/a")) && meet(read("b/../src/a"), write("src/a")) && meet(read("/p/src/a"), write("src/a")));
    assert!(!meet(read("src/b"), write("src/a")) && !meet(read("src/a"), read("src/a")));
    assert!(meet(("test.run", json!({})), write("a")) && meet(("git.status", json!({})), write("a")));
    assert!(!meet(("git.status", json!({})), read("a")) && !meet(("http.request", get.clone()), ("test.run", json!({}))));
    assert_eq!(tool("fs.read").http_target(&json!({ "path": "a" })), Ok(None));
}

#[test]
fn a_number_that_cannot_be_meant_is_refused_and_never_another() {
    let ground = Ground::new(&[("a.txt", "0123456789")]);
    for whole in [json!(5), json!(5.0)] {
        assert_eq!(ground.call("fs.read", json!({ "path": "a.txt", "offset": whole }))["content"], "56789");
    }
    for text in ["18446744073709551616", "9007199254740992", "1e300", "-1", "0.5", "\"5\"", "null", "true"] {
        let refusal = ground.refused("fs.read", json!({ "path": "a.txt", "offset": serde_json::from_str::<Value>(text).ok() }));
        assert!(refusal.code == Code::BadInput && refusal.reason.contains("`offset`"), "{text}: {refusal:?}");
    }
}
