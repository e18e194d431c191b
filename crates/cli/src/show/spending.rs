//! What requests to models cost and what budgets hold, one record in one line.

use super::Line;
use super::measure::{count, dollars};
use crate::remedy;
use std::collections::BTreeMap;
use wire::budget::Cap;
use wire::event::{BudgetAsked, BudgetWarned, ModelUsed};
use wire::{AtCap, Budget, Event};

pub fn event_line(event: &Event) -> Option<Line> {
    Some(match event {
        Event::BudgetSet(e) => {
            let caps = e.budget.as_ref().map_or_else(|| "no budget".to_owned(), caps);
            Line::new().plain(caps).faint(format!("  by {}", e.by))
        }
        Event::BudgetGranted(e) => Line::new().plain(format!("{} more", caps(&e.more()))).faint(format!("  by {}", e.by)),
        Event::BudgetReconciled(e) => {
            Line::new().plain(format!("{} in place of an estimate", amounts(&e.tokens, e.micros))).faint(format!("  by {}", e.by))
        }
        Event::BudgetWarned(e) => warned(e),
        Event::BudgetAsked(e) => Line::new().plain(asked(e)),
        Event::BudgetLeased(e) => Line::new().name(e.lease.to_string()).plain("  ").plain(share(&e.tier, e.tokens, e.micros)),
        Event::BudgetReturned(e) => Line::new().name(e.lease.to_string()).plain("  ").plain(share("", e.tokens, e.micros)),
        Event::BudgetLost(e) => Line::new().name(e.lease.to_string()).plain("  ").plain(share("", e.tokens, e.micros)),
        Event::ModelReserved(e) => {
            let what = format!("  up to {}  ", share(&e.tier, e.tokens, e.micros));
            Line::new().name(e.call.to_string()).plain(what).faint(format!("{}/{}", e.provider, e.model))
        }
        Event::ModelUsed(e) => used(e),
        Event::ModelHeld(e) => {
            let what = format!("  {} held  ", share(&e.tier, e.tokens, e.micros));
            Line::new().name(e.call.to_string()).plain(what).faint(format!("{}/{}  {}", e.provider, e.model, e.why))
        }
        Event::ModelReleased(e) => {
            let what = format!("  {} released  ", share("", e.tokens, e.micros));
            Line::new().name(e.call.to_string()).plain(what).faint(&e.why)
        }
        Event::CassetteStarted(e) => Line::new().plain(&e.file),
        Event::ReplayStarted(e) => Line::new().faint("of ").name(e.of.to_string()),
        Event::ReplayFinished(e) => {
            let end = match e.difference.as_ref().and_then(|difference| difference.lines().next()) {
                Some(at) => Line::new().bad(format!("diverged at {at}")),
                None => Line::new().good("identical"),
            };
            Line::new().faint("of ").name(e.of.to_string()).plain("  ").join(end)
        }
        _ => return None,
    })
}

/// What a request waits for, and what lets it go on.
pub fn asked(e: &BudgetAsked) -> String {
    let missing = e.used.saturating_add(e.need).saturating_sub(e.cap);
    format!("waits for {}: `{}`", e.what, remedy::grant_budget(e.of, &e.what, missing))
}

pub fn warned(e: &BudgetWarned) -> Line {
    let amount = |n| if Cap::parse(&e.what).is_some_and(|what| what.is_money()) { dollars(n) } else { count(n) };
    Line::new().wait(format!("{} of {} {} are spent", amount(e.used), amount(e.cap), e.what)).plain(format!(" of process {}", e.pid))
}

fn used(e: &ModelUsed) -> Line {
    let line = Line::new().name(e.call.to_string()).plain(format!("  {}", dollars(e.charged_micros)));
    let figures = &e.figures;
    let kinds = [("in", figures.input), ("cache read", figures.cache_read), ("cache write", figures.cache_write), ("out", figures.output)];
    let kinds: Vec<String> =
        kinds.into_iter().filter(|(_, tokens)| *tokens > 0).map(|(word, tokens)| format!("{} {word}", count(tokens))).collect();
    let line = if kinds.is_empty() { line } else { line.plain(format!("  {}", kinds.join(", "))) };
    let line = if figures.estimated > 0 { line.wait("  estimated") } else { line };
    let line = match (e.held_micros, e.held_tokens) {
        (0, 0) => line,
        (0, tokens) => line.wait(format!("  {} tokens held", count(tokens))),
        (micros, _) => line.wait(format!("  {} held", dollars(micros))),
    };
    let status = e.status.filter(|status| !(200..300).contains(status)).map(|status| format!("  {status}"));
    let notes = if e.notes.is_empty() { String::new() } else { format!("  {}", e.notes.join("; ")) };
    line.bad(status.unwrap_or_default()).faint(format!("  {}/{}", e.provider, e.model)).faint(notes)
}

fn share(tier: &str, tokens: u64, micros: u64) -> String {
    let gap = if tier.is_empty() { "" } else { " " };
    format!("{} {tier}{gap}tokens, {}", count(tokens), dollars(micros))
}

