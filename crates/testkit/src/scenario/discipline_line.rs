//! What a record of test-first says.

use world::coverage::percent;
use world::{CoverageEvidence, Event};

pub(super) fn detail(event: &Event) -> Option<String> {
    Some(match event {
        Event::DisciplineSwitched(e) => {
            let was = e.was.map_or_else(String::new, |was| format!(" after {was}"));
            format!("{}{was} by {}: {}", e.mode, e.by, e.reason)
        }
        Event::WorkflowEntered(e) => format!("{} {} to {}: {}", e.mode, e.from, e.to, e.why),
        Event::TestsRan(e) => {
            let doubts = if e.run.doubts.is_empty() { String::new() } else { format!("   {}", e.run.doubts.join("; ")) };
            let (run, state) = (&e.run, e.state);
            let coverage = match &run.coverage {
                Some(CoverageEvidence::Measured(found)) => {
                    let verdict = found.verdict.map_or_else(String::new, |verdict| format!(" ({})", verdict.as_str()));
                    format!(", coverage {}{verdict}", percent(found.now.hundredths()))
                }
                Some(CoverageEvidence::Missing { why }) => format!(", no coverage: {why}"),
                None => String::new(),
            };
            let (purpose, outcome) = (run.purpose.as_str(), run.outcome.as_str());
            format!("{purpose} in {state}: {outcome}, {} passed, {} failed{coverage}{doubts}", run.passed, run.failed)
        }
        Event::CoverageJudged(e) => {
            let was = e.was.map_or_else(|| "none".to_owned(), percent);
            let lock = if e.locked { ", explore is locked" } else { "" };
            let (mode, verdict) = (e.mode, e.verdict.as_str());
            format!("{} {mode} {verdict}: {}, baseline {was} to {}{lock}", e.merge, percent(e.now.hundredths()), percent(e.baseline))
        }
        Event::ExemptionGranted(e) => {
            format!("{}: {} ({})", e.exemption.category.as_str(), e.exemption.paths.join(", "), e.exemption.reason)
        }
        Event::ExemptionRefused(e) => format!("{}: {} ({})   {}", e.category, e.paths.join(", "), e.reason, e.why),
        Event::FilesPutBack(e) => format!("in {}: {}", e.state, e.paths.join(", ")),
        Event::WorkflowStalled(e) => format!("in {}: {}", e.state, e.why),
        _ => return None,
    })
}
