//! The present: what follows from all records so far.
//!
//! `check` says whether an event may be recorded now; the ledger asks it before it appends. `apply` folds a recorded event and
//! cannot fail. **Invariant.** After `check(e)` is `Ok`, `apply(e)` has its full effect.

mod queue;
pub(crate) mod transition;
mod tree;

use crate::event::Event;
use crate::{
    Accounts, ArtifactId, Ban, BanId, Budget, ByteStream, CallId, CronEntry, CronId, Doubts, Escalation, EscalationId, Grant, GrantId,
    Lease, Lesson, LessonId, Mail, Merge, MergeId, MessageId, OpenCall, Pid, Process, Review, ReviewId, ReviewState, Scope, StoredArtifact,
    StreamId, Task, TaskId, TaskState, Token, TokenId, ZoneCoverage, ZoneId,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
pub use tree::DepartedProcess;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct World {
    pub processes: BTreeMap<Pid, Process>,
    pub tasks: BTreeMap<TaskId, Task>,
    /// Admitted and without an outcome.
    pub calls: BTreeMap<CallId, OpenCall>,
    pub reviews: BTreeMap<ReviewId, Review>,
    pub grants: BTreeMap<GrantId, Grant>,
    pub bans: BTreeMap<BanId, Ban>,
    pub tokens: BTreeMap<TokenId, Token>,
    pub merges: BTreeMap<MergeId, Merge>,
    pub zones: BTreeMap<ZoneId, Zone>,
    /// Repositories by their slug.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sites: BTreeMap<String, RegisteredSite>,
    /// The operator's own policy, in force in every zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home_policy: Option<HomePolicy>,
    /// Budgets, reservations and usage of models.
    #[serde(default)]
    pub books: Accounts,
    /// Messages between processes.
    #[serde(default, skip_serializing_if = "Mail::is_empty")]
    pub mail: Mail,
    /// What processes stored, each version.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub artifacts: BTreeMap<ArtifactId, StoredArtifact>,
    /// Trouble that goes up the tree, and what became of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub escalations: BTreeMap<EscalationId, Escalation>,
    /// Streams of bytes that are open.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub streams: BTreeMap<StreamId, ByteStream>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub crons: BTreeMap<CronId, CronEntry>,
    /// What sessions taught.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lessons: BTreeMap<LessonId, Lesson>,
    /// Processes that left the table and are still named by usage.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub departed: BTreeMap<Pid, DepartedProcess>,
    /// What the journal's verification found.
    #[serde(default)]
    pub doubts: Doubts,
    /// How many kernels have started on this journal.
    #[serde(default)]
    pub starts: u64,
    /// The last kernel that started has not stopped in order.
    #[serde(default)]
    pub is_running: bool,
    /// Time of the newest event; a commit's clock never goes behind it.
    pub now_ms: i64,
    /// Highest number given out of each kind.
    last: Last,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    pub id: ZoneId,
    pub path: String,
    pub branch: String,
    /// Blob of the bundle in force; `None` until something is trusted.
    pub policy: Option<String>,
    pub policy_version: u64,
    /// Slug of the repository that it is a work tree of; `None` until somebody uses a zone of an earlier version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// How much of it tests reach, as far as merges were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Box<ZoneCoverage>>,
}

impl Zone {
    /// Is work refused in which tests do not come first?
    pub fn is_explore_locked(&self) -> bool {
        self.coverage.as_ref().is_some_and(|coverage| coverage.locked)
    }

    /// The last part of its repository's name, with its branch: `myrepo@main`.
    pub fn label(&self) -> String {
        let name = self.site.as_deref().unwrap_or(&self.path);
        format!("{}@{}", name.rsplit('/').next().unwrap_or(name), self.branch)
    }
}

/// A repository, with all its work trees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredSite {
    /// `org/repo`.
    pub slug: String,
    /// The folder of git's own that its work trees share.
    pub repository: String,
}

