//! What people are told of the work: transcripts, what each prompt took, how far long work is, and what waits for them.
//!
//! All of it is read from the record, or said by whoever does the work. **Invariant.** Nothing here changes the world: whoever asks twice
//! is told the same, and work that nobody looks at goes on as it would.
#![forbid(unsafe_code)]

mod brain_output;
mod counted_work;
mod notify;
mod session_report;
mod settled_calls;
mod transcripts;
mod watchers;
mod work_hold;

pub use brain_output::{BrainOutput, brain_outputs, starts_afresh};
pub use counted_work::{CountedKind, CountedWork, CountedWorks, WorkCounter};
pub use notify::Notifier;
pub use session_report::{ReportedPlan, ReportedReview, ReportedStep, SessionReport};
pub use settled_calls::calls_settled_until;
pub use transcripts::{TranscriptLine, TranscriptPage, TranscriptQuery, TranscriptSize, Transcripts};
pub use watchers::{WatchSeat, Watchers};
pub use work_hold::WorkHold;
