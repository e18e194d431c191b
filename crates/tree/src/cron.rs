//! The clock of cron: sleeps until the next entry is due, and has it done.
//!
//! **Invariant.** That an entry runs is on record before it does, with when it is due next: no restart runs it twice, and none forgets it.

use crate::calls::{CallEffect, TreeCall};
use crate::schedule::CronTimes;
use crate::send::notice;
use crate::{SpawnOrder, TaskOrder, Tree, clock};
use gate::TreeRequest;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use world::event::{CronAdded, CronEnded, CronFired, CronRemoved, ProcWoken};
use world::{
    Code, CronAction, CronEntry, CronId, CronSpec, Event, Fault, MissedRule, OverlapRule, Pid, ProcessState, Program, ProgramRuntime,
    Refusal, Stop, World, limits,
};

/// What is so late was missed: the machine slept, or the clock was set.
const MISSED_AFTER_MS: i64 = 60_000;
/// A clock that is so much earlier than at the last look was set back.
const SET_BACK_MS: i64 = 1_000;
/// Runs that are made up for at most.
const MADE_UP_MAX: usize = 100;
/// Missed runs that are counted at all.
const MISSED_SEEN_MAX: usize = 1_000;
/// Bytes of a run's output that are kept.
const OUTPUT_MAX: usize = 4 * 1024;
/// How long the clock waits after a failure before it looks again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// The exit code of a run that could not be made.
const NOT_RUN: i32 = -1;

impl Tree {
    /// Adds an entry; its expression is checked here.
    pub async fn cron_add(&self, by: Pid, spec: CronSpec) -> Result<CronId, Stop> {
        let times = CronTimes::of(&spec)?;
        check(&spec)?;
        let input = json!({ "name": spec.name, "expression": spec.expression, "action": spec.action, "target": spec.target });
        let about = Some(TreeRequest::Direct { target: spec.target, only_children: false });
        let call = TreeCall { by, tool: "cron.add", input, about, read_only: false };
        let added = self
            .commit_call(call, |world, _, now_ms| {
                if world.crons.len() >= limits::CRONS_MAX {
                    return Err(Refusal::new(Code::Exhausted, format!("there are {} entries", limits::CRONS_MAX)).hint("remove one first"));
                }
                let cron = world.next_cron();
                let next_ms = times.next_after(now_ms).filter(|_| spec.enabled);
                let added = CronAdded { pid: by, task: None, cron, spec: Box::new(spec.clone()), next_ms };
                Ok(CallEffect { events: vec![added.into()], output: json!({ "cron": cron, "next_ms": next_ms }), value: cron })
            })
            .await?;
        self.mail.cron.notify_one();
        Ok(added)
    }

    pub async fn cron_remove(&self, by: Pid, cron: CronId) -> Result<(), Stop> {
        let entry = self.cron_entry(cron)?;
        let about = Some(TreeRequest::Direct { target: self.cron_target(by, &entry), only_children: false });
        let call = TreeCall { by, tool: "cron.remove", input: json!({ "cron": cron }), about, read_only: false };
        self.commit_call(call, |world, _, _| {
            if !world.crons.contains_key(&cron) {
                return Err(missing(cron));
            }
            let by_name = world.processes.get(&by).map(|process| process.name.clone()).unwrap_or_default();
            Ok(CallEffect { events: vec![CronRemoved { pid: by, task: None, cron, by: by_name }.into()], output: json!({}), value: () })
        })
        .await?;
        self.mail.cron.notify_one();
        Ok(())
    }

