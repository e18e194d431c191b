//! The kernel and its host.

use super::measure::{bytes, clock_minutes, count, duration_ms, plural};
use super::{Line, Node, Page, tree};
use crate::remedy;
use jiff::tz::TimeZone;
use wire::method::journal::VerificationStatus;
use wire::method::kernel::{KernelDoctorResult, KernelNoticesResult, KernelStatusResult, SettingsView, UnseenPath};

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
    for address in &status.grpc {
        root = root.under(fact("grpc", Line::new().plain(address)));
    }
    if status.disk_full {
        root = root.under(fact("disk", Line::new().bad("full").faint(", brains wait until there is space again")));
    }
    if let Some(why) = &status.settings_rejected {
        root = root.under(fact("settings", Line::new().bad("as they were: ").plain(why)));
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

/// What every command tells beside its own result.
pub fn notices(notices: &KernelNoticesResult, now_ms: i64, zone: &TimeZone) -> Page {
    let mut page = Page::new();
    if let Some(crash) = &notices.crash {
        let at = clock_minutes(crash.at_ms, now_ms, zone);
        let mut text = format!("the kernel ended without notice at {at}");
        if crash.calls > 0 {
            let were = if crash.calls == 1 { "was" } else { "were" };
            text.push_str(&format!("; {} {were} interrupted", plural(crash.calls, "command")));
        }
        if !crash.reviews.is_empty() {
            let asked: Vec<String> = crash.reviews.iter().map(ToString::to_string).collect();
            text.push_str(&format!(" ({})", asked.join(", ")));
        }
        page.push(Line::new().wait("◍ ").plain(text));
        if let Some(first) = crash.reviews.first() {
            page.because("next", &format!("skep review show {first}"));
        }
    }
    let lines: Vec<String> = notices.doubts.iter().map(|doubt| format!("{}: {}", doubt.what, doubt.why)).collect();
    page.append(doubts(&lines));
    if let Some(found) = &notices.settings {
        page.append(settings(found));
    }
    if notices.disk_full {
        page.append(full_disk());
    }
    page
}

/// Why brains wait.
pub fn full_disk() -> Page {
    let mut page = Page::new();
    page.push(Line::new().bad("✗ ").plain(FULL_DISK));
    page.because("fix", "free some disk space; the work goes on by itself");
    page
}

pub const FULL_DISK: &str = "the disk of $SKEP_HOME is full, so brains wait";

/// What became of a change of the operator's own files.
fn settings(settings: &SettingsView) -> Page {
    let mut page = Page::new();
    if let Some(taken) = &settings.taken {
        page.push(Line::new().good("✓ ").plain(taken));
    }
    if settings.policy_drifts {
        page.push(Line::new().wait("◍ ").plain("policy.yaml in $SKEP_HOME was changed and is not in force: run `skep trust --home`"));
    }
    if let Some(why) = &settings.rejected {
        page.push(Line::new().bad("✗ ").plain("a change of your settings cannot be used; those of before stay in force"));
        page.because("why", why);
        if let Some(fix) = &settings.fix {
            page.because("fix", fix);
        }
    }
    page
}

/// The checks by what they belong to; the host itself comes first and needs no title.
pub fn doctor(doctor: &KernelDoctorResult) -> Page {
    let mut page = Page::new();
    let names = doctor.checks.iter().map(|check| &check.name).chain(doctor.toolchains.iter().map(|found| &found.name));
    let width = names.map(|name| Line::new().plain(name).width()).max().unwrap_or(0);
    let mut section = "";
    for check in &doctor.checks {
        if check.section != section {
            section = &check.section;
            page.blank();
            page.push(Line::new().strong(section));
        }
        let mark = match (check.ok, check.optional) {
            (true, _) => Line::new().good("✓ "),
            (false, true) => Line::new().faint("○ "),
            (false, false) => Line::new().bad("✗ "),
        };
        page.push(mark.join(Line::new().plain(&check.name).pad(width)).plain("  ").faint(&check.detail));
        if let Some(fix) = remedy::fix(check.fix.as_deref(), check.remedy.as_ref()).filter(|_| !check.ok) {
            page.because(if check.optional { "next" } else { "fix" }, &fix);
        }
    }
    if !doctor.toolchains.is_empty() {
        if !page.is_empty() {
            page.blank();
        }
        page.push(Line::new().strong("toolchains"));
    }
    for found in &doctor.toolchains {
        let mark = if found.shown { Line::new().good("✓ ") } else { Line::new().faint("○ ") };
        let detail = Line::new().plain(&found.path).faint(if found.detail.is_empty() { "" } else { ", " }).faint(&found.detail);
        page.push(mark.join(Line::new().plain(&found.name).pad(width)).plain("  ").join(detail));
        if !found.shown {
            page.because("hidden", &format!("`sandbox: {{toolchains: …}}` in config.yml leaves {} out", found.ecosystem));
        }
        for UnseenPath { path, reason } in &found.left_out {
            page.because("hidden", &format!("{path}: {reason}"));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::ReviewId;
    use wire::method::kernel::{CrashView, HostCheck, HostToolchain};

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
            settings_rejected: Some("config.yml:3:1: what is this".into()),
            grpc: Vec::new(),
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
├─ settings   as they were: config.yml:3:1: what is this
└─ doubt      record 7 was edited
  ↳ next skep journal doubts
";
        assert_eq!(status(&view, 65_000).render(false, None), expected);
    }

    #[test]
    fn a_crash_is_told_with_what_it_interrupted() {
        let crash = |calls, reviews: &[u64]| KernelNoticesResult {
            doubts: Vec::new(),
            crash: Some(CrashView { at_ms: 46_620_000, calls, reviews: reviews.iter().map(|id| ReviewId(*id)).collect() }),
            settings: None,
            disk_full: false,
        };
        let told = |result: &KernelNoticesResult| notices(result, 50_000_000, &TimeZone::UTC).render(false, None);
        assert_eq!(told(&crash(0, &[])), "◍ the kernel ended without notice at 12:57\n");
        let expected = "◍ the kernel ended without notice at 12:57; 1 command was interrupted (r-2)\n  ↳ next skep review show r-2\n";
        assert_eq!(told(&crash(1, &[2])), expected);
        let later = notices(&crash(2, &[]), 200_000_000, &TimeZone::UTC).render(false, None);
        assert_eq!(later, "◍ the kernel ended without notice at 1970-01-01 12:57; 2 commands were interrupted\n");
        let full = KernelNoticesResult { crash: None, disk_full: true, ..crash(0, &[]) };
        let expected = "✗ the disk of $SKEP_HOME is full, so brains wait\n  ↳ fix  free some disk space; the work goes on by itself\n";
        assert_eq!(told(&full), expected);
    }

    #[test]
    fn a_missing_thing_comes_with_its_command() {
        let check = |name: &str, ok, fix: Option<&str>| HostCheck {
            section: String::new(),
            name: name.into(),
            ok,
            optional: false,
            detail: "d".into(),
            fix: fix.map(Into::into),
            remedy: None,
        };
        let checks = vec![check("overlay", true, Some("unused")), check("landlock", false, Some("boot with lsm=landlock"))];
        let expected = "✓ overlay   d\n✗ landlock  d\n  ↳ fix  boot with lsm=landlock\n";
        let shown = |checks| doctor(&KernelDoctorResult { checks, toolchains: Vec::new() }).render(false, None);
        assert_eq!(shown(checks), expected);
        let brain = HostCheck { section: "brains".into(), optional: true, ..check("codex", false, None) };
        assert_eq!(shown(vec![check("overlay", true, None), brain]), "✓ overlay  d\n\nbrains\n○ codex    d\n");
    }

    #[test]
    fn toolchains_are_listed_with_what_sandboxes_do_not_see_of_them() {
        let found = |name: &str, detail: &str, shown, left_out: &[&str]| HostToolchain {
            ecosystem: "node".into(),
            name: name.into(),
            path: format!("/home/a/.{name}"),
            detail: detail.into(),
            shown,
            left_out: left_out.iter().map(|path| UnseenPath { path: (*path).into(), reason: "it may hold credentials".into() }).collect(),
        };
        let toolchains = vec![found("nvm", "v20.1.0", true, &["/home/a/.nvm/x/npmrc"]), found("volta", "", false, &[])];
        let expected = "\
toolchains
✓ nvm    /home/a/.nvm, v20.1.0
  ↳ hidden /home/a/.nvm/x/npmrc: it may hold credentials
○ volta  /home/a/.volta
  ↳ hidden `sandbox: {toolchains: …}` in config.yml leaves node out
";
        assert_eq!(doctor(&KernelDoctorResult { checks: Vec::new(), toolchains }).render(false, None), expected);
    }
}
