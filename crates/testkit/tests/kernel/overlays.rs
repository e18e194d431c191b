//! Random hostile work in real rooms, merged by whole kernels, against the oracle that says what may be in the project afterwards.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

#[path = "../../oracle/oracle.rs"]
mod oracle;

use kernel::{Kernel, Stop, Tuning};
use oracle::{OracleMerge, OracleTree, Thing};
use sandbox::Launcher;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use testkit::bed::Bed;
use testkit::harness::Test;
use world::TaskState;

const POLICY: &str = "\
capabilities:
  - { name: runs, match: { syscall: [shell.run, fs.read] }, action: allow }
  - { name: never, match: { syscall: [fs.write, fs.delete, fs.move], path_glob: /view.list }, action: deny, reason: never }
  - { name: files, match: { syscall: [fs.write, fs.delete, fs.move] }, action: allow }
  - { name: merges, match: { syscall: merge.apply }, action: require_review, reason: look }
";

/// What a brain does in its room. It ends with a list of all that it sees.
const WORK: &str = r##"
import os, random, shutil, stat, sys, json
random.seed(int(sys.argv[1]))
plain = [b'a', b'b', b'c', b'd', b'e', b'f']
odd = [b'HEAD', b'head', b'objects', b'refs', b'commondir', b'.GIT', b'.git', b'.skep', b'skep.yml', b'.hg', b'x y', b'n\nl', b'\x1b[2J', b'\xff\xfe', b'-rf', '.g\u200cit'.encode()]
def name(): return random.choice(plain if random.random() < .75 else odd)
def folders():
    found = [b'.']
    for at, inner, _ in os.walk(b'.'):
        inner[:] = [n for n in inner if not (at == b'.' and n == b'.git') and not os.path.islink(os.path.join(at, n))]
        found += [os.path.join(at, n) for n in inner]
    return found
def target():
    parts = [random.choice([b'..', b'..', b'.', name(), name(), name()]) for _ in range(random.randint(1, 5))]
    return (b'/' if random.random() < .07 else b'') + b'/'.join(parts)
def clear(path):
    if not os.path.lexists(path): return
    if os.path.isdir(path) and not os.path.islink(path): shutil.rmtree(path)
    else: os.unlink(path)
def write(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK)
    os.write(fd, b'%d\n' % random.randint(0, 99999)); os.close(fd)
def mode(path, bits):
    if stat.S_ISREG(os.lstat(path).st_mode): os.chmod(path, bits)
def act(path):
    kind = random.randint(0, 99)
    if path == b'./.git' and random.random() < .9: return
    if kind < 30: write(path)
    elif kind < 45: os.mkdir(path); write(os.path.join(path, name()))
    elif kind < 62: clear(path); os.symlink(target(), path)
    elif kind < 72: clear(path)
    elif kind < 82: clear(path); os.mkdir(path); [write(os.path.join(path, n)) for n in {name() for _ in range(3)}]
    elif kind < 88: clear(path); write(path)
    elif kind < 90: clear(path); os.mkfifo(path)
    elif kind < 92: mode(path, 0o4755)
    elif kind < 95: mode(path, random.choice([0o755, 0o644]))
    elif kind < 98: os.rename(path, os.path.join(os.path.dirname(path), name()))
    else: os.link(path, os.path.join(os.path.dirname(path), name()))
for _ in range(random.randint(3, 14)):
    try: act(os.path.join(random.choice(folders()), name()))
    except OSError: pass
seen = []
for at, inner, files in os.walk(b'.'):
    inner[:] = [n for n in inner if not (at == b'.' and n == b'.git')]
    for n in inner + files:
        path = os.path.join(at, n)
        meta = os.lstat(path)
        text = b''
        kind = 'special'
        if stat.S_ISLNK(meta.st_mode): kind, text = 'link', os.readlink(path)
        elif stat.S_ISDIR(meta.st_mode): kind = 'folder'
        elif stat.S_ISREG(meta.st_mode): kind, text = 'file', open(path, 'rb').read()
        seen.append([path[2:].hex(), kind, text.hex(), stat.S_IMODE(meta.st_mode)])
clear(b'view.list')
json.dump(seen, open(b'view.list', 'w'))
"##;

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("work_in_rooms_1", || play(0)),
        Test::new("work_in_rooms_2", || play(1)),
        Test::new("work_in_rooms_3", || play(2)),
        Test::new("without_an_exchange_a_replacement_waits_for_a_person_who_is_told_why", guarded),
    ]
}

/// So many tasks in the tests, and so many in `cargo xtask soak`.
fn cases() -> u64 {
    if std::env::var_os("SKEP_SOAK").is_some() { 250 } else { 12 }
}

fn play(part: u64) -> Result<(), String> {
    let files = [("a", "1\n"), ("b/c", "2\n"), ("c/d/e", "3\n"), ("d/HEAD", "4\n"), ("e/a/b", "5\n"), (".skep/policy.yaml", POLICY)];
    let bed = Bed::new(&files.map(|(path, text)| (path.to_owned(), text.to_owned())))?;
    let launcher = Launcher::start().map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let kernel = bed.boot(launcher).await.map_err(|fault| fault.to_string())?;
        let proposal = kernel.gate.init(&bed.project()).await.map_err(|stop| stop.to_string())?;
        testkit::trust(&kernel, &bed.project(), &proposal.hash).await.map_err(|stop| stop.to_string())?;
        let (mut merged, cases) = (0, cases());
        for seed in (0..cases).map(|number| part * cases + number) {
            bed.commit()?;
            merged += one(&kernel, &bed, seed).await.map_err(|why| format!("seed {seed}: {why}"))?;
        }
        println!("{merged} paths merged in {cases} tasks");
        if merged > cases { Ok(()) } else { Err(format!("only {merged} paths were merged, so nothing is proven")) }
    })
}

