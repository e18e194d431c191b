//! Which task is worked on next, and by whom.
//!
//! A process does one thing at a time: it goes on with what a person has answered, else takes the queued task of highest priority.
//! A task that waits for a person or for money does not hold up the queue; it has a workspace of its own. A project may have several workers.

use crate::work::Tasks;
use crate::{ChosenDiscipline, Kernel, brain_host, episode};
use agent::{NamedBy, TALK, TalkSession, read_script};
use brain::BrainSpec;
use gate::{BrainNames, ChosenSkill, FoundWorker, TaskShape, WorkerWish, command_script};
use ledger::unknown_task;
use models::file_of;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use world::event::{BudgetSet, CassetteStarted, ReplayStarted, TaskNarrowed, TaskQueued, TaskScheduled, TaskStarted, TaskTagged};
use world::{
    Budget, CallId, Code, Event, Fault, Missing, Mode, Pid, Process, ProcessState, Refusal, RefusalKind, Remedy, Stop, Task, TaskId,
    TaskPlacement, TaskState, ToolList, World, ZoneId, limits,
};

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
    /// What its requests to models may use, beside the caps of its process.
    pub budget: Option<Budget>,
    /// Have another worker do it at once, and do not queue it behind what the first one does.
    pub new_worker: bool,
    /// Who is to do it, with what.
    pub shape: TaskShape,
    /// Which worker, and when.
    pub placement: TaskPlacement,
}

impl NewTask {
    /// A task without limits and marks, for the project's own worker.
    pub fn new(path: PathBuf, mode: Mode, prompt: String, brain: Option<String>) -> NewTask {
        NewTask {
            path,
            mode,
            prompt,
            brain,
            priority: 0,
            calls_max: None,
            record: false,
            tags: Vec::new(),
            budget: None,
            new_worker: false,
            shape: TaskShape::default(),
            placement: TaskPlacement::default(),
        }
    }
}

/// What is special about a task from its start.
#[derive(Clone, Default)]
pub(crate) struct TaskMarks {
    pub record: bool,
    pub replays: Option<TaskId>,
    pub tags: Vec<String>,
    pub budget: Option<Budget>,
    /// What it writes is dropped.
    pub discard: bool,
    /// Whoever adds it has it in hand: it is taken up in the same commit.
    pub is_begun: bool,
    /// A worker that has nothing to do takes it, or a new one, of at most so many.
    pub workers_max: Option<usize>,
    /// Whose a new worker is.
    pub user: String,
    /// The only tools that it may use.
    pub lists: Vec<ToolList>,
    pub skill: Option<ChosenSkill>,
    /// The talk that it is.
    pub talk: Option<Arc<TalkSession>>,
    /// Whom it is for, where somebody is named.
    pub wish: Option<NamedWorker>,
    /// When it is its turn, and for how long.
    pub placement: TaskPlacement,
    /// How many tasks may wait for its worker.
    pub queue_max: Option<usize>,
    pub discipline: Option<ChosenDiscipline>,
}

/// A worker whom somebody named, and what the project calls brains.
#[derive(Clone)]
pub(crate) struct NamedWorker {
    pub wish: WorkerWish,
    pub brain: Arc<BrainNames>,
}

/// A task that is on record.
pub(crate) struct Enqueued {
    pub task: TaskId,
    /// Its worker was taken on for it.
    pub is_enrolled: bool,
    /// What its worker did until now, with the calls that were cut off.
    pub interrupted: Option<(TaskId, Vec<CallId>)>,
}

/// A task that was queued.
#[derive(Clone, Debug)]
pub struct Added {
    pub task: TaskId,
    pub process: String,
    pub branch: String,
    /// The zone was set up on the way.
    pub initialised: bool,
    /// The project's policy files differ from what is in force.
    pub drifts: bool,
    /// What it waits for in the queue.
    pub behind: Option<TaskId>,
    /// The model that was asked for, as `provider/model`, where nobody knows whether its provider has it.
    pub unlisted: Option<String>,
    /// Its worker was taken on for it.
    pub is_enrolled: bool,
    pub skill: Option<String>,
    /// Unfinished tasks that it comes after.
    pub after: Vec<TaskId>,
    /// It goes before others that are queued.
    pub is_prioritized: bool,
    /// The task that was interrupted for it.
    pub interrupted: Option<TaskId>,
    /// Its worker takes nothing from its queue.
    pub is_queue_paused: bool,
}