fn amounts(tokens: &BTreeMap<String, u64>, micros: Option<u64>) -> String {
    let money = micros.filter(|micros| *micros > 0 || tokens.is_empty()).map(dollars);
    let tokens = tokens.iter().map(|(tier, tokens)| format!("{} {tier} tokens", count(*tokens)));
    money.into_iter().chain(tokens).collect::<Vec<_>>().join(", ")
}

fn caps(budget: &Budget) -> String {
    let money = budget.micros.map(dollars);
    let tokens = budget.tokens.iter().map(|(tier, cap)| format!("{} {tier} tokens", count(*cap)));
    let daily = budget.micros_per_day.map(|cap| format!("{} a day", dollars(cap)));
    let of_time = [(&budget.tokens_per_day, "a day"), (&budget.tokens_per_hour, "an hour")];
    let of_time =
        of_time.into_iter().flat_map(|(caps, span)| caps.iter().map(move |(tier, cap)| format!("{} {tier} tokens {span}", count(*cap))));
    let rate = budget.requests_per_minute.map(|cap| format!("{} requests a minute", count(cap.into())));
    let context = budget.context.map(|cap| format!("{} tokens of context", count(cap)));
    let ask = (budget.at_cap == AtCap::Ask).then(|| "asks at the cap".to_owned());
    money.into_iter().chain(tokens).chain(daily).chain(of_time).chain(rate).chain(context).chain(ask).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn said(kind: &str, mut payload: Value) -> String {
        payload["pid"] = json!(3);
        let event: Event = serde_json::from_value(json!({"type": kind, "payload": payload})).unwrap();
        event_line(&event).unwrap().render(false)
    }

    #[test]
    fn money_and_tokens_read_like_sentences() {
        let budget = json!({"micros": 600_000, "tokens": {"all": 2_000_000}, "requests_per_minute": 30, "at_cap": "ask"});
        for (kind, payload, expected) in [
            (
                "budget.set",
                json!({"budget": budget, "by": "ann"}),
                "$0.60, 2,000,000 all tokens, 30 requests a minute, asks at the cap  by ann",
            ),
            ("budget.set", json!({"budget": null, "by": "ann"}), "no budget  by ann"),
            ("budget.granted", json!({"tokens": {"tactical": 5_000}, "micros": 0, "by": "ann"}), "5,000 tactical tokens more  by ann"),
            (
                "budget.granted",
                json!({"tokens": {}, "micros": 0, "timed": {"tokens_per_hour": {"all": 7}, "micros_per_day": 500_000}, "by": "ann"}),
                "$0.50 a day, 7 all tokens an hour more  by ann",
            ),
            ("budget.set", json!({"budget": {"tokens_per_day": {"all": 9}}, "by": "ann"}), "9 all tokens a day  by ann"),
            ("budget.reconciled", json!({"tokens": {}, "micros": 0, "by": "ann"}), "$0.00 in place of an estimate  by ann"),
            (
                "budget.asked",
                json!({"of": 1, "what": "money", "cap": 600_000, "used": 509_885, "need": 145_254}),
                "waits for money: `skep budget grant 1 --money 0.06`",
            ),
            (
                "budget.asked",
                json!({"of": 1, "what": "tactical tokens", "cap": 50, "used": 0, "need": 282}),
                "waits for tactical tokens: `skep budget grant 1 --tokens tactical=232`",
            ),
            (
                "budget.asked",
                json!({"of": 1, "what": "tokens", "cap": 50, "used": 0, "need": 282}),
                "waits for tokens: `skep budget grant 1 --tokens all=232`",
            ),
            ("budget.warned", json!({"what": "money", "used": 509_885, "cap": 600_000}), "$0.509885 of $0.60 money are spent of process 3"),
            (
                "model.reserved",
                json!({"call": "call-4", "provider": "a", "model": "m", "tier": "tactical", "tokens": 1_200, "micros": 145_254, "lease": null}),
                "call-4  up to 1,200 tactical tokens, $0.145254  a/m",
            ),
            (
                "model.used",
                json!({"call": "call-4", "provider": "a", "model": "m", "tier": "tactical", "charged_tokens": 1_600, "charged_micros": 10_568,
                    "figures": {"requests": 1, "input": 1_000, "output": 500, "cache_read": 100, "cache_write": 0, "reasoning": 0,
                    "micros": 10_568, "estimated": 0}, "status": 200, "first_byte_ms": 1, "asked": null, "answered": null, "notes": []}),
                "call-4  $0.010568  1,000 in, 100 cache read, 500 out  a/m",
            ),
            (
                "replay.finished",
                json!({"of": "task-1", "calls": 2, "requests": 3, "difference": "call 2\n  recorded x"}),
                "of task-1  diverged at call 2",
            ),
        ] {
            assert_eq!(said(kind, payload), expected, "{kind}");
        }
    }
}
