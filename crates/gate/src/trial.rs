//! The policy for people: checked, explained, tried on the past, and its own past.

use crate::difference;
use crate::past_call::{PastAnswers, PastCall, PastCalls};
use crate::policies::Policies;
use crate::token::ISSUE;
use crate::worker::{WORKER_NAME, WORKER_ROLE};
use crate::zone::{self, Bundle, POLICY_FILE, TrustedPolicy};
use crate::{CLIENT, Gate, JOB, MODEL_REQUEST, locate};
use journal::Filter;
use ledger::{Ledger, MERGE, event_of};
use policy::{KnownNames, Policy, PolicyError, RuleChange, RuleChangeEffect, Trial, Warning};
use std::path::Path;
use std::sync::Arc;
use world::{Code, Event, Refusal, Zone, ZoneId};
use world::{Fault, FaultKind, Stop};

/// What a look at a policy file found.
#[derive(Debug)]
pub struct Checked {
    pub rules: usize,
    pub extensions: usize,
    pub error: Option<PolicyError>,
    pub warnings: Vec<Warning>,
    /// Of extension rules, in their own words.
    pub flaws: Vec<plugin::RuleFlaw>,
}

/// One version that was in force.
#[derive(Debug, Clone)]
pub struct PastPolicy {
    pub version: u64,
    pub seq: u64,
    pub at_ms: i64,
    pub by: String,
    pub hash: String,
    pub diff: String,
}

/// Which calls of the past.
#[derive(Debug, Clone, Default)]
pub struct CallRange {
    pub last: Option<u64>,
    pub after_seq: Option<u64>,
    pub before_seq: Option<u64>,
}

impl Policies {
    /// Every version of the operator's own policy, newest first.
    pub fn home_policy_log(&self) -> Result<Vec<PastPolicy>, Stop> {
        let filter = Filter { kinds: vec!["policy.home_updated".into()], ..Filter::default() };
        let mut before = String::new();
        let mut versions = Vec::new();
        for record in self.ledger.read(&filter)? {
            let Event::HomePolicyUpdated(e) = event_of(&record)? else { continue };
            let text = String::from_utf8_lossy(&self.ledger.blob(&e.blob)?).into_owned();
            let diff = workspace::unified(("before", crate::HOME_POLICY_FILE), before.as_bytes(), text.as_bytes(), 2).text;
            versions.push(PastPolicy { version: e.version, seq: record.seq, at_ms: record.at_ms, by: e.by, hash: e.blob, diff });
            before = text;
        }
        versions.reverse();
        Ok(versions)
    }

    /// Every version that was in force in a zone, newest first.
    pub async fn policy_log(&self, path: &Path) -> Result<Vec<PastPolicy>, Stop> {
        let zone = self.zone(&locate(path).await?)?;
        let filter = Filter { kinds: vec!["policy.updated".into()], ..Filter::default() };
        let mut before = Bundle::default();
        let mut versions = Vec::new();
        for record in self.ledger.read(&filter)? {
            let Event::PolicyUpdated(e) = event_of(&record)? else { continue };
            if e.zone != zone.id {
                continue;
            }
            let bundle: Bundle = serde_json::from_slice(&self.ledger.blob(&e.blob)?)
                .map_err(|error| Fault::new(FaultKind::Bug, "a policy cannot be read", error))?;
            let diff = zone::difference(&before, &bundle);
            versions.push(PastPolicy { version: e.version, seq: record.seq, at_ms: record.at_ms, by: e.by, hash: e.blob, diff });
            before = bundle;
        }
        versions.reverse();
        Ok(versions)
    }
}

