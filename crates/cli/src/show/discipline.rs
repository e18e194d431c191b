//! What happens to a task that is held to tests first, as lines of its story.

use super::measure::duration_ms;
use super::{Line, Page};
use wire::Event;
use wire::event::TestsRan;

/// Below lines that are set in themselves.
const SET_IN: &str = "  ";

/// What this record adds; nothing where it is of another kind.
pub fn tell(event: &Event, page: &mut Page) {
    match event {
        Event::DisciplineSwitched(e) => {
            page.push(Line::new().name("  ● ").strong(format!("[{}]", e.mode)).faint(format!("  {}", e.reason)))
        }
        Event::WorkflowEntered(e) => {
            page.push(Line::new().name("  ● ").strong(format!("[{}] [{}]", e.mode, e.to)).faint(format!("  {}", e.why)));
        }
        Event::WorkflowStalled(e) => {
            page.push(Line::new().wait("  ◍ ").plain(format!("{} goes on", e.state)));
            page.because_under(SET_IN, "why", &e.why);
        }
        Event::TestsRan(e) => ran(e, page),
        Event::FilesPutBack(e) => {
            let more = e.count.saturating_sub(e.paths.len() as u64);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            page.push(Line::new().wait("  ↩ ").plain(format!("put back {}{more}", e.paths.join(", "))));
            page.because_under(SET_IN, "why", &format!("{} does not allow it", e.state));
        }
        Event::ExemptionGranted(e) => {
            let line = Line::new().wait("  ◍ ").plain(format!("exempt from tests as {}: ", e.exemption.category.as_str()));
            page.push(line.plain(e.exemption.paths.join(", ")).faint(format!("  {}", e.exemption.reason)));
        }
        Event::ExemptionRefused(e) => {
            page.push(Line::new().bad("  ✗ ").plain(format!("exemption from tests as {}", e.category)).bad("  refused"));
            page.because_under(SET_IN, "why", &e.why);
        }
        _ => {}
    }
}

/// A run of the tests by the kernel. New tests are to fail, so that is no bad news.
fn ran(e: &TestsRan, page: &mut Page) {
    let run = &e.run;
    let mark = match (run.is_green(), run.is_red()) {
        (true, _) => Line::new().good("  ✓ "),
        (_, true) => Line::new().wait("  ◍ "),
        _ => Line::new().plain("  ○ "),
    };
    let what = format!(
        "the kernel ran the tests ({}): {}, {} failed, {} passed",
        run.purpose.as_str(),
        run.outcome.as_str(),
        run.failed,
        run.passed
    );
    page.push(mark.plain(what).faint(format!(" ({})", duration_ms(run.ms).replace(' ', ""))));
    run.doubts.iter().for_each(|doubt| page.because_under(SET_IN, "but", doubt));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn told(kind: &str, payload: Value) -> String {
        let mut payload = payload;
        (payload["pid"], payload["task"]) = (json!(3), json!("task-1"));
        let event: Event = serde_json::from_value(json!({ "type": kind, "payload": payload })).unwrap();
        let mut page = Page::new();
        tell(&event, &mut page);
        page.render(false, None)
    }

    #[test]
    fn each_step_of_test_first_is_a_line() {
        let run = |purpose: &str, outcome: &str, failed: u64, passed: u64, doubts: &[&str]| {
            let run = json!({"purpose": purpose, "tree": "t", "outcome": outcome, "passed": passed, "failed": failed, "skipped": 0, "doubts": doubts, "ms": 1_200});
            told("tests.ran", json!({"mode": "strict", "state": "validating", "run": run}))
        };
        let entered = json!({"mode": "strict", "from": "planning", "to": "test_writing", "why": "the plan is complete", "snapshot": null});
        assert_eq!(told("workflow.entered", entered), "  ● [strict] [test_writing]  the plan is complete\n");
        assert_eq!(run("red", "failed", 1, 2, &[]), "  ◍ the kernel ran the tests (red): failed, 1 failed, 2 passed (1.2s)\n");
        assert_eq!(run("green", "passed", 0, 3, &[]), "  ✓ the kernel ran the tests (green): passed, 0 failed, 3 passed (1.2s)\n");
        let weaker = "  ○ the kernel ran the tests (green): passed, 0 failed, 3 passed (1.2s)\n    ↳ but  a test is gone\n";
        assert_eq!(run("green", "passed", 0, 3, &["a test is gone"]), weaker);
        let back = told("files.put_back", json!({"state": "test_writing", "paths": ["src/a.ts"], "count": 2}));
        assert_eq!(back, "  ↩ put back src/a.ts and 1 more\n    ↳ why  test_writing does not allow it\n");
        let refused = json!({"category": "documentation", "paths": ["src/a.ts"], "reason": "r", "why": "it is none"});
        assert_eq!(told("exemption.refused", refused), "  ✗ exemption from tests as documentation  refused\n    ↳ why  it is none\n");
        assert_eq!(
            told("workflow.stalled", json!({"state": "test_writing", "why": "no test"})),
            "  ◍ test_writing goes on\n    ↳ why  no test\n"
        );
    }
}
