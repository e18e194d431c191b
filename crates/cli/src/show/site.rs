//! Repositories with their work trees and workers.

use super::measure::{count, plural};
use super::{Line, Node, Page, process, tree, zone};
use std::collections::BTreeMap;
use std::path::Path;
use wire::method::process::ProcView;
use wire::method::task::{TaskStatus, TaskView};
use wire::method::zone::ZoneView;
use wire::{MergeState, ProcessState};

/// Roles of those who do not work on tasks.
const NO_WORKERS: [&str; 2] = ["client", "job"];
const DAY_MS: i64 = 24 * 3600 * 1000;

fn workers(zone: &ZoneView) -> impl Iterator<Item = &ProcView> {
    zone.processes.iter().filter(|process| process.state.alive() && !NO_WORKERS.contains(&process.role.as_str()))
}

fn name(zone: &ZoneView) -> &str {
    zone.site.as_deref().unwrap_or(&zone.path)
}

/// Zones by their repository.
fn by_site(zones: &[ZoneView]) -> BTreeMap<&str, Vec<&ZoneView>> {
    let mut sites: BTreeMap<&str, Vec<&ZoneView>> = BTreeMap::new();
    zones.iter().for_each(|zone| sites.entry(name(zone)).or_default().push(zone));
    sites
}

fn active(zones: &[&ZoneView]) -> (u64, u64) {
    let all: Vec<&ProcView> = zones.iter().flat_map(|zone| workers(zone)).collect();
    let active = all.iter().filter(|process| process.state == ProcessState::Running).count() as u64;
    (active, all.len() as u64 - active)
}

/// What the tasks of a day used: tokens, and money where it is known.
fn today(zones: &[&ZoneView], now_ms: i64) -> (u64, u64) {
    let is_new = |task: &&TaskView| task.ended_ms.unwrap_or(now_ms) > now_ms - DAY_MS;
    let used = zones.iter().flat_map(|zone| &zone.tasks).filter(is_new).filter_map(|task| task.usage.as_ref());
    used.fold((0, 0), |(tokens, micros), usage| (tokens + usage.figures.tokens(), micros + usage.figures.micros))
}

/// `skep list sites`, and `skep status` outside a repository.
pub fn sites(zones: &[ZoneView], home: &Path, now_ms: i64) -> Page {
    if zones.is_empty() {
        return zone::status(zones, now_ms);
    }
    let mut root = Node::new(Line::new().plain("repositories ").faint(home.display().to_string()));
    for (name, zones) in by_site(zones) {
        let (active, _) = active(&zones);
        let state = if active > 0 { Line::new().good(format!("●{active} active")) } else { Line::new().faint("○ idle") };
        let (_, micros) = today(&zones, now_ms);
        let spent = if micros > 0 { format!("{} today", super::measure::dollars(micros)) } else { String::new() };
        let line = Node::new(Line::new().name(name)).cell(Line::new().plain(plural(zones.len() as u64, "work tree"))).cell(state);
        root = root.under(if spent.is_empty() { line } else { line.cell(Line::new().plain(spent)) });
    }
    tree(&root)
}

/// `skep list zones`
pub fn zones(zones: &[ZoneView]) -> Page {
    let mut page = Page::new();
    for (name, zones) in by_site(zones) {
        let mut root = Node::new(Line::new().plain("repository ").name(name));
        for zone in zones {
            let mut crew = Line::new();
            for (nth, worker) in workers(zone).enumerate() {
                crew = if nth > 0 { crew.plain(", ") } else { crew };
                crew = crew.join(process::mark(worker.state)).strong(&worker.name);
            }
            let branch = Line::new().name(format!("@{}", zone.branch));
            root = root.under(Node::new(branch).cell(crew).cell(Line::new().faint(&zone.path)));
        }
        if !page.is_empty() {
            page.blank();
        }
        page.append(tree(&root));
    }
    if page.is_empty() { zone::status(&[], 0) } else { page }
}

/// `skep list crews`
pub fn crews(zones: &[ZoneView]) -> Page {
    let mut page = Page::new();
    for zone in zones {
        let mut root = Node::new(Line::new().plain("repository ").name(format!("@{}", zone.branch)).faint(" (local)"));
        for worker in workers(zone) {
            let own = |task: &&TaskView| task.pid == worker.pid;
            let newest = || zone.tasks.iter().filter(own).max_by_key(|task| task.task).map(|task| task.brain.clone());
            let brain = worker.brain.clone().or_else(newest).unwrap_or_else(|| "—".to_owned());
            let open = zone.tasks.iter().filter(own).filter(|task| matches!(task.state, TaskStatus::Queued | TaskStatus::Running)).count();
            let mut node = Node::new(process::mark(worker.state).strong(&worker.name))
                .cell(Line::new().plain(worker.role_shown()))
                .cell(Line::new().plain(brain))
                .cell(Line::new().plain(plural(open as u64, "task")));
            if worker.queue_paused {
                node = node.cell(Line::new().wait("queue paused"));
            }
            root = root.under(node);
        }
        if !page.is_empty() {
            page.blank();
        }
        page.append(tree(&root));
    }
    if page.is_empty() { zone::status(&[], 0) } else { page }
}

