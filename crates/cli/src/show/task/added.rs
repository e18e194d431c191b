//! What `act` and `ask` say at once.

use crate::show::{Line, Page};
use wire::method::task::TaskAddResult;

pub fn added(added: &TaskAddResult) -> Page {
    let mut page = Page::new();
    page.blank();
    if added.initialised {
        page.push(Line::new().good("✓ ").plain("init ").name(format!("@{}", added.branch)).plain(" → ").strong(&added.process));
    }
    if added.enrolled {
        page.push(Line::new().good("✓ ").plain("enrolled ").strong(&added.process));
    }
    let mut line = Line::new().good("✓ ").name(added.task.to_string()).plain(" → ").strong(&added.process);
    line = match &added.skill {
        Some(skill) => line.plain(format!(" (skill {skill})")),
        None => line.plain(" (").name(format!("@{}", added.branch)).plain(")"),
    };
    if added.prioritized {
        line = line.plain(" [priority]");
    }
    if !added.after.is_empty() {
        let after: Vec<String> = added.after.iter().map(ToString::to_string).collect();
        line = line.plain(", when ").name(after.join(", ")).plain(if after.len() == 1 { " is done" } else { " are done" });
    } else if let Some(behind) = added.behind {
        line = line.plain(", queued behind ").name(behind.to_string());
    }
    page.push(line);
    if let Some(first) = added.interrupted {
        page.push(Line::new().wait("◍ ").name(first.to_string()).plain(" is paused, and goes on after it"));
    }
    if added.queue_paused {
        page.push(Line::new().wait("◍ ").plain("the queue of ").strong(&added.process).plain(" is paused"));
        page.because("fix", &format!("skep queue resume --who {}", added.process));
    }
    if added.drifts {
        page.push(Line::new().wait("◍ ").plain("the project's policy files changed; the version that you trusted is in force"));
        page.because("fix", "skep trust");
    }
    if let Some((provider, model)) = added.unlisted.as_deref().and_then(|target| target.split_once('/')) {
        let line = format!("`{provider}` does not list its models: whether it has `{model}` shows at the first request");
        page.push(Line::new().wait("◍ ").plain(line));
    }
    page
}

/// The same for whoever does not wait for its end, with the next step.
pub fn queued(new: &TaskAddResult) -> Page {
    let mut page = added(new);
    page.because("next", &format!("skep watch {}", new.task));
    if new.behind.is_some() && new.after.is_empty() {
        page.because("or", "skep act --new has another worker do it at once");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::task::{stand, tests::task};
    use wire::TaskId;
    use wire::method::task::TaskStatus;

    fn result() -> TaskAddResult {
        TaskAddResult {
            task: TaskId(1),
            process: "worker.1".into(),
            branch: "feature-auth".into(),
            initialised: false,
            drifts: false,
            behind: None,
            unlisted: None,
            enrolled: false,
            skill: None,
            after: Vec::new(),
            prioritized: false,
            interrupted: None,
            queue_paused: false,
        }
    }

    #[test]
    fn act_prints_the_two_lines_of_the_contract() {
        let new = TaskAddResult { initialised: true, ..result() };
        assert_eq!(added(&new).render(false, None), "\n✓ init @feature-auth → worker.1\n✓ task-1 → worker.1 (@feature-auth)\n");
        assert_eq!(
            added(&result()).render(true, None),
            "\n\x1b[32m✓ \x1b[0m\x1b[36mtask-1\x1b[0m → \x1b[1mworker.1\x1b[0m (\x1b[36m@feature-auth\x1b[0m)\n"
        );
        let enrolled = TaskAddResult { enrolled: true, process: "researcher.1".into(), ..result() };
        assert_eq!(added(&enrolled).render(false, None), "\n✓ enrolled researcher.1\n✓ task-1 → researcher.1 (@feature-auth)\n");
        let skilled = TaskAddResult { skill: Some("lint".into()), ..result() };
        assert_eq!(added(&skilled).render(false, None), "\n✓ task-1 → worker.1 (skill lint)\n");
        let first = TaskAddResult { prioritized: true, behind: Some(TaskId(7)), ..result() };
        assert_eq!(added(&first).render(false, None), "\n✓ task-1 → worker.1 (@feature-auth) [priority], queued behind task-7\n");
        let disrupts = TaskAddResult { interrupted: Some(TaskId(7)), queue_paused: true, ..result() };
        let told = added(&disrupts).render(false, None);
        assert!(told.contains("◍ task-7 is paused, and goes on after it\n") && told.contains("skep queue resume --who worker.1"), "{told}");
        let later = TaskAddResult { after: vec![TaskId(7), TaskId(8)], behind: Some(TaskId(7)), ..result() };
        assert!(added(&later).render(false, None).contains("(@feature-auth), when task-7, task-8 are done\n"));
    }

    #[test]
    fn what_waits_in_the_queue_says_for_whom() {
        let new = TaskAddResult { task: TaskId(14), branch: "main".into(), behind: Some(TaskId(13)), ..result() };
        let expected = "\n✓ task-14 → worker.1 (@main), queued behind task-13\n  ↳ next skep watch task-14\n  \
                        ↳ or   skep act --new has another worker do it at once\n";
        assert_eq!(queued(&new).render(false, None), expected);
        let mut waits = task(14, TaskStatus::Queued);
        waits.behind = Some(TaskId(13));
        assert_eq!(stand(&waits).render(false), "queued behind task-13");
        waits.priority = 2;
        assert_eq!(stand(&waits).render(false), "queued behind task-13 [priority]");
        waits.after = vec![TaskId(3)];
        assert_eq!(stand(&waits).render(false), "waits until task-3 is done [priority]");
        waits.paused_for = Some(TaskId(15));
        assert_eq!(stand(&waits).render(false), "paused for task-15");
    }
}