    /// Runs an entry now, beside its times.
    pub async fn cron_run(&self, by: Pid, cron: CronId) -> Result<(), Stop> {
        let entry = self.cron_entry(cron)?;
        let about = Some(TreeRequest::Direct { target: self.cron_target(by, &entry), only_children: false });
        let call = TreeCall { by, tool: "cron.run", input: json!({ "cron": cron }), about, read_only: false };
        let entry = self
            .commit_call(call, |world, _, now_ms| {
                let entry = world.crons.get(&cron).ok_or_else(|| missing(cron))?;
                if entry.running > 0 && entry.spec.overlap != OverlapRule::Allow {
                    return Err(Refusal::new(Code::WrongState, format!("{cron} runs already")));
                }
                let due_ms = entry.last.as_ref().map_or(now_ms, |last| last.due_ms.max(now_ms));
                let fired = CronFired { pid: entry.spec.target, task: None, cron, due_ms, next_ms: entry.next_ms, skipped: false };
                Ok(CallEffect { events: vec![fired.into()], output: json!({}), value: entry.clone() })
            })
            .await?;
        self.begin_run(entry);
        Ok(())
    }

    pub fn cron_list(&self) -> Vec<CronEntry> {
        self.crons_of(Pid::KERNEL)
    }

    /// The entries that a process may see: those of its user's processes, and of all below it.
    pub fn crons_of(&self, by: Pid) -> Vec<CronEntry> {
        let is_seen = |world: &World, entry: &CronEntry| entry.owner == by || world.shares_user(by, entry.spec.target);
        self.ledger.look(|world| world.crons.values().filter(|entry| is_seen(world, entry)).cloned().collect())
    }

    /// The first times after this one, of an expression.
    pub fn cron_next(expression: &str, zone: &str, after_ms: i64, count: usize) -> Result<Vec<i64>, Refusal> {
        Ok(CronTimes::parse(expression, zone)?.after(after_ms, count))
    }

    fn cron_entry(&self, cron: CronId) -> Result<CronEntry, Refusal> {
        self.ledger.look(|world| world.crons.get(&cron).cloned()).ok_or_else(|| missing(cron))
    }

    /// Whom a call about an entry concerns: one's own entries are one's own matter, even when their target is gone.
    fn cron_target(&self, by: Pid, entry: &CronEntry) -> Pid {
        let is_there = self.ledger.look(|world| world.processes.contains_key(&entry.spec.target));
        if entry.owner == by || !is_there { by } else { entry.spec.target }
    }

    /// The clock.
    pub(crate) async fn run_cron(self: Arc<Self>) {
        if let Err(fault) = self.end_left_runs().await {
            world::log!("skep: runs of cron that the last kernel left stay open: {fault}");
        }
        let mut stopping = self.stopping.subscribe();
        let mut looked_ms = i64::MIN;
        loop {
            let now_ms = clock::now_ms();
            let is_set_back = now_ms < looked_ms.saturating_sub(SET_BACK_MS);
            looked_ms = now_ms;
            let next_ms = match self.fire_due(now_ms, is_set_back).await {
                Ok(next_ms) => next_ms,
                Err(fault) => {
                    world::log!("skep: cron waits: {fault}");
                    now_ms.checked_add(AGAIN_AFTER.as_millis().try_into().unwrap_or(i64::MAX))
                }
            };
            tokio::select! {
                () = clock::until(next_ms) => {}
                () = self.mail.cron.notified() => {}
                _ = stopping.wait_for(|stops| *stops) => return,
            }
        }
    }

    /// Runs that were going on when the last kernel ended.
    async fn end_left_runs(&self) -> Result<(), Fault> {
        let pending = self.ledger.commit(|world, _| {
            let left = world.crons.values().flat_map(|entry| std::iter::repeat_n(entry, entry.running as usize));
            let ended = |entry: &CronEntry| {
                let output = "the kernel ended while it ran".to_owned();
                CronEnded { pid: entry.spec.target, task: None, cron: entry.id, exit_code: NOT_RUN, output }.into()
            };
            (left.map(ended).collect(), ())
        })?;
        pending.durable().await
    }

