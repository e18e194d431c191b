//! `skep say`: a further turn of a task's conversation.

use crate::command::act::{await_end, prompt};
use crate::console::{Console, ExitResult, OK};
use crate::show::task;
use wire::TaskId;
use wire::method::task::TaskSayParams;
use wire::table::TaskSay;

/// Say something more to a task, also after its end
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep say task-3 \"also add a test\"\n  skep say task-3 - < comments.md\n  \
skep say task-3 \"use the other parser\" --await\n\n\
It hears that in the same conversation and goes on with its own changes: one\nthat still works, at the end of its turn; one whose changes wait for their\n\
merge proposes them anew; one that ended is taken up again.")]
pub struct SayArgs {
    /// Task id, as `skep status` prints it
    task: TaskId,
    /// What to say; `-` reads it from stdin
    prompt: String,
    /// Wait for the end; the answer goes to stdout, everything else to stderr
    #[arg(long = "await")]
    wait: bool,
}

impl SayArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let params = TaskSayParams { task: self.task, prompt: prompt(self.prompt)? };
        let mut kernel = console.kernel().await?;
        let result = console.wait("taking it up", kernel.call::<TaskSay>(&params)).await?;
        if !self.wait {
            console.show_wrapped(&result, task::continued);
            return OK;
        }
        await_end(&mut kernel, &result, console).await
    }
}
