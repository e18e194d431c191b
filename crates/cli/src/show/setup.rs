//! What `skep setup` found, would write, and did.

use super::measure::duration_ms;
use super::{Line, Page, Tone, brain};
use crate::command::setup::SetupReport;
use wire::method::model::ModelTryResult;

/// Before the question: what was found, and every byte that would be written.
pub fn plan(report: &SetupReport) -> Page {
    let mut page = Page::new();
    for found in &report.found {
        let line = Line::new().good("✓ ").plain(&found.from).faint(format!("  → {}", found.provider));
        page.push(if found.known { line.faint(", set up already") } else { line });
    }
    clients(report, &mut page);
    if report.adds.is_empty() {
        page.push(Line::new().faint("nothing new for ").name(report.config.display().to_string()));
        return page;
    }
    page.blank();
    let to = Line::new().plain(if report.by_hand { "to be added to " } else { "would be added to " });
    page.push(to.name(report.config.display().to_string()).plain(":"));
    page.block("    ", Tone::Name, report.adds.trim_end());
    for copy in &report.keys {
        page.push(
            Line::new().plain("the key of ").name(&copy.variable).plain(" would be copied to ").name(copy.file.display().to_string()),
        );
    }
    if !report.keys.is_empty() {
        page.push(Line::new().faint("  which only you can read: the kernel needs it when this shell is gone"));
    }
    page.blank();
    page
}

/// The vendors' clients that are there; of the others, that they can be had.
fn clients(report: &SetupReport, page: &mut Page) {
    for client in report.clients.iter().filter(|client| client.program.is_some()) {
        page.append(brain::check(client));
    }
    let missing: Vec<&str> = report.clients.iter().filter(|client| client.program.is_none()).map(|client| client.name.as_str()).collect();
    if !missing.is_empty() {
        page.push(Line::new().faint(format!("○ not installed: {}; skep brain check NAME says how to get one", missing.join(", "))));
    }
}

/// After it was written and tried.
pub fn done(report: &SetupReport) -> Page {
    let mut page = Page::new();
    if report.written {
        page.push(Line::new().good("✓ ").name(report.config.display().to_string()).plain(" is written and in force"));
    }
    if let Some(trial) = &report.trial {
        page.push(tried(trial));
    }
    report.brain_trials.iter().for_each(|trial| page.push(brain::tried(trial)));
    for failure in &report.brain_failures {
        page.push(Line::new().bad("✗ ").name(&failure.brain).plain(" gives no answer"));
        page.because("why", &failure.why);
        failure.fix.iter().for_each(|fix| page.because("fix", fix));
    }
    page.because("next", "skep act \"…\" in a repository of yours, or skep demo");
    page
}

fn tried(trial: &ModelTryResult) -> Line {
    let line =
        Line::new().good("✓ ").name(format!("{}/{}", trial.provider, trial.model)).plain(format!(" answered in {}", duration_ms(trial.ms)));
    match &trial.usage {
        None => line,
        Some(usage) => brain::cost(line, usage),
    }
}
