//! `skep token`: capability tokens for programs that speak to the kernel themselves.

use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK, folder};
use crate::show::{Line, call};
use crate::units::duration_ms;
use clap::Subcommand;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use wire::ErrorCode;
use wire::method::grant::TokenIssueParams;
use wire::table::TokenIssue;

/// Where the program that is started finds its token.
const VARIABLE: &str = "SKEP_TOKEN";

/// Issue capability tokens
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep token issue fs.read --ttl 5m -- ./agent\n\n`skep grant list` shows tokens, `skep grant revoke` ends them."
)]
pub struct TokenArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Issue(Issue),
}

/// Issue a token for one tool to this process
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep token issue fs.write --paths 'out/**' --max-ops 10 --ttl 5m -- ./agent\n  \
skep token issue fs.list -- sh -c 'exec skep call fs.list --token $SKEP_TOKEN'\n\n\
A token holds for the process it was issued to, by pid and start time, and for nobody else. Without a PROGRAM that process is this \
`skep`, which ends as soon as it has printed the token: nobody can use it then, and it only shows what a token is. With a PROGRAM this \
process becomes it (as with exec) and its token is in $SKEP_TOKEN. A program that holds a connection to the kernel's socket asks for \
its own tokens with the method token.issue.\n\n\
A token skips the rules of the policy file and extensions, never the built-in ones. Issuing one is a call that policy decides about.")]
struct Issue {
    /// Which tool: fs.read, fs.* or *
    tool: String,
    /// On these paths; without any it is for calls that name no path
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    paths: Vec<String>,
    /// How many calls [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_ops: Option<u32>,
    /// How long: 30s, 10m, 2h [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    ttl: Option<u64>,
    /// The repository [default: where you are]
    #[arg(long, value_name = "DIR")]
    zone: Option<PathBuf>,
    /// Become this program, with the token in $SKEP_TOKEN
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// Tools of this name change no file, so that nothing of theirs is merged.
fn reads_only(tool: &str) -> bool {
    ["fs.read", "fs.list", "fs.exists", "fs.search", "http.", "net.", "model."].iter().any(|name| tool.starts_with(name))
}

impl TokenArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let Action::Issue(issue) = self.action;
        issue.run(console).await
    }
}

impl Issue {
    async fn run(self, console: &Console) -> ExitResult {
        let path = folder(self.zone.as_deref())?;
        let params = TokenIssueParams { path, tool: self.tool, paths: self.paths, max_ops: self.max_ops, ttl_ms: self.ttl };
        let mut kernel = console.kernel().await?;
        let result = kernel.call::<TokenIssue>(&params).await?;
        let Some(token) = &result.token else {
            let mut error = match &result.call.refusal {
                Some(refusal) => CommandError::refused(format!("no token for `{}` is issued", params.tool), refusal),
                None => CommandError::new(ErrorCode::Denied, format!("no token for `{}` is issued", params.tool)),
            };
            if let Some(review) = result.review.filter(|_| error.fix.is_none()) {
                error = error.fix(format!("answer `skep review show {review}`, then ask again"));
            }
            if console.json {
                console.out.json(&result);
            } else {
                console.report(&error);
                console.err.page(&call::timings(&result.call));
            }
            return Ok(error.code.exit());
        };
        if !reads_only(&params.tool) {
            let why = "a token lets calls pass, not merges: what they write is judged again by the rules when it is merged";
            console.note(Line::new().wait("◍ ").plain(why));
        }
        let Some((program, arguments)) = self.program.split_first() else {
            if console.json {
                console.out.json(&result);
            } else {
                console.out.write(format!("{token}\n").as_bytes());
                console.note(Line::new().faint("it was issued to this `skep`, which ends now: give a PROGRAM to use one"));
            }
            return OK;
        };
        let error = std::process::Command::new(program).args(arguments).env(VARIABLE, token).exec();
        Err(CommandError::new(ErrorCode::NotFound, format!("cannot become `{program}`")).why(error).fix("name a program that can be run"))
    }
}
