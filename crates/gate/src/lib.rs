//! The gate: the policy in force in each zone, and the one judgement of every call by it.
//!
//! A call at the door, a path of a merge, the merge as a whole, its undo, a trial, a connection of a job, a request to a model and an
//! explanation are described as [`CallFacts`] and judged by the same code. [`Gate::admit`] decides and records the decision in one commit.
//! It opens no task's room and runs no tool: whoever does gives it paths that are resolved already.
//!
//! **Invariant.** Only [`Gate::admit`] makes a [`Permit`], and only for a call whose admission is on disk or covered by what is.
#![forbid(unsafe_code)]

mod abandoned;
mod admit;
mod approval;
mod bundle;
mod call_facts;
mod config;
mod crew_config;
mod describe;
mod difference;
mod extension;
mod gate;
mod home_policy;
mod judge;
mod merge_rights;
mod outcome;
mod past_call;
mod pattern;
mod policies;
mod record;
mod request;
mod role;
mod runtime;
mod session_scope;
mod settle;
mod sight;
mod site;
mod task_shape;
mod template;
mod test_command;
mod test_first;
mod token;
mod tree_request;
mod trial;
mod worker;
mod zone;

pub use admit::{ExtraEvents, GateDecision, OnAdmit, Permit, stale};
pub use bundle::read_bundle;
pub use call_facts::{CallFacts, Details, Who, used_room};
pub use config::{BrainAlias, Config, TestConfig};
pub use crew_config::{StopHook, ZoneLimits, check_tools};
pub use describe::{GateFacts, host_of, network_target};
pub use extension::program;
pub use gate::Gate;
pub use home_policy::{HOME_POLICY_FILE, HomeProposal};
pub use judge::{CallerRights, Judgement, LOST};
pub use merge_rights::{MergeRights, MergeStart, path_details};
pub use outcome::{CallEnd, CallOutcome};
pub use policies::Policies;
pub use record::{KEPT_CHARS, RedactedInput, shorten};
pub use request::{CLIENT, JOB, JobTerms, MODEL_REQUEST, PERSON_ASK, Request, TIMED_OUT};
pub use role::{KnownSkill, ROLES_FOLDER, Role, Skill, SkillParam, SkillWork, role_brief};
pub use runtime::RoomRuntime;
pub use session_scope::SESSION_TERMS;
pub use settle::TimedOutput;
pub use sight::Masks;
pub use site::NamedTree;
pub use task_shape::{ChosenSkill, ShapedTask, TaskShape, command_script};
pub use template::{RoomEnvironment, SANDBOX_RUN, SandboxConfig, TemplateChange, Templates};
pub use test_first::{StrictConfig, TestPaths, WORKFLOW};
pub use token::{ISSUE, TokenRequest};
pub use tree_request::TreeRequest;
pub use trial::{CallRange, Checked, PastPolicy, parse_policy};
pub use worker::{
    BrainNames, FoundWorker, SESSION_ROLE, WORKER_NAME, WORKER_ROLE, WorkerWish, first_worker, free_worker, is_worker, shown_role,
};
pub use zone::{Bundle, POLICY_FILE, Parsed, PolicyProposal, TrustedPolicy};
pub use zone::{brings_own, locate};
