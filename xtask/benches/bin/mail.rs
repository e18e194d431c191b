//! Messages of the process tree, in a kernel of their own: durable sends by 64 callers, beside the journal's own rate in the same run; and how fast
//! a reader drains a backlog of 20,000. Prints one JSON line, in messages and records a second.

use journal::{Class, Draft, Filter, Journal, Options};
use kernel::{Home, Kernel};
use sandbox::Launcher;
use serde_json::json;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tree::{MessageOrder, QueueFilter, SpawnOrder};
use world::{MessagePriority, Pid, ProcessRole, ProgramLimits, ProgramRuntime, Recipient, Tier};

const CALLERS: usize = 64;
const MEASURED: Duration = Duration::from_secs(2);
const BACKLOG: usize = 20_000;
const ROUNDS: usize = 3;
/// What a message leaves in the journal.
const KINDS: [&str; 3] = ["call.admitted", "message.sent", "call.finished"];
const RECORDS: usize = KINDS.len();
/// Of an ordinary message.
const BODY_BYTES: usize = 200;

type Failure = Box<dyn Error + Send + Sync>;

fn failed(error: impl std::fmt::Display) -> Failure {
    error.to_string().into()
}

/// The records that one message leaves, for a journal that does nothing else.
async fn records_of_one(kernel: &Kernel, by: Pid, to: Pid) -> Result<Vec<Draft>, Failure> {
    kernel.tree.send(by, message(to)).await.map_err(failed)?;
    let kinds = KINDS.into_iter().map(str::to_owned).collect();
    let newest = Filter { kinds, limit: Some(RECORDS as u64), reverse: true, ..Filter::default() };
    let records = kernel.ledger.read(&newest).map_err(failed)?.into_iter().rev();
    let draft = |record: journal::Record| {
        let kind = KINDS
            .into_iter()
            .find(|kind| *kind == record.kind)
            .ok_or_else(|| failed(format!("{} is no record of a message", record.kind)))?;
        let payload = serde_json::value::RawValue::from_string(record.payload().map_err(failed)?.to_owned()).map_err(failed)?;
        let journal::Record { session, pid, task, at_ms, .. } = record;
        Ok(Draft { kind, session, pid, task, payload, at_ms, class: Class::Fact })
    };
    records.map(draft).collect()
}

/// Records a second of the journal alone, by so many callers who wait for each batch of these.
async fn journal_rate(folder: &Path, batch: &[Draft]) -> Result<f64, Failure> {
    let (journal, _) = Journal::open(folder, Options::default()).map_err(failed)?;
    let end = Instant::now() + MEASURED;
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (journal, batch) = (journal.clone(), batch.to_vec());
        callers.spawn(async move {
            let mut count = 0;
            while Instant::now() < end {
                journal.append(batch.clone()).durable().await.map_err(failed)?;
                count += batch.len();
            }
            Ok::<_, Failure>(count)
        });
    }
    let mut count = 0;
    while let Some(caller) = callers.join_next().await {
        count += caller??;
    }
    journal.close();
    Ok(count as f64 / MEASURED.as_secs_f64())
}

fn virtual_process(name: String) -> SpawnOrder {
    SpawnOrder {
        parent: Some(Pid::KERNEL),
        name,
        role: ProcessRole::Agent,
        tier: Tier::Operational,
        model: String::new(),
        system_prompt: String::new(),
        tools: Vec::new(),
        env: BTreeMap::new(),
        metadata: BTreeMap::new(),
        limits: ProgramLimits::default(),
        budget: None,
        runtime: ProgramRuntime::Virtual,
        image: String::new(),
        initial_task: None,
        schedule: None,
        user: None,
        confined: true,
    }
}

fn message(to: Pid) -> MessageOrder {
    MessageOrder {
        to: Recipient::Process(to),
        kind: "bench".into(),
        priority: MessagePriority::Normal,
        body: vec![b'x'; BODY_BYTES],
        requires_ack: false,
        ttl: None,
        reply_to: None,
    }
}

