//! Tasks: the line after `act`, the list, one task in full.

mod added;
mod detail;
mod next_step;

use super::measure::{ago, clock_seconds, dollars, duration_ms, plural, repository};
use super::{Line, Node, Page, Tone, tree};
use jiff::tz::TimeZone;
use wire::limits::RETENTION_TOLD_MS;
use wire::method::task::{KeptView, TaskContinueResult, TaskStatus, TaskView};
use wire::{MergeState, Mode, ZoneId};

pub use added::{added, queued};
pub use detail::detail;
pub use next_step::next_step;

/// Columns of a prompt in a list.
const PROMPT_COLUMNS: usize = 60;

/// The sign of a task. A replay is a check and not work: it is the same or it is not, whatever its brain came to.
pub fn sign(task: &TaskView) -> Line {
    match task.differs {
        Some(false) => Line::new().good("✓ "),
        Some(true) => Line::new().wait("≠ "),
        None => mark(task.state),
    }
}

fn mark(state: TaskStatus) -> Line {
    let (tone, mark) = match state {
        TaskStatus::Queued => (Tone::Faint, "◌"),
        TaskStatus::Running => (Tone::Name, "●"),
        TaskStatus::Parked | TaskStatus::Stopped => (Tone::Wait, "◍"),
        TaskStatus::Done => (Tone::Good, "✓"),
        TaskStatus::Failed => (Tone::Bad, "✗"),
        TaskStatus::Cancelled => (Tone::Faint, "○"),
    };
    Line::new().add(tone, mark).plain(" ")
}

/// What `skep watch` follows: a worker or everything, and what of it is under way now.
pub fn watching(tasks: &[TaskView], who: Option<&str>, now_ms: i64) -> Page {
    let what = who.unwrap_or("every task in every repository");
    let mut page = Page(vec![Line::new(), Line::new().plain("lets watch... ").faint(format!("{what}; ctrl-c returns, the work goes on"))]);
    let is_watched = |task: &&TaskView| !task.state.ended() && who.is_none_or(|who| task.process == who);
    let rows: Vec<_> = tasks.iter().filter(is_watched).map(|task| entry(task, now_ms).cells).collect();
    if rows.is_empty() {
        page.push(Line::new().faint("  nothing is under way; the next task appears here"));
    }
    page.append(super::table(rows).0.into_iter().map(|line| Line::new().plain("  ").join(line)).collect());
    page.blank();
    page
}

/// Said of a brain that has no series.
pub const NO_SERIES: &str = "  it goes on with no conversation: each turn begins anew";

/// Where a task stands, in a few words.
pub fn stand(task: &TaskView) -> Line {
    match task.differs {
        Some(false) => return Line::new().good("same as recorded"),
        Some(true) => return Line::new().wait("differs from the record"),
        None => {}
    }
    match (task.state, task.merge) {
        (_, Some(MergeState::Applying)) => Line::new().name("merging"),
        (TaskStatus::Queued, _) => waiting(task),
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
        (TaskStatus::Done, Some(MergeState::Undoing | MergeState::Undone)) if task.undo_left > 0 => {
            Line::new().wait(format!("merge taken back but for {}", plural(task.undo_left, "file")))
        }
        (TaskStatus::Done, Some(MergeState::Undoing | MergeState::Undone)) => Line::new().faint("merge taken back"),
        (TaskStatus::Done, Some(MergeState::Rejected)) => Line::new().faint("changes rejected"),
        (TaskStatus::Done, None | Some(MergeState::Proposed)) => Line::new().good("done"),
        (TaskStatus::Stopped, _) => Line::new().wait("stopped"),
        (TaskStatus::Failed, _) => Line::new().bad("failed"),
        (TaskStatus::Cancelled, _) => Line::new().faint("cancelled"),
    }
}

/// What a queued task waits for.
fn waiting(task: &TaskView) -> Line {
    let line = match (task.paused_for, task.after.is_empty(), task.behind) {
        (Some(first), ..) => Line::new().wait("paused for ").name(first.to_string()),
        (None, false, _) => {
            let after: Vec<String> = task.after.iter().map(ToString::to_string).collect();
            Line::new().faint("waits until ").name(after.join(", ")).faint(if after.len() == 1 { " is done" } else { " are done" })
        }
        (None, true, Some(behind)) => Line::new().faint("queued behind ").name(behind.to_string()),
        (None, true, None) => Line::new().faint("queued"),
    };
    if task.priority > 0 && task.paused_for.is_none() { line.plain(" [priority]") } else { line }
}

/// What of its changes is kept, and how to look at them; `None` where nothing is.
pub fn kept(task: &TaskView) -> Option<String> {
    let kept = task.kept.as_ref().filter(|_| task.state.at_rest())?;
    Some(format!("{} kept{}: skep diff {}", plural(kept.files, "file"), not_kept(kept), task.task))
}

