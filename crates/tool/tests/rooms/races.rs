//! A program in the room that swaps what stands at a path, as fast as it can, while the kernel serves that path.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a suite with its own main is a test, but does not look like one")]

use super::Host;
use sandbox::{JobSpec, Stdio};
use serde_json::{Value, json};
use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};
use tool::{AddressFilter, Context, NoSubcalls, Real, ResolvedPath};

const SECRET: &str = "correct-horse-battery-staple";
/// Rounds in which the two race: at least so many, and more until each kind of call was served and some were stopped. On a busy machine the
/// program in the room may stand still for whole rounds.
const ROUNDS_MIN: usize = 50;
const ROUNDS_MAX: usize = 5000;
/// A naive reader is fooled in milliseconds; on a busy machine, later.
const PATIENCE: Duration = Duration::from_secs(60);

/// A file and a folder become links that lead out, or to what is hidden, and come back.
const SWAPPER: &str = r#"
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def put(make):
    try:
        make()
        os.rename("next", "swap.txt")
    except OSError:
        pass
def exchange():
    libc.renameat2(-100, b"swapdir", -100, b"swaplink", 2)
# Made here: an overlay does not rename folders of its lower layer.
os.mkdir("swapdir")
open("swapdir/file.txt", "w").write("harmless")
os.symlink(sys.argv[1], "swaplink")
while True:
    for target in sys.argv[2:]:
        put(lambda: os.symlink(target, "next"))
        exchange()
        put(lambda: os.close(os.open("next", os.O_CREAT | os.O_WRONLY)))
        exchange()
"#;

pub fn a_swapped_path_fools_nobody(host: &Host) {
    let outside = host.folder.path().join("outside");
    let project = host.project();
    fs::create_dir_all(&outside).unwrap();
    fs::create_dir_all(project.join("hidden")).unwrap();
    let kept = [outside.join("file.txt"), project.join("hidden/file.txt")];
    kept.iter().for_each(|file| fs::write(file, SECRET).unwrap());
    let room = host.room.as_ref().unwrap();
    let targets = [outside.to_str().unwrap(), kept[0].to_str().unwrap(), "../outside/file.txt", "hidden/file.txt", "swaplink/file.txt"];
    let program = JobSpec::exec(["python3", "-c", SWAPPER].iter().chain(&targets));
    let swapper = host.runtime.block_on(room.spawn(program, Stdio::Null, Stdio::Null, Stdio::Null)).unwrap();

    // The control: who only opens the name is led out.
    let naive = ["swap.txt", "swapdir/file.txt"].map(|name| format!("/proc/self/fd/{}/{name}", room.root().as_raw_fd()));
    for name in naive {
        let began = Instant::now();
        while !fs::read_to_string(&name).is_ok_and(|text| text == SECRET) {
            assert!(began.elapsed() < PATIENCE, "{name} never led out");
        }
    }

    let calls = [
        ("fs.read", json!({"path": "swap.txt"})),
        ("fs.read", json!({"path": "swapdir/file.txt"})),
        ("fs.list", json!({"path": "swapdir"})),
        ("search.grep", json!({"pattern": "horse"})),
        ("search.grep", json!({"pattern": "horse", "path": "swapdir"})),
        ("search.glob", json!({"pattern": "**/*.txt"})),
        ("fs.write", json!({"path": "swap.txt", "content": "written"})),
        ("fs.write", json!({"path": "swapdir/new.txt", "content": "written"})),
    ];
    let (mut passed, mut stopped) = ([0; 8], 0);
    let mut rounds = 0;
    while rounds < ROUNDS_MIN || stopped == 0 || passed.contains(&0) {
        assert!(rounds < ROUNDS_MAX, "no race: {passed:?} passed, {stopped} were stopped");
        rounds += 1;
        for (at, (name, input)) in calls.iter().enumerate() {
            // A write makes a room's process, so there are many reads to one.
            for _ in 0..if name.ends_with("write") { 1 } else { 20 } {
                match serve(host, name, input) {
                    Some(said) => {
                        assert!(!said.contains(SECRET), "{name} {input}: {said}");
                        passed[at] += 1;
                    }
                    None => stopped += 1,
                }
            }
        }
    }
    swapper.kill();
    host.runtime.block_on(swapper.wait()).unwrap();
    for file in &kept {
        assert_eq!(fs::read_to_string(file).unwrap(), SECRET);
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    let hidden = host.call("shell.run", json!({"command": ["cat", "hidden/file.txt"]}));
    assert!(format!("{hidden:?}").contains(SECRET), "a write went through a link: {hidden:?}");
}

/// A call as the kernel makes it: the gate judges where the name really leads, and the tool gets that place. `None` if either stops it.
fn serve(host: &Host, name: &str, input: &Value) -> Option<String> {
    let (room, project) = (host.room.as_ref().unwrap(), host.project());
    let tool = host.registry.find(name).unwrap();
    let root = room.root().as_fd();
    let visible = |path: &str| !path.contains("hidden");
    let mut resolved_paths = Vec::new();
    for target in tool.named_paths(input) {
        let resolved = ResolvedPath::open(root, &project, &target).ok()?;
        match &resolved.real {
            Real::Inside(path) if visible(path) => resolved_paths.push(resolved),
            _ => return None,
        }
    }
    let context = Context {
        root,
        project: &project,
        room: Some(room),
        test_command: None,
        output_max: 10_000,
        visible: &visible,
        mode: host.mode.get(),
        addresses: &AddressFilter::default(),
        subcalls: &NoSubcalls,
        environment: &host.environment,
        job: Default::default(),
        secrets: &[],
    };
    host.runtime.block_on(tool.run(input, resolved_paths, &context)).ok().map(|output| format!("{output:?}"))
}
