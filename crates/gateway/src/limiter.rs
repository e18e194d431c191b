//! Slots of one upstream key, shared by all processes: how many requests at once, how many a minute, and not before when.
//!
//! Who waits is served in turn by process, those first that have the fewest requests on their way; so one with a hundred requests
//! starves nobody who has one. What a provider says about a limit holds for the model it said it of, as providers count.
//! **Invariant.** A [`Slot`] is held by one request and given back when it is dropped, however that request ends.

use hyper::header::HeaderMap;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);
/// A limit that some provider sets further away than this is a mistake of its clock or ours.
const RESET_MAX: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Clone)]
pub struct Limiter(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    at_once: u32,
    per_minute: Option<u32>,
    /// Requests on their way, by process.
    open: BTreeMap<u64, u32>,
    /// Starts within the last minute, where they are counted.
    started: VecDeque<Instant>,
    /// The provider told us to leave this model alone until then.
    closed: BTreeMap<String, Instant>,
    waiting: BTreeMap<u64, VecDeque<Waiter>>,
    /// Who was served last.
    turn: u64,
    /// A timer is set for this moment.
    alarm: Option<Instant>,
}

#[derive(Debug)]
struct Waiter {
    model: String,
    /// Has somewhere else to go, so does not wait for the provider to open again.
    has_fallback: bool,
    give: oneshot::Sender<Slot>,
}

/// A request that wants a slot.
#[derive(Debug, Clone, Copy)]
pub struct SlotRequest<'a> {
    /// The process whose request it is.
    pub pid: u64,
    pub model: &'a str,
    /// The longest that it waits.
    pub wait: Duration,
    /// Another provider can be asked instead: it stands in line for a slot, but does not wait until this one opens again.
    pub has_fallback: bool,
}

/// A place for one request under way.
#[derive(Debug)]
pub struct Slot {
    limiter: Limiter,
    pid: u64,
}

/// The wait would be longer than anybody wants to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy {
    /// When it is worth asking again, if somebody said so.
    pub retry_after: Option<Duration>,
}

impl Limiter {
    pub fn new(at_once: u32, per_minute: Option<u32>) -> Limiter {
        Limiter(Arc::new(Mutex::new(State {
            at_once,
            per_minute,
            open: BTreeMap::new(),
            started: VecDeque::new(),
            closed: BTreeMap::new(),
            waiting: BTreeMap::new(),
            turn: 0,
            alarm: None,
        })))
    }

    /// Requests at once and a minute.
    pub(crate) fn limits(&self) -> (u32, Option<u32>) {
        let state = self.0.lock();
        (state.at_once, state.per_minute)
    }

    /// The same slots for two that said different things about them: the less holds.
    pub(crate) fn narrow(&self, at_once: u32, per_minute: Option<u32>) {
        let mut state = self.0.lock();
        state.at_once = state.at_once.min(at_once);
        state.per_minute = match (state.per_minute, per_minute) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        };
    }

    /// Waits for a slot. Dropping the future gives up the place in the line.
    pub async fn enter(&self, entrant: SlotRequest<'_>) -> Result<Slot, Busy> {
        let SlotRequest { pid, model, wait, has_fallback } = entrant;
        let (give, mut place) = oneshot::channel();
        {
            let mut state = self.0.lock();
            if let Some(left) = state.closed_for(model, Instant::now())
                && (has_fallback || left > wait)
            {
                return Err(Busy { retry_after: Some(left) });
            }
            state.waiting.entry(pid).or_default().push_back(Waiter { model: model.to_owned(), has_fallback, give });
        }
        self.serve();
        match tokio::time::timeout(wait, &mut place).await {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) | Err(_) => Err(Busy { retry_after: self.0.lock().closed_for(model, Instant::now()) }),
        }
    }

    /// Heeds what an answer says about the limits of this key for `model`, and tells how long that is to be left alone.
    pub fn heed(&self, model: &str, status: u16, headers: &HeaderMap) -> Option<Duration> {
        let wait = wait_of(status, headers, jiff::Timestamp::now());
        wait.inspect(|wait| self.close(model, *wait))
    }

    /// Nobody is let through to `model` for this long. A request that can go elsewhere is sent there now.
    pub fn close(&self, model: &str, wait: Duration) {
        let now = Instant::now();
        let until = now + wait.min(RESET_MAX);
        let mut state = self.0.lock();
        state.closed.retain(|_, until| *until > now);
        let known = state.closed.entry(model.to_owned()).or_insert(until);
        *known = until.max(*known);
        for line in state.waiting.values_mut() {
            line.retain(|ticket| !(ticket.has_fallback && ticket.model == model));
        }
    }

    /// Requests on their way and in line, for whoever looks.
    pub fn load(&self) -> (u32, usize) {
        let state = self.0.lock();
        let waiting = state.waiting.values().flatten().filter(|ticket| !ticket.give.is_closed()).count();
        (state.open.values().sum(), waiting)
    }

    /// Gives out what is free.
    fn serve(&self) {
        loop {
            let (give, slot) = {
                let mut state = self.0.lock();
                match state.next(Instant::now()) {
                    Next::Serve(pid, give) => {
                        *state.open.entry(pid).or_default() += 1;
                        state.started.push_back(Instant::now());
                        (give, Slot { limiter: self.clone(), pid })
                    }
                    Next::At(moment) => {
                        if state.alarm.is_none_or(|set| moment < set) {
                            state.alarm = Some(moment);
                            tokio::spawn(wake(self.clone(), moment));
                        }
                        return;
                    }
                    Next::Never => return,
                }
            };
            // Whoever left the line meanwhile gives the slot straight back.
            if let Err(slot) = give.send(slot) {
                slot.unused();
            }
        }
    }
}

