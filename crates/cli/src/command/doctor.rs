//! `skep doctor`: what this host can do.

use crate::console::{Console, ExitResult};
use crate::show::kernel;
use wire::ErrorCode;
use wire::method::Nothing;
use wire::table::KernelDoctor;

/// Say what this host supports, and how to get the rest
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep doctor\n  skep doctor --json")]
pub struct DoctorArgs {}

impl DoctorArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut client = console.kernel().await?;
        let result = console.wait("looking around", client.call::<KernelDoctor>(&Nothing {})).await?;
        console.show_wrapped(&result, kernel::doctor);
        Ok(if result.checks.iter().all(|check| check.ok) { 0 } else { ErrorCode::Unsupported.exit() })
    }
}
