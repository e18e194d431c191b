//! The verification of the whole chain after every start, and what became of its findings.
//!
//! It runs beside the work, at idle priority and in short slices, up to the head that the start found. A finding is a record, shown by
//! every face until a person has looked at it. **Invariant.** A kernel that stops waits for one slice at most, and what was found until
//! then is on record.

use crate::Ledger;
use journal::{Examined, Finding, Flaw};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::JoinHandle;
use world::Stop;
use world::event::{JournalAcknowledged, JournalDoubted};
use world::{BlobNames, Code, Event, Fault, Pid, Refusal, World};

/// Findings of one verification that have a record each; the rest is counted in one more.
const DOUBTS_MAX: usize = 20;

/// How far the verification of this start is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verification {
    #[default]
    Running,
    Whole,
    Doubted,
    /// It did not come to its end.
    Failed,
}

/// The verification that this start began.
#[derive(Default)]
pub struct Verifier {
    state: Arc<Mutex<Verification>>,
    stop: Arc<AtomicBool>,
    task: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Verifier {
    pub fn state(&self) -> Verification {
        *self.state.lock()
    }

    /// Starts it. Called once, when the first records of this boot are on disk. `yields` gives a thread the lowest priority, and says
    /// whether the host allows that.
    pub fn begin(&self, ledger: &Arc<Ledger>, yields: fn() -> bool) {
        let examination = ledger.journal().examination();
        let (stop, of) = (self.stop.clone(), Arc::downgrade(ledger));
        let (answer, wait) = tokio::sync::oneshot::channel();
        let thread = std::thread::Builder::new().name("verify".into()).spawn(move || {
            if !yields() {
                world::log!("skep: the journal is verified at ordinary priority: the host allows no other");
            }
            // Whoever waited may be gone, and with it the journal.
            drop(answer.send(examination.run(&|| !stop.load(Ordering::SeqCst) && of.strong_count() > 0)));
        });
        if let Err(error) = &thread {
            world::log!("skep: the journal is not verified: {error}");
        }
        let (state, of) = (self.state.clone(), Arc::downgrade(ledger));
        let task = tokio::spawn(async move {
            let examined = wait.await.unwrap_or_default();
            let Some(ledger) = of.upgrade() else { return };
            let recorded = record(&ledger, &examined).await;
            *state.lock() = match (&recorded, examined.complete) {
                (Ok(()), true) if examined.findings.is_empty() => Verification::Whole,
                (Ok(()), _) if !examined.findings.is_empty() => Verification::Doubted,
                _ => Verification::Failed,
            };
            if let Err(fault) = recorded {
                world::log!("skep: what is wrong with the journal was not recorded: {fault}");
            }
        });
        if let Ok(mut slot) = self.task.try_lock() {
            *slot = Some(task);
        }
    }

    /// Ends it after the slice in hand, with its findings on record.
    pub async fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(task) = self.task.lock().await.take()
            && let Err(error) = task.await
        {
            world::log!("skep: the verification of the journal did not end: {error}");
        }
    }
}

/// Which blobs a record names, for the journal, which does not know what records mean.
pub fn blob_names(kind: &str, payload: &str) -> (Vec<String>, Vec<String>) {
    let BlobNames { kept, forgotten } = BlobNames::of(kind, payload);
    (kept, forgotten)
}

async fn record(ledger: &Ledger, examined: &Examined) -> Result<(), Fault> {
    let pending = ledger.commit(|world, _| (doubts(world, &examined.findings, examined.more), ()))?;
    pending.durable().await
}

/// Whether it is an event of its own whenever it is found. The others stay in the files, and every start finds them again.
fn happens(what: Flaw) -> bool {
    use Flaw::{BadSnapshot, CutTail, Evidence, ForeignRows, RowsAfterStop, SealForged, SealMissing, SwappedFile};
    matches!(what, CutTail | SwappedFile | SealMissing | SealForged | BadSnapshot | RowsAfterStop | ForeignRows | Evidence)
}

/// The records of findings. What stays in the files is recorded once.
pub fn doubts(world: &World, findings: &[Finding], more: u64) -> Vec<Event> {
    let (pid, task) = (Pid::KERNEL, None);
    let told = |finding: &Finding| match finding.seq {
        Some(seq) => format!("record {seq}: {}", finding.why),
        None => finding.why.clone(),
    };
    let fresh: Vec<(String, String)> = findings
        .iter()
        .map(|finding| (happens(finding.what), finding.what.to_string(), told(finding)))
        .filter(|(happens, what, why)| *happens || !world.doubts.knows(what, why))
        .map(|(_, what, why)| (what, why))
        .collect();
    let more = more + fresh.len().saturating_sub(DOUBTS_MAX) as u64;
    let mut events: Vec<Event> =
        fresh.into_iter().take(DOUBTS_MAX).map(|(what, why)| JournalDoubted { pid, task, what, why }.into()).collect();
    let rest = ("more findings".to_owned(), format!("{more} are not listed here; a verification of the journal has them"));
    if more > 0 && !world.doubts.knows(&rest.0, &rest.1) {
        events.push(JournalDoubted { pid, task, what: rest.0, why: rest.1 }.into());
    }
    events
}

impl Ledger {
    /// A person has looked at the doubts up to this number.
    pub async fn acknowledge(&self, upto: u64, by: &str) -> Result<(), Stop> {
        let seen = JournalAcknowledged { pid: Pid::KERNEL, task: None, upto, by: by.to_owned() };
        let pending = self.commit(|world, _| match world.doubts.open().any(|doubt| doubt.number <= upto) {
            true => (vec![seen.into()], true),
            false => (Vec::new(), false),
        })?;
        match pending.durable().await? {
            true => Ok(()),
            false => Err(Refusal::new(Code::NotFound, format!("no doubt up to {upto} waits to be looked at"))
                .remedy(world::Remedy::List { what: world::Listing::Doubts })
                .into()),
        }
    }
}
