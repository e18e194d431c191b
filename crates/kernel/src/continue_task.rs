//! A task that is taken up again: retried, told something more, or only to have its kept changes proposed.
//!
//! It goes on in the same conversation, with its kept work laid over the project as that is now. **Invariant.** What is continued is on
//! record before anything happens, so a crash leaves a queued task and nothing half begun.

use crate::keep::KeptList;
use crate::queue::check_prompt;
use crate::{Kernel, MERGE, episode, keep, merge};
use workspace::Conflict;
use world::event::{BudgetSet, MergeRejected, ReviewAnswered, TaskContinued, TaskPrioritized, WorkspaceClosed};
use world::{
    Answer, Budget, Capability, Code, Event, Fault, FaultKind, MergeState, Mode, Refusal, Remedy, ReviewId, ReviewState, Stop, Task,
    TaskId, TaskState, World,
};

/// Why the proposal of a task is withdrawn that is told more.
const GOES_ON: &str = "its task goes on";

/// A task that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continued {
    pub task: TaskId,
    /// A fresh allowance of calls, where it has one.
    pub calls: Option<u64>,
    /// It is taken up for this; else somebody works on it, and it hears of it at the end of its turn.
    pub is_taken_up: bool,
}

/// What a person wants of a task.
enum Wish {
    /// The same once more, with this budget of its own in the place of what it had.
    Retry { budget: Option<Budget> },
    /// A further turn.
    Say { prompt: String, original: Option<String> },
    /// The same in answer to the question about its merge. With `rebased` its work is laid out anew over the project as it is now.
    Changes { review: ReviewId, comment: Option<String>, prompt: String, original: Option<String>, rebased: Option<KeptList> },
}

impl Kernel {
    /// Has a task go on that failed, was stopped or was cancelled.
    pub async fn retry(&self, id: TaskId, budget: Option<Budget>, by: &str) -> Result<Continued, Stop> {
        budget.as_ref().map_or(Ok(()), ledger::check_budget)?;
        self.continue_task(id, by, Wish::Retry { budget }).await
    }

    /// Says something more to a task, whatever its state: it goes on with that in the same conversation and with its own work.
    pub async fn say(&self, id: TaskId, prompt: String, by: &str) -> Result<Continued, Stop> {
        check_prompt(&prompt, Remedy::SayMore { task: id })?;
        let task = self.ledger.task(id)?;
        may_continue(&task)?;
        hears(&task)?;
        agent::check_capability(&task.brain, Capability::Resume)?;
        let original = self.ledger.keep_prompt(&prompt).await?;
        self.continue_task(id, by, Wish::Say { prompt, original }).await
    }

    async fn continue_task(&self, id: TaskId, by: &str, wish: Wish) -> Result<Continued, Stop> {
        let task = self.settled_work(id).await?;
        may_continue(&task)?;
        let is_laid_anew = matches!(wish, Wish::Changes { rebased: Some(_), .. });
        // A prompt that held a secret went with the end of its task.
        self.ledger.prompt(&task).await?;
        self.ledger.further_prompts(&task).await?;
        let allowance = self.allowance(id)?;
        let closing = self.workspaces.closing(id);
        let _alone = closing.lock().await;
        if is_laid_anew {
            // Its room goes, and the next one begins with what is kept.
            self.workspaces.end_room(id).await?;
        }
        let pending = self.ledger.commit(|world, _| match plan_continuation(world, id, by, &wish, allowance) {
            Ok((mut events, calls, is_taken_up)) => {
                if let Wish::Retry { budget } = &wish {
                    events.extend(to_front(world, id, by));
                    let given =
                        budget.clone().map(|budget| BudgetSet { pid: task.pid, task: Some(id), budget: Some(budget), by: by.to_owned() });
                    events.extend(given.map(Event::from));
                }
                (events, Ok((calls, is_taken_up)))
            }
            Err(refusal) => (Vec::new(), Err(refusal)),
        })?;
        let (calls, is_taken_up) = pending.durable().await??;
        self.tasks.wake();
        Ok(Continued { task: id, calls, is_taken_up })
    }

