//! Zones: what works where, and what waits.

use super::measure::plural;
use super::{Line, Node, Page, Tone, process, task, tree};
use crate::remedy;
use wire::method::policy::PolicyHomeResult;
use wire::method::process::ProcView;
use wire::method::task::TaskStatus;
use wire::method::zone::{CoverageView, ZoneInitResult, ZoneTrustResult, ZoneView};
use wire::percent;

/// Ended tasks that a status still shows; `skep list tasks` has them all.
const ENDED_SHOWN: usize = 3;
/// Files that lost coverage and are named; `--json` has more of them.
const FILES_SHOWN: usize = 5;
/// The role of a program at the gateway.
const CLIENT: &str = "client";

pub fn status(zones: &[ZoneView], now_ms: i64) -> Page {
    let mut page = Page::new();
    for zone in zones {
        if !page.is_empty() {
            page.blank();
        }
        page.append(one(zone, now_ms));
    }
    if zones.is_empty() {
        page.push(Line::new().faint("no repository is set up here yet"));
        page.because("try", "skep act \"…\" in a git repository, or skep init");
    }
    page
}

fn one(zone: &ZoneView, now_ms: i64) -> Page {
    let mut root = Node::new(Line::new().plain("repository ").name(format!("@{}", zone.branch)).faint(" (local)  ").faint(&zone.path));
    // A program that asked models and ended is history: `skep ps` has it.
    let here = |process: &&ProcView| process.role != CLIENT || process.state.alive();
    for process in zone.processes.iter().filter(here) {
        // A replay that is over was a check, told where it was asked for; `skep list tasks` has it.
        let mine = zone.tasks.iter().filter(|task| task.pid == process.pid && task.state != TaskStatus::Queued && task.differs.is_none());
        let ended = mine.clone().filter(|task| task.state.ended()).count();
        let shown: Vec<_> = mine
            .scan(0, |seen, task| {
                *seen += usize::from(task.state.ended());
                Some((!task.state.ended() || *seen + ENDED_SHOWN > ended, task))
            })
            .filter_map(|(show, task)| show.then_some(task))
            .collect();
        // Whoever works names what runs; else what it waits with.
        let runs = shown.iter().find(|task| task.state == TaskStatus::Running).or(shown.iter().find(|task| !task.state.at_rest()));
        let head = process::mark(process.state).strong(&process.name).plain("  ");
        let head = match runs {
            Some(task) => head.name(task.task.to_string()).plain(" ").join(task::quoted(&task.prompt)),
            None => head.plain(process::word(process.state)),
        };
        let mut node = Node::new(head).apart();
        if process.starts_afresh {
            node = node.under(Node::new(Line::new().faint("series  ").plain("none").faint(task::NO_SERIES)));
        }
        for view in shown {
            let mut entry = task::entry(view, now_ms);
            if let Some(wait) = &view.waits {
                entry = entry.under(Node::new(Line::new().faint("next  ").plain(remedy::next_step(&wait.remedy))));
            }
            // What a person has to do, or may have forgotten: work that is kept of a task that came to nothing.
            let is_left = matches!(view.state, TaskStatus::Failed | TaskStatus::Cancelled) && view.kept.is_some();
            if (view.state == TaskStatus::Stopped || is_left)
                && let Some(step) = task::next_step(view)
            {
                entry = entry.under(Node::new(Line::new().faint("next  ").plain(step)));
            }
            if let Some(summary) = view.summary.as_ref().filter(|summary| !summary.trim().is_empty()) {
                entry = entry.under(Node::new(Line::new().faint("summary  ").plain(summary)));
            }
            node = node.under(entry);
        }
        root = root.under(node);
    }
    // What the operator left open belongs to no process of the zone.
    let own = zone.tasks.iter().filter(|task| !task.state.ended() && task.state != TaskStatus::Queued);
    let own: Vec<_> = own.filter(|task| zone.processes.iter().all(|process| process.pid != task.pid)).collect();
    if let Some(first) = own.first() {
        let mut node = Node::new(Line::new().faint("○ ").strong(&first.process).faint("  your own calls")).apart();
        node.below = own.iter().map(|view| task::entry(view, now_ms)).collect();
        root = root.under(node);
    }
    let queued: Vec<_> = zone.tasks.iter().filter(|task| task.state == TaskStatus::Queued).collect();
    let mut queue = Node::new(Line::new().plain("queue ").plain(plural(queued.len() as u64, "task"))).apart();
    queue.below = queued.iter().map(|view| task::entry(view, now_ms)).collect();
    root = root.under(queue);
    let mut page = tree(&root);
    page.append(task::going(&zone.tasks, now_ms));
    page.append(zone.coverage.as_ref().map(debt).unwrap_or_default());
    if zone.drift {
        page.push(Line::new().wait("◍ ").plain("the project's policy files differ from what is in force"));
        page.because("fix", "look at the difference with `skep trust`");
    }
    page
}

