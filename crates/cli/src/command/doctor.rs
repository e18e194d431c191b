//! `skep doctor`: what this host can do, which models can be asked, and which brains are installed.

use crate::command::brain;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult};
use crate::show::kernel;
use wire::method::Nothing;
use wire::method::kernel::HostCheck;
use wire::table::KernelDoctor;
use wire::{ErrorCode, KernelClient};

/// Say what this host supports, and how to get the rest
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep doctor\n  skep doctor --json\n\nIt looks at the sandbox, at models and their keys, and at the vendors' \
own programs on your PATH."
)]
pub struct DoctorArgs {}

impl DoctorArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut client = console.kernel().await?;
        let mut result = console.wait("looking around", client.call::<KernelDoctor>(&Nothing {})).await?;
        result.checks.extend(brains(&mut client, console).await?);
        console.show_wrapped(&result, kernel::doctor);
        Ok(if result.checks.iter().all(|check| check.ok || check.optional) { 0 } else { ErrorCode::Unsupported.exit() })
    }
}

/// Which vendors' programs there are, and whether they work. None is needed: the built-in brain is always there.
async fn brains(kernel: &mut KernelClient, console: &Console) -> Result<Vec<HostCheck>, CommandError> {
    let reports = brain::reports(kernel, None, console).await?;
    let clients = reports.into_iter().filter(|report| report.name != "native" && report.alias_of.is_none());
    Ok(clients
        .map(|report| {
            let (ok, section) = (report.is_ready(), "brains".to_owned());
            let words = [report.version, report.program, (!report.providers.is_empty()).then(|| report.auth.as_str().to_owned())];
            let mut detail = words.into_iter().flatten().collect::<Vec<_>>().join(", ");
            let (mut fix, mut remedy) = (None, None);
            if let Some(problem) = report.problem {
                detail = format!("{detail}{}{}", if detail.is_empty() { "" } else { "; " }, problem.why);
                (fix, remedy) = (problem.fix, problem.remedy);
            }
            HostCheck { section, name: report.name, ok, optional: true, detail, fix, remedy }
        })
        .collect())
}
