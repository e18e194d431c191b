//! Who may take the road to a model, and what a request may cost.
//!
//! **Invariant.** What a request may cost at most is reserved in the commit that admits it, and that is on disk before it leaves, or drawn
//! from a lease that is; so requests that race, a stream that is cancelled and a kernel that dies can't spend what is not there.

use crate::Models;
use crate::flight::InFlightRequest;
use crate::permit::{self, ModelAdmission, ModelFacts};
use crate::settle::{self, Paid};
use crate::wait::{Wait, Waited};
use gate::{ExtraEvents, MODEL_REQUEST, Request};
use gateway::price::Price;
use gateway::{Admission, Admitted, BoxedFuture, Denial, DenialKind, Endpoint, GatewayRefusal, ModelNames, ModelRequest, ParsedRequest};
use ledger::name_of;
use parking_lot::Mutex;
use serde_json::json;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use world::budget::lease::{PaymentPlan, ReservationRequest, Share};
use world::{AtCap, CallId, Cap, CapExceeded, Code, Event, Need, Pid, ProcessState, Refusal, TaskId, UsedRoom, ZoneId};
use world::{Fault, Stop};

/// Output that is reserved for a request that does not say how much it wants; asked for in its place where a budget caps it.
const OUTPUT_DEFAULT: u64 = 16_384;

/// Decides about the requests of one process.
pub(crate) struct ProcessAdmission {
    models: Weak<Models>,
    pid: Pid,
    zone: ZoneId,
    /// The running call that its requests are parts of, and that call's task.
    part: Option<(Option<TaskId>, CallId)>,
    /// The room that they come from.
    room: Option<UsedRoom>,
}

/// What a request could cost, and what may be answered.
struct Estimate {
    tokens: u64,
    context: u64,
    micros: u64,
    /// `None` where nobody knows it.
    price: Option<Price>,
    output_max: Option<u64>,
}

/// How a request is paid for, or why it is not.
enum Payment {
    Made {
        share: Option<Share>,
        lease: Option<CallId>,
    },
    CapExceeded(CapExceeded),
    /// Its model has no price, and a cap on money could not hold it.
    Unpriced,
}

impl Admission for ProcessAdmission {
    fn names(&self) -> Arc<ModelNames> {
        let trusted = self.models.upgrade().and_then(|models| models.gate.policies.trusted(self.zone).ok().flatten());
        trusted.map(|trusted| Arc::new(trusted.config.models.clone())).unwrap_or_default()
    }

    fn replay(&self) -> Option<Arc<gateway::Provider>> {
        let models = self.models.upgrade()?;
        models.cassette_player(self.pid, self.task(&models))
    }

    fn admit<'a>(&'a self, model_request: &'a ModelRequest<'a>) -> BoxedFuture<'a, Result<Admitted, Denial>> {
        Box::pin(async move {
            let models = self.models()?;
            let deadline = Instant::now() + models.gateway.hold();
            // Before anything is asked: a task that was cancelled is not its process's any more.
            let asker = self.asker(&models);
            loop {
                match self.ask(&models, model_request).await {
                    Ok(leave) => return Ok(leave),
                    Err(Denied::Final(denial)) => return Err(cancellation(&models, asker).unwrap_or(denial)),
                    Err(Denied::Waits { denial, what }) => {
                        if !what.over(&models, asker, deadline).await {
                            return Err(denial);
                        }
                        if let Some(cancelled) = cancellation(&models, asker) {
                            return Err(cancelled);
                        }
                    }
                }
            }
        })
    }

    fn record_refusal<'a>(&'a self, model_request: &'a ModelRequest<'a>, refusal: &'a GatewayRefusal) -> BoxedFuture<'a, ()> {
        Box::pin(async move {
            let Ok(models) = self.models() else { return };
            let refusal = Refusal::new(Code::Denied, refusal.reason.clone()).hint(refusal.hint.clone());
            if let Err(fault) = models.gate.record_refusal(&self.request(&models, model_request, None), &refusal).await {
                // It is refused all the same.
                world::log!("skep: a refusal could not be recorded: {fault}");
            }
        })
    }
}

