//! The way of a task's changes into the project.
//!
//! Changes are frozen to blobs before anybody is asked; the answer binds to their hash with base, HEAD and policy version, and exactly
//! those blobs are applied. **Invariant.** Nothing is overwritten that the task did not start from, and no merge happens twice: a crash at
//! any step is finished by the next boot, which finds each path either still at its base or already done.

mod apply;
mod diff;
mod freeze;

pub use diff::{FileDiff, MergeDiff};

use crate::fault::{Fault, FaultKind, Stop};
use crate::{Kernel, Reply, git};
use freeze::Frozen;
use policy::{Facts, RealPath, Standing, Verdict};
use world::event::{MergeFinished, MergeProposed, MergeRejected, MergeStarted, ReviewAsked, TaskFinished, TaskParked};
use world::{Answer, Event, Merge, MergeId, MergePath, MergeState, Mode, ReviewState, Task, TaskState, What};

/// Ends a task whose brain is done: nothing changed, nothing may change, or a merge that a person or a rule decides.
pub(crate) async fn propose(kernel: &Kernel, task: &Task, summary: &str) -> Result<(), Stop> {
    if task.mode == Mode::Ask {
        return finish(kernel, task, summary, Vec::new()).await;
    }
    let frozen = freeze::freeze(kernel, task, summary).await?;
    if frozen.changes.is_empty() && frozen.refused.is_empty() {
        return finish(kernel, task, summary, Vec::new()).await;
    }
    let trusted =
        kernel.trusted(task.zone)?.ok_or_else(|| Fault::new(FaultKind::Bug, "the zone lost its policy", "no version is in force"))?;
    let blob = frozen.store(kernel)?;
    let (input, paths, verdict) = (frozen.shown(), frozen.paths(), judge(kernel, task, &trusted.policy, &frozen));
    let digest = frozen.digest.clone();
    let changed = frozen.changes.iter().map(|change| change.path.clone()).collect();
    let nothing = frozen.changes.is_empty();
    let pending = kernel.ledger.commit(|world, _| {
        let (pid, id, merge) = (task.pid, Some(task.id), world.next_merge());
        let proposed = MergeProposed { pid, task: id, merge, digest: digest.clone(), frozen: blob, paths, summary: summary.to_owned() };
        let mut events: Vec<Event> = vec![proposed.into()];
        if nothing {
            let reason = "every change is left out".to_owned();
            events.push(MergeRejected { pid, task: id, merge, by: "kernel".into(), reason: reason.clone() }.into());
            return (events, Next::Reject(reason));
        }
        match verdict {
            Verdict::Allow(_) => (events, Next::Apply(merge)),
            Verdict::Deny { refusal, .. } => {
                events.push(MergeRejected { pid, task: id, merge, by: "policy".into(), reason: refusal.reason.clone() }.into());
                (events, Next::Reject(refusal.reason))
            }
            Verdict::Review { reasons, rules } => {
                let review = world.next_review();
                events.push(
                    ReviewAsked {
                        pid,
                        task: id,
                        review,
                        tool: APPLY.into(),
                        input,
                        bind: digest.clone(),
                        like: What::Exact { tool: APPLY.into(), bind: digest },
                        reasons,
                        rules,
                        paths: changed,
                        size: None,
                    }
                    .into(),
                );
                if world.tasks.get(&task.id).is_some_and(|task| task.state == TaskState::Running) {
                    events.push(TaskParked { pid, task: id, review }.into());
                }
                (events, Next::Wait)
            }
        }
    })?;
    match pending.durable().await? {
        Next::Apply(merge) => carry_out(kernel, task, merge, frozen, "policy").await,
        Next::Reject(reason) => finish(kernel, task, &with_note(summary, &format!("not merged: {reason}")), Vec::new()).await,
        Next::Wait => Ok(()),
    }
}

/// The call that a merge is, as policies name it.
pub const APPLY: &str = "merge.apply";

enum Next {
    Apply(MergeId),
    Reject(String),
    Wait,
}