    /// Answers the question about a merge with a wish for changes: the brain hears `comment` and goes on in the same conversation with its
    /// own work. With `newer_base` that work is laid over the project as it is now, and what clashes holds both sides, marked.
    pub async fn request_changes(&self, review: ReviewId, comment: Option<String>, newer_base: bool, by: &str) -> Result<Continued, Stop> {
        let asked = self.ledger.review(review)?;
        let Some(id) = asked.task.filter(|_| asked.tool == MERGE) else {
            return Err(Refusal::new(Code::BadInput, format!("{review} asks about `{}`, and only a merge can be sent back", asked.tool))
                .hint("deny it with a reason instead")
                .into());
        };
        if asked.state != ReviewState::Open {
            return Err(ledger::review_closed(&asked).into());
        }
        let comment = comment.filter(|comment| !comment.trim().is_empty());
        if comment.is_none() && !newer_base {
            return Err(Refusal::new(Code::BadInput, "nobody says what should be different").hint("give a reason").into());
        }
        let task = self.tasks.settled(id).await?;
        may_continue(&task)?;
        if comment.is_some() {
            hears(&task)?;
        }
        let _keeps = self.blobs.hold().await;
        let (rebased, clashes) = if newer_base { self.rebased(&task).await? } else { (None, Clashes::default()) };
        let prompt = changes_prompt(comment.as_deref(), newer_base, &clashes);
        check_prompt(&prompt, Remedy::SayMore { task: id })?;
        let original = self.ledger.keep_prompt(&prompt).await?;
        self.continue_task(id, by, Wish::Changes { review, comment, prompt, original, rebased }).await
    }

    /// A task's work over the project as it is now, and the paths that both sides changed in the same place.
    async fn rebased(&self, task: &Task) -> Result<(Option<KeptList>, Clashes), Stop> {
        let frozen = merge::frozen(self, task, "").await?;
        let whole = keep::kept(self, task).await?;
        let mut changes = whole.ok_or_else(|| Fault::new(FaultKind::Bug, "a proposal has no changes", task.id))?.changes;
        changes.rebase_all(&frozen, &|bytes| self.ledger.keep(bytes))?;
        let (marked, whole) = frozen.conflicts.into_iter().partition::<Vec<_>, _>(|conflict| conflict.marked.is_some());
        let paths = |conflicts: Vec<Conflict>| conflicts.into_iter().map(|conflict| conflict.path).collect();
        Ok((Some(KeptList::store(self, changes)?), Clashes { marked: paths(marked), whole: paths(whole) }))
    }

    /// Goes on with what was said to a task in the moment of its end.
    pub(crate) async fn take_up_unheard(&self, id: TaskId, heard: usize) -> Result<(), Stop> {
        // A merge that is being taken back becomes its work again first.
        let closing = self.workspaces.closing(id);
        let _alone = closing.lock().await;
        let pending = self.ledger.commit(|world, _| {
            let waits = |task: &Task| task.state == TaskState::Done || (waits_for_merge(task) && is_open(world, task));
            let task = world.tasks.get(&id).filter(|task| task.further.len() > heard && waits(task));
            (task.map(|task| continuation_events(world, task, "kernel", GOES_ON, None, None)).unwrap_or_default(), ())
        })?;
        Ok(pending.durable().await?)
    }

    /// Calls that the task was given at its start.
    fn allowance(&self, id: TaskId) -> Result<Option<u64>, Stop> {
        let queued = self.ledger.events(id, &["task.queued"])?.into_iter().next();
        Ok(match queued {
            Some(Event::TaskQueued(queued)) => queued.calls_max,
            _ => None,
        })
    }

    /// Proposes the kept changes of a task that nobody works on, if they are the ones that were seen, and waits until they are in, or wait
    /// for an answer.
    pub(crate) async fn propose_kept(&self, id: TaskId, digest: Option<&str>, by: &str) -> Result<Task, Stop> {
        let seen = self.frozen_now(id).await?;
        if let Some(digest) = digest
            && seen.is_none_or(|frozen| frozen.digest != digest)
        {
            return Err(Refusal::new(Code::WrongState, "the changes are not the ones you looked at")
                .remedy(Remedy::ShowChangesAgain { task: id })
                .into());
        }
        let closing = self.workspaces.closing(id);
        let alone = closing.lock().await;
        let pending = self.ledger.commit(|world, _| {
            if let Some(refusal) = taken_back(world, id) {
                return (Vec::new(), Err(refusal));
            }
            match world.tasks.get(&id).filter(|task| task.state.at_rest() && task.kept.is_some()) {
                Some(task) => {
                    let withdrawn = withdrawal(world, task, by, GOES_ON);
                    let (pid, task, by) = (task.pid, Some(id), by.to_owned());
                    let continued = TaskContinued { pid, task, by, prompt: None, original: None, calls: None, propose: true };
                    (withdrawn.into_iter().chain(std::iter::once(continued.into())).collect(), Ok(pid))
                }
                None => (Vec::new(), Err(Refusal::new(Code::WrongState, format!("somebody goes on with {id}")))),
            }
        })?;
        let pid = pending.durable().await??;
        drop(alone);
        // At once, and not when its process has time: no brain works on it.
        if let Some(kernel) = self.me.upgrade() {
            episode::start(&kernel, pid, id);
        }
        self.tasks.settled(id).await
    }
}

