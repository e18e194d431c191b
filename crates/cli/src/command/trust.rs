//! `skep trust`: puts a project's own policy files in force, after a person has read them.

use crate::console::{Console, OK, Outcome, folder};
use crate::show::{Line, policy, zone};
use std::path::PathBuf;
use wire::method::policy::{Check, CheckParams};
use wire::method::zone::{Trust as Method, TrustParams};

/// Read a project's own policy files and put them in force
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep trust            shows the difference, then asks\n  skep trust --yes      without asking\n\n\
Trust is for exactly these bytes: any later change is a proposal again.")]
pub struct Trust {
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// The repository [default: where you are]
    #[arg(long, value_name = "DIR")]
    zone: Option<PathBuf>,
}

impl Trust {
    pub async fn run(self, console: &Console) -> Outcome {
        let path = folder(self.zone.as_deref())?;
        let mut kernel = console.kernel().await?;
        let shown = kernel.call::<Method>(&TrustParams { path: path.clone(), hash: None }).await?;
        if !console.json {
            console.out.whole(&zone::proposed(&shown));
            let checked = kernel.call::<Check>(&CheckParams { path: path.clone(), text: None }).await?;
            console.out.whole(&policy::problems(&checked.problems));
        }
        if !shown.changed {
            if console.json {
                console.out.json(&shown);
            }
            return OK;
        }
        if !self.yes && !console.confirm("put exactly this in force?", "--yes")? {
            console.note(Line::new().faint("nothing changed"));
            return OK;
        }
        let result = kernel.call::<Method>(&TrustParams { path, hash: Some(shown.hash) }).await?;
        console.show(&result, zone::trusted);
        OK
    }
}