/// What is owed in tests, where something is.
pub fn debt(coverage: &CoverageView) -> Page {
    let mut page = Page::new();
    if coverage.debt == 0 && !coverage.locked {
        return page;
    }
    let fallen = format!("coverage is {}, {} below its baseline", percent(coverage.now), percent(coverage.debt));
    page.push(Line::new().wait("◍ ").plain(fallen).faint(format!("  since {}", coverage.task)));
    let of = |figure: Option<u64>| figure.map_or_else(|| "none".to_owned(), percent);
    for file in coverage.files.iter().filter(|file| file.after.unwrap_or(0) < file.before.unwrap_or(10_000)).take(FILES_SHOWN) {
        page.push(Line::new().plain("  ").name(&file.path).faint(format!("  {} to {}", of(file.before), of(file.after))));
    }
    if coverage.locked {
        page.because("why", "explore and debug mode are locked: it fell too far without tests");
        page.because("fix", "skep act \"…\" --discipline strict, with tests that reach these files");
    }
    page
}

/// `skep init`.
pub fn opened(init: &ZoneInitResult) -> Page {
    let mut page = Page::new();
    page.blank();
    if init.ready {
        let process = init.process.as_deref().unwrap_or("nobody");
        page.push(Line::new().good("✓ ").plain("init ").name(format!("@{}", init.branch)).plain(" → ").strong(process));
        for file in &init.created {
            page.push(Line::new().faint("  wrote ").plain(file));
        }
        page.push(Line::new().faint(format!("  policy version {} is in force", init.policy_version)));
    } else {
        page.push(Line::new().wait("◍ ").plain("init ").name(format!("@{}", init.branch)).plain(" waits for your trust"));
        page.because("why", "the repository brings its own policy files, and files in a project are only proposals");
        page.because("fix", "read them, then run `skep trust`");
    }
    page
}

/// What `skep trust` shows before it asks.
pub fn proposed(trust: &ZoneTrustResult) -> Page {
    let mut page = Page::new();
    page.blank();
    if !trust.changed {
        page.push(Line::new().good("✓ ").plain(format!("nothing to trust: version {} is what the project proposes", trust.version)));
        return page;
    }
    page.push(Line::new().strong("the project proposes this policy").faint(format!("  {}", short(&trust.hash))));
    page.append(super::diff::unified(&trust.diff));
    page
}

/// What `skep trust` says after it is in force.
pub fn trusted(trust: &ZoneTrustResult) -> Page {
    let line = Line::new().good("✓ ").plain(format!("policy version {} is in force", trust.version));
    Page(vec![line.add(Tone::Faint, format!("  {}", short(&trust.hash)))])
}

/// What `skep trust --home` shows before it asks.
pub fn proposed_home(trust: &PolicyHomeResult) -> Page {
    let mut page = Page::new();
    page.blank();
    if !trust.changed {
        let what = if trust.version == 0 { "there is none".to_owned() } else { format!("version {} is what it says", trust.version) };
        page.push(Line::new().good("✓ ").plain("nothing to trust in ").name(&trust.file).plain(format!(": {what}")));
        return page;
    }
    page.push(Line::new().strong("this would hold in every project").faint(format!("  {}", short(&trust.hash))));
    page.append(super::diff::unified(&trust.diff));
    page
}

/// What `skep trust --home` says after it is in force.
pub fn trusted_home(trust: &PolicyHomeResult) -> Page {
    let line = Line::new().good("✓ ").plain(format!("version {} of your own policy is in force in every project", trust.version));
    Page(vec![line.add(Tone::Faint, format!("  {}", short(&trust.hash)))])
}

