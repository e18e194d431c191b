//! A session that somebody wants, and how one ends.

use std::path::PathBuf;
use world::{Budget, Discipline, Event, ForkPoint, RetryCause, ReviewId, SessionTerms, StepIncrement, TaskId};

/// A session that somebody wants.
#[derive(Clone, Debug)]
pub struct NewSession {
    /// In the project that it works in.
    pub path: PathBuf,
    /// What is to be done.
    pub text: String,
    pub terms: SessionTerms,
    /// Text of a plan file, for the planner `file`: one plan, or several behind lines of `---`, of which each asking takes the next.
    pub plan: Option<String>,
    /// What its requests to models may use, beside `max_cost` and `max_tokens` of its limits.
    pub budget: Option<Budget>,
    /// Take its traffic with models down on a cassette.
    pub record: bool,
    pub tags: Vec<String>,
    /// How strictly tests come first.
    pub discipline: Option<Discipline>,
    /// The session that delegates it.
    pub of: Option<TaskId>,
    /// Where it goes on from another session.
    pub fork: Option<Box<ForkStart>>,
}

impl NewSession {
    /// A session of the operator's, within these terms.
    pub fn new(path: PathBuf, text: String, terms: SessionTerms) -> NewSession {
        NewSession { path, text, terms, plan: None, budget: None, record: false, tags: Vec::new(), discipline: None, of: None, fork: None }
    }
}

/// What a session that goes on from another one begins with.
#[derive(Clone, Debug)]
pub struct ForkStart {
    pub point: ForkPoint,
    /// What happened until then, as the other session has it on record.
    pub events: Vec<Event>,
    /// Its plan file, as its task names it; false where its exact words are not to be had.
    pub brain: String,
    pub is_exact: bool,
    /// What its workspace held, as kept work.
    pub kept: Option<StepIncrement>,
}

/// How a stretch of work on a session ended.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionEnd {
    Done(String),
    /// A person must answer; the task is to be parked.
    Asked(ReviewId),
    /// It cannot go on now, and later it can.
    Stopped {
        reason: String,
        cause: RetryCause,
    },
    Failed(String),
}