    /// Has everything done that is due, and says when the next is. The times are worked out without the ledger.
    async fn fire_due(&self, now_ms: i64, is_set_back: bool) -> Result<Option<i64>, Fault> {
        let looked_at = self.ledger.look(|world| {
            let is_gone = |entry: &CronEntry| !world.processes.get(&entry.spec.target).is_some_and(|process| process.state.alive());
            let is_due = |entry: &CronEntry| entry.spec.enabled && entry.next_ms.is_some_and(|next| next <= now_ms);
            let entries = world.crons.values().filter(|entry| is_set_back || is_due(entry) || is_gone(entry));
            entries.map(|entry| (entry.clone(), is_gone(entry))).collect::<Vec<_>>()
        });
        let (mut planned, mut runs) = (Vec::new(), Vec::new());
        for (entry, is_gone) in looked_at {
            let events = if is_gone {
                // What is for one who is gone is gone with it.
                vec![CronRemoved { pid: Pid::KERNEL, task: None, cron: entry.id, by: "kernel".into() }.into()]
            } else {
                let Ok(times) = CronTimes::of(&entry.spec) else { continue };
                let fired = plan(&entry, &times, now_ms);
                runs.extend(fired.iter().filter(|fired| !fired.skipped).map(|_| entry.clone()));
                let again = if is_set_back && fired.is_empty() { set_back(&entry, &times, now_ms) } else { None };
                fired.into_iter().map(Event::from).chain(again).collect()
            };
            planned.push((entry, events));
        }
        if planned.iter().any(|(_, events): &(CronEntry, Vec<Event>)| !events.is_empty()) {
            let pending = self.ledger.commit(|world, _| {
                let mut changed = Vec::new();
                let mut all = Vec::new();
                for (entry, events) in planned {
                    let is_owned = world.processes.get(&entry.owner).is_some_and(|process| process.state.alive());
                    let may = |event: &Event| is_owned || !matches!(event, Event::CronAdded(_));
                    match world.crons.get(&entry.id) == Some(&entry) {
                        true => all.extend(events.into_iter().filter(may)),
                        // Somebody changed it meanwhile, and rang the bell.
                        false => changed.push(entry.id),
                    }
                }
                (all, changed)
            })?;
            let changed = pending.durable().await?;
            runs.into_iter().filter(|entry| !changed.contains(&entry.id)).for_each(|entry| self.begin_run(entry));
        }
        Ok(self.ledger.look(|world| world.crons.values().filter_map(|entry| next_look(entry, now_ms)).min()))
    }

    fn begin_run(&self, entry: CronEntry) {
        let Some(tree) = self.me.upgrade() else { return };
        tokio::spawn(async move {
            let (exit_code, output) = match tree.act(&entry).await {
                Ok(done) => done,
                Err(stop) => (NOT_RUN, stop.to_string()),
            };
            let output: String = output.chars().take(OUTPUT_MAX / 4).collect();
            let ended = CronEnded { pid: entry.spec.target, task: None, cron: entry.id, exit_code, output };
            let recorded = async {
                let pending = tree.ledger.commit(|world, _| {
                    let is_running = world.crons.get(&entry.id).is_some_and(|entry| entry.running > 0);
                    (if is_running { vec![ended.into()] } else { Vec::new() }, ())
                })?;
                pending.durable().await
            };
            if let Err(fault) = recorded.await {
                world::log!("skep: the end of a run of {} is not recorded: {fault}", entry.id);
            }
            tree.mail.cron.notify_one();
        });
    }

    /// What an entry does, with its owner's rights.
    async fn act(&self, entry: &CronEntry) -> Result<(i32, String), Stop> {
        let CronEntry { id, owner, spec, .. } = entry;
        let (owner, target) = (*owner, spec.target);
        let is_owned = self.ledger.look(|world| world.processes.get(&owner).is_some_and(|process| process.state.alive()));
        if !is_owned {
            return Err(Refusal::new(Code::WrongState, format!("process {owner}, which added {id}, has ended")).into());
        }
        match spec.action {
            CronAction::Execute => {
                let order = TaskOrder {
                    is_first: false,
                    description: spec.description.clone(),
                    params: spec.params.clone(),
                    label: id.to_string(),
                    ..TaskOrder::default()
                };
                let result = self.execute(owner, target, order, false).await?;
                Ok((result.exit_code, result.output))
            }
            CronAction::Message => {
                let body = json!({ "description": spec.description, "params": spec.params }).to_string().into_bytes();
                let pending = self.ledger.commit(|world, now_ms| match notice(world, target, "cron_task", body, now_ms) {
                    Some((sent, arrival)) => (vec![sent.into()], Some(arrival)),
                    None => (Vec::new(), None),
                })?;
                let Some(arrival) = pending.durable().await? else { return Err(gone(target).into()) };
                self.announce(&[arrival]);
                Ok((0, String::new()))
            }
            CronAction::Spawn => {
                let program = spec.program.as_deref().ok_or_else(|| Refusal::new(Code::BadInput, "it does not say what to spawn"))?;
                let pid = self.spawn(owner, spawn_order(spec, program)).await?;
                Ok((0, format!("process {pid}")))
            }
            CronAction::Wake => self.wake_by_cron(target, *id).await,
        }
    }

