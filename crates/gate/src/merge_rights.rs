//! What rules say of a merge: of each path, and of the whole.
//!
//! **Invariant.** A path is judged at the merge by the facts that a call on it has at the door: the task's process with its tags, zone and
//! mode, the bytes that change, every room in which a job of the task ran, and every process that worked there. One no is a no, one
//! question makes it a question.

use crate::Gate;
use crate::call_facts::{CallFacts, Details, Who, used_room};
use crate::judge::{CallerRights, Judgement};
use crate::zone::TrustedPolicy;
use ledger::MERGE;
use parking_lot::Mutex;
use policy::{OwnedPath, Verdict};
use sandbox::{Profile, Template};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use workspace::{ChangeGate, Frozen, MOVE, PathCall, State, WRITE, aside};
use world::Stop;
use world::{BootTime, GrantId, Pid, Task, UsedRoom, World};

/// What a merge's paths and the merge itself are asked as.
const TOOLS: [&str; 4] = [MERGE, WRITE, "fs.delete", MOVE];

/// What a move from one path to another was found to be.
type Moves = BTreeMap<(String, String), Result<Option<String>, String>>;

pub struct MergeRights<'a> {
    gate: &'a Gate,
    trusted: Arc<TrustedPolicy>,
    workers: Workers,
    rooms: Vec<UsedRoom>,
    /// What grants have left while the paths of one proposal are looked at, one after the other.
    rights: Mutex<WorkersRights>,
    /// What was said of moves. Both names of a file ask about the same one, and it is one use of a grant.
    moves: Mutex<Moves>,
}

/// Everybody who may have written what a task changed.
#[derive(Clone)]
struct Workers {
    /// The task's own process.
    own: Who,
    /// Who else worked in its rooms. Of them a no counts, and a question makes it one.
    others: Vec<Who>,
}

impl Workers {
    fn of(task: &Task) -> Workers {
        let own = Who { pid: task.pid, zone: task.zone, task: Some(task.id) };
        Workers { own, others: task.workers.iter().filter(|pid| **pid != task.pid).map(|pid| Who { pid: *pid, ..own }).collect() }
    }

    fn all(&self) -> impl Iterator<Item = Who> {
        std::iter::once(self.own).chain(self.others.iter().copied())
    }

    fn rights(&self, world: &World, now: &BootTime, now_ms: i64) -> WorkersRights {
        let own = |who: Who| CallerRights::of(world, who, &TOOLS, now, now_ms).within_session(world, who.task);
        let of = |who: Who| own(who).without_call_budget().without_overrides();
        WorkersRights(self.all().map(|who| (who.pid, of(who))).collect())
    }
}

/// What the world holds for and against each of them.
#[derive(Clone)]
struct WorkersRights(BTreeMap<Pid, CallerRights>);

impl WorkersRights {
    /// Of whoever would make the call.
    fn of(&self, call: &CallFacts) -> Option<&CallerRights> {
        self.0.get(&call.who.pid)
    }

    /// A grant that several have is one.
    fn spend(&mut self, id: GrantId) {
        self.0.values_mut().for_each(|rights| rights.spend(id));
    }
}

/// A change of a path, in the words of rules.
pub fn path_details(deed: &PathCall<'_>) -> Details {
    let input = match (&deed.paths[..], &deed.content) {
        ([from, to], _) => json!({ "from": from, "to": to }),
        (paths, Some(content)) => json!({ "path": paths[0], "content": content }),
        (paths, None) => json!({ "path": paths[0] }),
    };
    let paths = deed.paths.iter().map(|path| OwnedPath::Inside((*path).to_owned())).collect();
    Details { paths, size: Some(deed.size), ..Details::of(deed.tool, input) }
}

/// A call under every room, ready to be judged.
struct Described {
    path: String,
    /// A person has been shown that this path asks.
    is_seen: bool,
    calls: Vec<CallFacts>,
}

