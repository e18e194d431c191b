//! What a session lets its calls do at most: the policy profile and the constraints of its terms, and of the sessions that delegated it.
//!
//! **Invariant.** It only narrows. What it does not refuse is still for the policy to allow.

use policy::RealPath;
use workflow::{CallScope, ScopeVerdict, judge_scope};
use world::{Code, PlanConstraints, PolicyProfile, Refusal, SessionTerms, TaskId, World};

/// Who denies or asks about a call that a session's terms narrow.
pub const SESSION_TERMS: &str = "session-terms";

/// The terms of one session, as far as they narrow its calls.
#[derive(Clone, Debug)]
pub(crate) struct SessionScope {
    /// `None` where there is no session yet.
    of: Option<TaskId>,
    profile: PolicyProfile,
    constraints: PlanConstraints,
}

/// What the terms have against a call.
pub(crate) enum ScopeObjection {
    Deny(Refusal),
    Ask(String),
}

/// The terms that hold for calls of a task: its own, and those of the sessions above it.
pub(crate) fn scopes_of(world: &World, task: Option<TaskId>) -> Vec<SessionScope> {
    let mut scopes = Vec::new();
    let mut at = task;
    while let Some(id) = at {
        let Some(session) = world.tasks.get(&id).and_then(|task| task.session.as_deref()) else { break };
        let (profile, constraints) = (&session.terms.profile, &session.terms.constraints);
        if *profile != PolicyProfile::default() || *constraints != PlanConstraints::default() {
            scopes.push(SessionScope { of: Some(id), profile: profile.clone(), constraints: constraints.clone() });
        }
        at = session.of;
    }
    scopes
}

impl SessionScope {
    /// Of a session that somebody may begin.
    pub fn of_terms(terms: &SessionTerms) -> SessionScope {
        SessionScope { of: None, profile: terms.profile.clone(), constraints: terms.constraints.clone() }
    }

    /// The same for what is no call of the session's own: a job's connection, or a path of its merge. Which tools its plans may use says nothing of those.
    pub fn of_paths_and_hosts(mut self) -> SessionScope {
        self.constraints.tool_allowlist.clear();
        self.constraints.tool_denylist.clear();
        self.profile.allowed_commands.clear();
        self.profile.require_approval_for_writes = false;
        self
    }

    pub fn object_to(&self, facts: &policy::Facts<'_>) -> Option<ScopeObjection> {
        let named: Vec<String> = facts.paths.iter().map(|path| RealPath::as_str(*path).to_owned()).collect();
        // Where a program works says nothing of where it reaches.
        let is_whole = named.iter().all(|path| path == ".");
        let reaches_anywhere = facts.command.is_some() || (facts.sandbox.is_some() && is_whole && !facts.read_only && facts.host.is_none());
        let paths = if reaches_anywhere { Vec::new() } else { named };
        let call = CallScope {
            tool: facts.tool,
            reads_only: facts.read_only,
            paths: &paths,
            host: facts.host,
            port: facts.port,
            command: facts.command,
            reaches_anywhere,
        };
        match judge_scope(&self.profile, &self.constraints, &call) {
            ScopeVerdict::Unrestricted => None,
            ScopeVerdict::Ask(why) => Some(ScopeObjection::Ask(why)),
            ScopeVerdict::Denied(why) => {
                let whose = self.of.map_or_else(|| "the terms".to_owned(), |of| format!("the terms of {of}"));
                let refusal = Refusal::new(Code::Denied, format!("{whose} do not allow it: {why}"));
                Some(ScopeObjection::Deny(refusal.hint("stay within the terms; only a new session has others")))
            }
        }
    }
}
