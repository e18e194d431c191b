//! `skep journal`: the record of everything.

mod doubts;
pub mod export;
pub mod filter;
mod forget;
pub mod page;
mod verify;

use crate::console::{Console, DoubtReport, ExitResult, OK};
use crate::interrupt::Interrupt;
use crate::record::ParsedRecord;
use crate::show::{journal, measure};
use clap::Subcommand;
use filter::FilterArgs;
use jiff::tz::TimeZone;
use page::Pages;
use wire::method::journal::{RECORD, RecordNote};
use wire::table::JournalFollow;
use wire::{ClientError, KernelClient};

/// Records that `journal log` shows when no limit is given: a screenful.
const LOG_RECORDS: u64 = 40;

/// Read, prove and export the journal
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep journal log --task task-3\n  skep journal log --kind call --since 10m\n  skep journal verify\n  \
skep journal export --out journal.jsonl\n  skep journal follow --kind review"
)]
pub struct JournalArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the newest records
    #[command(
        after_help = "Examples:\n  skep journal log\n  skep journal log --task task-3 --limit 100\n  skep journal log --kind call.refused --since 1d"
    )]
    Log(FilterArgs),
    /// Show records as they are written
    #[command(after_help = "Examples:\n  skep journal follow\n  skep journal follow --kind review,merge")]
    Follow(FilterArgs),
    /// Prove that no record was changed, added, moved or cut off
    #[command(
        after_help = "Examples:\n  skep journal verify && echo whole\n  skep journal verify --json\n  skep journal verify --offline\n\n\
When the kernel does not start, the files are verified without it."
    )]
    Verify(verify::VerifyArgs),
    /// Show what verification found wrong, until you have seen it
    #[command(after_help = "Examples:\n  skep journal doubts\n  skep journal doubts --seen\n\n\
Every start verifies the whole chain in the background; what it finds is told by every command until `--seen`.")]
    Doubts(doubts::DoubtsArgs),
    /// Destroy contents that records name; the chain stays whole
    #[command(
        after_help = "Examples:\n  skep journal forget 4521\n  skep journal forget 4521 --reason 'a password in the output' --yes\n\n\
A record itself never changes. What it names (an output, a frozen change, a base) is encrypted with a key of its own, and the key goes."
    )]
    Forget(forget::ForgetArgs),
    /// Print the stored lines, byte for byte
    #[command(after_help = "Examples:\n  skep journal export --out journal.jsonl\n  skep journal export | sha256sum")]
    Export(export::ExportArgs),
}

impl JournalArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        if let Action::Verify(verify) = self.action {
            return verify.run(console).await;
        }
        // A command that shows the doubts need not report them.
        let mut kernel = match self.action {
            Action::Doubts(_) => {
                let mut kernel = console.connect().await?;
                console.report_notices(&mut kernel, DoubtReport::InTheResult).await?;
                kernel
            }
            _ => console.kernel().await?,
        };
        match self.action {
            Action::Log(filtered) => log(&mut kernel, filtered, console).await,
            Action::Follow(filtered) => follow(&mut kernel, filtered, console).await,
            Action::Verify(verify) => verify.run(console).await,
            Action::Doubts(doubts) => doubts.run(&mut kernel, console).await,
            Action::Forget(forget) => forget.run(&mut kernel, console).await,
            Action::Export(export) => export.run(&mut kernel, console).await,
        }
    }
}

async fn log(kernel: &mut KernelClient, filtered: FilterArgs, console: &Console) -> ExitResult {
    let mut filter = filtered.filter()?;
    filter.limit = filter.limit.or(Some(LOG_RECORDS));
    filter.reverse = true;
    let mut lines = Pages::new(filter).all(kernel).await?;
    lines.reverse();
    if console.json {
        lines.iter().for_each(|line| console.out.json(&serde_json::value::RawValue::from_string(line.clone()).ok()));
        return OK;
    }
    let records: Vec<_> = lines.iter().filter_map(|line| ParsedRecord::parse(line)).collect();
    let page = journal::log(&records, measure::now_ms(), &TimeZone::system(), console.out.columns());
    console.out.long(&console.out.render_uncut(&page));
    OK
}

async fn follow(kernel: &mut KernelClient, filtered: FilterArgs, console: &Console) -> ExitResult {
    let mut interrupt = Interrupt::open()?;
    kernel.call::<JournalFollow>(&filtered.filter()?).await?;
    loop {
        let line = tokio::select! {
            line = next_line(kernel) => line?,
            () = interrupt.pressed() => return OK,
        };
        let Some(line) = line else { return OK };
        if console.json {
            console.out.json(&serde_json::value::RawValue::from_string(line).ok());
        } else if let Some(record) = ParsedRecord::parse(&line) {
            console.out.uncut(&journal::row(&record, measure::now_ms(), &TimeZone::system(), console.out.columns()));
        }
    }
}

/// The next followed record; `None` when the kernel has hung up.
pub async fn next_line(kernel: &mut KernelClient) -> Result<Option<String>, ClientError> {
    while let Some(note) = kernel.next_note().await? {
        let record = note.params.filter(|_| note.method == RECORD).map(|params| serde_json::from_str::<RecordNote>(params.get()));
        if let Some(Ok(record)) = record {
            return Ok(Some(record.line));
        }
    }
    Ok(None)
}