pub(crate) enum Denied {
    Final(Denial),
    /// A person can turn it into a yes.
    Waits {
        denial: Denial,
        what: Waited,
    },
}

/// What whoever asks hears after a cancel, in the place of what else forbids it by then.
pub(crate) fn cancellation(models: &Models, (pid, task): (Pid, Option<TaskId>)) -> Option<Denial> {
    let of_task = task.and_then(|task| models.ledger.cancelled(task)).map(|refusal| refusal.reason);
    let is_dead = || models.ledger.look(|world| world.processes.get(&pid).is_some_and(|process| process.state == ProcessState::Dead));
    let why = of_task.or_else(|| is_dead().then(|| format!("process {pid} was cancelled")))?;
    Some(denial(DenialKind::Cancelled, why))
}

/// The kernel's own failure is a no.
fn failed(fault: Fault) -> Denied {
    Denied::Final(denial(DenialKind::Upstream, fault.to_string()))
}

pub(crate) fn denial(kind: DenialKind, message: impl Into<String>) -> Denial {
    Denial::new(kind, message)
}

impl ProcessAdmission {
    pub fn of(models: &Arc<Models>, pid: Pid, zone: ZoneId) -> ProcessAdmission {
        ProcessAdmission { models: Arc::downgrade(models), pid, zone, part: None, room: None }
    }

    /// The same for requests that are parts of a running call of that process.
    pub fn within(self, task: Option<TaskId>, call: CallId, room: UsedRoom) -> ProcessAdmission {
        ProcessAdmission { part: Some((task, call)), room: Some(room), ..self }
    }

    pub fn models(&self) -> Result<Arc<Models>, Denial> {
        self.models.upgrade().ok_or_else(|| denial(DenialKind::Upstream, "the kernel is going down"))
    }

    /// What the process works on now.
    fn task(&self, models: &Models) -> Option<TaskId> {
        if let Some((task, _)) = self.part {
            return task;
        }
        models.ledger.look(|world| world.current_task(self.pid).map(|task| task.id))
    }

    /// Whose requests it decides about, and for which task.
    pub fn asker(&self, models: &Models) -> (Pid, Option<TaskId>) {
        (self.pid, self.task(models))
    }

    /// The call that a request is.
    fn request(&self, models: &Models, model_request: &ModelRequest<'_>, output_max: Option<u64>) -> Request {
        let of = self.part.map(|(_, call)| call);
        Request { of, ..Request::new(self.pid, self.task(models), self.zone, MODEL_REQUEST, input(models, model_request, output_max)) }
    }

