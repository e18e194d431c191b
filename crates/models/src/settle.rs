//! The end of a request: what it used goes into the books with the end of its call, in one commit.
//!
//! *Spent* is what the answer reported, or what is counted of what had come. What it may have cost beyond that is held: where its client
//! went away or its provider broke off, for nobody knows how far it got, and where the model thinks in secret. What the operator cancelled
//! is released.

use crate::Models;
use crate::admission::denial;
use crate::flight::FlightEntry;
use crate::permit::ModelPermit;
use gate::Request;
use gateway::price::Price;
use gateway::{BoxedFuture, Bytes, Denial, DenialKind, ExchangeOutcome, Metered, ModelRequest, Settlement, TokenUsage, UsageSource};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;
use world::Fault;
use world::budget::crash::Flight;
use world::budget::lease::Share;
use world::event::{BudgetWarned, CallFinished, ModelUsed};
use world::{CallId, CostParts, Ending, Event, UsageTotals, World};

pub(crate) struct ModelSettlement {
    models: Arc<Models>,
    request: Request,
    permit: ModelPermit,
    provider: String,
    model: String,
    tier: &'static str,
    /// `None` where nobody knows it.
    price: Option<Price>,
    /// What its input is by its size, for an answer that never came.
    unanswered: TokenUsage,
    /// The model may bill output that it does not stream.
    hides: bool,
    /// It is answered from a tape and uses no model.
    replayed: bool,
    /// What the caller said, where that is recorded.
    asked: Option<Bytes>,
    reserved: (u64, u64),
    /// What paid for it.
    lease: Option<CallId>,
    /// What is set aside with it, once its admission is on disk.
    share: Option<Share>,
    /// Its admission is not on disk and never will be: there is no such call.
    void: bool,
    place: FlightEntry,
    start: Instant,
}

/// How a request is paid for.
pub(crate) struct Paid {
    pub price: Option<Price>,
    pub reserved: (u64, u64),
    pub lease: Option<CallId>,
    pub share: Option<Share>,
}

/// What a request cost, and what it may have cost beyond that: tokens and money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bill {
    charged: (u64, u64),
    held: (u64, u64),
    reported: bool,
}

impl ModelSettlement {
    pub fn new(
        models: Arc<Models>,
        request: Request,
        permit: ModelPermit,
        model_request: &ModelRequest<'_>,
        paid: Paid,
        replayed: bool,
        place: FlightEntry,
    ) -> ModelSettlement {
        let asked = models.records_all().then(|| model_request.body.clone());
        let Paid { price, reserved, lease, share } = paid;
        ModelSettlement {
            models,
            request,
            permit,
            provider: model_request.provider.to_owned(),
            model: model_request.model.to_owned(),
            tier: model_request.tier.as_str(),
            price,
            unanswered: TokenUsage { input: model_request.parsed.input_tokens(), mode: model_request.parsed.mode, ..TokenUsage::default() },
            hides: model_request.parsed.may_hide_output(model_request.model),
            replayed,
            asked,
            reserved,
            lease,
            share,
            void: false,
            place,
            start: Instant::now(),
        }
    }

    fn bill(&self, end: &ExchangeOutcome, usage: &TokenUsage) -> Bill {
        // What a provider refused or never saw costs nothing, and what is on tape was paid for then.
        if !end.sent || is_refused(end) || self.replayed {
            return Bill::default();
        }
        let charged = (total(usage), self.price.map_or(0, |price| price.micros(usage)));
        let reported = end.is_complete() && usage.source == UsageSource::Reported;
        let unfinished = |metered: &Metered| !metered.complete;
        let in_doubt = match end.ending {
            Ending::Complete => end.metered.as_ref().is_none_or(unfinished),
            Ending::HungUp | Ending::Broken => true,
            Ending::Cancelled | Ending::Stopped => false,
        };
        let hides = end.metered.as_ref().map_or(self.hides, |metered| metered.hides_output(self.hides));
        let held = if !reported && (in_doubt || hides) {
            (self.reserved.0.saturating_sub(charged.0), self.reserved.1.saturating_sub(charged.1))
        } else {
            (0, 0)
        };
        Bill { charged, held, reported }
    }

    /// Waits until the admission is on disk, and with it what was set aside.
    pub async fn admitted(&mut self) -> Result<(), Fault> {
        let recorded = self.permit.recorded(&self.models.ledger).await;
        self.void |= recorded.is_err();
        if let Some(share) = self.share.take().filter(|_| !self.void) {
            self.models.leases.add(&self.models.ledger, share);
        }
        recorded
    }

