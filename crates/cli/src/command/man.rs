//! `skep man`: the manual pages.

use crate::args;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::show::{Line, Page};
use std::path::PathBuf;
use wire::ErrorCode;

/// Print the manual page, or write all of them to a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep man | man -l -\n  skep man ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Where to write skep.1 and one page for each command
    dir: Option<PathBuf>,
}

impl ManArgs {
    pub fn run(self, console: &Console) -> ExitResult {
        let fail = |error: std::io::Error| {
            CommandError::new(ErrorCode::Unavailable, "cannot write the manual").why(error).fix("name a folder you can write to")
        };
        let Some(dir) = self.dir else {
            let mut page = Vec::new();
            clap_mangen::Man::new(args::command()).render(&mut page).map_err(fail)?;
            console.print_text(&String::from_utf8_lossy(&page));
            return OK;
        };
        std::fs::create_dir_all(&dir).map_err(fail)?;
        clap_mangen::generate_to(args::command(), &dir).map_err(fail)?;
        let line = Line::new().good("✓ ").plain("the manual is in ").name(dir.display().to_string());
        console.show_wrapped(&serde_json::json!({"dir": dir}), |_| Page(vec![line]));
        OK
    }
}
