//! Sessions in scenarios: their terms, their plans, and what their records say.

use super::Scenario;
use super::step::Story;
use kernel::{NewSession, Stop};
use std::path::PathBuf;
use world::{Event, LessonId, PlanConstraints, PlanFinding, PolicyProfile, SessionLimits, SessionMode, SessionTerms};

/// Reads the words behind `session`.
pub(super) fn terms(words: &str) -> Result<SessionTerms, String> {
    let limits = SessionLimits { max_steps: 100, max_iterations: 10, max_duration_ms: None, max_cost_micros: None, max_tokens: None };
    let mut terms = SessionTerms {
        agentic: false,
        mode: SessionMode::Live,
        planner: "file".to_owned(),
        limits,
        profile: PolicyProfile::default(),
        constraints: PlanConstraints::default(),
        critics: true,
        model_critic: false,
        memory: false,
        context_tokens: None,
        plan_only: false,
        unattended: false,
        priority: 3,
    };
    for word in words.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || value.parse::<u64>().map_err(|_| format!("`{word}` wants a number"));
        let list = || value.split(',').map(str::to_owned).collect::<Vec<_>>();
        match name {
            "agentic" => terms.agentic = true,
            "memory" => terms.memory = true,
            "unattended" => terms.unattended = true,
            "plan_only" => terms.plan_only = true,
            "model_critic" => terms.model_critic = true,
            "no_critics" => terms.critics = false,
            "dry_run" => terms.mode = SessionMode::DryRun,
            "mock" => terms.mode = SessionMode::Mock,
            "planner" => terms.planner = value.to_owned(),
            "steps" => terms.limits.max_steps = number()?,
            "iterations" => terms.limits.max_iterations = u32::try_from(number()?).map_err(|error| error.to_string())?,
            "ms" => terms.limits.max_duration_ms = Some(number()?),
            "micros" => terms.limits.max_cost_micros = Some(number()?),
            "tokens" => terms.limits.max_tokens = Some(number()?),
            "context" => terms.context_tokens = Some(number()?),
            "priority" => terms.priority = u8::try_from(number()?).map_err(|error| error.to_string())?,
            "paths" => terms.profile.allowed_paths = list(),
            "commands" => terms.profile.allowed_commands = list(),
            "endpoints" => terms.profile.allowed_endpoints = list(),
            "approve_writes" => terms.profile.require_approval_for_writes = true,
            "tools" => terms.constraints.tool_allowlist = list(),
            "no_tools" => terms.constraints.tool_denylist = list(),
            "scope" => terms.constraints.path_scope = list(),
            _ => return Err(format!("`{word}` is no term of a session")),
        }
    }
    Ok(terms)
}

/// What people do about sessions.
#[derive(Debug, Clone)]
pub(super) enum SessionStep {
    /// The same session once more.
    Again,
    Forget(LessonId),
    /// How strictly tests come first from here on.
    Switch(world::Discipline),
    /// Another task in this mode, by a script of its own.
    Next {
        number: usize,
        mode: world::Discipline,
        script: String,
    },
}

impl Story<'_> {
    /// Does one step about sessions, when the one before is over or waits.
    pub async fn take_session(&mut self, step: &SessionStep, scenario: &Scenario) -> Result<bool, Stop> {
        self.question().await?;
        match (step, &scenario.session) {
            (SessionStep::Again, Some(terms)) => self.add_session(scenario, terms, self.project().await?).await?,
            (SessionStep::Again, None) => {}
            (SessionStep::Switch(mode), _) => {
                let switched = self.kernel()?.switch_discipline(self.its_task()?, *mode, "human").await;
                self.note("switch", switched.map(drop))?;
            }
            (SessionStep::Next { number, mode, script }, _) => {
                let place = self.project().await?.with_extension(format!("script-{number}"));
                std::fs::write(&place, script).map_err(|error| kernel::Fault::io("write", &place, error))?;
                let shape = kernel::TaskShape { discipline: Some(*mode), ..kernel::TaskShape::default() };
                self.add(&Scenario { shape, ..Scenario::default() }, &place).await?;
            }
            (SessionStep::Forget(lesson), _) => self.kernel()?.forget_lessons(vec![*lesson], "human", "it misleads".to_owned()).await?,
        }
        Ok(true)
    }

    /// Starts the session of a scenario.
    pub async fn add_session(&mut self, scenario: &Scenario, terms: &SessionTerms, project: PathBuf) -> Result<(), Stop> {
        let plan = (!scenario.plan.is_empty()).then(|| scenario.plan.clone());
        let new = NewSession {
            plan,
            record: scenario.record,
            tags: scenario.tags.clone(),
            discipline: scenario.shape.discipline,
            ..NewSession::new(project, "play the scenario".to_owned(), terms.clone())
        };
        let added = self.kernel()?.add_session(new).await?;
        self.set_task(added.task);
        Ok(())
    }
}

