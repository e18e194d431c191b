//! What a session may do and how, as flags.

use crate::command::act::brain;
use crate::command::budget;
use crate::command_error::CommandError;
use crate::units::duration_ms;
use clap::builder::NonEmptyStringValueParser;
use wire::{ErrorCode, PlanConstraints, PolicyProfile, SessionLimits, SessionMode, SessionTerms};

/// Steps and plans that a session may make where nobody says otherwise.
const STEPS_MAX: u64 = 1_000;
const PLANS_MAX: u32 = 15;
const PRIORITY: u8 = 3;
/// The planner that reads a file, and the one that asks a model.
pub const FILE: &str = "file";
const MODEL: &str = "model";
/// A model that is told the tools of the task's domain only.
const ROUTER: &str = "router";

#[derive(Clone, Debug, clap::Args)]
pub struct TermsArgs {
    /// Plan, do, look, and plan again, until a plan has no step
    #[arg(long)]
    agentic: bool,
    /// How real its calls are: live (also real), dry_run or mock
    #[arg(long, value_name = "MODE", default_value = "live", hide_default_value = true, value_parser = mode)]
    mode: SessionMode,
    /// The most steps in all [default: 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_steps: Option<u64>,
    /// The most plans of an agentic session [default: 15]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_iterations: Option<u32>,
    /// The most dollars for models: 2 or 0.50
    #[arg(long, value_name = "DOLLARS", value_parser = budget::micros, allow_hyphen_values = true)]
    max_cost: Option<u64>,
    /// The most tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    /// The longest that it may take: 30s, 10m, 2h
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    max_duration: Option<u64>,
    /// Who plans: model[:NAME], router[:NAME], brain:BRAIN or file [default: model, or file with a plan]
    #[arg(long, value_name = "PLANNER", value_parser = planner, conflicts_with = "brain")]
    planner: Option<String>,
    /// Have a brain plan: claude, codex:MODEL, native, script:FILE or a name of yours
    #[arg(long, value_name = "BRAIN", conflicts_with = "model", value_parser = NonEmptyStringValueParser::new())]
    brain: Option<String>,
    /// The model that plans: a tier, an alias or provider/model
    #[arg(long, value_name = "MODEL", value_parser = NonEmptyStringValueParser::new())]
    model: Option<String>,
    /// Tell the planner no lessons of earlier sessions, and learn none
    #[arg(long)]
    no_memory: bool,
    /// Tokens that the planner's context may hold
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..))]
    context_budget: Option<u64>,
    /// Carry plans out that nobody has looked at; it is on record
    #[arg(long)]
    no_critics: bool,
    /// Have a model look at plans too
    #[arg(long, conflicts_with = "no_critics")]
    model_critic: bool,
    /// From 1, the highest, to 5 [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=5))]
    priority: Option<u8>,
    /// Nobody is there: it stops with what it has instead of asking whether to go on
    #[arg(long)]
    unattended: bool,
    /// Paths that it may touch, and no others: src/**; may be given several times
    #[arg(long = "allow-path", value_name = "GLOB")]
    allow_paths: Vec<String>,
    /// Hosts that it may reach, and no others
    #[arg(long = "allow-host", value_name = "HOST")]
    allow_hosts: Vec<String>,
    /// Programs that it may run, and no others
    #[arg(long = "allow-command", value_name = "PROGRAM")]
    allow_commands: Vec<String>,
    /// Every call that changes something asks you
    #[arg(long)]
    ask_writes: bool,
    /// The only tools that plans may use: fs.read or fs.*
    #[arg(long = "only-tool", value_name = "TOOL")]
    only_tools: Vec<String>,
    /// Tools that no plan may use
    #[arg(long = "no-tool", value_name = "TOOL")]
    no_tools: Vec<String>,
    /// Where plans stay: src/
    #[arg(long, value_name = "PATH")]
    scope: Vec<String>,
    /// What must hold at the end, in the words of a plan's success criteria
    #[arg(long, value_name = "CRITERION")]
    success: Vec<String>,
}

fn mode(text: &str) -> Result<SessionMode, String> {
    match text {
        "live" | "real" => Ok(SessionMode::Live),
        "dry_run" | "dry-run" => Ok(SessionMode::DryRun),
        "mock" => Ok(SessionMode::Mock),
        _ => Err(format!("`{text}` is none of live, dry_run, mock")),
    }
}

fn planner(text: &str) -> Result<String, String> {
    let named = |kind: &str| text.strip_prefix(kind).is_some_and(|name| !name.is_empty());
    match text {
        FILE | MODEL | ROUTER => Ok(text.to_owned()),
        _ if named("model:") || named("router:") || named("brain:") => Ok(text.to_owned()),
        _ => Err(format!("`{text}` is none of model, model:NAME, router, router:NAME, brain:BRAIN, file")),
    }
}

impl TermsArgs {
    /// Those of a plan that is only looked at.
    pub fn plain() -> TermsArgs {
        TermsArgs {
            agentic: true,
            mode: SessionMode::Live,
            max_steps: None,
            max_iterations: None,
            max_cost: None,
            max_tokens: None,
            max_duration: None,
            planner: None,
            brain: None,
            model: None,
            no_memory: false,
            context_budget: None,
            no_critics: true,
            model_critic: false,
            priority: None,
            unattended: false,
            allow_paths: Vec::new(),
            allow_hosts: Vec::new(),
            allow_commands: Vec::new(),
            ask_writes: false,
            only_tools: Vec::new(),
            no_tools: Vec::new(),
            scope: Vec::new(),
            success: Vec::new(),
        }
    }