    pub async fn ask(&self, models: &Arc<Models>, model_request: &ModelRequest<'_>) -> Result<Admitted, Denied> {
        if models.stopping.load(Ordering::SeqCst) {
            return Err(Denied::Final(denial(DenialKind::Cancelled, "the kernel is going down")));
        }
        let allowed = models.gate.policies.trusted(self.zone).map_err(failed)?.and_then(|trusted| trusted.config.providers.clone());
        let task = self.task(models);
        // A recording is the project's own traffic, whoever answered it then.
        let replayed = models.cassette_player(self.pid, task).is_some();
        if !replayed && allowed.is_some_and(|allowed| !allowed.iter().any(|name| name == model_request.provider)) {
            let reason = format!("this project does not use `{}`", model_request.provider);
            let refusal = Refusal::new(Code::Denied, reason).hint("its skep.yml lists the providers it does");
            let recorded = models.gate.record_refusal(&self.request(models, model_request, None), &refusal).await;
            recorded.map_err(failed)?;
            return Err(self.deny(models, model_request.tier.as_str(), refusal, None).await);
        }
        models.ledger.release_held().await.map_err(failed)?;
        let estimate = self.estimate(models, model_request);
        let Estimate { context, output_max, price, .. } = estimate;
        // What is on tape was paid for then.
        let (tokens, micros) = if replayed { (0, 0) } else { (estimate.tokens, estimate.micros) };
        let cassette = models.cassette_writer(self.pid, task).map_err(failed)?;
        let request = self.request(models, model_request, output_max);
        // Decided under the ledger's lock: how it is paid for, or which cap it does not fit under.
        let paid: Mutex<Option<Payment>> = Mutex::new(None);
        let (pid, tier) = (self.pid, model_request.tier.as_str());
        let reserve = |world: &world::World, call, now_ms| -> Result<ExtraEvents, Refusal> {
            if model_request.parsed.endpoint != Endpoint::Generate {
                return Ok(ExtraEvents::default());
            }
            let unbounded = || world.unbounded(pid, tier).map(|of| (of, name_of(world, of)));
            let of_task = || task.filter(|_| world.is_unbounded_task(task, tier)).map(|task| (pid, task.to_string()));
            if price.is_none()
                && !replayed
                && let Some((of, name)) = unbounded().or_else(of_task)
            {
                *paid.lock() = Some(Payment::Unpriced);
                return Err(unpriced(world, of, &name, model_request, tokens));
            }
            let need = Need { tier, tokens, context, micros };
            let bid = ReservationRequest { pid, task, call, provider: model_request.provider, model: model_request.model, need };
            match models.leases.plan(world, &bid, now_ms) {
                Ok(PaymentPlan { events, ahead, share }) => {
                    let lease = events.iter().find_map(|event| match event {
                        Event::ModelReserved(reserved) => reserved.lease,
                        _ => None,
                    });
                    *paid.lock() = Some(Payment::Made { share, lease });
                    Ok(ExtraEvents { events, ahead })
                }
                Err(short) => {
                    let refusal = refusal(world, &short);
                    *paid.lock() = Some(Payment::CapExceeded(short));
                    Err(refusal)
                }
            }
        };
        let words = vec![model_request.provider.to_owned(), model_request.model.to_owned()];
        let about = ModelFacts { tier, host: model_request.host, words, room: self.room.clone() };
        let admitted = permit::admit_model(&models.gate, &request, about, &reserve).await;
        let paid = paid.into_inner();
        match admitted {
            Ok(ModelAdmission::Admitted(permit)) => {
                let (share, lease) = match paid {
                    Some(Payment::Made { share, lease }) => (share, lease),
                    _ => (None, None),
                };
                if let Some(task) = task {
                    models.exhaustion.clear(task);
                }
                let ahead = permit.is_ahead();
                let in_flight = InFlightRequest { pid, task, of: request.of, call: permit.call() };
                let (place, stop) = models.flights.enter(in_flight);
                let paid = Paid { price, reserved: (tokens, micros), lease, share };
                let mut pass = settle::ModelSettlement::new(models.clone(), request, permit, model_request, paid, replayed, place);
                if !ahead {
                    pass.admitted().await.map_err(failed)?;
                }
                Ok(Admitted { output_max, record: models.records_all(), cassette, stop, settlement: Box::new(pass) })
            }
            Ok(ModelAdmission::Refused(refusal)) | Err(Stop::Refused(refusal)) => {
                let denied = self.deny(models, tier, refusal.clone(), paid).await;
                if let (Denied::Final(Denial { kind: DenialKind::Budget, .. }), Some(task)) = (&denied, task) {
                    models.exhaustion.add(task, &refusal);
                }
                Err(denied)
            }
            Err(Stop::Failed(fault)) => Err(failed(fault)),
        }
    }