    /// Wakes one that sleeps between its runs, and starts its program where that has ended.
    async fn wake_by_cron(&self, target: Pid, cron: CronId) -> Result<(i32, String), Stop> {
        let (state, is_virtual) = self.ledger.look(|world| {
            let process = world.processes.get(&target);
            let program = process.and_then(|process| process.program.as_deref());
            (process.map(|process| process.state), program.is_none_or(|program| !program.runtime.has_program()))
        });
        match state {
            Some(ProcessState::Sleeping) if is_virtual => {
                self.ledger.record(ProcWoken { pid: target, task: None, reason: cron.to_string() }).await?;
            }
            Some(ProcessState::Sleeping) => {
                let tree = self.me.upgrade().ok_or_else(|| Refusal::new(Code::WrongState, "the kernel stops"))?;
                tree.wake(target, &cron.to_string()).await?;
            }
            Some(state) if state.alive() => return Ok((0, "it was awake".to_owned())),
            _ => return Err(gone(target).into()),
        }
        Ok((0, "woken".to_owned()))
    }
}

/// The records by which an entry runs that is due, or is passed over.
fn plan(entry: &CronEntry, times: &CronTimes, now_ms: i64) -> Vec<CronFired> {
    let due = entry.next_ms.filter(|due| entry.spec.enabled && *due + jitter_ms(entry, *due) <= now_ms);
    let Some(due_ms) = due else { return Vec::new() };
    let next_ms = times.next_after(now_ms.max(due_ms));
    let fired = |due_ms, skipped| CronFired { pid: entry.spec.target, task: None, cron: entry.id, due_ms, next_ms, skipped };
    let is_missed = now_ms - due_ms - jitter_ms(entry, due_ms) > MISSED_AFTER_MS;
    let is_busy = entry.running > 0 && entry.spec.overlap != OverlapRule::Allow;
    match entry.spec.missed {
        _ if is_busy && entry.spec.overlap == OverlapRule::Queue => Vec::new(),
        _ if is_busy => vec![fired(due_ms, true)],
        MissedRule::Skip if is_missed => vec![fired(due_ms, true)],
        MissedRule::All if is_missed => {
            let missed = std::iter::successors(Some(due_ms), |last| times.next_after(*last)).take_while(|due| *due <= now_ms);
            let missed: Vec<i64> = missed.take(MISSED_SEEN_MAX).collect();
            // Whoever missed so many catches up with one.
            if missed.len() == MISSED_SEEN_MAX {
                return vec![fired(due_ms, false)];
            }
            let latest = &missed[missed.len().saturating_sub(MADE_UP_MAX)..];
            // One after another, unless they may overlap.
            let now = if entry.spec.overlap == OverlapRule::Allow { latest } else { &latest[..1] };
            let next_ms = now.last().and_then(|last| times.next_after(*last));
            now.iter().map(|due_ms| CronFired { next_ms, ..fired(*due_ms, false) }).collect()
        }
        _ => vec![fired(due_ms, false)],
    }
}

