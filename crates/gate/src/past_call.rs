//! Calls of the past, described and judged as they would be now by another policy.
//!
//! What many calls share, such as their caller's rights and what it may see, is found out once; calls are read and judged on several threads.
//! **Invariant.** A call of the past is described by the maker of facts that describes a call at the door, and judged by the same function.

use crate::call_facts::{CallFacts, Details, Who, used_room};
use crate::describe::network_target;
use crate::judge::{CallerRights, LOST};
use crate::sight::PastSights;
use crate::trial::CallRange;
use crate::zone::TrustedPolicy;
use crate::{Gate, MODEL_REQUEST, Request};
use journal::{Filter, Record};
use ledger::{MERGE, aside, event_of, fault};
use parking_lot::Mutex;
use policy::{Action, CaseOutcome, OwnedPath, Policy, Verdict};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use workspace::{READ, Sight};
use world::{Answer, Code, Event, Pid, Refusal, ReviewId, Stop, TaskId, UsedRoom, Zone};

/// Seed 003 tries a hundred.
const TRIED_DEFAULT: u64 = 100;
const TRIED_MAX: u64 = 100_000;
/// So few calls are read and judged before threads have started.
const ALONE_MAX: u64 = 1_000;

/// Calls of one zone as they would be if a policy were in force.
pub(crate) struct PastCalls<'a> {
    gate: &'a Gate,
    zone: &'a Zone,
    /// `None` where nothing is.
    in_force: Option<Arc<TrustedPolicy>>,
    /// What is tried: it decides what is masked and which rooms there are.
    tried: &'a Arc<TrustedPolicy>,
    /// Exact calls that were asked about because a crash had interrupted them.
    lost: HashSet<String>,
    sights: PastSights,
    callers: Mutex<KnownCallers>,
    rooms: Mutex<HashMap<RoomKey, Result<UsedRoom, Refusal>>>,
}

/// By process and task; `None` where nobody is left who made their calls, or in another zone.
type KnownCallers = HashMap<(Pid, Option<TaskId>), Option<Arc<PastCaller>>>;

/// What calls of one process in one task share.
struct PastCaller {
    sight: Arc<Sight>,
    rights: CallerRights,
}

/// What the room of a call depends on.
#[derive(PartialEq, Eq, Hash)]
struct RoomKey {
    tool: String,
    template: Option<String>,
    by_operator: bool,
}

/// A call of the past as it would be described now.
struct DescribedCall {
    call: CallFacts,
    /// Why no room may be had for it.
    no_room: Option<Refusal>,
    caller: Arc<PastCaller>,
}

/// A call of the past that a policy can be tried on.
pub(crate) struct PastCall {
    pub call: CallFacts,
    /// What the policy said. A call that was admitted with a grant is one that it wanted reviewed.
    then: Action,
    /// A token let it pass: no policy was asked, and none would be.
    by_token: bool,
    seq: u64,
    caller: Arc<PastCaller>,
    /// It was interrupted before.
    lost: Option<String>,
    /// Why no room may be had for it.
    no_room: Option<Refusal>,
}

impl PastCall {
    pub(crate) fn judge_by(&self, candidate: &Policy) -> CaseOutcome {
        if self.by_token {
            return CaseOutcome::ByToken;
        }
        let verdict = match (&self.no_room, &self.lost) {
            (Some(refusal), _) => Verdict::Deny { refusal: refusal.clone(), rules: Vec::new() },
            (None, None) => self.call.judge_by(candidate, &self.caller.rights).verdict,
            (None, lost) => self.call.judge_by(candidate, &self.caller.rights.clone().for_past_call(lost.as_deref())).verdict,
        };
        CaseOutcome::of(|| self.seq.to_string(), self.call.seen(), self.then, verdict)
    }
}

/// What was asked of a person, what they said, and what policy refused.
#[derive(Default)]
pub(crate) struct PastAnswers {
    pub history: Vec<policy::Asked>,
    pub refused: Vec<CallFacts>,
}

