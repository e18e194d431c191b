//! The kernel and its host.

use super::measure::{bytes, count, duration_ms};
use super::{Line, Node, Page, tree};
use crate::remedy;
use wire::method::journal::VerificationStatus;
use wire::method::kernel::{KernelDoctorResult, KernelStatusResult};

pub fn status(status: &KernelStatusResult, now_ms: i64) -> Page {
    let fact = |name: &str, value: Line| Node::new(Line::new().faint(name)).cell(value);
    let up_ms = u64::try_from(now_ms.saturating_sub(status.started_ms)).unwrap_or(0);
    let verified = match status.verification {
        VerificationStatus::Running => ", being verified",
        VerificationStatus::Whole => ", verified at start",
        VerificationStatus::Doubted => ", in doubt",
        VerificationStatus::Failed => ", not verified to its end",
    };
    let tasks = Line::new()
        .name(format!("●{} active", status.tasks_running))
        .wait(format!("  ◍{} parked", status.tasks_parked))
        .faint(format!("  ◌{} queued", status.tasks_queued));
    let mut root = Node::new(Line::new().good("● ").strong("kernel").faint(format!("  skep {}", status.version)))
        .under(fact("home", Line::new().plain(&status.home)))
        .under(fact("up", Line::new().plain(duration_ms(up_ms)).faint(format!(", os pid {}", status.os_pid))))
        .under(fact("memory", Line::new().plain(bytes(status.rss_bytes))))
        .under(fact("journal", Line::new().plain(format!("record {}", count(status.head_seq))).faint(verified)))
        .under(fact("processes", Line::new().plain(count(status.processes))))
        .under(fact("tasks", tasks));
    if status.reviews_open > 0 {
        root = root.under(fact("reviews", Line::new().wait(format!("{} open", status.reviews_open)).faint(", see `skep review`")));
    }
    if status.disk_full {
        root = root.under(fact("disk", Line::new().bad("full").faint(", brains wait until there is space again")));
    }
    for doubt in &status.doubts {
        root = root.under(fact("doubt", Line::new().bad(doubt)));
    }
    let mut page = tree(&root);
    if !status.doubts.is_empty() {
        page.because("next", "skep journal doubts");
    }
    page
}

/// The doubts that every command tells of until somebody has looked at them.
pub fn doubts(doubts: &[String]) -> Page {
    let mut page = Page::new();
    let Some(first) = doubts.first() else { return page };
    page.push(Line::new().bad("✗ ").plain("the journal is in doubt: ").plain(first));
    if let Some(more) = doubts.len().checked_sub(1).filter(|more| *more > 0) {
        page.push(Line::new().faint(format!("  and {more} more")));
    }
    page.because("next", "skep journal doubts");
    page
}

pub fn doctor(doctor: &KernelDoctorResult) -> Page {
    let mut page = Page::new();
    let width = doctor.checks.iter().map(|check| Line::new().plain(&check.name).width()).max().unwrap_or(0);
    for check in &doctor.checks {
        let mark = if check.ok { Line::new().good("✓ ") } else { Line::new().bad("✗ ") };
        page.push(mark.join(Line::new().plain(&check.name).pad(width)).plain("  ").faint(&check.detail));
        if let Some(fix) = remedy::fix(check.fix.as_deref(), check.remedy.as_ref()).filter(|_| !check.ok) {
            page.because("fix", &fix);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::method::kernel::HostCheck;

    #[test]
    fn a_kernel_in_a_few_lines() {
        let view = KernelStatusResult {
            version: "0.1.0".into(),
            os_pid: 42,
            home: "/home/a/.skep".into(),
            started_ms: 0,
            head_seq: 4_521,
            rss_bytes: 13_400_000,
            processes: 3,
            tasks_queued: 2,
            tasks_running: 1,
            tasks_parked: 0,
            reviews_open: 1,
            doubts: vec!["record 7 was edited".into()],
            verification: VerificationStatus::Doubted,
            disk_full: true,
        };
        let expected = "\
● kernel  skep 0.1.0
├─ home       /home/a/.skep
├─ up         1m 05s, os pid 42
├─ memory     13.4 MB
├─ journal    record 4,521, in doubt
├─ processes  3
├─ tasks      ●1 active  ◍0 parked  ◌2 queued
├─ reviews    1 open, see `skep review`
├─ disk       full, brains wait until there is space again
└─ doubt      record 7 was edited
  ↳ next skep journal doubts
";
        assert_eq!(status(&view, 65_000).render(false, None), expected);
    }

    #[test]
    fn a_missing_thing_comes_with_its_command() {
        let check = |name: &str, ok, fix: Option<&str>| HostCheck {
            name: name.into(),
            ok,
            detail: "d".into(),
            fix: fix.map(Into::into),
            remedy: None,
        };
        let checks = vec![check("overlay", true, Some("unused")), check("landlock", false, Some("boot with lsm=landlock"))];
        let expected = "✓ overlay   d\n✗ landlock  d\n  ↳ fix  boot with lsm=landlock\n";
        assert_eq!(doctor(&KernelDoctorResult { checks }).render(false, None), expected);
    }
}
