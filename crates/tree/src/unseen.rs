//! Copies of messages that nobody gets, because he has more of them than anybody reads: counted, and told.

use crate::Tree;
use crate::send::notice;
use serde_json::json;
use std::time::Duration;
use world::event::RecordsDropped;
use world::{Fault, Pid};

/// How long they are counted before their number is told.
const COUNTED_FOR: Duration = Duration::from_secs(5);
/// What they are, in the record of their number.
const COPY: &str = "message.copy";
/// The kernel's word to who was to see them.
const TOLD: &str = "traffic_dropped";

impl Tree {
    /// One more that `above` does not see.
    pub(crate) fn count_unseen(&self, above: Pid) {
        let is_first = {
            let mut unseen = self.mail.unseen.lock();
            let is_first = unseen.is_empty();
            *unseen.entry(above).or_default() += 1;
            is_first
        };
        let me = self.me.clone();
        if is_first {
            tokio::spawn(async move {
                tokio::time::sleep(COUNTED_FOR).await;
                if let Some(tree) = me.upgrade() {
                    tree.tell_unseen().await;
                }
            });
        }
    }

    /// Records how many copies were dropped, and tells those who were to have them.
    pub(crate) async fn tell_unseen(&self) {
        let counts = std::mem::take(&mut *self.mail.unseen.lock());
        for (above, count) in counts {
            if let Err(fault) = self.tell_unseen_of(above, count).await {
                world::log!("skep: {count} messages that process {above} was to see are not counted: {fault}");
            }
        }
    }

    async fn tell_unseen_of(&self, above: Pid, count: u64) -> Result<(), Fault> {
        let pending = self.ledger.commit(|world, now_ms| {
            if !world.processes.get(&above).is_some_and(|process| process.state.alive()) {
                return (Vec::new(), None);
            }
            let dropped = RecordsDropped { pid: above, task: None, kind: COPY.into(), count };
            let told = notice(world, above, TOLD, json!({ "count": count }).to_string().into_bytes(), now_ms);
            let (sent, arrival) = told.unzip();
            (std::iter::once(dropped.into()).chain(sent.map(Into::into)).collect(), arrival)
        })?;
        let arrival = pending.durable().await?;
        self.announce(arrival.as_slice());
        Ok(())
    }
}
