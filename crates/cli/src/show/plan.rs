//! A plan as a graph: one row a step, in layers, what may run side by side held together by a bracket.
//!
//! **Invariant.** A drawing of `rows` rows is never longer than that, however many steps there are: what is left out is counted where it
//! would stand, and what runs or failed is left out last.

mod fold;
mod layer;

use super::measure::{count, dollars, duration_ms, plural};
use super::{Line, Page, table_wrapped};
use fold::Fold;
use wire::method::plan::{PlanView, StepView};
use wire::{PlanFinding, StepStatus};

/// Columns of a step's name; a longer one is cut.
const STEP_COLUMNS: usize = 18;
const TOOL_COLUMNS: usize = 16;
/// Steps that are drawn where a person has not asked for all.
pub const ROWS_SHOWN: usize = 100;

/// How far a step is, as it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepPhase {
    /// Others come first.
    Waits,
    /// It begins when there is room.
    Ready,
    Running,
    /// It runs, and its sandbox is frozen.
    Frozen,
    /// A person must answer before it goes on.
    Asks,
    /// Its session came to its end while it ran.
    CutOff,
    Succeeded,
    Failed,
    Skipped,
}

impl StepPhase {
    fn mark(self) -> Line {
        match self {
            StepPhase::Waits => Line::new().faint("·"),
            StepPhase::Ready => Line::new().plain("◌"),
            StepPhase::Running => Line::new().name("●"),
            StepPhase::Frozen => Line::new().wait("◐"),
            StepPhase::Asks => Line::new().wait("◍"),
            StepPhase::CutOff => Line::new().wait("⊘"),
            StepPhase::Succeeded => Line::new().good("✓"),
            StepPhase::Failed => Line::new().bad("✗"),
            StepPhase::Skipped => Line::new().faint("○"),
        }
    }

    fn word(self) -> &'static str {
        match self {
            StepPhase::Waits => "to come",
            StepPhase::Ready => "ready",
            StepPhase::Running => "running",
            StepPhase::Frozen => "frozen",
            StepPhase::Asks => "asking",
            StepPhase::CutOff => "cut off",
            StepPhase::Succeeded => "done",
            StepPhase::Failed => "failed",
            StepPhase::Skipped => "skipped",
        }
    }
}

/// Whether anything of a plan goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanCourse {
    /// Nobody carries it out.
    Still,
    Going,
    /// Its steps wait for a person.
    Asking,
    /// Nothing of it runs any more.
    Over,
}

/// What a drawing needs to know beside the plan.
#[derive(Clone, Copy, Debug)]
pub struct DrawOptions {
    pub now_ms: i64,
    /// Rows that the steps may take; all of them without a number.
    pub rows: Option<usize>,
    pub course: PlanCourse,
}

impl DrawOptions {
    /// A plan that nobody carries out.
    pub fn still(rows: Option<usize>) -> DrawOptions {
        DrawOptions { now_ms: 0, rows, course: PlanCourse::Still }
    }
}

/// The phase of each step, in the plan's order.
pub fn phases(plan: &PlanView, course: PlanCourse) -> Vec<StepPhase> {
    let by_name: std::collections::BTreeMap<&str, Option<StepStatus>> =
        plan.steps.iter().map(|step| (step.step.as_str(), step.status)).collect();
    let is_over = |name: &String| by_name.get(name.as_str()).copied().flatten().is_some_and(StepStatus::ended);
    let phase = |step: &StepView| match step.status {
        Some(StepStatus::Running) if course == PlanCourse::Asking => StepPhase::Asks,
        Some(StepStatus::Running) if course == PlanCourse::Over => StepPhase::CutOff,
        Some(StepStatus::Running) if step.frozen_by.is_some() => StepPhase::Frozen,
        Some(StepStatus::Running) => StepPhase::Running,
        Some(StepStatus::Succeeded) => StepPhase::Succeeded,
        Some(StepStatus::Failed) => StepPhase::Failed,
        Some(StepStatus::Skipped) => StepPhase::Skipped,
        None if course != PlanCourse::Over && step.after.iter().all(is_over) => StepPhase::Ready,
        None => StepPhase::Waits,
    };
    plan.steps.iter().map(phase).collect()
}

