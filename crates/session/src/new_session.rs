//! A session that somebody wants, and how one ends.

use std::path::PathBuf;
use world::{Budget, RetryCause, ReviewId, SessionTerms, TaskId};

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
    /// The session that delegates it.
    pub of: Option<TaskId>,
}

impl NewSession {
    /// A session of the operator's, within these terms.
    pub fn new(path: PathBuf, text: String, terms: SessionTerms) -> NewSession {
        NewSession { path, text, terms, plan: None, budget: None, record: false, tags: Vec::new(), of: None }
    }
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