async fn wake(limiter: Limiter, moment: Instant) {
    tokio::time::sleep_until(moment).await;
    {
        let mut state = limiter.0.lock();
        if state.alarm == Some(moment) {
            state.alarm = None;
        }
    }
    limiter.serve();
}

enum Next {
    Serve(u64, oneshot::Sender<Slot>),
    At(Instant),
    Never,
}

impl State {
    fn next(&mut self, now: Instant) -> Next {
        self.waiting.retain(|_, line| {
            line.retain(|ticket| !ticket.give.is_closed());
            !line.is_empty()
        });
        if self.waiting.is_empty() || self.open.values().sum::<u32>() >= self.at_once {
            return Next::Never;
        }
        while self.started.front().is_some_and(|start| now.duration_since(*start) >= MINUTE) {
            self.started.pop_front();
        }
        match self.per_minute {
            Some(most) if self.started.len() >= most as usize => {
                if let Some(oldest) = self.started.front() {
                    return Next::At(*oldest + MINUTE);
                }
            }
            Some(_) => {}
            None => self.started.clear(),
        }
        self.closed.retain(|_, until| *until > now);
        let closed = &self.closed;
        let ready = |line: &VecDeque<Waiter>| line.iter().position(|ticket| !closed.contains_key(&ticket.model));
        // The fewest on their way first; among equals whoever comes next after the last.
        let order = |pid: u64| (self.open.get(&pid).copied().unwrap_or(0), pid <= self.turn, pid);
        let first = self.waiting.iter().filter_map(|(pid, line)| Some((order(*pid), *pid, ready(line)?))).min();
        match first {
            Some((_, pid, at)) => {
                self.turn = pid;
                let ticket = self.waiting.get_mut(&pid).and_then(|line| line.remove(at));
                ticket.map_or(Next::Never, |ticket| Next::Serve(pid, ticket.give))
            }
            None => closed.values().min().map_or(Next::Never, |until| Next::At(*until)),
        }
    }

    fn closed_for(&self, model: &str, now: Instant) -> Option<Duration> {
        self.closed.get(model).map(|until| until.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }
}

impl Slot {
    /// Gives a slot back that nobody used: it does not count against the minute.
    fn unused(self) {
        self.limiter.0.lock().started.pop_back();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        {
            let mut state = self.limiter.0.lock();
            if let Some(count) = state.open.get_mut(&self.pid) {
                *count -= 1;
                if *count == 0 {
                    state.open.remove(&self.pid);
                }
            }
        }
        // Outside a runtime nobody waits any more.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.limiter.serve();
        }
    }
}

/// How long a provider wants to be left alone.
fn wait_of(status: u16, headers: &HeaderMap, now: jiff::Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let none_left = |name: &str| text(name).and_then(|text| text.parse::<f64>().ok()) == Some(0.0);
    let reset = |name: &str| text(name).and_then(|text| moment(text, now).or_else(|| dialect::parse_duration(text)));
    let mut waits: Vec<Duration> = Vec::new();
    if status == 429 || status == 503 || status == 529 {
        waits.extend(retry_after(headers, now));
    }
    for what in ["requests", "tokens", "input-tokens", "output-tokens"] {
        if none_left(&format!("anthropic-ratelimit-{what}-remaining")) {
            waits.extend(reset(&format!("anthropic-ratelimit-{what}-reset")));
        }
        if none_left(&format!("x-ratelimit-remaining-{what}")) {
            waits.extend(reset(&format!("x-ratelimit-reset-{what}")));
        }
    }
    // What a subscription may use in some hours or a week.
    if text("anthropic-ratelimit-unified-status") == Some("rejected") {
        waits.extend(reset("anthropic-ratelimit-unified-reset"));
    }
    if none_left("x-ratelimit-remaining") {
        waits.extend(reset("x-ratelimit-reset"));
    }
    waits.into_iter().max().filter(|wait| !wait.is_zero())
}

/// `retry-after` in seconds or as a date, or the finer `retry-after-ms`.
pub(crate) fn retry_after(headers: &HeaderMap, now: jiff::Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let seconds = |number: f64| Duration::try_from_secs_f64(number).ok();
    if let Some(ms) = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok()).and_then(|ms| seconds(ms / 1e3)) {
        return Some(ms);
    }
    let text = text("retry-after")?;
    match text.parse::<f64>() {
        Ok(number) => seconds(number),
        Err(_) => {
            let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
            Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
        }
    }
}

/// Until a moment in RFC 3339, or in seconds or milliseconds since 1970.
fn moment(text: &str, now: jiff::Timestamp) -> Option<Duration> {
    /// Smaller numbers are spans: nobody's limit lasts thirty years.
    const EPOCH_S: i64 = 1_000_000_000;
    let moment: jiff::Timestamp = match text.parse::<i64>() {
        Ok(number) if number >= EPOCH_S * 1_000 => jiff::Timestamp::from_millisecond(number).ok()?,
        Ok(number) if number >= EPOCH_S => jiff::Timestamp::from_second(number).ok()?,
        Ok(_) => return None,
        Err(_) => text.parse().ok()?,
    };
    Some(Duration::try_from(moment.duration_since(now)).unwrap_or_default())
}

#[cfg(test)]
mod tests;
