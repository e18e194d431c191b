//! A breaker for each tool: one that keeps failing is left alone for a while.
//!
//! Five faults in a row open it; thirty seconds later one call may try, and what comes of that closes or opens it again. A refusal
//! says nothing about the tool, so it counts neither way. Time is what the caller says it is.

use crate::fault::ToolStop;
use crate::tool::Output;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use world::{Code, Refusal};

/// Seed 002's figures.
const FAILURES_MAX: u32 = 5;
const REST: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub struct Breakers {
    tools: Mutex<HashMap<String, Breaker>>,
}

#[derive(Debug, Default)]
struct Breaker {
    /// Faults since the last success.
    failures: u32,
    opened: Option<Instant>,
    /// The one call of a half-open breaker is on its way.
    trying: bool,
}

/// A call that the breaker let through. Dropped without being settled, it counts as one that never ran.
#[must_use = "what came of the call must be told"]
#[derive(Debug)]
pub struct BreakerGuard<'a> {
    breakers: &'a Breakers,
    tool: String,
    is_trial: bool,
}

impl Breakers {
    /// May this tool be called now?
    pub fn enter(&self, tool: &str, now: Instant) -> Result<BreakerGuard<'_>, Refusal> {
        let mut tools = self.tools.lock();
        let mut is_trial = false;
        if let Some(breaker) = tools.get_mut(tool)
            && let Some(opened) = breaker.opened
        {
            let left = (opened + REST).saturating_duration_since(now);
            if !left.is_zero() || breaker.trying {
                let when = if left.is_zero() { "is being tried again".to_owned() } else { format!("rests for {} s", left.as_secs() + 1) };
                let reason = format!("`{tool}` failed {} times in a row and {when}", breaker.failures);
                return Err(Refusal::new(Code::WrongState, reason).hint("use another tool, or wait"));
            }
            breaker.trying = true;
            is_trial = true;
        }
        Ok(BreakerGuard { breakers: self, tool: tool.to_owned(), is_trial })
    }

    /// Tools that may not be called now, by name.
    pub fn open(&self, now: Instant) -> Vec<String> {
        let tools = self.tools.lock();
        let rests = |breaker: &Breaker| breaker.opened.is_some_and(|opened| now < opened + REST);
        let mut open: Vec<String> = tools.iter().filter(|(_, breaker)| rests(breaker)).map(|(tool, _)| tool.clone()).collect();
        open.sort_unstable();
        open
    }
}

impl BreakerGuard<'_> {
    /// Tells what came of the call.
    pub fn settle(self, result: &Result<Output, ToolStop>, now: Instant) {
        let mut tools = self.breakers.tools.lock();
        match result {
            Ok(_) => {
                tools.remove(&self.tool);
            }
            Err(ToolStop::Refused(_)) => {}
            Err(ToolStop::Failed(_)) => {
                let breaker = tools.entry(self.tool.clone()).or_default();
                breaker.failures = breaker.failures.saturating_add(1);
                if breaker.failures >= FAILURES_MAX {
                    breaker.opened = Some(now);
                }
            }
        }
    }
}

impl Drop for BreakerGuard<'_> {
    fn drop(&mut self) {
        if self.is_trial
            && let Some(breaker) = self.breakers.tools.lock().get_mut(&self.tool)
        {
            breaker.trying = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::ToolFault;
    use serde_json::json;

    fn failed() -> Result<Output, ToolStop> {
        Err(ToolFault::TimedOut { ms: 1 }.into())
    }

    fn refused() -> Result<Output, ToolStop> {
        Err(Refusal::new(Code::NotFound, "no").into())
    }

    fn worked() -> Result<Output, ToolStop> {
        Ok(Output::new(false, json!({})))
    }

    fn at(seconds: u64) -> Instant {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_secs(seconds)
    }

    fn call(breakers: &Breakers, result: Result<Output, ToolStop>, now: Instant) {
        breakers.enter("x", now).unwrap().settle(&result, now);
    }

    #[test]
    fn five_faults_in_a_row_open_it_and_one_try_closes_it() {
        let breakers = Breakers::default();
        (0..5).for_each(|_| call(&breakers, failed(), at(0)));
        let refusal = breakers.enter("x", at(1)).unwrap_err();
        assert_eq!(refusal.reason, "`x` failed 5 times in a row and rests for 30 s");
        assert_eq!(breakers.open(at(1)), ["x"]);
        assert!(breakers.enter("y", at(1)).is_ok(), "each tool has its own");
        let trial = breakers.enter("x", at(30)).unwrap();
        assert_eq!(breakers.enter("x", at(30)).unwrap_err().reason, "`x` failed 5 times in a row and is being tried again");
        trial.settle(&worked(), at(30));
        (0..4).for_each(|_| call(&breakers, failed(), at(31)));
        assert!(breakers.enter("x", at(31)).is_ok(), "a success counts from nothing again");
    }

    #[test]
    fn a_failed_try_opens_it_again_and_an_abandoned_one_does_not_hold_it() {
        let breakers = Breakers::default();
        (0..5).for_each(|_| call(&breakers, failed(), at(0)));
        drop(breakers.enter("x", at(40)).unwrap());
        call(&breakers, refused(), at(40));
        call(&breakers, failed(), at(40));
        assert!(breakers.enter("x", at(69)).is_err());
        assert!(breakers.enter("x", at(70)).is_ok());
    }

    #[test]
    fn refusals_count_neither_way() {
        let breakers = Breakers::default();
        (0..20).for_each(|_| call(&breakers, refused(), at(0)));
        (0..4).for_each(|_| call(&breakers, failed(), at(0)));
        call(&breakers, refused(), at(0));
        assert!(breakers.enter("x", at(0)).is_ok());
        call(&breakers, failed(), at(0));
        assert!(breakers.enter("x", at(0)).is_err(), "and they do not hide a row of faults");
    }
}
