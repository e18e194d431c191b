//! What `skep top` shows, at one moment: every living process with what it works on and what that takes.
//!
//! All figures are the kernel's: memory and time of the processor are those of the jobs in the task's sandbox. What nobody knows is
//! left out and never zero.

use crate::command_error::CommandError;
use crate::record::ParsedRecord;
use crate::show::measure::now_ms;
use crate::show::process::word;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use wire::method::Nothing;
use wire::method::journal::RecordFilter;
use wire::method::process::ProcView;
use wire::method::review::{ReviewListParams, ReviewView};
use wire::method::sandbox::SandboxView;
use wire::method::task::{TaskListParams, TaskStatus, TaskView};
use wire::table::{JournalRead, KernelStatus, ProcList, ReviewList, SandboxList, TaskList};
use wire::{Event, KernelClient, Pid, TaskId};

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TopSnapshot {
    pub at_ms: i64,
    /// A parent before its children, so that the list is the tree.
    pub processes: Vec<TopRow>,
    pub queued: u64,
    /// Questions that wait for a person.
    pub reviews: Vec<ReviewView>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TopRow {
    pub pid: Pid,
    pub parent: Option<Pid>,
    /// How deep below the first process it stands.
    pub depth: usize,
    pub name: String,
    /// Its repository and branch, where there are workers of several.
    pub repository: Option<String>,
    pub role: String,
    pub state: &'static str,
    /// What it works on, or waits with.
    pub task: Option<TaskId>,
    pub prompt: Option<String>,
    pub branch: Option<String>,
    /// Of the task; `None` where it asked no model.
    pub tokens: Option<u64>,
    /// Millionths of a dollar; `None` where nobody knows.
    pub cost_micros: Option<u64>,
    /// Requests whose price nobody knows are part of it.
    pub cost_is_partial: bool,
    /// Tokens that the last request to a model carried.
    pub context_tokens: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub cpu_ms: Option<u64>,
    /// Of one core, since the last look.
    pub cpu_percent: Option<u64>,
    /// Its sandbox stands still.
    pub paused: bool,
}

impl TopRow {
    /// Its name, with its repository where it could be of another.
    pub fn full_name(&self) -> String {
        match &self.repository {
            Some(repository) => format!("{} {repository}", self.name),
            None => self.name.clone(),
        }
    }
}

/// How full the context of each task was at its last request, read again only when there was another request.
#[derive(Debug, Default)]
pub struct ContextSizes(HashMap<TaskId, (u64, Option<u64>)>);

impl ContextSizes {
    async fn refresh(&mut self, kernel: &mut KernelClient, tasks: &[TaskView]) -> Result<(), CommandError> {
        let open = |task: &&TaskView| !task.state.at_rest();
        for task in tasks.iter().filter(open) {
            let requests = task.usage.as_ref().map_or(0, |usage| usage.figures.requests);
            if requests == 0 || self.0.get(&task.task).is_some_and(|(seen, _)| *seen == requests) {
                continue;
            }
            let kinds = vec!["model.used".to_owned()];
            let last = RecordFilter { task: Some(task.task), kinds, limit: Some(1), reverse: true, ..RecordFilter::default() };
            let records = kernel.call::<JournalRead>(&last).await?.records;
            let size = records.first().and_then(|line| ParsedRecord::parse(line)).and_then(|record| match record.event {
                Some(Event::ModelUsed(used)) => Some(used.figures.tokens()),
                _ => None,
            });
            self.0.insert(task.task, (requests, size));
        }
        Ok(())
    }

    fn of(&self, task: TaskId) -> Option<u64> {
        self.0.get(&task).and_then(|(_, size)| *size)
    }
}

/// What the kernel was asked for one snapshot.
#[derive(Debug, Default)]
pub struct TopSources {
    pub processes: Vec<ProcView>,
    pub tasks: Vec<TaskView>,
    pub rooms: Vec<SandboxView>,
    pub reviews: Vec<ReviewView>,
    /// Of the kernel itself.
    pub kernel_bytes: u64,
}

impl TopSources {
    async fn ask(kernel: &mut KernelClient) -> Result<TopSources, CommandError> {
        Ok(TopSources {
            processes: kernel.call::<ProcList>(&Nothing {}).await?.processes,
            tasks: kernel.call::<TaskList>(&TaskListParams { path: None }).await?.tasks,
            rooms: kernel.call::<SandboxList>(&Nothing {}).await?.rooms,
            reviews: kernel.call::<ReviewList>(&ReviewListParams { all: false }).await?.reviews,
            kernel_bytes: kernel.call::<KernelStatus>(&Nothing {}).await?.rss_bytes,
        })
    }
}

pub async fn take(kernel: &mut KernelClient, sizes: &mut ContextSizes, before: &TopSnapshot) -> Result<TopSnapshot, CommandError> {
    let sources = TopSources::ask(kernel).await?;
    sizes.refresh(kernel, &sources.tasks).await?;
    Ok(arrange(sources, sizes, before, now_ms()))
}

/// Puts the answers together. Pure.
pub fn arrange(sources: TopSources, sizes: &ContextSizes, before: &TopSnapshot, at_ms: i64) -> TopSnapshot {
    let queued = sources.tasks.iter().filter(|task| task.state == TaskStatus::Queued).count() as u64;
    let living: Vec<&ProcView> = sources.processes.iter().filter(|process| process.state.alive()).collect();
    let is_root = |process: &&&ProcView| !living.iter().any(|other| Some(other.pid) == process.parent);
    let mut processes = Vec::new();
    for root in living.iter().filter(is_root) {
        branch(root, 0, &living, &mut processes);
    }
    let mut rows: Vec<TopRow> = processes.into_iter().map(|(process, depth)| row(process, depth, &sources, sizes, before, at_ms)).collect();
    shorten_places(&living, &mut rows);
    TopSnapshot { at_ms, processes: rows, queued, reviews: sources.reviews }
}

/// Leaves of each row's repository what tells it from the others: nothing where there is one, and its branch only where there are several.
fn shorten_places(living: &[&ProcView], rows: &mut [TopRow]) {
    let bare = |place: &str| place.split('@').next().unwrap_or(place).to_owned();
    let zones: HashSet<_> = living.iter().filter_map(|process| process.zone).collect();
    let names: HashSet<String> = living.iter().filter_map(|process| process.repository.as_deref()).map(bare).collect();
    for row in rows {
        row.repository = match row.repository.take() {
            Some(_) if zones.len() < 2 => None,
            Some(place) if names.len() == zones.len() => Some(bare(&place)),
            place => place,
        };
    }
}

/// A process and what hangs below it. No kernel makes a loop, and none is followed.
fn branch<'a>(process: &'a ProcView, depth: usize, living: &[&'a ProcView], found: &mut Vec<(&'a ProcView, usize)>) {
    if found.iter().any(|(known, _)| known.pid == process.pid) {
        return;
    }
    found.push((process, depth));
    for child in living.iter().filter(|child| child.parent == Some(process.pid)) {
        branch(child, depth + 1, living, found);
    }
}

