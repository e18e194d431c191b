//! What records of others mean for the tree: a budget that comes to its end is told to those who spend it, a person's answer ends trouble.
//!
//! Follows the journal, and looks at it a moment after it grew: so many records cost one look.

use crate::Tree;
use crate::send::notice;
use journal::Filter;
use ledger::event_of;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use world::{Event, Fault, Pid};

/// How long records are gathered before anybody looks at them.
const GATHERED_FOR: Duration = Duration::from_millis(200);
const KINDS: [&str; 3] = ["budget.warned", "budget.asked", "review.answered"];

impl Tree {
    pub(crate) async fn heed(self: Arc<Self>) {
        let mut durable = self.ledger.journal().follow();
        let mut stopping = self.stopping.subscribe();
        let mut after = self.ledger.journal().head().seq;
        loop {
            tokio::select! {
                changed = durable.changed() => if changed.is_err() { return },
                _ = stopping.wait_for(|stops| *stops) => return,
            }
            tokio::select! {
                () = tokio::time::sleep(GATHERED_FOR) => {}
                _ = stopping.wait_for(|stops| *stops) => return,
            }
            let upto = *durable.borrow_and_update();
            match self.heed_between(after, upto).await {
                Ok(()) => after = after.max(upto),
                Err(fault) => world::log!("skep: what others recorded is not heeded: {fault}"),
            }
        }
    }

    /// Each record once: what is on disk already and comes after these is looked at next time.
    async fn heed_between(&self, after: u64, upto: u64) -> Result<(), Fault> {
        let kinds = KINDS.iter().map(|kind| (*kind).to_owned()).collect();
        let before_seq = Some(upto.saturating_add(1));
        let records = self.ledger.read(&Filter { after_seq: Some(after), before_seq, kinds, ..Filter::default() })?;
        let mut has_answers = false;
        for record in &records {
            match event_of(record)? {
                Event::ReviewAnswered(_) => has_answers = true,
                Event::BudgetWarned(warned) => {
                    let kind = if warned.used >= warned.cap { "budget_exceeded" } else { "budget_warning" };
                    let body = json!({ "pid": warned.pid, "what": warned.what, "used": warned.used, "cap": warned.cap });
                    let told = self.told_of_cap.lock().remove(&(warned.pid, warned.what));
                    self.broadcast(warned.pid, kind, &body, told).await?;
                }
                Event::BudgetAsked(asked) => {
                    let body = json!({ "pid": asked.of, "what": asked.what, "used": asked.used, "cap": asked.cap, "need": asked.need });
                    self.broadcast(asked.pid, "budget_exceeded", &body, None).await?;
                }
                _ => {}
            }
        }
        if has_answers && let Err(stop) = self.heed_answers().await {
            world::log!("skep: answers to escalations are not heeded: {stop}");
        }
        Ok(())
    }

    /// The kernel's word to a process of the tree and to those right below it, but to none who has it already.
    async fn broadcast(&self, to: Pid, kind: &str, body: &Value, told: Option<Pid>) -> Result<(), Fault> {
        let receivers = self.ledger.look(|world| {
            let own = world.processes.get(&to).filter(|process| process.program.is_some()).map(|process| process.pid);
            let all = own.into_iter().chain(world.live_children(to).map(|process| process.pid));
            all.filter(|pid| Some(*pid) != told).collect::<Vec<_>>()
        });
        for pid in receivers {
            let pending = self.ledger.commit(|world, now_ms| match notice(world, pid, kind, body.to_string().into_bytes(), now_ms) {
                Some((sent, arrival)) => (vec![sent.into()], Some(arrival)),
                None => (Vec::new(), None),
            })?;
            let arrival = pending.durable().await?;
            self.announce(arrival.as_slice());
        }
        Ok(())
    }
}
