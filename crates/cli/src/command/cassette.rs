//! `skep cassette`: recorded traffic with models.

use crate::console::{Console, OK, Outcome, utf8};
use crate::show::{Line, cassette as show};
use crate::trouble::Trouble;
use clap::Subcommand;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use wire::Code;
use wire::method::model::{CassetteListParams, CassetteListResult};
use wire::table::CassetteList;

/// Look at recorded traffic with models
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep act \"tidy up\" --record\n  skep cassette list\n  skep cassette show task-3\n  \
skep cassette export task-3 --out task-3.jsonl\n\n\
A cassette is $SKEP_HOME/cassettes/TASK.jsonl: JSON lines, secrets taken out, readable by you alone. `skep replay TASK` and \
`skep gateway run --replay FILE` play it.")]
pub struct Cassette {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
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

impl Cassette {
    pub async fn run(self, console: &Console) -> Outcome {
        match self.what {
            What::List => {
                console.show(&ask(console, None).await?, show::list);
                OK
            }
            What::Show { name } => {
                console.show(&ask(console, Some(place(name)?)).await?, show::contents);
                OK
            }
            What::Export { name, out } => {
                let found = ask(console, Some(place(name)?)).await?;
                let Some(one) = found.cassettes.first() else { return OK };
                let wrong = |path: &Path, error: std::io::Error| {
                    Trouble::new(Code::BadInput, format!("cannot export to `{}`", path.display())).why(error).fix("name a new file")
                };
                let source = Path::new(&one.path);
                let bytes = std::fs::read(source)
                    .map_err(|error| Trouble::new(Code::NotFound, format!("cannot read `{}`", source.display())).why(error))?;
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

async fn ask(console: &Console, name: Option<String>) -> Result<CassetteListResult, Trouble> {
    Ok(console.kernel().await?.call::<CassetteList>(&CassetteListParams { name }).await?)
}

/// A file is named from where the person stands.
fn place(name: String) -> Result<String, Trouble> {
    if Path::new(&name).is_file() { file(Path::new(&name)) } else { Ok(name) }
}

/// The same file from anywhere.
pub fn file(path: &Path) -> Result<String, Trouble> {
    let wrong = |error| Trouble::new(Code::BadInput, format!("`{}` is no path", path.display())).why(error).fix("name a file");
    utf8(std::path::absolute(path).map_err(wrong)?)
}
