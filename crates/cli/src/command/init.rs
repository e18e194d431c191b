//! `skep init`: opens a zone.

use crate::console::{Console, ExitResult, folder};
use crate::show::zone;
use std::path::PathBuf;
use wire::ErrorCode;
use wire::method::zone::ZoneInitParams;
use wire::table::ZoneInit;

/// Set up a repository for skep
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep init\n  skep init --zone ~/code/site\n\n\
Writes a commented skep.yml and .skep/policy.yaml and puts them in force. The first `act` or `ask` does the same. A repository \
that brings its own files waits for `skep trust`.")]
pub struct InitArgs {
    /// The repository [default: where you are]
    #[arg(long, value_name = "DIR")]
    zone: Option<PathBuf>,
}

impl InitArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let params = ZoneInitParams { path: folder(self.zone.as_deref())? };
        let result = console.kernel().await?.call::<ZoneInit>(&params).await?;
        console.show_wrapped(&result, zone::opened);
        Ok(if result.ready { 0 } else { ErrorCode::Untrusted.exit() })
    }
}