/// Refuses a prompt that says nothing, with what would say something, or more than a record should hold.
pub(crate) fn check_prompt(prompt: &str, says_something: Remedy) -> Result<(), Refusal> {
    if prompt.trim().is_empty() {
        return Err(Refusal::new(Code::BadInput, "the prompt is empty").remedy(says_something));
    }
    if prompt.len() > limits::INPUT_BYTES_MAX {
        let reason = format!("the prompt has {} bytes, and may have {} (4 MiB)", prompt.len(), limits::INPUT_BYTES_MAX);
        let hint = "put what is long into a file of the project, and name that file in the prompt";
        return Err(Refusal::new(Code::TooLarge, reason).hint(hint));
    }
    Ok(())
}

/// Words that the kernel itself gives to callers.
const TAGS_KEPT: [&str; 8] = ["operator", "brain", "kernel", gate::WORKER_ROLE, gate::SESSION_ROLE, gate::JOB, gate::CLIENT, TALK];

/// Tags as rules can name them: short words, sorted, each once, and none that says who somebody is.
pub(crate) fn tags(mut tags: Vec<String>) -> Result<Vec<String>, Refusal> {
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
            // INVARIANT: listens before it looks, so that what happens in between wakes it.
            let mut left = std::pin::pin!(self.left.notified());
            left.as_mut().enable();
            let waits = match self.ledger.look_at_task(id, |task| task.state)? {
                TaskState::Parked { review } => {
                    self.ledger.look(|world| world.reviews.get(&review).is_some_and(|r| r.state == world::ReviewState::Open))
                }
                state => state.at_rest(),
            };
            if waits && !self.episodes.lock().contains_key(&id) {
                return self.ledger.task(id);
            }
            tokio::select! {
                changed = follow.changed() => if changed.is_err() {
                    return Err(Fault::new(world::FaultKind::Stopping, "the kernel is stopping", "the journal was closed").into());
                },
                () = left => {}
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
    ) -> Result<Enqueued, Stop> {
        let original = self.ledger.keep_prompt(&prompt).await?;
        let pending = self.ledger.commit(|world, now_ms| {
            let (pid, mut events) = match find_worker(world, zone, pid, &marks) {
                Ok(found) => found,
                Err(refusal) => return (Vec::new(), Err(refusal)),
            };
            let is_enrolled = !events.is_empty();
            let waiting = world.tasks.values().filter(|task| task.pid == pid && task.state == TaskState::Queued).count();
            if waiting >= marks.queue_max.unwrap_or(limits::QUEUE_MAX) {
                let full = Refusal::new(Code::Exhausted, format!("{waiting} tasks are queued already")).kind(RefusalKind::QueueFull);
                return (Vec::new(), Err(full.hint("wait").remedy(Remedy::CancelTask { task: None })));
            }
            let TaskPlacement { prioritize, disrupt, after, timeout_ms, .. } = marks.placement;
            if let Some(unknown) = after.iter().find(|id| !world.tasks.contains_key(id)) {
                return (Vec::new(), Err(unknown_task(*unknown)));
            }
            let task = world.next_task();
            // Before anybody can take it up.
            if let Some(talk) = &marks.talk {
                talk.set_task(task);
            }
            let priority = if prioritize || disrupt { world.front(pid).max(priority) } else { priority };
            let queued = TaskQueued {
                pid,
                task: Some(task),
                zone,
                mode,
                prompt,
                brain,
                priority,
                calls_max,
                original,
                discard: marks.discard,
                order: None,
            };
            events.push(queued.into());
            let id = Some(task);
            if !after.is_empty() || timeout_ms.is_some() {
                events.push(TaskScheduled { pid, task: id, after, timeout_ms }.into());
            }
            if !marks.tags.is_empty() {
                events.push(TaskTagged { pid, task: id, tags: marks.tags, by: "operator".into() }.into());
            }
            if !marks.lists.is_empty() {
                events.push(TaskNarrowed { pid, task: id, lists: marks.lists, by: "operator".into() }.into());
            }
            events.extend(marks.skill.map(|skill| skill.used(pid, task).into()));
            events.extend(marks.discipline.map(|chosen| chosen.event(pid, task, None, "operator")));
            events.extend(marks.budget.map(|budget| BudgetSet { pid, task: id, budget: Some(budget), by: "operator".into() }.into()));
            events.extend(marks.replays.map(|of| ReplayStarted { pid, task: id, of }.into()));
            events.extend(marks.record.then(|| CassetteStarted { pid, task: id, file: file_of(task) }.into()));
            // Behind all that is said of a task that waits.
            events.extend(marks.is_begun.then(|| TaskStarted { pid, task: id, episode: 1 }.into()));
            let interrupted = if disrupt { crate::interrupt::pausing(world, pid, task, now_ms, &mut events) } else { None };
            (events, Ok(Enqueued { task, is_enrolled, interrupted }))
        })?;
        Ok(pending.durable().await??)
    }
}

