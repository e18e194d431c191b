//! `skep gateway`: models for programs outside rooms.

use crate::command::cassette;
use crate::command::supervise::SupervisedProgram;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, folder};
use crate::show::{Line, model};
use clap::Subcommand;
use std::path::PathBuf;
use std::time::Duration;
use wire::method::model::{CLOSED, GatewayClosedNote, GatewayOpenParams, GatewayOpenResult, LoginClient};
use wire::table::GatewayOpen;
use wire::{ErrorCode, KernelClient};

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
pub struct GatewayArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
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
runs as you, outside any sandbox; only its requests to models pass the kernel."
)]
struct Run {
    #[command(flatten)]
    flags: GatewayFlags,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// Print a base url and a key, and serve them until ^C
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep gateway open\n  skep gateway open --json\n\nEnd it with ^C; the key dies with it.")]
struct Open {
    #[command(flatten)]
    flags: GatewayFlags,
}

#[derive(Debug, clap::Args)]
struct GatewayFlags {
    /// The repository [default: where you are]
    #[arg(long, value_name = "DIR")]
    zone: Option<PathBuf>,
    /// The program is this vendor's own client and may use your subscription login
    #[arg(long, value_name = "CLIENT")]
    login: Option<Login>,
    /// Record the traffic to this file
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

/// How long a program may react to the reason before it is told to end.
const NOTICE: Duration = Duration::from_secs(2);

impl GatewayArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let flags = match &self.action {
            Action::Run(run) => &run.flags,
            Action::Open(open) => &open.flags,
        };
        let params = GatewayOpenParams {
            path: folder(flags.zone.as_deref())?,
            client: flags.login.map(LoginClient::from),
            record: flags.record.as_deref().map(cassette::absolute).transpose()?,
            replay: flags.replay.as_deref().map(cassette::absolute).transpose()?,
            timing: flags.timing,
        };
        // The gateway is open as long as this connection is.
        let mut kernel = console.kernel().await?;
        let opened = kernel.call::<GatewayOpen>(&params).await?;
        match self.action {
            Action::Open(_) => {
                console.show_uncut(&opened, model::opened);
                console.note(Line::new().faint("open until ^C"));
                let why = closed(&mut kernel).await.unwrap_or_else(|| "the kernel went away".to_owned());
                Err(CommandError::new(ErrorCode::Unavailable, "the gateway is closed").why(why))
            }
            Action::Run(run) => {
                let failed = |error| CommandError::new(ErrorCode::Internal, "the program cannot be run").why(error);
                let mut program = SupervisedProgram::start(&run.program, environment(&opened)).map_err(failed)?;
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
                            () = tokio::time::sleep(NOTICE) => program.end().await.map_err(failed),
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
async fn closed(kernel: &mut KernelClient) -> Option<String> {
    while let Ok(Some(note)) = kernel.next_note().await {
        if note.method == CLOSED {
            return note.params.and_then(|params| serde_json::from_str::<GatewayClosedNote>(params.get()).ok()).map(|closed| closed.why);
        }
    }
    None
}

/// The variables that the vendors' clients look for.
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
