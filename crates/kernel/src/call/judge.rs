//! The one evaluation: what rules can know of a call, and what masks, bans, ancestors, grants, extensions and the policy make of it.
//!
//! A call at the door, a path of a merge, the merge as a whole, the way back, `skep try`, what a job asks for at its doors, a request
//! to a model, an explanation, a call of the past and what a room may read are all described as [`CallFacts`] and judged here.
//! **Invariant.** Nothing else in the tree makes `policy::Facts` or `policy::OwnedFacts` (`cargo xtask lint` looks), so what holds for a
//! call at the door holds for it everywhere. Judging does no IO.

use crate::token::Presented;
use crate::zone::Trusted;
use crate::{Kernel, extension};
use plugin::Extensions;
use policy::{Explanation, Opinion, OwnedFacts, OwnedPath, Policy, RealPath, Standing, TokenFacts, Verdict};
use sandbox::Template;
use serde_json::Value;
use std::sync::Arc;
use tool::RunMode;
use world::Stop;
use world::{Alternative, Ban, Code, Grant, GrantId, Mode, Moment, Pid, Process, Refusal, TaskId, Terms, Used, UsedRoom, World, ZoneId};

/// Who acts, where, and as part of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Who {
    pub pid: Pid,
    pub zone: ZoneId,
    pub task: Option<TaskId>,
}

/// What a call is, besides who makes it.
#[derive(Clone, Debug)]
pub(crate) struct Details {
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
        }
    }
}

/// A room in the words of rules.
pub(crate) fn used(template: &Template) -> UsedRoom {
    UsedRoom { template: template.name.clone(), network: template.network.as_str().to_owned() }
}

/// A described call: everything that can be judged of it, made or not.
#[derive(Clone)]
pub(crate) struct CallFacts {
    pub who: Who,
    pub trusted: Arc<Trusted>,
    /// Hash of the exact call, which a person's answer is bound to; empty for what is no call of its own, such as a path of a merge.
    pub bind: String,
    /// Why no policy is asked at all: it touches what is masked.
    pub masked: Option<Refusal>,
    pub token: Option<Presented>,
    input: Value,
    seen: OwnedFacts,
}

impl CallFacts {
    /// Describes a call by the world as it is now.
    pub fn new(kernel: &Kernel, who: Who, trusted: Arc<Trusted>, details: Details) -> Result<CallFacts, Refusal> {
        let found = kernel.ledger.look(|world| CallFacts::at(world, who, trusted, details));
        found.ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no process {}", who.pid)))
    }