/// The steps, layer by layer.
pub fn graph(plan: &PlanView, options: DrawOptions) -> Page {
    let phases = phases(plan, options.course);
    let is_run = options.course != PlanCourse::Still;
    let rows = layer::rows(plan);
    let shown = match options.rows {
        Some(max) => fold::fold(&rows.iter().map(|row| phases[row.step]).collect::<Vec<_>>(), max),
        None => (0..rows.len()).map(Fold::Row).collect(),
    };
    let names = plan.steps.iter().map(|step| Line::new().plain(&step.step).width()).max().unwrap_or(0).min(STEP_COLUMNS);
    let tools = plan.steps.iter().map(|step| Line::new().plain(&step.tool).width()).max().unwrap_or(0).min(TOOL_COLUMNS);
    let mut page = Page::new();
    let mut is_behind_gap = false;
    for fold in shown {
        match fold {
            Fold::Row(at) => {
                let row = &rows[at];
                let (step, phase) = (&plan.steps[row.step], phases[row.step]);
                let line = row
                    .rail(std::mem::take(&mut is_behind_gap))
                    .join(if is_run { phase.mark() } else { Line::new().plain("◌") })
                    .plain(" ");
                let line = line.join(name(step, phase).cut(names).pad(names)).plain("  ");
                let line = if is_run { line.faint(format!("{:>7}  ", took(step, options.now_ms))) } else { line };
                page.push(line.join(Line::new().faint(&step.tool).cut(TOOL_COLUMNS).pad(tools)).plain("  ").join(told(step)));
            }
            Fold::Left(left) => {
                is_behind_gap = true;
                let left: Vec<String> = left.iter().map(|(phase, n)| format!("{} {}", count(*n), said(*phase, is_run))).collect();
                page.push(Line::new().faint(format!("      ⋮ {}", left.join(", "))));
            }
        }
    }
    page
}

fn said(phase: StepPhase, is_run: bool) -> &'static str {
    if is_run { phase.word() } else { "more" }
}

fn name(step: &StepView, phase: StepPhase) -> Line {
    match phase {
        StepPhase::Waits | StepPhase::Skipped => Line::new().faint(&step.step),
        _ => Line::new().strong(&step.step),
    }
}

/// How long it has run, or ran.
fn took(step: &StepView, now_ms: i64) -> String {
    let Some(started_ms) = step.started_ms else { return String::new() };
    duration_ms(u64::try_from(step.ended_ms.unwrap_or(now_ms).saturating_sub(started_ms)).unwrap_or(0))
}

/// What may be long: its title, why it failed, what it comes after.
fn told(step: &StepView) -> Line {
    let tries = if step.attempts > 1 { format!("  try {} of {}", step.attempts, step.max_retries + 1) } else { String::new() };
    let line = Line::new().plain(&step.title).faint(tries);
    if let Some(by) = &step.frozen_by {
        return line.wait("  ").wait(frozen(by));
    }
    match &step.error {
        Some(error) if step.status == Some(StepStatus::Skipped) => line.faint(format!("  {}", error.message)),
        Some(error) => line.bad(format!("  {}: ", error.code)).plain(&error.message),
        None if step.would.is_some() => line.plain(format!("  would {}", step.would.as_deref().unwrap_or_default())),
        None if step.after.is_empty() => line,
        None => line.faint(format!("  ← {}", step.after.join(", "))),
    }
}

/// Why what a step runs stands still.
pub fn frozen(by: &str) -> String {
    match by {
        "kernel" => "frozen: a session of higher priority has its place".to_owned(),
        by => format!("frozen by {by}"),
    }
}

/// `3 of 12 done, 2 running, 1 ready, 1 failed`
pub fn tally(phases: &[StepPhase]) -> String {
    let of = |wanted: StepPhase| phases.iter().filter(|phase| **phase == wanted).count() as u64;
    let rest = [
        StepPhase::Running,
        StepPhase::Frozen,
        StepPhase::Asks,
        StepPhase::CutOff,
        StepPhase::Ready,
        StepPhase::Failed,
        StepPhase::Skipped,
    ];
    let rest = rest.into_iter().filter(|phase| of(*phase) > 0).map(|phase| format!("{} {}", count(of(phase)), phase.word()));
    let done = format!("{} of {} done", count(of(StepPhase::Succeeded)), count(phases.len() as u64));
    std::iter::once(done).chain(rest).collect::<Vec<_>>().join(", ")
}

/// A plan that nobody carries out yet: what it is for, and its graph.
pub fn shown(plan: &PlanView, rows: Option<usize>) -> Page {
    let mut page = Page::new();
    let layers = layer::count(plan);
    let size = format!("  {} in {}", plural(plan.steps.len() as u64, "step"), plural(layers as u64, "layer"));
    page.push(Line::new().strong(&plan.goal).faint(size));
    plan.assumptions.iter().for_each(|one| page.because("if", one));
    plan.artifacts.iter().for_each(|one| page.because("make", one));
    page.append(graph(plan, DrawOptions::still(rows)));
    page
}

