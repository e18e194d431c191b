//! `skep journal verify`: by the kernel, or without one by the files alone.

use crate::command_error::CommandError;
use crate::console::{Console, ExitResult};
use crate::show::{Line, journal};
use std::time::Instant;
use wire::ErrorCode;
use wire::code::EXIT_FAILED;
use wire::method::Nothing;
use wire::method::journal::JournalVerifyResult;
use wire::table::JournalVerify;

#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// Read the files themselves, without a kernel
    #[arg(long)]
    offline: bool,
}

impl VerifyArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let asked = Instant::now();
        let result = if self.offline { offline(console).await? } else { asked_or_offline(console).await? };
        let ms = u64::try_from(asked.elapsed().as_millis()).unwrap_or(u64::MAX);
        console.show_wrapped(&result, |result| journal::verdict(result, ms));
        Ok(if result.findings.is_empty() { 0 } else { EXIT_FAILED })
    }
}

/// A journal that keeps the kernel from starting is the one that must be looked at.
async fn asked_or_offline(console: &Console) -> Result<JournalVerifyResult, CommandError> {
    let mut kernel = match console.kernel().await {
        Ok(kernel) => kernel,
        // What belongs to somebody else is not read.
        Err(error) if error.code == ErrorCode::Denied => return Err(error),
        Err(error) => {
            let why = error.why.map(|why| format!(": {why}")).unwrap_or_default();
            console.note(Line::new().wait("◍ ").plain(format!("{}{why}", error.what)));
            console.note(Line::new().faint("  the files are verified without a kernel"));
            return offline(console).await;
        }
    };
    Ok(console.wait_counting("verifying the chain", None, kernel.call::<JournalVerify>(&Nothing {})).await?)
}

async fn offline(console: &Console) -> Result<JournalVerifyResult, CommandError> {
    let home = console.home.clone();
    let verified = console.wait("verifying the files", tokio::task::spawn_blocking(move || server::verify_offline(&home))).await;
    verified.map_err(|error| error.to_string()).flatten().map_err(|why| {
        let what = format!("the journal in `{}` cannot be verified", console.home.display());
        CommandError::new(ErrorCode::Unavailable, what).why(why).fix("look at its files and at $SKEP_HOME")
    })
}
