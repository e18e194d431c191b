//! `skep status TASK`: one task in full.

use super::{cost, next_step, sign, stand, times};
use crate::show::measure::{bytes, count, dollars, plural};
use crate::show::{Line, Node, Page, tree};
use jiff::tz::TimeZone;
use wire::method::task::TaskView;

/// Columns before a fact of one task: the stem, the longest name and a gap.
const FACT_COLUMNS: usize = 15;

/// One task in full, `columns` wide; nothing of it is cut.
pub fn detail(task: &TaskView, now_ms: i64, zone: &TimeZone, columns: Option<usize>) -> Page {
    let columns = columns.unwrap_or(usize::MAX).max(FACT_COLUMNS + 20) - FACT_COLUMNS;
    let lines = |text: &str| text.trim_end().lines().flat_map(|line| Line::new().plain(line).wrap(columns)).collect::<Vec<_>>();
    let fact = |name: &str, value: Line| Node::new(Line::new().faint(name)).block(value.wrap(columns));
    let runs = if task.episodes > 1 { format!(", resumed {}", plural(u64::from(task.episodes) - 1, "time")) } else { String::new() };
    let mut root = Node::new(Line::new().plain("task ").name(task.task.to_string()))
        .under(fact("status", sign(task).join(stand(task))))
        .under(Node::new(Line::new().faint("prompt")).block(lines(&format!("\"{}\"", task.prompt))));
    if let Some(summary) = task.summary.as_deref().filter(|summary| !summary.is_empty()) {
        root = root.under(Node::new(Line::new().faint("summary")).block(lines(summary)));
    }
    if let Some(review) = task.review {
        root = root.under(fact("review", Line::new().name(review.to_string())));
    }
    if let Some(next) = next_step(task) {
        root = root.under(fact("next", Line::new().plain(next)));
    }
    if let Some(of) = task.replays {
        root = root.under(fact("replays", Line::new().name(of.to_string())));
    }
    if let Some(cost) = cost(task) {
        let of = task.budget.as_ref().and_then(|budget| budget.micros).map(|cap| format!(" of {}", dollars(cap)));
        root = root.under(fact("cost", Line::new().plain(cost).faint(of.unwrap_or_default())));
    }
    if !task.artifacts.is_empty() || !task.artifact_errors.is_empty() {
        root = root.under(artifacts(task, columns));
    }
    if let Some(skill) = &task.skill {
        root = root.under(fact("skill", Line::new().plain(skill)));
    }
    for list in &task.tool_lists {
        root = root.under(fact("tools", Line::new().plain(list.tools.join(", ")).faint(format!("  of {}", list.of))));
    }
    if let Some(kept) = &task.kept {
        root = root.under(fact("kept", Line::new().plain(format!("{}, {}", plural(kept.files, "file"), bytes(kept.bytes)))));
    }
    root = root
        .under(fact("time", Line::new().plain(times(task, now_ms, zone))))
        .under(fact("calls", Line::new().plain(plural(task.calls, "call")).faint(runs)))
        .under(fact("mode", Line::new().plain(task.mode.as_str())))
        .under(fact("brain", Line::new().plain(if task.brain.is_empty() { "—" } else { &task.brain })));
    if task.outputs.last().is_some_and(|output| output.starts_afresh) {
        root = root.under(fact("series", Line::new().plain("none").faint(super::NO_SERIES)));
    }
    root = root
        .under(fact("worker", Line::new().strong(&task.process).faint(format!(" (pid {})", task.pid))))
        .under(fact("repository", Line::new().plain(format!("{}  ", task.zone.0)).name(format!("@{}", task.branch))));
    tree(&root)
}

/// What the brain said when it was asked at the end, and what it cost.
fn artifacts(task: &TaskView, columns: usize) -> Node {
    let name_columns = task.artifacts.keys().chain(task.artifact_errors.keys()).map(|name| name.len()).max().unwrap_or(0) + 2;
    let columns = columns.saturating_sub(name_columns).max(20);
    let row = |name: &str, text: Line| Node::new(Line::new().faint(name).pad(name_columns - 2)).block(text.wrap(columns));
    let is_figure = |name: &str| matches!(name, "tokens" | "cost");
    let said = task.artifacts.iter().filter(|(name, _)| !is_figure(name)).map(|(name, text)| {
        let lines = text.trim_end().lines().flat_map(|line| Line::new().plain(line).wrap(columns));
        Node::new(Line::new().faint(name).pad(name_columns - 2)).block(lines.collect())
    });
    let failed = task.artifact_errors.iter().map(|(name, why)| row(name, Line::new().bad("✗ ").plain(why)));
    let figures = task.artifacts.iter().filter(|(name, _)| is_figure(name)).map(|(name, text)| match text.parse() {
        Ok(tokens) => row(name, Line::new().plain(count(tokens))),
        Err(_) => row(name, Line::new().plain(text)),
    });
    let mut root = Node::new(Line::new().faint("artifacts"));
    root.below = said.chain(failed).chain(figures).collect();
    root
}
