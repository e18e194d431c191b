//! Leave to make calls, lasting refusals, and the questions that lead to either.

use crate::{BanId, GrantId, Pid, ReviewId, TaskId, TokenId, UsedRoom, ZoneId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A grant answers `require_review` for what it names, and nothing else: it never overrides a deny.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    pub id: GrantId,
    /// The process whose question led to it.
    pub pid: Pid,
    pub task: Option<TaskId>,
    pub scope: Scope,
    pub what: CallPattern,
    pub terms: Terms,
    /// Its uses, as far back as its rate looks.
    #[serde(default)]
    pub used: Vec<Used>,
    /// `None` for one of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<ShownContext>,
}

/// What a question showed besides the call itself. A yes reaches no further: another room or another rule is a new question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownContext {
    /// The room that the call was to run in, or comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<UsedRoom>,
    /// Who asked.
    pub rules: Vec<String>,
}

/// When a grant with a rate was used: by the record, and since the machine's boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    pub at_ms: i64,
    #[serde(default)]
    pub up: Option<Deadline>,
}

impl Used {
    /// Was it within the last `per_ms`? What another boot of the machine saw is dated by its record alone.
    fn is_recent(&self, per_ms: u64, now: &BootTime, now_ms: i64) -> bool {
        match &self.up {
            Some(up) if up.boot == now.boot => now.boottime_ms.saturating_sub(up.boottime_ms) < per_ms,
            _ => self.at_ms > now_ms.saturating_sub_unsigned(per_ms),
        }
    }
}

/// Whom it holds for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "of")]
pub enum Scope {
    /// One process and what it spawned.
    Process {
        pid: Pid,
    },
    /// A root process with all below it, as the journal names it. What was answered in a task is about that task and ends with it; what
    /// the operator was asked for a call of their own ends with the kernel.
    Session {
        session: String,
    },
    Zone {
        zone: ZoneId,
    },
    User {
        user: String,
    },
    All,
}

/// Which calls it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum CallPattern {
    /// One exact call: hash of session, task, tool, canonical input and base.
    Exact { tool: String, bind: String },
    /// Calls of one tool on these paths, with this command or to this host. All that is given must fit.
    Like {
        tool: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        paths: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<Vec<String>>,
        /// The command is the whole argument list; else it is how one begins.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        whole: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
        /// Of that host; without one it is about every port of it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<u16>,
        /// A yes to a look is none to a change; without one it is about every method.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        method: Option<String>,
    },
}

impl CallPattern {
    /// The same as a no means it: all of a host, without port and method, and a command whatever more is written behind it and
    /// wherever it runs.
    pub fn wherever(self) -> CallPattern {
        match self {
            CallPattern::Like { tool, paths, command, host, .. } => {
                let paths = if command.is_some() { Vec::new() } else { paths };
                CallPattern::Like { tool, paths, command, whole: false, host, port: None, method: None }
            }
            exact @ CallPattern::Exact { .. } => exact,
        }
    }

    pub fn tool(&self) -> &str {
        match self {
            CallPattern::Exact { tool, .. } | CallPattern::Like { tool, .. } => tool,
        }
    }
}

/// Under which conditions, for the grant's whole life.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// `None` is without number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses_left: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Deadline>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraints: Option<Constraints>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observe: Option<Observe>,
}

/// An end that a step of the wall clock does not move: time since this boot of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadline {
    pub boot: String,
    pub boottime_ms: u64,
}

/// Now, in the same measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootTime {
    pub boot: String,
    pub boottime_ms: u64,
}

impl BootTime {
    /// This very moment, to be kept.
    pub fn until(&self) -> Deadline {
        Deadline { boot: self.boot.clone(), boottime_ms: self.boottime_ms }
    }
}

impl Deadline {
    pub fn is_over(&self, now: &BootTime) -> bool {
        self.boot != now.boot || now.boottime_ms >= self.boottime_ms
    }
}

/// At most `max` uses in any `per_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    pub max: u32,
    pub per_ms: u64,
}

/// How much of an allowed call is written down besides the call itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observe {
    Basic,
    Detailed,
}

/// What a yes came with. KarnEvil9's names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Constraints {
    /// Written paths that the grant does not cover.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub readonly_paths: Vec<String>,
    /// The only written paths that it covers, if any are named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writable_paths: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration_ms: Option<u64>,
    /// Fields of the input that are set to these, whatever the caller said.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub input_overrides: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output_redact_fields: Vec<String>,
    /// The only fields of the output that the caller sees, if any are named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output_allow_fields: Vec<String>,
}

impl Grant {
    /// Were these rules among those that asked when it was given? One of an earlier version does not say.
    pub fn answers(&self, rules: &[String]) -> bool {
        self.shown.as_ref().is_none_or(|shown| rules.iter().all(|rule| shown.rules.contains(rule)))
    }

