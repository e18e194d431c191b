//! `skep kill`: ends processes of the tree.

use crate::command::whom;
use crate::console::{Console, ExitResult, OK};
use crate::show::{Line, Page};
use crate::units::duration_ms;
use wire::EndReason;
use wire::method::program::ProcKillParams;
use wire::table::ProcKill;

/// What a program has to end by itself.
const GRACE_MS: u64 = 5_000;

/// End a process of the tree, with everything below it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep kill price\n  skep kill 7 --grace 30s\n  skep kill 7 --only    its children go to its parent\n\n\
Its program is told to shut down and may give back what it has; after the\ngrace it is ended by force. `skep cancel` ends tasks, calls and requests."
)]
pub struct KillArgs {
    /// The process, by name or pid (`skep ps`)
    process: String,
    /// Leave those below it alive, with its parent
    #[arg(long)]
    only: bool,
    /// How long its program has to end by itself [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    grace: Option<u64>,
    /// End its program at once
    #[arg(long, conflicts_with = "grace")]
    force: bool,
}

impl KillArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        let pid = whom::process(&mut kernel, &self.process).await?;
        let grace_ms = if self.force { 0 } else { self.grace.unwrap_or(GRACE_MS) };
        let params = ProcKillParams { pid, recursive: !self.only, reason: EndReason::UserRequest, grace_ms };
        let killed = console.wait("ending", kernel.call::<ProcKill>(&params)).await;
        let killed =
            killed.map_err(|error| whom::explain(error, format!("`{}` was not ended", self.process), "name a process of `skep ps`"))?;
        console.show(&killed, |killed| {
            let pids: Vec<String> = killed.ended.iter().map(ToString::to_string).collect();
            Page(vec![Line::new().good("✓ ").name(&self.process).plain(" ended").faint(format!("  pid {}", pids.join(", ")))])
        });
        OK
    }
}
