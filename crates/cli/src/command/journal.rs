//! `skep journal`: the record of everything.

mod doubts;
pub mod export;
pub mod filter;
mod forget;
pub mod page;
mod verify;

use crate::console::{Console, OK, Outcome};
use crate::record::Record;
use crate::show::{Page, journal, measure};
use clap::Subcommand;
use filter::Filtered;
use jiff::tz::TimeZone;
use page::Pages;
use wire::method::journal::{RECORD, RecordNote};
use wire::table::JournalFollow;
use wire::{Client, ClientError};

/// Records that `journal log` shows when no limit is given: a screenful.
const LOG_RECORDS: u64 = 40;

/// Read, prove and export the journal
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep journal log --task task-3\n  skep journal log --kind call --since 10m\n  skep journal verify\n  \
skep journal export --out journal.jsonl\n  skep journal follow --kind review"
)]
pub struct Journal {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show the newest records
    #[command(
        after_help = "Examples:\n  skep journal log\n  skep journal log --task task-3 --limit 100\n  skep journal log --kind call.refused --since 1d"
    )]
    Log(Filtered),
    /// Show records as they are written
    #[command(after_help = "Examples:\n  skep journal follow\n  skep journal follow --kind review,merge")]
    Follow(Filtered),
    /// Prove that no record was changed, added, moved or cut off
    #[command(
        after_help = "Examples:\n  skep journal verify && echo whole\n  skep journal verify --json\n  skep journal verify --offline\n\n\
When the kernel does not start, the files are verified without it."
    )]
    Verify(verify::Verify),
    /// Show what verification found wrong, until you have looked at it
    #[command(after_help = "Examples:\n  skep journal doubts\n  skep journal doubts --seen\n\n\
Every start verifies the whole chain in the background; what it finds is told by every command until `--seen`.")]
    Doubts(doubts::Doubts),
    /// Destroy contents that records name; the records stay, and the chain still verifies
    #[command(
        after_help = "Examples:\n  skep journal forget 4521\n  skep journal forget 4521 --reason 'a password in the output' --yes\n\n\
A record itself never changes. What it names (an output, a frozen change, a base) is encrypted with a key of its own, and the key goes."
    )]
    Forget(forget::Forget),
    /// Print the stored lines, byte for byte
    #[command(after_help = "Examples:\n  skep journal export --out journal.jsonl\n  skep journal export | sha256sum")]
    Export(export::Export),
}

impl Journal {
    pub async fn run(self, console: &Console) -> Outcome {
        if let What::Verify(verify) = self.what {
            return verify.run(console).await;
        }
        // What shows the doubts need not be told of them.
        let mut kernel = match self.what {
            What::Doubts(_) => console.kernel_only().await?,
            _ => console.kernel().await?,
        };
        match self.what {
            What::Log(filtered) => log(&mut kernel, filtered, console).await,
            What::Follow(filtered) => follow(&mut kernel, filtered, console).await,
            What::Verify(verify) => verify.run(console).await,
            What::Doubts(doubts) => doubts.run(&mut kernel, console).await,
            What::Forget(forget) => forget.run(&mut kernel, console).await,
            What::Export(export) => export.run(&mut kernel, console).await,
        }
    }
}

async fn log(kernel: &mut Client, filtered: Filtered, console: &Console) -> Outcome {
    let mut filter = filtered.filter()?;
    filter.limit = filter.limit.or(Some(LOG_RECORDS));
    filter.reverse = true;
    let mut lines = Pages::new(filter).all(kernel).await?;
    lines.reverse();
    if console.json {
        lines.iter().for_each(|line| console.out.json(&serde_json::value::RawValue::from_string(line.clone()).ok()));
        return OK;
    }
    let records: Vec<_> = lines.iter().filter_map(|line| Record::parse(line)).collect();
    console.out.page(&journal::log(&records, measure::now_ms(), &TimeZone::system()));
    OK
}

async fn follow(kernel: &mut Client, filtered: Filtered, console: &Console) -> Outcome {
    kernel.call::<JournalFollow>(&filtered.filter()?).await?;
    loop {
        let line = tokio::select! {
            line = next_line(kernel) => line?,
            _ = tokio::signal::ctrl_c() => return OK,
        };
        let Some(line) = line else { return OK };
        if console.json {
            console.out.json(&serde_json::value::RawValue::from_string(line).ok());
        } else if let Some(record) = Record::parse(&line) {
            console.out.page(&Page(vec![journal::row(&record, measure::now_ms(), &TimeZone::system())]));
        }
    }
}

/// The next followed record; `None` when the kernel has hung up.
pub async fn next_line(kernel: &mut Client) -> Result<Option<String>, ClientError> {
    while let Some(note) = kernel.next_note().await? {
        let record = note.params.filter(|_| note.method == RECORD).map(|params| serde_json::from_str::<RecordNote>(params.get()));
        if let Some(Ok(record)) = record {
            return Ok(Some(record.line));
        }
    }
    Ok(None)
}
