//! Tasks: the line after `act`, the list, one task in full.

use super::measure::{ago, duration_ms, plural};
use super::{Line, Node, Page, Tone, tree};
use crate::remedy;
use wire::MergeState;
use wire::ZoneId;
use wire::method::task::{TaskAddResult, TaskStatus, TaskView};

/// Columns of a prompt in a list.
const PROMPT_COLUMNS: usize = 44;

pub fn mark(state: TaskStatus) -> Line {
    let (tone, mark) = match state {
        TaskStatus::Queued => (Tone::Faint, "◌"),
        TaskStatus::Running => (Tone::Name, "●"),
        TaskStatus::Parked => (Tone::Wait, "◍"),
        TaskStatus::Done => (Tone::Good, "✓"),
        TaskStatus::Failed => (Tone::Bad, "✗"),
        TaskStatus::Cancelled => (Tone::Faint, "✗"),
    };
    Line::new().add(tone, mark).plain(" ")
}

/// What `act` and `ask` say at once.
pub fn added(added: &TaskAddResult) -> Page {
    let mut page = Page::new();
    page.blank();
    if added.initialised {
        page.push(Line::new().good("✓ ").plain("init ").name(format!("@{}", added.branch)).plain(" → ").strong(&added.process));
    }
    let line = Line::new().good("✓ ").name(added.task.to_string()).plain(" → ").strong(&added.process);
    page.push(line.plain(" (").name(format!("@{}", added.branch)).plain(")"));
    page
}

/// The same for whoever does not wait for its end, with the next step.
pub fn queued(new: &TaskAddResult) -> Page {
    let mut page = added(new);
    page.because("next", &format!("skep watch {}", new.task));
    page
}

/// Where a task stands, in a few words.
pub fn stand(task: &TaskView) -> Line {
    match (task.state, task.merge) {
        (_, Some(MergeState::Applying)) => Line::new().name("merging"),
        (TaskStatus::Queued, _) => Line::new().faint("queued"),
        (TaskStatus::Running, _) => match &task.waits {
            Some(wait) => Line::new().wait(format!("waits for {}", wait.what)),
            None if task.episodes > 1 => Line::new().name("resumed"),
            None => Line::new().name("running"),
        },
        (TaskStatus::Parked, Some(MergeState::Proposed)) => Line::new().wait("changes wait for merge"),
        (TaskStatus::Parked, _) => match task.review {
            Some(review) => Line::new().wait("waits for ").name(review.to_string()),
            None => Line::new().wait("waits for a review"),
        },
        (TaskStatus::Done, Some(MergeState::Applied)) => Line::new().good("merged"),
        (TaskStatus::Done, Some(MergeState::Undoing | MergeState::Undone)) => Line::new().faint("merge taken back"),
        (TaskStatus::Done, Some(MergeState::Rejected)) => Line::new().faint("changes rejected"),
        (TaskStatus::Done, None | Some(MergeState::Proposed)) => Line::new().good("done"),
        (TaskStatus::Failed, _) => Line::new().bad("failed"),
        (TaskStatus::Cancelled, _) => Line::new().faint("cancelled"),
    }
}

/// How long it took, or how long ago it came.
fn when(task: &TaskView, now_ms: i64) -> String {
    match task.ended_ms {
        Some(ended_ms) => {
            format!("{}, took {}", ago(ended_ms, now_ms), duration_ms(u64::try_from(ended_ms.saturating_sub(task.queued_ms)).unwrap_or(0)))
        }
        None => ago(task.queued_ms, now_ms),
    }
}

pub fn quoted(prompt: &str) -> Line {
    Line::new().plain("\"").plain(prompt).cut(PROMPT_COLUMNS - 1).plain("\"")
}

/// One entry of a list, as it hangs in any tree.
pub fn entry(task: &TaskView, now_ms: i64) -> Node {
    Node::new(mark(task.state).name(task.task.to_string()))
        .cell(quoted(&task.prompt))
        .cell(Line::new().faint(task.replays.map_or_else(|| task.mode.as_str().to_owned(), |of| format!("replay of {of}"))))
        .cell(stand(task))
        .cell(Line::new().faint(plural(task.calls, "call")))
        .cell(Line::new().faint(when(task, now_ms)))
}

pub fn list(tasks: &[TaskView], now_ms: i64) -> Page {
    let mut page = Page::new();
    let mut zones: Vec<ZoneId> = tasks.iter().map(|task| task.zone).collect();
    zones.sort_unstable();
    zones.dedup();
    for zone in zones {
        let of_zone: Vec<&TaskView> = tasks.iter().filter(|task| task.zone == zone).collect();
        let branch = of_zone.first().map(|task| task.branch.as_str()).unwrap_or_default();
        let mut root = Node::new(Line::new().plain("zone ").name(format!("@{branch}")).faint(format!(" ({zone})")));
        root.below = of_zone.iter().map(|task| entry(task, now_ms)).collect();
        if !page.is_empty() {
            page.blank();
        }
        page.append(tree(&root));
    }
    if page.is_empty() {
        page.push(Line::new().faint("no tasks yet"));
        page.because("try", "skep act \"…\"");
    }
    page
}

