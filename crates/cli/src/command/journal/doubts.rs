//! `skep journal doubts`: what verification found wrong, and a person's word that they have looked at it.

use crate::console::{Console, ExitResult, OK};
use crate::show::{journal, measure};
use jiff::tz::TimeZone;
use wire::KernelClient;
use wire::method::Nothing;
use wire::method::journal::JournalAcknowledgeParams;
use wire::table::{JournalAcknowledge, JournalDoubts};

#[derive(Debug, clap::Args)]
pub struct DoubtsArgs {
    /// Mark all that are shown as seen; other commands stop reporting them
    #[arg(long)]
    seen: bool,
    /// Also those marked as seen
    #[arg(long)]
    all: bool,
}

impl DoubtsArgs {
    pub async fn run(self, kernel: &mut KernelClient, console: &Console) -> ExitResult {
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
        console.show_wrapped(&result, |result| journal::doubts(result, measure::now_ms(), &TimeZone::system()));
        OK
    }
}
