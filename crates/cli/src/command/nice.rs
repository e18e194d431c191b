//! `skep nice`: whose tasks go first.

use crate::command::whom;
use crate::console::{Console, ExitResult, OK};
use crate::show::{Line, Page};
use wire::method::Nothing;
use wire::method::program::ProcNiceParams;
use wire::table::ProcNice;

/// Have the tasks of a process go earlier or later
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep nice price 10      earlier\n  skep nice price -5      later")]
pub struct NiceArgs {
    /// The process, by name or pid (`skep ps`)
    process: String,
    /// Higher goes first; 0 is where everybody begins
    #[arg(allow_hyphen_values = true)]
    priority: i64,
}

impl NiceArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        let pid = whom::process(&mut kernel, &self.process).await?;
        let changed = kernel.call::<ProcNice>(&ProcNiceParams { pid, priority: self.priority }).await;
        changed.map_err(|error| whom::explain(error, format!("`{}` stays as it is", self.process), "name a process of `skep ps`"))?;
        console.show(&Nothing {}, |_| {
            Page(vec![Line::new().good("✓ ").name(&self.process).plain(format!(" has priority {}", self.priority))])
        });
        OK
    }
}
