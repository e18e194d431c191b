//! `skep send`: sends a message to a process or a queue.

use crate::bounded_input;
use crate::command::whom;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::show::{Line, Page};
use crate::units::duration_ms;
use wire::limits::MESSAGE_BYTES_MAX;
use wire::method::message::MessageSendParams;
use wire::table::MessageSend;
use wire::{ErrorCode, MessagePriority, base64};

/// Send a message to a process or a queue
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep send price 'prices changed' --kind news\n  skep send price --priority high < order.json\n  \
skep send --queue results done --ttl 10m\n\n\
The message is on record before this command ends. `skep inbox` shows what\nwaits, `skep inbox --dead` what reached nobody.")]
pub struct SendArgs {
    /// The process, by name or pid (`skep ps`); without one, name a queue
    #[arg(value_name = "PROCESS", required_unless_present = "queue")]
    process: Option<String>,
    /// What it says [default: what stands on stdin]
    text: Option<String>,
    /// For whoever reads this queue
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// What it is about, in a word
    #[arg(long, value_name = "WORD", default_value = "message", hide_default_value = true)]
    kind: String,
    /// critical, high, normal or low
    #[arg(long, value_name = "HOW", default_value = "normal", hide_default_value = true, value_parser = priority)]
    priority: MessagePriority,
    /// It is worth nothing after this long
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    ttl: Option<u64>,
    /// The message that it answers
    #[arg(long, value_name = "ID")]
    reply_to: Option<String>,
}

pub fn priority(text: &str) -> Result<MessagePriority, String> {
    use MessagePriority::{Critical, High, Low, Normal};
    let found = [Critical, High, Normal, Low].into_iter().find(|priority| priority.as_str() == text);
    found.ok_or_else(|| format!("`{text}` is none of critical, high, normal, low"))
}

impl SendArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        // With a queue, the one word that stands here is the text.
        let (process, text) = match (&self.queue, self.process, self.text) {
            (Some(_), Some(_), Some(_)) => {
                return Err(CommandError::new(ErrorCode::BadInput, "the message has two receivers")
                    .why("it names a process and a queue")
                    .fix("leave one of them out"));
            }
            (Some(_), text, None) => (None, text),
            (_, process, text) => (process, text),
        };
        let body = match text {
            Some(text) => text.into_bytes(),
            None => bounded_input::read(None, MESSAGE_BYTES_MAX)?,
        };
        let mut kernel = console.kernel().await?;
        let to = match &process {
            Some(process) => Some(whom::process(&mut kernel, process).await?),
            None => None,
        };
        let params = MessageSendParams {
            to,
            queue: self.queue,
            kind: self.kind,
            priority: self.priority,
            body: base64::encode(&body),
            requires_ack: false,
            ttl_ms: self.ttl,
            reply_to: self.reply_to,
        };
        let sent = kernel.call::<MessageSend>(&params).await;
        let sent = sent.map_err(|error| whom::explain(error, "the message was not sent", "name a process of `skep ps`"))?;
        console.show(&sent, |sent| Page(vec![Line::new().good("✓ ").name(sent.message.to_string()).plain(" is on its way")]));
        OK
    }
}
