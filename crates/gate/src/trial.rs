//! The policy for people: checked, explained, tried on the past, and its own past.

use crate::call_facts::{CallFacts, Details, Who, used_room};
use crate::describe::network_target;
use crate::difference;
use crate::judge::{CallerRights, LOST};
use crate::policies::Policies;
use crate::token::ISSUE;
use crate::worker::{WORKER_NAME, WORKER_ROLE};
use crate::zone::{self, Bundle, POLICY_FILE, TrustedPolicy};
use crate::{CLIENT, Gate, JOB, MODEL_REQUEST, Request, locate};
use journal::Filter;
use ledger::{Ledger, MERGE, event_of};
use policy::{Action, Case, KnownNames, OwnedPath, Policy, PolicyError, RuleChange, RuleChangeEffect, Trial, Verdict, Warning};
use serde_json::Value;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::Arc;
use workspace::{READ, Sight};
use world::{Answer, Code, Event, Pid, Refusal, TaskId, UsedRoom, Zone, ZoneId};
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

/// Seed 003 tries a hundred.
const TRIED_DEFAULT: u64 = 100;
const TRIED_MAX: u64 = 100_000;

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
                let calls = [MERGE, ISSUE, "policy.update", MODEL_REQUEST, "net.connect", "net.request", "person.ask"];
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
        let mut past = self.past_calls(zone, range, &mut PastSights::by(&candidate))?;
        if !bundle.rules.is_empty() && !past.is_empty() {
            let loaded = self.policies.load_candidates(&bundle.rules).await?;
            let candidates = loaded.map_err(|flaw| Refusal::new(Code::BadInput, format!(".skep/rules/{flaw}")).hint("mend the rule"))?;
            for PastCall { call, .. } in &mut past {
                call.ask_candidates(self, &candidate.policy, &candidates.extensions).await;
            }
            candidates.end().await?;
        }
        Ok(Trial { rules: self.rule_changes(zone, bundle)?, ..tried(&candidate.policy, past) })
    }

    /// Tries another policy of the operator's own on the newest calls of every project, with what is in force there.
    pub(crate) fn try_above(&self, above: &Arc<Policy>) -> Result<Trial, Stop> {
        let zones: Vec<Zone> = self.ledger.look(|world| world.zones.values().filter(|zone| zone.policy_version > 0).cloned().collect());
        let mut all = Trial::default();
        for zone in zones {
            let bundle = self.policies.in_force(zone.id)?.bundle.clone();
            let candidate = self.policies.proposed_under(zone.id, &bundle, Some(above.clone()))?;
            let past = self.past_calls(&zone, &CallRange::default(), &mut PastSights::by(&candidate))?;
            let Trial { cases, breaking, changes, .. } = tried(&candidate.policy, past);
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
        let mut asked = BTreeMap::new();
        let (mut history, mut refused) = (Vec::new(), Vec::new());
        let mut sights = PastSights::by(&trusted);
        let kinds = ["review.asked", "review.answered", "call.refused"].map(str::to_owned).to_vec();
        let filter = Filter { kinds, ..Filter::default() };
        for record in self.ledger.read(&filter)? {
            match event_of(&record)? {
                Event::ReviewAsked(e) if is_of(&self.ledger, e.pid, e.task, &zone) => {
                    let past = Past::of(e.pid, e.task, &e.tool, &e.input, &e.paths, e.size);
                    asked.extend(self.facts_of(&past, None, &zone, &mut sights)?.map(|(call, _)| (e.review, call.seen().clone())));
                }
                Event::CallRefused(e) if e.code == Code::Denied && is_of(&self.ledger, e.pid, e.task, &zone) => {
                    let past = Past::of(e.pid, e.task, &e.tool, &e.input, &e.paths, e.size);
                    refused.extend(self.facts_of(&past, None, &zone, &mut sights)?.map(|(call, _)| call.seen().clone()));
                }
                Event::ReviewAnswered(e) => {
                    if let Some(facts) = asked.remove(&e.review) {
                        history.push(policy::Asked { facts, allowed: e.answer == Answer::Allow });
                    }
                }
                _ => {}
            }
        }
        Ok(policy::suggest(&trusted.policy, &history, &refused))
    }

    /// Calls of the past with what the policy said of them then.
    fn past_calls(&self, zone: &Zone, range: &CallRange, sights: &mut PastSights) -> Result<Vec<PastCall>, Stop> {
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
                if let Some(case) = self.case_of(record, zone, sights)? {
                    cases.push(case);
                }
            }
        }
        cases.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        cases.reverse();
        Ok(cases)
    }

    fn case_of(&self, record: &journal::Record, zone: &Zone, sights: &mut PastSights) -> Result<Option<PastCall>, Stop> {
        let name = record.seq.to_string();
        let (found, then, by_token, lost) = match event_of(record)? {
            Event::CallAdmitted(e) if is_of(&self.ledger, e.pid, e.task, zone) => {
                let (rooms, run_mode) = (e.rooms.as_deref(), e.run_mode.as_deref());
                let past = Past { rooms, run_mode, ..Past::of(e.pid, e.task, &e.tool, &e.input, &e.paths, e.size) };
                let then = if e.grant.is_some() { Action::RequireReview } else { Action::Allow };
                let lost = (e.grant.is_some() && was_lost(&self.ledger, &e.bind)).then_some(e.bind);
                (self.facts_of(&past, Some(e.read_only), zone, sights)?, then, e.token.is_some(), lost)
            }
            // Only what policy refused: a call that did not fit its tool says nothing about rules, and neither does a ban.
            Event::CallRefused(e) if e.code == Code::Denied && !by_ban(&e.rules) && is_of(&self.ledger, e.pid, e.task, zone) => {
                let past = Past::of(e.pid, e.task, &e.tool, &e.input, &e.paths, e.size);
                (self.facts_of(&past, None, zone, sights)?, Action::Deny, false, None)
            }
            Event::ReviewAsked(e) if is_of(&self.ledger, e.pid, e.task, zone) && e.tool != MERGE => {
                let past = Past::of(e.pid, e.task, &e.tool, &e.input, &e.paths, e.size);
                let lost = e.rules.iter().any(|rule| rule == LOST).then_some(e.bind);
                (self.facts_of(&past, None, zone, sights)?, Action::RequireReview, false, lost)
            }
            _ => return Ok(None),
        };
        let Some((mut call, no_room)) = found else { return Ok(None) };
        let now = self.moment();
        let rights = self.ledger.look(|world| CallerRights::call(world, &call, &now, world.now_ms)).for_past_call(lost.as_deref());
        let case = Case { name, facts: call.seen().clone(), then, by_token };
        call.bind = lost.unwrap_or_default();
        Ok(Some(PastCall { case, call, rights, no_room }))
    }

    /// A call of the past as it would be described now, and why it would get no room; `None` where nobody is left who made it.
    fn facts_of(
        &self,
        past: &Past<'_>,
        read_only: Option<bool>,
        zone: &Zone,
        sights: &mut PastSights,
    ) -> Result<Option<(CallFacts, Option<Refusal>)>, Stop> {
        let Past { pid, task, tool, input, paths, size, rooms, run_mode } = *past;
        let found = self.tools.find(tool).ok();
        let trusted = self.policies.in_force(zone.id)?;
        let (mut host, mut port, mut method) = network_target(input);
        let (mut command, mut tier) = (found.and_then(|tool| tool.command(input)), String::new());
        let text = |key: &str| input[key].as_str().map(str::to_owned);
        // The room that it would have by the files that are tried: their `skep.yml` may give its tool another one, or none.
        let given = found.filter(|tool| tool.manifest().room == tool::Room::Sandbox).map(|found| {
            let request = Request::new(pid, task, zone.id, tool, input.clone());
            self.policies.template_of(&sights.trusted, &request, found)
        });
        let (mut room, no_room) = match given {
            Some(Ok(template)) => (Some(used_room(&template)), None),
            Some(Err(Stop::Refused(refusal))) => (None, Some(refusal)),
            Some(Err(Stop::Failed(fault))) => return Err(fault.into()),
            // Where it was is on record; an older record does not say.
            None => (rooms.and_then(|rooms| rooms.first().cloned()), None),
        };
        match tool {
            // What a job asked for at a door.
            "net.connect" | "net.request" => {
                (host, method) = (text("host"), text("method"));
                port = input["port"].as_u64().and_then(|port| port.try_into().ok());
                let network = sandbox::Network::Restricted.as_str().to_owned();
                room = room.or_else(|| Some(UsedRoom { template: text("room").unwrap_or_default(), network }));
            }
            MODEL_REQUEST => {
                host = text("provider").and_then(|name| self.host_of_provider(&name)).filter(|host| !host.is_empty());
                command = Some(text("provider").into_iter().chain(text("model")).collect());
                tier = text("tier").unwrap_or_default();
            }
            _ => {}
        }
        let path = |path: &String| if path.starts_with('/') { OwnedPath::Outside(path.clone()) } else { OwnedPath::Inside(path.clone()) };
        let details = Details {
            run_mode: run_mode.and_then(tool::RunMode::parse).unwrap_or(tool::RunMode::Live),
            read_only: read_only.unwrap_or_else(|| found.is_some_and(|tool| tool.reads_only(input)) || tool == MODEL_REQUEST),
            paths: paths.iter().map(path).collect(),
            command,
            host,
            port,
            method,
            size,
            room,
            tier,
            ..Details::of(tool, input.clone())
        };
        let Ok(mut call) = CallFacts::new(&self.ledger, Who { pid, zone: zone.id, task }, trusted.clone(), details) else {
            return Ok(None);
        };
        // A record from before paths were written down with a mask has none.
        let named = found.filter(|_| paths.is_empty()).map(|tool| tool.touches_by_name(input)).unwrap_or_default();
        let inside = paths.iter().filter(|path| !path.starts_with('/')).cloned().chain(named.into_iter().map(|target| target.path));
        call.masked = sights.masked(self, Who { pid, zone: zone.id, task }, tool, inside)?;
        Ok(Some((call, no_room)))
    }
}