impl Gate {
    /// Parses a candidate, or the project's own file, and puts nothing in force. What masks do not keep from rooms, the kernel adds.
    pub async fn check_policy(&self, bundle: &Bundle, text: Option<&str>) -> Result<Checked, Stop> {
        let text = text.map_or(bundle.policy.as_str(), |text| text);
        let (rules, error, warnings) = match Policy::parse(text, POLICY_FILE) {
            Ok((policy, mut warnings)) => {
                // A rule about a tool that is judged as another would never speak.
                let tools = self.tools.list().filter(|tool| !tool.is_adapted()).map(|tool| tool.manifest().name.as_str());
                let calls = [MERGE, ISSUE, "policy.update", MODEL_REQUEST, "net.connect", "net.request", "person.ask", policy::SET_MODE];
                let calls = calls.into_iter().chain(policy::WORKFLOW_CALLS);
                let calls: Vec<&str> = tools.chain(calls).collect();
                let operator = self.policies.operator_rooms();
                let rooms: Vec<&str> = operator.templates.list().map(|template| template.name.as_str()).collect();
                let roles = roles(&self.ledger);
                let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
                let given = self.ledger.look(|world| world.tasks.values().flat_map(|task| task.tags.clone()).collect::<Vec<_>>());
                let tags: Vec<&str> = roles.iter().copied().chain(["operator", "brain"]).chain(given.iter().map(String::as_str)).collect();
                let callers = callers(&self.ledger);
                let callers: Vec<&str> = callers.iter().map(String::as_str).collect();
                let known = KnownNames { calls: &calls, rooms: &rooms, tags: &tags, roles: &roles, callers: &callers };
                warnings.extend(policy.typos(&known, POLICY_FILE));
                warnings.sort_by_key(|warning| (warning.line, warning.column));
                (policy.rules().len(), None, warnings)
            }
            Err(error) => (0, Some(error), Vec::new()),
        };
        let flaws = self.policies.check_extensions(&bundle.rules).await?;
        Ok(Checked { rules, extensions: bundle.rules.len(), error, warnings, flaws })
    }

    /// Tries a candidate, or the project's own file, on calls of the past.
    pub async fn try_policy(&self, path: &Path, text: Option<&str>, range: &CallRange) -> Result<Trial, Stop> {
        let top = locate(path).await?;
        let zone = self.policies.zone(&top)?;
        let (mut bundle, _) = crate::read_bundle(&top).await?;
        if let Some(text) = text {
            text.clone_into(&mut bundle.policy);
        }
        self.tried(&zone, &bundle, range).await
    }

    /// What putting the project's own files in force would change, by their rules and for the newest calls. Where nothing is in force,
    /// nothing can break.
    pub async fn try_proposal(&self, path: &Path) -> Result<Trial, Stop> {
        let top = locate(path).await?;
        let zone = self.policies.zone(&top)?;
        let bundle = crate::read_bundle(&top).await?.0;
        self.check_bundle(&bundle).await?;
        self.breaks(&zone, &bundle).await
    }

    async fn breaks(&self, zone: &Zone, bundle: &Bundle) -> Result<Trial, Stop> {
        if zone.policy_version == 0 {
            return Ok(Trial { rules: self.rule_changes(zone, bundle)?, ..Trial::default() });
        }
        self.tried(zone, bundle, &CallRange::default()).await
    }

    /// What a bundle says differently than what is in force; where nothing is, than the default.
    fn rule_changes(&self, zone: &Zone, bundle: &Bundle) -> Result<Vec<RuleChange>, Stop> {
        let in_force = self.policies.trusted(zone.id)?.map(|trusted| trusted.bundle.clone());
        let default = || Bundle { policy: policy::default_policy().to_owned(), ..Bundle::default() };
        Ok(difference::between(&in_force.unwrap_or_else(default), bundle))
    }

    /// Files as they would hold if they were in force; a mistake in the policy is told as `check` tells it.
    pub fn candidate(&self, zone: ZoneId, bundle: &Bundle) -> Result<Arc<TrustedPolicy>, Refusal> {
        parse_policy(&bundle.policy)?;
        self.policies.proposed(zone, bundle)
    }

    /// Tries a whole bundle: its rules, what its `mask` hides, and its extensions. By the same judgement as a call at the door, so that a
    /// trial says what `explain` says.
    async fn tried(&self, zone: &Zone, bundle: &Bundle, range: &CallRange) -> Result<Trial, Stop> {
        let candidate = self.candidate(zone.id, bundle)?;
        let past = PastCalls::new(self, zone, &candidate)?;
        let trial: Trial = if bundle.rules.is_empty() {
            past.newest(range, |call| call.judge_by(&candidate.policy))?.into_iter().collect()
        } else {
            let mut calls = past.newest(range, |call| call)?;
            if !calls.is_empty() {
                let loaded = self.policies.load_candidates(&bundle.rules).await?;
                let candidates =
                    loaded.map_err(|flaw| Refusal::new(Code::BadInput, format!(".skep/rules/{flaw}")).hint("mend the rule"))?;
                for PastCall { call, .. } in &mut calls {
                    call.ask_candidates(self, &candidate.policy, &candidates.extensions).await;
                }
                candidates.end().await?;
            }
            calls.iter().map(|call| call.judge_by(&candidate.policy)).collect()
        };
        Ok(Trial { rules: self.rule_changes(zone, bundle)?, ..trial })
    }

