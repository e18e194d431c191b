//! `skep info`: one process.

use crate::command::whom;
use crate::console::{Console, ExitResult, OK};
use crate::show::{measure, program};
use wire::method::program::ProcInfoParams;
use wire::table::ProcInfo;

/// Show one process
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep info price\n  skep info 7 --json\n\nFigures behind `~` are what the process says of itself.")]
pub struct InfoArgs {
    /// The process, by name or pid (`skep ps`)
    process: String,
}

impl InfoArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        let pid = whom::process(&mut kernel, &self.process).await?;
        let view = kernel.call::<ProcInfo>(&ProcInfoParams { pid }).await;
        let view =
            view.map_err(|error| whom::explain(error, format!("`{}` cannot be shown", self.process), "name a process of `skep ps`"))?;
        console.show_wrapped(&view, |view| program::info(view, measure::now_ms()));
        OK
    }
}