/// What critics found, worst first.
pub fn findings(findings: &[PlanFinding], columns: Option<usize>) -> Page {
    let mut sorted: Vec<&PlanFinding> = findings.iter().collect();
    sorted.sort_by_key(|finding| !finding.blocks);
    let row = |finding: &&PlanFinding| {
        let mark = if finding.blocks { Line::new().bad("✗ ") } else { Line::new().wait("! ") };
        let at = if finding.at.is_empty() { "the plan" } else { &finding.at };
        vec![mark.plain(at), Line::new().faint(&finding.critic), Line::new().plain(&finding.message)]
    };
    table_wrapped(sorted.iter().map(row).collect(), columns)
}

/// `12 calls, 6 min of work; planning may use $1.98`
pub fn most(most: &wire::PlanCost) -> String {
    let planning = [most.planning_micros.map(dollars), most.planning_tokens.map(|tokens| format!("{} tokens", count(tokens)))];
    let planning = planning.into_iter().flatten().collect::<Vec<_>>().join(" and ");
    let planning = if planning.is_empty() { String::new() } else { format!("; planning may use {planning}") };
    format!("{}, {} of work{planning}", plural(most.calls, "call"), duration_ms(most.work_ms))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use wire::StepError;

    pub(crate) fn step(name: &str, tool: &str, title: &str, after: &[&str]) -> StepView {
        StepView {
            step: name.into(),
            tool: tool.into(),
            title: title.into(),
            after: after.iter().map(|name| (*name).to_owned()).collect(),
            max_retries: 2,
            ..StepView::default()
        }
    }

    /// Two reads, a join of them that is tried again, a step that may begin, one that failed and what hangs on it.
    pub(crate) fn plan() -> PlanView {
        let mut steps = vec![
            step("read", "fs.read", "Read the input", &[]),
            step("fetch", "net.fetch", "Fetch the prices", &[]),
            step("join", "shell.run", "Join both", &["read", "fetch"]),
            step("lint", "shell.run", "Check the style", &["read"]),
            step("notify", "net.fetch", "Tell the others", &["fetch"]),
            step("report", "fs.write", "Write the report", &["join"]),
            step("archive", "fs.write", "Keep what was told", &["notify"]),
        ];
        for (step, (status, from, to)) in steps.iter_mut().zip([
            (Some(StepStatus::Succeeded), Some(1_000), Some(1_120)),
            (Some(StepStatus::Succeeded), Some(1_000), Some(3_400)),
            (Some(StepStatus::Running), Some(3_400), None),
            (None, None, None),
            (Some(StepStatus::Failed), Some(3_400), Some(3_900)),
            (None, None, None),
            (Some(StepStatus::Skipped), None, None),
        ]) {
            (step.status, step.started_ms, step.ended_ms) = (status, from, to);
        }
        steps[2].attempts = 2;
        let error = |code: &str, message: &str| {
            Some(Box::new(StepError { code: code.into(), karnevil9: "POLICY_VIOLATION".into(), message: message.into() }))
        };
        steps[4].error = error("denied", "no rule allows `example.org`");
        steps[6].error = error("skipped", "notify failed");
        PlanView { plan_id: "p".into(), goal: "Report the prices".into(), steps, ..PlanView::default() }
    }

    #[test]
    fn a_graph_shows_every_phase_in_its_layer() {
        let options = DrawOptions { now_ms: 10_000, rows: None, course: PlanCourse::Going };
        let expected = &"
  1 ┬ ✓ read      120 ms  fs.read    Read the input
    └ ✓ fetch      2.4 s  net.fetch  Fetch the prices
  2 ┬ ● join       6.6 s  shell.run  Join both  try 2 of 3  ← read, fetch
    ├ ◌ lint              shell.run  Check the style  ← read
    └ ✗ notify    500 ms  net.fetch  Tell the others  denied: no rule allows `e…
  3 ┬ · report            fs.write   Write the report  ← join
    └ ○ archive           fs.write   Keep what was told  notify failed
"[1..];
        assert_eq!(graph(&plan(), options).render(false, Some(80)), expected);
        assert_eq!(tally(&phases(&plan(), PlanCourse::Going)), "2 of 7 done, 1 running, 1 ready, 1 failed, 1 skipped");
        assert!(tally(&phases(&plan(), PlanCourse::Asking)).contains("1 asking"));
        assert_eq!(tally(&phases(&plan(), PlanCourse::Over)), "2 of 7 done, 1 cut off, 1 failed, 1 skipped");
    }

    #[test]
    fn a_frozen_step_is_not_shown_as_running() {
        let mut plan = plan();
        plan.steps[2].frozen_by = Some("kernel".into());
        let options = DrawOptions { now_ms: 10_000, rows: None, course: PlanCourse::Going };
        let text = graph(&plan, options).render(false, Some(120));
        assert!(text.contains("◐ join") && text.contains("Join both  try 2 of 3  frozen: a session of higher priority"), "{text}");
        assert_eq!(tally(&phases(&plan, PlanCourse::Going)), "2 of 7 done, 1 frozen, 1 ready, 1 failed, 1 skipped");
        // One that was cut off is not frozen any more.
        assert!(tally(&phases(&plan, PlanCourse::Over)).contains("1 cut off"));
    }

    #[test]
    fn a_plan_that_nobody_runs_has_no_times() {
        let mut plan = plan();
        plan.assumptions.push("the prices are in dollars".into());
        plan.artifacts.push("report.md".into());
        plan.steps.iter_mut().for_each(|step| (step.status, step.error, step.attempts) = (None, None, 0));
        let expected = "\
Report the prices  7 steps in 3 layers
  ↳ if   the prices are in dollars
  ↳ make report.md
  1 ┬ ◌ read     fs.read    Read the input
    └ ◌ fetch    net.fetch  Fetch the prices
  2 ┬ ◌ join     shell.run  Join both  ← read, fetch
    ├ ◌ lint     shell.run  Check the style  ← read
    └ ◌ notify   net.fetch  Tell the others  ← fetch
  3 ┬ ◌ report   fs.write   Write the report  ← join
    └ ◌ archive  fs.write   Keep what was told  ← notify
";
        assert_eq!(shown(&plan, None).render(false, Some(80)), expected);
    }

    #[test]
    fn what_a_plan_says_cannot_move_the_cursor() {
        let mut plan = plan();
        plan.steps[0].step = "a\x1b[2Jb".into();
        plan.steps[1].title = "x\r\ny".into();
        plan.goal = "\x1b]52;c;x\x07".into();
        let text = shown(&plan, None).render(false, Some(80));
        assert!(!text.contains('\x1b') && !text.contains('\r') && text.contains("a\\x1b[2Jb"), "{text}");
        assert_eq!(text.lines().count(), 8);
    }

    #[test]
    fn ten_thousand_steps_fit_on_a_screen_and_what_matters_is_among_them() {
        let mut plan = PlanView { goal: "many".into(), ..PlanView::default() };
        for n in 0..10_000 {
            let before = (n > 0).then(|| format!("s{}", n - 1));
            let after: Vec<&str> = before.iter().map(String::as_str).collect();
            plan.steps.push(step(&format!("s{n}"), "fs.read", "Look", &after));
        }
        for n in 0..5_000 {
            plan.steps[n].status = Some(StepStatus::Succeeded);
        }
        plan.steps[40].status = Some(StepStatus::Failed);
        plan.steps[5_000].status = Some(StepStatus::Running);
        let options = DrawOptions { now_ms: 0, rows: Some(12), course: PlanCourse::Going };
        let text = graph(&plan, options).render(false, Some(80));
        assert!(text.lines().count() <= 12, "{text}");
        assert!(text.contains("✗ s40 ") && text.contains("● s5000 ") && text.contains("⋮ 40 done\n"), "{text}");
        let shown = text.lines().filter(|line| !line.contains('⋮')).count();
        let left = text.lines().filter(|line| line.contains('⋮')).flat_map(|line| line.split([' ', ',']));
        let left: usize = left.filter_map(|word| word.parse::<usize>().ok()).sum();
        // `4,959` is two words of digits; what stands before the comma counts thousands.
        assert!(shown >= 4 && left > 0, "{text}");
    }

    #[test]
    fn findings_that_block_come_first() {
        let finding =
            |at: &str, message: &str, blocks| PlanFinding { critic: "tools".into(), at: at.into(), message: message.into(), blocks };
        let all = [finding("", "it costs up to $2", false), finding("steps[3].tool_ref", "there is no tool `fs.wrote`", true)];
        let expected = "\
✗ steps[3].tool_ref  tools  there is no tool `fs.wrote`
! the plan           tools  it costs up to $2
";
        assert_eq!(findings(&all, None).render(false, None), expected);
    }
}
