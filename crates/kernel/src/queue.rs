//! Which task is worked on next, and by whom.
//!
//! A process does one thing at a time: it goes on with what a person has answered, else takes the queued task of highest priority.
//! A parked task does not hold up the queue; it has a workspace of its own.

use crate::work::{Tasks, WorkKey};
use crate::{Kernel, episode};
use brain::BrainSpec;
use brain::script::BrainScript;
use ledger::unknown_task;
use models::{RequestOwner, file_of};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use workspace::MaskedNames;
use workspace::reader::{self, Folder};
use world::event::{CallFinished, CassetteStarted, ReplayStarted, TaskCancelled, TaskQueued, TaskTagged};
use world::{CallId, Code, Event, Mode, Pid, Refusal, Task, TaskId, TaskState, World, ZoneId, limits};
use world::{Fault, Stop};

/// A script longer than this is none.
const SCRIPT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// A task somebody wants done.
#[derive(Clone, Debug)]
pub struct NewTask {
    pub path: PathBuf,
    pub mode: Mode,
    pub prompt: String,
    /// `script:FILE`; `None` takes the zone's own.
    pub brain: Option<String>,
    pub priority: i64,
    pub calls_max: Option<u64>,
    /// Take its traffic with models down on a cassette.
    pub record: bool,
    /// What kind of caller its process is meanwhile, beside its role: for rules about `caller_tag`.
    pub tags: Vec<String>,
}

/// What is special about a task from its start.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskMarks {
    pub record: bool,
    pub replays: Option<TaskId>,
    pub tags: Vec<String>,
    /// What it writes is dropped.
    pub discard: bool,
}

/// A task that was queued.
#[derive(Clone, Debug)]
pub struct Added {
    pub task: TaskId,
    pub process: String,
    pub branch: String,
    /// The zone was set up on the way.
    pub initialised: bool,
}

/// Words that the kernel itself gives to callers.
const TAGS_KEPT: [&str; 3] = ["operator", "brain", "kernel"];

/// Tags as rules can name them: short words, sorted, each once, and none that says who somebody is.
fn tags(mut tags: Vec<String>) -> Result<Vec<String>, Refusal> {
    let is_word = |tag: &String| {
        !tag.is_empty()
            && tag.len() <= limits::TAG_BYTES_MAX
            && tag.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
    };
    if let Some(tag) = tags.iter().find(|tag| !is_word(tag)) {
        return Err(Refusal::new(Code::BadInput, format!("`{tag}` is not a tag"))
            .hint(format!("a tag has letters, digits, `_`, `-` and `.`, at most {}", limits::TAG_BYTES_MAX)));
    }
    if let Some(tag) = tags.iter().find(|tag| TAGS_KEPT.contains(&tag.as_str())) {
        return Err(
            Refusal::new(Code::BadInput, format!("`{tag}` says who a caller is, and is given by the kernel")).hint("take another word")
        );
    }
    if tags.len() > limits::TAGS_MAX {
        return Err(Refusal::new(Code::BadInput, format!("{} tags are more than {}", tags.len(), limits::TAGS_MAX)).hint("take fewer"));
    }
    tags.sort();
    tags.dedup();
    Ok(tags)
}

impl Tasks {
    /// Waits until a task has ended or needs a person, and gives it.
    pub async fn settled(&self, id: TaskId) -> Result<Task, Stop> {
        let mut follow = self.ledger.journal().follow();
        loop {
            let task = self.ledger.task(id)?;
            let waits = match task.state {
                TaskState::Parked { review } => {
                    self.ledger.look(|world| world.reviews.get(&review).is_some_and(|r| r.state == world::ReviewState::Open))
                }
                state => state.ended(),
            };
            if waits && !self.episodes.lock().contains_key(&id) {
                return Ok(task);
            }
            // Also wakes by itself: an episode leaves the table just after its last record.
            let tick = tokio::time::sleep(std::time::Duration::from_millis(20));
            tokio::select! {
                changed = follow.changed() => if changed.is_err() {
                    return Err(Fault::new(world::FaultKind::Stopping, "the kernel is stopping", "the journal was closed").into());
                },
                () = tick => {}
            }
        }
    }
}