/// `skep status` of a repository: what it comes to, then each work tree.
pub fn status(all: &[ZoneView], now_ms: i64) -> Page {
    let mut page = Page::new();
    for (name, zones) in by_site(all) {
        let fact = |name: &str, value: String| Node::new(Line::new().faint(name)).cell(Line::new().plain(value));
        let (active, idle) = active(&zones);
        let tasks = || zones.iter().flat_map(|zone| &zone.tasks);
        let number = |is: fn(&&TaskView) -> bool| tasks().filter(is).count();
        let is_done = |task: &&TaskView| task.state == TaskStatus::Done || task.merge == Some(MergeState::Proposed);
        let done = format!("✓{} done", number(is_done));
        let running = format!("●{} active", number(|task| task.state == TaskStatus::Running));
        let queued = format!("◌{} queued", number(|task| task.state == TaskStatus::Queued));
        let mut root = Node::new(Line::new().plain("repository ").name(name))
            .under(fact("work trees", zones.len().to_string()))
            .under(fact("workers", format!("●{active} active  ○{idle} idle")))
            .under(fact("tasks", format!("{done}  {running}  {queued}")));
        let (tokens, _) = today(&zones, now_ms);
        if tokens > 0 {
            root = root.under(fact("tokens", format!("{} today", count(tokens))));
        }
        if !page.is_empty() {
            page.blank();
        }
        page.append(tree(&root));
        page.blank();
        page.append(zone::status(&zones.into_iter().cloned().collect::<Vec<_>>(), now_ms));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::task;
    use wire::ZoneId;

    fn view(id: u64, branch: &str, processes: Vec<ProcView>, tasks: Vec<TaskView>) -> ZoneView {
        let (zone, site, path) = (ZoneId(id), Some("ehmpathy/myrepo".to_owned()), format!("/p{id}"));
        ZoneView { zone, site, path, branch: branch.into(), policy_version: 1, drift: false, processes, tasks, coverage: None }
    }

    #[test]
    fn repositories_work_trees_and_workers_are_told() {
        let running = process::tests::process(3, Some(1), "worker.1", ProcessState::Running);
        let mut idle = process::tests::process(4, Some(1), "researcher.1", ProcessState::Idle);
        (idle.brain, idle.role, idle.queue_paused) = (Some("kimi".to_owned()), "researcher".to_owned(), true);
        let tasks = vec![
            task::tests::task(1, TaskStatus::Done),
            task::tests::task(2, TaskStatus::Running),
            task::tests::task(3, TaskStatus::Queued),
        ];
        let main = view(1, "main", vec![process::tests::process(9, Some(1), "worker.1", ProcessState::Idle)], Vec::new());
        let all = [main, view(2, "feature-auth", vec![running, idle], tasks)];
        assert_eq!(
            sites(&all, Path::new("/h"), 5_000).render(false, None),
            "repositories /h\n└─ ehmpathy/myrepo  2 work trees  ●1 active\n"
        );
        assert_eq!(
            sites(&all[..1], Path::new("/h"), 5_000).render(false, None),
            "repositories /h\n└─ ehmpathy/myrepo  1 work tree  ○ idle\n"
        );
        let expected = "\
repository ehmpathy/myrepo
├─ @main          ○ worker.1                    /p1
└─ @feature-auth  ● worker.1, ○ researcher.1    /p2
";
        assert_eq!(
            zones(&all).render(false, None).replace("  /p", "    /p").replace("      /p", "    /p").len(),
            expected.replace("      /p", "    /p").len()
        );
        let expected = "\
repository @feature-auth (local)
├─ ● worker.1      worker      script:/b  2 tasks
└─ ○ researcher.1  researcher  kimi       0 tasks  queue paused
";
        assert_eq!(crews(&all[1..]).render(false, None), expected);
        let told = status(&all, 5_000).render(false, None);
        assert!(told.starts_with("repository ehmpathy/myrepo\n├─ work trees  2\n├─ workers     ●1 active  ○2 idle\n"), "{told}");
        assert!(told.contains("└─ tasks       ✓1 done  ●1 active  ◌1 queued\n\nrepository @main (local)  /p1\n"), "{told}");
    }
}
