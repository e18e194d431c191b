//! What rules can know of a call: who makes it, with which tool, on what.
//!
//! A call at the door, a path of a merge, the merge as a whole, the way back, `skep try`, what a job asks for at its doors, a request
//! to a model, an explanation, a call of the past and what a room may read are all described as [`CallFacts`].
//! **Invariant.** Nothing else in the tree makes `policy::Facts` or `policy::OwnedFacts` (`cargo xtask lint` looks), so what holds for a
//! call at the door holds for it everywhere. `judge.rs` decides on them.

use crate::judge::{Ancestor, CallerRights};
use crate::token::Presented;
use crate::tree_request::TreeRequest;
use crate::zone::TrustedPolicy;
use crate::{Gate, JOB, WORKER_ROLE, extension, record};
use ledger::Ledger;
use plugin::Extensions;
use policy::{Opinion, OwnedFacts, OwnedPath, Policy};
use sandbox::Template;
use serde_json::Value;
use std::sync::Arc;
use tool::RunMode;
use workspace::READ;
use world::{Ban, Code, Grant, GrantId, Mode, Pid, Process, Refusal, Stop, TaskId, UsedRoom, World, ZoneId};

/// Who acts, where, and as part of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who {
    pub pid: Pid,
    pub zone: ZoneId,
    pub task: Option<TaskId>,
}

/// What a call is, besides who makes it.
#[derive(Clone, Debug)]
pub struct Details {
    pub tool: String,
    /// For extensions; rules see what is below.
    pub input: Value,
    pub run_mode: RunMode,
    pub read_only: bool,
    pub paths: Vec<OwnedPath>,
    pub command: Option<Vec<String>>,
    pub host: Option<String>,
    pub method: Option<String>,
    pub port: Option<u16>,
    /// Bytes that it reads, writes or takes away; `None` where nobody can say.
    pub size: Option<u64>,
    /// The room it runs in, or comes from.
    pub room: Option<UsedRoom>,
    /// Of the model that is asked for; empty for everything else.
    pub tier: String,
    /// Whom it concerns, for a call of the process tree.
    pub tree: Option<TreeRequest>,
}

impl Details {
    /// A live call that changes something and of which nothing else is known.
    pub fn of(tool: &str, input: Value) -> Details {
        Details {
            tool: tool.to_owned(),
            input,
            run_mode: RunMode::Live,
            read_only: false,
            paths: Vec::new(),
            command: None,
            host: None,
            method: None,
            port: None,
            size: None,
            room: None,
            tier: String::new(),
            tree: None,
        }
    }
}

/// A room in the words of rules.
pub fn used_room(template: &Template) -> UsedRoom {
    UsedRoom { template: template.name.clone(), network: template.network.as_str().to_owned() }
}

/// A described call: everything that can be judged of it, made or not.
#[derive(Clone)]
pub struct CallFacts {
    pub who: Who,
    pub trusted: Arc<TrustedPolicy>,
    /// Hash of the exact call, which a person's answer is bound to; empty for what is no call of its own, such as a path of a merge.
    pub bind: String,
    /// Why no policy is asked at all: it touches what is masked.
    pub masked: Option<Refusal>,
    /// Made twice, it does no more than once: a file of the task's own layer, written by the brain's own hands.
    pub is_repeatable: bool,
    /// It was begun before, and what came of that is not known.
    pub was_lost: bool,
    /// The grant that demanded another input than was asked; the call runs with that grant or not at all.
    pub demanded: Option<GrantId>,
    pub(crate) token: Option<Presented>,
    input: Value,
    seen: OwnedFacts,
}

impl CallFacts {
    /// Describes a call by the world as it is now.
    pub fn new(ledger: &Ledger, who: Who, trusted: Arc<TrustedPolicy>, details: Details) -> Result<CallFacts, Refusal> {
        let found = ledger.look(|world| CallFacts::at(world, who, trusted, details));
        found.ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no process {}", who.pid)))
    }