impl Tasks {
    /// Queues a task for `pid`, or for the zone's own process.
    #[expect(clippy::too_many_arguments, reason = "each is a column of the task's record")]
    pub(crate) async fn enqueue(
        &self,
        zone: ZoneId,
        pid: Option<Pid>,
        mode: Mode,
        prompt: String,
        brain: String,
        priority: i64,
        calls_max: Option<u64>,
        marks: TaskMarks,
    ) -> Result<TaskId, Stop> {
        let original = self.ledger.keep_prompt(&prompt).await?;
        let pending = self.ledger.commit(|world, _| {
            let Some(pid) = pid.or_else(|| gate::zone_process(world, zone).map(|process| process.pid)) else {
                return (Vec::new(), Err(Refusal::new(Code::NotFound, "the zone has no process")));
            };
            let waiting = world.tasks.values().filter(|task| task.pid == pid && task.state == TaskState::Queued).count();
            if waiting >= limits::QUEUE_MAX {
                let full = Refusal::new(Code::Exhausted, format!("{waiting} tasks are queued already"));
                return (Vec::new(), Err(full.hint("wait").remedy(world::Remedy::CancelTask { task: None })));
            }
            let task = world.next_task();
            let queued =
                TaskQueued { pid, task: Some(task), zone, mode, prompt, brain, priority, calls_max, original, discard: marks.discard };
            let replay = marks.replays.map(|of| ReplayStarted { pid, task: Some(task), of }.into());
            let cassette = marks.record.then(|| CassetteStarted { pid, task: Some(task), file: file_of(task) }.into());
            let tagged =
                (!marks.tags.is_empty()).then(|| TaskTagged { pid, task: Some(task), tags: marks.tags, by: "operator".into() }.into());
            (std::iter::once(queued.into()).chain(tagged).chain(replay).chain(cassette).collect(), Ok(task))
        })?;
        Ok(pending.durable().await??)
    }

    /// A task that holds one call of the operator's own, already taken up.
    pub(crate) async fn add_operator_call(&self, zone: ZoneId, prompt: String, discard: bool) -> Result<TaskId, Stop> {
        let marks = TaskMarks { discard, ..TaskMarks::default() };
        let id = self.enqueue(zone, Some(Pid::OPERATOR), Mode::Call, prompt, String::new(), 0, None, marks).await?;
        self.ledger.record(world::event::TaskStarted { pid: Pid::OPERATOR, task: Some(id), episode: 1 }).await?;
        Ok(id)
    }
}

impl Kernel {
    /// Queues a task and returns at once; sets the zone up first where that needs no question.
    pub async fn add(&self, new: NewTask) -> Result<Added, Stop> {
        if new.prompt.trim().is_empty() || new.prompt.len() > limits::INPUT_BYTES_MAX {
            return Err(Refusal::new(Code::BadInput, "a task wants a prompt of 1 byte to 4 MiB")
                .remedy(world::Remedy::DescribeTask)
                .into());
        }
        let proposal = self.gate.init(&new.path).await?;
        if !proposal.ready() {
            return Err(Refusal::new(
                Code::Untrusted,
                "this repository brings its own skep.yml or .skep, and you have not looked at them yet",
            )
            .remedy(world::Remedy::TrustProject)
            .into());
        }
        let trusted = self
            .gate
            .policies
            .trusted(proposal.zone)?
            .ok_or_else(|| Refusal::new(Code::Untrusted, "no policy is in force").remedy(world::Remedy::TrustProject))?;
        let brain = match (&new.brain, &trusted.config.brain) {
            (Some(asked), _) => self.brain_of(proposal.zone, asked, &proposal.path, NamedBy::Operator).await?,
            (None, Some(own)) => self.brain_of(proposal.zone, own, &proposal.path, NamedBy::Project).await?,
            (None, None) => self.brain_of(proposal.zone, "native", &proposal.path, NamedBy::Operator).await?,
        };
        let calls_max = match (new.calls_max, trusted.config.limits.calls) {
            (Some(wanted), Some(limit)) => Some(wanted.min(limit)),
            (wanted, limit) => wanted.or(limit),
        };
        let marks = TaskMarks { record: new.record || self.models.record, tags: tags(new.tags)?, ..TaskMarks::default() };
        let id = self.tasks.enqueue(proposal.zone, None, new.mode, new.prompt, brain, new.priority, calls_max, marks).await?;
        self.tasks.wake();
        Ok(Added { task: id, process: proposal.process, branch: proposal.branch, initialised: !proposal.created.is_empty() })
    }

