//! `skep inbox`: messages that wait, and those that reached nobody.

use crate::command::whom;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::interrupt::Interrupt;
use crate::show::{measure, message};
use wire::method::message::{MessageListParams, MessageSubscribeParams, MessageView, RECEIVED};
use wire::table::{MessageDead, MessageList, MessageSubscribe};
use wire::{ErrorCode, KernelClient};

/// Show messages that wait, and those that reached nobody
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep inbox               what waits for you\n  skep inbox price         what waits for a process; it stays there\n  \
skep inbox --dead        what reached nobody, and why\n  skep inbox --take        takes yours out as they come, until ctrl-c\n  \
skep inbox --take --queue results"
)]
pub struct InboxArgs {
    /// The process, by name or pid (`skep ps`) [default: you]
    process: Option<String>,
    /// Messages that nobody answered
    #[arg(long, conflicts_with = "take")]
    dead: bool,
    /// Take messages out as they come
    #[arg(long, conflicts_with = "process")]
    take: bool,
    /// From this queue
    #[arg(long, value_name = "NAME", requires = "take")]
    queue: Option<String>,
}

impl InboxArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        if self.take {
            return take(console, kernel, self.queue).await;
        }
        let pid = match &self.process {
            Some(process) => Some(whom::process(&mut kernel, process).await?),
            None => None,
        };
        if self.dead {
            let result = kernel.call::<MessageDead>(&MessageListParams { pid }).await?;
            console.show_wrapped(&result, |result| message::dead(result, measure::now_ms()));
        } else {
            let result = kernel.call::<MessageList>(&MessageListParams { pid }).await?;
            console.show_wrapped(&result, |result| message::list(result, measure::now_ms()));
        }
        OK
    }
}

/// Prints messages as they come; each is taken out when the next one is asked for.
async fn take(console: &Console, mut kernel: KernelClient, queue: Option<String>) -> ExitResult {
    let mut interrupt = Interrupt::open()?;
    kernel.call::<MessageSubscribe>(&MessageSubscribeParams { queue, ..MessageSubscribeParams::default() }).await?;
    loop {
        let note = tokio::select! {
            note = kernel.next_note() => note?,
            () = interrupt.pressed() => return OK,
        };
        let Some(note) = note else {
            return Err(CommandError::new(ErrorCode::Unavailable, "no further message comes")
                .why("the kernel has ended")
                .fix("the same command starts a kernel again"));
        };
        if note.method != RECEIVED {
            continue;
        }
        let Some(view) = note.params.and_then(|params| serde_json::from_str::<MessageView>(params.get()).ok()) else { continue };
        if console.json {
            console.out.json(&view);
        } else {
            console.out.wrapped(&message::one(&view, measure::now_ms()));
        }
    }
}