/// Who does a task, and the records by which that worker is taken on.
fn find_worker(world: &World, zone: ZoneId, pid: Option<Pid>, marks: &TaskMarks) -> Result<(Pid, Vec<Event>), Refusal> {
    if let Some(NamedWorker { wish, brain }) = &marks.wish {
        let FoundWorker { pid, enrolled } = wish.find_or_enrol(world, zone, &marks.user, brain.as_ref())?;
        return Ok((pid, enrolled));
    }
    if let Some(max) = marks.workers_max {
        let (pid, spawned) = gate::free_worker(world, zone, max, &marks.user)?;
        return Ok((pid, spawned.map(Event::from).into_iter().collect()));
    }
    let pid = pid.or_else(|| gate::first_worker(world, zone).map(|process| process.pid));
    pid.map(|pid| (pid, Vec::new())).ok_or_else(|| Refusal::missing(Missing::Worker, "the repository has no worker"))
}

impl Kernel {
    /// Queues a task and returns at once; sets the zone up first where that needs no question.
    pub async fn add(&self, new: NewTask) -> Result<Added, Stop> {
        self.add_marked(new, None).await
    }

    /// The same for a talk of the worker that it is with.
    pub(crate) async fn add_talk(&self, new: NewTask, session: &Arc<TalkSession>) -> Result<Added, Stop> {
        self.add_marked(new, Some(session.clone())).await
    }

