//! The process tree.

use super::measure::{ago, bytes, count, plural};
use super::{Line, Node, Page, Tone, tree};
use wire::method::process::ProcView;
use wire::{NetUse, ProcessState};

pub fn mark(state: ProcessState) -> Line {
    let (tone, mark) = match state {
        ProcessState::Idle => (Tone::Faint, "○"),
        ProcessState::Running => (Tone::Good, "●"),
        ProcessState::Paused => (Tone::Wait, "◍"),
        ProcessState::Zombie => (Tone::Faint, "✓"),
        ProcessState::Dead => (Tone::Bad, "✗"),
    };
    Line::new().add(tone, mark).plain(" ")
}

/// `skep ps`. A process whose parent is not listed stands at the top, so that none is lost.
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
            let zone = process.zone.map(|zone| zone.to_string());
            let mut node = Node::new(mark(process.state).strong(&process.name))
                .cell(Line::new().faint(format!("pid {}", process.pid)))
                .cell(Line::new().plain(process.state.as_str()))
                .cell(Line::new().name(task.as_deref().unwrap_or("—")))
                .cell(Line::new().faint(zone.as_deref().unwrap_or("—")))
                .cell(Line::new().faint(calls))
                .cell(Line::new().faint(format!("started {}", ago(process.started_ms, now_ms))));
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
pub(super) mod tests {
    use super::*;
    use wire::{Pid, TaskId, ZoneId};

    pub(crate) fn process(pid: u64, parent: Option<u64>, name: &str, state: ProcessState) -> ProcView {
        ProcView {
            pid: Pid(pid),
            parent: parent.map(Pid),
            name: name.into(),
            role: "foreman".into(),
            zone: None,
            state,
            calls_made: pid,
            calls_left: None,
            task: None,
            started_ms: 0,
            net: wire::NetUse::default(),
        }
    }

    #[test]
    fn the_tree_hangs_under_the_kernel() {
        let mut foreman = process(3, Some(1), "foreman.1", ProcessState::Running);
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
├─ ○ operator     pid 2  idle     —       —       2 calls              started 5s ago
└─ ● foreman.1    pid 3  running  task-7  zone-1  3 calls, 1,000 left  started 5s ago  3 requests, 900 B out, 1.5 MB in
   └─ ◍ helper.1  pid 4  paused   —       —       4 calls              started 5s ago
";
        assert_eq!(list(&all, 5_000).render(false, None), expected);
    }

    #[test]
    fn an_orphan_is_listed_and_a_loop_ends() {
        assert!(list(&[process(9, Some(8), "orphan", ProcessState::Dead)], 0).render(false, None).starts_with("✗ orphan"));
        let odd = [process(1, Some(1), "self", ProcessState::Idle)];
        assert!(list(&odd, 0).is_empty());
    }
}
