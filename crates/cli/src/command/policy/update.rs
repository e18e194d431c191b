//! `skep policy update`: from a candidate to what is in force, with a person in between.
//!
//! **Invariant.** Nothing is written before the yes, and what is put in force is, by its hash, what was shown.

use super::candidate::{Candidate, FILE};
use super::{Range, check, trial};
use crate::command::trust::agreed;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::show::{Line, Page, diff, policy, zone};
use std::path::{Path, PathBuf};
use wire::method::zone::{ZoneTrustParams, ZoneTrustResult};
use wire::table::ZoneTrust;
use wire::{ErrorCode, KernelClient};

#[derive(Debug, clap::Args)]
pub struct UpdateArgs {
    /// Rules that become the project's own [default: .skep/policy.yaml as it is]
    file: Option<PathBuf>,
    /// Do not ask; not enough where a phrase is needed
    #[arg(long, short)]
    yes: bool,
    /// The phrase that many breaking changes, or looser rules, need
    #[arg(long, value_name = "TEXT")]
    phrase: Option<String>,
    #[command(flatten)]
    range: Range,
}

impl UpdateArgs {
    pub(super) async fn run(self, kernel: &mut KernelClient, path: String, console: &Console) -> ExitResult {
        let candidate = Candidate::read(self.file.as_deref(), Path::new(&path))?;
        let checked = check(kernel, &path, &candidate).await?;
        if !checked.ok {
            console.show_uncut(&checked, |checked| policy::checked(checked, &candidate.name, None));
            let error = CommandError::new(ErrorCode::BadInput, format!("`{}` cannot be put in force", candidate.name));
            return Err(error.why("it has errors").fix("correct them, then try again"));
        }
        let drift = propose(kernel, &path).await?;
        if candidate.given && !diff::is_about(&drift.diff, FILE) {
            return Err(others().why("a yes to this file would put others in force that you have not been shown"));
        }
        let text = candidate.given.then(|| candidate.text.clone());
        let tried = console.wait("trying", trial(kernel, &path, text.clone(), &self.range)).await?;
        // The kernel counts over calls of its own choice, whatever range is looked at here.
        let counted = trial(kernel, &path, text, &Range::default()).await?;
        let shown = match candidate.given {
            true => diff::between(FILE, &Candidate::read(None, Path::new(&path))?.text, &candidate.text),
            false => drift.diff.clone(),
        };
        if shown.is_empty() && !drift.changed {
            console.show_wrapped(&drift, zone::proposed);
            return OK;
        }
        if !console.json {
            console.out.uncut(&policy::rule_changes(&tried.rules, drift.version));
            console.out.uncut(&policy::tried(&tried));
            console.out.uncut(&proposal(&shown, &candidate.name));
        }
        let phrase = counted.phrase.or(tried.phrase);
        if !agreed(phrase.as_deref(), self.yes, self.phrase.as_deref(), console)? {
            return OK;
        }
        let mut proposed = drift;
        if candidate.given {
            candidate.place(Path::new(&path))?;
            let before = std::mem::replace(&mut proposed, propose(kernel, &path).await?);
            if !diff::is_about(&proposed.diff, FILE) {
                return Err(others().why(format!("other files changed meanwhile; `{FILE}` is written, and not in force")));
            }
            // The project's file was a proposal itself, so what was shown was not the way from what is in force.
            if before.changed && !console.json {
                console.note(Line::new().wait("◍ ").plain(format!("`{FILE}` was not in force before either; all in all:")));
                console.out.uncut(&zone::proposed(&proposed));
            }
            if before.changed && !self.yes && !console.confirm("put all of it in force?", "--yes")? {
                console.note(Line::new().faint(format!("`{FILE}` is written, and not in force")));
                return OK;
            }
        }
        let hash = Some(proposed.hash);
        let result = kernel.call::<ZoneTrust>(&ZoneTrustParams { path, hash, phrase }).await?;
        console.show_wrapped(&result, zone::trusted);
        OK
    }
}

/// Whoever names one file says yes to that one.
fn others() -> CommandError {
    let what = format!("the project proposes more than `{FILE}`");
    CommandError::new(ErrorCode::Untrusted, what).fix("look at all of it with `skep trust`, or run `skep policy update` without a file")
}

fn proposal(shown: &str, name: &str) -> Page {
    let mut page = Page(vec![Line::new(), Line::new().strong("what changes").faint(format!("  {name}"))]);
    page.append(diff::unified(shown));
    page
}

async fn propose(kernel: &mut KernelClient, path: &str) -> Result<ZoneTrustResult, CommandError> {
    Ok(kernel.call::<ZoneTrust>(&ZoneTrustParams { path: path.to_owned(), hash: None, phrase: None }).await?)
}