/// What a record of a session says.
pub(super) fn detail(event: &Event) -> Option<String> {
    Some(match event {
        Event::SessionCreated(e) => {
            let kind = if e.terms.agentic { "agentic" } else { "one plan" };
            let of = e.of.map_or_else(String::new, |of| format!(" of {of}"));
            format!("{kind} by {} {}{of}", e.terms.planner, e.terms.mode.as_str())
        }
        Event::PlannerRequested(e) => format!("iteration {} round {} of {}", e.iteration, e.round, e.planner),
        Event::PlanReceived(e) => format!("iteration {} round {}, {} bytes", e.iteration, e.round, e.bytes),
        Event::PlanCriticized(e) if e.off => format!("iteration {} round {}: critics are off", e.iteration, e.round),
        Event::PlanCriticized(e) => format!("iteration {} round {}{}", e.iteration, e.round, findings(&e.findings)),
        Event::PlanRejected(e) => format!("iteration {} round {}{}", e.iteration, e.round, findings(&e.findings)),
        Event::PlanAccepted(e) => format!("plan {} of iteration {}: {}, {} steps", e.plan, e.iteration, e.goal, e.steps),
        Event::PlanReplaced(e) => format!("plan {}: {}", e.plan, e.reason),
        Event::StepStarted(e) => format!("{} {} attempt {}", e.step, e.tool, e.attempt),
        Event::StepFinished(e) => {
            let call = e.call.map_or_else(String::new, |call| format!(" {call}"));
            let why =
                e.error.as_ref().map_or_else(String::new, |error| format!("   {} ({}): {}", error.code, error.karnevil9, error.message));
            format!("{} {} after {}{call}{why}", e.step, e.status.as_str(), e.attempts)
        }
        Event::SessionCheckpointed(e) => {
            let record = &e.iteration;
            format!("iteration {}: {} succeeded, {} failed, {} skipped", record.iteration, record.succeeded, record.failed, record.skipped)
        }
        // How much of a time was used is another each time.
        Event::LimitExceeded(e) if e.limit.ends_with("_ms") => format!("{} of {}", e.limit, e.max),
        Event::LimitExceeded(e) => format!("{}: {} of {}", e.limit, e.used, e.max),
        Event::FutilityDetected(e) => format!("{}: {}", e.pattern, e.reason),
        Event::ContextAssessed(e) => format!("{}: {} of {}", e.verdict.as_str(), e.used, e.budget),
        Event::ContextSummarized(e) => format!("{} bytes", e.bytes),
        Event::DelegationStarted(e) => format!("to {} with {} tokens, {} micros", e.child, e.tokens, e.micros),
        Event::DelegationFinished(e) => format!("by {} {}: {}", e.child, if e.ok { "ok" } else { "failed" }, e.findings),
        Event::LessonLearned(e) => format!("{} {}: {}", e.lesson, if e.ok { "ok" } else { "failed" }, e.summary),
        Event::LessonRecalled(e) => e.lessons.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        Event::LessonForgotten(e) => {
            format!("{} by {}: {}", e.lessons.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "), e.by, e.reason)
        }
        _ => return None,
    })
}

fn findings(found: &[PlanFinding]) -> String {
    let told = |finding: &PlanFinding| {
        let at = if finding.at.is_empty() { String::new() } else { format!(" at {}", finding.at) };
        format!("   {}{at}: {}{}", finding.critic, finding.message, if finding.blocks { "" } else { " (told)" })
    };
    found.iter().map(told).collect()
}
