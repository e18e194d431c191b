//! Measures the journal beside a raw group commit and raw hashing, in one run on one machine; prints one JSON object.
//!
//! The reference has the same threads, the same queue and the same bytes: a file, one append and one fdatasync per drain.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use journal::{Class, Draft, Filter, Journal, Options};
use serde_json::json;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const RUN: Duration = Duration::from_secs(2);
const ROUNDS: u32 = 3;
const HISTORY_RECORDS: u64 = 1_000_000;
/// Each question is asked so often.
const QUESTIONS: u32 = 15;

fn main() -> Fallible<()> {
    let home = std::env::args().nth(1).map_or_else(|| std::env::current_dir().map(|dir| dir.join("target")), |dir| Ok(dir.into()))?;
    let dir = tempfile::tempdir_in(home)?;
    let mut append = Vec::new();
    for writers in [1, 8, 64] {
        // The rounds alternate, so that a disk that changes its mood meets both.
        let (mut ours, mut raw) = (0.0, 0.0);
        for round in 0..ROUNDS {
            ours += bench_ours(&dir.path().join(format!("ours-{writers}-{round}")), writers)? / f64::from(ROUNDS);
            raw += bench_raw(&dir.path().join(format!("raw-{writers}-{round}")), writers)? / f64::from(ROUNDS);
        }
        append.push(json!({"writers": writers, "ours_per_s": ours.round(), "raw_per_s": raw.round(), "ratio": ratio(ours, raw)}));
    }
    let history = dir.path().join("history");
    fill(&history)?;
    let questions = bench_questions(&history)?;
    let (verify, sha, seconds) = bench_verify(&history)?;
    let result = json!({
        "append": append,
        "questions": questions,
        "verify": {"records": HISTORY_RECORDS, "seconds": seconds, "ours_mb_per_s": verify.round(), "raw_mb_per_s": sha.round(), "ratio": ratio(verify, sha)},
    });
    println!("{result}");
    Ok(())
}

fn ratio(ours: f64, raw: f64) -> f64 {
    (ours / raw * 100.0).round() / 100.0
}

fn draft(n: u64) -> Fallible<Draft> {
    draft_of(n, n % 64)
}

fn draft_of(n: u64, task: u64) -> Fallible<Draft> {
    let payload = format!(
        r#"{{"pid":{},"task":"task-{task}","call":"call-{n}","tool":"fs.write","path":"src/module/file_{n}.rs","digest":"9674c54d1416a9d4f72de66b25526e946ef34c89419fe256ffefc2f6bd61f6df"}}"#,
        n % 64,
    );
    Ok(Draft {
        kind: "call.admitted",
        session: "s-1".into(),
        pid: Some(n % 64),
        task: Some(format!("task-{task}")),
        payload: RawValue::from_string(payload)?,
        at_ms: 1_794_000_000_000 + n.cast_signed(),
        class: Class::Fact,
    })
}

/// Runs `writers` threads that each append and wait, again and again; returns records per second.
fn drive(writers: u64, append: impl Fn(u64) -> Fallible<()> + Sync) -> Fallible<f64> {
    let start = Instant::now();
    let total = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|writer| {
                let append = &append;
                scope.spawn(move || -> Fallible<u64> {
                    let mut count = 0;
                    while start.elapsed() < RUN {
                        append(writer + count * writers)?;
                        count += 1;
                    }
                    Ok(count)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a writer panicked")?).sum::<Fallible<u64>>()
    })?;
    Ok(total as f64 / start.elapsed().as_secs_f64())
}

fn bench_ours(home: &Path, writers: u64) -> Fallible<f64> {
    let (journal, _) = Journal::open(home, Options::default())?;
    let rate = drive(writers, |n| {
        journal.append(vec![draft(n)?]).wait()?;
        Ok(())
    })?;
    journal.close();
    std::fs::remove_dir_all(home)?;
    Ok(rate)
}

struct RawJob {
    bytes: Vec<u8>,
    done: oneshot::Sender<()>,
}

fn bench_raw(path: &Path, writers: u64) -> Fallible<f64> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let (jobs, queue): (Sender<RawJob>, Receiver<RawJob>) = channel();
    let writer = std::thread::spawn(move || -> std::io::Result<()> {
        let mut bytes = Vec::new();
        let mut waiting = Vec::new();
        while let Ok(first) = queue.recv() {
            bytes.clear();
            for job in std::iter::once(first).chain(queue.try_iter()) {
                bytes.extend_from_slice(&job.bytes);
                waiting.push(job.done);
            }
            file.write_all(&bytes)?;
            file.sync_data()?;
            for done in waiting.drain(..) {
                let _ = done.send(());
            }
        }
        Ok(())
    });
    let jobs_ref = &jobs;
    let rate = drive(writers, |n| {
        let draft = draft(n)?;
        // As many bytes as our line has.
        let line = format!(
            "{{\"event_id\":\"{:036}\",\"timestamp\":\"{:024}\",\"session_id\":\"{}\",\"type\":\"{}\",\"payload\":{},\"hash_prev\":\"{:064}\",\"seq\":{n},\"v\":1}}\n",
            n,
            draft.at_ms,
            draft.session,
            draft.kind,
            draft.payload.get(),
            n
        );
        let (done, wait) = oneshot::channel();
        jobs_ref.send(RawJob { bytes: line.into_bytes(), done }).map_err(|_| "the raw writer ended")?;
        wait.blocking_recv()?;
        Ok(())
    })?;
    drop(jobs);
    writer.join().map_err(|_| "the raw writer panicked")??;
    std::fs::remove_file(path)?;
    Ok(rate)
}