/// The same where `kept` stands before it.
pub fn kept_files(task: &TaskView) -> Option<String> {
    let kept = task.kept.as_ref().filter(|_| task.state.at_rest())?;
    Some(format!("{}{}: skep diff {}", plural(kept.files, "file"), not_kept(kept), task.task))
}

fn not_kept(kept: &KeptView) -> String {
    if kept.left > 0 { format!(", {} not kept", kept.left) } else { String::new() }
}

/// What `cancel` says.
pub fn stopped(task: &TaskView) -> Page {
    let kept = kept(task).unwrap_or_else(|| "it had changed nothing".to_owned());
    Page(vec![Line::new().good("✓ ").name(task.task.to_string()).plain(format!(" stopped; {kept}"))])
}

/// What `retry` and `say` say and leave.
pub fn continued(result: &TaskContinueResult) -> Page {
    let mut page = taken_up(result);
    page.because("next", &format!("skep watch {}", result.task.task));
    page
}

/// What they say where they wait for its end.
pub fn taken_up(result: &TaskContinueResult) -> Page {
    let task = &result.task;
    let what = if result.taken_up { " goes on" } else { " hears it at the end of its turn" };
    let mut page = Page(vec![Line::new().good("✓ ").name(task.task.to_string()).plain(what).plain(" → ").strong(&task.process)]);
    if let Some(calls) = result.calls {
        page.because("may", &format!("make {} from here on", plural(calls, "call")));
    }
    page
}

const DAY_MS: u64 = 24 * 3600 * 1000;

/// What a status says about kept work that goes soon.
pub fn going(tasks: &[TaskView], now_ms: i64) -> Page {
    let mut page = Page::new();
    for task in tasks {
        let Some(kept) = &task.kept else { continue };
        let left_ms = kept.until_ms.map(|until_ms| u64::try_from(until_ms.saturating_sub(now_ms)).unwrap_or(0));
        let Some(left_ms) = left_ms.filter(|left_ms| *left_ms <= RETENTION_TOLD_MS) else { continue };
        let when = match left_ms / DAY_MS {
            0 => "within a day".to_owned(),
            days => format!("in {}", plural(days, "day")),
        };
        let line = Line::new().wait("◍ ").plain(format!("{} kept of ", plural(kept.files, "file"))).name(task.task.to_string());
        page.push(line.plain(format!(" will be gone {when}")));
        page.because("keep", &format!("skep merge {0}, or skep diff {0} > {0}.patch", task.task));
    }
    page
}

/// How long ago it ended, or came.
fn when(task: &TaskView, now_ms: i64) -> String {
    ago(task.ended_ms.unwrap_or(task.queued_ms), now_ms)
}

/// When it came and ended, by the clock.
fn times(task: &TaskView, now_ms: i64, zone: &TimeZone) -> String {
    let took = |until_ms: i64| duration_ms(u64::try_from(until_ms.saturating_sub(task.queued_ms)).unwrap_or(0));
    let queued = clock_seconds(task.queued_ms, now_ms, zone);
    match task.ended_ms {
        Some(ended_ms) => format!("queued {queued}, ended {}, took {}", clock_seconds(ended_ms, now_ms, zone), took(ended_ms)),
        None => format!("queued {queued}, for {}", took(now_ms)),
    }
}

/// A prompt in a list: its first line, in quotes.
pub fn quoted(prompt: &str) -> Line {
    let (first, rest) = prompt.trim().split_once('\n').unwrap_or((prompt.trim(), ""));
    Line::new().plain("\"").plain(first).plain(if rest.is_empty() { "" } else { " …" }).cut(PROMPT_COLUMNS - 1).plain("\"")
}

/// What a task used of models, with what is only estimated or held apart; `None` where it asked none.
pub fn cost(task: &TaskView) -> Option<String> {
    let usage = task.usage.as_ref()?;
    let known = usage.figures.micros.saturating_sub(usage.guessed.micros);
    let money = match (usage.figures.unpriced, usage.figures.micros) {
        (1.., 0) => "unknown cost".to_owned(),
        (1.., _) => format!("{} + unknown", dollars(known)),
        (0, _) => dollars(known),
    };
    let apart = [(usage.guessed.micros, "estimated"), (usage.held.micros, "held")];
    let apart = apart.into_iter().filter(|(micros, _)| *micros > 0).map(|(micros, word)| format!("{} {word}", dollars(micros)));
    let tokens = plural(usage.figures.tokens(), "token");
    Some([money].into_iter().chain(apart).chain([tokens]).collect::<Vec<_>>().join(", "))
}