/// A version of the operator's own policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HomePolicy {
    /// Its text.
    pub blob: String,
    pub version: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Last {
    pid: u64,
    task: u64,
    call: u64,
    review: u64,
    grant: u64,
    ban: u64,
    token: u64,
    merge: u64,
    zone: u64,
    #[serde(default)]
    message: u64,
    #[serde(default)]
    artifact: u64,
    #[serde(default)]
    escalation: u64,
    #[serde(default)]
    cron: u64,
    #[serde(default)]
    lesson: u64,
    #[serde(default)]
    stream: u64,
}

/// An event that does not follow from the present. To record one would be a bug.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{kind}` cannot happen now: {why}")]
pub struct Illegal {
    pub kind: &'static str,
    pub why: String,
}

impl World {
    pub fn next_pid(&self) -> Pid {
        Pid(self.last.pid + 1)
    }
    pub fn next_task(&self) -> TaskId {
        TaskId(self.last.task + 1)
    }
    pub fn next_call(&self) -> CallId {
        CallId(self.last.call + 1)
    }
    pub fn next_review(&self) -> ReviewId {
        ReviewId(self.last.review + 1)
    }
    pub fn next_grant(&self) -> GrantId {
        GrantId(self.last.grant + 1)
    }
    pub fn next_ban(&self) -> BanId {
        BanId(self.last.ban + 1)
    }
    pub fn next_token(&self) -> TokenId {
        TokenId(self.last.token + 1)
    }
    pub fn next_merge(&self) -> MergeId {
        MergeId(self.last.merge + 1)
    }
    pub fn next_zone(&self) -> ZoneId {
        ZoneId(self.last.zone + 1)
    }

    pub fn next_message(&self) -> MessageId {
        MessageId(self.last.message + 1)
    }
    pub fn next_artifact(&self) -> ArtifactId {
        ArtifactId(self.last.artifact + 1)
    }
    pub fn next_stream(&self) -> StreamId {
        StreamId(self.last.stream + 1)
    }

    pub fn next_escalation(&self) -> EscalationId {
        EscalationId(self.last.escalation + 1)
    }
    pub fn next_cron(&self) -> CronId {
        CronId(self.last.cron + 1)
    }

    pub fn next_lesson(&self) -> LessonId {
        LessonId(self.last.lesson + 1)
    }

    /// A number that changes whenever what is in force in a zone does; 0 while nothing is. `None` for a zone that there is not.
    pub fn policy_version(&self, zone: ZoneId) -> Option<u64> {
        // Both only grow, so their sum is another one after each change.
        let home = self.home_policy.as_ref().map_or(0, |home| home.version);
        if zone == ZoneId::NONE {
            return Some(home);
        }
        self.zones.get(&zone).map(|zone| zone.policy_version + home)
    }

    /// The root process below the kernel that `pid` descends from, as the journal names it.
    pub fn session(&self, pid: Pid) -> String {
        let mut at = pid;
        while let Some(parent) = self.processes.get(&at).and_then(|p| p.parent) {
            if parent == Pid::KERNEL {
                return format!("s-{at}");
            }
            at = parent;
        }
        format!("s-{at}")
    }

    /// Calls that a task may still make.
    pub fn calls_left(&self, task: Option<TaskId>) -> Option<u64> {
        task.and_then(|task| self.tasks.get(&task)).and_then(|task| task.calls_left)
    }

    pub fn zone_at(&self, path: &str) -> Option<&Zone> {
        self.zones.values().find(|zone| zone.path == path)
    }

    /// `pid` and all its ancestors, itself first.
    pub fn ancestry(&self, pid: Pid) -> impl Iterator<Item = &Process> {
        std::iter::successors(self.processes.get(&pid), |process| process.parent.and_then(|parent| self.processes.get(&parent)))
    }

    /// Every lease and whose it is.
    pub fn leases(&self) -> impl Iterator<Item = (Pid, &Lease)> {
        self.books.leases.iter().flat_map(|(pid, leases)| leases.iter().map(|lease| (*pid, lease)))
    }

    pub fn lease(&self, pid: Pid, tier: &str) -> Option<&Lease> {
        self.books.leases.get(&pid)?.iter().find(|lease| lease.tier == tier)
    }