    fn at(world: &World, who: Who, trusted: Arc<TrustedPolicy>, details: Details) -> Option<CallFacts> {
        let process = world.processes.get(&who.pid)?;
        let zone = if who.zone == ZoneId::NONE { String::new() } else { world.zones.get(&who.zone)?.path.clone() };
        let mode = who.task.and_then(|task| world.tasks.get(&task)).map_or(Mode::Call, world::Task::present_mode);
        let Details { tool, input, run_mode, read_only, paths, command, host, method, port, size, room, tier, tree } = details;
        let (sandbox, network) = room.map(|room| (room.template, room.network)).unzip();
        let (workflow_state, mut session_mode) = crate::test_first::shown(world, who.task);
        if tool == policy::SET_MODE {
            session_mode = input["mode"].as_str().unwrap_or_default().to_owned();
        }
        let seen = OwnedFacts {
            tool,
            read_only,
            paths,
            caller: process.name.clone(),
            caller_tags: tags(world, process, who.task),
            role: process.role.clone(),
            tier,
            user: process.user.clone(),
            zone,
            mode,
            run_mode: run_mode.as_str().to_owned(),
            workflow_state,
            session_mode,
            command,
            host,
            method,
            port,
            size,
            sandbox,
            network,
            opinions: Vec::new(),
            tree: tree.map(|request| Box::new(request.facts(world, process))),
        };
        let (masked, demanded, token) = (None, None, None);
        Some(CallFacts { who, trusted, bind: String::new(), masked, is_repeatable: false, was_lost: false, demanded, token, input, seen })
    }

    /// What rules see of it.
    pub fn seen(&self) -> &OwnedFacts {
        &self.seen
    }

    /// The room that its job has, or that it comes from.
    pub fn room(&self) -> Option<UsedRoom> {
        let (template, network) = (self.seen.sandbox.clone()?, self.seen.network.clone()?);
        Some(UsedRoom { template, network })
    }

    /// The same call without what is for it alone: a person's answer, a mask, a token, opinions.
    pub fn by_policy_alone(&self) -> CallFacts {
        let (masked, demanded, token) = (None, None, None);
        let mut plain = CallFacts { bind: String::new(), masked, is_repeatable: false, was_lost: false, demanded, token, ..self.clone() };
        plain.seen.opinions.clear();
        plain
    }

    /// The same call in another room.
    pub fn in_room(&self, room: Option<UsedRoom>) -> CallFacts {
        let mut other = self.clone();
        (other.seen.sandbox, other.seen.network) = room.map(|room| (room.template, room.network)).unzip();
        other
    }

    /// Asks the zone's extensions, where their word can still matter: never after a deny, a mask or a valid token.
    pub async fn ask_extensions(&mut self, gate: &Gate) {
        if self.trusted.bundle.rules.is_empty() || self.masked.is_some() {
            return;
        }
        let now = gate.moment();
        let token = self.token.as_ref().and_then(|token| gate.ledger.look(|world| token.facts(world, &now)));
        if self.seen.with_token(token.as_ref(), |facts| policy::preview(&self.trusted.policy, facts).is_settled()) {
            return;
        }
        self.seen.opinions = gate.policies.opinions(self.who.zone, &self.trusted, &self.described(gate)).await;
    }

    /// The same of extensions that are in force nowhere yet, beside a policy that is not either.
    pub(crate) async fn ask_candidates(&mut self, gate: &Gate, policy: &Policy, extensions: &Extensions) {
        if self.masked.is_none() && !self.seen.with(|facts| policy::preview(policy, facts).is_settled()) {
            self.seen.opinions = extensions.opinions(&self.described(gate)).await;
        }
    }

    /// The call as extensions see it. A rule judges what a call is about; a long text is cut as in a record, so that no call is too large
    /// to ask about.
    fn described(&self, gate: &Gate) -> Value {
        let mut input = self.input.clone();
        gate.ledger.redactor.value(&mut input);
        record::shorten(&mut input);
        extension::described(&self.seen, &input)
    }

    /// Takes the opinions of the same call in another room.
    pub fn with_opinions(mut self, opinions: &[Opinion]) -> CallFacts {
        self.seen.opinions = opinions.to_vec();
        self
    }

    /// The same when nobody will be asked about its input any more: one that is kept until it is judged need not keep a file's text.
    pub fn without_input(mut self) -> CallFacts {
        self.input = Value::Null;
        self
    }
}