/// One entry of a list, as it hangs in any tree. What may be long comes last, so that an edge cuts nothing else.
pub fn entry(task: &TaskView, now_ms: i64) -> Node {
    let kind = match (task.replays, task.mode) {
        (Some(of), _) => format!("replay of {of} "),
        (None, Mode::Act) => String::new(),
        (None, mode) => format!("{} ", mode.as_str()),
    };
    let node = Node::new(sign(task).name(task.task.to_string()))
        .cell(stand(task))
        .cell(Line::new().faint(when(task, now_ms)))
        .cell(Line::new().faint(kind).join(quoted(&task.prompt)));
    match cost(task) {
        Some(cost) => node.under(Node::new(Line::new().faint("cost  ").plain(cost))),
        None => node,
    }
}

pub fn list(tasks: &[TaskView], now_ms: i64) -> Page {
    let mut page = Page::new();
    let mut zones: Vec<ZoneId> = tasks.iter().map(|task| task.zone).collect();
    zones.sort_unstable();
    zones.dedup();
    for zone in zones {
        let of_zone: Vec<&TaskView> = tasks.iter().filter(|task| task.zone == zone).collect();
        let branch = of_zone.first().map(|task| task.branch.as_str()).unwrap_or_default();
        let mut root = Node::new(Line::new().plain(repository(zone)).plain("  ").name(format!("@{branch}")));
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use wire::method::task::{KeptView, TaskUsageView};
    use wire::{Budget, Pid, ReviewId, Spend, TaskId, UsageTotals};

    pub(crate) fn task(id: u64, state: TaskStatus) -> TaskView {
        TaskView {
            task: TaskId(id),
            pid: Pid(3),
            process: "worker.1".into(),
            zone: ZoneId(1),
            branch: "main".into(),
            mode: Mode::Act,
            prompt: "implement auth".into(),
            brain: "script:/b".into(),
            state,
            review: (state == TaskStatus::Parked).then_some(ReviewId(3)),
            merge: None,
            undo_left: 0,
            summary: None,
            remedy: None,
            stopped_by: None,
            queued_ms: 0,
            ended_ms: state.ended().then_some(4_000),
            episodes: 1,
            calls: id * 3,
            waits: None,
            replays: None,
            differs: None,
            usage: None,
            budget: None,
            kept: None,
            behind: None,
            priority: 0,
            after: Vec::new(),
            paused_for: None,
            timeout_ms: None,
            skill: None,
            tool_lists: Vec::new(),
            artifacts: Default::default(),
            artifact_errors: Default::default(),
            outputs: Vec::new(),
            session: false,
        }
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
        (tasks[4].mode, tasks[4].prompt) = (Mode::Ask, "implement auth\nand more".into());
        tasks[5].replays = Some(TaskId(1));
        let expected = "\
repository 1  @main
├─ ✓ task-1  done                    1s ago  \"implement auth\"
├─ ◍ task-2  changes wait for merge  5s ago  \"a\\u{202e}b a\\u{202e}b a\\u{202e}b a\\u{202e}b a\\u{202e}b a\\…\"
├─ ◍ task-3  waits for r-3           5s ago  \"implement auth\"
├─ ● task-4  running                 5s ago  \"implement auth\"
├─ ◌ task-5  queued                  5s ago  ask \"implement auth …\"
└─ ✗ task-6  failed                  1s ago  replay of task-1 \"implement auth\"
";
        assert_eq!(list(&tasks, 5_000).render(false, None), expected);
        assert_eq!(list(&[], 0).render(false, None), "no tasks yet\n  ↳ try  skep act \"…\"\n");
    }

    #[test]
    fn what_a_task_cost_is_told_with_estimates_apart() {
        let mut task = task(1, TaskStatus::Done);
        assert_eq!(cost(&task), None);
        let figures = UsageTotals { requests: 3, input: 1_000, output: 234, micros: 12_300, estimated: 1, ..UsageTotals::default() };
        let spend = |micros| Spend { micros, ..Spend::default() };
        task.usage = Some(TaskUsageView { figures, guessed: spend(2_300), held: spend(60_000) });
        task.budget = Some(Budget { micros: Some(2_000_000), ..Budget::default() });
        let told = "$0.01, $0.0023 estimated, $0.06 held, 1,234 tokens";
        assert_eq!(cost(&task).as_deref(), Some(told));
        let detail = |columns| detail(&task, 5_000, &TimeZone::UTC, columns).render(false, columns);
        assert!(detail(Some(80)).contains(&format!("├─ cost        {told} of $2.00\n")), "{}", detail(Some(80)));
        assert!(list(&[task.clone()], 5_000).render(false, Some(80)).contains(&format!("   └─ cost  {told}\n")));
        let unpriced = UsageTotals { requests: 1, input: 5, unpriced: 1, ..UsageTotals::default() };
        task.usage = Some(TaskUsageView { figures: unpriced, guessed: spend(0), held: spend(0) });
        assert_eq!(cost(&task).as_deref(), Some("unknown cost, 5 tokens"));
    }

    #[test]
    fn kept_work_is_told_with_what_can_be_done_about_it() {
        let mut kept = task(18, TaskStatus::Cancelled);
        kept.kept = Some(KeptView { files: 1, bytes: 2_048, left: 0, since_ms: 0, until_ms: Some(10 * 86_400_000) });
        assert_eq!(stopped(&kept).render(false, None), "✓ task-18 stopped; 1 file kept: skep diff task-18\n");
        assert_eq!(stopped(&task(18, TaskStatus::Cancelled)).render(false, None), "✓ task-18 stopped; it had changed nothing\n");
        let result = TaskContinueResult { task: kept.clone(), calls: Some(50), taken_up: true };
        let expected = "✓ task-18 goes on → worker.1\n  ↳ may  make 50 calls from here on\n  ↳ next skep watch task-18\n";
        assert_eq!(continued(&result).render(false, None), expected);
        let works = TaskContinueResult { taken_up: false, calls: None, ..result };
        assert!(continued(&works).render(false, None).starts_with("✓ task-18 hears it at the end of its turn → worker.1\n"));
        // Told from three days before, and never of what has no end.
        let at = |day: i64| going(std::slice::from_ref(&kept), day * 86_400_000).render(false, None);
        assert_eq!(at(6), "");
        let told = "◍ 1 file kept of task-18 will be gone in 3 days\n  ↳ keep skep merge task-18, or skep diff task-18 > task-18.patch\n";
        assert_eq!(at(7), told);
        assert!(at(10).starts_with("◍ 1 file kept of task-18 will be gone within a day\n"));
        assert!(told.lines().all(|line| line.chars().count() <= 80));
        kept.kept = Some(KeptView { until_ms: None, ..kept.kept.unwrap() });
        assert_eq!(going(&[kept], 99 * 86_400_000).render(false, None), "");
    }

    #[test]
    fn watching_says_what_is_followed() {
        let tasks = [task(1, TaskStatus::Done), task(2, TaskStatus::Running), task(3, TaskStatus::Parked)];
        let expected = "
lets watch... every task in every repository; ctrl-c returns, the work goes on
  ● task-2  running        5s ago  \"implement auth\"
  ◍ task-3  waits for r-3  5s ago  \"implement auth\"

";
        assert_eq!(watching(&tasks, None, 5_000).render(false, Some(80)), expected);
        assert!(watching(&tasks[..1], None, 5_000).render(false, Some(80)).contains("nothing is under way"));
    }

    /// At both sizes of a screen only the end of a prompt is out of sight.
    #[test]
    fn a_list_fits_the_screen() {
        let mut tasks = [task(9_998, TaskStatus::Parked), task(9_999, TaskStatus::Done)];
        (tasks[0].merge, tasks[0].prompt) =
            (Some(MergeState::Proposed), "rewrite the parser so that it keeps comments, and test it".into());
        let narrow = "\
repository 1  @main
├─ ◍ task-9998  changes wait for merge  23h ago  \"rewrite the parser so that it…
└─ ✓ task-9999  done                    23h ago  \"implement auth\"
";
        assert_eq!(list(&tasks, 84_000_000).render(false, Some(80)), narrow);
        let wide = list(&tasks, 84_000_000).render(false, Some(120));
        assert!(wide.contains("23h ago  \"rewrite the parser so that it keeps comments, and test it\"\n"), "{wide}");
    }

    #[test]
    fn a_task_in_full() {
        let mut task = task(1, TaskStatus::Done);
        task.summary = Some("created src/\nand tested it".into());
        task.prompt = "implement auth for the whole of the service, with sessions that end after an hour\nand tests".into();
        (task.episodes, task.merge) = (2, Some(MergeState::Applied));
        let expected = "\
task task-1
├─ status      ✓ merged
├─ prompt      \"implement auth for the whole of the service, with sessions that
│                end after an hour
│              and tests\"
├─ summary     created src/
│              and tested it
├─ next        skep merge undo task-1 takes it back
├─ time        queued 00:00:00, ended 00:00:04, took 4.0 s
├─ calls       3 calls, resumed 1 time
├─ mode        act
├─ brain       script:/b
├─ worker      worker.1 (pid 3)
└─ repository  1  @main
";
        let at = |columns| detail(&task, 5_000, &TimeZone::UTC, columns).render(false, columns);
        assert_eq!(at(Some(80)), expected);
        assert!(
            at(Some(120)).contains("├─ prompt      \"implement auth for the whole of the service, with sessions that end after an hour\n")
        );
        assert_eq!(at(None), at(Some(120)));
    }
}