/// A call as a record tells it.
struct Past<'a> {
    pid: Pid,
    task: Option<TaskId>,
    tool: &'a str,
    input: &'a Value,
    paths: &'a [String],
    size: Option<u64>,
    rooms: Option<&'a [UsedRoom]>,
    run_mode: Option<&'a str>,
}

impl<'a> Past<'a> {
    /// A live call in the room that it would have now.
    fn of(pid: Pid, task: Option<TaskId>, tool: &'a str, input: &'a Value, paths: &'a [String], size: Option<u64>) -> Past<'a> {
        Past { pid, task, tool, input, paths, size, rooms: None, run_mode: None }
    }
}

/// What processes of the past would see if a policy were in force.
struct PastSights {
    trusted: Arc<TrustedPolicy>,
    known: BTreeMap<(Pid, Option<TaskId>), Sight>,
}

impl PastSights {
    fn by(trusted: &Arc<TrustedPolicy>) -> PastSights {
        PastSights { trusted: Arc::clone(trusted), known: BTreeMap::new() }
    }

    /// Why a call on these paths would touch what is masked, as the door finds it.
    fn masked(&mut self, gate: &Gate, who: Who, tool: &str, paths: impl Iterator<Item = String>) -> Result<Option<Refusal>, Stop> {
        let sight = match self.known.entry((who.pid, who.task)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => free.insert(gate.proposed_sight(who, &self.trusted)?),
        };
        for path in paths {
            let hidden = match tool == READ {
                true => sight.hides_name(&path),
                false if sight.is_folder(&path) => sight.hides_folder(&path),
                false => sight.masks(&path),
            };
            if let Some(hidden) = hidden {
                return Ok(Some(hidden.refusal(&path)));
            }
        }
        Ok(None)
    }
}

/// A call of the past that a policy can be tried on.
struct PastCall {
    case: Case,
    call: CallFacts,
    rights: CallerRights,
    /// Why no room may be had for it.
    no_room: Option<Refusal>,
}

fn tried(candidate: &Policy, past: Vec<PastCall>) -> Trial {
    let (cases, calls): (Vec<Case>, Vec<_>) = past.into_iter().map(|past| (past.case, (past.call, past.rights, past.no_room))).unzip();
    policy::trial(&cases, |at| {
        let (call, rights, no_room): &(CallFacts, CallerRights, Option<Refusal>) = &calls[at];
        match no_room {
            Some(refusal) => Verdict::Deny { refusal: refusal.clone(), rules: Vec::new() },
            None => call.judge_by(candidate, rights).verdict,
        }
    })
}

/// Was it refused by a ban?
fn by_ban(rules: &[String]) -> bool {
    rules.iter().any(|rule| rule.parse::<world::BanId>().is_ok())
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

/// Was this exact call asked about because a crash had interrupted it?
fn was_lost(ledger: &Ledger, bind: &str) -> bool {
    let asked = |review: &world::Review| review.bind == bind && review.rules.iter().any(|rule| rule == LOST);
    ledger.look(|world| world.reviews.values().any(asked))
}

/// Was it said in this zone? The operator's calls belong to the zone of their task.
fn is_of(ledger: &Ledger, pid: Pid, task: Option<TaskId>, zone: &Zone) -> bool {
    ledger.look(|world| {
        let of_task = task.and_then(|task| world.tasks.get(&task)).map(|task| task.zone);
        let of_process = world.processes.get(&pid).and_then(|process| process.zone);
        of_task.or(of_process).is_none_or(|of| of == zone.id)
    })
}
