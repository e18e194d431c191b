//! `skep try`: a command in the tree of a task, before anything is merged.

use crate::command::sandbox::run;
use crate::command::sandbox::shell_terminal::VisibleOutput;
use crate::console::{Console, ExitResult};
use crate::interrupt::Interrupt;
use crate::show::Line;
use serde_json::json;
use std::io::{self, IsTerminal};
use wire::code::EXIT_FAILED;
use wire::method::sandbox::OutputStream;
use wire::method::task::{PortForward, TaskTryParams};
use wire::table::TaskTry;
use wire::{StreamItem, TaskId};

/// Run a command over a task's files, in a sandbox of its own
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep try task-3 -- npm test\n  skep try task-3 --port 8080 -- python3 -m http.server 8080\n\n\
Nothing it writes is kept. --port makes a port of this machine's loopback lead to that of the sandbox, \
--port 8081:8080 to another one. The exit code is the command's own. Ctrl-c ends it.")]
pub struct TryArgs {
    /// Task id, as `skep status` prints it
    task: TaskId,
    /// A port to reach the command at; may be given more than once
    #[arg(long, value_name = "[HERE:]PORT", value_parser = forward)]
    port: Vec<PortForward>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl TryArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut interrupt = Interrupt::open()?;
        for port in &self.port {
            console.note(Line::new().faint(format!("http://127.0.0.1:{} leads into the sandbox", port.here)));
        }
        let params = TaskTryParams { task: self.task, command: self.command, ports: self.port };
        // The kernel ends the command when this connection does.
        let (mut responses, _voice) = console.kernel().await?.begin::<TaskTry>(&params).await?;
        let (mut out, mut err) = (VisibleOutput::new(io::stdout().is_terminal()), VisibleOutput::new(io::stderr().is_terminal()));
        let ended = loop {
            let said = tokio::select! {
                said = responses.next() => said?,
                () = interrupt.pressed() => return Ok(130),
            };
            match said {
                StreamItem::Note(note) => match run::output(&note) {
                    Some((stream, bytes)) if console.json => {
                        console.out.json(&json!({ "stream": stream, "text": String::from_utf8_lossy(&bytes) }));
                    }
                    Some((OutputStream::Out, bytes)) => run::print(&mut io::stdout(), &out.pass(&bytes))?,
                    Some((OutputStream::Err, bytes)) => run::print(&mut io::stderr(), &err.pass(&bytes))?,
                    None => {}
                },
                StreamItem::Answer(ended) => break ended,
            }
        };
        if let Some(signal) = ended.signal {
            console.note(Line::new().bad(format!("it was ended by signal {signal}")));
        }
        if console.json {
            console.out.json(&ended);
        }
        // As a shell says it.
        let code = ended.code.or(ended.signal.map(|signal| 128 + signal));
        Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(EXIT_FAILED))
    }
}

fn forward(text: &str) -> Result<PortForward, String> {
    let port = |text: &str| text.parse().map_err(|_| format!("`{text}` is no port; one is 1 to 65535"));
    let (here, there) = text.split_once(':').unwrap_or((text, text));
    Ok(PortForward { here: port(here)?, there: port(there)? })
}