    async fn deny(&self, models: &Models, tier: &str, refusal: Refusal, paid: Option<Payment>) -> Denied {
        // A model's client is no face of ours: it is told in words, and the record has the remedy.
        let message = match refusal.advice() {
            Some(advice) => format!("{}; {advice}", refusal.reason),
            None => refusal.reason.clone(),
        };
        let short = match paid {
            Some(Payment::Unpriced) => return Denied::Final(denial(DenialKind::Budget, message)),
            Some(Payment::CapExceeded(short)) => Some(short),
            Some(Payment::Made { .. }) | None => None,
        };
        match (refusal.review, short) {
            (Some(review), _) => Denied::Waits { denial: denial(DenialKind::Denied, message), what: Waited::Review(review) },
            (None, Some(CapExceeded { what: Cap::Rate, .. })) => {
                let now_ms = models.ledger.look(|world| world.now_ms);
                let span_ms = Cap::Rate.span_ms();
                let left_ms = span_ms - now_ms.rem_euclid(span_ms);
                let retry_after = Some(Duration::from_millis(left_ms.unsigned_abs()));
                Denied::Final(Denial { retry_after, ..denial(DenialKind::RateLimited, message) })
            }
            // A client waits for a minute to pass, and is not to sit through an hour or a day.
            (None, Some(CapExceeded { what, .. })) if what.passes() => Denied::Final(denial(DenialKind::Budget, message)),
            (None, Some(short)) if short.at_cap == AtCap::Ask && short.what != Cap::Context && !self.is_replay(models) => {
                let wait = Wait::new(self.pid, self.task(models), tier, short);
                let asked = wait.asked();
                // On the list first: whoever sees the record finds it there.
                let place = models.waiting.enter(wait);
                match models.ledger.record(asked).await {
                    Ok(()) => Denied::Waits { denial: denial(DenialKind::Budget, message), what: Waited::Budget(place) },
                    Err(fault) => failed(fault),
                }
            }
            (None, Some(_)) => Denied::Final(denial(DenialKind::Budget, message)),
            (None, None) => Denied::Final(match (refusal.code, refusal.retry_after()) {
                (_, Some(wait)) => Denial { retry_after: Some(wait), ..denial(DenialKind::RateLimited, message) },
                // Used up, and no waiting brings it back: a client that asks again is told the same.
                (Code::Exhausted, None) => denial(DenialKind::Budget, message),
                (_, None) => denial(DenialKind::Denied, message),
            }),
        }
    }

    /// A replay asks nobody.
    fn is_replay(&self, models: &Models) -> bool {
        let task = self.task(models);
        models.ledger.look(|world| task.and_then(|task| world.tasks.get(&task)).is_some_and(|task| task.replays.is_some()))
    }

    /// The most a request can cost: its bytes as tokens, a fixed figure for each picture, and all the output it may have.
    fn estimate(&self, models: &Models, model_request: &ModelRequest<'_>) -> Estimate {
        let ParsedRequest { output_max, answers, input_bytes, images, .. } = model_request.parsed;
        let context = input_bytes.saturating_add(u64::from(*images).saturating_mul(gateway::IMAGE_TOKENS));
        let task = self.task(models);
        let capped = models.ledger.look(|world| world.is_capped(self.pid) || world.is_task_capped(task));
        let output = model_request.parsed.output_most(model_request.model, OUTPUT_DEFAULT).saturating_mul(u64::from((*answers).max(1)));
        let price = if model_request.is_free {
            Some(Price::default())
        } else {
            models.setup().prices.price(model_request.provider, model_request.model)
        };
        let micros = price.map_or(0, |price| price.micros_max(model_request.parsed, context, output));
        let rewritten = (capped && output_max.is_none() && model_request.parsed.endpoint == Endpoint::Generate).then_some(OUTPUT_DEFAULT);
        Estimate { tokens: context.saturating_add(output), context, micros, price, output_max: rewritten }
    }
}