/// Sends by all callers, until each has sent its share or the time is over. Messages a second.
async fn send(kernel: &Arc<Kernel>, senders: &[Pid], to: &[Pid], most: usize) -> Result<(f64, usize), Failure> {
    let begun = Instant::now();
    let mut callers = JoinSet::new();
    for (at, by) in senders.iter().copied().enumerate() {
        let (kernel, to) = (kernel.clone(), to[at % to.len()]);
        callers.spawn(async move {
            let mut count = 0;
            while count < most && (most < usize::MAX || begun.elapsed() < MEASURED) {
                kernel.tree.send(by, message(to)).await.map_err(failed)?;
                count += 1;
            }
            Ok::<_, Failure>(count)
        });
    }
    let mut count = 0;
    while let Some(caller) = callers.join_next().await {
        count += caller??;
    }
    Ok((count as f64 / begun.elapsed().as_secs_f64(), count))
}

/// Reads until so many came. Messages a second.
async fn drain(kernel: &Arc<Kernel>, pid: Pid, count: usize) -> Result<f64, Failure> {
    let mut reader = kernel.tree.subscribe(pid, QueueFilter::default()).await.map_err(failed)?;
    let begun = Instant::now();
    for _ in 0..count {
        reader.next().await.ok_or("the mailbox was closed")?;
    }
    Ok(count as f64 / begun.elapsed().as_secs_f64())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_unstable_by(f64::total_cmp);
    rates[rates.len() / 2]
}

async fn measure_all(folder: &Path, launcher: Launcher) -> Result<(), Failure> {
    let home = Home::open(&folder.join("home")).map_err(failed)?;
    let kernel = Kernel::boot(home, launcher, Options::default(), None).await.map_err(failed)?;
    let mut senders = Vec::new();
    let mut readers = Vec::new();
    for at in 0..CALLERS {
        let child = kernel.tree.spawn(Pid::OPERATOR, virtual_process(format!("sender-{at}"))).await.map_err(failed)?;
        let below = SpawnOrder { parent: Some(child), role: ProcessRole::Worker, ..virtual_process(format!("worker-{at}")) };
        readers.push(child);
        senders.push(kernel.tree.spawn(Pid::OPERATOR, below).await.map_err(failed)?);
    }
    let (mut journal, mut sends, mut drains, mut sibling) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Each to its parent: admission, message and end are three records.
        let batch = records_of_one(&kernel, senders[0], readers[0]).await?;
        journal.push(journal_rate(&folder.join(format!("journal-{round}")), &batch).await?);
        let (rate, count) = send(&kernel, &senders, &readers, usize::MAX).await?;
        sends.push(rate);
        for reader in &readers {
            let waiting = kernel.ledger.look(|world| world.mail.waiting(&Recipient::Process(*reader)));
            drain(&kernel, *reader, waiting).await?;
        }
        // Between siblings there is a copy besides.
        let rotated: Vec<Pid> = readers.iter().skip(1).chain(readers.first()).copied().collect();
        sibling.push(send(&kernel, &readers, &rotated, 50).await?.0);
        for reader in &readers {
            let waiting = kernel.ledger.look(|world| world.mail.waiting(&Recipient::Process(*reader)));
            drain(&kernel, *reader, waiting).await?;
        }
        let target = kernel.tree.spawn(Pid::OPERATOR, virtual_process(format!("target-{round}"))).await.map_err(failed)?;
        let operators = [Pid::OPERATOR; CALLERS];
        send(&kernel, &operators, &[target], BACKLOG.div_ceil(CALLERS)).await?;
        drains.push(drain(&kernel, target, BACKLOG).await?);
        eprintln!("round {round}: {count} sent at {rate:.0}/s, drained at {:.0}/s", drains[round]);
    }
    kernel.stop("bench").await.map_err(failed)?;
    let (journal, sends, drains, sibling) = (median(journal), median(sends), median(drains), median(sibling));
    let bound = journal / RECORDS as f64;
    println!(
        "{}",
        json!({ "journal_records": journal, "send": sends, "records_per_message": RECORDS, "ratio": sends / bound, "send_with_copy": sibling, "drain": drains })
    );
    Ok(())
}

pub(crate) fn run() -> Result<(), Failure> {
    let launcher = Launcher::start().map_err(failed)?;
    let folder = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure_all(folder.path(), launcher))
}