enum PastWord {
    Asked(ReviewId, CallFacts),
    Answered(ReviewId, Answer),
    Refused(CallFacts),
}

/// A call as a record tells it.
struct RecordedCall<'a> {
    pid: Pid,
    task: Option<TaskId>,
    tool: &'a str,
    input: Value,
    paths: &'a [String],
    size: Option<u64>,
    rooms: Option<&'a [UsedRoom]>,
    run_mode: Option<&'a str>,
}

impl<'a> RecordedCall<'a> {
    /// A live call in the room that it would have now.
    fn of(pid: Pid, task: Option<TaskId>, tool: &'a str, input: Value, paths: &'a [String], size: Option<u64>) -> RecordedCall<'a> {
        RecordedCall { pid, task, tool, input, paths, size, rooms: None, run_mode: None }
    }
}

impl<'a> PastCalls<'a> {
    pub(crate) fn new(gate: &'a Gate, zone: &'a Zone, tried: &'a Arc<TrustedPolicy>) -> Result<PastCalls<'a>, Stop> {
        let is_lost = |review: &&world::Review| review.rules.iter().any(|rule| rule == LOST);
        let lost = gate.ledger.look(|world| world.reviews.values().filter(is_lost).map(|review| review.bind.clone()).collect());
        let in_force = gate.policies.trusted(zone.id)?;
        Ok(PastCalls {
            gate,
            zone,
            in_force,
            tried,
            lost,
            sights: PastSights::default(),
            callers: Mutex::default(),
            rooms: Mutex::default(),
        })
    }

    /// What `make` makes of the newest calls, oldest first.
    pub(crate) fn newest<M: Send>(&self, range: &CallRange, make: impl Fn(PastCall) -> M + Sync) -> Result<Vec<M>, Stop> {
        let limit = range.last.unwrap_or(TRIED_DEFAULT).min(TRIED_MAX);
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        let kinds = ["call.admitted", "call.refused", "review.asked"].map(str::to_owned).to_vec();
        let filter = Filter { kinds, reverse: true, before_seq: range.before_seq, after_seq: range.after_seq, ..Filter::default() };
        let made = |record: Record| self.call(&record).map(|call| call.map(&make)).transpose();
        let (mut all, mut failed) = (Vec::new(), None);
        let mut take = |made: Result<M, Stop>| {
            match made {
                Ok(made) => all.push(made),
                Err(stop) => failed = Some(stop),
            }
            if failed.is_some() || all.len() >= wanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let journal = self.gate.ledger.journal();
        let read = aside(|| match limit {
            0 => Ok(()),
            1..=ALONE_MAX => journal.visit(&filter, |record| made(record).map_or(ControlFlow::Continue(()), &mut take)),
            _ => journal.gather(&filter, made, |made| made.into_iter().try_for_each(&mut take)),
        });
        read.map_err(fault)?;
        if let Some(stop) = failed {
            return Err(stop);
        }
        all.reverse();
        Ok(all)
    }

    /// Everything that people and policy said about calls.
    pub(crate) fn answers(&self) -> Result<PastAnswers, Stop> {
        let kinds = ["review.asked", "review.answered", "call.refused"].map(str::to_owned).to_vec();
        let filter = Filter { kinds, ..Filter::default() };
        let (mut answers, mut asked, mut failed) = (PastAnswers::default(), HashMap::new(), None);
        let mut take = |word| {
            match word {
                Ok(PastWord::Asked(review, call)) => drop(asked.insert(review, call)),
                Ok(PastWord::Refused(call)) => answers.refused.push(call),
                Ok(PastWord::Answered(review, answer)) => {
                    let call = asked.remove(&review);
                    let allowed = answer == Answer::Allow;
                    answers.history.extend(call.map(|call| policy::Asked { facts: call.seen().clone(), allowed }));
                }
                Err(stop) => {
                    failed = Some(stop);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        };
        let make = |record: Record| self.word(&record).transpose();
        aside(|| self.gate.ledger.journal().gather(&filter, make, |words| words.into_iter().try_for_each(&mut take))).map_err(fault)?;
        failed.map_or(Ok(answers), Err)
    }

    fn word(&self, record: &Record) -> Result<Option<PastWord>, Stop> {
        Ok(match event_of(record)? {
            Event::ReviewAsked(e) => {
                let past = RecordedCall::of(e.pid, e.task, &e.tool, e.input, &e.paths, e.size);
                self.facts_of(past, None)?.map(|found| PastWord::Asked(e.review, found.call.without_input()))
            }
            Event::CallRefused(e) if e.code == Code::Denied => {
                let past = RecordedCall::of(e.pid, e.task, &e.tool, e.input, &e.paths, e.size);
                self.facts_of(past, None)?.map(|found| PastWord::Refused(found.call.without_input()))
            }
            Event::ReviewAnswered(e) => Some(PastWord::Answered(e.review, e.answer)),
            _ => None,
        })
    }

    fn call(&self, record: &Record) -> Result<Option<PastCall>, Stop> {
        let (found, then, by_token, lost) = match event_of(record)? {
            Event::CallAdmitted(e) => {
                let (rooms, run_mode) = (e.rooms.as_deref(), e.run_mode.as_deref());
                let past = RecordedCall { rooms, run_mode, ..RecordedCall::of(e.pid, e.task, &e.tool, e.input, &e.paths, e.size) };
                let then = if e.grant.is_some() { Action::RequireReview } else { Action::Allow };
                let lost = (e.grant.is_some() && self.lost.contains(&e.bind)).then_some(e.bind);
                (self.facts_of(past, Some(e.read_only))?, then, e.token.is_some(), lost)
            }
            // Only what policy refused: a call that did not fit its tool says nothing about rules, and neither does a ban.
            Event::CallRefused(e) if e.code == Code::Denied && !by_ban(&e.rules) => {
                let past = RecordedCall::of(e.pid, e.task, &e.tool, e.input, &e.paths, e.size);
                (self.facts_of(past, None)?, Action::Deny, false, None)
            }
            Event::ReviewAsked(e) if e.tool != MERGE => {
                let past = RecordedCall::of(e.pid, e.task, &e.tool, e.input, &e.paths, e.size);
                let lost = e.rules.iter().any(|rule| rule == LOST).then_some(e.bind);
                (self.facts_of(past, None)?, Action::RequireReview, false, lost)
            }
            _ => return Ok(None),
        };
        let Some(DescribedCall { mut call, no_room, caller }) = found else { return Ok(None) };
        call.bind = lost.clone().unwrap_or_default();
        Ok(Some(PastCall { call, then, by_token, seq: record.seq, caller, lost, no_room }))
    }

    /// Who made a call; `None` where it was said in another zone, or nobody is left who made it. The operator's calls belong to the zone of
    /// their task.
    fn caller(&self, pid: Pid, task: Option<TaskId>) -> Result<Option<Arc<PastCaller>>, Stop> {
        if let Some(known) = self.callers.lock().get(&(pid, task)) {
            return Ok(known.clone());
        }
        let who = Who { pid, zone: self.zone.id, task };
        let now = self.gate.moment();
        let rights = self.gate.ledger.look(|world| {
            let of_task = task.and_then(|task| world.tasks.get(&task)).map(|task| task.zone);
            let process = world.processes.get(&pid)?;
            of_task.or(process.zone).is_none_or(|of| of == self.zone.id).then(|| CallerRights::of_past(world, who, &now))
        });
        let found = match rights {
            Some(rights) => Some(Arc::new(PastCaller { sight: self.gate.past_sight(&self.sights, who, self.tried)?, rights })),
            None => None,
        };
        self.callers.lock().insert((pid, task), found.clone());
        Ok(found)
    }

    /// The room that a call would have by the files that are tried: their `skep.yml` may give its tool another one, or none.
    fn room(&self, past: &RecordedCall<'_>, tool: &tool::RegisteredTool) -> Result<Result<UsedRoom, Refusal>, Stop> {
        let template = past.input.get("template").and_then(Value::as_str).map(str::to_owned);
        let key = RoomKey { tool: past.tool.to_owned(), template, by_operator: past.pid == Pid::OPERATOR };
        if let Some(known) = self.rooms.lock().get(&key) {
            return Ok(known.clone());
        }
        let request = Request::new(past.pid, past.task, self.zone.id, past.tool, past.input.clone());
        let found = match self.gate.policies.template_of(self.tried, &request, tool) {
            Ok(template) => Ok(used_room(&template)),
            Err(Stop::Refused(refusal)) => Err(refusal),
            Err(Stop::Failed(fault)) => return Err(fault.into()),
        };
        self.rooms.lock().insert(key, found.clone());
        Ok(found)
    }

    /// A call of the past as it would be described now; `None` where nobody is left who made it, or it was made in another zone.
    fn facts_of(&self, past: RecordedCall<'_>, read_only: Option<bool>) -> Result<Option<DescribedCall>, Stop> {
        let Some(caller) = self.caller(past.pid, past.task)? else { return Ok(None) };
        let found = self.gate.tools.get(past.tool);
        let given = found.filter(|tool| tool.manifest().room == tool::Room::Sandbox).map(|tool| self.room(&past, tool)).transpose()?;
        let RecordedCall { pid, task, tool, input, paths, size, rooms, run_mode } = past;
        let (mut host, mut port, mut method) = network_target(&input);
        let (mut command, mut tier) = (found.and_then(|tool| tool.command(&input)), String::new());
        let text = |key: &str| input[key].as_str().map(str::to_owned);
        let (mut room, no_room) = match given {
            Some(Ok(room)) => (Some(room), None),
            Some(Err(refusal)) => (None, Some(refusal)),
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
                host = text("provider").and_then(|name| self.gate.host_of_provider(&name)).filter(|host| !host.is_empty());
                command = Some(text("provider").into_iter().chain(text("model")).collect());
                tier = text("tier").unwrap_or_default();
            }
            _ => {}
        }
        let path = |path: &String| if path.starts_with('/') { OwnedPath::Outside(path.clone()) } else { OwnedPath::Inside(path.clone()) };
        // A record from before paths were written down with a mask has none.
        let named = found.filter(|_| paths.is_empty()).map(|tool| tool.touches_by_name(&input)).unwrap_or_default();
        let details = Details {
            run_mode: run_mode.and_then(tool::RunMode::parse).unwrap_or(tool::RunMode::Live),
            read_only: read_only.unwrap_or_else(|| found.is_some_and(|tool| tool.reads_only(&input)) || tool == MODEL_REQUEST),
            paths: paths.iter().map(path).collect(),
            command,
            host,
            port,
            method,
            size,
            room,
            tier,
            ..Details::of(tool, input)
        };
        let who = Who { pid, zone: self.zone.id, task };
        let in_force = self.in_force.clone().map_or_else(|| self.gate.policies.in_force(self.zone.id), Ok)?;
        let Ok(mut call) = CallFacts::new(&self.gate.ledger, who, in_force, details) else { return Ok(None) };
        let inside = paths.iter().filter(|path| !path.starts_with('/')).map(String::as_str);
        call.masked = masked(&caller.sight, tool, inside.chain(named.iter().map(|target| target.path.as_str())));
        Ok(Some(DescribedCall { call, no_room, caller }))
    }
}

/// Why a call on these paths would touch what is masked, as the door finds it.
fn masked<'a>(sight: &Sight, tool: &str, mut paths: impl Iterator<Item = &'a str>) -> Option<Refusal> {
    paths.find_map(|path| {
        let hidden = match tool == READ {
            true => sight.hides_name(path),
            false if sight.is_folder(path) => sight.hides_folder(path),
            false => sight.masks(path),
        };
        hidden.map(|hidden| hidden.refusal(path))
    })
}

/// Was it refused by a ban?
fn by_ban(rules: &[String]) -> bool {
    rules.iter().any(|rule| rule.parse::<world::BanId>().is_ok())
}
