//! `skep list`: tasks and tools.

use crate::command::status::here;
use crate::console::{Console, ExitResult, OK};
use crate::show::{call, measure, task};
use clap::Subcommand;
use std::path::PathBuf;
use wire::method::Nothing;
use wire::method::task::TaskListParams;
use wire::table::{TaskList, ToolList};

/// List tasks or tools
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep list tasks\n  skep list tasks --all\n  skep list tools")]
pub struct ListArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Tasks of this repository, or of all
    #[command(after_help = "Examples:\n  skep list tasks\n  skep list tasks --all --json")]
    Tasks {
        /// Of every repository
        #[arg(long)]
        all: bool,
        /// Of this repository [default: where you are]
        #[arg(long, value_name = "DIR", conflicts_with = "all")]
        zone: Option<PathBuf>,
    },
    /// Tools that a process can call
    #[command(after_help = "Examples:\n  skep list tools")]
    Tools,
}

impl ListArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        match self.action {
            Action::Tasks { all, zone } => {
                let path = here(zone.as_deref(), all)?;
                let result = console.kernel().await?.call::<TaskList>(&TaskListParams { path }).await?;
                console.show(&result, |result| task::list(&result.tasks, measure::now_ms()));
            }
            Action::Tools => {
                let result = console.kernel().await?.call::<ToolList>(&Nothing {}).await?;
                console.show(&result, call::tools);
            }
        }
        OK
    }
}
