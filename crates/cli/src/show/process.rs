//! The process tree.

use super::measure::{ago, bytes, count, plural, repository};
use super::{Line, Node, Page, Tone, tree};
use wire::method::process::ProcView;
use wire::{NetUse, ProcessState};

pub fn mark(state: ProcessState) -> Line {
    let (tone, mark) = match state {
        ProcessState::Idle => (Tone::Faint, "○"),
        ProcessState::Running => (Tone::Good, "●"),
        ProcessState::Paused | ProcessState::Blocked => (Tone::Wait, "◍"),
        ProcessState::Sleeping => (Tone::Faint, "◌"),
        ProcessState::Zombie => (Tone::Faint, "✓"),
        ProcessState::Dead => (Tone::Bad, "✗"),
    };
    Line::new().add(tone, mark).plain(" ")
}

/// A state in the words of who does not know processes of Unix.
pub fn word(state: ProcessState) -> &'static str {
    match state {
        ProcessState::Zombie => "ended",
        ProcessState::Dead => "killed",
        state => state.as_str(),
    }
}

/// `skep ps --tree`. A process whose parent is not listed stands at the top, so that none is lost.
pub fn list(processes: &[ProcView], now_ms: i64) -> Page {
    let mut page = Page::new();
    let listed = |pid| processes.iter().any(|process| process.pid == pid);
    for root in processes.iter().filter(|process| !process.parent.is_some_and(listed)) {
        let mut node = Node::new(mark(root.state).strong(&root.name).faint(format!("  pid {}", root.pid)));
        node.below = below(processes, root, now_ms, processes.len());
        page.append(tree(&node));
    }
    page
}

/// `depth` ends a loop of parents, which no kernel makes and no client should hang on.
fn below(processes: &[ProcView], parent: &ProcView, now_ms: i64, depth: usize) -> Vec<Node> {
    if depth == 0 {
        return Vec::new();
    }
    let children = processes.iter().filter(|process| process.parent == Some(parent.pid));
    children
        .map(|process| {
            let calls = match process.calls_left {
                None => plural(process.calls_made, "call"),
                Some(left) => format!("{}, {} left", plural(process.calls_made, "call"), count(left)),
            };
            let task = process.task.map(|task| task.to_string());
            let zone = process.zone.map(repository);
            let mut zones = processes.iter().filter_map(|process| process.zone);
            let first = zones.next();
            let program = process.program.as_deref();
            let head = mark(process.state).strong(&process.name);
            let is_free = program.is_some_and(|program| !program.confined && !program.image.is_empty());
            let mut node = Node::new(if is_free { head.bad(" unconfined") } else { head })
                .cell(Line::new().faint(format!("pid {}", process.pid)))
                .cell(Line::new().plain(word(process.state)))
                .cell(Line::new().name(task.as_deref().unwrap_or("—")))
                .cell(Line::new().faint(calls))
                .cell(Line::new().faint(format!("started {}", ago(process.started_ms, now_ms))));
            // Of one alone nobody need be told.
            if zones.any(|zone| Some(zone) != first) {
                node = node.cell(Line::new().faint(zone.as_deref().unwrap_or("—")));
            }
            if process.net.requests > 0 {
                let NetUse { requests, up, down } = process.net;
                node = node.cell(Line::new().faint(format!("{}, {} out, {} in", plural(requests, "request"), bytes(up), bytes(down))));
            }
            node.below = below(processes, process, now_ms, depth - 1);
            node
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use wire::{Pid, TaskId, ZoneId};

    pub(crate) fn process(pid: u64, parent: Option<u64>, name: &str, state: ProcessState) -> ProcView {
        ProcView {
            pid: Pid(pid),
            parent: parent.map(Pid),
            name: name.into(),
            role: "foreman".into(),
            zone: None,
            repository: None,
            state,
            calls_made: pid,
            calls_left: None,
            task: None,
            started_ms: 0,
            net: wire::NetUse::default(),
            brain: None,
            queue_paused: false,
            starts_afresh: false,
            user: String::new(),
            program: None,
            tokens: 0,
            model: None,
            caps: Vec::new(),
        }
    }

    #[test]
    fn the_tree_hangs_under_the_kernel() {
        let mut foreman = process(3, Some(1), "worker.1", ProcessState::Running);
        foreman.zone = Some(ZoneId(1));
        foreman.task = Some(TaskId(7));
        foreman.calls_left = Some(1_000);
        foreman.net = NetUse { requests: 3, up: 900, down: 1_500_000 };
        let all = [
            process(1, None, "kernel", ProcessState::Running),
            process(2, Some(1), "operator", ProcessState::Idle),
            foreman,
            process(4, Some(3), "helper.1", ProcessState::Paused),
        ];
        let expected = "\
● kernel  pid 1
├─ ○ operator     pid 2  idle     —       2 calls              started 5s ago
└─ ● worker.1     pid 3  running  task-7  3 calls, 1,000 left  started 5s ago  3 requests, 900 B out, 1.5 MB in
   └─ ◍ helper.1  pid 4  paused   —       4 calls              started 5s ago
";
        assert_eq!(list(&all, 5_000).render(false, None), expected);
        // Where there are two repositories, each says which is its own.
        let mut other = process(5, Some(1), "worker.1", ProcessState::Idle);
        other.zone = Some(ZoneId(2));
        let all: Vec<ProcView> = all.into_iter().chain([other]).collect();
        let text = list(&all, 5_000).render(false, None);
        assert!(text.contains("started 5s ago  repository 1  3 requests") && text.contains("started 5s ago  repository 2\n"), "{text}");
    }

    #[test]
    fn an_orphan_is_listed_and_a_loop_ends() {
        assert!(list(&[process(9, Some(8), "orphan", ProcessState::Dead)], 0).render(false, None).starts_with("✗ orphan"));
        let odd = [process(1, Some(1), "self", ProcessState::Idle)];
        assert!(list(&odd, 0).is_empty());
    }
}
