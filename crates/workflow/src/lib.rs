//! Is the work going well? Judges plans before they run, orders their steps, and says when going on is of no use.
//!
//! Pure: no IO, no clock, no thread. **Invariant.** Whatever a planner wrote becomes a plan that can be carried out, or findings that say where it is wrong.
//! Does not know how a step runs, who may do what, or where plans come from.
#![forbid(unsafe_code)]

mod context;
mod futility;
mod lesson;
mod prompt;
mod response;
mod untrusted;

pub use context::{ContextUse, assess_context, delegated_share};
pub use futility::{Futility, FutilityPattern, FutilityThresholds, detect_futility};
pub use lesson::{LessonDraft, RECALLED_MAX, RankedLesson, evicted_lessons, expired_lessons, extract_lesson, rank_lessons};
pub use prompt::{AGENTIC_STEPS_MAX, PlannerPrompt, PlanningRequest, RecalledLesson, ToolDescription, planner_prompt, tools_within};
pub use response::{RESPONSE_BYTES_MAX, read_response};
pub use untrusted::clip_output;
