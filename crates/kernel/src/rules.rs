//! The policy for people: checked, explained, tried on the past, and its own past.

use crate::call::{self, Request};
use crate::fault::{Fault, FaultKind, Stop};
use crate::zone::{self, Bundle, POLICY_FILE};
use crate::{Kernel, locate};
use journal::Filter;
use policy::{Action, Case, Explanation, Known, OwnedFacts, OwnedPath, Policy, PolicyError, Trial, Warning};
use serde_json::Value;
use std::path::Path;
use world::{Answer, Code, Event, Mode, Pid, Refusal, TaskId, Zone};

/// What a look at a policy file found.
#[derive(Debug)]
pub struct Checked {
    pub rules: usize,
    pub extensions: usize,
    pub error: Option<PolicyError>,
    pub warnings: Vec<Warning>,
    /// Of extension rules, in their own words.
    pub flaws: Vec<plugin::Flaw>,
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
pub struct Range {
    pub last: Option<u64>,
    pub after_seq: Option<u64>,
    pub before_seq: Option<u64>,
}

/// Seed 003 tries a hundred.
const TRIED_DEFAULT: u64 = 100;
const TRIED_MAX: u64 = 100_000;

impl Kernel {
    /// Parses a candidate, or the project's own file, and puts nothing in force.
    pub async fn check_policy(&self, path: &Path, text: Option<&str>) -> Result<Checked, Stop> {
        let top = locate(path)?;
        let (bundle, _) = zone::read_bundle(&top).await?;
        let text = text.map_or(bundle.policy.as_str(), |text| text);
        let (rules, error, warnings) = match Policy::parse(text, POLICY_FILE) {
            Ok((policy, mut warnings)) => {
                let tools = self.tools.list().map(|tool| tool.manifest().name.as_str());
                let calls = [crate::MERGE, crate::token::ISSUE, "policy.update", "model.request", "net.connect", "net.request"];
                let calls: Vec<&str> = tools.chain(calls).collect();
                let rooms: Vec<&str> = self.templates.list().map(|template| template.name.as_str()).collect();
                let roles = self.roles();
                let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
                let tags: Vec<&str> = roles.iter().copied().chain(["operator", "brain"]).collect();
                let known = Known { calls: &calls, rooms: &rooms, tags: &tags, roles: &roles };
                warnings.extend(policy.slips(&known, POLICY_FILE));
                warnings.sort_by_key(|warning| (warning.line, warning.column));
                (policy.rules().len(), None, warnings)
            }
            Err(error) => (0, Some(error), Vec::new()),
        };
        let flaws = self.check_extensions(&bundle.rules).await?;
        Ok(Checked { rules, extensions: bundle.rules.len(), error, warnings, flaws })
    }

    /// The roles that callers have, or will have with the first task.
    fn roles(&self) -> std::collections::BTreeSet<String> {
        let seen = self.ledger.look(|world| world.processes.values().map(|process| process.role.clone()).collect::<Vec<_>>());
        seen.into_iter().chain(["operator".to_owned(), "foreman".to_owned()]).collect()
    }

    /// Says who would speak about a call of the operator's, and why. Nothing is recorded and nothing runs.
    pub async fn explain(&self, path: &Path, task: Option<TaskId>, tool: &str, input: Value, candidate: bool) -> Result<Explanation, Stop> {
        let top = locate(path)?;
        let zone = self.zone(&top)?.id;
        let pid = task.map(|task| self.task(task)).transpose()?.map_or(Pid::OPERATOR, |task| task.pid);
        let request = Request::new(pid, task, zone, tool, input);
        let candidate = if candidate { Some(parse(&zone::read_bundle(&top).await?.0.policy)?) } else { None };
        call::explain(self, &request, candidate.as_ref()).await
    }

    /// Tries a candidate, or the project's own file, on calls of the past.
    pub async fn try_policy(&self, path: &Path, text: Option<&str>, range: &Range) -> Result<Trial, Stop> {
        let top = locate(path)?;
        let zone = self.zone(&top)?;
        let policy = match text {
            Some(text) => parse(text)?,
            None => parse(&zone::read_bundle(&top).await?.0.policy)?,
        };
        Ok(policy::trial(&policy, &self.past_calls(&zone, range)?))
    }

    /// What putting the project's own file in force would change for the newest calls. Where nothing is in force, nothing can break.
    pub async fn try_proposal(&self, path: &Path) -> Result<Trial, Stop> {
        let top = locate(path)?;
        let zone = self.zone(&top)?;
        self.breaks(&zone, &parse(&zone::read_bundle(&top).await?.0.policy)?)
    }

