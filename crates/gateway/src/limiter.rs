//! Slots of one upstream key, shared by all processes: how many requests at once, how many a minute, and not before when.
//!
//! Who waits is served in turn by process, so that one with a hundred requests does not starve one with a single request.
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
    open: u32,
    /// Starts within the last minute, where they are counted.
    started: VecDeque<Instant>,
    /// The provider told us to wait until then.
    closed_until: Option<Instant>,
    waiting: BTreeMap<u64, VecDeque<oneshot::Sender<Slot>>>,
    /// Who was served last.
    turn: u64,
    /// A timer is set for this moment.
    alarm: Option<Instant>,
}

/// Leave to have one request on its way.
#[derive(Debug)]
pub struct Slot {
    limiter: Limiter,
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
            open: 0,
            started: VecDeque::new(),
            closed_until: None,
            waiting: BTreeMap::new(),
            turn: 0,
            alarm: None,
        })))
    }

    /// Waits for a slot, for `wait` at most. Dropping the future gives up the place in the line.
    pub async fn enter(&self, who: u64, wait: Duration) -> Result<Slot, Busy> {
        let (ticket, mut place) = oneshot::channel();
        {
            let mut state = self.0.lock();
            if let Some(until) = state.closed_until.map(|until| until.saturating_duration_since(Instant::now()))
                && until > wait
            {
                return Err(Busy { retry_after: Some(until) });
            }
            state.waiting.entry(who).or_default().push_back(ticket);
        }
        self.serve();
        match tokio::time::timeout(wait, &mut place).await {
            Ok(Ok(slot)) => Ok(slot),
            Ok(Err(_)) | Err(_) => Err(Busy { retry_after: None }),
        }
    }

    /// Heeds what an answer says about the limits of this key.
    pub fn heed(&self, status: u16, headers: &HeaderMap) {
        if let Some(wait) = wait_of(status, headers, jiff::Timestamp::now()) {
            let until = Instant::now() + wait.min(RESET_MAX);
            let mut state = self.0.lock();
            state.closed_until = Some(state.closed_until.map_or(until, |known| known.max(until)));
        }
    }

    /// Requests on their way and in line, for whoever looks.
    pub fn load(&self) -> (u32, usize) {
        let state = self.0.lock();
        let waiting = state.waiting.values().flatten().filter(|ticket| !ticket.is_closed()).count();
        (state.open, waiting)
    }

    /// Gives out what is free.
    fn serve(&self) {
        loop {
            let (ticket, slot) = {
                let mut state = self.0.lock();
                match state.next(Instant::now()) {
                    Next::Serve(ticket) => {
                        state.open += 1;
                        state.started.push_back(Instant::now());
                        (ticket, Slot { limiter: self.clone() })
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
            if let Err(slot) = ticket.send(slot) {
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
    Serve(oneshot::Sender<Slot>),
    At(Instant),
    Never,
}

impl State {
    fn next(&mut self, now: Instant) -> Next {
        self.waiting.retain(|_, line| {
            line.retain(|ticket| !ticket.is_closed());
            !line.is_empty()
        });
        if self.waiting.is_empty() || self.open >= self.at_once {
            return Next::Never;
        }
        if let Some(until) = self.closed_until {
            if until > now {
                return Next::At(until);
            }
            self.closed_until = None;
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
        let after = self.waiting.range(self.turn.saturating_add(1)..).next().map(|(who, _)| *who);
        let Some(who) = after.or_else(|| self.waiting.keys().next().copied()) else { return Next::Never };
        self.turn = who;
        match self.waiting.get_mut(&who).and_then(VecDeque::pop_front) {
            Some(ticket) => Next::Serve(ticket),
            None => Next::Never,
        }
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
        self.limiter.0.lock().open -= 1;
        // Outside a runtime nobody waits any more.
        if tokio::runtime::Handle::try_current().is_ok() {
            self.limiter.serve();
        }
    }
}

/// How long a provider wants to be left alone.
fn wait_of(status: u16, headers: &HeaderMap, now: jiff::Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |name: &str| text(name).and_then(|text| text.parse::<f64>().ok()).filter(|n| n.is_finite() && *n >= 0.0);
    let mut waits: Vec<Duration> = Vec::new();
    if status == 429 || status == 503 || status == 529 {
        waits.extend(retry_after(headers, now));
    }
    for what in ["requests", "tokens", "input-tokens", "output-tokens"] {
        if number(&format!("anthropic-ratelimit-{what}-remaining")) == Some(0.0) {
            waits.extend(text(&format!("anthropic-ratelimit-{what}-reset")).and_then(|text| until(text, now)));
        }
        if number(&format!("x-ratelimit-remaining-{what}")) == Some(0.0) {
            waits.extend(text(&format!("x-ratelimit-reset-{what}")).and_then(span));
        }
    }
    waits.into_iter().max().filter(|wait| !wait.is_zero())
}

/// `retry-after` in seconds or as a date, or the finer `retry-after-ms`.
pub(crate) fn retry_after(headers: &HeaderMap, now: jiff::Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if let Some(ms) = text("retry-after-ms").and_then(|text| text.parse::<u64>().ok()) {
        return Some(Duration::from_millis(ms));
    }
    let text = text("retry-after")?;
    match text.parse::<f64>() {
        Ok(seconds) if seconds.is_finite() && seconds >= 0.0 => Duration::try_from_secs_f64(seconds).ok(),
        Ok(_) => None,
        Err(_) => {
            let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
            Some(Duration::try_from(date.duration_since(now)).unwrap_or_default())
        }
    }
}

/// Until a moment in RFC 3339.
fn until(text: &str, now: jiff::Timestamp) -> Option<Duration> {
    let moment: jiff::Timestamp = text.parse().ok()?;
    Some(Duration::try_from(moment.duration_since(now)).unwrap_or_default())
}

/// OpenAI's spans: `1s`, `6m0s`, `120ms`, `1h2m3.5s`.
fn span(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let unit_end = rest[end..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |at| end + at);
        sum += number
            * match &rest[end..unit_end] {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3_600.0,
                "d" => 86_400.0,
                _ => return None,
            };
        rest = &rest[unit_end..];
    }
    Duration::try_from_secs_f64(sum).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (hyper::header::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn what_providers_say_about_waiting_is_understood() {
        let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        for (status, said, wait) in [
            (429, vec![("retry-after", "7")], Some(7_000)),
            (429, vec![("retry-after", "0.5")], Some(500)),
            (529, vec![("retry-after-ms", "120")], Some(120)),
            (429, vec![("retry-after", "Thu, 01 Jan 2026 00:00:09 GMT")], Some(9_000)),
            (200, vec![("retry-after", "7")], None),
            (429, vec![], None),
            (429, vec![("retry-after", "soon")], None),
            (429, vec![("retry-after", "-3")], None),
            (
                200,
                vec![("anthropic-ratelimit-requests-remaining", "0"), ("anthropic-ratelimit-requests-reset", "2026-01-01T00:00:30Z")],
                Some(30_000),
            ),
            (
                200,
                vec![("anthropic-ratelimit-requests-remaining", "3"), ("anthropic-ratelimit-requests-reset", "2026-01-01T00:00:30Z")],
                None,
            ),
            (200, vec![("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")], Some(360_000)),
            (200, vec![("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "120ms")], Some(120)),
            (200, vec![("x-ratelimit-remaining-requests", "0"), ("x-ratelimit-reset-requests", "a while")], None),
        ] {
            assert_eq!(wait_of(status, &headers(&said), now), wait.map(Duration::from_millis), "{said:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_busy_process_does_not_starve_another() {
        let limiter = Limiter::new(1, None);
        let first = limiter.enter(1, MINUTE).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut all = tokio::task::JoinSet::new();
        for who in [1, 1, 1, 2, 3, 3] {
            let (limiter, order) = (limiter.clone(), order.clone());
            all.spawn(async move {
                let _slot = limiter.enter(who, MINUTE).await.unwrap();
                order.lock().push(who);
            });
            tokio::task::yield_now().await;
        }
        drop(first);
        while all.join_next().await.is_some() {}
        assert_eq!(*order.lock(), [2, 3, 1, 3, 1, 1]);
        assert_eq!(limiter.load(), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_that_goes_away_takes_no_slot_with_it() {
        let limiter = Limiter::new(1, Some(3));
        let held = limiter.enter(1, MINUTE).await.unwrap();
        assert_eq!(limiter.enter(2, Duration::from_secs(1)).await.unwrap_err(), Busy { retry_after: None });
        let gone = tokio::spawn({
            let limiter = limiter.clone();
            async move { limiter.enter(2, MINUTE).await }
        });
        tokio::task::yield_now().await;
        gone.abort();
        assert!(gone.await.is_err());
        drop(held);
        assert_eq!(limiter.load(), (0, 0));
        // Two of the minute's three are left: who went away used none.
        drop(limiter.enter(1, Duration::from_secs(1)).await.unwrap());
        drop(limiter.enter(1, Duration::from_secs(1)).await.unwrap());
        assert!(limiter.enter(1, Duration::from_secs(1)).await.is_err());
    }

    /// The clock stands still but for those who wait for it.
    #[tokio::test(start_paused = true)]
    async fn a_limit_of_the_provider_is_waited_out_or_told() {
        let limiter = Limiter::new(4, None);
        limiter.heed(429, &headers(&[("retry-after", "30")]));
        let busy = limiter.enter(1, Duration::from_secs(1)).await.unwrap_err();
        assert_eq!(busy.retry_after, Some(Duration::from_secs(30)));
        let start = Instant::now();
        let timed = async |who| {
            let slot = limiter.enter(who, MINUTE).await.unwrap();
            (start.elapsed(), slot)
        };
        let (first, second) = tokio::join!(timed(1), timed(2));
        for (waited, _) in [&first, &second] {
            assert!(*waited >= Duration::from_secs(30) && *waited < Duration::from_secs(31), "{waited:?}");
        }
        drop((first, second));
        // Longer is longer, and a shorter one said later does not open it early.
        limiter.heed(529, &headers(&[("retry-after", "20")]));
        limiter.heed(429, &headers(&[("retry-after", "5")]));
        let start = Instant::now();
        drop(limiter.enter(1, MINUTE).await.unwrap());
        assert!(start.elapsed() >= Duration::from_secs(20), "{:?}", start.elapsed());
        assert_eq!(limiter.load(), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn the_minute_s_starts_are_spread_over_the_minutes() {
        let limiter = Limiter::new(9, Some(2));
        let start = Instant::now();
        for (nth, earliest) in [0, 0, 60, 60, 120].into_iter().enumerate() {
            drop(limiter.enter(nth as u64, MINUTE * 5).await.unwrap());
            assert!(start.elapsed() >= Duration::from_secs(earliest), "{nth}: {:?}", start.elapsed());
        }
        assert!(start.elapsed() < Duration::from_secs(121), "{:?}", start.elapsed());
    }
}