/// Puts a task that goes on before all that waits for its worker, if something does.
fn to_front(world: &World, id: TaskId, by: &str) -> Option<Event> {
    let pid = world.tasks.get(&id)?.pid;
    let waits = !world.queue(pid).is_empty();
    waits.then(|| TaskPrioritized { pid, task: Some(id), priority: world.front(pid), by: by.to_owned() }.into())
}

/// Paths that a task and somebody else changed in ways that do not go together.
#[derive(Default)]
struct Clashes {
    /// Both sides stand in the text, marked.
    marked: Vec<String>,
    /// The task's version stands there.
    whole: Vec<String>,
}

/// What a brain is told whose merge was sent back.
fn changes_prompt(comment: Option<&str>, newer_base: bool, clashes: &Clashes) -> String {
    let mut parts = Vec::new();
    if let Some(comment) = comment {
        parts.push(format!("Your changes were reviewed and are not merged yet. Changes requested: {comment}"));
    }
    if newer_base {
        parts.push("The project changed after you began. Your changes now lie over the newer version.".to_owned());
    }
    if !clashes.marked.is_empty() {
        let paths = clashes.marked.join(", ");
        parts.push(format!(
            "Both you and somebody else changed the same lines of {paths}: settle what stands between `<<<<<<<` and `>>>>>>>` there, and \
             remove the marks."
        ));
    }
    if !clashes.whole.is_empty() {
        let paths = clashes.whole.join(", ");
        parts.push(format!("Somebody else changed {paths} too. Your version stands there; unless you change it, a person has to choose."));
    }
    parts.join("\n")
}

/// Refuses to say more to a session: what it does follows from its task and its plans.
fn hears(task: &Task) -> Result<(), Refusal> {
    match task.session {
        Some(_) => Err(Refusal::new(Code::WrongState, format!("{} is a session, whose plans nobody talks with", task.id))
            .hint("begin another session with what is to be different")),
        None => Ok(()),
    }
}

/// Refuses tasks that never go on.
fn may_continue(task: &Task) -> Result<(), Refusal> {
    let id = task.id;
    if task.mode == Mode::Call {
        return Err(Refusal::new(Code::WrongState, format!("{id} is a command of your own, not a brain's work")).hint("run it again"));
    }
    if task.mode == Mode::Execute {
        return Err(Refusal::new(Code::WrongState, format!("{id} is the work of an agent, not of a brain")).hint("execute it again"));
    }
    if task.session.is_some() && task.state == TaskState::Failed {
        let why = task.summary.as_deref().unwrap_or("its plan failed");
        return Err(Refusal::new(Code::WrongState, format!("{id} is a session that failed, and that is its end: {why}"))
            .hint("begin another session, or go on from one of its steps with a fork"));
    }
    if task.replays.is_some() {
        return Err(Refusal::new(Code::WrongState, format!("{id} is a replay")).hint("go on with the task it replays"));
    }
    Ok(())
}

