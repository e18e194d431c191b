//! The process table as others see it: states, children, tokens and contexts as they are now.
//!
//! Looking changes nothing and makes no record of its own. How often each process looked is recorded once in a while.

use crate::Tree;
use crate::calls::CallOrigin;
use gate::{Details, TreeRequest};
use serde_json::Value;
use std::time::Duration;
use world::event::RecordsDropped;
use world::{Code, Pid, Process, ProcessRole, ProcessState, ProgramRuntime, Refusal, Stop, TaskId, Tier, World, budget::ALL_TIERS, limits};

/// How long reads are counted before their number is recorded.
const COUNTED_FOR: Duration = Duration::from_secs(60);
/// What they are, in policies and in the record of their number.
const READ: &str = "proc.info";

/// A process as it is now.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessView {
    pub pid: Pid,
    pub parent: Option<Pid>,
    pub name: String,
    pub user: String,
    /// `None` for workers, jobs and the operator, who have no role in the tree.
    pub role: Option<ProcessRole>,
    pub tier: Option<Tier>,
    pub model: String,
    pub state: ProcessState,
    pub node: String,
    pub runtime: Option<ProgramRuntime>,
    /// Of itself and everything below it.
    pub tokens: u64,
    /// Some of them are what it says of itself.
    pub is_claimed: bool,
    /// How full its context is, as it says, and how large it may be.
    pub context_permille: Option<u32>,
    pub context_max: Option<u64>,
    /// Children that are alive.
    pub children: u32,
    pub started_ms: i64,
    pub task: Option<TaskId>,
    /// How the one who asked calls that task.
    pub task_label: String,
    pub address: Option<String>,
    /// Its program runs in a room; `None` where nothing runs.
    pub confined: Option<bool>,
    pub incarnation: u64,
}

/// What a process uses, and may still use.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceView {
    pub tokens_used: u64,
    /// `None` where nothing caps them.
    pub tokens_left: Option<u64>,
    pub children: u32,
    pub children_max: Option<u64>,
    pub context_permille: Option<u32>,
    pub uptime_ms: u64,
}

impl Tree {
    pub fn info(&self, by: Pid, of: Pid) -> Result<ProcessView, Stop> {
        self.count_read(by)?;
        let found = self.ledger.look(|world| {
            let seen = view(world, world.processes.get(&of)?);
            // Labels have words of the task in them.
            Some(if world.shares_user(by, of) { seen } else { ProcessView { task_label: String::new(), ..seen } })
        });
        Ok(found.ok_or_else(|| unknown(of))?)
    }

    /// Those right below a process, or all below it.
    pub fn children(&self, by: Pid, recursive: bool, state: Option<ProcessState>) -> Result<Vec<ProcessView>, Stop> {
        self.count_read(by)?;
        Ok(self.ledger.look(|world| below(world, by, recursive, state)))
    }

    /// Those that have the same parent.
    pub fn siblings(&self, by: Pid) -> Result<Vec<ProcessView>, Stop> {
        self.count_read(by)?;
        Ok(self.ledger.look(|world| beside(world, by))?)
    }

    /// A process itself, all below it and all beside it, by one look. It is on record before a brain hears of it: what it has left of its calls is known
    /// before it makes the next.
    pub async fn around(&self, by: Pid) -> Result<[Vec<ProcessView>; 3], Stop> {
        self.count_read(by)?;
        if self.origin(by).task.is_some() {
            self.record_reads().await;
        }
        Ok(self.ledger.look(|world| {
            let own = world.processes.get(&by).ok_or_else(|| unknown(by))?;
            Ok::<_, Refusal>([vec![view(world, own)], below(world, by, true, None), beside(world, by)?])
        })?)
    }