    /// The process whose money is capped while nothing caps the tokens of a request: what has no price could cost anything there.
    pub fn unbounded(&self, pid: Pid, tier: &str) -> Option<Pid> {
        let capped = |of: &Pid| self.books.accounts.get(of).and_then(|account| account.budget.as_ref());
        let bounded = |budget: &Budget| budget.amounts().any(|(what, _)| !what.is_money() && what.counts(tier));
        let line = self.lineage(pid);
        if line.iter().filter_map(capped).any(bounded) {
            return None;
        }
        let caps_money = |budget: &Budget| budget.amounts().any(|(what, _)| what.is_money());
        line.into_iter().find(|of| capped(of).is_some_and(caps_money))
    }

    /// Is anything that `pid` spends capped?
    pub fn is_capped(&self, pid: Pid) -> bool {
        let has_budget = |of: Pid| self.books.accounts.get(&of).and_then(|account| account.budget.as_ref());
        let limits = |of: Pid| self.processes.get(&of).and_then(Process::limits);
        let is_limited = |of: Pid| limits(of).is_some_and(|of| of.tokens_total.is_some() || of.tokens_per_hour.is_some());
        self.lineage(pid).into_iter().any(|of| is_limited(of) || has_budget(of).is_some_and(|own| own.amounts().next().is_some()))
    }

    /// Does a grant hold for this process, at work on this task?
    pub fn is_granted(&self, grant: &Grant, pid: Pid, zone: ZoneId, task: Option<TaskId>) -> bool {
        self.in_scope(&grant.scope, grant.task.filter(|_| grant.pid != Pid::OPERATOR), pid, zone, task)
    }

    /// The same for a ban.
    pub fn is_banned(&self, ban: &Ban, pid: Pid, zone: ZoneId, task: Option<TaskId>) -> bool {
        self.in_scope(&ban.scope, ban.task.filter(|_| ban.pid != Pid::OPERATOR), pid, zone, task)
    }

    /// Does what was answered in `of` for `scope` hold for this process?
    fn in_scope(&self, scope: &Scope, of: Option<TaskId>, pid: Pid, zone: ZoneId, task: Option<TaskId>) -> bool {
        match scope {
            Scope::Process { pid: of } => self.ancestry(pid).any(|process| process.pid == *of),
            Scope::Session { session } => self.session(pid) == *session && of.is_none_or(|of| task == Some(of)),
            Scope::Zone { zone: of } => zone == *of,
            Scope::User { user } => self.processes.get(&pid).is_some_and(|process| process.user == *user),
            Scope::All => true,
        }
    }

    /// The open question about exactly this call, so that equal ones merge.
    pub fn open_review(&self, pid: Pid, bind: &str) -> Option<&Review> {
        self.reviews.values().find(|review| review.pid == pid && review.bind == bind && review.state == ReviewState::Open)
    }

    /// The newest answer that refused exactly this call.
    pub fn denied_review(&self, pid: Pid, bind: &str) -> Option<&Review> {
        self.reviews.values().rev().find(|review| {
            review.pid == pid && review.bind == bind && matches!(review.state, ReviewState::Answered { answer: crate::Answer::Deny, .. })
        })
    }

    pub fn open_reviews(&self, pid: Pid) -> usize {
        self.reviews.values().filter(|review| review.pid == pid && review.state == ReviewState::Open).count()
    }

    /// The task a process is on.
    pub fn current_task(&self, pid: Pid) -> Option<&Task> {
        self.tasks.values().find(|task| task.pid == pid && task.state == TaskState::Running)
    }

    /// Parked tasks whose question has its answer, oldest first.
    pub fn answered(&self) -> impl Iterator<Item = &Task> {
        self.tasks.values().filter(|task| match task.state {
            TaskState::Parked { review } => self.reviews.get(&review).is_none_or(|review| review.state != ReviewState::Open),
            _ => false,
        })
    }

    /// May `event` be recorded now?
    pub fn check(&self, event: &Event) -> Result<(), Illegal> {
        event.check(self).map_err(|why| Illegal { kind: event.kind(), why })
    }

    /// Folds one recorded event that happened at `at_ms`.
    pub fn apply(&mut self, event: &Event, at_ms: i64) {
        self.now_ms = self.now_ms.max(at_ms);
        event.apply(self, at_ms);
    }
}
