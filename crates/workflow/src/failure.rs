//! Why a step failed, by our code and by KarnEvil9's. The table is in docs/plans.md.

use crate::findings::is_unseen;
use world::{Code, Refusal, StepError};

/// What kept a step from succeeding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepFailure {
    UnknownTool,
    /// The tool's version is not in the step's range.
    WrongVersion,
    BadInput,
    /// An output that its input is taken from has no such field.
    MissingOutput,
    /// Its input held a secret, and is not to be had exactly any more.
    InputGone,
    /// The tool's result does not fit its own schema.
    BadOutput,
    CriteriaUnmet,
    Denied,
    /// The session's policy profile or the task's constraints do not allow it.
    OutsideProfile,
    ToolFailed,
    BreakerOpen,
    TimedOut,
    /// The session's time is over.
    DurationLimit,
    /// Steps, tokens, costs or iterations of the session are used up.
    LimitReached,
    DependencyFailed,
    /// Another step failed and no step of the plan begins any more.
    PlanStopped,
    /// A crash came between the act and its outcome.
    Lost,
    /// This machine cannot do it.
    Unsupported,
}

impl StepFailure {
    pub const ALL: [StepFailure; 18] = [
        StepFailure::UnknownTool,
        StepFailure::WrongVersion,
        StepFailure::BadInput,
        StepFailure::MissingOutput,
        StepFailure::InputGone,
        StepFailure::BadOutput,
        StepFailure::CriteriaUnmet,
        StepFailure::Denied,
        StepFailure::OutsideProfile,
        StepFailure::ToolFailed,
        StepFailure::BreakerOpen,
        StepFailure::TimedOut,
        StepFailure::DurationLimit,
        StepFailure::LimitReached,
        StepFailure::DependencyFailed,
        StepFailure::PlanStopped,
        StepFailure::Lost,
        StepFailure::Unsupported,
    ];

    pub fn as_str(self) -> &'static str {
        self.codes().0
    }

    /// The code that KarnEvil9 has for it, or the nearest one.
    pub fn karnevil9(self) -> &'static str {
        self.codes().1
    }

    fn codes(self) -> (&'static str, &'static str) {
        match self {
            StepFailure::UnknownTool => ("unknown_tool", "TOOL_NOT_FOUND"),
            StepFailure::WrongVersion => ("wrong_version", "TOOL_NOT_FOUND"),
            StepFailure::BadInput => ("bad_input", "INVALID_INPUT"),
            StepFailure::MissingOutput => ("missing_output", "INVALID_INPUT"),
            StepFailure::InputGone => ("input_gone", "INVALID_INPUT"),
            StepFailure::BadOutput => ("bad_output", "INVALID_OUTPUT"),
            StepFailure::CriteriaUnmet => ("criteria_unmet", "INVALID_OUTPUT"),
            StepFailure::Denied => ("denied", "PERMISSION_DENIED"),
            StepFailure::OutsideProfile => ("outside_profile", "POLICY_VIOLATION"),
            StepFailure::ToolFailed => ("tool_failed", "EXECUTION_ERROR"),
            StepFailure::BreakerOpen => ("breaker_open", "CIRCUIT_BREAKER_OPEN"),
            StepFailure::TimedOut => ("timed_out", "TIMEOUT"),
            StepFailure::DurationLimit => ("duration_limit", "DURATION_LIMIT"),
            StepFailure::LimitReached => ("limit_reached", "SESSION_LIMIT_REACHED"),
            StepFailure::DependencyFailed => ("dependency_failed", "EXECUTION_ERROR"),
            StepFailure::PlanStopped => ("plan_stopped", "EXECUTION_ERROR"),
            StepFailure::Lost => ("lost", "EXECUTION_ERROR"),
            StepFailure::Unsupported => ("unsupported", "NO_RUNTIME"),
        }
    }

    /// May another attempt go better? What a policy, a schema or a limit refuses is refused again.
    pub fn may_pass_later(self) -> bool {
        matches!(
            self,
            StepFailure::ToolFailed
                | StepFailure::BreakerOpen
                | StepFailure::TimedOut
                | StepFailure::BadOutput
                | StepFailure::CriteriaUnmet
        )
    }
}

/// Characters of a message on record; the whole output stands with its call.
const MESSAGE_MAX: usize = 1_000;

/// Why a step failed, as it is recorded.
pub fn step_error(failure: StepFailure, message: impl AsRef<str>) -> StepError {
    let message: String =
        message.as_ref().chars().take(MESSAGE_MAX).map(|letter| if is_unseen(letter) && letter != '\n' { ' ' } else { letter }).collect();
    StepError { code: failure.as_str().to_owned(), karnevil9: failure.karnevil9().to_owned(), message }
}

/// What a refusal at the door is for a step.
pub fn refusal_error(refusal: &Refusal) -> StepError {
    let failure = match refusal.code {
        Code::Denied | Code::Pending => StepFailure::Denied,
        Code::Untrusted => StepFailure::OutsideProfile,
        Code::Exhausted => StepFailure::LimitReached,
        Code::BadInput | Code::TooLarge => StepFailure::BadInput,
        Code::NotFound | Code::WrongState => StepFailure::ToolFailed,
        Code::Unsupported => StepFailure::Unsupported,
    };
    step_error(failure, &refusal.reason)
}
