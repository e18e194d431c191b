//! Measures the journal beside a raw group commit and raw hashing, in one run on one machine; prints one JSON object.
//!
//! The reference has the same threads, the same queue and the same bytes: a file, one append and one fdatasync per drain.

use std::error::Error;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use journal::{Class, Draft, Journal, Options};
use serde_json::json;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

const RUN: Duration = Duration::from_secs(2);
const ROUNDS: u32 = 3;
const VERIFY_RECORDS: u64 = 300_000;

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
    let (verify, sha) = bench_verify(&dir.path().join("verify"))?;
    let result = json!({
        "append": append,
        "verify": {"records": VERIFY_RECORDS, "ours_mb_per_s": verify.round(), "raw_mb_per_s": sha.round(), "ratio": ratio(verify, sha)},
    });
    println!("{result}");
    Ok(())
}

fn ratio(ours: f64, raw: f64) -> f64 {
    (ours / raw * 100.0).round() / 100.0
}

fn draft(n: u64) -> Fallible<Draft> {
    let payload = format!(
        r#"{{"pid":{},"task":"task-{}","call":"call-{n}","tool":"fs.write","path":"src/module/file_{n}.rs","digest":"9674c54d1416a9d4f72de66b25526e946ef34c89419fe256ffefc2f6bd61f6df"}}"#,
        n % 64,
        n % 64
    );
    Ok(Draft {
        kind: "call.admitted",
        session: "s-1".into(),
        pid: Some(n % 64),
        task: Some(format!("task-{}", n % 64)),
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

/// MB/s of verify and of hashing the same lines from memory.
fn bench_verify(home: &Path) -> Fallible<(f64, f64)> {
    let (journal, _) = Journal::open(home, Options::default())?;
    let mut last = None;
    for from in (0..VERIFY_RECORDS).step_by(1000) {
        last = Some(journal.append((from..from + 1000).map(draft).collect::<Fallible<Vec<_>>>()?));
    }
    if let Some(ticket) = last {
        ticket.wait()?;
    }
    let mut lines = Vec::new();
    journal.export(&mut lines, &journal::Filter::default())?;
    journal.close();
    let (mut verify, mut sha) = (0.0f64, 0.0f64);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let report = journal::verify(home)?;
        if !report.is_intact() || report.records != VERIFY_RECORDS {
            return Err(format!("the journal does not verify: {report:?}").into());
        }
        verify = verify.max(report.bytes as f64 / 1e6 / start.elapsed().as_secs_f64());
        let start = Instant::now();
        let mut sum = 0u8;
        for line in lines.split(|byte| *byte == b'\n') {
            sum ^= Sha256::digest(line)[0];
        }
        std::hint::black_box(sum);
        sha = sha.max(lines.len() as f64 / 1e6 / start.elapsed().as_secs_f64());
    }
    Ok((verify, sha))
}
