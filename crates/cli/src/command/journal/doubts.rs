//! `skep journal doubts`: what verification found wrong, and a person's word that they have looked at it.

use crate::console::{Console, OK, Outcome};
use crate::show::{journal, measure};
use jiff::tz::TimeZone;
use wire::Client;
use wire::method::Nothing;
use wire::method::journal::JournalAcknowledgeParams;
use wire::table::{JournalAcknowledge, JournalDoubts};

#[derive(Debug, clap::Args)]
pub struct Doubts {
    /// Record that you have looked at all that are shown; other commands stop telling of them
    #[arg(long)]
    seen: bool,
    /// Those that were looked at before, too
    #[arg(long)]
    all: bool,
}

impl Doubts {
    pub async fn run(self, kernel: &mut Client, console: &Console) -> Outcome {
        let mut result = kernel.call::<JournalDoubts>(&Nothing {}).await?;
        if let Some(upto) = result.doubts.iter().filter(|doubt| doubt.seen_by.is_none()).map(|doubt| doubt.number).max()
            && self.seen
        {
            // What is acknowledged is what was shown, and nothing that is found meanwhile.
            result.doubts = kernel.call::<JournalAcknowledge>(&JournalAcknowledgeParams { upto }).await?.doubts;
            result.doubts.retain(|doubt| doubt.number <= upto);
        } else if !self.all {
            result.doubts.retain(|doubt| doubt.seen_by.is_none());
        }
        console.show_whole(&result, |result| journal::doubts(result, measure::now_ms(), &TimeZone::system()));
        OK
    }
}