impl<'a> MergeRights<'a> {
    pub fn of(gate: &'a Gate, task: &Task) -> Result<MergeRights<'a>, Stop> {
        let trusted = gate.policies.in_force(task.zone)?;
        // As it is now: the one that an episode began with knows no job.
        let task = gate.ledger.task(task.id)?;
        let (rooms, workers) = (gate.rooms_of(&trusted, &task)?, Workers::of(&task));
        let now = gate.moment();
        let rights = gate.ledger.look(|world| workers.rights(world, &now, world.now_ms));
        Ok(MergeRights { gate, trusted, workers, rooms, rights: Mutex::new(rights), moves: Mutex::default() })
    }

    /// The merge as a whole; rules about single paths have spoken in `may_change`.
    pub async fn whole(&self, frozen: &Frozen) -> Result<Verdict, Stop> {
        let calls = self.described_whole(frozen).await?;
        Ok(judge(&calls, &mut self.rights.lock().clone()).verdict)
    }

    async fn described_whole(&self, frozen: &Frozen) -> Result<Vec<CallFacts>, Stop> {
        let paths: Vec<OwnedPath> = frozen.changes.iter().map(|change| OwnedPath::Inside(change.path.clone())).collect();
        let size = Some(frozen.changes.iter().map(|change| change.size).sum());
        let mut calls = self.calls(Details { paths, size, ..Details::of(MERGE, frozen.shown()) }).await?;
        // A person's answer is bound to the digest.
        calls.iter_mut().for_each(|call| call.bind.clone_from(&frozen.digest));
        Ok(calls)
    }

    /// The same call by each who worked there, in each room.
    async fn calls(&self, details: Details) -> Result<Vec<CallFacts>, Stop> {
        let mut calls = Vec::with_capacity(self.rooms.len());
        for who in self.workers.all() {
            let first = CallFacts::new(&self.gate.ledger, who, self.trusted.clone(), details.clone())?;
            calls.extend(self.in_rooms(&first).await);
        }
        Ok(calls)
    }

    /// The same call in each room, with the extensions' opinion where one of the rooms leaves room for it.
    async fn in_rooms(&self, first: &CallFacts) -> Vec<CallFacts> {
        let mut calls: Vec<CallFacts> = self.rooms.iter().map(|room| first.in_room(Some(room.clone()))).collect();
        for at in 0..calls.len() {
            calls[at].ask_extensions(self.gate).await;
            if !calls[at].seen().opinions.is_empty() {
                let opinions = calls[at].seen().opinions.clone();
                return calls.into_iter().map(|call| call.with_opinions(&opinions).without_input()).collect();
            }
        }
        calls.into_iter().map(CallFacts::without_input).collect()
    }

    /// Everything that a merge will ask when it starts.
    pub async fn describe(&self, frozen: &Frozen, chosen: impl Fn(&str) -> bool) -> Result<MergeStart, Stop> {
        let mut changes = Vec::with_capacity(frozen.changes.len());
        // A file with another name is one move, and was asked about under both names.
        for frozen_path in frozen.changes.iter().filter(|frozen_path| frozen_path.to.is_none()) {
            let mut deed = PathCall::of_frozen(frozen_path);
            if self.reads_content() && matches!(frozen_path.new, State::File { .. }) {
                deed = deed.with_content(&aside(|| frozen_path.new.bytes(&|blob| self.gate.ledger.blob(blob)))?);
            }
            let calls = self.calls(path_details(&deed)).await?;
            let is_seen = frozen_path.question.is_some() || chosen(&frozen_path.path);
            changes.push(Described { path: frozen_path.path.clone(), is_seen, calls });
        }
        Ok(MergeStart { workers: self.workers.clone(), whole: self.described_whole(frozen).await?, changes })
    }
}

impl ChangeGate for MergeRights<'_> {
    async fn may_change(&self, deed: &PathCall<'_>, path: &str) -> Result<Result<Option<String>, String>, Stop> {
        let names = match deed.paths[..] {
            [from, to] => Some((from.to_owned(), to.to_owned())),
            _ => None,
        };
        let asked = |said: Result<Option<String>, String>| said.map(|reasons| reasons.map(|reasons| format!("{path}: {reasons}")));
        if let Some(said) = names.as_ref().and_then(|names| self.moves.lock().get(names).cloned()) {
            return Ok(asked(said));
        }
        let calls = self.calls(path_details(deed)).await?;
        let said = match judge(&calls, &mut self.rights.lock()).verdict {
            Verdict::Allow(_) => Ok(None),
            Verdict::Review { reasons, .. } => Ok(Some(reasons.join("; "))),
            Verdict::Deny { refusal, .. } => Err(refusal.reason),
        };
        if let Some(names) = names {
            self.moves.lock().insert(names, said.clone());
        }
        Ok(asked(said))
    }

    fn reads_content(&self) -> bool {
        !self.trusted.bundle.rules.is_empty()
    }
}

/// A merge that is about to start.
pub struct MergeStart {
    workers: Workers,
    whole: Vec<CallFacts>,
    changes: Vec<Described>,
}

