//! Is the work going well? Judges plans before they run, orders their steps, and says when going on is of no use.
//!
//! Pure: no IO, no clock, no thread. **Invariant.** Whatever a planner wrote becomes a plan that can be carried out, or findings that say where it is wrong.
//! Does not know how a step runs, who may do what, or where plans come from.
#![forbid(unsafe_code)]

mod bind;
mod context;
mod criteria;
mod critic;
pub mod discipline;
mod failure;
mod field;
mod findings;
mod footprint;
mod futility;
mod graph;
mod judgement;
mod lesson;
mod order;
mod plan;
mod preempt;
mod profile;
mod prompt;
mod ready;
mod relevance;
mod response;
mod session_memory;
mod summary;
mod untrusted;
mod version;

pub use bind::{BOUND_INPUT_BYTES_MAX, bind_input};
pub use context::{ContextUse, assess_context, delegated_share};
pub use criteria::{Criterion, check_success};
pub use critic::{CriticContext, ToolCatalog, criticize};
pub use failure::{StepFailure, refusal_error, step_error};
pub use field::{FieldPath, OutputRef};
pub use findings::FINDINGS_MAX;
pub use footprint::{Footprint, footprint, footprints};
pub use futility::{Futility, FutilityPattern, FutilityThresholds, detect_futility};
pub use graph::PlanGraph;
pub use judgement::{MODEL_CRITIC, critic_prompt, read_judgement};
pub use lesson::{LessonDraft, RECALLED_MAX, RankedLesson, evicted_lessons, expired_lessons, extract_lesson, rank_lessons};
pub use order::{PRIORITY_HIGHEST, PRIORITY_LOWEST, PreemptionCall, RoomClaim, SlotLimits, SlotQueue, SlotTicket, effective_priority};
pub use plan::{
    ARTIFACT_KINDS, FailurePolicy, Plan, PlanArtifact, PlanStep, SCHEMA_VERSION, STEP_RETRIES_MAX, STEP_TIMEOUT_MS_MAX,
    STEP_TIMEOUT_MS_MIN, ToolRef, plan_documents,
};
pub use preempt::{MemoryUse, PreemptibleWork, Preemption, choose_victim, judge_preemption};
pub use profile::{CallScope, ScopeVerdict, check_scope, judge_scope, scope_hint, tool_refusal};
pub use prompt::{
    AGENTIC_STEPS_MAX, PLAN_TOOL, PlannerPrompt, PlanningRequest, RecalledLesson, ToolDescription, plan_tool_schema, planner_prompt,
    tools_within,
};
pub use ready::ReadyQueue;
pub use response::{RESPONSE_BYTES_MAX, read_response};
pub use session_memory::{REMEMBERED_MAX, SessionMemory};
pub use summary::{listed_summary, summary_prompt};
pub use untrusted::clip_output;
pub use version::{ToolVersion, VersionRange};
