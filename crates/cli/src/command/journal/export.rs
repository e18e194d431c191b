//! `skep journal export`: the stored lines, for whoever verifies them elsewhere.

use super::filter::FilterArgs;
use super::page::Pages;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::show::measure::plural;
use crate::show::{Line, Page, Tone, progress};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use wire::{ErrorCode, KernelClient};

#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    #[command(flatten)]
    filtered: FilterArgs,
    /// Write to a new file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl ExportArgs {
    pub async fn run(self, kernel: &mut KernelClient, console: &Console) -> ExitResult {
        let mut pages = Pages::new(self.filtered.filter()?);
        let mut file = match &self.out {
            Some(path) => Some(BufWriter::new(create(path)?)),
            None => None,
        };
        let mut count = 0;
        let word = Mutex::default();
        let write = async {
            loop {
                let lines = pages.next(kernel).await?;
                if lines.is_empty() {
                    return Ok::<(), CommandError>(());
                }
                count += lines.len() as u64;
                *word.lock().unwrap_or_else(PoisonError::into_inner) = plural(count, "record");
                match &mut file {
                    Some(file) => lines.iter().try_for_each(|line| writeln!(file, "{line}")).map_err(fail)?,
                    None => print(&lines, console),
                }
            }
        };
        // What is printed on the terminal itself is its own progress.
        match self.out.is_none() && console.out.tty {
            true => write.await?,
            false => progress::wait_telling(console.err, "exporting", &word, write).await?,
        }
        if let Some(file) = &mut file {
            file.flush().map_err(fail)?;
        }
        if let Some(path) = &self.out {
            let line = Line::new().good("✓ ").plain(plural(count, "record")).plain(" in ").name(path.display().to_string());
            console.show_wrapped(&serde_json::json!({"records": count, "file": path}), |_| Page(vec![line]));
        }
        OK
    }
}

/// A journal tells much about its owner, and an older export is not ours to overwrite.
fn create(path: &Path) -> Result<File, CommandError> {
    OpenOptions::new().create_new(true).write(true).mode(0o600).open(path).map_err(|error| {
        CommandError::new(ErrorCode::WrongState, format!("cannot write a new file `{}`", path.display()))
            .why(error)
            .fix("name a file that is not there yet, in a folder you can write to")
    })
}

fn fail(error: std::io::Error) -> CommandError {
    CommandError::new(ErrorCode::DiskFull, "the export is not complete").why(error).fix("free some space, or name a file on another disk")
}

/// Byte for byte into a pipe; a terminal gets what it can show.
fn print(lines: &[String], console: &Console) {
    if console.out.tty {
        let mut page = Page::new();
        lines.iter().for_each(|line| page.block("", Tone::Plain, line));
        return console.out.uncut(&page);
    }
    let mut text = lines.join("\n");
    text.push('\n');
    console.out.write(text.as_bytes());
}