fn row(process: &ProcView, depth: usize, sources: &TopSources, sizes: &ContextSizes, before: &TopSnapshot, at_ms: i64) -> TopRow {
    let task = process.task.and_then(|id| sources.tasks.iter().find(|task| task.task == id));
    let room = process.task.and_then(|id| sources.rooms.iter().find(|room| room.task == id));
    let paused = room.is_some_and(|room| room.paused);
    let state = match task.map(|task| task.state) {
        _ if paused => "paused",
        Some(TaskStatus::Parked) => "waits",
        _ => word(process.state),
    };
    let usage = task.and_then(|task| task.usage.as_ref()).map(|usage| usage.figures).filter(|figures| figures.requests > 0);
    let is_kernel = process.parent.is_none() && process.role == "kernel";
    let memory_bytes = match room {
        Some(room) => Some(room.jobs.iter().map(|job| job.memory_bytes).sum()),
        None => is_kernel.then_some(sources.kernel_bytes),
    };
    let cpu_ms = room.map(|room| room.jobs.iter().map(|job| job.cpu_ms).sum());
    TopRow {
        pid: process.pid,
        parent: process.parent,
        depth,
        name: process.name.clone(),
        repository: process.repository.clone(),
        role: process.role.clone(),
        state,
        task: process.task,
        prompt: task.map(|task| task.prompt.clone()),
        branch: task.map(|task| task.branch.clone()),
        tokens: usage.map(|figures| figures.tokens()),
        cost_micros: usage.filter(|figures| figures.unpriced < figures.requests).map(|figures| figures.micros),
        cost_is_partial: usage.is_some_and(|figures| figures.unpriced > 0),
        context_tokens: process.task.and_then(|task| sizes.of(task)),
        memory_bytes,
        cpu_ms,
        cpu_percent: room.and_then(|room| percent(room, process, before, at_ms)),
        paused,
    }
}