/// `skep status TASK`.
pub fn detail(task: &TaskView, now_ms: i64) -> Page {
    let fact = |name: &str, value: Line| Node::new(Line::new().faint(name)).cell(value);
    let mut root = Node::new(Line::new().plain("task ").name(task.task.to_string()))
        .under(fact("mode", Line::new().plain(task.mode.as_str())))
        .under(fact("prompt", Line::new().plain("\"").plain(&task.prompt).plain("\"")))
        .under(fact("process", Line::new().strong(&task.process).faint(format!(" (pid {})", task.pid))))
        .under(fact("zone", Line::new().name(format!("@{}", task.branch)).faint(format!(" ({})", task.zone))))
        .under(fact("brain", Line::new().plain(if task.brain.is_empty() { "—" } else { &task.brain })))
        .under(fact("status", mark(task.state).join(stand(task))))
        .under(fact("calls", Line::new().plain(plural(task.calls, "call")).faint(format!(", {}", plural(task.episodes.into(), "episode")))))
        .under(fact("time", Line::new().plain(when(task, now_ms))));
    if let Some(of) = task.replays {
        root = root.under(fact("replays", Line::new().name(of.to_string())));
    }
    if let Some(wait) = &task.waits {
        root = root.under(fact("next", Line::new().plain(remedy::next_step(&wait.remedy))));
    }
    if let Some(summary) = &task.summary {
        root = root.under(fact("summary", Line::new().plain(summary)));
    }
    tree(&root)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use wire::{Mode, Pid, ReviewId, TaskId};

    pub(crate) fn task(id: u64, state: TaskStatus) -> TaskView {
        TaskView {
            task: TaskId(id),
            pid: Pid(3),
            process: "foreman.1".into(),
            zone: ZoneId(1),
            branch: "main".into(),
            mode: Mode::Act,
            prompt: "implement auth".into(),
            brain: "script:/b".into(),
            state,
            review: (state == TaskStatus::Parked).then_some(ReviewId(3)),
            merge: None,
            summary: None,
            queued_ms: 0,
            ended_ms: state.ended().then_some(4_000),
            episodes: 1,
            calls: id * 3,
            waits: None,
            replays: None,
        }
    }

    #[test]
    fn act_prints_the_two_lines_of_the_contract() {
        let mut result = TaskAddResult { task: TaskId(1), process: "foreman.1".into(), branch: "feature-auth".into(), initialised: true };
        assert_eq!(added(&result).render(false, None), "\n✓ init @feature-auth → foreman.1\n✓ task-1 → foreman.1 (@feature-auth)\n");
        result.initialised = false;
        assert_eq!(
            added(&result).render(true, None),
            "\n\x1b[32m✓ \x1b[0m\x1b[36mtask-1\x1b[0m → \x1b[1mforeman.1\x1b[0m (\x1b[36m@feature-auth\x1b[0m)\n"
        );
    }

    #[test]
    fn a_list_shows_every_state() {
        let mut tasks: Vec<_> =
            [TaskStatus::Done, TaskStatus::Parked, TaskStatus::Parked, TaskStatus::Running, TaskStatus::Queued, TaskStatus::Failed]
                .into_iter()
                .zip(1..)
                .map(|(state, id)| task(id, state))
                .collect();
        tasks[1].merge = Some(MergeState::Proposed);
        tasks[1].prompt = "a\u{202e}b ".repeat(20);
        let expected = "\
zone @main (zone-1)
├─ ✓ task-1  \"implement auth\"                              act  done                    3 calls   1s ago, took 4.0 s
├─ ◍ task-2  \"a\\u{202e}b a\\u{202e}b a\\u{202e}b a\\u{202e…\"  act  changes wait for merge  6 calls   5s ago
├─ ◍ task-3  \"implement auth\"                              act  waits for r-3           9 calls   5s ago
├─ ● task-4  \"implement auth\"                              act  running                 12 calls  5s ago
├─ ◌ task-5  \"implement auth\"                              act  queued                  15 calls  5s ago
└─ ✗ task-6  \"implement auth\"                              act  failed                  18 calls  1s ago, took 4.0 s
";
        assert_eq!(list(&tasks, 5_000).render(false, None), expected);
        assert_eq!(list(&[], 0).render(false, None), "no tasks yet\n  ↳ try  skep act \"…\"\n");
    }

    #[test]
    fn a_task_in_full() {
        let mut task = task(1, TaskStatus::Done);
        task.summary = Some("created src/".into());
        let expected = "\
task task-1
├─ mode     act
├─ prompt   \"implement auth\"
├─ process  foreman.1 (pid 3)
├─ zone     @main (zone-1)
├─ brain    script:/b
├─ status   ✓ done
├─ calls    3 calls, 1 episode
├─ time     1s ago, took 4.0 s
└─ summary  created src/
";
        assert_eq!(detail(&task, 5_000).render(false, None), expected);
    }
}
