//! What a client is told at the beginning of a turn, beside its task: what others changed, and how far it had come.

use super::LiveClients;
use crate::Brains;
use brain::agent::{KeptState, TurnNotes, state_in};
use journal::Filter;
use ledger::event_of;
use room::OpenWorkspace;
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use workflow::discipline::workflow_prompt;
use workspace::{aside, base, news};
use world::event::{BrainSaid, CallAdmitted, CallFinished};
use world::{CallId, Event, Fault, Hands, Stop, Task};

/// Paths that a turn names.
const NAMED_MAX: usize = 200;
/// Records that are read back for what a turn had done.
const RECORDS_MAX: u64 = 2_000;

/// The state of a workspace's files now, and the time by the clock that stamps them.
pub(super) fn files(opened: &OpenWorkspace) -> KeptState {
    aside(|| {
        let upper = opened.work.join("upper");
        let base = news::state_of(&opened.project, None);
        let state = news::state_of(&opened.project, Some(&upper));
        KeptState { over_us: Some(base::earliest_us()), base: Some(base), state: Some(state) }
    })
}

impl LiveClients {
    /// What the client of a task is told at the beginning of a turn.
    pub(super) async fn turn_notes(&self, brains: &Brains, task: &Task, opened: &OpenWorkspace) -> Result<TurnNotes, Stop> {
        let now = self.ledger.task(task.id)?;
        // A turn that the kernel prompts ends in it; in one that a person prompts it is added.
        let is_said = |prompt: &String| now.further.last().is_some_and(|last| last.prompt.ends_with(prompt.as_str()));
        let workflow = now.workflow.as_deref().map(workflow_prompt).filter(|prompt| !is_said(prompt));
        self.notes_of_files(brains, task, opened).await.map(|notes| TurnNotes { workflow, ..notes })
    }

    async fn notes_of_files(&self, brains: &Brains, task: &Task, opened: &OpenWorkspace) -> Result<TurnNotes, Stop> {
        let own = task.memory.last().cloned();
        // What its own turn kept, its brain reads and tells of itself.
        if let (None, Err(lost)) = (&own, brains.last_series(task)?) {
            return Ok(TurnNotes { lost: Some(lost), ..TurnNotes::default() });
        }
        let Some(blob) = own.clone().or_else(|| brains.last_memory(task)) else { return Ok(TurnNotes::default()) };
        let Some(kept) = self.ledger.blob_if_kept(&blob)?.and_then(|bytes| state_in(&bytes)) else { return Ok(TurnNotes::default()) };
        if let Some(since_us) = kept.over_us {
            return self.changed_since(task, opened, since_us).await;
        }
        if own.is_none() {
            return Ok(TurnNotes::default());
        }
        let now = files(opened);
        let differs = |then: &Option<String>, now: &Option<String>| then.is_some() && then != now;
        let is_altered = if kept.state.is_some() { differs(&kept.state, &now.state) } else { differs(&kept.base, &now.base) };
        let (calls, last_output) = self.turn_so_far(task)?;
        Ok(TurnNotes { calls, last_output, is_altered, ..TurnNotes::default() })
    }

    /// What others changed in the project, as far as the task may know of it.
    async fn changed_since(&self, task: &Task, opened: &OpenWorkspace, since_us: i64) -> Result<TurnNotes, Stop> {
        let found = aside(|| news::changed_since(&opened.project, since_us));
        let upper = opened.work.join("upper");
        let merged = self.merged_until(task);
        let is_own = |path: &str| {
            let is_behind = upper.join(path).symlink_metadata().is_ok_and(|metadata| !metadata.is_dir());
            is_behind || merged.get(path).is_some_and(|until_us| stamp(&opened.project.join(path)).is_none_or(|at| at <= *until_us))
        };
        // A folder that lost something may have lost it by a merge.
        let is_told = |path: &&String| {
            opened.sight.hides(path.trim_end_matches('/')).is_none() && !is_own(path) && !merged.contains_key(path.as_str())
        };
        let mut paths: Vec<String> = aside(|| found.paths.iter().filter(is_told).cloned().collect());
        let and_more = found.is_cut || paths.len() > NAMED_MAX;
        paths.truncate(NAMED_MAX);
        if !paths.is_empty() {
            let ignored = ignored(opened, &paths.iter().map(String::as_str).collect::<Vec<_>>()).await;
            paths.retain(|path| !ignored.contains(path));
        }
        Ok(TurnNotes { changed: paths, and_more, ..TurnNotes::default() })
    }

    /// Paths that the worker's own tasks put into the project, and until when that took.
    fn merged_until(&self, task: &Task) -> HashMap<String, i64> {
        let ended = self.ledger.look(|world| {
            let own = world.tasks.values().filter(|other| other.pid == task.pid && other.merge.is_some());
            own.map(|other| (other.id, other.ended_ms.unwrap_or(world.now_ms))).collect::<Vec<_>>()
        });
        let mut merged = HashMap::new();
        for (id, ended_ms) in ended {
            for path in self.ledger.merged(id).unwrap_or_default().into_iter().filter(|path| path.refused.is_none()) {
                let until_us = ended_ms.saturating_add(1).saturating_mul(1_000);
                for folder in Path::new(&path.path).ancestors().skip(1).filter_map(Path::to_str).filter(|folder| !folder.is_empty()) {
                    merged.insert(format!("{folder}/"), until_us);
                }
                for name in [Some(path.path), path.from].into_iter().flatten() {
                    let until = merged.entry(name).or_insert(until_us);
                    *until = (*until).max(until_us);
                }
            }
        }
        merged
    }

    /// The tools that the interrupted turn of a task used to their end, and the last that it said.
    fn turn_so_far(&self, task: &Task) -> Result<(Vec<String>, String), Fault> {
        let kinds = ["call.admitted", "call.finished", "brain.said"].map(str::to_owned).to_vec();
        let (id, pid) = (Some(task.id.to_string()), Some(task.pid.0));
        let filter = Filter { task: id, pid, kinds, reverse: true, limit: Some(RECORDS_MAX), ..Filter::default() };
        let (mut finished, mut calls, mut said): (HashMap<CallId, bool>, Vec<String>, Option<String>) = Default::default();
        for record in self.ledger.read(&filter)? {
            match event_of(&record)? {
                Event::BrainSaid(BrainSaid { text, .. }) => drop(said.get_or_insert(text)),
                Event::CallFinished(CallFinished { call, ok, .. }) => drop(finished.insert(call, ok)),
                Event::CallAdmitted(CallAdmitted { call, tool, paths, hands: Hands::Caller, .. }) if finished.get(&call) == Some(&true) => {
                    calls.push(if paths.is_empty() { tool } else { format!("{tool} {}", paths.join(" ")) });
                }
                _ => {}
            }
        }
        calls.reverse();
        Ok((calls, said.unwrap_or_default()))
    }
}

/// Which of these paths git ignores; none where it cannot say.
pub(super) async fn ignored(opened: &OpenWorkspace, paths: &[&str]) -> HashSet<String> {
    let stdin = paths.iter().flat_map(|path| path.bytes().chain([0])).collect();
    match workspace::git(&opened.room, &["check-ignore", "-z", "--stdin"], Some(stdin)).await {
        Ok(listed) => String::from_utf8_lossy(&listed).split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect(),
        Err(_) => HashSet::new(),
    }
}

/// When a file was last changed.
fn stamp(path: &Path) -> Option<i64> {
    let metadata = path.symlink_metadata().ok()?;
    Some(metadata.ctime().saturating_mul(1_000_000).saturating_add(metadata.ctime_nsec() / 1_000))
}
