//! `skep try`: a command in the tree of a task, before anything is merged.

use crate::console::{Console, Outcome};
use crate::show::{Line, visible};
use wire::TaskId;
use wire::code::EXIT_FAILED;
use wire::method::task::{Forward, OUTPUT, OutputParams, Try as Method, TryParams};

/// Run a command over what a task has made, in a room that is thrown away
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep try task-3 -- npm test\n  skep try task-3 --port 8080 -- python3 -m http.server 8080\n\n\
Nothing it writes is kept. --port makes a port of this machine's loopback lead to that of the room, --port 8081:8080 to\n\
another one. The exit code is the command's own. Ctrl-c ends it.")]
pub struct Try {
    task: TaskId,
    /// A port to reach the command at; may be given more than once
    #[arg(long, value_name = "[HERE:]PORT", value_parser = forward)]
    port: Vec<Forward>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

impl Try {
    pub async fn run(self, console: &Console) -> Outcome {
        let mut kernel = console.kernel().await?;
        for port in &self.port {
            console.note(Line::new().faint(format!("http://127.0.0.1:{} leads into the room", port.here)));
        }
        let params = TryParams { task: self.task, command: self.command, ports: self.port };
        let told = |note: wire::Notification| {
            let piece = note.params.filter(|_| note.method == OUTPUT).map(|params| serde_json::from_str::<OutputParams>(params.get()));
            if let Some(Ok(piece)) = piece {
                print(&piece, console);
            }
        };
        let ended = tokio::select! {
            ended = kernel.call_told::<Method>(&params, told) => ended?,
            // The kernel ends the command when this connection does.
            _ = tokio::signal::ctrl_c() => return Ok(130),
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

fn forward(text: &str) -> Result<Forward, String> {
    let port = |text: &str| text.parse().map_err(|_| format!("`{text}` is no port; one is 1 to 65535"));
    let (here, there) = text.split_once(':').unwrap_or((text, text));
    Ok(Forward { here: port(here)?, there: port(there)? })
}

/// To a program byte for byte; to a terminal with what it would obey made visible.
fn print(piece: &OutputParams, console: &Console) {
    let screen = if piece.is_error { console.err } else { console.out };
    if console.json {
        let stream = if piece.is_error { "stderr" } else { "stdout" };
        return console.out.json(&serde_json::json!({ "stream": stream, "text": String::from_utf8_lossy(&piece.bytes) }));
    }
    if !screen.tty {
        return screen.write(&piece.bytes);
    }
    let text = String::from_utf8_lossy(&piece.bytes);
    let lines: Vec<_> = text.split('\n').map(|line| visible::visible(line.trim_end_matches('\r'))).collect();
    screen.write(lines.join("\n").as_bytes());
}
