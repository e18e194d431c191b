//! `skep retry` (also `skep resume`): has a task go on that failed, stopped or was cancelled.

use crate::command::act::await_end;
use crate::command::budget;
use crate::console::{Console, ExitResult, OK};
use crate::show::task;
use wire::method::task::TaskRetryParams;
use wire::table::TaskRetry;
use wire::{Budget, TaskId};

/// Have a task go on that failed, stopped or was cancelled
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep retry task-3            after the model is back, or the budget raised\n  \
skep resume task-3           the same\n  skep retry task-3 --await\n  skep retry task-3 --budget 5   more money than it was given\n\n\
It goes on in the same conversation, over the changes that were kept. A task\nthat had made all its calls gets as many again. To tell it something, use\n\
`skep say`.")]
pub struct RetryArgs {
    /// Task id, as `skep status` prints it
    task: TaskId,
    /// Wait for the end; the answer goes to stdout, everything else to stderr
    #[arg(long = "await")]
    wait: bool,
    /// The most that it may spend in all from here on, what it has spent included
    #[arg(long, value_name = "DOLLARS", value_parser = budget::micros, allow_hyphen_values = true)]
    budget: Option<u64>,
}

impl RetryArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        let budget = self.budget.map(|micros| Budget { micros: Some(micros), ..Budget::default() });
        let params = TaskRetryParams { task: self.task, budget };
        let result = console.wait("taking it up", kernel.call::<TaskRetry>(&params)).await?;
        if !self.wait {
            console.show_wrapped(&result, task::continued);
            return OK;
        }
        await_end(&mut kernel, &result, console).await
    }
}