/// The same task where files can be exchanged, and where they cannot.
fn guarded() -> Result<(), String> {
    let launchers = [Launcher::start(), Launcher::start()].map(|launcher| launcher.map_err(|error| error.to_string()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| error.to_string())?;
    for (launcher, exchanges_files) in launchers.into_iter().zip([true, false]) {
        let files = [("a", "1\n"), ("b", "2\n"), (".skep/policy.yaml", POLICY)];
        let bed = Bed::new(&files.map(|(path, text)| (path.to_owned(), text.to_owned())))?;
        let script = bed.home().with_extension("script");
        let work = "call shell.run command=[\"sh\", \"-c\", \"echo 3 > a; echo 4 > c\"]\ndone\n";
        std::fs::write(&script, work).map_err(|error| error.to_string())?;
        let told = runtime.block_on(async {
            let tuning = Tuning { exchanges_files, ..Tuning::default() };
            let kernel = bed.boot_tuned(launcher?, tuning).await.map_err(|fault| fault.to_string())?;
            let run = async {
                let proposal = kernel.gate.init(&bed.project()).await?;
                testkit::trust(&kernel, &bed.project(), &proposal.hash).await?;
                let new = bed.task("work", &script);
                let task = kernel.add(new).await?.task;
                kernel.tasks.settled(task).await?;
                let reasons =
                    kernel.ledger.look(|world| world.reviews.values().flat_map(|review| review.reasons.clone()).collect::<Vec<_>>());
                kernel.merge(task, None, BTreeMap::new(), "human").await?;
                Ok(reasons)
            };
            run.await.map_err(|stop: Stop| stop.to_string())
        })?;
        let about: Vec<&String> = told.iter().filter(|reason| reason.contains("cannot exchange two files")).collect();
        if about.len() != usize::from(!exchanges_files) || about.iter().any(|reason| !reason.starts_with("a: ")) {
            return Err(format!("exchanges: {exchanges_files}, told: {told:?}"));
        }
        let read = |name: &str| std::fs::read_to_string(bed.project().join(name)).unwrap_or_default();
        if (read("a"), read("b"), read("c")) != ("3\n".into(), "2\n".into(), "4\n".into()) {
            return Err(format!("{} {} {}", read("a"), read("b"), read("c")));
        }
    }
    Ok(())
}

/// One task and its merge; how many paths changed.
async fn one(kernel: &Arc<Kernel>, bed: &Bed, seed: u64) -> Result<u64, String> {
    let said = |stop: Stop| stop.to_string();
    let script = bed.home().with_extension("script");
    let command = serde_json::to_string(&["python3", "-c", WORK, &seed.to_string()]).unwrap();
    std::fs::write(&script, format!("call shell.run command={command}\ndone\n")).unwrap();
    let before = project(bed);
    let new = bed.task("work", &script);
    let task = kernel.add(new).await.map_err(said)?.task;
    let state = kernel.tasks.settled(task).await.map_err(said)?.state;
    if !matches!(state, TaskState::Parked { .. }) {
        // Every change stays out, or there is none.
        let after = project(bed);
        return if after == before && state == TaskState::Done { Ok(0) } else { Err(format!("{state:?}: {before:?} is {after:?}")) };
    }
    let list = bed.home().join(format!("work/{task}/upper/view.list"));
    let made = listed(&std::fs::read(&list).map_err(|error| format!("{error}: {}", ended(kernel)))?);
    let told = kernel.merge(task, None, BTreeMap::new(), "human").await.map_err(said)?;
    let after = project(bed);
    let refused = |path: &Path| path == Path::new("view.list");
    OracleMerge { before: &before, made: &made, after: &after, refused: &refused, ignored: &|_| false, moves: true }
        .check()
        .map_err(|why| format!("{why}\nbefore {before:?}\nmade {made:?}\nafter {after:?}\ntold {told:?}"))?;
    Ok(before.iter().filter(|(path, thing)| after.get(*path) != Some(thing)).count() as u64
        + after.keys().filter(|path| !before.contains_key(*path)).count() as u64)
}

/// How the last call ended.
fn ended(kernel: &Kernel) -> String {
    let filter = journal::Filter { kinds: vec!["call.finished".into()], ..journal::Filter::default() };
    kernel.ledger.read(&filter).ok().and_then(|records| records.last().map(|record| record.line.clone())).unwrap_or_default()
}

/// The project without git's own folder.
fn project(bed: &Bed) -> OracleTree {
    let mut tree = oracle::read(&bed.project());
    tree.retain(|path, _| !path.starts_with(".git"));
    tree
}

fn listed(bytes: &[u8]) -> OracleTree {
    let list: Vec<(String, String, String, u32)> = serde_json::from_slice(bytes).unwrap();
    let raw = |hex: &str| -> Vec<u8> { (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap()).collect() };
    let thing = |(path, kind, text, mode): (String, String, String, u32)| {
        let thing = match kind.as_str() {
            "file" => Thing::File { bytes: raw(&text), mode },
            "link" => Thing::Link(OsString::from_vec(raw(&text))),
            "folder" => Thing::Folder,
            _ => Thing::Special,
        };
        (PathBuf::from(OsString::from_vec(raw(&path))), thing)
    };
    list.into_iter().map(thing).collect()
}
