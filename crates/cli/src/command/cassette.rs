//! `skep cassette`: recorded traffic with models.

use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK, utf8};
use crate::show::{Line, cassette as show};
use clap::Subcommand;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use wire::ErrorCode;
use wire::method::model::{CassetteListParams, CassetteListResult};
use wire::table::CassetteList;

/// Look at recorded traffic with models
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep act \"tidy up\" --record\n  skep cassette list\n  skep cassette show task-3\n  \
skep cassette export task-3 --out task-3.jsonl\n\n\
A cassette is $SKEP_HOME/cassettes/TASK.jsonl: JSON lines, secrets taken out, readable by you alone. `skep replay TASK` and \
`skep gateway run --replay FILE` play it.")]
pub struct CassetteArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the cassettes that the kernel keeps
    #[command(after_help = "Examples:\n  skep cassette list\n  skep cassette list --json")]
    List,
    /// Show the requests on a cassette
    #[command(after_help = "Examples:\n  skep cassette show task-3\n  skep cassette show ./run.jsonl")]
    Show {
        /// task-N, process-N, or a file
        name: String,
    },
    /// Copy a cassette to a file of yours
    #[command(
        after_help = "Examples:\n  skep cassette export task-3 --out tests/tidy.jsonl\n  skep cassette export task-3 > tidy.jsonl\n\n\
Look at it before you give it away: what a model read and wrote is on it, and only what looks like a secret is taken out."
    )]
    Export {
        /// task-N or process-N
        name: String,
        /// The new file [default: stdout]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
}

impl CassetteArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        match self.action {
            Action::List => {
                console.show(&fetch(console, None).await?, show::list);
                OK
            }
            Action::Show { name } => {
                console.show(&fetch(console, Some(resolve_name(name)?)).await?, show::contents);
                OK
            }
            Action::Export { name, out } => {
                let found = fetch(console, Some(resolve_name(name)?)).await?;
                let Some(one) = found.cassettes.first() else { return OK };
                let wrong = |path: &Path, error: std::io::Error| {
                    CommandError::new(ErrorCode::BadInput, format!("cannot export to `{}`", path.display()))
                        .why(error)
                        .fix("name a new file")
                };
                let source = Path::new(&one.path);
                let bytes = std::fs::read(source)
                    .map_err(|error| CommandError::new(ErrorCode::NotFound, format!("cannot read `{}`", source.display())).why(error))?;
                match out {
                    None => console.out.write(&bytes),
                    Some(path) => {
                        let mut file = std::fs::OpenOptions::new()
                            .write(true)
                            .create_new(true)
                            .mode(0o600)
                            .open(&path)
                            .map_err(|error| wrong(&path, error))?;
                        file.write_all(&bytes).map_err(|error| wrong(&path, error))?;
                        console.note(Line::new().good("✓ ").plain(format!("{} is in {}", one.name, path.display())));
                    }
                }
                OK
            }
        }
    }
}

async fn fetch(console: &Console, name: Option<String>) -> Result<CassetteListResult, CommandError> {
    Ok(console.kernel().await?.call::<CassetteList>(&CassetteListParams { name }).await?)
}

/// A file is named from where the person stands.
fn resolve_name(name: String) -> Result<String, CommandError> {
    if Path::new(&name).is_file() { absolute(Path::new(&name)) } else { Ok(name) }
}

/// The same file from anywhere.
pub fn absolute(path: &Path) -> Result<String, CommandError> {
    let wrong = |error| CommandError::new(ErrorCode::BadInput, format!("`{}` is no path", path.display())).why(error).fix("name a file");
    utf8(std::path::absolute(path).map_err(wrong)?)
}
