//! What the checks of a commit found.

use super::{Line, Page};
use wire::{CheckOutcome, CommitReport, CommitVerdict};

/// Columns of a check's name.
const NAME_COLUMNS: usize = 10;

pub fn report(report: &CommitReport) -> Page {
    let commit = report.commit.get(..12).unwrap_or(&report.commit);
    let of = report.task.map(|task| format!(" of {task}")).unwrap_or_default();
    let mut page = Page(vec![match report.verdict {
        CommitVerdict::Verified => Line::new().good("✓ ").name(commit).plain(format!(" is the commit that the kernel made{of}")),
        CommitVerdict::Rewritten => {
            Line::new().wait("◍ ").name(commit).plain(format!(" has exactly the changes{of}, and is not the commit that the kernel made"))
        }
        CommitVerdict::Failed => Line::new().bad("✗ ").name(commit).plain(" is not what the journal says"),
    }]);
    for check in &report.checks {
        let (sign, word) = match check.outcome {
            CheckOutcome::Holds => (Line::new().plain("  ").good("✓ "), ""),
            CheckOutcome::Fails => (Line::new().plain("  ").bad("✗ "), ""),
            CheckOutcome::Unchecked => (Line::new().plain("  ").faint("○ "), "not checked: "),
        };
        page.push(sign.plain(format!("{:<NAME_COLUMNS$}", check.name)).faint(word).plain(&check.why));
    }
    page
}