    async fn add_marked(&self, mut new: NewTask, talk: Option<Arc<TalkSession>>) -> Result<Added, Stop> {
        let tags = tags(new.tags.clone())?;
        new.budget.as_ref().map_or(Ok(()), ledger::check_budget)?;
        let address = self.address_of(&mut new).await?;
        // A skill brings its own words, or needs no mind at all.
        if new.shape.skill.is_none() {
            check_prompt(&new.prompt, Remedy::DescribeTask)?;
            self.check_brain_first(&new).await?;
        }
        let proposal = self.gate.init(&new.path).await?;
        if !proposal.ready() {
            return Err(Refusal::new(
                Code::Untrusted,
                "this repository brings its own skep.yml or .skep, and you have not looked at them yet",
            )
            .remedy(Remedy::TrustProject)
            .into());
        }
        let trusted = self
            .gate
            .policies
            .trusted(proposal.zone)?
            .ok_or_else(|| Refusal::new(Code::Untrusted, "no policy is in force").remedy(Remedy::TrustProject))?;
        if let Some(address) = &address {
            WorkerWish::new(address, &trusted)?;
        }
        let shaped = self.gate.shape(&trusted, &new.prompt, &new.shape)?;
        check_prompt(&shaped.prompt, Remedy::DescribeTask)?;
        let mut asked = None;
        let brain = match &shaped.command {
            Some(command) => BrainSpec::Script(self.ledger.keep(command_script(command).as_bytes())?).to_string(),
            None => {
                let (brain, named) = self.brains.choose(Some(proposal.zone), new.brain.as_deref(), Some(&trusted.config));
                let spec = self.brains.find(&brain, Some(&trusted.config))?;
                asked = new.brain.as_ref().and(spec.model()).map(str::to_owned);
                self.brain_of(proposal.zone, spec, &proposal.path, named).await?
            }
        };
        let calls_max = match (new.calls_max, trusted.config.limits.calls) {
            (Some(wanted), Some(limit)) => Some(wanted.min(limit)),
            (wanted, limit) => wanted.or(limit),
        };
        let wish = self.named_worker(proposal.zone, address, shaped.role.as_deref(), &trusted)?;
        let skill = shaped.skill.as_ref().map(|skill| skill.name.clone());
        let timeout_ms = new.placement.timeout_ms.or(trusted.config.zone.limits.task_timeout_ms).filter(|_| talk.is_none());
        let (pid, talk_tag) = (talk.as_ref().map(|talk| talk.pid), talk.as_ref().map(|_| TALK.to_owned()));
        let discipline = self.discipline_of_new(proposal.zone, new.shape.discipline, new.mode == Mode::Act && talk.is_none()).await?;
        let marks = TaskMarks {
            discipline,
            talk,
            record: new.record || self.models.records_all(),
            tags: tags.into_iter().chain(talk_tag).collect(),
            budget: new.budget,
            workers_max: new.new_worker.then(|| trusted.config.workers_max()),
            lists: shaped.lists,
            skill: shaped.skill,
            user: self.instance.user.clone(),
            wish: wish.filter(|_| pid.is_none()),
            placement: TaskPlacement { timeout_ms, ..new.placement },
            queue_max: Some(trusted.config.queue_max()),
            ..TaskMarks::default()
        };
        let added = self.tasks.enqueue(proposal.zone, pid, new.mode, shaped.prompt, brain, new.priority, calls_max, marks).await?;
        let (id, is_enrolled, interrupted) = (added.task, added.is_enrolled, added.interrupted.as_ref().map(|(task, _)| *task));
        if let Some((task, calls)) = added.interrupted {
            self.end_interrupted(task, &calls, &format!("{task} waits for {id}")).await?;
        }
        let (initialised, drifts, behind) = (!proposal.created.is_empty(), !proposal.diff.is_empty(), self.queued_behind(id));
        self.tasks.wake();
        let unlisted = asked.and_then(|model| self.models.unlisted_model(Some(proposal.zone), &model));
        let added = self.ledger.look(|world| {
            let task = world.tasks.get(&id)?;
            let process = world.processes.get(&task.pid)?;
            let after = world.unfinished(&task.after).map(|other| other.id).collect();
            let (is_prioritized, is_queue_paused) = (task.priority > 0 && task.state == TaskState::Queued, process.queue_paused);
            let (process, branch) = (process.name.clone(), proposal.branch);
            Some(Added {
                task: id,
                process,
                branch,
                initialised,
                drifts,
                behind,
                unlisted,
                is_enrolled,
                skill,
                after,
                is_prioritized,
                interrupted,
                is_queue_paused,
            })
        });
        Ok(added.ok_or_else(|| unknown_task(id))?)
    }

    /// What a queued task waits for. One that waits for more of a budget holds up nobody.
    pub fn queued_behind(&self, id: TaskId) -> Option<TaskId> {
        let waits = self.models.waits();
        self.ledger.look(|world| world.queued_behind(id, |other| waits.iter().any(|wait| wait.task == Some(other))))
    }

    /// Asks a model for one word: this one, or the one that the built-in brain takes where nobody names one.
    pub async fn try_model(&self, model: Option<&str>) -> Result<models::ModelTrial, Stop> {
        let default = self.instance.settings.in_force().with_default_model(BrainSpec::native());
        let model = model.or(default.model()).unwrap_or_default();
        self.models.try_model(model).await
    }