    /// Stops a task where it is, and comes back when no process and no request of it is left. What it wrote is dropped; the journal keeps what it did.
    pub async fn cancel(&self, id: TaskId, by: &str) -> Result<(), Stop> {
        let began = Instant::now();
        let mut follow = self.ledger.journal().follow();
        let mut is_waiting = false;
        // On record first: from here on nothing of it begins.
        let (pid, calls) = loop {
            let pending = self.ledger.commit(|world, _| match cancelled(world, id, by) {
                Ok((pid, calls, events)) => (events, Ok((pid, calls))),
                Err(no) => (Vec::new(), Err(no)),
            })?;
            match pending.durable().await? {
                Ok(found) => break found,
                Err(Uncancelled::Refused(refusal)) if is_waiting => return Err(merged_first(self, id).unwrap_or(refusal).into()),
                Err(Uncancelled::Refused(refusal)) => return Err(refusal.into()),
                // Halfway in, a merge is neither the old project nor the new one: it comes to its end first.
                Err(Uncancelled::Applying) => match APPLY_MAX.checked_sub(began.elapsed()) {
                    Some(left) => drop(tokio::time::timeout(left, follow.changed()).await),
                    None => return Err(still_applied(id).into()),
                },
            }
            is_waiting = true;
        };
        // Stopped before its brain is gone, so that what they cost is settled as cancelled.
        let settled = self.models.stop_requests_of(RequestOwner::Task(id), &format!("{id} was cancelled"));
        self.tasks.end_work(id, &format!("{id} was cancelled by {by}")).await?;
        settled.await;
        for call in calls {
            self.ledger.delete_original(call)?;
        }
        self.ledger.forget_questions(Some(id))?;
        self.workspaces.end_workspace(id).await?;
        self.close_workspace(pid, id).await?;
        self.tasks.wake();
        Ok(())
    }

    /// The brain a task will have. A script is read and kept now, so that a later change of the file changes nothing.
    async fn brain_of(&self, zone: ZoneId, name: &str, top: &Path, named: NamedBy) -> Result<String, Stop> {
        let unknown = |unknown: brain::UnknownBrain| Refusal::new(Code::Unsupported, unknown.to_string()).hint(BrainSpec::KNOWN);
        let spec = BrainSpec::parse(name).map_err(unknown)?;
        if let Some(model) = spec.model() {
            self.models.model_card(zone, model)?;
        }
        let BrainSpec::Script(file) = &spec else { return Ok(spec.to_string()) };
        let text = script(top, file, named).await?;
        BrainScript::parse(&text).map_err(|error| {
            Refusal::new(Code::BadInput, format!("`{}` is not a script: {error}", top.join(file).display())).hint("see docs/scripts.md")
        })?;
        let blob = self.ledger.keep(text.as_bytes())?;
        Ok(BrainSpec::Script(blob).to_string())
    }
}

/// Whose word it is that a task has this brain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NamedBy {
    Operator,
    /// `brain` in skep.yml: a pull may put anything at that path.
    Project,
}

/// The text of a script. The operator may name any file; a project names its own, and none that no brain may see.
async fn script(top: &Path, file: &str, named: NamedBy) -> Result<String, Stop> {
    let path = top.join(file);
    // The operator's way to say "an empty one".
    if named == NamedBy::Operator && path == Path::new("/dev/null") {
        return Ok(String::new());
    }
    let bad = |why: String| {
        let hint = format!("name a text file of at most {} MiB, and no link", SCRIPT_BYTES_MAX >> 20);
        Refusal::new(Code::NotFound, format!("cannot read the script `{}`: {why}", path.display())).hint(hint)
    };
    let (folder, name) = match (path.strip_prefix(top), path.parent(), path.file_name()) {
        (Ok(inside), ..) => (top.to_owned(), inside.to_owned()),
        (_, Some(parent), Some(name)) if named == NamedBy::Operator => (parent.to_owned(), PathBuf::from(name)),
        _ => return Err(bad("it is not a file of the project".into()).into()),
    };
    if named == NamedBy::Project && MaskedNames::new(top, &[])?.find(&name.to_string_lossy()).is_some() {
        return Err(bad("no brain may see it".into()).into());
    }
    let read = reader::bounded(move || Folder::open(&folder)?.read(name, SCRIPT_BYTES_MAX)).await?;
    let bytes = read.map_err(|why| bad(why.to_string()))?;
    Ok(String::from_utf8(bytes).map_err(|_| bad("it is not UTF-8".into()))?)
}

