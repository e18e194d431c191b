//! Tells a person that something waits: a command of the operator's own, with the text on its standard input.
//!
//! `$SKEP_HOME/config.yml` names it; a project cannot. It runs outside any room as the operator, so it gets no text in its arguments.

use ledger::{Ledger, name_of};
use models::Wait;
use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use world::budget::WARN_PERCENT;
use world::{Pid, ReviewId, ReviewState, World};

/// A notifier that hangs is none.
const NOTIFY_MS_MAX: u64 = 10_000;

/// What was told already.
struct Told {
    review: Option<ReviewId>,
    waiting: BTreeSet<String>,
    nearly: BTreeSet<String>,
}

impl Told {
    /// All there is now: nobody is told of what waited before there was anybody to tell.
    fn all(ledger: &Ledger, waits: &[Wait]) -> Told {
        let review = ledger.look(|world| world.reviews.keys().last().copied());
        Told { review, waiting: waiting(ledger, waits), nearly: ledger.look(warned) }
    }
}

/// Tells each thing once, as long as there is a command to tell it with.
#[derive(Default)]
pub struct Notifier {
    told: Option<Told>,
}

impl Notifier {
    /// Tells of what came since the last time: questions, requests that wait for more of a budget, budgets that are nearly spent. Without a
    /// command nobody is told, and what comes meanwhile is never told.
    pub fn tell_new(&mut self, command: Option<&[String]>, ledger: &Ledger, waits: &[Wait]) {
        match command {
            Some(command) => tell_new(ledger, waits, command, self.told.get_or_insert_with(|| Told::all(ledger, waits))),
            None => self.told = None,
        }
    }
}

/// Tells of what came since the last time.
fn tell_new(ledger: &Ledger, waits: &[Wait], command: &[String], told: &mut Told) {
    let (waits, warned) = (waiting(ledger, waits), ledger.look(warned));
    for text in waits.difference(&told.waiting).chain(warned.difference(&told.nearly)) {
        tokio::spawn(tell(command.to_vec(), visible(text)));
    }
    let fresh: Vec<(ReviewId, String)> = ledger.look(|world| {
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
fn waiting(ledger: &Ledger, waits: &[Wait]) -> BTreeSet<String> {
    ledger.look(|world| {
        let text = |wait: &Wait| {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_odd_reaches_a_notifier() {
        assert_eq!(visible("a\u{1b}[31mb\u{202e}c"), "a\u{fffd}[31mb\u{fffd}c");
    }
}