pub fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{ProcessState, ZoneId};

    #[test]
    fn a_zone_shows_its_processes_and_its_queue() {
        let mut done = task::tests::task(1, TaskStatus::Done);
        done.summary = Some("created src/".into());
        let mut foreman = process::tests::process(3, Some(1), "worker.1", ProcessState::Running);
        foreman.zone = Some(ZoneId(1));
        let mut zone = ZoneView {
            zone: ZoneId(1),
            site: None,
            path: "/p".into(),
            branch: "main".into(),
            policy_version: 1,
            drift: false,
            processes: vec![foreman],
            tasks: vec![done, task::tests::task(2, TaskStatus::Parked), task::tests::task(3, TaskStatus::Queued)],
            coverage: None,
        };
        let expected = "\
repository @main (local)  /p
│
├─ ● worker.1  task-2 \"implement auth\"
│  ├─ ✓ task-1  done           1s ago  \"implement auth\"
│  │  └─ summary  created src/
│  └─ ◍ task-2  waits for r-3  5s ago  \"implement auth\"
│
└─ queue 1 task
   └─ ◌ task-3  queued         5s ago  \"implement auth\"
";
        assert_eq!(status(std::slice::from_ref(&zone), 5_000).render(false, None), expected);
        // The header names what runs, also where an older task still waits.
        zone.tasks.push(wire::method::task::TaskView { prompt: "write docs\nfor all".into(), ..task::tests::task(4, TaskStatus::Running) });
        let text = status(std::slice::from_ref(&zone), 5_000).render(false, Some(80));
        assert!(text.contains("├─ ● worker.1  task-4 \"write docs …\"\n"), "{text}");
        zone.tasks.pop();
        assert!(!text.contains("series"), "{text}");
        zone.processes[0].starts_afresh = true;
        let text = status(std::slice::from_ref(&zone), 5_000).render(false, None);
        assert!(text.contains("│  ├─ series  none  it goes on with no conversation: each turn begins anew\n"), "{text}");
        zone.drift = true;
        zone.tasks[1].pid = wire::Pid::OPERATOR;
        zone.tasks[1].process = "operator".into();
        let text = status(std::slice::from_ref(&zone), 5_000).render(false, None);
        assert!(text.contains("├─ ○ operator  your own calls\n│  └─ ◍ task-2"), "{text}");
        assert!(status(&[zone], 5_000).render(false, None).ends_with("  ↳ fix  look at the difference with `skep trust`\n"));
    }

    #[test]
    fn only_the_newest_ended_tasks_are_shown() {
        let zone = ZoneView {
            zone: ZoneId(1),
            site: None,
            path: "/p".into(),
            branch: "main".into(),
            policy_version: 1,
            drift: false,
            processes: vec![process::tests::process(3, Some(1), "worker.1", ProcessState::Idle)],
            tasks: (1..=6).map(|id| task::tests::task(id, TaskStatus::Done)).collect(),
            coverage: None,
        };
        let text = status(&[zone], 5_000).render(false, None);
        assert!(!text.contains("task-3") && text.contains("task-4") && text.contains("task-6"), "{text}");
        assert!(text.contains("○ worker.1  idle") && text.contains("queue 0 tasks"));
    }

    #[test]
    fn debt_is_shown_with_its_files_and_none_is_not() {
        let file = |path: &str, before, after| wire::FileCoverageMove { path: path.into(), before, after };
        let owed = CoverageView {
            baseline: 9_000,
            now: 8_366,
            covered: 8_366,
            total: 10_000,
            debt: 634,
            locked: true,
            task: wire::TaskId(7),
            files: vec![
                file("src/a.rs", Some(10_000), Some(4_000)),
                file("src/new.rs", None, Some(0)),
                file("src/b.rs", Some(1), Some(9_000)),
            ],
        };
        let expected = "\
◍ coverage is 83.66 %, 6.34 % below its baseline  since task-7
  src/a.rs  100.00 % to 40.00 %
  src/new.rs  none to 0.00 %
  ↳ why  explore and debug mode are locked: it fell too far without tests
  ↳ fix  skep act \"…\" --discipline strict, with tests that reach these files
";
        assert_eq!(debt(&owed).render(false, None), expected);
        let warned = CoverageView { locked: false, ..owed.clone() };
        assert!(!debt(&warned).render(false, None).contains("locked"));
        assert!(debt(&CoverageView { debt: 0, ..warned }).is_empty(), "nothing is owed");
    }
}