    fn at(world: &World, who: Who, trusted: Arc<Trusted>, details: Details) -> Option<CallFacts> {
        let process = world.processes.get(&who.pid)?;
        let zone = world.zones.get(&who.zone)?;
        let mode = who.task.and_then(|task| world.tasks.get(&task)).map_or(Mode::Call, |task| task.mode);
        let Details { tool, input, run_mode, read_only, paths, command, host, method, port, size, room, tier } = details;
        let (sandbox, network) = room.map(|room| (room.template, room.network)).unzip();
        let seen = OwnedFacts {
            tool,
            read_only,
            paths,
            caller: process.name.clone(),
            caller_tags: tags(world, process, who.task),
            role: process.role.clone(),
            tier,
            user: process.user.clone(),
            zone: zone.path.clone(),
            mode,
            run_mode: run_mode.as_str().to_owned(),
            workflow_state: "idle".to_owned(),
            command,
            host,
            method,
            port,
            size,
            sandbox,
            network,
            opinions: Vec::new(),
        };
        Some(CallFacts { who, trusted, bind: String::new(), masked: None, token: None, input, seen })
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

    /// What is said of one path of a call that has many.
    fn judge_path(&self, path: &str, around: &Around) -> Verdict {
        let paths = [RealPath::Inside(path)];
        self.weigh(&self.trusted.policy, around, &self.seen.on(&paths, None)).verdict
    }

    /// The same call in another room.
    pub fn in_room(&self, room: Option<UsedRoom>) -> CallFacts {
        let mut other = self.clone();
        (other.seen.sandbox, other.seen.network) = room.map(|room| (room.template, room.network)).unzip();
        other
    }

    /// Asks the zone's extensions, where their word can still matter: never after a deny, a mask or a valid token.
    pub async fn ask_extensions(&mut self, kernel: &Kernel) {
        if self.trusted.bundle.rules.is_empty() || self.masked.is_some() {
            return;
        }
        let now = kernel.moment();
        let token = self.token.as_ref().and_then(|token| kernel.ledger.look(|world| token.facts(world, &now)));
        if self.seen.with_token(token.as_ref(), |facts| policy::preview(&self.trusted.policy, facts).is_settled()) {
            return;
        }
        self.seen.opinions = kernel.opinions(self.who.zone, &self.trusted, &self.described(kernel)).await;
    }

    /// The same of extensions that are in force nowhere yet, beside a policy that is not either.
    pub async fn ask_candidates(&mut self, kernel: &Kernel, policy: &Policy, extensions: &Extensions) {
        if self.masked.is_none() && !self.seen.with(|facts| policy::preview(policy, facts).is_settled()) {
            self.seen.opinions = extensions.opinions(&self.described(kernel)).await;
        }
    }

    /// The call as extensions see it. A rule judges what a call is about; a long text is cut as in a record, so that no call is too large
    /// to ask about.
    fn described(&self, kernel: &Kernel) -> Value {
        let mut input = self.input.clone();
        kernel.redactor.value(&mut input);
        super::settle::shorten(&mut input);
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

    /// By the policy in force.
    pub fn judge(&self, around: &Around) -> Judgement {
        self.judge_by(&self.trusted.policy, around)
    }

    /// By this policy: masks, then bans, ancestors, and rules with grants.
    pub fn judge_by(&self, policy: &Policy, around: &Around) -> Judgement {
        self.seen.with_token(around.token.as_ref(), |facts| self.weigh(policy, around, facts))
    }

    fn weigh(&self, policy: &Policy, around: &Around, facts: &policy::Facts<'_>) -> Judgement {
        if let Some(refusal) = &self.masked {
            return Judgement::deny(refusal.clone(), vec!["mask".into()]);
        }
        if let Some(ban) = around.bans.iter().find(|ban| policy::ban_covers(ban, facts, &self.bind)) {
            return Judgement::deny(refused_for_good(ban), vec![ban.id.to_string()]);
        }
        if let Some((refusal, rules)) = around.denied_to_ancestor(policy, facts) {
            return Judgement::deny(refusal, rules);
        }
        let grant = around.pick(facts, &self.bind);
        let standing = Standing { grant: grant.map(|grant| grant.id), calls_left: around.calls_left };
        let is_lost = around.lost.contains(&self.bind);
        let (verdict, used) = match policy::decide(policy, facts, &standing) {
            // A call that may have happened already is a person's to repeat, whatever the policy says of it.
            Verdict::Allow(_) if is_lost && grant.is_none() => (lost(), None),
            Verdict::Allow(warrant) => {
                let used = if is_lost { standing.grant } else { warrant.grant() };
                (Verdict::Allow(warrant), used)
            }
            no => (no, None),
        };
        Judgement { verdict, used: grant.filter(|grant| Some(grant.id) == used).cloned() }
    }

    /// Who would speak about this call, and the verdict that [`CallFacts::judge_by`] gives.
    pub fn explain_by(&self, policy: &Policy, around: &Around) -> Explanation {
        let told = self.seen.with_token(around.token.as_ref(), |facts| {
            let grant = around.pick(facts, &self.bind).map(|grant| grant.id);
            policy::explain(policy, facts, &Standing { grant, calls_left: around.calls_left })
        });
        told.decided(self.judge_by(policy, around).verdict)
    }
}

/// Who asks about a call that a crash interrupted.
pub(crate) const LOST: &str = "lost-call";

fn lost() -> Verdict {
    let reasons = vec!["this exact call was interrupted by a crash and may have taken effect".to_owned()];
    Verdict::Review { reasons, rules: vec![LOST.into()] }
}

/// What came of it.
pub(crate) struct Judgement {
    pub verdict: Verdict,
    /// The grant that answered a review, as it was before this use.
    pub used: Option<Grant>,
}

impl Judgement {
    fn deny(refusal: Refusal, rules: Vec<String>) -> Judgement {
        Judgement { verdict: Verdict::Deny { refusal, rules }, used: None }
    }
}

/// What the world holds for and against calls of one process with these tools, at one moment.
#[derive(Clone)]
pub(crate) struct Around {
    bans: Vec<Ban>,
    grants: Vec<Grant>,
    ancestors: Vec<Ancestor>,
    calls_left: Option<u64>,
    /// Binds of calls that a crash interrupted.
    lost: Vec<String>,
    token: Option<TokenFacts>,
    now: Moment,
    now_ms: i64,
}

#[derive(Clone)]
struct Ancestor {
    name: String,
    role: String,
    user: String,
    tags: Vec<String>,
}

impl Around {
    /// Of one call.
    pub fn call(world: &World, call: &CallFacts, now: &Moment, now_ms: i64) -> Around {
        let mut around = Around::of(world, call.who, &[call.seen.tool.as_str()], now, now_ms);
        around.token = call.token.as_ref().and_then(|token| token.facts(world, now));
        around
    }

    /// Of all calls with these tools.
    pub fn of(world: &World, who: Who, tools: &[&str], now: &Moment, now_ms: i64) -> Around {
        let Who { pid, zone, task } = who;
        let bans = world.bans.values().filter(|ban| tools.contains(&ban.what.tool()) && world.in_scope(&ban.scope, pid, zone));
        let live = world.grants.values().filter(|grant| tools.contains(&grant.what.tool()) && grant.is_live(now, now_ms));
        let ancestors = world.line(pid).skip(1).filter(|process| process.pid != Pid::KERNEL);
        Around {
            bans: bans.cloned().collect(),
            grants: live.filter(|grant| world.in_scope(&grant.scope, pid, zone)).cloned().collect(),
            ancestors: ancestors.map(|process| Ancestor::of(world, process)).collect(),
            calls_left: world.calls_left(task),
            lost: task.and_then(|task| world.tasks.get(&task)).map(|task| task.lost.clone()).unwrap_or_default(),
            token: None,
            now: now.clone(),
            now_ms,
        }
    }

    /// Without grants and budgets, which are of their moment: what is left is what policy and bans say.
    #[must_use]
    pub fn without_leave(mut self) -> Around {
        self.grants.clear();
        self.calls_left = None;
        self
    }

    /// For a call of the past, of which `lost` says that a crash had interrupted it before: bans are of their moment too.
    #[must_use]
    pub fn of_the_past(self, lost: Option<&str>) -> Around {
        Around { bans: Vec::new(), lost: lost.map(str::to_owned).into_iter().collect(), token: None, ..self.without_leave() }
    }

    /// For what is not a call of the task's brain: its budget of calls does not count.
    #[must_use]
    pub fn uncounted(mut self) -> Around {
        self.calls_left = None;
        self
    }

    /// A child's rights are a subset of its parent's: what policy denies to an ancestor, no descendant may do.
    fn denied_to_ancestor(&self, policy: &Policy, facts: &policy::Facts<'_>) -> Option<(Refusal, Vec<String>)> {
        for Ancestor { name, role, user, tags } in &self.ancestors {
            let theirs = facts.by(name, role, user, tags);
            if let Verdict::Deny { refusal, rules } = policy::decide(policy, &theirs, &Standing::default()) {
                let reason = format!("its parent {name} may not: {}", refusal.reason);
                return Some((Refusal { reason, ..refusal }, rules));
            }
        }
        None
    }

    /// The grant this call would use: the exact one first.
    fn pick(&self, facts: &policy::Facts<'_>, bind: &str) -> Option<&Grant> {
        let live = self.grants.iter().filter(|grant| grant.is_live(&self.now, self.now_ms));
        let covers = live.filter(|grant| policy::grant_covers(grant, facts, bind));
        covers.min_by_key(|grant| (matches!(grant.what, world::What::Like { .. }), grant.id))
    }

    /// For what takes no input from a grant: one that sets fields of the input covers none of it.
    #[must_use]
    pub fn without_demands(mut self) -> Around {
        let demands = |grant: &Grant| grant.terms.constraints.as_ref().is_some_and(|terms| !terms.input_overrides.is_empty());
        self.grants.retain(|grant| !demands(grant));
        self
    }

    /// Counts one use of a grant, here and not in the world.
    pub fn spend(&mut self, id: GrantId) {
        let used = Used { at_ms: self.now_ms, up: Some(self.now.until()) };
        self.grants.iter_mut().filter(|grant| grant.id == id).for_each(|grant| grant.use_once(used.clone()));
    }

    /// The grant that this call would use if it needs one, whether it does or not.
    pub fn grant_of(&self, call: &CallFacts) -> Option<&Grant> {
        call.seen.with_token(self.token.as_ref(), |facts| self.pick(facts, &call.bind).map(|grant| grant.id)).and_then(|id| self.grant(id))
    }

    fn grant(&self, id: GrantId) -> Option<&Grant> {
        self.grants.iter().find(|grant| grant.id == id)
    }
}

impl Ancestor {
    fn of(world: &World, process: &Process) -> Ancestor {
        let task = world.current_task(process.pid).map(|task| task.id);
        Ancestor { name: process.name.clone(), role: process.role.clone(), user: process.user.clone(), tags: tags(world, process, task) }
    }
}

/// What kind of caller it is: its role, `operator` or `brain`, and what the operator called it for the task that is its own. A child has
/// nothing of its parent's: what is denied to a tag of the parent's is denied to it as a descendant, and what is allowed to one is not
/// allowed to it.
fn tags(world: &World, process: &Process, task: Option<TaskId>) -> Vec<String> {
    let kind = if process.pid == Pid::OPERATOR { "operator" } else { "brain" };
    let own = task.and_then(|task| world.tasks.get(&task)).filter(|task| task.pid == process.pid);
    let given = own.map(|task| task.tags.as_slice()).unwrap_or_default();
    [process.role.as_str(), kind].into_iter().chain(given.iter().map(String::as_str)).map(str::to_owned).collect()
}

fn refused_for_good(ban: &Ban) -> Refusal {
    let refusal = Refusal::new(Code::Denied, format!("{} refuses it: {}", ban.id, ban.reason));
    match &ban.alternative {
        Some(alternative) => refusal.hint(instead(alternative)),
        None => refusal.hint(format!("`skep grant revoke {}` takes the ban back", ban.id)),
    }
}

pub(super) fn instead(alternative: &Alternative) -> String {
    match &alternative.input {
        Value::Null => format!("use `{}` instead", alternative.tool),
        input => format!("use `{}` with {input} instead", alternative.tool),
    }
}

/// What a walk of one call may name, asked path by path.
pub(super) struct Walk {
    own: CallFacts,
    around: Around,
}

impl Walk {
    pub fn of(kernel: &Kernel, call: &CallFacts) -> Walk {
        let mut own = CallFacts { bind: String::new(), masked: None, token: None, ..call.clone() };
        own.seen.opinions.clear();
        let now = kernel.moment();
        let around = kernel.ledger.look(|world| Around::call(world, &own, &now, world.now_ms)).without_leave();
        Walk { own, around }
    }

    /// Not what is denied to this tool, and what would ask only with a person's leave. What may not be read, masks keep out.
    pub fn shows(&self, path: &str, granted: bool) -> bool {
        match self.own.judge_path(path, &self.around) {
            Verdict::Deny { .. } => false,
            Verdict::Review { .. } => granted,
            Verdict::Allow(_) => true,
        }
    }
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
    pub fn lend(&self) -> policy::Readers<'_> {
        policy::Readers { own: &self.own, ancestors: &self.ancestors, bans: &self.bans, grants: &self.grants }
    }
}

impl Kernel {
    /// These processes as readers in each of these rooms. A grant counts if it is live for all of them, whatever its rate: what a room shows
    /// is not read once. Opinions of extensions are not asked.
    pub(crate) fn readers(&self, whos: &[Who], rooms: &[UsedRoom], trusted: &Arc<Trusted>) -> Result<ReaderFacts, Stop> {
        let now = self.moment();
        let mut readers = ReaderFacts { own: Vec::new(), ancestors: Vec::new(), bans: Vec::new(), grants: Vec::new() };
        for (number, who) in whos.iter().enumerate() {
            let details = Details { read_only: true, ..Details::of(READ, Value::Null) };
            let read = CallFacts::new(self, *who, Arc::clone(trusted), details)?;
            let (around, grants) = self.ledger.look(|world| {
                let whenever =
                    |grant: &Grant| Grant { used: Vec::new(), terms: Terms { rate: None, ..grant.terms.clone() }, ..grant.clone() };
                let of_reads = world.grants.values().filter(|grant| grant.what.tool() == READ).map(whenever);
                let live = of_reads.filter(|grant| grant.is_live(&now, world.now_ms) && world.in_scope(&grant.scope, who.pid, who.zone));
                (Around::of(world, *who, &[READ], &now, world.now_ms), live.collect::<Vec<Grant>>())
            });
            readers.bans.extend(around.bans);
            match number {
                0 => readers.grants = grants,
                _ => readers.grants.retain(|grant| grants.contains(grant)),
            }
            // Without any room it reads as at the door.
            let rooms = if rooms.is_empty() { vec![None] } else { rooms.iter().cloned().map(Some).collect() };
            for room in rooms {
                let in_room = read.in_room(room).seen;
                for Ancestor { name, role, user, tags } in &around.ancestors {
                    let theirs = OwnedFacts { caller: name.clone(), role: role.clone(), user: user.clone(), ..in_room.clone() };
                    readers.ancestors.push(OwnedFacts { caller_tags: tags.clone(), ..theirs });
                }
                readers.own.push(in_room);
            }
        }
        Ok(readers)
    }

    /// The policy that holds in a zone; without one nothing may happen there.
    pub(crate) fn in_force(&self, zone: ZoneId) -> Result<Arc<Trusted>, Stop> {
        let none = || {
            Refusal::new(Code::Untrusted, "no policy is in force in this zone").hint("look at the project's own files and run `skep trust`")
        };
        Ok(self.trusted(zone)?.ok_or_else(none)?)
    }
}

pub(crate) const READ: &str = "fs.read";
