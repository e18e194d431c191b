//! What others decide about a process that crashed: its parent, or a person.
//!
//! **Invariant.** Until somebody decides it waits, also across kernels; a no ends it, and a yes starts it again. One crash is one question.

use crate::{EscalationOrder, Tree};
use std::collections::BTreeMap;
use std::sync::Arc;
use world::{Escalation, EscalationId, Pid, ProcessExit, Severity, Stop, World};

/// What is said of the answers with a question, which is how such trouble is known again.
pub(crate) const ANSWERS: &str = "answers";
/// Answers that end a process. Every other lets it go on.
const ENDS: [&str; 8] = ["no", "end", "ended", "stop", "kill", "drop", "leave", "terminate"];

impl Tree {
    /// Asks those above a process what becomes of it.
    pub(crate) fn ask_what_to_do(self: &Arc<Self>, pid: Pid, issue: String) {
        let me = Arc::clone(self);
        tokio::spawn(async move {
            let mut stopping = me.stopping.subscribe();
            let decided = tokio::select! {
                decided = me.decision(pid, issue) => decided,
                _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
            };
            let done = match decided {
                // Somebody acted meanwhile.
                Ok(None) => Ok(()),
                Ok(Some(true)) => me.restart(pid, "decision").await,
                Ok(Some(false)) => {
                    let exit = ProcessExit { code: Some(1), ..ProcessExit::default() };
                    me.end_gone(pid, "it crashed, and was not to be started again", exit).await
                }
                Err(stop) => {
                    world::log!("skep: nobody decides about process {pid}: {stop}");
                    Ok(())
                }
            };
            if let Err(fault) = done {
                world::log!("skep: what was decided about process {pid} was not done: {fault}");
            }
        });
    }

    /// True: it goes on. `None` where that is settled without an answer.
    async fn decision(&self, pid: Pid, issue: String) -> Result<Option<bool>, Stop> {
        let raised = match self.ledger.look(|world| asked_before(world, pid)) {
            Some(raised) => raised,
            None => {
                let error =
                    self.ledger.look(|world| world.processes.get(&pid).and_then(|process| process.run.as_ref()?.last_error.clone()));
                let context = BTreeMap::from([
                    ("pid".to_owned(), pid.to_string()),
                    ("error".to_owned(), error.unwrap_or_default()),
                    (ANSWERS.to_owned(), "restart, end".to_owned()),
                ]);
                let order = EscalationOrder { issue, severity: Severity::Error, context, auto: true };
                self.escalate(pid, order).await?.escalation
            }
        };
        let answer = self.until(|world| {
            let is_settled = !world.processes.get(&pid).is_some_and(|process| process.state.alive() && crate::supervise::is_down(process));
            let answer =
                world.escalations.get(&raised).map(|escalation| escalation.handled.as_ref().map(|handled| handled.response.clone()));
            match (is_settled, answer) {
                (true, _) | (_, None) => Some(None),
                (_, Some(Some(response))) => Some(Some(response)),
                (_, Some(None)) => None,
            }
        });
        Ok(answer.await.map(|response| goes_on(&response)))
    }

    /// Tells those above a process of trouble, without waiting for what they do.
    pub(crate) fn tell_above(&self, pid: Pid, issue: &str) {
        let Some(me) = self.me.upgrade() else { return };
        // In the name of the process; of one that is gone, the next above it.
        let above = self.ledger.look(|world| world.nearest_live_ancestor(pid)).filter(|above| *above != Pid::KERNEL);
        let by = above.unwrap_or(Pid::OPERATOR);
        let order = EscalationOrder { issue: issue.to_owned(), severity: Severity::Error, context: BTreeMap::new(), auto: true };
        tokio::spawn(async move {
            if let Err(stop) = me.escalate(by, order).await {
                world::log!("skep: trouble of process {pid} reached nobody: {stop}");
            }
        });
    }
}

/// The question about the last crash of a process, if an earlier kernel asked it.
fn asked_before(world: &World, pid: Pid) -> Option<EscalationId> {
    let crashed_ms = *world.processes.get(&pid)?.run.as_ref()?.crashes_ms.last()?;
    let is_about = |one: &&Escalation| one.from == pid && one.raised_ms >= crashed_ms && one.context.contains_key(ANSWERS);
    world.escalations.values().rfind(is_about).map(|one| one.id)
}

fn goes_on(response: &str) -> bool {
    let first = response.trim().split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_ascii_lowercase();
    !ENDS.contains(&first.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_no_ends_it_and_everything_else_lets_it_go_on() {
        for no in ["no", "No, leave it", "end it", " stop", "kill"] {
            assert!(!goes_on(no), "{no}");
        }
        for yes in ["", "yes", "restart", "Restart it", "try again", "noted, restart"] {
            assert!(goes_on(yes), "{yes}");
        }
    }
}