    /// The terms of a session, which has a plan file or has none.
    pub fn terms(self, has_plan: bool) -> Result<SessionTerms, CommandError> {
        let planner = self.planner_name(has_plan)?;
        Ok(SessionTerms {
            agentic: self.agentic,
            mode: self.mode,
            planner,
            limits: SessionLimits {
                max_steps: self.max_steps.unwrap_or(STEPS_MAX),
                max_iterations: self.max_iterations.unwrap_or(PLANS_MAX),
                max_duration_ms: self.max_duration,
                max_cost_micros: self.max_cost,
                max_tokens: self.max_tokens,
            },
            profile: PolicyProfile {
                allowed_paths: self.allow_paths,
                allowed_endpoints: self.allow_hosts,
                allowed_commands: self.allow_commands,
                require_approval_for_writes: self.ask_writes,
            },
            constraints: PlanConstraints {
                tool_allowlist: self.only_tools,
                tool_denylist: self.no_tools,
                path_scope: self.scope,
                success_criteria: self.success,
            },
            critics: !self.no_critics,
            model_critic: self.model_critic,
            memory: !self.no_memory,
            context_tokens: self.context_budget,
            plan_only: false,
            unattended: self.unattended,
            priority: self.priority.unwrap_or(PRIORITY),
        })
    }

    fn planner_name(&self, has_plan: bool) -> Result<String, CommandError> {
        let wrong = |what: String, fix: &str| CommandError::new(ErrorCode::BadInput, what).fix(fix);
        if has_plan {
            let other = self.planner.as_deref().filter(|planner| *planner != FILE).map(|planner| format!("--planner {planner}"));
            let other = other.or(self.brain.as_ref().map(|brain| format!("--brain {brain}")));
            return match other.or(self.model.as_ref().map(|model| format!("--model {model}"))) {
                Some(other) => Err(wrong(format!("`{other}` has nothing to do: the plan is in a file"), "leave one of them out")),
                None => Ok(FILE.to_owned()),
            };
        }
        match (self.planner.as_deref(), &self.brain, &self.model) {
            (Some(FILE), ..) => Err(wrong("the planner `file` needs a plan".to_owned(), "name it with `--plan FILE`")),
            (None | Some(MODEL), None, Some(model)) => Ok(format!("model:{model}")),
            (Some(ROUTER), None, Some(model)) => Ok(format!("router:{model}")),
            (None, Some(spec), _) => Ok(format!("brain:{}", brain(spec.clone())?)),
            (None, None, None) => Ok(MODEL.to_owned()),
            (Some(planner), _, None) => match planner.strip_prefix("brain:") {
                Some(spec) => Ok(format!("brain:{}", brain(spec.to_owned())?)),
                None => Ok(planner.to_owned()),
            },
            (Some(planner), _, Some(model)) => {
                Err(wrong(format!("`--model {model}` does not go with `--planner {planner}`"), "write `--planner model --model NAME`"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Given {
        #[command(flatten)]
        terms: TermsArgs,
    }

    fn planned_by(line: &str, has_plan: bool) -> Result<String, String> {
        let given = Given::try_parse_from(std::iter::once("x").chain(line.split_whitespace())).map_err(|error| error.to_string())?;
        given.terms.terms(has_plan).map(|terms| terms.planner).map_err(|error| error.what)
    }

    #[test]
    fn who_plans_follows_from_the_flags() {
        for (line, has_plan, planner) in [
            ("", false, "model"),
            ("", true, "file"),
            ("--planner file", true, "file"),
            ("--model fast", false, "model:fast"),
            ("--planner model --model fast", false, "model:fast"),
            ("--planner model:fast", false, "model:fast"),
            ("--planner router", false, "router"),
            ("--planner router --model fast", false, "router:fast"),
            ("--planner router:fast", false, "router:fast"),
            ("--brain claude", false, "brain:claude"),
            ("--planner brain:codex", false, "brain:codex"),
        ] {
            assert_eq!(planned_by(line, has_plan).as_deref(), Ok(planner), "{line}");
        }
        for (line, has_plan) in [
            ("--planner file", false),
            ("--planner brain:", false),
            ("--planner somebody", false),
            ("--planner router", true),
            ("--model fast", true),
            ("--brain claude", true),
            ("--brain claude --planner model", false),
            ("--planner model:slow --model fast", false),
        ] {
            assert!(planned_by(line, has_plan).is_err(), "{line}");
        }
    }

    #[test]
    fn limits_and_lists_are_kept_as_they_are_given() {
        let line = "--mode dry_run --max-steps 5 --max-cost 0.50 --max-duration 10m --allow-path src/** --allow-path a --ask-writes --no-tool net.* \
                    --no-memory --no-critics --priority 1 --unattended --agentic";
        let given = Given::try_parse_from(std::iter::once("x").chain(line.split_whitespace())).unwrap_or_else(|error| panic!("{error}"));
        let terms = given.terms.terms(true).unwrap();
        assert_eq!((terms.mode, terms.limits.max_steps, terms.limits.max_cost_micros), (SessionMode::DryRun, 5, Some(500_000)));
        assert_eq!((terms.limits.max_duration_ms, terms.limits.max_iterations), (Some(600_000), 15));
        assert_eq!(terms.profile.allowed_paths, ["src/**", "a"]);
        assert!(terms.profile.require_approval_for_writes && terms.agentic && terms.unattended && !terms.critics && !terms.memory);
        assert_eq!((terms.constraints.tool_denylist, terms.priority), (vec!["net.*".to_owned()], 1));
    }
}