/// Time of the processor since the last snapshot; of jobs that were not there then, since they began.
fn percent(room: &SandboxView, process: &ProcView, before: &TopSnapshot, at_ms: i64) -> Option<u64> {
    let now_ms: u64 = room.jobs.iter().map(|job| job.cpu_ms).sum();
    let last = before.processes.iter().find(|row| row.pid == process.pid && row.task == process.task);
    let used = last.and_then(|row| row.cpu_ms).and_then(|last_ms| now_ms.checked_sub(last_ms));
    let passed = u64::try_from(at_ms.saturating_sub(before.at_ms)).ok().filter(|ms| *ms > 0);
    match (used, passed) {
        (Some(used), Some(passed)) => Some(used * 100 / passed),
        _ => {
            let age_ms = room.jobs.iter().map(|job| job.age_ms).max()?;
            (age_ms > 0).then(|| now_ms * 100 / age_ms)
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::show::process::tests::process;
    use crate::show::task::tests::task;
    use wire::method::sandbox::JobView;
    use wire::method::task::TaskUsageView;
    use wire::{ProcessState, Spend, UsageTotals};

    /// Two workers below the kernel: one runs a command, one waits for an answer.
    pub fn sources() -> TopSources {
        let mut kernel = process(1, None, "kernel", ProcessState::Running);
        kernel.role = "kernel".into();
        let mut operator = process(2, Some(1), "operator", ProcessState::Idle);
        operator.role = "operator".into();
        let (mut first, mut second) =
            (process(3, Some(1), "worker.1", ProcessState::Running), process(4, Some(1), "worker.2", ProcessState::Idle));
        (first.task, second.task) = (Some(TaskId(7)), Some(TaskId(8)));
        let mut running = task(7, TaskStatus::Running);
        let figures = UsageTotals { requests: 2, input: 12_000, output: 300, micros: 41_000, ..UsageTotals::default() };
        running.usage = Some(TaskUsageView { figures, guessed: Spend::default(), held: Spend::default() });
        let mut waits = task(8, TaskStatus::Parked);
        let figures = UsageTotals { requests: 1, input: 900, unpriced: 1, ..UsageTotals::default() };
        waits.usage = Some(TaskUsageView { figures, guessed: Spend::default(), held: Spend::default() });
        (waits.pid, waits.prompt) = (Pid(4), "explain the parser".into());
        let job =
            JobView { os_pid: 99, command: vec!["cargo".into()], age_ms: 10_000, memory_bytes: 120_000_000, cpu_ms: 5_000, processes: 2 };
        let room = SandboxView { task: TaskId(7), pid: Pid(3), project: "/p".into(), paused: false, jobs: vec![job] };
        TopSources {
            processes: vec![
                kernel,
                operator,
                first,
                process(6, Some(3), "helper.1", ProcessState::Paused),
                second,
                process(5, Some(1), "gone.1", ProcessState::Dead),
            ],
            tasks: vec![running, waits, task(9, TaskStatus::Queued)],
            rooms: vec![room],
            reviews: Vec::new(),
            kernel_bytes: 24_000_000,
        }
    }

    #[test]
    fn workers_of_several_repositories_are_told_apart() {
        let names = |places: [(u64, &str); 2]| {
            let mut sources = sources();
            for ((zone, place), at) in places.into_iter().zip([2, 4]) {
                let process = &mut sources.processes[at];
                (process.name, process.zone, process.repository) = ("worker.1".into(), Some(wire::ZoneId(zone)), Some(place.into()));
            }
            let rows = arrange(sources, &ContextSizes::default(), &TopSnapshot::default(), 1_000).processes;
            rows.iter().filter(|row| row.name == "worker.1").map(TopRow::full_name).collect::<Vec<_>>()
        };
        assert_eq!(names([(1, "app@main"), (1, "app@main")]), ["worker.1", "worker.1"], "the control: one repository");
        assert_eq!(names([(1, "app@main"), (2, "site@main")]), ["worker.1 app", "worker.1 site"]);
        assert_eq!(names([(1, "app@main"), (2, "app@feat")]), ["worker.1 app@main", "worker.1 app@feat"]);
    }

    #[test]
    fn a_snapshot_is_the_tree_with_what_each_takes() {
        let sizes = ContextSizes(HashMap::from([(TaskId(7), (2, Some(6_150)))]));
        let first = arrange(sources(), &sizes, &TopSnapshot::default(), 1_000);
        let names: Vec<_> = first.processes.iter().map(|row| (row.name.as_str(), row.depth, row.state)).collect();
        let expected = [
            ("kernel", 0, "running"),
            ("operator", 1, "idle"),
            ("worker.1", 1, "running"),
            ("helper.1", 2, "paused"),
            ("worker.2", 1, "waits"),
        ];
        assert_eq!(names, expected, "who is gone is not listed");
        assert_eq!((first.queued, first.processes[0].memory_bytes), (1, Some(24_000_000)));
        let worker = &first.processes[2];
        assert_eq!((worker.tokens, worker.cost_micros, worker.context_tokens), (Some(12_300), Some(41_000), Some(6_150)));
        assert_eq!((worker.memory_bytes, worker.cpu_percent), (Some(120_000_000), Some(50)), "since its job began");
        let unknown = &first.processes[4];
        assert_eq!((unknown.tokens, unknown.cost_micros, unknown.cost_is_partial), (Some(900), None, true), "unknown is not nothing");
        assert_eq!((unknown.memory_bytes, unknown.cpu_percent), (None, None), "it has no sandbox open");

        let mut later = sources();
        later.rooms[0].jobs[0].cpu_ms = 5_500;
        (later.rooms[0].paused, later.rooms[0].jobs[0].age_ms) = (true, 11_000);
        let second = arrange(later, &sizes, &first, 2_000);
        assert_eq!((second.processes[2].cpu_percent, second.processes[2].state), (Some(50), "paused"));
        // A command that ended took its time with it: the rest is counted from its own beginning.
        let mut ended = sources();
        (ended.rooms[0].jobs[0].cpu_ms, ended.rooms[0].jobs[0].age_ms) = (100, 1_000);
        assert_eq!(arrange(ended, &sizes, &second, 3_000).processes[2].cpu_percent, Some(10));
    }
}
