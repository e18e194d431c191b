//! `skep gateway`: models for programs outside rooms.

use crate::command::cassette;
use crate::console::{Console, OK, Outcome, folder};
use crate::show::{Line, model};
use crate::trouble::Trouble;
use clap::Subcommand;
use std::path::PathBuf;
use wire::Code;
use wire::method::model::{Open as Method, OpenParams, OpenResult};

/// Use models through the kernel: metered, capped, recorded
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep gateway run -- claude -p 'explain this'\n  skep gateway open\n\n\
Providers and their keys are set up in $SKEP_HOME/config.yml:\n\n  \
providers:\n    \
anthropic:\n      url: https://api.anthropic.com\n      dialect: anthropic\n      key: { env: ANTHROPIC_API_KEY }\n    \
openai:\n      url: https://api.openai.com\n      dialect: [responses, chat]\n      key: { file: /home/me/.keys/openai }   # mode 0600\n    \
local: { url: \"http://127.0.0.1:11434\", dialect: chat, free: true }\n  \
models: { tactical: [anthropic/claude-sonnet-4-5, openai/gpt-5.5] }\n  \
gateway: { loopback: true }\n\n\
The programs get a key of their own that is good for one listener on this machine and for as long as they run; the real one stays here.")]
pub struct Gateway {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Run(Run),
    Open(Open),
}

/// Run a program that asks models through the kernel
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep gateway run -- claude -p 'explain this'\n  skep gateway run --login claude -- claude -p hello\n  \
skep gateway run -- python3 agent.py\n  skep gateway run --record run.jsonl -- claude -p hello\n  \
skep gateway run --replay run.jsonl -- claude -p hello\n\n\
The program gets ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY, OPENAI_BASE_URL, OPENAI_API_KEY, GOOGLE_GEMINI_BASE_URL and GEMINI_API_KEY. It \
runs as you, outside any room; only its requests to models pass the kernel."
)]
struct Run {
    #[command(flatten)]
    way: Way,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// Print a base url and a key, and serve them until ^C
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep gateway open\n  skep gateway open --json\n\nEnd it with ^C; the key dies with it.")]
struct Open {
    #[command(flatten)]
    way: Way,
}

#[derive(Debug, clap::Args)]
struct Way {
    /// The repository [default: where you are]
    #[arg(long, value_name = "DIR")]
    zone: Option<PathBuf>,
    /// It is this vendor's own client and may use its subscription login: claude or codex
    #[arg(long, value_name = "CLIENT", value_parser = ["claude", "codex"])]
    login: Option<String>,
    /// Take the traffic down in this file
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Answer from this cassette in place of every provider
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// With --replay: answer at the recorded pace, not at once
    #[arg(long, requires = "replay")]
    timing: bool,
}

impl Gateway {
    pub async fn run(self, console: &Console) -> Outcome {
        let way = match &self.what {
            What::Run(run) => &run.way,
            What::Open(open) => &open.way,
        };
        let params = OpenParams {
            path: folder(way.zone.as_deref())?,
            client: way.login.clone(),
            record: way.record.as_deref().map(cassette::file).transpose()?,
            replay: way.replay.as_deref().map(cassette::file).transpose()?,
            timing: way.timing,
        };
        // The gateway is open as long as this connection is.
        let mut kernel = console.kernel().await?;
        let opened = kernel.call::<Method>(&params).await?;
        match self.what {
            What::Open(_) => {
                console.show(&opened, model::opened);
                console.note(Line::new().faint("open until ^C"));
                while let Ok(Some(_)) = kernel.next_note().await {}
                Err(Trouble::new(Code::Unavailable, "the gateway is closed").why("the kernel went away"))
            }
            What::Run(run) => {
                let Some((program, arguments)) = run.program.split_first() else { return OK };
                let mut command = tokio::process::Command::new(program);
                command.args(arguments).envs(environment(&opened)).kill_on_drop(true);
                let wrong = |error| {
                    Trouble::new(Code::NotFound, format!("cannot run `{program}`")).why(error).fix("name a program that can be run")
                };
                let status = command.status().await.map_err(wrong)?;
                // A signal's number above 128, as shells have it.
                let signal = std::os::unix::process::ExitStatusExt::signal(&status).map(|signal| 128 + signal);
                Ok(u8::try_from(status.code().or(signal).unwrap_or(1)).unwrap_or(1))
            }
        }
    }
}

/// What the vendors' clients look for.
pub fn environment(opened: &OpenResult) -> Vec<(&'static str, String)> {
    let OpenResult { url, key, .. } = opened;
    vec![
        ("ANTHROPIC_BASE_URL", url.clone()),
        ("ANTHROPIC_API_KEY", key.clone()),
        ("OPENAI_BASE_URL", format!("{url}/v1")),
        ("OPENAI_API_KEY", key.clone()),
        ("GOOGLE_GEMINI_BASE_URL", url.clone()),
        ("GEMINI_API_KEY", key.clone()),
    ]
}
