//! `skep extension-child`: what the kernel starts in a room to run extension rules. Not for people.

use std::process::ExitCode;

/// Run extension rules for the kernel
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub struct ExtensionChildArgs {}

impl ExtensionChildArgs {
    /// Called before any thread exists.
    pub fn run(&self) -> ExitCode {
        server::extension_child()
    }
}
