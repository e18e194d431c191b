//! Records that may be late: written without a sync of their own, and admissions of reads that are written with the read's end.
//!
//! **Invariant.** They stand before every later record, and nobody is told of a read before its end is written. Nothing leaves the machine
//! before they are synced.

use super::{Ledger, State};
use journal::{Journal, Ticket};
use std::pin::Pin;
use std::task::Poll;
use world::Fault;

/// What a commit is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgency {
    /// It counts once it is on disk.
    Synced,
    /// It counts once it is written, which outlives this process. A power cut may take it for half a second more.
    Written,
    /// The same, and it is written with the next commit, which whoever asked waits for: [`Ledger::write_if_waiting`].
    Held,
}

impl Ledger {
    /// Does work that late records stand before. They are written with its own if it ends at once, and now if it does not.
    pub async fn write_if_waiting<T>(&self, mut work: Pin<&mut impl Future<Output = T>>) -> T {
        let begun = std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
        match begun {
            Poll::Ready(done) => done,
            Poll::Pending => {
                self.state.lock().write_held(&self.journal);
                work.await
            }
        }
    }

    /// Whether a power cut could still take something that somebody acted on. What is told to the outside waits for that.
    pub fn has_late(&self) -> bool {
        let mut state = self.state.lock();
        let is_late = !state.held.is_empty() || state.late_until.is_some_and(|last| self.journal.head().count <= last);
        if !is_late {
            state.late_until = None;
        }
        is_late
    }

    /// Waits until nothing is late.
    pub async fn settle_late(&self) -> Result<(), Fault> {
        if self.has_late() {
            self.commit(|_, _| (Vec::new(), ()))?.durable().await?;
        }
        Ok(())
    }
}

impl State {
    /// Appends what is held. Without anything it still waits for what a decision was made on.
    pub(super) fn append_held(&mut self, journal: &Journal, is_late: bool) -> Ticket {
        let drafts = std::mem::take(&mut self.held);
        match drafts.is_empty() {
            true => journal.barrier(),
            false if is_late => {
                let ticket = journal.append_late(drafts);
                self.late_until = ticket.place().map(|place| place.last_seq).or(self.late_until);
                ticket
            }
            false => journal.append_with(drafts, std::mem::take(&mut self.bodies)),
        }
    }

    /// Has late records written that wait for the next commit. Whoever acts on them waits for a commit of its own, which stands behind them.
    pub(super) fn write_held(&mut self, journal: &Journal) {
        if !self.held.is_empty() {
            drop(self.append_held(journal, true));
        }
    }
}
