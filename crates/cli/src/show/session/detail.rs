//! `skep session show`: one session in full.

use super::{sign, spent, status};
use crate::show::measure::{clock_seconds, count, dollars, duration_ms, plural};
use crate::show::plan::{self, DrawOptions, PlanCourse};
use crate::show::task::next_step;
use crate::show::{Line, Node, Page, memory, table_wrapped, tree};
use jiff::tz::TimeZone;
use wire::method::plan::PlanView;
use wire::method::session::{PlanReview, SessionView};
use wire::{PlanConstraints, PolicyProfile, SessionLimits, SessionStatus, SessionTerms};

/// Columns before a fact: the stem, the longest name and a gap.
const FACT_COLUMNS: usize = 15;

/// One session in full, `columns` wide; `rows` of its steps, all without a number.
pub fn detail(view: &SessionView, rows: Option<usize>, now_ms: i64, zone: &TimeZone, columns: Option<usize>) -> Page {
    // As it was: nothing is told of the time since.
    let now_ms = view.until_ms.unwrap_or(now_ms);
    let mut page = facts(view, now_ms, zone, columns);
    if let Some(shown) = &view.plan {
        page.blank();
        page.push(heading(view));
        let options = DrawOptions { now_ms: view.task.ended_ms.unwrap_or(now_ms), rows, course: course(view) };
        page.append(plan::graph(shown, options));
        page.append(failed(shown));
    }
    reviews(&view.reviews_of_plans, columns, &mut page);
    iterations(view, columns, &mut page);
    if !view.lessons.is_empty() {
        page.blank();
        page.push(Line::new().strong("Told of earlier sessions"));
        page.append(indented(memory::rows(&view.lessons, now_ms, columns.map(|columns| columns.saturating_sub(2)))));
    }
    if !view.delegated.is_empty() {
        page.blank();
        page.push(Line::new().strong("Found by those it delegated to"));
        view.delegated.iter().for_each(|found| page.block("  ", crate::show::Tone::Plain, found));
    }
    page
}

/// The steps that failed, each with its reason whole.
pub fn failed(plan: &PlanView) -> Page {
    let mut page = Page::new();
    let errors = plan.steps.iter().filter_map(|step| step.error.as_ref().filter(|_| step.ended_ms.is_some()).map(|error| (step, error)));
    for (step, error) in errors.filter(|(step, _)| step.status == Some(wire::StepStatus::Failed)) {
        if page.is_empty() {
            page.blank();
            page.push(Line::new().strong("Failed"));
        }
        let codes = format!("  {} ({})", error.code, error.karnevil9);
        page.push(Line::new().bad("  ✗ ").strong(&step.step).faint(format!("  {}", plural(step.attempts.into(), "attempt"))).plain(codes));
        page.because_under("  ", "why", &error.message);
        if let Some(call) = step.call {
            page.because_under("  ", "call", &call.to_string());
        }
    }
    page
}

/// `plan 2  "Report the prices"  2 of 7 done, 1 running`
fn heading(view: &SessionView) -> Line {
    let Some(shown) = &view.plan else { return Line::new() };
    let tally = plan::tally(&plan::phases(shown, course(view)));
    Line::new().strong(format!("Plan {}", view.plan_number)).plain("  ").plain(&shown.goal).faint(format!("  {tally}"))
}

pub(super) fn course(view: &SessionView) -> PlanCourse {
    match view.status {
        SessionStatus::Created | SessionStatus::Planning | SessionStatus::Running => PlanCourse::Going,
        SessionStatus::AwaitingApproval => PlanCourse::Asking,
        SessionStatus::Paused | SessionStatus::Completed | SessionStatus::Failed | SessionStatus::Aborted => PlanCourse::Over,
    }
}