/// A journal of many tasks, a second for every thousand records.
fn fill(home: &Path) -> Fallible<()> {
    let (journal, _) = Journal::open(home, Options::default())?;
    let of_task = |n: u64| {
        let kind = if n.is_multiple_of(100_000) { "policy.updated" } else { ["call.admitted", "call.finished"][usize::from(n % 2 == 1)] };
        Ok(Draft { kind, ..draft_of(n, n / 50)? })
    };
    let mut last = None;
    for from in (0..HISTORY_RECORDS).step_by(1000) {
        last = Some(journal.append((from..from + 1000).map(of_task).collect::<Fallible<Vec<_>>>()?));
    }
    if let Some(ticket) = last {
        ticket.wait()?;
    }
    journal.close();
    Ok(())
}

/// Questions about a few of many records, and the same by looking at all of them; medians in milliseconds.
fn bench_questions(home: &Path) -> Fallible<serde_json::Value> {
    // The one that came with the records is not whole, and how long a whole one takes is a figure too.
    for file in ["index.db", "index.db-wal", "index.db-shm"].map(|name| home.join(name)) {
        if file.exists() {
            std::fs::remove_file(file)?;
        }
    }
    let (journal, _) = Journal::open(home, Options::default())?;
    let began = Instant::now();
    while journal.indexed() < HISTORY_RECORDS {
        if let Some(error) = journal.take_index_trouble() {
            return Err(error.into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let built = began.elapsed();
    let second = 1_794_000_000_000 + 500_000;
    let of = [
        ("kind", Filter { kinds: vec!["policy.updated".into()], ..Filter::default() }, 10),
        ("task", Filter { task: Some("task-777".into()), ..Filter::default() }, 50),
        (
            "pid",
            Filter {
                pid: Some(17),
                limit: Some(100),
                reverse: true,
                kinds: vec!["policy.".into(), "call.finished".into()],
                ..Filter::default()
            },
            100,
        ),
        ("time", Filter { since_ms: Some(second), until_ms: Some(second + 1000), ..Filter::default() }, 1000),
    ];
    let mut figures = Vec::new();
    for (by, filter, expected) in of {
        let ask = |filter: &Filter| -> Fallible<Duration> {
            let start = Instant::now();
            let found = journal.read(filter)?.len();
            let took = start.elapsed();
            if found == expected { Ok(took) } else { Err(format!("{found} records by {by}, not {expected}").into()) }
        };
        let (mut ours, mut scans) = (Vec::new(), Vec::new());
        let scan = Filter { scans: true, ..filter.clone() };
        for round in 0..QUESTIONS {
            ours.push(ask(&filter)?);
            if round % 5 == 0 {
                scans.push(ask(&scan)?);
            }
        }
        figures.push(json!({"by": by, "ours_ms": median_ms(ours), "scan_ms": median_ms(scans)}));
    }
    journal.close();
    Ok(json!({"built_ms": built.as_secs_f64() * 1000.0, "by": figures}))
}

fn median_ms(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times.get(times.len() / 2).map_or(0.0, |time| (time.as_secs_f64() * 100_000.0).round() / 100.0)
}

/// MB/s of verify and of hashing the same lines from memory, and how long one verification takes.
fn bench_verify(home: &Path) -> Fallible<(f64, f64, f64)> {
    let (journal, _) = Journal::open(home, Options::default())?;
    let mut lines = Vec::new();
    journal.export(&mut lines, &Filter::default())?;
    journal.close();
    let (mut verify, mut sha, mut seconds) = (0.0f64, 0.0f64, f64::MAX);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let report = journal::verify(home)?;
        if !report.is_intact() || report.records != HISTORY_RECORDS {
            return Err(format!("the journal does not verify: {report:?}").into());
        }
        let took = start.elapsed().as_secs_f64();
        verify = verify.max(report.bytes as f64 / 1e6 / took);
        seconds = seconds.min(took);
        let start = Instant::now();
        let mut sum = 0u8;
        for line in lines.split(|byte| *byte == b'\n') {
            sum ^= Sha256::digest(line)[0];
        }
        std::hint::black_box(sum);
        sha = sha.max(lines.len() as f64 / 1e6 / start.elapsed().as_secs_f64());
    }
    Ok((verify, sha, seconds))
}
