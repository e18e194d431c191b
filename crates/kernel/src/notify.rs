//! Tells a person that something waits: a command of the operator's own, with the text on its standard input.
//!
//! `$SKEP_HOME/config.yml` names it; a project cannot. It runs outside any room as the operator, so it gets no text in its arguments.

use crate::Kernel;
use host::ReviewSettings;
use ledger::name_of;
use std::collections::BTreeSet;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use world::budget::WARN_PERCENT;
use world::event::ReviewAnswered;
use world::{Answer, Event, Pid, ReviewId, ReviewState, World};

/// A notifier that hangs is none.
const NOTIFY_MS_MAX: u64 = 10_000;
const LOOK_MS: u64 = 200;

/// What was told already.
struct Told {
    review: Option<ReviewId>,
    waiting: BTreeSet<String>,
    nearly: BTreeSet<String>,
}

impl Told {
    /// All there is now: nobody is told of what waited before there was anybody to tell.
    fn all(kernel: &Kernel) -> Told {
        let review = kernel.ledger.look(|world| world.reviews.keys().last().copied());
        Told { review, waiting: waits(kernel), nearly: kernel.ledger.look(warned) }
    }
}

/// Follows the questions until the kernel stops.
pub(crate) async fn run(kernel: Arc<Kernel>) {
    let mut told = None;
    let mut follow = kernel.ledger.journal().follow();
    while !kernel.instance.stopping() {
        // As they are now: a change of the settings is a record, so it wakes this loop.
        let ReviewSettings { notify, deadline } = kernel.instance.settings.in_force().review.clone();
        let deadline = deadline.and_then(|text| policy::parse_duration(&text).ok());
        match &notify {
            Some(command) => tell_new(&kernel, command, told.get_or_insert_with(|| Told::all(&kernel))),
            None => told = None,
        }
        if let Some(deadline) = deadline {
            expire(&kernel, deadline).await;
        }
        // A deadline passes without any record, so the wait has an end of its own.
        let tick = tokio::time::sleep(Duration::from_millis(LOOK_MS));
        tokio::select! {
            changed = follow.changed() => if changed.is_err() { return },
            () = tick, if deadline.is_some() => {}
        }
    }
}

/// Tells of what came since the last time.
fn tell_new(kernel: &Kernel, command: &[String], told: &mut Told) {
    let (waits, warned) = (waits(kernel), kernel.ledger.look(warned));
    for text in waits.difference(&told.waiting).chain(warned.difference(&told.nearly)) {
        tokio::spawn(tell(command.to_vec(), visible(text)));
    }
    let fresh: Vec<(ReviewId, String)> = kernel.ledger.look(|world| {
        let open = world.reviews.values().filter(|review| Some(review.id) > told.review && review.state == ReviewState::Open);
        open.map(|review| (review.id, format!("{} asks: {} ({})", review.id, review.tool, review.reasons.join("; ")))).collect()
    });
    for (id, text) in fresh {
        told.review = Some(id);
        tokio::spawn(tell(command.to_vec(), visible(&text)));
    }
    (told.waiting, told.nearly) = (waits, warned);
}

/// Budgets at whose cap a request waits for a person.
fn waits(kernel: &Kernel) -> BTreeSet<String> {
    let waits = kernel.models.waits();
    kernel.ledger.look(|world| {
        let text = |wait: &crate::Wait| {
            let (of, what, pid) = (name_of(world, wait.of()), wait.what(), wait.pid);
            format!("{of} asks for more of its budget: a request waits for {what} of process {pid}; {}", wait.remedy())
        };
        waits.iter().map(text).collect()
    })
}

/// Budgets of which most is spent.
fn warned(world: &World) -> BTreeSet<String> {
    let accounts = world.books.accounts.iter();
    let text = |pid: Pid, what: &String| format!("{} has spent {WARN_PERCENT} % or more of its {what}", name_of(world, pid));
    accounts.flat_map(|(pid, account)| account.warned.iter().map(move |what| text(*pid, what))).collect()
}

/// Characters of an agent that nobody sees do not reach the notifier.
fn visible(text: &str) -> String {
    text.chars().map(|c| if tool::is_unseen(c) { '\u{fffd}' } else { c }).collect()
}

async fn tell(command: Vec<String>, text: String) {
    let Some((program, arguments)) = command.split_first() else { return };
    let mut child = tokio::process::Command::new(program);
    child.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let told = async {
        let mut child = child.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(text.as_bytes()).await?;
            stdin.write_all(b"\n").await?;
        }
        child.wait().await
    };
    match tokio::time::timeout(Duration::from_millis(NOTIFY_MS_MAX), told).await {
        Ok(Ok(status)) if status.success() => {}
        Ok(Ok(status)) => world::log!("skep: `{program}` did not notify: {status}"),
        Ok(Err(error)) => world::log!("skep: `{program}` did not notify: {error}"),
        Err(_) => world::log!("skep: `{program}` did not notify within {} s", NOTIFY_MS_MAX / 1_000),
    }
}

/// Refuses questions that nobody answered in time.
async fn expire(kernel: &Kernel, deadline: Duration) {
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let over = i64::try_from(deadline.as_millis()).unwrap_or(i64::MAX);
    let pending = kernel.ledger.commit(|world, _| {
        let late =
            world.reviews.values().filter(|review| review.state == ReviewState::Open && now_ms.saturating_sub(review.asked_ms) >= over);
        let events: Vec<Event> = late
            .map(|review| {
                let (pid, task, reason) = (review.pid, review.task, Some("nobody answered in time".to_owned()));
                ReviewAnswered { pid, task, review: review.id, answer: Answer::Deny, by: "deadline".into(), reason, alternative: None }
                    .into()
            })
            .collect();
        let any = !events.is_empty();
        (events, any)
    });
    let refused = match pending {
        Ok(pending) => pending.durable().await,
        Err(fault) => Err(fault),
    };
    match refused {
        Ok(true) => kernel.tasks.wake(),
        Ok(false) => {}
        Err(fault) => world::log!("skep: a deadline could not be recorded: {fault}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_odd_reaches_a_notifier() {
        assert_eq!(visible("a\u{1b}[31mb\u{202e}c"), "a\u{fffd}[31mb\u{fffd}c");
    }
}