/// The records by which a task goes on, its allowance of calls if that is a fresh one, and whether it is taken up for this.
fn plan_continuation(
    world: &World,
    id: TaskId,
    by: &str,
    wish: &Wish,
    allowance: Option<u64>,
) -> Result<(Vec<Event>, Option<u64>, bool), Refusal> {
    let Some(task) = world.tasks.get(&id) else { return Err(ledger::unknown_task(id)) };
    let merge = task.merge.and_then(|merge| world.merges.get(&merge)).map(|merge| merge.state);
    if merge == Some(MergeState::Applying) {
        return Err(Refusal::new(Code::WrongState, format!("{id} is being merged right now")).hint("try again when that is done"));
    }
    if let Some(refusal) = taken_back(world, id) {
        return Err(refusal);
    }
    // Between the answer and the merge that it starts, there is no way back.
    if waits_for_merge(task) && !is_open(world, task) {
        return Err(
            Refusal::new(Code::WrongState, format!("the changes of {id} were answered just now")).hint("try again when that is done")
        );
    }
    if task.proposes_kept && matches!(task.state, TaskState::Queued | TaskState::Running) {
        return Err(
            Refusal::new(Code::WrongState, format!("the kept changes of {id} are being proposed")).hint("try again when that is done")
        );
    }
    let works = matches!(task.state, TaskState::Queued | TaskState::Running | TaskState::Parked { .. });
    match wish {
        Wish::Retry { .. } if task.session.is_some() && (task.state == TaskState::Done || waits_for_merge(task)) => {
            Err(Refusal::new(Code::WrongState, format!("{id} has done its work")).remedy(Remedy::ShowTask { task: id }))
        }
        Wish::Retry { .. } if task.state == TaskState::Done => {
            Err(Refusal::new(Code::WrongState, format!("{id} is done")).remedy(Remedy::SayMore { task: id }))
        }
        Wish::Retry { .. } if waits_for_merge(task) => {
            Err(Refusal::new(Code::WrongState, format!("{id} has done its work, and its changes wait for you"))
                .remedy(Remedy::SayMore { task: id }))
        }
        Wish::Retry { .. } if works => {
            match task.state {
                TaskState::Parked { review } => Err(Refusal::new(Code::WrongState, format!("{id} waits for the answer to {review}"))
                    .remedy(Remedy::AnswerReview { review })),
                _ => Err(Refusal::new(Code::WrongState, format!("{id} is {} already", task.state.as_str()))
                    .remedy(Remedy::WatchTask { task: id })),
            }
        }
        Wish::Retry { .. } => {
            let calls = allowance.filter(|_| task.calls_left == Some(0));
            Ok((continuation_events(world, task, by, GOES_ON, None, calls), calls, true))
        }
        Wish::Say { prompt, original } => {
            let is_new_turn = task.state.at_rest() || waits_for_merge(task);
            let calls = allowance.filter(|_| is_new_turn);
            Ok((continuation_events(world, task, by, GOES_ON, Some((prompt, original)), calls), calls, is_new_turn))
        }
        Wish::Changes { review, comment, prompt, original, rebased } => {
            if task.state != (TaskState::Parked { review: *review }) || merge != Some(MergeState::Proposed) {
                return Err(Refusal::new(Code::WrongState, format!("{review} no longer waits")).remedy(Remedy::ShowTask { task: id }));
            }
            let (pid, of, reason) = (task.pid, Some(id), comment.clone());
            let answer = Answer::Changes;
            let answered = ReviewAnswered { pid, task: of, review: *review, answer, by: by.to_owned(), reason, alternative: None };
            let mut events: Vec<Event> = vec![answered.into()];
            events.extend(continuation_events(world, task, by, "changes requested", Some((prompt, original)), allowance));
            if let Some(kept) = rebased {
                // Before the last: when the task is queued, its old room is on record as gone.
                let closed = task.workspace.as_ref().map(|_| WorkspaceClosed { pid, task: of }.into());
                let at = events.len() - 1;
                events.splice(at..at, std::iter::once(kept.event(pid, id)).chain(closed));
            }
            Ok((events, allowance, true))
        }
    }
}

/// Why nobody goes on with a task whose merge is half taken back, be it its newest or not: what is taken back becomes its work first.
fn taken_back(world: &World, id: TaskId) -> Option<Refusal> {
    let is_undone = world.merges.values().any(|merge| merge.task == id && merge.state == MergeState::Undoing);
    is_undone.then(|| {
        Refusal::new(Code::WrongState, format!("{id} is being taken back right now"))
            .hint("try again when that is done; a restart of the kernel finishes what was interrupted")
    })
}

/// Is its turn over, and only its merge to be answered?
fn waits_for_merge(task: &Task) -> bool {
    matches!(task.state, TaskState::Parked { .. }) && task.merge.is_some()
}

/// Has the question that it waits for no answer yet?
fn is_open(world: &World, task: &Task) -> bool {
    match task.state {
        TaskState::Parked { review } => world.reviews.get(&review).is_some_and(|review| review.state == ReviewState::Open),
        _ => false,
    }
}

/// Withdraws the proposal of a task that nobody works on, if it has one that is not decided: what it changed stays its own.
pub(crate) fn withdrawal(world: &World, task: &Task, by: &str, why: &str) -> Option<Event> {
    let is_over = waits_for_merge(task) || task.state.at_rest();
    let merge = task.merge.filter(|_| is_over).and_then(|merge| world.merges.get(&merge));
    let proposed = merge.filter(|merge| merge.state == MergeState::Proposed)?;
    Some(MergeRejected { pid: task.pid, task: Some(task.id), merge: proposed.id, by: by.to_owned(), reason: why.to_owned() }.into())
}

/// A proposal that waits is withdrawn first: what comes of the further turn is proposed anew.
fn continuation_events(
    world: &World,
    task: &Task,
    by: &str,
    why: &str,
    said: Option<(&String, &Option<String>)>,
    calls: Option<u64>,
) -> Vec<Event> {
    let (pid, id) = (task.pid, Some(task.id));
    let (prompt, original) = said.map_or((None, None), |(prompt, original)| (Some(prompt.clone()), original.clone()));
    let withdrawn = withdrawal(world, task, by, why);
    let continued = TaskContinued { pid, task: id, by: by.to_owned(), prompt, original, calls, propose: false };
    withdrawn.into_iter().chain(std::iter::once(continued.into())).collect()
}
