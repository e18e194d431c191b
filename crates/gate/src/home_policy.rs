//! The operator's own policy, `$SKEP_HOME/policy.yaml`: in force in every project, and above what projects say.
//!
//! The file is a proposal, as a project's files are. **Invariant.** What decides is the text named by the last `policy.home_updated`; a
//! change of the file counts once the operator trusts its exact hash.

use crate::Gate;
use crate::bundle::FILE_BYTES_MAX;
use crate::policies::Policies;
use policy::{Policy, PolicyError, Warning};
use std::sync::Arc;
use workspace::{aside, hash, unified};
use world::event::HomePolicyUpdated;
use world::{Code, Fault, FaultKind, HomePolicy, Pid, Refusal, Stop};

/// In `$SKEP_HOME`.
pub const HOME_POLICY_FILE: &str = "policy.yaml";

/// The operator's own policy file beside what is in force.
#[derive(Debug)]
pub struct HomeProposal {
    /// Where the file is.
    pub file: String,
    pub text: String,
    pub hash: String,
    /// From what is in force to the file; empty when equal.
    pub diff: String,
    /// Version in force; 0 when none is.
    pub version: u64,
}

impl Policies {
    /// The operator's own policy, parsed once for each version. `None` while there is none.
    pub(crate) fn home_policy(&self) -> Result<Option<Arc<Policy>>, Fault> {
        let Some(HomePolicy { blob, version }) = self.ledger.look(|world| world.home_policy.clone()) else { return Ok(None) };
        let mut kept = self.above.lock();
        if let Some((_, policy)) = kept.as_ref().filter(|(known, _)| *known == version) {
            return Ok(Some(policy.clone()));
        }
        let text = self.ledger.blob(&blob)?;
        let parsed = Policy::parse(&String::from_utf8_lossy(&text), HOME_POLICY_FILE);
        let (policy, _) = parsed.map_err(|error| Fault::new(FaultKind::Bug, "the operator's own policy does not parse", error))?;
        let policy = Arc::new(policy);
        *kept = Some((version, policy.clone()));
        Ok(Some(policy))
    }

    /// The file beside what is in force. A missing file is an empty one.
    pub fn home_proposal(&self) -> Result<HomeProposal, Stop> {
        let path = self.home.join(HOME_POLICY_FILE);
        let (in_force, version) = match self.ledger.look(|world| world.home_policy.clone()) {
            Some(HomePolicy { blob, version }) => (String::from_utf8_lossy(&self.ledger.blob(&blob)?).into_owned(), version),
            None => (String::new(), 0),
        };
        let read = aside(|| match std::fs::metadata(&path) {
            Ok(meta) if meta.len() > FILE_BYTES_MAX => {
                Err(std::io::Error::other(format!("it has more than {} KiB", FILE_BYTES_MAX / 1024)))
            }
            Ok(_) => yaml::read_file(&path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(error),
        });
        let text = read
            .map_err(|error| Refusal::new(Code::BadInput, format!("`{}` cannot be read: {error}", path.display())).hint("mend the file"))?;
        let diff = if in_force == text {
            String::new()
        } else {
            unified((&format!("in force/{HOME_POLICY_FILE}"), HOME_POLICY_FILE), in_force.as_bytes(), text.as_bytes(), 2).text
        };
        Ok(HomeProposal { file: path.display().to_string(), hash: hash::sha256(text.as_bytes()), text, diff, version })
    }

    /// Whether the file is another than what is in force.
    pub fn home_drifts(&self) -> bool {
        // A file that cannot be read is not the one that was trusted.
        self.home_proposal().map_or(true, |proposal| !proposal.diff.is_empty())
    }
}

impl HomeProposal {
    /// What is wrong with the file; `Ok` with what is odd about it. Without rules it bounds nothing, which is what most people have.
    pub fn check(&self) -> Result<Vec<Warning>, PolicyError> {
        // Without rules it narrows nothing, whatever that would mean for a project's own.
        Policy::parse(&self.text, &self.file).map(|(policy, warnings)| if policy.rules().is_empty() { Vec::new() } else { warnings })
    }
}

impl Gate {
    /// Puts the operator's own file in force, if it still has the hash that was shown. More than a few breaking changes, over all projects,
    /// want their phrase.
    pub async fn trust_home(&self, hash: &str, phrase: Option<&str>) -> Result<HomeProposal, Stop> {
        let proposal = self.policies.home_proposal()?;
        if proposal.hash != hash {
            let changed = Refusal::new(Code::WrongState, "the file changed after you looked at it").hint("look at it again");
            return Err(changed.remedy(world::Remedy::TrustHomePolicy).into());
        }
        if proposal.diff.is_empty() {
            return Ok(proposal);
        }
        let trial = self.try_home(&proposal.text)?;
        if let Some(wanted) = trial.phrase().filter(|wanted| phrase != Some(wanted.as_str())) {
            let reason = format!("it would deny {} of the last {} calls, which were allowed", trial.breaking, trial.cases);
            return Err(Refusal::new(Code::Untrusted, reason).remedy(world::Remedy::ConfirmPolicy { phrase: wanted }).into());
        }
        let blob = self.ledger.keep(proposal.text.as_bytes())?;
        let pending = self.ledger.commit(|world, _| {
            let version = world.home_policy.as_ref().map_or(0, |home| home.version) + 1;
            (vec![HomePolicyUpdated { pid: Pid::OPERATOR, task: None, blob, version, by: "operator".to_owned() }.into()], version)
        })?;
        let version = pending.durable().await?;
        Ok(HomeProposal { version, ..proposal })
    }

    /// What this text as the operator's own policy would change for the newest calls of every project.
    pub fn try_home(&self, text: &str) -> Result<policy::Trial, Stop> {
        let (above, _) = Policy::parse(text, HOME_POLICY_FILE)
            .map_err(|error| Refusal::new(Code::BadInput, error.to_string()).hint(error.hint.unwrap_or_else(|| "mend the file".into())))?;
        self.try_above(&Arc::new(above))
    }
}