    pub fn usage(&self, of: Pid) -> Result<ResourceView, Stop> {
        let now_ms = crate::clock::now_ms();
        let found = self.ledger.look(|world| {
            let process = world.processes.get(&of)?;
            let tier = process.tree_tier().unwrap_or(Tier::Operational);
            let (tokens, _) = world.left(of, tier.as_str(), Some(now_ms));
            let total = world.tokens_total(of);
            let used = spent(world, of);
            let left = total.map(|total| total.saturating_sub(used)).into_iter().chain((tokens != u64::MAX).then_some(tokens)).min();
            let children_max = process.limits().map_or(Some(limits::KERNEL_CHILDREN_MAX), |limits| limits.children);
            Some(ResourceView {
                tokens_used: used,
                tokens_left: left,
                children: children(world, of),
                children_max,
                context_permille: context(process),
                uptime_ms: u64::try_from(now_ms.saturating_sub(started_ms(process))).unwrap_or(0),
            })
        });
        Ok(found.ok_or_else(|| unknown(of))?)
    }

    /// Asks the policy about a read of the process table, and counts it. What a brain reads counts against the most calls of its task, as all of its
    /// calls do.
    fn count_read(&self, by: Pid) -> Result<(), Stop> {
        let task = self.may(by, READ)?.task;
        let calls_left = task.and_then(|task| self.ledger.look(|world| world.calls_left(Some(task))));
        let is_first = {
            let mut reads = self.mail.reads.lock();
            let is_first = reads.is_empty();
            let count = reads.get(&(by, task)).copied().unwrap_or(0);
            if calls_left.is_some_and(|left| count >= left) {
                let name = self.ledger.look(|world| ledger::name_of(world, by));
                let reason = format!("`{READ}` is refused: no calls are left in the budget of `{name}`");
                return Err(Refusal::new(Code::Exhausted, reason).hint("finish with what is there").into());
            }
            reads.insert((by, task), count + 1);
            is_first
        };
        if is_first && let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let me = self.me.clone();
            runtime.spawn(async move {
                tokio::time::sleep(COUNTED_FOR).await;
                if let Some(tree) = me.upgrade() {
                    tree.record_reads().await;
                }
            });
        }
        Ok(())
    }

    /// Records how often each process looked.
    pub async fn record_reads(&self) {
        let counts = std::mem::take(&mut *self.mail.reads.lock());
        if counts.is_empty() {
            return;
        }
        let recorded = async {
            let pending = self.ledger.commit(|world, _| {
                let alive = counts.into_iter().filter(|((pid, _), _)| world.processes.contains_key(pid));
                let count = |((pid, task), count)| RecordsDropped { pid, task, kind: READ.into(), count }.into();
                (alive.map(count).collect(), ())
            })?;
            pending.durable().await
        };
        if let Err(fault) = recorded.await {
            world::log!("skep: reads of the process table were not counted: {fault}");
        }
    }

    /// What the policy says of a call that makes no record of its own. The answer holds until something changes that it depends on.
    pub(crate) fn may(&self, by: Pid, tool: &'static str) -> Result<CallOrigin, Stop> {
        let origin = self.origin(by);
        // The lists of a task are its own: nothing of that is kept.
        if origin.task.is_some() {
            self.judged(by, tool, origin)??;
            return Ok(origin);
        }
        let version = (self.ledger.rights_version(), self.ledger.look(|world| world.policy_version(origin.zone)));
        let known = self.mail.verdicts.lock().get(&(by, tool)).filter(|(of, _)| *of == version).map(|(_, verdict)| verdict.clone());
        let verdict = match known {
            Some(verdict) => verdict,
            None => {
                let verdict = self.judged(by, tool, origin)?;
                let mut verdicts = self.mail.verdicts.lock();
                // Those of processes that are gone go with the rest, once in a while.
                if verdicts.len() >= VERDICTS_MAX {
                    verdicts.clear();
                }
                verdicts.insert((by, tool), (version, verdict.clone()));
                verdict
            }
        };
        verdict?;
        Ok(origin)
    }

    fn judged(&self, by: Pid, tool: &'static str, origin: CallOrigin) -> Result<Result<(), Refusal>, Stop> {
        let is_alive = self.ledger.look(|world| world.processes.get(&by).is_some_and(|process| process.state.alive()));
        if !is_alive {
            return Err(Refusal::new(Code::WrongState, format!("process {by} is not alive")).into());
        }
        let request = origin.request(by, tool, Value::Null);
        let details = Details { read_only: true, tree: Some(TreeRequest::Own), ..Details::of(tool, Value::Null) };
        let trusted = self.gate.policies.in_force(origin.zone)?;
        let facts = self.gate.describe(&request, trusted, details, &[], false)?;
        Ok(match facts.call.judge(&self.gate.rights(&facts.call)).verdict {
            policy::Verdict::Allow(_) => Ok(()),
            policy::Verdict::Deny { refusal, .. } => Err(refusal),
            policy::Verdict::Review { reasons, .. } => Err(Refusal::new(
                Code::Denied,
                format!("`{tool}` asks for a review, and has no call that could wait: {}", reasons.join("; ")),
            )),
        })
    }
}

