//! `skep review allow` and `deny`: a person's answer, from the command line to the wire.

use crate::command::call::input;
use crate::command_error::CommandError;
use crate::units::{duration_ms, rate};
use clap::ValueEnum;
use serde_json::{Map, Value};
use wire::method::review::{AnswerReach, AnswerTerms, ReviewAnswerParams};
use wire::{Alternative, Answer, CallPattern, Constraints, Observe, Rate, ReviewId};

/// An answer to exactly this call, with nothing else to say.
pub fn exactly(review: ReviewId, answer: Answer) -> ReviewAnswerParams {
    ReviewAnswerParams {
        review,
        answer,
        reason: None,
        reach: None,
        what: None,
        terms: None,
        alternative: None,
        seen: None,
        newer_base: false,
    }
}

/// Whom an answer holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Whom {
    /// The worker that asked, and its children
    Process,
    /// The task that asked, until it ends
    #[value(name = "task", alias = "session")]
    Session,
    /// Every worker in this repository
    #[value(name = "repository", alias = "zone")]
    Zone,
    /// Every worker of its user, always
    User,
    /// Always and everywhere
    All,
}

impl From<Whom> for AnswerReach {
    fn from(whom: Whom) -> AnswerReach {
        match whom {
            Whom::Process => AnswerReach::Process,
            Whom::Session => AnswerReach::Session,
            Whom::Zone => AnswerReach::Zone,
            Whom::User => AnswerReach::User,
            Whom::All => AnswerReach::All,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Sizes and times of each call
    Basic,
    /// Also what went in and came out
    Detailed,
}

impl From<Level> for Observe {
    fn from(level: Level) -> Observe {
        match level {
            Level::Basic => Observe::Basic,
            Level::Detailed => Observe::Detailed,
        }
    }
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("lasting").args(["whom", "always"]).multiple(true))]
pub struct AllowArgs {
    /// Review id, as `skep review` prints it
    review: ReviewId,
    /// Calls like this one, and for whom [default: exactly this call, once]
    #[arg(long = "for", value_name = "WHOM", help_heading = "How far")]
    whom: Option<Whom>,
    /// No end; for everyone unless --for says otherwise
    #[arg(long, conflicts_with_all = ["uses", "ttl"], help_heading = "How far")]
    always: bool,
    /// Only on these paths, instead of those of this call
    #[arg(long, value_name = "GLOB", num_args = 1.., requires = "lasting", help_heading = "How far")]
    paths: Vec<String>,
    /// Commands that begin so, instead of exactly this one; a word with a dash as --command=-x
    #[arg(long, value_name = "ARGV", num_args = 1.., requires = "lasting", help_heading = "How far")]
    command: Vec<String>,
    /// At most this many calls
    #[arg(long, value_name = "N", requires = "lasting", value_parser = clap::value_parser!(u32).range(1..), help_heading = "How long")]
    uses: Option<u32>,
    /// Valid for this long: 30s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = duration_ms, help_heading = "How long")]
    ttl: Option<u64>,
    /// At most so many calls in a time: 5/1m
    #[arg(long, value_name = "N/TIME", value_parser = rate, requires = "lasting", help_heading = "How long")]
    rate: Option<Rate>,
    /// Writes only to these paths
    #[arg(long, value_name = "GLOB", num_args = 1.., help_heading = "On condition")]
    writable: Vec<String>,
    /// Never writes to these paths
    #[arg(long, value_name = "GLOB", num_args = 1.., help_heading = "On condition")]
    readonly: Vec<String>,
    /// Stop each call after this time
    #[arg(long, value_name = "TIME", value_parser = duration_ms, help_heading = "On condition")]
    max_duration: Option<u64>,
    /// Sets fields of the input, whatever the caller says
    #[arg(long, value_name = "KEY=VALUE", num_args = 1.., help_heading = "On condition")]
    set: Vec<String>,
    /// Hides fields of the output from the caller
    #[arg(long, value_name = "FIELD", num_args = 1.., help_heading = "On condition")]
    hide: Vec<String>,
    /// Shows the caller only these fields of the output
    #[arg(long, value_name = "FIELD", num_args = 1.., help_heading = "On condition")]
    only: Vec<String>,
    /// Writes down more about each call
    #[arg(long, value_name = "LEVEL", help_heading = "On condition")]
    observe: Option<Level>,
    /// For a shortened question: the code at the end of `skep review show --full`
    #[arg(long, value_name = "CODE")]
    seen: Option<String>,
    /// Why; the brain is told
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl AllowArgs {
    pub fn review(&self) -> ReviewId {
        self.review
    }

    /// Does it name calls by itself, so that the tool of the question must be known first?
    pub fn names_calls(&self) -> bool {
        !self.paths.is_empty() || !self.command.is_empty()
    }

    /// `like` is what the question itself would widen to.
    pub fn params(self, like: Option<CallPattern>) -> Result<ReviewAnswerParams, CommandError> {
        let what = self.what(like);
        let constraints = Constraints {
            readonly_paths: self.readonly,
            writable_paths: self.writable,
            max_duration_ms: self.max_duration,
            input_overrides: overrides(&self.set)?,
            output_redact_fields: self.hide,
            output_allow_fields: self.only,
        };
        let terms = AnswerTerms {
            uses: self.uses,
            ttl_ms: self.ttl,
            rate: self.rate,
            constraints: Some(constraints).filter(|constraints| *constraints != Constraints::default()),
            observe: self.observe.map(Into::into),
        };
        let reach = self.whom.map(Into::into).or(self.always.then_some(AnswerReach::All));
        let terms = Some(terms).filter(|terms| *terms != AnswerTerms::default());
        Ok(ReviewAnswerParams { reason: self.reason, reach, what, terms, seen: self.seen, ..exactly(self.review, Answer::Allow) })
    }

    fn what(&self, like: Option<CallPattern>) -> Option<CallPattern> {
        if !self.names_calls() {
            return None;
        }
        let (own_paths, own_command) = (self.paths.clone(), Some(self.command.clone()));
        Some(match like? {
            CallPattern::Like { tool, paths, command, whole, host, port, method } => {
                let paths = if own_paths.is_empty() { paths } else { own_paths };
                let whole = whole && self.command.is_empty();
                let command = own_command.filter(|words| !words.is_empty()).or(command);
                CallPattern::Like { tool, paths, command, whole, host, port, method }
            }
            CallPattern::Exact { tool, .. } => {
                let command = own_command.filter(|words| !words.is_empty());
                CallPattern::Like { tool, paths: own_paths, command, whole: false, host: None, port: None, method: None }
            }
        })
    }
}

/// `key=value` pairs as fields of an input.
pub fn overrides(pairs: &[String]) -> Result<Map<String, Value>, CommandError> {
    match input::read(None, pairs)? {
        Value::Object(map) => Ok(map),
        _ => Ok(Map::new()),
    }
}

#[derive(Debug, clap::Args)]
pub struct DenyArgs {
    /// Review id, as `skep review` prints it
    review: ReviewId,
    /// What should be done instead; the brain is told
    #[arg(long, value_names = ["TOOL", "KEY=VALUE"], num_args = 1..)]
    instead: Vec<String>,
    /// Also every later call like this one, until the ban is lifted
    #[arg(long)]
    for_good: bool,
    /// Whom the ban holds for [default: repository]
    #[arg(long = "for", value_name = "WHOM", requires = "for_good")]
    whom: Option<Whom>,
    /// Why; the brain is told
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl DenyArgs {
    pub fn params(self) -> Result<ReviewAnswerParams, CommandError> {
        let alternative = self.instead.split_first().map(|(tool, pairs)| alternative(tool, pairs)).transpose()?;
        let reach = self.for_good.then(|| self.whom.unwrap_or(Whom::Zone).into());
        Ok(ReviewAnswerParams { reason: self.reason, reach, alternative, ..exactly(self.review, Answer::Deny) })
    }
}

#[derive(Debug, clap::Args)]
pub struct ChangesArgs {
    /// Review id of a merge, as `skep review` prints it
    review: ReviewId,
    /// What should be different; the brain is told
    #[arg(long, value_name = "TEXT", required_unless_present = "rebase")]
    reason: Option<String>,
    /// Lay its work over the project as it is now, for conflicts with later changes
    #[arg(long)]
    rebase: bool,
}

impl ChangesArgs {
    pub fn params(self) -> ReviewAnswerParams {
        ReviewAnswerParams { reason: self.reason, newer_base: self.rebase, ..exactly(self.review, Answer::Changes) }
    }
}

/// Another call that a person would rather see.
pub fn alternative(tool: &str, pairs: &[String]) -> Result<Alternative, CommandError> {
    Ok(Alternative { tool: tool.to_owned(), input: Value::Object(overrides(pairs)?) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::json;

    #[derive(Debug, Parser)]
    struct Allowing {
        #[command(flatten)]
        allow: AllowArgs,
    }

    #[derive(Debug, Parser)]
    struct Denying {
        #[command(flatten)]
        deny: DenyArgs,
    }

    fn like() -> Option<CallPattern> {
        serde_json::from_value(json!({"is": "like", "tool": "fs.write", "paths": ["src/a.rs"]})).ok()
    }

    fn allow(line: &str) -> Value {
        let parsed = Allowing::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{line}: {error}"));
        serde_json::to_value(parsed.allow.params(like()).unwrap()).unwrap()
    }

    #[test]
    fn a_bare_yes_is_for_this_call_alone() {
        assert_eq!(allow("allow r-1"), json!({"review": "r-1", "answer": "allow"}));
        assert_eq!(
            allow("allow r-1 --ttl 10m --writable out/** tmp/** --reason ok"),
            json!({"review": "r-1", "answer": "allow", "reason": "ok",
                   "terms": {"ttl_ms": 600_000, "constraints": {"writable_paths": ["out/**", "tmp/**"]}}})
        );
    }

    #[test]
    fn every_term_reaches_the_wire() {
        let line = "allow r-1 --for session --uses 3 --rate 5/1m --readonly a b --max-duration 30s --set n=1 s=x --hide h --only o \
                    --observe detailed --paths src/** --command npm install --command=-g";
        assert_eq!(
            allow(line),
            json!({"review": "r-1", "answer": "allow", "reach": "session",
                   "what": {"is": "like", "tool": "fs.write", "paths": ["src/**"], "command": ["npm", "install", "-g"]},
                   "terms": {"uses": 3, "rate": {"max": 5, "per_ms": 60_000}, "observe": "detailed", "constraints": {
                       "readonly_paths": ["a", "b"], "max_duration_ms": 30_000, "input_overrides": {"n": 1, "s": "x"},
                       "output_redact_fields": ["h"], "output_allow_fields": ["o"]}}})
        );
        assert_eq!(allow("allow r-1 --always"), json!({"review": "r-1", "answer": "allow", "reach": "all"}));
        assert_eq!(allow("allow r-1 --always --for user")["reach"], "user");
    }

    #[test]
    fn what_widens_says_for_whom() {
        for bad in [
            "allow r-1 --uses 3",
            "allow r-1 --rate 5/1m",
            "allow r-1 --paths a",
            "allow r-1 --always --uses 2",
            "allow r-1 --always --ttl 1m",
            "allow r-1 --for everyone",
            "allow r-1 --for all --uses 0",
            "allow r-1 --ttl 10",
            "allow r-1 --observe much",
            "allow task-1",
        ] {
            assert!(Allowing::try_parse_from(bad.split(' ')).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_no_can_last_and_can_point_elsewhere() {
        let deny = |line: &str| {
            let parsed = Denying::try_parse_from(line.split(' ')).unwrap_or_else(|error| panic!("{line}: {error}"));
            serde_json::to_value(parsed.deny.params().unwrap()).unwrap()
        };
        assert_eq!(deny("deny r-1"), json!({"review": "r-1", "answer": "deny"}));
        assert_eq!(
            deny("deny r-1 --instead fs.write path=out/a content=x"),
            json!({"review": "r-1", "answer": "deny", "alternative": {"tool": "fs.write", "input": {"path": "out/a", "content": "x"}}})
        );
        assert_eq!(deny("deny r-1 --for-good --reason no"), json!({"review": "r-1", "answer": "deny", "reason": "no", "reach": "zone"}));
        assert_eq!(deny("deny r-1 --for-good --for all")["reach"], "all");
        assert!(Denying::try_parse_from(["deny", "r-1", "--for", "all"]).is_err());
        let half = Denying::try_parse_from(["deny", "r-1", "--instead", "fs.read", "path"]).unwrap();
        assert!(half.deny.params().is_err());
    }
}