fn facts(view: &SessionView, now_ms: i64, zone: &TimeZone, columns: Option<usize>) -> Page {
    let columns = columns.unwrap_or(usize::MAX).max(FACT_COLUMNS + 20) - FACT_COLUMNS;
    let fact = |name: &str, value: Line| Node::new(Line::new().faint(name)).block(value.wrap(columns));
    let text = |name: &str, value: &str| {
        let lines = value.trim_end().lines().flat_map(|line| Line::new().plain(line).wrap(columns));
        Node::new(Line::new().faint(name)).block(lines.collect())
    };
    let (task, terms) = (&view.task, &view.terms);
    let mut root = Node::new(Line::new().plain("session ").name(task.task.to_string()))
        .under(fact("status", sign(view.status).join(status(view.status))))
        .under(text("task", &format!("\"{}\"", task.prompt)));
    if let Some(summary) = task.summary.as_deref().filter(|summary| !summary.is_empty()) {
        root = root.under(text("summary", summary));
    }
    for reached in &view.limits_reached {
        root = root.under(fact("limit", Line::new().wait("◍ ").plain(reached)));
    }
    if let Some(futile) = &view.futile {
        root = root.under(fact("futile", Line::new().wait("◍ ").plain(futile)));
    }
    if let Some(replaced) = &view.plan_replaced {
        root = root.under(fact("given up", Line::new().plain(format!("plan {}: {replaced}", view.plan_number))));
    }
    if let Some(next) = next_step(&view.task).filter(|_| view.until_ms.is_none()) {
        root = root.under(fact("next", Line::new().plain(next)));
    }
    if let Some(of) = view.of {
        root = root.under(fact("part of", Line::new().name(of.to_string())));
    }
    if let Some(delegate) = view.delegate {
        root = root.under(fact("delegated", Line::new().plain("a part of it to ").name(delegate.to_string())));
    }
    let cost = match (spent(task.usage.as_ref()), view.until_ms) {
        (Some(cost), _) => format!(", {cost}"),
        (None, None) => ", no model was asked".to_owned(),
        (None, Some(_)) => String::new(),
    };
    let made = format!("{}, {}{cost}", plural(view.steps_made, "step"), plural(view.iteration.into(), "plan"));
    root = root.under(fact("used", Line::new().plain(made)));
    if let Some(context) = view.context {
        let share = (context.used * 100).checked_div(context.budget).unwrap_or(0);
        let verdict = format!("{} of {} tokens ({share} %): {}", count(context.used), count(context.budget), context.verdict.as_str());
        root = root.under(fact("context", Line::new().plain(verdict)));
    }
    root = root.under(fact("limits", Line::new().plain(limits(&terms.limits)))).under(fact("how", Line::new().plain(how(terms))));
    root = root.under(fact("profile", Line::new().plain(profile(&terms.profile))));
    if let Some(wants) = constraints(&terms.constraints) {
        root = root.under(fact("wants", Line::new().plain(wants)));
    }
    let took = |until_ms: i64| duration_ms(u64::try_from(until_ms.saturating_sub(task.queued_ms)).unwrap_or(0));
    let since = clock_seconds(task.queued_ms, now_ms, zone);
    let time = match task.ended_ms {
        Some(ended_ms) => format!("begun {since}, ended {}, took {}", clock_seconds(ended_ms, now_ms, zone), took(ended_ms)),
        None => format!("begun {since}, for {}", took(now_ms)),
    };
    let place = Line::new().strong(&task.process).faint(format!(" (pid {})  ", task.pid));
    root = root
        .under(fact("time", Line::new().plain(time)))
        .under(fact("process", place.plain(format!("repository {}  ", task.zone.0)).name(format!("@{}", task.branch))))
        .under(fact("record", Line::new().faint("up to number ").plain(view.seq.to_string())));
    tree(&root)
}

/// `live, agentic, planned by model:strategic, priority 3; nobody is asked`
fn how(terms: &SessionTerms) -> String {
    let mut words = vec![terms.mode.as_str().to_owned()];
    let mut say = |is: bool, word: &str| {
        if is {
            words.push(word.to_owned());
        }
    };
    say(terms.agentic, "agentic");
    say(terms.plan_only, "only its plan");
    say(!terms.critics, "no critics");
    say(terms.model_critic, "a model as critic too");
    say(!terms.memory, "no memory");
    say(terms.unattended, "unattended");
    words.push(format!("planned by {}", terms.planner));
    words.push(format!("priority {}", terms.priority));
    words.extend(terms.context_tokens.map(|tokens| format!("context of {} tokens", count(tokens))));
    words.join(", ")
}

fn limits(limits: &SessionLimits) -> String {
    let mut words = vec![plural(limits.max_steps, "step"), plural(limits.max_iterations.into(), "plan")];
    words.extend(limits.max_duration_ms.map(duration_ms));
    words.extend(limits.max_cost_micros.map(dollars));
    words.extend(limits.max_tokens.map(|tokens| plural(tokens, "token")));
    words.join(", ")
}