    /// May it still be used at all?
    pub fn is_live(&self, now: &BootTime, now_ms: i64) -> bool {
        let Terms { uses_left, until, rate, .. } = &self.terms;
        let recent = |rate: &Rate| self.used.iter().filter(|used| used.is_recent(rate.per_ms, now, now_ms)).count();
        let rested = rate.as_ref().is_none_or(|rate| recent(rate) < rate.max as usize);
        *uses_left != Some(0) && until.as_ref().is_none_or(|until| !until.is_over(now)) && rested
    }

    /// Counts one use.
    pub fn use_once(&mut self, used: Used) {
        self.terms.uses_left = self.terms.uses_left.map(|left| left.saturating_sub(1));
        if let Some(rate) = self.terms.rate {
            // More than the rate's number are never asked for: the newest tell whether it is spent.
            let keep = (rate.max as usize).saturating_sub(1);
            self.used.drain(..self.used.len().saturating_sub(keep));
            self.used.push(used);
        }
    }
}

/// A lasting refusal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ban {
    pub id: BanId,
    pub pid: Pid,
    /// The task whose question led to it.
    #[serde(default)]
    pub task: Option<TaskId>,
    pub scope: Scope,
    pub what: CallPattern,
    pub reason: String,
    pub alternative: Option<Alternative>,
}

/// What a person would rather see instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    pub tool: String,
    #[serde(default)]
    pub input: Value,
}

/// A signed grant that its caller carries. What it may do is in the text it was given; here is what is left of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub id: TokenId,
    pub pid: Pid,
    pub ops_left: u32,
    pub until: Deadline,
}

/// One question to a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Review {
    pub id: ReviewId,
    pub pid: Pid,
    pub task: Option<TaskId>,
    /// Where the call was to be made.
    #[serde(default)]
    pub zone: Option<ZoneId>,
    pub tool: String,
    /// Redacted and shortened, as the record holds it.
    pub input: Value,
    /// A keyed digest of the exact input, where `input` is not all of it: a yes covers more than the record shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<String>,
    pub bind: String,
    /// What a wider yes would be about: the call without its exact input.
    pub like: CallPattern,
    /// One for each rule that asked.
    pub reasons: Vec<String>,
    pub rules: Vec<String>,
    /// The room that the call was to run in, or comes from; `None` also in questions of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room: Option<UsedRoom>,
    pub asked_ms: i64,
    /// What a yes came with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub constraints: Option<Constraints>,
    pub state: ReviewState,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum ReviewState {
    Open,
    Answered {
        answer: Answer,
        by: String,
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        alternative: Option<Alternative>,
    },
    /// The task ended before anyone answered.
    Void,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Allow,
    Deny,
    /// To a merge: not yet. Its task goes on with what the person said.
    Changes,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(boot: &str, boottime_ms: u64) -> BootTime {
        BootTime { boot: boot.into(), boottime_ms }
    }

    fn grant(terms: Terms) -> Grant {
        let what = CallPattern::Exact { tool: "fs.write".into(), bind: "b".into() };
        Grant { id: GrantId(1), pid: Pid(3), task: None, scope: Scope::All, what, terms, used: Vec::new(), shown: None }
    }

    fn used(at_ms: i64, boot: &str, boottime_ms: u64) -> Used {
        Used { at_ms, up: Some(Deadline { boot: boot.into(), boottime_ms }) }
    }

    #[test]
    fn an_end_holds_on_its_own_boot_only() {
        let until = Deadline { boot: "a".into(), boottime_ms: 100 };
        assert!(!until.is_over(&moment("a", 99)));
        assert!(until.is_over(&moment("a", 100)));
        assert!(until.is_over(&moment("b", 1)), "another boot's clock says nothing");
    }

    #[test]
    fn a_rate_forgets_and_a_number_does_not() {
        let now = moment("a", 0);
        let mut limited = grant(Terms { rate: Some(Rate { max: 2, per_ms: 1_000 }), ..Terms::default() });
        limited.use_once(used(0, "a", 0));
        assert!(limited.is_live(&moment("a", 1), 0));
        limited.use_once(used(500, "a", 500));
        assert!(!limited.is_live(&moment("a", 999), 999) && limited.is_live(&moment("a", 1_000), 1_000));
        assert!(!limited.is_live(&moment("a", 999), 999_999), "a step of the wall clock gives nothing back");
        assert!(
            !limited.is_live(&moment("b", 999_999), 999) && limited.is_live(&moment("b", 0), 1_500),
            "another boot has only the record"
        );
        limited.use_once(used(1_000, "a", 1_000));
        assert_eq!(limited.used.len(), 2, "no more is kept than the rate can ask for");
        let mut counted = grant(Terms { uses_left: Some(1), ..Terms::default() });
        assert!(counted.is_live(&now, 0));
        counted.use_once(used(0, "a", 0));
        assert!(!counted.is_live(&now, i64::MAX));
    }
}