    /// Refuses a task that has no model to think with, or no script to follow, before anything is written into its repository or queued.
    pub(crate) async fn check_brain_first(&self, new: &NewTask) -> Result<(), Stop> {
        let top = gate::locate(&new.path).await?;
        let zone = self.ledger.look(|world| world.zone_at(&top.to_string_lossy()).map(|zone| zone.id));
        let trusted = zone.map(|zone| self.gate.policies.trusted(zone)).transpose()?.flatten();
        // Which brain a repository's own files name counts once they are trusted.
        if trusted.is_none() && new.brain.is_none() && gate::brings_own(&top).await? {
            return Ok(());
        }
        let own = trusted.as_ref().map(|trusted| &trusted.config);
        let (brain, named) = self.brains.choose(zone, new.brain.as_deref(), own);
        let spec = match self.brains.find(&brain, own) {
            // A name of the repository's own counts once its files are trusted.
            Err(_) if trusted.is_none() && gate::brings_own(&top).await? => return Ok(()),
            spec => spec?,
        };
        if let BrainSpec::Script(file) = &spec {
            read_script(&top, file, named).await?;
        }
        match self.check_mind(zone, &spec) {
            // So do its names for models, if there is anything that they can lead to.
            Err(_) if trusted.is_none() && self.models.gateway().providers().next().is_some() && gate::brings_own(&top).await? => Ok(()),
            checked => Ok(checked?),
        }
    }

    /// Refuses a brain that has no model to think with in this zone, or no program.
    pub(crate) fn check_mind(&self, zone: Option<ZoneId>, spec: &BrainSpec) -> Result<(), Refusal> {
        if let Some(model) = spec.model() {
            self.models.model_card(zone, model)?;
        }
        self.brains.check_client(zone, spec)
    }

    /// The brain a task will have. A script is read and kept now, so that a later change of the file changes nothing.
    pub(crate) async fn brain_of(&self, zone: ZoneId, spec: BrainSpec, top: &Path, named: NamedBy) -> Result<String, Stop> {
        self.check_mind(Some(zone), &spec)?;
        let BrainSpec::Script(file) = &spec else { return Ok(spec.to_string()) };
        let text = read_script(top, file, named).await?;
        let blob = self.ledger.keep(text.as_bytes())?;
        Ok(BrainSpec::Script(blob).to_string())
    }
}

/// Starts what is ready, whenever the bell rings, until the kernel stops.
pub(crate) async fn run(kernel: Arc<Kernel>) {
    while !kernel.instance.stopping() {
        if let Err(stop) = crate::interrupt::stop_hopeless(&kernel).await {
            world::log!("skep: a task that waits for one that failed is not stopped: {stop}");
        }
        let next_end = crate::interrupt::stop_late(&kernel).await;
        for (pid, id) in ready(&kernel) {
            episode::start(&kernel, pid, id);
        }
        tokio::select! {
            () = kernel.tasks.ready.notified() => {}
            () = kernel.models.wait_began() => {}
            () = tokio::time::sleep(next_end) => {}
        }
    }
}

/// At most one task for each process that has none in hand. A task that waits for more of a budget is in nobody's hand.
fn ready(kernel: &Kernel) -> Vec<(Pid, TaskId)> {
    let busy: Vec<TaskId> = kernel.tasks.episodes.lock().keys().copied().collect();
    let waits: Vec<TaskId> = kernel.models.waits().iter().filter_map(|wait| wait.task).collect();
    kernel.ledger.look(|world| {
        let of = |pid: Pid| busy.iter().filter(move |id| world.tasks.get(id).is_some_and(|task| task.pid == pid));
        let occupied = |pid: Pid| of(pid).any(|id| !waits.contains(id)) || of(pid).count() >= limits::TASKS_WAITING_MAX;
        let is_able = |p: &&Process| brain_host::has_tasks(p) && p.state.alive() && p.state != ProcessState::Paused && !occupied(p.pid);
        let able = world.processes.values().filter(is_able);
        able.filter_map(|process| {
            let is_own = |task: &&Task| task.pid == process.pid && !busy.contains(&task.id);
            let left = || world.tasks.values().filter(is_own).find(|task| task.state == TaskState::Running && task.mode != Mode::Call);
            // An operator's own call is asked again by the operator; only its merge is ours to go on with.
            let answered = || world.answered().filter(is_own).find(|task| task.mode != Mode::Call || task.merge.is_some());
            // A person who wants to talk is let in all the same. What an operator calls is queued for a moment, and begun by whoever called.
            let may_start = |task: &&Task| (!process.queue_paused || agent::is_talk(task)) && task.mode != Mode::Call;
            let queued = || world.next_queued(process.pid).filter(is_own).filter(may_start);
            let task = left().or_else(answered).or_else(queued)?;
            Some((process.pid, task.id))
        })
        .collect()
    })
}