/// The tag of everybody but the operator.
const BRAIN: &str = "brain";

/// What kind of caller it is: its role, `operator` or `brain`, and what the operator called it for the task that is its own. A child has
/// nothing of its parent's: what is denied to a tag of the parent's is denied to it as a descendant, and what is allowed to one is not
/// allowed to it.
pub(crate) fn tags(world: &World, process: &Process, task: Option<TaskId>) -> Vec<String> {
    let kind = if process.pid == Pid::OPERATOR { "operator" } else { BRAIN };
    let own = task.and_then(|task| world.tasks.get(&task)).filter(|task| task.pid == process.pid);
    let given = own.map(|task| task.tags.as_slice()).unwrap_or_default();
    // What is said of workers holds for those of every role.
    let worker = (crate::worker::works_on_tasks(process) && process.role != WORKER_ROLE).then_some(WORKER_ROLE);
    [process.role.as_str(), kind].into_iter().chain(worker).chain(given.iter().map(String::as_str)).map(str::to_owned).collect()
}

/// Processes as readers of a project, with all that is for and against them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReaderFacts {
    own: Vec<OwnedFacts>,
    ancestors: Vec<OwnedFacts>,
    bans: Vec<Ban>,
    grants: Vec<Grant>,
}

impl ReaderFacts {
    /// A command that will run for these, by a process of its own.
    pub fn add_job(&mut self, name: &str) {
        let caller_tags = vec![JOB.to_owned(), BRAIN.to_owned()];
        let job = |own: &OwnedFacts| OwnedFacts {
            caller: name.to_owned(),
            role: JOB.to_owned(),
            caller_tags: caller_tags.clone(),
            ..own.clone()
        };
        self.own.extend(self.own.iter().map(job).collect::<Vec<_>>());
    }

    pub fn lend(&self) -> policy::Readers<'_> {
        policy::Readers { own: &self.own, ancestors: &self.ancestors, bans: &self.bans, grants: &self.grants }
    }
}

impl Gate {
    /// These processes as readers in each of these rooms. A grant counts if it is live for all of them and has no rate: what a room
    /// shows is read as often as its jobs like. Opinions of extensions are not asked.
    pub(crate) fn readers(&self, whos: &[Who], rooms: &[UsedRoom], trusted: &Arc<TrustedPolicy>) -> Result<ReaderFacts, Stop> {
        let now = self.moment();
        let mut readers = ReaderFacts { own: Vec::new(), ancestors: Vec::new(), bans: Vec::new(), grants: Vec::new() };
        for (number, who) in whos.iter().enumerate() {
            let details = Details { read_only: true, ..Details::of(READ, Value::Null) };
            let read = CallFacts::new(&self.ledger, *who, Arc::clone(trusted), details)?;
            let (rights, grants) = self.ledger.look(|world| {
                let lasting = |grant: &&Grant| grant.what.tool() == READ && grant.terms.rate.is_none();
                let live = |grant: &&Grant| grant.is_live(&now, world.now_ms) && world.is_granted(grant, who.pid, who.zone, who.task);
                let grants: Vec<Grant> = world.grants.values().filter(lasting).filter(live).cloned().collect();
                (CallerRights::of(world, *who, &[READ], &now, world.now_ms), grants)
            });
            readers.bans.extend(rights.bans);
            match number {
                0 => readers.grants = grants,
                _ => readers.grants.retain(|grant| grants.contains(grant)),
            }
            // Without any room it reads as at the door.
            let rooms = if rooms.is_empty() { vec![None] } else { rooms.iter().cloned().map(Some).collect() };
            for room in rooms {
                let in_room = read.in_room(room).seen;
                for Ancestor { name, role, user, tags } in &rights.ancestors {
                    let theirs = OwnedFacts { caller: name.clone(), role: role.clone(), user: user.clone(), ..in_room.clone() };
                    readers.ancestors.push(OwnedFacts { caller_tags: tags.clone(), ..theirs });
                }
                readers.own.push(in_room);
            }
        }
        Ok(readers)
    }
}