/// The record by which an entry is due earlier, because the clock was set back since its time was worked out.
fn set_back(entry: &CronEntry, times: &CronTimes, now_ms: i64) -> Option<Event> {
    let stored = entry.next_ms.filter(|_| entry.spec.enabled)?;
    let ran_at = entry.last.as_ref().map_or(i64::MIN, |last| last.due_ms);
    let next_ms = times.next_after(now_ms).filter(|fresh| *fresh < stored && *fresh > ran_at)?;
    Some(CronAdded { pid: entry.owner, task: None, cron: entry.id, spec: Box::new(entry.spec.clone()), next_ms: Some(next_ms) }.into())
}

/// When the clock looks at an entry again. One that waits for the end of its run is looked at then.
fn next_look(entry: &CronEntry, now_ms: i64) -> Option<i64> {
    let due_ms = entry.next_ms.filter(|_| entry.spec.enabled)?;
    let waits = entry.running > 0 && entry.spec.overlap == OverlapRule::Queue && due_ms <= now_ms;
    if waits { None } else { Some(due_ms + jitter_ms(entry, due_ms)) }
}

/// So much later an entry runs than it is due: the same for one time, however often it is worked out.
fn jitter_ms(entry: &CronEntry, due_ms: i64) -> i64 {
    if entry.spec.jitter_ms == 0 {
        return 0;
    }
    // A few rounds of a multiplicative hash: spread, not secret.
    let mut mixed = entry.id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ due_ms.cast_unsigned();
    mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    i64::try_from((mixed ^ (mixed >> 31)) % entry.spec.jitter_ms.saturating_add(1)).unwrap_or(0)
}

fn spawn_order(spec: &CronSpec, program: &Program) -> SpawnOrder {
    SpawnOrder {
        parent: Some(spec.target),
        name: spec.name.clone(),
        role: program.role,
        tier: program.tier,
        model: program.model.clone(),
        system_prompt: program.system_prompt.clone(),
        tools: program.tools.clone(),
        env: std::collections::BTreeMap::new(),
        metadata: program.metadata.clone(),
        limits: program.limits,
        budget: program.budget.clone(),
        runtime: program.runtime,
        image: program.image.clone(),
        initial_task: match program.runtime {
            // Nothing runs that could do it.
            ProgramRuntime::Virtual => None,
            _ => program.initial_task.clone().or_else(|| Some(spec.description.clone()).filter(|text| !text.is_empty())),
        },
        schedule: None,
        user: None,
        confined: program.confined,
    }
}

fn check(spec: &CronSpec) -> Result<(), Refusal> {
    let params: usize = spec.params.iter().map(|(name, value)| name.len() + value.len()).sum();
    let len = spec.name.len() + spec.description.len() + params;
    if len > limits::CRON_BYTES_MAX {
        return Err(Refusal::new(Code::TooLarge, format!("the entry has {len} bytes, and may have {}", limits::CRON_BYTES_MAX)));
    }
    if spec.action == CronAction::Spawn && spec.program.is_none() {
        return Err(
            Refusal::new(Code::BadInput, "it does not say what to spawn").hint("use `execute` or `message`, or add it with a program")
        );
    }
    if spec.jitter_ms > limits::CRON_JITTER_MS_MAX {
        return Err(Refusal::new(Code::BadInput, format!("a jitter is at most {} ms", limits::CRON_JITTER_MS_MAX)));
    }
    Ok(())
}

fn missing(cron: CronId) -> Refusal {
    Refusal::new(Code::NotFound, format!("there is no {cron}"))
}

