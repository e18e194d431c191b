//! `skep gateway`: models for programs outside rooms.

use crate::command::cassette;
use crate::command::leash::Leashed;
use crate::console::{Console, Outcome, folder};
use crate::show::{Line, model};
use crate::trouble::Trouble;
use clap::Subcommand;
use std::path::PathBuf;
use std::time::Duration;
use wire::method::model::{CLOSED, GatewayClosedNote, GatewayOpenParams, GatewayOpenResult, LoginClient};
use wire::table::GatewayOpen;
use wire::{Client, Code};

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
    #[arg(long, value_name = "CLIENT")]
    login: Option<Login>,
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

/// A vendor's client with a subscription login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Login {
    Claude,
    Codex,
}

impl From<Login> for LoginClient {
    fn from(login: Login) -> LoginClient {
        match login {
            Login::Claude => LoginClient::Claude,
            Login::Codex => LoginClient::Codex,
        }
    }
}

/// How long a program has to hear that it is cancelled before it is told to end.
const HEAR: Duration = Duration::from_secs(2);

impl Gateway {
    pub async fn run(self, console: &Console) -> Outcome {
        let way = match &self.what {
            What::Run(run) => &run.way,
            What::Open(open) => &open.way,
        };
        let params = GatewayOpenParams {
            path: folder(way.zone.as_deref())?,
            client: way.login.map(LoginClient::from),
            record: way.record.as_deref().map(cassette::file).transpose()?,
            replay: way.replay.as_deref().map(cassette::file).transpose()?,
            timing: way.timing,
        };
        // The gateway is open as long as this connection is.
        let mut kernel = console.kernel().await?;
        let opened = kernel.call::<GatewayOpen>(&params).await?;
        match self.what {
            What::Open(_) => {
                console.show(&opened, model::opened);
                console.note(Line::new().faint("open until ^C"));
                let why = closed(&mut kernel).await.unwrap_or_else(|| "the kernel went away".to_owned());
                Err(Trouble::new(Code::Unavailable, "the gateway is closed").why(why))
            }
            What::Run(run) => {
                let failed = |error| Trouble::new(Code::Internal, "the program cannot be run").why(error);
                let mut program = Leashed::start(&run.program, environment(&opened)).map_err(failed)?;
                let over = tokio::select! {
                    code = program.wait() => return code.map_err(failed),
                    over = closed(&mut kernel) => over,
                };
                match over {
                    Some(why) => {
                        console.note(Line::new().bad("✗ ").plain(why));
                        // Its requests were answered with the reason, and it may want to tell that itself.
                        tokio::select! {
                            code = program.wait() => code.map_err(failed),
                            () = tokio::time::sleep(HEAR) => program.end().await.map_err(failed),
                        }
                    }
                    // The program may still have something to save.
                    None => {
                        let told = "the kernel went away: requests to models fail from here on, and what was spent is in its journal";
                        console.note(Line::new().bad("✗ ").plain(told));
                        program.wait().await.map_err(failed)
                    }
                }
            }
        }
    }
}

/// Waits until the gateway is closed, and gives the reason; `None` when the kernel is gone.
async fn closed(kernel: &mut Client) -> Option<String> {
    while let Ok(Some(note)) = kernel.next_note().await {
        if note.method == CLOSED {
            return note.params.and_then(|params| serde_json::from_str::<GatewayClosedNote>(params.get()).ok()).map(|closed| closed.why);
        }
    }
    None
}

/// What the vendors' clients look for.
pub fn environment(opened: &GatewayOpenResult) -> Vec<(&'static str, String)> {
    let GatewayOpenResult { url, key, .. } = opened;
    vec![
        ("ANTHROPIC_BASE_URL", url.clone()),
        ("ANTHROPIC_API_KEY", key.clone()),
        ("OPENAI_BASE_URL", format!("{url}/v1")),
        ("OPENAI_API_KEY", key.clone()),
        ("GOOGLE_GEMINI_BASE_URL", url.clone()),
        ("GEMINI_API_KEY", key.clone()),
    ]
}
