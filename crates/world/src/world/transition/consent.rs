//! What people allow and forbid: reviews, grants, bans, tokens.

use super::{CheckResult, Transition, ensure};
use crate::event::{BanGiven, BanLifted, GrantGiven, GrantRevoked, ReviewAnswered, ReviewAsked, TokenIssued, TokenRevoked};
use crate::{Ban, BootTime, Grant, Review, ReviewState, Token, World};

impl Transition for ReviewAsked {
    fn check(&self, world: &World) -> CheckResult {
        ensure(self.review == world.next_review(), || format!("{} is not the next", self.review))?;
        ensure(world.open_review(self.pid, &self.bind).is_none(), || "the same question is open".into())
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        world.last.review = world.last.review.max(self.review.0);
        let review = Review {
            id: self.review,
            pid: self.pid,
            task: self.task,
            zone: self.zone,
            tool: self.tool.clone(),
            input: self.input.clone(),
            whole: self.whole.clone(),
            bind: self.bind.clone(),
            like: self.like.clone(),
            reasons: self.reasons.clone(),
            rules: self.rules.clone(),
            room: self.room.clone(),
            asked_ms: at_ms,
            constraints: None,
            state: ReviewState::Open,
        };
        world.reviews.insert(self.review, review);
    }
}

impl Transition for ReviewAnswered {
    fn check(&self, world: &World) -> CheckResult {
        let state = world.reviews.get(&self.review).map(|r| &r.state);
        ensure(state == Some(&ReviewState::Open), || format!("{} is not open", self.review))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(review) = world.reviews.get_mut(&self.review) {
            review.state = ReviewState::Answered {
                answer: self.answer,
                by: self.by.clone(),
                reason: self.reason.clone(),
                alternative: self.alternative.clone(),
            };
        }
    }
}

impl Transition for GrantGiven {
    fn check(&self, world: &World) -> CheckResult {
        ensure(self.grant == world.next_grant(), || format!("{} is not the next", self.grant))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.last.grant = world.last.grant.max(self.grant.0);
        let (scope, what, terms) = (self.scope.clone(), self.what.clone(), self.terms.clone());
        if let Some(review) = self.review.and_then(|review| world.reviews.get_mut(&review)) {
            review.constraints.clone_from(&terms.constraints);
        }
        let (id, pid, task, shown) = (self.grant, self.pid, self.task, self.shown.clone());
        world.grants.insert(id, Grant { id, pid, task, scope, what, terms, used: Vec::new(), shown });
    }
}

impl Transition for GrantRevoked {
    fn check(&self, world: &World) -> CheckResult {
        ensure(world.grants.contains_key(&self.grant), || format!("no {}", self.grant))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.grants.remove(&self.grant);
    }
}

impl Transition for BanGiven {
    fn check(&self, world: &World) -> CheckResult {
        ensure(self.ban == world.next_ban(), || format!("{} is not the next", self.ban))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.last.ban = world.last.ban.max(self.ban.0);
        let (scope, what, reason, alternative) = (self.scope.clone(), self.what.clone(), self.reason.clone(), self.alternative.clone());
        world.bans.insert(self.ban, Ban { id: self.ban, pid: self.pid, task: self.task, scope, what, reason, alternative });
    }
}

impl Transition for BanLifted {
    fn check(&self, world: &World) -> CheckResult {
        ensure(world.bans.contains_key(&self.ban), || format!("no {}", self.ban))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.bans.remove(&self.ban);
    }
}

impl Transition for TokenIssued {
    fn check(&self, world: &World) -> CheckResult {
        ensure(self.token == world.next_token(), || format!("{} is not the next", self.token))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.last.token = world.last.token.max(self.token.0);
        // Those of another boot, past their end or used up are of no use to anyone.
        let now = BootTime { boot: self.until.boot.clone(), boottime_ms: self.claims["issued_ms"].as_u64().unwrap_or(0) };
        world.tokens.retain(|_, token| !token.until.is_over(&now) && token.ops_left > 0);
        world.tokens.insert(self.token, Token { id: self.token, pid: self.pid, ops_left: self.ops, until: self.until.clone() });
    }
}

impl Transition for TokenRevoked {
    fn check(&self, world: &World) -> CheckResult {
        ensure(world.tokens.contains_key(&self.token), || format!("no {}", self.token))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.tokens.remove(&self.token);
    }
}