/// Goes on with a merge that was answered, or that a crash interrupted.
pub(crate) async fn go_on(kernel: &Kernel, task: &Task, merge: Merge) -> Result<(), Stop> {
    let frozen = Frozen::load(kernel, &merge.frozen)?;
    match merge.state {
        MergeState::Applying => apply_rest(kernel, task, merge.id, frozen).await,
        MergeState::Applied | MergeState::Rejected => finish(kernel, task, &frozen.summary, Vec::new()).await,
        MergeState::Proposed => match answer_of(kernel, task) {
            Some((Answer::Allow, by)) if still_true(kernel, task, &frozen)? => carry_out(kernel, task, merge.id, frozen, &by).await,
            Some((Answer::Allow, _)) => {
                // HEAD or policy moved after the question: the answer is void, and a new question is asked on what is true now.
                reject(kernel, task, merge.id, "kernel", "HEAD or policy changed after the question").await?;
                kernel.ledger.record(world::event::TaskStarted { pid: task.pid, task: Some(task.id), episode: task.episodes }).await?;
                propose(kernel, task, &frozen.summary).await
            }
            Some((Answer::Deny, by)) => {
                reject(kernel, task, merge.id, &by, "refused in review").await?;
                finish(kernel, task, &with_note(&frozen.summary, &format!("changes rejected by {by}")), Vec::new()).await
            }
            None => Ok(()),
        },
    }
}

fn answer_of(kernel: &Kernel, task: &Task) -> Option<(Answer, String)> {
    let TaskState::Parked { review } = task.state else { return None };
    kernel.ledger.look(|world| match &world.reviews.get(&review)?.state {
        ReviewState::Answered { answer, by, .. } => Some((*answer, by.clone())),
        _ => None,
    })
}

fn still_true(kernel: &Kernel, task: &Task, frozen: &Frozen) -> Result<bool, Stop> {
    let Some((path, version)) =
        kernel.ledger.look(|world| world.zones.get(&task.zone).map(|zone| (zone.path.clone(), zone.policy_version)))
    else {
        return Ok(false);
    };
    Ok(git::head(path.as_ref()) == frozen.head && version == frozen.policy_version)
}

async fn reject(kernel: &Kernel, task: &Task, merge: MergeId, by: &str, reason: &str) -> Result<(), Fault> {
    let event = MergeRejected { pid: task.pid, task: Some(task.id), merge, by: by.to_owned(), reason: reason.to_owned() };
    kernel.ledger.record(event).await
}

async fn carry_out(kernel: &Kernel, task: &Task, merge: MergeId, frozen: Frozen, by: &str) -> Result<(), Stop> {
    kernel.ledger.record(MergeStarted { pid: task.pid, task: Some(task.id), merge, by: by.to_owned() }).await?;
    apply_rest(kernel, task, merge, frozen).await
}

async fn apply_rest(kernel: &Kernel, task: &Task, merge: MergeId, frozen: Frozen) -> Result<(), Stop> {
    let paths = apply::apply(kernel, task, &frozen).await?;
    let finished = MergeFinished { pid: task.pid, task: Some(task.id), merge, paths };
    finish(kernel, task, &frozen.summary, vec![finished.into()]).await
}

fn with_note(summary: &str, note: &str) -> String {
    if summary.is_empty() { note.to_owned() } else { format!("{summary} ({note})") }
}

async fn finish(kernel: &Kernel, task: &Task, summary: &str, mut events: Vec<Event>) -> Result<(), Stop> {
    events.push(TaskFinished { pid: task.pid, task: Some(task.id), summary: summary.to_owned() }.into());
    kernel.ledger.commit(|_, _| (events, ()))?.durable().await?;
    Ok(kernel.close_desk(task.pid, task.id).await?)
}

/// Decides on the merge as a whole; rules about single paths have spoken in `freeze`.
fn judge(kernel: &Kernel, task: &Task, policy: &policy::Policy, frozen: &Frozen) -> Verdict {
    let (caller, role, user) = caller(kernel, task);
    let size: u64 = frozen.changes.iter().map(|change| change.size).sum();
    let paths: Vec<RealPath<'_>> = frozen.changes.iter().map(|change| RealPath::Inside(&change.path)).collect();
    let mut facts = facts(APPLY, task, &paths, &caller, &role, &user);
    facts.size = Some(size);
    let verdict = policy::decide(policy, &facts, &Standing { grant: None, calls_left: None });
    let questions: Vec<String> = frozen.changes.iter().filter_map(|change| change.question.clone()).collect();
    match verdict {
        // A path that wants a person makes the whole merge want one.
        Verdict::Allow(_) if !questions.is_empty() => Verdict::Review { reasons: questions, rules: Vec::new() },
        Verdict::Review { mut reasons, rules } => {
            reasons.extend(questions);
            Verdict::Review { reasons, rules }
        }
        other => other,
    }
}