    /// Tries another policy of the operator's own on the newest calls of every project, with what is in force there.
    pub(crate) fn try_above(&self, above: &Arc<Policy>) -> Result<Trial, Stop> {
        let zones: Vec<Zone> = self.ledger.look(|world| world.zones.values().filter(|zone| zone.policy_version > 0).cloned().collect());
        let mut all = Trial::default();
        for zone in zones {
            let bundle = self.policies.in_force(zone.id)?.bundle.clone();
            let candidate = self.policies.proposed_under(zone.id, &bundle, Some(above.clone()))?;
            let past = PastCalls::new(self, &zone, &candidate)?;
            let outcomes = past.newest(&CallRange::default(), |call| call.judge_by(&candidate.policy))?;
            let Trial { cases, breaking, changes, .. } = outcomes.into_iter().collect();
            all.cases += cases;
            all.breaking += breaking;
            all.changes.extend(changes);
        }
        Ok(all)
    }

    /// Refuses a policy that breaks more calls than one key may confirm, or that allows more than what is in force, unless its phrase
    /// was typed. The calls that count are the kernel's to choose.
    pub(crate) async fn may_break(&self, zone: &Zone, bundle: &Bundle, typed: Option<&str>) -> Result<(), Stop> {
        let trial = self.breaks(zone, bundle).await?;
        match trial.phrase() {
            Some(phrase) if typed != Some(phrase.as_str()) => {
                let breaks = format!("it would deny {} of the last {} calls, which were allowed", trial.breaking, trial.cases);
                let looser = trial.rules.iter().filter(|change| change.effect == RuleChangeEffect::Looser);
                let looser: Vec<String> = looser.map(|change| format!("`{}`", change.name)).collect();
                let reason = match (trial.breaking > policy::BREAKING_MAX, looser.is_empty()) {
                    (true, true) => breaks,
                    (true, false) => format!("{breaks}, and allow more by {}", looser.join(", ")),
                    _ => format!("it would allow more, by {}", looser.join(", ")),
                };
                Err(Refusal::new(Code::Untrusted, reason).remedy(world::Remedy::ConfirmPolicy { phrase }).into())
            }
            _ => Ok(()),
        }
    }

    /// Proposes rules from how questions were answered.
    pub async fn suggest_rules(&self, path: &Path) -> Result<policy::Suggestions, Stop> {
        let zone = self.policies.zone(&locate(path).await?)?;
        let trusted = self
            .policies
            .trusted(zone.id)?
            .ok_or_else(|| Refusal::new(Code::Untrusted, "no policy is in force").remedy(world::Remedy::TrustProject))?;
        let PastAnswers { history, refused } = PastCalls::new(self, &zone, &trusted)?.answers()?;
        let refused: Vec<_> = refused.iter().map(|call| call.seen().clone()).collect();
        Ok(policy::suggest(&trusted.policy, &history, &refused))
    }
}

/// A candidate, if it is a policy at all.
pub fn parse_policy(text: &str) -> Result<Policy, Refusal> {
    match Policy::parse(text, POLICY_FILE) {
        Ok((policy, _)) => Ok(policy),
        Err(error) => Err(Refusal::new(Code::BadInput, error.to_string()).hint("mend the file").remedy(world::Remedy::CheckPolicy)),
    }
}

/// The roles that callers have, or will have with the first task.
fn roles(ledger: &Ledger) -> std::collections::BTreeSet<String> {
    let seen = ledger.look(|world| world.processes.values().map(|process| process.role.clone()).collect::<Vec<_>>());
    seen.into_iter().chain(["operator", WORKER_ROLE, JOB, CLIENT].map(str::to_owned)).collect()
}

/// What callers are called by, without their number.
fn callers(ledger: &Ledger) -> std::collections::BTreeSet<String> {
    let stem = |process: &world::Process| process.name.rsplit_once('.').map_or(process.name.as_str(), |(stem, _)| stem).to_owned();
    let seen = ledger.look(|world| world.processes.values().map(stem).collect::<Vec<_>>());
    seen.into_iter().chain(["operator", WORKER_NAME, JOB, CLIENT].map(str::to_owned)).collect()
}
