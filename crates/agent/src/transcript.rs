//! What a client writes, line by line as it comes: kept as blobs that records name.
//!
//! **Invariant.** A client that writes without end fills neither memory nor disk: what is too much is counted, and the count is on record.

use ledger::Ledger;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use world::event::{BrainTranscribed, RecordsDropped};
use world::limits::{TRANSCRIPT_BYTES_MAX, TRANSCRIPT_HELD_MAX};
use world::{Fault, Pid, TaskId};

/// Lines that come within this time are kept together.
const TOGETHER: Duration = Duration::from_millis(300);

/// The lines of one run of a client.
pub struct ClientTranscript {
    held: Arc<HeldLines>,
    writer: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct HeldLines {
    buffer: Mutex<LineBuffer>,
    more: Notify,
}

#[derive(Default)]
struct LineBuffer {
    text: String,
    lines: u64,
    /// Bytes of all that was taken so far.
    taken: u64,
    dropped: u64,
    is_over: bool,
}

impl ClientTranscript {
    pub fn begin(ledger: Arc<Ledger>, pid: Pid, task: TaskId) -> ClientTranscript {
        let held: Arc<HeldLines> = Arc::default();
        let writer = tokio::spawn(write(ledger, pid, task, held.clone()));
        ClientTranscript { held, writer: Some(writer) }
    }

    pub fn keep(&self, line: &str) {
        let mut buffer = self.held.buffer.lock();
        let bytes = line.len() as u64 + 1;
        if buffer.text.len() + line.len() > TRANSCRIPT_HELD_MAX || buffer.taken + bytes > TRANSCRIPT_BYTES_MAX {
            buffer.dropped += 1;
            return;
        }
        buffer.text.push_str(line);
        buffer.text.push('\n');
        (buffer.lines, buffer.taken) = (buffer.lines + 1, buffer.taken + bytes);
        drop(buffer);
        self.held.more.notify_one();
    }

    /// A way to wait until everything is on record.
    pub fn over(&mut self) -> impl Future<Output = ()> + Send + 'static {
        let (held, writer) = (self.held.clone(), self.writer.take());
        async move {
            held.buffer.lock().is_over = true;
            held.more.notify_one();
            if let Some(writer) = writer {
                // One that panicked has no more to tell.
                drop(writer.await);
            }
        }
    }
}

/// Whoever is dropped without a word has said all it will.
impl Drop for ClientTranscript {
    fn drop(&mut self) {
        if self.writer.is_some() {
            self.held.buffer.lock().is_over = true;
            self.held.more.notify_one();
        }
    }
}

async fn write(ledger: Arc<Ledger>, pid: Pid, task: TaskId, held: Arc<HeldLines>) {
    loop {
        held.more.notified().await;
        if !held.buffer.lock().is_over {
            tokio::time::sleep(TOGETHER).await;
        }
        let (text, lines, is_over) = {
            let mut buffer = held.buffer.lock();
            (std::mem::take(&mut buffer.text), std::mem::take(&mut buffer.lines), buffer.is_over)
        };
        if let Err(fault) = keep(&ledger, pid, task, &text, lines).await {
            world::log!("skep: {lines} lines of the brain of {task} are not on record: {fault}");
        }
        if !is_over {
            continue;
        }
        let count = held.buffer.lock().dropped;
        if count > 0
            && let Err(fault) = ledger.record(RecordsDropped { pid, task: Some(task), kind: "brain.transcribed".into(), count }).await
        {
            world::log!("skep: {count} lines of the brain of {task} were dropped: {fault}");
        }
        return;
    }
}

async fn keep(ledger: &Ledger, pid: Pid, task: TaskId, text: &str, lines: u64) -> Result<(), Fault> {
    if lines == 0 {
        return Ok(());
    }
    let redacted = ledger.redactor.text(text);
    let blob = ledger.keep(redacted.as_bytes())?;
    ledger.record(BrainTranscribed { pid, task: Some(task), blob, lines, bytes: redacted.len() as u64 }).await
}