fn caller(kernel: &Kernel, task: &Task) -> (String, String, String) {
    let found = kernel.ledger.look(|world| world.processes.get(&task.pid).map(|p| (p.name.clone(), p.role.clone(), p.user.clone())));
    found.unwrap_or_default()
}

fn facts<'a>(tool: &'a str, task: &Task, paths: &'a [RealPath<'a>], caller: &'a str, role: &'a str, user: &'a str) -> Facts<'a> {
    Facts {
        tool,
        read_only: false,
        paths,
        caller,
        caller_tags: &[],
        role,
        tier: "",
        user,
        zone: "",
        mode: task.mode,
        run_mode: "live",
        workflow_state: "idle",
        command: None,
        host: None,
        method: None,
        size: None,
        sandbox: Some("code-executor"),
        network: None,
        port: None,
        token: None,
        opinions: &[],
    }
}

impl Kernel {
    /// Approves a task's open merge if it is the one that was seen, waits for it, and tells what became of each path.
    pub async fn merge(&self, id: world::TaskId, digest: Option<&str>, by: &str) -> Result<Vec<MergePath>, Stop> {
        use world::{Code, Refusal};
        let task = self.task(id)?;
        let merge = task.merge.and_then(|merge| self.ledger.look(|world| world.merges.get(&merge).cloned()));
        let (TaskState::Parked { review }, Some(merge)) = (task.state, merge) else {
            let why = match task.state {
                TaskState::Queued | TaskState::Running => "is not done yet",
                TaskState::Parked { .. } => "waits for another review",
                _ => "has nothing to merge",
            };
            return Err(Refusal::new(Code::WrongState, format!("{id} {why}"))
                .hint(format!("`skep status` shows where it stands; `skep log {id}` what it did"))
                .into());
        };
        if digest.is_some_and(|digest| digest != merge.digest) {
            return Err(Refusal::new(Code::WrongState, "the changes are not the ones you looked at")
                .hint(format!("run `skep diff {id}` again"))
                .into());
        }
        self.answer(review, Reply::yes(), by, None).await?;
        let task = self.settled(id).await?;
        if task.state != TaskState::Done {
            let reason = task.summary.unwrap_or_else(|| "HEAD or policy moved after you looked; a new review is open".into());
            return Err(Refusal::new(Code::WrongState, reason).hint(format!("run `skep diff {id}` and `skep merge {id}` again")).into());
        }
        self.merged(id)
    }

    /// Refuses a task's open merge; its changes are dropped.
    pub async fn reject(&self, id: world::TaskId, by: &str, reason: Option<String>) -> Result<(), Stop> {
        use world::{Code, Refusal};
        let task = self.task(id)?;
        let (TaskState::Parked { review }, Some(_)) = (task.state, task.merge) else {
            return Err(Refusal::new(Code::WrongState, format!("{id} has no changes that wait"))
                .hint(format!("`skep cancel {id}` stops a task"))
                .into());
        };
        self.answer(review, Reply::no(), by, reason).await?;
        self.settled(id).await.map(drop)
    }

    /// What the journal says became of each path of a task's merge.
    fn merged(&self, id: world::TaskId) -> Result<Vec<MergePath>, Stop> {
        let filter = journal::Filter { task: Some(id.to_string()), kinds: vec!["merge.finished".into()], ..journal::Filter::default() };
        let records = self.ledger.read(&filter)?;
        let last = records.last().ok_or_else(|| Fault::new(FaultKind::Bug, "the merge left no record", id))?;
        match serde_json::from_str(&last.line) {
            Ok(Event::MergeFinished(event)) => Ok(event.paths),
            _ => Err(Fault::new(FaultKind::Bug, "the merge's record cannot be read", id).into()),
        }
    }
}