fn gone(pid: Pid) -> Refusal {
    Refusal::new(Code::WrongState, format!("process {pid} has ended, or its mailbox is full"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use world::{CronRun, ProcessRole, Tier};

    const MINUTE: i64 = 60_000;

    fn entry(overlap: OverlapRule, missed: MissedRule) -> CronEntry {
        let spec = CronSpec {
            name: "n".into(),
            expression: "* * * * *".into(),
            timezone: "UTC".into(),
            action: CronAction::Message,
            target: Pid(3),
            description: String::new(),
            params: std::collections::BTreeMap::new(),
            program: Some(Box::new(Program::new(ProcessRole::Task, Tier::Operational))),
            enabled: true,
            overlap,
            missed,
            jitter_ms: 0,
        };
        CronEntry { id: CronId(1), owner: Pid(2), spec, added_ms: 0, next_ms: Some(10 * MINUTE), last: None, running: 0 }
    }

    fn planned(entry: &CronEntry, now_ms: i64) -> Vec<(i64, Option<i64>, bool)> {
        let times = CronTimes::of(&entry.spec).unwrap();
        plan(entry, &times, now_ms)
            .iter()
            .map(|fired| (fired.due_ms / MINUTE, fired.next_ms.map(|next| next / MINUTE), fired.skipped))
            .collect()
    }

    #[test]
    fn an_entry_runs_when_it_is_due_and_not_before() {
        let entry = entry(OverlapRule::Skip, MissedRule::Skip);
        assert_eq!(planned(&entry, 10 * MINUTE - 1), []);
        assert_eq!(planned(&entry, 10 * MINUTE), [(10, Some(11), false)]);
        assert_eq!(planned(&entry, 10 * MINUTE + 59_999), [(10, Some(11), false)], "a little late is in time");
    }

    #[test]
    fn missed_runs_are_skipped_made_up_once_or_all_made_up() {
        let now_ms = 15 * MINUTE + 1;
        assert_eq!(planned(&entry(OverlapRule::Skip, MissedRule::Skip), now_ms), [(10, Some(16), true)]);
        assert_eq!(planned(&entry(OverlapRule::Skip, MissedRule::Once), now_ms), [(10, Some(16), false)]);
        assert_eq!(planned(&entry(OverlapRule::Skip, MissedRule::All), now_ms), [(10, Some(11), false)], "the next when this one is over");
        let all = planned(&entry(OverlapRule::Allow, MissedRule::All), now_ms);
        assert_eq!(all.iter().map(|(due, ..)| *due).collect::<Vec<_>>(), [10, 11, 12, 13, 14, 15]);
        assert!(all.iter().all(|(_, next, skipped)| *next == Some(16) && !skipped));
    }

    #[test]
    fn a_run_that_goes_on_is_skipped_waited_for_or_joined() {
        let busy = |overlap| CronEntry { running: 1, ..entry(overlap, MissedRule::Skip) };
        assert_eq!(planned(&busy(OverlapRule::Skip), 10 * MINUTE), [(10, Some(11), true)]);
        assert_eq!(planned(&busy(OverlapRule::Queue), 10 * MINUTE), []);
        assert_eq!(next_look(&busy(OverlapRule::Queue), 10 * MINUTE), None, "its end rings the bell");
        assert_eq!(planned(&busy(OverlapRule::Allow), 10 * MINUTE), [(10, Some(11), false)]);
    }

    #[test]
    fn jitter_is_bounded_and_the_same_for_the_same_time() {
        let mut one = entry(OverlapRule::Skip, MissedRule::Skip);
        one.spec.jitter_ms = 5_000;
        let all: Vec<i64> = (0..100).map(|at| jitter_ms(&one, at * MINUTE)).collect();
        assert!(all.iter().all(|jitter| (0..=5_000).contains(jitter)) && all.iter().any(|jitter| *jitter != all[0]));
        assert_eq!(jitter_ms(&one, MINUTE), jitter_ms(&one, MINUTE));
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_stop_an_entry() {
        let mut one = entry(OverlapRule::Skip, MissedRule::Skip);
        let times = CronTimes::of(&one.spec).unwrap();
        one.next_ms = Some(1_000 * MINUTE);
        let again = |one: &CronEntry| match set_back(one, &times, 20 * MINUTE) {
            Some(Event::CronAdded(added)) => added.next_ms,
            _ => None,
        };
        assert_eq!(again(&one), Some(21 * MINUTE));
        one.last = Some(CronRun { due_ms: 999 * MINUTE, ..CronRun::default() });
        assert_eq!(again(&one), None, "it ran for all that is before");
    }
}
