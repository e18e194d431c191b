//! The end of a request: what it used goes into the books with the end of its call, in one commit.

use crate::Kernel;
use crate::call::{Entry, Request};
use crate::fault::Fault;
use gateway::{Bytes, Denial, Ended, Pass, Source, Trouble, Usage, Wish, Work};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;
use world::budget::lease::Share;
use world::event::{BudgetWarned, CallFinished, ModelUsed};
use world::{CallId, Event, Figures, World};

pub(super) struct ModelPass {
    kernel: Arc<Kernel>,
    request: Request,
    permit: Entry,
    provider: String,
    model: String,
    tier: &'static str,
    free: bool,
    /// It is answered from a tape and uses no model.
    replayed: bool,
    /// What the caller said, where that is recorded.
    asked: Option<Bytes>,
    reserved: (u64, u64),
    /// What is set aside with it, once its admission is on disk.
    share: Option<Share>,
    /// Its admission is not on disk and never will be: there is no such call.
    void: bool,
    start: Instant,
}

impl ModelPass {
    pub fn new(
        kernel: Arc<Kernel>,
        request: Request,
        permit: Entry,
        wish: &Wish<'_>,
        reserved: (u64, u64),
        share: Option<Share>,
        replayed: bool,
    ) -> ModelPass {
        let asked = kernel.models.record.then(|| wish.body.clone());
        ModelPass {
            kernel,
            request,
            permit,
            provider: wish.provider.to_owned(),
            model: wish.model.to_owned(),
            tier: wish.tier.as_str(),
            free: wish.free,
            replayed,
            asked,
            reserved,
            share,
            void: false,
            start: Instant::now(),
        }
    }

    /// Waits until the admission is on disk, and with it what was set aside.
    pub async fn admitted(&mut self) -> Result<(), Fault> {
        let recorded = self.permit.recorded(&self.kernel).await;
        self.void |= recorded.is_err();
        if let Some(share) = self.share.take().filter(|_| !self.void) {
            self.kernel.models.leases.add(&self.kernel.ledger, share);
        }
        recorded
    }

    async fn record(&mut self, end: Ended) -> Result<(), Fault> {
        // INVARIANT: without its admission there is no such call, and its number may by now be another's. What it cost is lost with its lease.
        if self.void {
            return Ok(());
        }
        self.admitted().await?;
        let Ended { status, metered, complete, sent, why, first_byte, bytes, answer } = end;
        let kernel = &self.kernel;
        let usage = metered.as_ref().filter(|_| !self.replayed).map(|metered| metered.usage).unwrap_or_default();
        let ok = complete && status.is_some_and(|status| (200..300).contains(&status));
        let refused = status.is_some_and(|status| !(200..300).contains(&status));
        let cost = if self.free { 0 } else { kernel.models.prices.cost(&self.provider, &self.model, &usage).micros };
        let reported = ok && usage.source == Source::Reported;
        // What nobody reported is charged as it was reserved; what a provider refused or never saw costs nothing.
        let (charged_tokens, charged_micros) = match (sent && !refused, reported) {
            (false, _) => (0, 0),
            (true, true) => (total(&usage), cost),
            (true, false) => self.reserved,
        };
        let mut notes = metered.map(|metered| metered.notes).unwrap_or_default();
        notes.extend(why.iter().map(|why| kernel.redactor.text(why).into_owned()));
        let keep = |bytes: Option<&[u8]>| {
            bytes.map(|bytes| kernel.ledger.keep(kernel.redactor.text(&String::from_utf8_lossy(bytes)).as_bytes())).transpose()
        };
        let (asked, answered) = (keep(self.asked.as_deref())?, keep(answer.as_deref())?);
        let figures = Figures {
            requests: 1,
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            reasoning: usage.reasoning,
            micros: if reported { cost } else { charged_micros },
            estimated: u64::from(charged_tokens > 0 && !reported),
        };
        let call = self.permit.call();
        let (pid, task) = (self.request.pid, self.request.task);
        let ms = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let used = ModelUsed {
            pid,
            task,
            call,
            provider: self.provider.clone(),
            model: self.model.clone(),
            tier: self.tier.to_owned(),
            figures,
            charged_tokens,
            charged_micros,
            status,
            first_byte_ms: first_byte.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            asked,
            answered,
            notes,
        };
        let output = json!({"status": status, "bytes": bytes, "complete": complete});
        let finished = CallFinished { pid, task, call, ok, output, blob: None, blob_bytes: 0, ms };
        let (tokens, micros) = self.reserved;
        let unspent = (tokens.saturating_sub(charged_tokens), micros.saturating_sub(charged_micros));
        let pending = kernel.ledger.commit(|world, _| {
            let lease = world.books.reserved.get(&call).and_then(|reserved| reserved.lease);
            let back = lease.map(|lease| Share { pid, lease, tokens: unspent.0, micros: unspent.1 });
            (events(world, call, used, finished), back)
        })?;
        if let Some(back) = pending.durable().await? {
            kernel.models.leases.add(&kernel.ledger, back);
        }
        kernel.ledger.journal().vault().delete(&call.to_string()).map_err(crate::ledger::fault)?;
        Ok(())
    }
}

fn total(usage: &Usage) -> u64 {
    [usage.input, usage.output, usage.cache_read, usage.cache_write].into_iter().fold(0, u64::saturating_add)
}

/// Nothing, if the call was settled as lost meanwhile; and a warning for each budget that this one brought near its end.
fn events(world: &World, call: CallId, used: ModelUsed, finished: CallFinished) -> Vec<Event> {
    if !world.calls.contains_key(&call) {
        return Vec::new();
    }
    let mut events = Vec::new();
    if world.books.reserved.contains_key(&call) {
        let of = used.task;
        for process in world.line(used.pid) {
            let Some(account) = world.books.accounts.get(&process.pid) else { continue };
            let mut after = account.clone();
            after.spent.micros = after.spent.micros.saturating_add(used.charged_micros);
            let tokens = after.spent.tokens.entry(used.tier.clone()).or_default();
            *tokens = tokens.saturating_add(used.charged_tokens);
            let warned = after.nearly().into_iter();
            events.extend(warned.map(|(what, used, cap)| Event::from(BudgetWarned { pid: process.pid, task: of, what, used, cap })));
        }
        events.insert(0, used.into());
    }
    events.push(finished.into());
    events
}

impl Pass for ModelPass {
    fn recorded(&mut self) -> Work<'_, Result<(), Denial>> {
        Box::pin(async move { self.admitted().await.map_err(|fault| super::door::denial(Trouble::Upstream, fault.to_string())) })
    }

    fn settle(mut self: Box<Self>, end: Ended) -> Work<'static, ()> {
        Box::pin(async move {
            if let Err(fault) = self.record(end).await {
                // The call stays open; at the next boot it counts as lost, and what was reserved as spent.
                eprintln!("skep: the end of {} could not be recorded: {fault}", self.permit.call());
            }
        })
    }
}
