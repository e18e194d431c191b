//! `skep trust`: puts a project's own policy files in force, after a person has read them.

use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK, folder};
use crate::show::{Line, policy, zone};
use std::path::PathBuf;
use wire::method::policy::{PolicyCheckParams, PolicyTrialParams};
use wire::method::zone::ZoneTrustParams;
use wire::table::{PolicyCheck, PolicyTrial, ZoneTrust};

/// Read a project's own policy files and put them in force
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep trust            shows the difference, then asks\n  skep trust --yes      without asking\n\n\
More than five breaking changes need a typed phrase, as at `skep policy update`. Trust is for exactly these bytes: any later change is a proposal again.")]
pub struct TrustArgs {
    /// Do not ask; not enough for more than five breaking changes
    #[arg(long, short)]
    yes: bool,
    /// The phrase that more than five breaking changes need
    #[arg(long, value_name = "TEXT")]
    phrase: Option<String>,
    /// The repository [default: where you are]
    #[arg(long, value_name = "DIR")]
    zone: Option<PathBuf>,
}

impl TrustArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let path = folder(self.zone.as_deref())?;
        let mut kernel = console.kernel().await?;
        let shown = kernel.call::<ZoneTrust>(&ZoneTrustParams { path: path.clone(), hash: None, phrase: None }).await?;
        if !console.json {
            console.out.uncut(&zone::proposed(&shown));
            let checked = kernel.call::<PolicyCheck>(&PolicyCheckParams { path: path.clone(), text: None }).await?;
            console.out.uncut(&policy::problems(&checked.problems));
            if shown.breaking > 0 {
                let params = PolicyTrialParams { path: path.clone(), last: None, after_seq: None, before_seq: None, text: None };
                console.out.uncut(&policy::tried(&kernel.call::<PolicyTrial>(&params).await?));
            }
        }
        if !shown.changed {
            if console.json {
                console.out.json(&shown);
            }
            return OK;
        }
        if !agreed(shown.phrase.as_deref(), self.yes, self.phrase.as_deref(), console)? {
            console.note(Line::new().faint("nothing changed"));
            return OK;
        }
        let result = kernel.call::<ZoneTrust>(&ZoneTrustParams { path, hash: Some(shown.hash), phrase: shown.phrase }).await?;
        console.show(&result, zone::trusted);
        OK
    }
}

/// Has a person said yes to what was shown, in the way that its breaking changes demand? The kernel asks for the same phrase.
pub fn agreed(phrase: Option<&str>, yes: bool, typed: Option<&str>, console: &Console) -> Result<bool, CommandError> {
    match (phrase, typed) {
        (Some(phrase), Some(typed)) => Ok(typed == phrase),
        (Some(phrase), None) => console.confirm_by(phrase, &format!("--phrase '{phrase}'")),
        (None, _) if yes => Ok(true),
        (None, _) => console.confirm("put exactly this in force?", "--yes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::Screen;

    #[test]
    fn a_phrase_is_not_replaced_by_a_yes() {
        let console = Console { home: PathBuf::new(), json: true, out: Screen::stdout(), err: Screen::stderr() };
        let six = Some("break 6 calls");
        assert_eq!(agreed(None, true, None, &console), Ok(true));
        assert!(agreed(six, true, None, &console).is_err(), "a yes is not enough");
        assert_eq!(agreed(six, false, six, &console), Ok(true));
        assert_eq!(agreed(six, true, Some("break 7 calls"), &console), Ok(false));
        assert!(agreed(None, false, None, &console).is_err(), "without a terminal nobody has said yes");
    }
}