    fn breaks(&self, zone: &Zone, policy: &Policy) -> Result<Trial, Stop> {
        let cases = if zone.policy_version == 0 { Vec::new() } else { self.past_calls(zone, &Range::default())? };
        Ok(policy::trial(policy, &cases))
    }

    /// Refuses a policy with more breaking changes than one key may confirm, unless their phrase was typed. The calls that count are
    /// the kernel's to choose.
    pub(crate) fn may_break(&self, zone: &Zone, policy: &Policy, typed: Option<&str>) -> Result<(), Stop> {
        let trial = self.breaks(zone, policy)?;
        match trial.phrase() {
            Some(phrase) if typed != Some(phrase.as_str()) => {
                let reason = format!("it would deny {} of the last {} calls, which were allowed", trial.breaking, trial.cases);
                Err(Refusal::new(Code::Untrusted, reason)
                    .hint(format!("look at `skep policy trial`, then type the phrase `{phrase}` at `skep trust`, or give it with --phrase"))
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// Proposes rules from how questions were answered.
    pub fn suggest_rules(&self, path: &Path) -> Result<policy::Suggestions, Stop> {
        let zone = self.zone(&locate(path)?)?;
        let mut asked = std::collections::BTreeMap::new();
        let (mut history, mut refused) = (Vec::new(), Vec::new());
        let kinds = ["review.asked", "review.answered", "call.refused"].map(str::to_owned).to_vec();
        let filter = Filter { kinds, ..Filter::default() };
        for record in self.ledger.read(&filter)? {
            match event(&record)? {
                Event::ReviewAsked(e) if self.is_of(e.pid, e.task, &zone) => {
                    let facts = self.facts_of(e.pid, e.task, &e.tool, &e.input, &e.paths, e.size, &zone);
                    asked.insert(e.review, facts);
                }
                Event::CallRefused(e) if e.code == Code::Denied && self.is_of(e.pid, e.task, &zone) => {
                    refused.push(self.facts_of(e.pid, e.task, &e.tool, &e.input, &e.paths, e.size, &zone));
                }
                Event::ReviewAnswered(e) => {
                    if let Some(facts) = asked.remove(&e.review) {
                        history.push(policy::Asked { facts, allowed: e.answer == Answer::Allow });
                    }
                }
                _ => {}
            }
        }
        let trusted =
            self.trusted(zone.id)?.ok_or_else(|| Refusal::new(Code::Untrusted, "no policy is in force").hint("run `skep trust`"))?;
        Ok(policy::suggest(&trusted.policy, &history, &refused))
    }

    /// Every version that was in force in a zone, newest first.
    pub fn policy_log(&self, path: &Path) -> Result<Vec<PastPolicy>, Stop> {
        let zone = self.zone(&locate(path)?)?;
        let filter = Filter { kinds: vec!["policy.updated".into()], ..Filter::default() };
        let mut before = Bundle::default();
        let mut versions = Vec::new();
        for record in self.ledger.read(&filter)? {
            let Event::PolicyUpdated(e) = event(&record)? else { continue };
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

    /// Calls of the past with what the policy said of them then.
    fn past_calls(&self, zone: &Zone, range: &Range) -> Result<Vec<Case>, Stop> {
        let limit = range.last.unwrap_or(TRIED_DEFAULT).min(TRIED_MAX);
        let mut cases = Vec::new();
        let mut before_seq = range.before_seq;
        // Backwards page by page, because other zones' calls are in between.
        while (cases.len() as u64) < limit {
            let kinds = vec!["call.admitted".into(), "call.refused".into(), "review.asked".into()];
            let filter = Filter { kinds, reverse: true, limit: Some(1_000), before_seq, after_seq: range.after_seq, ..Filter::default() };
            let page = self.ledger.read(&filter)?;
            let Some(oldest) = page.last().map(|record| record.seq) else { break };
            before_seq = Some(oldest);
            for record in &page {
                if let Some(case) = self.case_of(record, zone)? {
                    cases.push(case);
                }
            }
        }
        cases.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        cases.reverse();
        Ok(cases)
    }

    fn case_of(&self, record: &journal::Record, zone: &Zone) -> Result<Option<Case>, Stop> {
        let name = record.seq.to_string();
        Ok(match event(record)? {
            Event::CallAdmitted(e) if self.is_of(e.pid, e.task, zone) => {
                let facts =
                    OwnedFacts { read_only: e.read_only, ..self.facts_of(e.pid, e.task, &e.tool, &e.input, &e.paths, e.size, zone) };
                let then = if e.grant.is_some() { Action::RequireReview } else { Action::Allow };
                Some(Case { name, facts, then, by_token: e.token.is_some() })
            }
            // Only what policy refused: a call that did not fit its tool says nothing about rules.
            Event::CallRefused(e) if e.code == Code::Denied && self.is_of(e.pid, e.task, zone) => {
                let facts = self.facts_of(e.pid, e.task, &e.tool, &e.input, &e.paths, e.size, zone);
                Some(Case { name, facts, then: Action::Deny, by_token: false })
            }
            Event::ReviewAsked(e) if self.is_of(e.pid, e.task, zone) && e.tool != crate::MERGE => {
                let facts = self.facts_of(e.pid, e.task, &e.tool, &e.input, &e.paths, e.size, zone);
                Some(Case { name, facts, then: Action::RequireReview, by_token: false })
            }
            _ => None,
        })
    }

    /// Was it said in this zone? The operator's calls belong to the zone of their task.
    fn is_of(&self, pid: Pid, task: Option<TaskId>, zone: &Zone) -> bool {
        self.ledger.look(|world| {
            let of_task = task.and_then(|task| world.tasks.get(&task)).map(|task| task.zone);
            let of_process = world.processes.get(&pid).and_then(|process| process.zone);
            of_task.or(of_process).is_none_or(|of| of == zone.id)
        })
    }

    #[expect(clippy::too_many_arguments, reason = "each is a field of the record")]
    fn facts_of(
        &self,
        pid: Pid,
        task: Option<TaskId>,
        tool: &str,
        input: &Value,
        paths: &[String],
        size: Option<u64>,
        zone: &Zone,
    ) -> OwnedFacts {
        let found = self.tools.find(tool).ok();
        let (caller, role, user, mode) = self.ledger.look(|world| {
            let process = world.processes.get(&pid);
            let mode = task.and_then(|task| world.tasks.get(&task)).map_or(Mode::Act, |task| task.mode);
            let name = |text: fn(&world::Process) -> &String| process.map(|process| text(process).clone()).unwrap_or_default();
            (name(|p| &p.name), name(|p| &p.role), name(|p| &p.user), mode)
        });
        let path = |path: &String| if path.starts_with('/') { OwnedPath::Outside(path.clone()) } else { OwnedPath::Inside(path.clone()) };
        let (host, port, method) = match input["url"].as_str() {
            Some(url) => (call::host_of(url), tool::port_of(url), Some(input["method"].as_str().unwrap_or("GET").to_ascii_uppercase())),
            // What a job asked for at a door.
            None if tool.starts_with("net.") => {
                let text = |key: &str| input[key].as_str().map(str::to_owned);
                (text("host"), input["port"].as_u64().and_then(|port| port.try_into().ok()), text("method"))
            }
            None => (None, None, None),
        };
        let at_a_door = tool.starts_with("net.").then(|| input["room"].as_str().unwrap_or_default().to_owned());
        let room = found.filter(|tool| tool.manifest().room == tool::Room::Sandbox).and_then(|found| {
            let request = Request::new(pid, task, zone.id, tool, input.clone());
            let trusted = self.trusted(zone.id).ok()??;
            self.template_of(&trusted, &request, found).ok()
        });
        OwnedFacts {
            read_only: found.is_some_and(|tool| tool.reads_only(input)),
            caller_tags: call::tags(pid, &role),
            paths: paths.iter().map(path).collect(),
            caller,
            role,
            user,
            zone: zone.path.clone(),
            mode,
            command: found.and_then(|tool| tool.command(input)),
            host,
            port,
            method,
            size,
            network: room
                .as_ref()
                .map(|room| room.network)
                .or(at_a_door.as_ref().map(|_| sandbox::Network::Restricted))
                .map(|network| network.as_str().to_owned()),
            sandbox: room.map(|room| room.name).or(at_a_door),
            ..OwnedFacts::of(tool)
        }
    }
}

fn parse(text: &str) -> Result<Policy, Refusal> {
    match Policy::parse(text, POLICY_FILE) {
        Ok((policy, _)) => Ok(policy),
        Err(error) => Err(Refusal::new(Code::BadInput, error.to_string()).hint("mend the file; `skep policy check` says more")),
    }
}

fn event(record: &journal::Record) -> Result<Event, Fault> {
    serde_json::from_str(&record.line).map_err(|error| Fault::new(FaultKind::Bug, "a record cannot be read", error))
}