/// What the record says of a request. Its text is a blob where recording is on, and a keyed digest always.
fn input(models: &Models, model_request: &ModelRequest<'_>, output_max: Option<u64>) -> serde_json::Value {
    let ModelRequest { parsed, provider, model, tier, body, .. } = model_request;
    let digest = models.ledger.journal().vault().digest(body);
    let mut input = json!({
        "provider": provider,
        "model": model,
        "tier": tier.as_str(),
        "dialect": parsed.dialect.name(),
        "stream": parsed.stream,
        "bytes": parsed.input_bytes,
        "body": digest,
    });
    let endpoint = if parsed.endpoint == Endpoint::CountTokens { Some("count") } else { None };
    let more = [
        ("asked_for", (parsed.model != *model).then(|| json!(parsed.model))),
        ("output_max", parsed.output_max.map(|max| json!(max))),
        ("output_max_set", output_max.map(|max| json!(max))),
        ("images", (parsed.images > 0).then(|| json!(parsed.images))),
        ("runs", (!parsed.provider_tools.is_empty()).then(|| json!(parsed.provider_tools))),
        ("endpoint", endpoint.map(|endpoint| json!(endpoint))),
    ];
    if let Some(fields) = input.as_object_mut() {
        fields.extend(more.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    }
    input
}

/// Tokens that a cap is proposed to hold: a day's work for most.
const TOKENS_PROPOSED: u64 = 2_000_000;

/// A cap on money cannot hold what has no price. A cap on tokens beside it can.
fn unpriced(world: &world::World, of: Pid, name: &str, model_request: &ModelRequest<'_>, tokens: u64) -> Refusal {
    let reason =
        format!("`{}/{}` has no price, and the money that {name} may spend is capped", model_request.provider, model_request.model);
    let account = world.books.accounts.get(&of).cloned().unwrap_or_default();
    let used = account.spent.of(world::budget::ALL_TIERS);
    let all = used.saturating_add(TOKENS_PROPOSED.max(tokens.saturating_mul(10)));
    let mut budget = account.budget.unwrap_or_default();
    budget.tokens.insert(world::budget::ALL_TIERS.to_owned(), all);
    Refusal::new(Code::Exhausted, reason).remedy(world::Remedy::CapTokens { pid: of, budget })
}

fn refusal(world: &world::World, short: &CapExceeded) -> Refusal {
    let CapExceeded { pid, task, what, cap, used, need, .. } = short;
    let name = task.map_or_else(|| name_of(world, *pid), |task| task.to_string());
    let amount = |n: u64| if what.is_money() { ledger::dollars(n) } else { n.to_string() };
    let reason = match what {
        Cap::Rate => format!("{name} made its {cap} requests of this minute"),
        Cap::Context => format!("the request has up to {need} tokens of input, and {name} may send {cap}"),
        _ => format!(
            "the budget of {name} does not hold it: {} of {}{} are spent, reserved or held, and it needs up to {}",
            amount(*used),
            amount(*cap),
            match what {
                Cap::Money => String::new(),
                Cap::MoneyPerDay => " a day".to_owned(),
                _ => format!(" {what}"),
            },
            amount(*need)
        ),
    };
    let refusal = Refusal::new(Code::Exhausted, reason);
    match what {
        Cap::Rate => refusal.hint("it goes on in the next minute"),
        Cap::PerHour(_) => refusal.hint("it goes on in the next hour"),
        Cap::PerDay(_) | Cap::MoneyPerDay => refusal.hint("it goes on tomorrow, by UTC"),
        Cap::Context => refusal.hint("shorten the conversation").remedy(world::Remedy::RaiseContext { pid: *pid, tokens: *need }),
        // The request is made again, with more to read, and others follow it.
        _ if task.is_some() => refusal.remedy(world::Remedy::LargerTaskBudget {
            task: *task,
            micros: if *what == Cap::Money { used.saturating_add(need.saturating_mul(2)) } else { 0 },
        }),
        _ => refusal.hint("a smaller output limit may fit").remedy(match short.at_cap {
            // The request itself waits, and goes on with what it misses.
            AtCap::Ask => short.remedy(),
            // It is made again, with more to read, and others follow it.
            AtCap::Refuse => {
                world::Remedy::GrantBudget { pid: *pid, what: what.to_string(), missing: short.missing().saturating_add(*need) }
            }
        }),
    }
}
