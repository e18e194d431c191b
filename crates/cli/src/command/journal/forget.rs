//! `skep journal forget`: what a record names, and nobody shall read any more.

use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::show::measure::plural;
use crate::show::{Line, Page};
use wire::method::journal::JournalForgetParams;
use wire::table::JournalForget;
use wire::{ErrorCode, KernelClient};

#[derive(Debug, clap::Args)]
pub struct ForgetArgs {
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

impl ForgetArgs {
    pub async fn run(self, kernel: &mut KernelClient, console: &Console) -> ExitResult {
        let mut params = JournalForgetParams { reason: self.reason, ..JournalForgetParams::default() };
        for name in self.what {
            let is_blob = name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            match name.parse() {
                _ if is_blob => params.blobs.push(name),
                Ok(seq) => params.records.push(seq),
                Err(_) => {
                    return Err(CommandError::new(ErrorCode::BadInput, format!("`{name}` is neither a blob nor a record"))
                        .why("a blob has 64 hex digits, a record has a number")
                        .fix("`skep journal log` shows the numbers, with `--json` the blobs too"));
                }
            }
        }
        if !self.yes && !console.confirm("destroy the contents for good?", "--yes")? {
            return Err(CommandError::new(ErrorCode::BadInput, "nothing was forgotten").why("you did not confirm"));
        }
        let result = kernel.call::<JournalForget>(&params).await?;
        console.show_wrapped(&result, |result| {
            let mut page = Page(vec![Line::new().good("✓ ").plain(format!("{} destroyed", plural(result.forgotten.len() as u64, "blob")))]);
            result.forgotten.iter().for_each(|name| page.push(Line::new().faint(format!("  {name}"))));
            page
        });
        OK
    }
}