fn profile(profile: &PolicyProfile) -> String {
    let list = |what: &str, of: &[String]| (!of.is_empty()).then(|| format!("{what} {}", of.join(" ")));
    let words = [
        list("paths", &profile.allowed_paths),
        list("hosts", &profile.allowed_endpoints),
        list("commands", &profile.allowed_commands),
        profile.require_approval_for_writes.then(|| "every write asks".to_owned()),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    if words.is_empty() { "the policy in force alone".to_owned() } else { words.join("; ") }
}

fn constraints(wants: &PlanConstraints) -> Option<String> {
    let list = |what: &str, of: &[String]| (!of.is_empty()).then(|| format!("{what} {}", of.join(" ")));
    let words = [
        list("only", &wants.tool_allowlist),
        list("not", &wants.tool_denylist),
        list("within", &wants.path_scope),
        (!wants.success_criteria.is_empty()).then(|| wants.success_criteria.join("; ")),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join("; "))
}

fn indented(page: Page) -> Page {
    page.0.into_iter().map(|line| Line::new().plain("  ").join(line)).collect()
}

/// Plans with something to be said of them.
fn reviews(reviews: &[PlanReview], columns: Option<usize>, page: &mut Page) {
    let told: Vec<&PlanReview> = reviews.iter().filter(|review| review.rejected || review.off || !review.findings.is_empty()).collect();
    if told.is_empty() {
        return;
    }
    page.blank();
    page.push(Line::new().strong("What critics said"));
    for review in told {
        let what = match (review.rejected, review.off) {
            (true, _) => Line::new().bad("sent back"),
            (false, true) => Line::new().wait("nobody looked"),
            (false, false) => Line::new().good("accepted"),
        };
        page.push(Line::new().plain(format!("  plan {}, round {}  ", review.iteration, review.round + 1)).join(what));
        let found = plan::findings(&review.findings, columns.map(|columns| columns.saturating_sub(4)));
        page.append(found.0.into_iter().map(|line| Line::new().plain("    ").join(line)).collect());
    }
}

fn iterations(view: &SessionView, columns: Option<usize>, page: &mut Page) {
    if view.iterations.is_empty() || !view.terms.agentic {
        return;
    }
    page.blank();
    page.push(Line::new().strong("Plans so far"));
    let row = |one: &wire::IterationRecord| {
        let skipped = if one.skipped > 0 { format!(", {} skipped", one.skipped) } else { String::new() };
        let failed = if one.failed > 0 { format!(", {} failed", one.failed) } else { String::new() };
        let cost = if one.tokens > 0 || one.micros > 0 { dollars(one.micros) } else { "—".to_owned() };
        vec![
            Line::new().plain(format!("  {}", one.iteration)),
            Line::new().plain(format!("{} done{failed}{skipped}", one.succeeded)),
            Line::new().faint(cost),
            Line::new().plain(&one.goal),
        ]
    };
    page.append(table_wrapped(view.iterations.iter().map(row).collect(), columns));
}

#[cfg(test)]
mod tests {
    use super::super::tests::view;
    use super::*;

    #[test]
    fn a_session_is_told_in_full() {
        let expected = "\
session task-4
├─ status   ● running
├─ task     \"report the prices\"
├─ limit    ◍ max_steps: 100 of 100
├─ next     skep session watch task-4, or skep session abort task-4
├─ used     5 steps, 2 plans, $0.02, 1,234 tokens
├─ limits   100 steps, 15 plans, 10m 00s, $2.00
├─ how      live, agentic, planned by model:strategic, priority 3
├─ profile  paths src/**; every write asks
├─ wants    not net.fetch
├─ time     begun 00:00:00, for 10.0 s
├─ process  session.4 (pid 3)  repository 1  @main
└─ record   up to number 40

Plan 2  Report the prices  2 of 7 done, 1 running, 1 ready, 1 failed, 1 skipped
  1 ┬ ✓ read      120 ms  fs.read    Read the input
    └ ✓ fetch      2.4 s  net.fetch  Fetch the prices
  2 ┬ ● join       6.6 s  shell.run  Join both  try 2 of 3  ← read, fetch
    ├ ◌ lint              shell.run  Check the style  ← read
    └ ✗ notify    500 ms  net.fetch  Tell the others  denied: no rule allows `e…
  3 ┬ · report            fs.write   Write the report  ← join
    └ ○ archive           fs.write   Keep what was told  notify failed

Failed
  ✗ notify  0 attempts  denied (POLICY_VIOLATION)
    ↳ why  no rule allows `example.org`

What critics said
  plan 1, round 1  sent back
    ✗ steps[0].tool_ref  tools  there is no tool `fs.wrote`

Plans so far
  1  2 done  $0.01  Find the prices

Told of earlier sessions
  ✓ l-3  10s ago  told twice  find prices

Found by those it delegated to
  the prices are in euros
";
        assert_eq!(detail(&view(), None, 10_000, &TimeZone::UTC, Some(80)).render(false, Some(80)), expected);
    }
}
