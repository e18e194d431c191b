//! The queue of each worker.

use super::{Line, Page, task};
use wire::method::queue::{QueueListResult, QueueView};
use wire::method::task::{TaskStatus, TaskView};

pub fn list(result: &QueueListResult) -> Page {
    let mut page = Page::new();
    for queue in &result.queues {
        if !page.is_empty() {
            page.blank();
        }
        page.append(one(queue, &result.branch));
    }
    page
}

fn one(queue: &QueueView, branch: &str) -> Page {
    let head = Line::new().strong(&queue.worker).plain(" (").name(format!("@{branch}")).plain(")");
    let mut page = Page(vec![if queue.paused { head.wait("  paused") } else { head }]);
    let rows = queue.tasks.iter().zip(1..).map(|(view, number)| {
        vec![
            Line::new().plain(format!("  {number}.")),
            Line::new().plain("[").join(place(view)).plain("]"),
            Line::new().name(view.task.to_string()),
            task::quoted(&view.prompt),
        ]
    });
    page.append(super::table(rows.collect()));
    if queue.tasks.is_empty() {
        page.push(Line::new().faint("  nothing to do"));
    }
    if queue.paused {
        page.because("next", &format!("skep queue resume --who {}", queue.worker));
    }
    page
}

fn place(view: &TaskView) -> Line {
    match view.state {
        TaskStatus::Queued if view.paused_for.is_none() && view.after.is_empty() => {
            if view.priority > 0 {
                Line::new().plain("priority")
            } else {
                Line::new().faint("queued")
            }
        }
        TaskStatus::Queued => task::stand(&TaskView { priority: 0, ..view.clone() }),
        _ => Line::new().name("active"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Pid, TaskId};

    #[test]
    fn a_queue_is_numbered_from_what_is_worked_on() {
        let view = |id, state| task::tests::task(id, state);
        let mut tasks =
            vec![view(3, TaskStatus::Running), view(9, TaskStatus::Queued), view(4, TaskStatus::Queued), view(5, TaskStatus::Queued)];
        tasks[1].priority = 1;
        tasks[3].after = vec![TaskId(4)];
        let queue = QueueView { worker: "worker.1".into(), pid: Pid(3), paused: false, tasks };
        let mut result = QueueListResult { branch: "main".into(), queues: vec![queue] };
        let expected = "\
worker.1 (@main)
  1.  [active]                      task-3  \"implement auth\"
  2.  [priority]                    task-9  \"implement auth\"
  3.  [queued]                      task-4  \"implement auth\"
  4.  [waits until task-4 is done]  task-5  \"implement auth\"
";
        assert_eq!(list(&result).render(false, None), expected);
        result.queues[0] = QueueView { paused: true, tasks: Vec::new(), ..result.queues[0].clone() };
        assert_eq!(
            list(&result).render(false, None),
            "worker.1 (@main)  paused\n  nothing to do\n  ↳ next skep queue resume --who worker.1\n"
        );
    }
}