impl MergeStart {
    /// Decides once more, by the world that the start is recorded in: the grants that are used up by it, one entry for each use, or why
    /// what was decided or answered before no longer holds. `by_person` is a merge that somebody said yes to.
    pub fn decide(&self, world: &World, now: &BootTime, now_ms: i64, by_person: bool) -> Result<Vec<GrantId>, String> {
        let own = self.workers.own;
        let version = world.policy_version(own.zone);
        if self.whole.iter().any(|whole| Some(whole.trusted.version) != version) {
            return Err("the policy changed after the question".into());
        }
        let mut rights = self.workers.rights(world, now, now_ms);
        let mut used = Vec::new();
        for Described { path, is_seen, calls } in &self.changes {
            let judged = judge(calls, &mut rights);
            used.extend(judged.used);
            match judged.verdict {
                Verdict::Allow(_) => {}
                Verdict::Review { .. } if by_person && *is_seen => {}
                Verdict::Review { .. } => return Err(format!("`{path}` needs an answer that it did not need before")),
                Verdict::Deny { refusal, .. } => return Err(refusal.reason),
            }
        }
        let (mine, others): (Vec<&CallFacts>, Vec<&CallFacts>) = self.whole.iter().partition(|whole| whole.who == own);
        let judged = if by_person {
            // The yes itself, whether or not a rule asked for it: it may have run out or been taken back.
            let grant = |whole: &CallFacts| rights.of(whole)?.grant_of(whole).map(|grant| grant.id);
            let answer = mine.first().and_then(|whole| grant(whole));
            used.push(answer.ok_or("the yes was taken back, or its time is over")?);
            // Whoever says yes to the whole says it whoever worked on it; a no stays one.
            if let Verdict::Deny { refusal, .. } = judge(others, &mut rights.clone()).verdict {
                return Err(refusal.reason);
            }
            judge(mine, &mut rights)
        } else {
            judge(&self.whole, &mut rights)
        };
        match judged.verdict {
            Verdict::Allow(_) => {
                used.extend(judged.used.into_iter().filter(|_| !by_person));
                Ok(used)
            }
            Verdict::Review { reasons, .. } => Err(reasons.join("; ")),
            Verdict::Deny { refusal, .. } => Err(refusal.reason),
        }
    }
}

struct Judged {
    verdict: Verdict,
    used: BTreeSet<GrantId>,
}

/// The strictest word on one call in all its rooms, by all who worked there. What it uses of grants is taken from `rights`: one use, in
/// however many rooms.
fn judge<'c>(calls: impl IntoIterator<Item = &'c CallFacts>, rights: &mut WorkersRights) -> Judged {
    let mut used = BTreeSet::new();
    let mut allowed: Option<Verdict> = None;
    let mut asked: Option<(Vec<String>, Vec<String>)> = None;
    for call in calls {
        let Some(own) = rights.of(call) else {
            asked.get_or_insert_default().0.push("nobody knows who made it".into());
            continue;
        };
        let Judgement { verdict, used: grant } = call.judge(own);
        match verdict {
            Verdict::Deny { .. } => return Judged { verdict, used: BTreeSet::new() },
            Verdict::Review { reasons, rules } => {
                let (all, names) = asked.get_or_insert_default();
                all.extend(reasons.into_iter().filter(|reason| !all.contains(reason)).collect::<Vec<_>>());
                names.extend(rules.into_iter().filter(|rule| !names.contains(rule)).collect::<Vec<_>>());
            }
            Verdict::Allow(_) => allowed = Some(verdict),
        }
        used.extend(grant.map(|grant| grant.id));
    }
    let verdict = match (asked, allowed) {
        (None, Some(allowed)) => allowed,
        (asked, _) => {
            let (reasons, rules) = asked.unwrap_or_else(|| (vec!["nobody knows where it was made".into()], Vec::new()));
            // What a person is asked about needs no grant.
            return Judged { verdict: Verdict::Review { reasons, rules }, used: BTreeSet::new() };
        }
    };
    used.iter().for_each(|grant| rights.spend(*grant));
    Judged { verdict, used }
}

impl Gate {
    /// The rooms in which jobs of a task ran, in the words of rules. Where a record does not say, it may have been any that a caller gets;
    /// where none ran, it is the one of the tool that writes.
    fn rooms_of(&self, trusted: &TrustedPolicy, task: &Task) -> Result<Vec<UsedRoom>, Stop> {
        let templates = self.policies.templates(Some(trusted))?;
        let mut rooms = task.rooms.clone();
        if task.in_unknown_room {
            let for_callers = |template: &&Template| template.profile != Profile::Strict && template.name != "brain";
            rooms.extend(templates.list().filter(for_callers).map(used_room));
        }
        if rooms.is_empty() {
            let own = self.template_named_by(WRITE);
            rooms.insert(used_room(templates.of_tool(WRITE, own.as_deref())?));
        }
        Ok(rooms.into_iter().collect())
    }
}
