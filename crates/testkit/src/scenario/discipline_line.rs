//! What a record of test-first says.

use world::Event;

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
            format!("{} in {state}: {}, {} passed, {} failed{doubts}", run.purpose.as_str(), run.outcome.as_str(), run.passed, run.failed)
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