/// How long a cancel waits for a merge that is being applied. A large one takes a disk seconds.
const APPLY_MAX: Duration = Duration::from_secs(30);

/// Why a task cannot be cancelled now.
enum Uncancelled {
    Refused(Refusal),
    /// Its changes are being put into the project.
    Applying,
}

/// What a cancel hears that came while the merge was applied, if all of it went in.
fn merged_first(kernel: &Kernel, id: TaskId) -> Option<Refusal> {
    let is_merged = kernel.ledger.look(|world| {
        let merge = world.tasks.get(&id)?.merge?;
        Some(world.merges.get(&merge)?.state == world::MergeState::Applied)
    })?;
    let what = format!("{id} was being merged when you cancelled it, and its changes are in the project now");
    is_merged.then(|| Refusal::new(Code::WrongState, what).hint("undo the merge to take them out again"))
}

fn still_applied(id: TaskId) -> Refusal {
    let what = format!("{id} is being merged: its changes are on their way into the project, and that does not stop halfway");
    Refusal::new(Code::WrongState, what).hint("wait until it is done, then undo the merge to take them out again")
}

fn cancelled(world: &World, id: TaskId, by: &str) -> Result<(Pid, Vec<CallId>, Vec<Event>), Uncancelled> {
    let task = world.tasks.get(&id).ok_or_else(|| Uncancelled::Refused(unknown_task(id)))?;
    if task.state.ended() {
        return Err(Uncancelled::Refused(Refusal::new(Code::WrongState, format!("{id} is {} already", task.state.as_str()))));
    }
    if let Some(merge) = task.merge.and_then(|merge| world.merges.get(&merge))
        && merge.state == world::MergeState::Applying
    {
        return Err(Uncancelled::Applying);
    }
    let mut events: Vec<Event> = Vec::new();
    let mut calls = Vec::new();
    // A request to a model ends with what it cost.
    let others = world.calls.iter().filter(|(call, open)| open.task == Some(id) && !world.books.reserved.contains_key(call));
    for (call, open) in others {
        calls.push(*call);
        let output = serde_json::json!({"error": "cancelled"});
        events
            .push(CallFinished { pid: open.pid, task: open.task, call: *call, ok: false, output, blob: None, blob_bytes: 0, ms: 0 }.into());
    }
    events.push(TaskCancelled { pid: task.pid, task: Some(id), by: by.to_owned() }.into());
    Ok((task.pid, calls, events))
}

/// Starts what is ready, whenever the bell rings, until the kernel stops.
pub(crate) async fn run(kernel: Arc<Kernel>) {
    while !kernel.instance.stopping() {
        for (pid, id) in ready(&kernel) {
            let mut episodes = kernel.tasks.episodes.lock();
            if !kernel.instance.stopping() && !episodes.contains_key(&id) {
                let (kernel, hold) = (kernel.clone(), kernel.tasks.works.begin(WorkKey::of_task(id)));
                let work = async move {
                    episode::run(kernel, pid, id).await;
                    drop(hold);
                };
                episodes.insert(id, tokio::spawn(work).abort_handle());
            }
        }
        kernel.tasks.ready.notified().await;
    }
}

/// At most one task for each process that has none in hand.
fn ready(kernel: &Kernel) -> Vec<(Pid, TaskId)> {
    let busy: Vec<TaskId> = kernel.tasks.episodes.lock().keys().copied().collect();
    kernel.ledger.look(|world| {
        let occupied = |pid: Pid| busy.iter().any(|id| world.tasks.get(id).is_some_and(|task| task.pid == pid));
        let able = world.processes.values().filter(|p| p.state.alive() && p.state != world::ProcessState::Paused && !occupied(p.pid));
        able.filter_map(|process| {
            let left = world.current_task(process.pid).filter(|task| task.mode != Mode::Call);
            // An operator's own call is asked again by the operator; only its merge is ours to go on with.
            let answered = || world.answered().find(|task| task.pid == process.pid && (task.mode != Mode::Call || task.merge.is_some()));
            let task = left.or_else(answered).or_else(|| world.next_queued(process.pid))?;
            Some((process.pid, task.id))
        })
        .collect()
    })
}