/// Answers of the policy that are kept.
const VERDICTS_MAX: usize = 10_000;

pub(crate) fn unknown(pid: Pid) -> Refusal {
    Refusal::new(Code::NotFound, format!("process {pid} not found"))
}

/// Those right below a process, or all below it.
fn below(world: &World, of: Pid, recursive: bool, state: Option<ProcessState>) -> Vec<ProcessView> {
    let is_below = |process: &&Process| match recursive {
        true => process.pid != of && world.ancestry(process.pid).any(|above| above.pid == of),
        false => process.parent == Some(of),
    };
    let is_meant = |process: &&Process| state.is_none_or(|state| process.state == state);
    // The operator's own processes and their jobs are no part of the tree.
    let is_shown = |process: &&Process| process.program.is_some();
    let below = world.processes.values().filter(is_shown).filter(is_meant).filter(is_below);
    below.map(|process| view(world, process)).collect()
}

fn beside(world: &World, of: Pid) -> Result<Vec<ProcessView>, Refusal> {
    let own = world.processes.get(&of).ok_or_else(|| unknown(of))?;
    let is_sibling = |process: &&Process| process.pid != of && process.parent == own.parent && process.program.is_some();
    Ok(world.processes.values().filter(is_sibling).map(|process| view(world, process)).collect())
}

fn view(world: &World, process: &Process) -> ProcessView {
    let (program, run) = (process.program.as_deref(), process.run.as_deref());
    let task = world.current_task(process.pid);
    ProcessView {
        pid: process.pid,
        parent: process.parent,
        name: process.name.clone(),
        user: process.user.clone(),
        role: process.tree_role(),
        tier: process.tree_tier(),
        model: program.map(|program| program.model.clone()).unwrap_or_default(),
        state: process.state,
        node: program.map(|program| program.node.clone()).unwrap_or_default(),
        runtime: program.map(|program| program.runtime),
        tokens: spent(world, process.pid),
        is_claimed: run.is_some_and(|run| run.has_claimed),
        context_permille: context(process),
        context_max: program.and_then(|program| program.limits.context),
        children: children(world, process.pid),
        started_ms: started_ms(process),
        task: task.map(|task| task.id),
        task_label: task.and_then(|task| task.order.as_ref()).map(|order| order.label.clone()).unwrap_or_default(),
        address: run.and_then(|run| run.address.clone()),
        confined: run.filter(|run| run.is_up).map(|run| run.confined),
        incarnation: process.incarnation(),
    }
}

fn spent(world: &World, pid: Pid) -> u64 {
    world.books.accounts.get(&pid).map_or(0, |account| account.spent.of(ALL_TIERS))
}

fn children(world: &World, pid: Pid) -> u32 {
    u32::try_from(world.live_children(pid).count()).unwrap_or(u32::MAX)
}

fn context(process: &Process) -> Option<u32> {
    process.run.as_ref()?.report.as_ref()?.context_permille
}

/// Of its present program, where one runs.
fn started_ms(process: &Process) -> i64 {
    process.run.as_ref().filter(|run| run.is_up).map_or(process.started_ms, |run| run.started_ms)
}
