//! The gate: the policy in force in each zone, and the one judgement of every call by it.
//!
//! A call at the door, a path of a merge, the merge as a whole, its undo, a trial, a connection of a job, a request to a model and an
//! explanation are described as [`CallFacts`] and judged by the same code. [`Gate::admit`] decides and records the decision in one commit.
//! It opens no task's room and runs no tool: whoever does gives it paths that are resolved already.
//!
//! **Invariant.** Only [`Gate::admit`] makes a [`Permit`], and only for a call whose admission is on disk or covered by what is.
#![forbid(unsafe_code)]

mod admit;
mod approval;
mod call_facts;
mod config;
mod describe;
mod extension;
mod gate;
mod judge;
mod merge_rights;
mod pattern;
mod policies;
mod record;
mod request;
mod runtime;
mod sight;
mod template;
mod token;
mod trial;
mod zone;

pub use admit::{ExtraEvents, GateDecision, OnAdmit, Permit, stale};
pub use call_facts::{CallFacts, Details, Who, used_room};
pub use config::Config;
pub use describe::{GateFacts, host_of, network_target};
pub use extension::program;
pub use gate::Gate;
pub use judge::{CallerRights, Judgement, LOST};
pub use merge_rights::{MergeRights, MergeStart, path_details};
pub use policies::Policies;
pub use record::{KEPT_CHARS, RedactedInput, shorten};
pub use request::{JobTerms, MODEL_REQUEST, Request};
pub use runtime::RoomRuntime;
pub use sight::Masks;
pub use template::{SANDBOX_RUN, SandboxConfig, TemplateChange, Templates};
pub use token::{ISSUE, TokenRequest};
pub use trial::{CallRange, Checked, PastPolicy, parse_policy};
pub use zone::{Bundle, POLICY_FILE, Parsed, PolicyProposal, TrustedPolicy, locate, read_bundle, zone_process};