    async fn record(&mut self, end: ExchangeOutcome) -> Result<(), Fault> {
        // INVARIANT: without its admission there is no such call, and its number may by now be another's. What it cost is lost with its lease.
        if self.void {
            return Ok(());
        }
        self.admitted().await?;
        let models = &self.models;
        let metered = end.metered.as_ref().map(|metered| metered.usage);
        // What was never answered, or in a way that nobody reads, has spent its input; what was refused has spent nothing.
        let usage = metered.unwrap_or(if end.sent && !is_refused(&end) { self.unanswered } else { TokenUsage::default() });
        let usage = if self.replayed { TokenUsage::default() } else { usage };
        let Bill { charged: (charged_tokens, charged_micros), held, reported } = self.bill(&end, &usage);
        let complete = end.is_complete();
        let ExchangeOutcome { status, metered, ending, why, first_byte, bytes, answer, .. } = end;
        let ok = complete && status.is_some_and(|status| (200..300).contains(&status));
        let mut notes = metered.map(|metered| metered.notes).unwrap_or_default();
        notes.extend(why.iter().map(|why| models.ledger.redactor.text(why).into_owned()));
        let keep = |bytes: Option<&[u8]>| {
            bytes.map(|bytes| models.ledger.keep(models.ledger.redactor.text(&String::from_utf8_lossy(bytes)).as_bytes())).transpose()
        };
        let (asked, answered) = (keep(self.asked.as_deref())?, keep(answer.as_deref())?);
        let figures = UsageTotals {
            requests: 1,
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
            reasoning: usage.reasoning,
            micros: charged_micros,
            estimated: u64::from(charged_tokens > 0 && !reported),
            unpriced: u64::from(charged_tokens > 0 && self.price.is_none()),
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
            held_tokens: held.0,
            held_micros: held.1,
            ended: Some(ending),
            parts: self.price.filter(|_| charged_tokens > 0).map(|price| cost_parts(&price, &usage)),
        };
        let output = json!({"status": status, "bytes": bytes, "complete": complete});
        let finished = CallFinished { pid, task, call, ok, output, blob: None, blob_bytes: 0, ms };
        let (tokens, micros) = self.reserved;
        let unspent = (tokens.saturating_sub(charged_tokens) - held.0, micros.saturating_sub(charged_micros) - held.1);
        let pending = models.ledger.commit(|world, _| {
            let lease = world.books.reserved.get(&call).and_then(|reserved| reserved.lease);
            let back = lease.map(|lease| Share { pid, lease, tokens: unspent.0, micros: unspent.1 });
            (events(world, call, used, finished), back)
        })?;
        if let Some(back) = pending.durable().await? {
            models.leases.add(&models.ledger, back);
        }
        self.place.settled();
        models.ledger.delete_original(call)
    }
}

/// Did the provider answer with an error? Such an answer costs nothing.
fn is_refused(end: &ExchangeOutcome) -> bool {
    end.status.is_some_and(|status| !(200..300).contains(&status))
}

fn cost_parts(price: &Price, usage: &TokenUsage) -> CostParts {
    let [input, output, cache] = price.micros_by_part(usage);
    CostParts { input, output, cache }
}

fn total(usage: &TokenUsage) -> u64 {
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
        for pid in world.lineage(used.pid) {
            let Some(account) = world.books.accounts.get(&pid).filter(|_| world.processes.contains_key(&pid)) else { continue };
            let mut after = account.clone();
            after.spent.micros = after.spent.micros.saturating_add(used.charged_micros);
            let tokens = after.spent.tokens.entry(used.tier.clone()).or_default();
            *tokens = tokens.saturating_add(used.charged_tokens);
            let warned = after.nearly().into_iter();
            events.extend(warned.map(|(what, used, cap)| Event::from(BudgetWarned { pid, task: of, what, used, cap })));
        }
        events.insert(0, used.into());
    }
    events.push(finished.into());
    events
}

impl Settlement for ModelSettlement {
    fn note_sent(&mut self) -> BoxedFuture<'_, Result<(), Denial>> {
        let (call, pid, task) = (self.permit.call(), self.request.pid, self.request.task);
        let (provider, model, tier) = (self.provider.clone(), self.model.clone(), self.tier.to_owned());
        let flight = Flight { call, pid, task, provider, model, tier, tokens: self.reserved.0, micros: self.reserved.1, lease: self.lease };
        Box::pin(async move {
            let noted = self.models.flights.leaves(&self.place, flight);
            noted.map_err(|fault| denial(DenialKind::Upstream, fault.to_string()))?;
            // INVARIANT: noted first. So whoever folds the world again knows of it, or it is not there any more and does not leave.
            if self.permit.stands(&self.models.ledger) {
                return Ok(());
            }
            Err(denial(DenialKind::Upstream, "its admission could not be recorded"))
        })
    }

    fn recorded(&mut self) -> BoxedFuture<'_, Result<(), Denial>> {
        Box::pin(async move { self.admitted().await.map_err(|fault| denial(DenialKind::Upstream, fault.to_string())) })
    }

    fn settle(mut self: Box<Self>, end: ExchangeOutcome) -> BoxedFuture<'static, ()> {
        Box::pin(async move {
            if let Err(fault) = self.record(end).await {
                // The call stays open, and noted as left; at the next boot what was reserved is held.
                world::log!("skep: the end of {} could not be recorded: {fault}", self.permit.call());
            }
        })
    }
}
