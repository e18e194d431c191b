//! `skep wait`: waits for the end of a process of the tree.

use crate::command::whom;
use crate::console::{Console, ExitResult};
use crate::show::{Line, Page, Tone};
use crate::units::duration_ms;
use wire::code::EXIT_FAILED;
use wire::method::program::ProcWaitParams;
use wire::table::ProcWait;

/// Wait for the end of a process of the tree
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep wait price\n  skep wait 7 --timeout 5m --json\n\n\
It prints what the process had to say at its end. Once it was waited for it\nleaves the table. The exit code is 1 where that of the process is not 0.")]
pub struct WaitArgs {
    /// The process, by name or pid (`skep ps`)
    process: String,
    /// Give up after this long
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    timeout: Option<u64>,
}

impl WaitArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        let pid = whom::process(&mut kernel, &self.process).await?;
        let waited = console.wait("waiting", kernel.call::<ProcWait>(&ProcWaitParams { pid, timeout_ms: self.timeout })).await;
        let waited = waited.map_err(|error| {
            whom::explain(error, format!("`{}` was not waited for", self.process), "wait longer, or end it with `skep kill`")
        })?;
        let code = waited.exit.code;
        console.show_wrapped(&waited, |waited| {
            let (mark, how) = match code {
                Some(0) => (Line::new().good("✓ "), " ended".to_owned()),
                Some(code) => (Line::new().bad("✗ "), format!(" ended with {code}")),
                None => (Line::new().wait("◍ "), " ended, and nobody knows with which code".to_owned()),
            };
            let mut page = Page(vec![mark.name(&self.process).plain(how)]);
            if !waited.exit.output.is_empty() {
                page.block("  ", Tone::Plain, &waited.exit.output);
            }
            page
        });
        Ok(if code == Some(0) { 0 } else { EXIT_FAILED })
    }
}
