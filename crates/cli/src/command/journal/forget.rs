//! `skep journal forget`: what a record names, and nobody shall read any more.

use crate::console::{Console, OK, Outcome};
use crate::show::measure::many;
use crate::show::{Line, Page};
use crate::trouble::Trouble;
use wire::method::journal::JournalForgetParams;
use wire::table::JournalForget;
use wire::{Client, Code};

#[derive(Debug, clap::Args)]
pub struct Forget {
    /// Blobs by their names (64 hex digits), or records by their numbers: then the blobs they name
    #[arg(value_name = "BLOB|RECORD", required = true)]
    what: Vec<String>,
    /// Why; it goes into the journal
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Forget {
    pub async fn run(self, kernel: &mut Client, console: &Console) -> Outcome {
        let mut params = JournalForgetParams { reason: self.reason, ..JournalForgetParams::default() };
        for name in self.what {
            let is_blob = name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            match name.parse() {
                _ if is_blob => params.blobs.push(name),
                Ok(seq) => params.records.push(seq),
                Err(_) => {
                    return Err(Trouble::new(Code::BadInput, format!("`{name}` is neither a blob nor a record"))
                        .why("a blob has 64 hex digits, a record has a number")
                        .fix("`skep journal log` shows the numbers, with `--json` the blobs too"));
                }
            }
        }
        if !self.yes && !console.confirm("destroy the contents for good?", "--yes")? {
            return Err(Trouble::new(Code::BadInput, "nothing was forgotten").why("it was not confirmed"));
        }
        let result = kernel.call::<JournalForget>(&params).await?;
        console.show(&result, |result| {
            let mut page = Page(vec![
                Line::new().good("✓ ").plain(format!("{} can be read by nobody any more", many(result.forgotten.len() as u64, "blob"))),
            ]);
            result.forgotten.iter().for_each(|name| page.push(Line::new().faint(format!("  {name}"))));
            page
        });
        OK
    }
}
