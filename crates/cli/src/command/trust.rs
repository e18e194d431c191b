//! `skep trust`: puts a project's own policy files in force, after a person has read them.

use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK, PhraseAnswer, folder};
use crate::show::{Line, policy, zone};
use serde::Serialize;
use std::path::PathBuf;
use wire::ErrorCode;
use wire::method::policy::{PolicyCheckParams, PolicyHomeParams, PolicyTrialParams};
use wire::method::zone::ZoneTrustParams;
use wire::table::{PolicyCheck, PolicyHome, PolicyTrial, ZoneTrust};

/// Read a project's own policy files and put them in force
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep trust            shows the difference, then asks\n  skep trust --yes      without asking\n  skep trust --home     your own policy.yaml, for every project\n\n\
More than five breaking changes, and anything that allows more than before, need a typed phrase, as at `skep policy update`. Trust is for exactly these bytes: any later change is a proposal again."
)]
pub struct TrustArgs {
    /// Do not ask; not enough where a phrase is needed
    #[arg(long, short)]
    yes: bool,
    /// The phrase that many breaking changes, or looser rules, need
    #[arg(long, value_name = "TEXT")]
    phrase: Option<String>,
    /// The repository [default: where you are]
    #[arg(long, value_name = "DIR")]
    zone: Option<PathBuf>,
    /// Your own policy.yaml in $SKEP_HOME, which holds in every project
    #[arg(long, conflicts_with = "zone")]
    home: bool,
}

impl TrustArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        if self.home {
            return self.trust_home(console).await;
        }
        let path = folder(self.zone.as_deref())?;
        let mut kernel = console.kernel().await?;
        let shown = kernel.call::<ZoneTrust>(&ZoneTrustParams { path: path.clone(), hash: None, phrase: None }).await?;
        if !console.json {
            let mut page = zone::proposed(&shown);
            let checked = kernel.call::<PolicyCheck>(&PolicyCheckParams { path: path.clone(), text: None }).await?;
            page.append(policy::problems(&checked.problems));
            if shown.breaking > 0 {
                let params = PolicyTrialParams { path: path.clone(), last: None, after_seq: None, before_seq: None, text: None };
                page.append(policy::tried(&kernel.call::<PolicyTrial>(&params).await?));
            }
            // In a few lines what matters, then all of it.
            console.out.uncut(&policy::rule_changes(&shown.rules, shown.version));
            console.out.long(&console.out.render_uncut(&page));
        }
        if !self.has_agreed(&shown, shown.changed, shown.phrase.as_deref(), console)? {
            return OK;
        }
        let result = kernel.call::<ZoneTrust>(&ZoneTrustParams { path, hash: Some(shown.hash), phrase: shown.phrase }).await?;
        console.show_wrapped(&result, zone::trusted);
        OK
    }

    /// The operator's own policy, by the same rule: shown, then put in force exactly as it was shown.
    async fn trust_home(self, console: &Console) -> ExitResult {
        let mut kernel = console.connect().await?;
        console.report_other_notices(&mut kernel, |settings| settings.policy_drifts = false).await?;
        let shown = kernel.call::<PolicyHome>(&PolicyHomeParams::default()).await?;
        if !console.json {
            console.out.uncut(&zone::proposed_home(&shown));
            console.out.uncut(&policy::problems(&shown.problems));
        }
        if !self.has_agreed(&shown, shown.changed, shown.phrase.as_deref(), console)? {
            return OK;
        }
        let result = kernel.call::<PolicyHome>(&PolicyHomeParams { hash: Some(shown.hash), phrase: shown.phrase }).await?;
        console.show_wrapped(&result, zone::trusted_home);
        OK
    }

    /// Is what was shown to be put in force?
    fn has_agreed(&self, shown: &impl Serialize, is_changed: bool, phrase: Option<&str>, console: &Console) -> Result<bool, CommandError> {
        if is_changed {
            return agreed(phrase, self.yes, self.phrase.as_deref(), console);
        }
        if console.json {
            console.out.json(shown);
        }
        Ok(false)
    }
}

/// Has a person said yes to what was shown, in the way that its breaking changes demand? The kernel asks for the same phrase, and refuses
/// any other with the same code. A no is told.
pub fn agreed(phrase: Option<&str>, yes: bool, typed: Option<&str>, console: &Console) -> Result<bool, CommandError> {
    let Some(phrase) = phrase else {
        let is_agreed = yes || console.confirm("put exactly this in force?", "--yes")?;
        return Ok(is_agreed || no_change(console));
    };
    let flag = format!("--phrase '{phrase}'");
    let answer = match typed {
        Some(typed) if typed == phrase => PhraseAnswer::Right,
        Some(_) => PhraseAnswer::Wrong,
        None => console.confirm_typed("put this in force", phrase, &flag)?,
    };
    match answer {
        PhraseAnswer::Right => Ok(true),
        PhraseAnswer::Empty => Ok(no_change(console)),
        PhraseAnswer::Wrong => Err(CommandError::new(ErrorCode::Untrusted, "nothing changed: that is not the phrase")
            .why(format!("what was shown is put in force by the phrase `{phrase}`"))
            .fix(format!("read it again, then type exactly that, or add `{flag}`"))),
    }
}

fn no_change(console: &Console) -> bool {
    console.note(Line::new().faint("nothing changed"));
    false
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
        let no = agreed(six, true, Some("break 7 calls"), &console).unwrap_err();
        assert_eq!(no.code, ErrorCode::Untrusted);
        assert!(no.why.as_deref().unwrap_or_default().contains("`break 6 calls`"), "{no:?}");
        assert!(agreed(None, false, None, &console).is_err(), "without a terminal nobody has said yes");
    }
}
