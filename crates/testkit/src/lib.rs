//! Makes tests short. Only ever a dev-dependency.

use kernel::{Kernel, PolicyProposal, Stop};
use std::path::Path;

pub mod bed;
pub mod harness;
pub mod scenario;
pub mod stage;
pub mod vfs;

/// Puts a project's own files in force as they are, with the phrase that they need.
pub async fn trust(kernel: &Kernel, project: &Path, hash: &str) -> Result<PolicyProposal, Stop> {
    let phrase = kernel.gate.try_proposal(project).await?.phrase();
    kernel.gate.trust(project, hash, phrase.as_deref()).await
}
