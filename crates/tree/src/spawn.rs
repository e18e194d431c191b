//! A new process: judged and recorded as `proc.spawn`, then its program starts.
//!
//! **Invariant.** No lock is held while a program starts, so spawns at the same time run at the same time, and a program may spawn before it is
//! ready itself. A process whose program does not start leaves nothing: what was set aside for it goes back, and the reason is on record. What it was
//! spawned to do is queued once, by this kernel or by the next.

use crate::calls::{CallEffect, TreeCall};
use crate::order::SpawnOrder;
use crate::program::is_visible;
use crate::{Tree, TreeCaller, TreeFuture};
use gate::TreeRequest;
use serde_json::json;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use world::event::{ProcCollected, ProcSpawned, WorkerPinned};
use world::{
    Code, CronAction, CronSpec, EndReason, Event, Fault, FaultKind, MissedRule, OverlapRule, Pid, ProcessExit, Program, ProgramLimits,
    ProgramOriginal, ProgramRuntime, ProgramSchedule, Refusal, Stop, Tier, World, ZoneId,
};

/// Folders that the room of a program shows read-only, as its metadata names them. Only the operator adds to them; a child has its parent's.
pub(crate) const SHOWN: &str = "skep.shown";
/// A folder that the program may write, and what its room may use. Only the operator says so.
const OPERATOR_METADATA: [&str; 5] = [SHOWN, PROGRAMS, crate::program::WORKSPACE, crate::program::MEMORY_MB, crate::program::CPU_MILLI];
/// Folders of programs, one on a line, which the room shows as well: that of its own where the operator named it, and its parent's.
pub(crate) const PROGRAMS: &str = "skep.programs";

/// Longer names are cut in every table.
const NAME_CHARS_MAX: usize = 128;
/// Names of models are shorter.
const MODEL_CHARS_MAX: usize = 256;

/// What a spawn has to know of the parent.
struct ParentProgram {
    limits: ProgramLimits,
    metadata: BTreeMap<String, String>,
    tools: Vec<String>,
    /// Neither it nor the one who asks runs in a room: they see everything.
    is_free: bool,
}

impl Tree {
    /// Spawns a process and starts its program. Done when the program is ready.
    pub fn spawn(&self, by: impl Into<TreeCaller>, order: SpawnOrder) -> TreeFuture<'_, Result<Pid, Stop>> {
        Box::pin(self.spawn_and_start(by.into(), order))
    }

    async fn spawn_and_start(&self, caller: TreeCaller, order: SpawnOrder) -> Result<Pid, Stop> {
        let by = caller.pid;
        let (first, schedule) = (order.initial_task.clone(), order.schedule.clone());
        if let Some(schedule) = &schedule {
            Tree::cron_next(&schedule.cron, "", 0, 1)?;
        }
        let (runtime, unshown) = (order.runtime, self.unshown_by(&order));
        let pid = self.record_spawn(caller, order).await?;
        match runtime {
            ProgramRuntime::Virtual => return Ok(pid),
            ProgramRuntime::Brain => {}
            _ => self.start_spawned(pid, unshown).await?,
        }
        self.queue_first(by, pid, schedule, first).await?;
        Ok(pid)
    }

    /// Queues what a process was spawned to do: its schedule, then its first task.
    async fn queue_first(&self, by: Pid, pid: Pid, schedule: Option<ProgramSchedule>, first: Option<String>) -> Result<(), Stop> {
        if let Some(schedule) = schedule {
            self.add_schedule(by, pid, &schedule, first.as_deref()).await?;
        }
        match first {
            Some(text) => self.begin_first_task(by, pid, text),
            // It sleeps until its first run.
            None => {
                if let Some(me) = self.me.upgrade() {
                    me.rest_unless_task(pid).await?;
                }
            }
        }
        Ok(())
    }

    /// At boot: has each process do what it was spawned for, where the last kernel went down before that was queued. In the name of who spawned it, or of its parent where
    /// that one is gone.
    pub(crate) fn finish_spawns(self: &Arc<Self>) {
        let alive = |world: &World, pid: Pid| world.processes.get(&pid).is_some_and(|process| process.state.alive());
        let owing: Vec<(Pid, Pid, Program)> = self.ledger.look(|world| {
            let owing = world.processes.values().filter(|process| process.state.alive());
            let owed = owing.filter_map(|process| {
                let by = process.owes_first_to?;
                let by = if alive(world, by) { by } else { process.parent? };
                Some((process.pid, by, process.program.as_deref()?.clone()))
            });
            owed.collect()
        });
        for (pid, by, program) in owing {
            let me = Arc::clone(self);
            tokio::spawn(async move {
                let finish = async {
                    let first = me.original(&program).await?.initial_task;
                    me.queue_first(by, pid, program.schedule.clone(), first).await
                };
                if let Err(stop) = finish.await {
                    world::log!("skep: what process {pid} was spawned to do came to nothing: {stop}");
                }
            });
        }
    }

    /// Starts the program of a new process; where that fails nothing of the process is left.
    async fn start_spawned(&self, pid: Pid, unshown: Option<PathBuf>) -> Result<(), Stop> {
        let me = self.me.upgrade().ok_or_else(stopping)?;
        // In a task of its own: a caller that goes away leaves no half-started program.
        let started = tokio::spawn(async move {
            match me.start(pid).await {
                Ok(_) => Ok(()),
                Err(fault) => {
                    me.undo_spawn(pid, &fault.to_string()).await?;
                    let why = |folder: PathBuf| {
                        format!("`{}` holds the kernel's home, so no sandbox shows it: keep the code elsewhere", folder.display())
                    };
                    Err(match unshown {
                        Some(folder) => fault.fix(why(folder)),
                        None => fault,
                    })
                }
            }
        });
        started.await.map_err(|error| Fault::new(FaultKind::Bug, "the start of a program was lost", error))??;
        Ok(())
    }

    /// A folder that somebody wants its room to show, and that no room shows.
    fn unshown_by(&self, order: &SpawnOrder) -> Option<PathBuf> {
        let named = order.metadata.get(SHOWN).or_else(|| order.env.get("PYTHONPATH")).filter(|_| order.confined)?;
        named.split(':').map(PathBuf::from).find(|folder| folder.is_absolute() && self.home.starts_with(folder))
    }

    /// Has a process run at its times: each run is the task that it was spawned with.
    async fn add_schedule(&self, by: Pid, pid: Pid, schedule: &ProgramSchedule, first: Option<&str>) -> Result<(), Stop> {
        let name = Program::schedule_name(pid);
        // The last kernel went down behind it.
        if self.ledger.look(|world| world.crons.values().any(|entry| entry.spec.target == pid && entry.spec.name == name)) {
            return Ok(());
        }
        let spec = CronSpec {
            name,
            expression: schedule.cron.clone(),
            timezone: String::new(),
            action: CronAction::Execute,
            target: pid,
            description: first.unwrap_or("scheduled run").to_owned(),
            params: Default::default(),
            program: None,
            enabled: true,
            overlap: OverlapRule::Skip,
            missed: MissedRule::Skip,
            jitter_ms: 0,
        };
        self.cron_add(by, spec).await.map(drop)
    }

    /// What a program does first, without anybody who waits for it.
    fn begin_first_task(&self, by: Pid, pid: Pid, description: String) {
        let Some(me) = self.me.upgrade() else { return };
        let order = crate::TaskOrder { description, is_first: true, ..crate::TaskOrder::default() };
        tokio::spawn(async move {
            // What came of it is on record with the task.
            if let Err(stop) = me.execute(by, pid, order, false).await {
                world::log!("skep: the first task of process {pid} came to nothing: {stop}");
            }
        });
    }

    async fn record_spawn(&self, TreeCaller { pid: by, asked }: TreeCaller, mut order: SpawnOrder) -> Result<Pid, Stop> {
        let is_top = by == Pid::KERNEL || by == Pid::OPERATOR;
        let parent = order.parent.unwrap_or(by);
        self.check_order(&order, is_top)?;
        let mut zone = None;
        if order.runtime == ProgramRuntime::Brain {
            let (brain, project) = self.brain_of(by, &order.image, order.tier, &order.model)?;
            (order.image, zone) = (brain, Some(project));
        }
        let above = self.ledger.look(|world| {
            let process = world.processes.get(&parent)?;
            let program = process.program.as_deref();
            let is_confined = |pid: Pid| world.processes.get(&pid).and_then(|of| of.program.as_deref()).is_none_or(|of| of.confined);
            let is_free = !is_confined(parent) && !is_confined(by);
            let above = program.map(|program| ParentProgram {
                limits: program.limits,
                metadata: program.metadata.clone(),
                tools: program.tools.clone(),
                is_free,
            });
            Some((above, process.user.clone()))
        });
        let (above, user) = above.ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no process {parent}")))?;
        let limits = above.as_ref().map_or(order.limits, |above| filled(&order.limits, &above.limits));
        self.can_hold(&limits)?;
        let mut order = SpawnOrder { limits, ..order };
        if let (true, Some(above)) = (order.tools.is_empty(), &above) {
            order.tools.clone_from(&above.tools);
        }
        let is_image_hidden = self.show(&mut order, above.as_ref(), is_top);
        let about = TreeRequest::Spawn {
            parent,
            role: order.role,
            tier: order.tier,
            user: order.user.clone(),
            tools: order.tools.clone(),
            name: order.name.clone(),
            is_image_hidden,
            limits: Box::new(limits),
            budget: order.budget.clone().map(Box::new),
        };
        let original = self.keep_original(&order).await?;
        let user = order.user.clone().unwrap_or(user);
        let input = json!({
            "parent": parent.0, "name": order.name, "role": order.role.as_str(), "tier": order.tier.as_str(), "user": user,
            "runtime": order.runtime.as_str(), "image": order.image, "tools": order.tools, "confined": order.confined,
        });
        let name = order.name.clone();
        let has_first = order.runtime != ProgramRuntime::Virtual && (order.initial_task.is_some() || order.schedule.is_some());
        let program = Program { spawned_by: has_first.then_some(by), ..program(order, original.clone()) };
        let call = TreeCall { by, tool: "proc.spawn", input, about: Some(about), read_only: false };
        let spawned = self.commit_asked(call, asked, |world, _, _| {
            // It may have ended since the gate looked.
            if world.processes.get(&parent).is_some_and(|process| process.state.alive()) {
                let effect = effect(world, parent, &name, &user, &program, zone);
                // What others took since the gate looked.
                match effect.events.first().and_then(|event| world.check(event).err()) {
                    Some(illegal) => Err(Refusal::new(Code::Exhausted, format!("spawn denied: {}", illegal.why))),
                    None => Ok(effect),
                }
            } else {
                Err(Refusal::new(Code::WrongState, format!("process {parent} has ended")))
            }
        });
        match spawned.await {
            Ok(pid) => Ok(pid),
            Err(stop) => {
                if let Some(name) = original {
                    self.ledger.delete_original(name)?;
                }
                Err(stop)
            }
        }
    }

    /// Says what the room of a new process shows beside its own folder, and whether its program lies elsewhere: a child sees what its parent sees,
    /// and only the operator, or who runs outside rooms, adds to that.
    fn show(&self, order: &mut SpawnOrder, above: Option<&ParentProgram>, is_top: bool) -> bool {
        let image = matches!(order.runtime, ProgramRuntime::Claw | ProgramRuntime::Custom).then(|| Path::new(&order.image));
        let folder =
            image.filter(|image| image.is_absolute()).and_then(Path::parent).filter(|folder| !is_visible(folder)).map(Path::to_owned);
        if is_top {
            if let Some(path) = order.env.get("PYTHONPATH") {
                order.metadata.entry(SHOWN.to_owned()).or_insert_with(|| path.clone());
            }
        } else {
            order.metadata.retain(|key, _| !OPERATOR_METADATA.contains(&key.as_str()));
        }
        let inherited = |key: &str| above.and_then(|above| above.metadata.get(key)).cloned();
        let mut programs: Vec<PathBuf> = inherited(PROGRAMS).iter().flat_map(|text| text.lines()).map(PathBuf::from).collect();
        if !is_top {
            order.metadata.extend(inherited(SHOWN).map(|shown| (SHOWN.to_owned(), shown)));
        }
        let mut is_hidden = false;
        if let Some(folder) = folder {
            let is_plain = folder.components().all(|part| !matches!(part, Component::ParentDir));
            let shown = order.metadata.get(SHOWN).map(String::as_str).unwrap_or_default();
            let is_seen = is_plain && self.shown_by(shown).iter().chain(&programs).any(|of| folder.starts_with(of));
            let workspace = inherited(crate::program::WORKSPACE).map(PathBuf::from).filter(|root| is_plain && folder.starts_with(root));
            if is_top || above.is_some_and(|above| above.is_free) {
                programs.push(folder);
            } else if !is_seen {
                is_hidden = workspace.is_none();
                programs.extend(workspace);
            }
        }
        programs.sort();
        programs.dedup();
        let lines: Vec<String> = programs.iter().filter_map(|folder| folder.to_str()).map(str::to_owned).collect();
        if !lines.is_empty() {
            order.metadata.insert(PROGRAMS.to_owned(), lines.join("\n"));
        }
        is_hidden
    }

    fn check_order(&self, order: &SpawnOrder, is_top: bool) -> Result<(), Refusal> {
        let bad = |reason: &str| Err(Refusal::new(Code::BadInput, reason));
        if order.name.trim().is_empty() || order.name.chars().count() > NAME_CHARS_MAX || order.name.contains(char::is_control) {
            return bad("the name must be a line of at most 128 characters");
        }
        // Whoever reads a name believes it. To others a rule of the policy says so.
        if is_top && World::is_name_reserved(&order.name) {
            let why = format!("`{}` is the name of the kernel or the operator", order.name.trim());
            return Err(Refusal::new(Code::BadInput, why).hint("take another name"));
        }
        if matches!(self.ledger.redactor.text(&order.image), Cow::Owned(_)) {
            // It would be started by what the record has of it.
            return bad("the image looks like a secret, which no record keeps: give it another name");
        }
        if order.model.chars().count() > MODEL_CHARS_MAX || order.model.contains(char::is_control) {
            return bad("the model must be a line of at most 256 characters");
        }
        if !order.confined && !is_top {
            let why = "spawn denied: only the operator lets a program run outside a sandbox";
            return Err(Refusal::new(Code::Denied, why).hint("leave it confined"));
        }
        match order.runtime {
            ProgramRuntime::Virtual if !order.image.is_empty() => bad("a virtual process runs nothing, and has no image"),
            ProgramRuntime::Virtual if order.initial_task.is_some() || order.schedule.is_some() => {
                let why = "a virtual process runs nothing that could do a first task or keep a schedule";
                Err(Refusal::new(Code::BadInput, why).hint("name what it runs, or send it a message"))
            }
            ProgramRuntime::Brain if order.image.is_empty() => bad("the image must name a brain, such as `native`"),
            ProgramRuntime::Brain if !order.env.is_empty() => bad("a brain has no variables of its own"),
            ProgramRuntime::Python if !is_python_image(&order.image) => bad("the image of a Python agent is `module:Class`"),
            ProgramRuntime::Claw | ProgramRuntime::Custom if order.image.is_empty() => bad("the image must name a program"),
            _ => match order.env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
                Some(name) => bad(&format!("`{name}` is no name of a variable")),
                None => Ok(()),
            },
        }
    }

    /// Keeps what the record will not hold: values of variables, and texts with secrets.
    async fn keep_original(&self, order: &SpawnOrder) -> Result<Option<String>, Stop> {
        let is_plain = |text: &str| matches!(self.ledger.redactor.text(text), Cow::Borrowed(_));
        let is_whole = order.env.is_empty()
            && is_plain(&order.system_prompt)
            && order.initial_task.as_deref().is_none_or(is_plain)
            && order.metadata.values().all(|value| is_plain(value));
        if is_whole {
            return Ok(None);
        }
        let original = ProgramOriginal {
            system_prompt: order.system_prompt.clone(),
            env: order.env.clone(),
            metadata: order.metadata.clone(),
            initial_task: order.initial_task.clone(),
        };
        let bytes = serde_json::to_vec(&original).map_err(|error| Fault::new(FaultKind::Bug, "a program cannot be written", error))?;
        let journal = self.ledger.journal().clone();
        let kept = tokio::task::spawn_blocking(move || {
            let vault = journal.vault();
            let name = format!("program-{}-{}", vault.digest(&bytes), std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos());
            vault.put_durably(&name, &bytes).map(|()| name)
        });
        let kept = kept.await.map_err(|error| Fault::new(FaultKind::Bug, "the program was not kept", error))?;
        Ok(Some(kept.map_err(ledger::fault)?))
    }

    /// The program as it was given.
    pub(crate) async fn original(&self, program: &Program) -> Result<ProgramOriginal, Fault> {
        let Some(name) = program.original.clone() else {
            return Ok(ProgramOriginal {
                system_prompt: program.system_prompt.clone(),
                metadata: program.metadata.clone(),
                initial_task: program.initial_task.clone(),
                ..ProgramOriginal::default()
            });
        };
        let journal = self.ledger.journal().clone();
        let read = tokio::task::spawn_blocking(move || journal.vault().get(&name)).await;
        let read = read.map_err(|error| Fault::new(FaultKind::Bug, "the program was not read", error))?.map_err(ledger::fault)?;
        let bytes = read.ok_or_else(|| Fault::new(FaultKind::Io, "its environment is not kept any more", "the vault does not have it"))?;
        serde_json::from_slice(&bytes).map_err(|error| Fault::new(FaultKind::Bug, "a kept program cannot be read", error))
    }

    /// A start failed: what the process has below it ends, what was set aside for it goes back, and it leaves the table.
    async fn undo_spawn(&self, pid: Pid, reason: &str) -> Result<(), Fault> {
        let below = self.ledger.look(|world| world.branch(pid).into_iter().filter(|of| *of != pid).collect::<Vec<_>>());
        self.end_all(&below, EndReason::ParentDied, std::time::Duration::ZERO).await?;
        let original = self.ledger.commit(|world, _| {
            let exit = ProcessExit { reason: EndReason::Normal, ..ProcessExit::default() };
            let mut events = world.ending(pid, true, reason, exit);
            let parent = world.processes.get(&pid).and_then(|process| process.parent).unwrap_or(Pid::KERNEL);
            let has_children = world.processes.values().any(|process| process.parent == Some(pid));
            if !events.is_empty() && !has_children {
                events.push(ProcCollected { pid, task: None, by: parent }.into());
            }
            let original = world.processes.get(&pid).and_then(|process| process.program.as_ref()?.original.clone());
            (events, original.filter(|_| !has_children))
        })?;
        if let Some(name) = original.durable().await? {
            self.ledger.delete_original(name)?;
        }
        Ok(())
    }
}

pub(crate) fn stopping() -> Fault {
    Fault::new(FaultKind::Stopping, "the process tree does not run", "the kernel is going down")
}

fn is_python_image(image: &str) -> bool {
    let is_name = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "_.".contains(c));
    image.split_once(':').is_some_and(|(module, class)| is_name(module) && is_name(class))
}

/// What was not said is the parent's.
fn filled(own: &ProgramLimits, parent: &ProgramLimits) -> ProgramLimits {
    ProgramLimits {
        tokens_per_hour: own.tokens_per_hour.or(parent.tokens_per_hour),
        context: own.context.or(parent.context),
        children: own.children.or(parent.children),
        tasks: own.tasks.or(parent.tasks),
        timeout_ms: own.timeout_ms.or(parent.timeout_ms),
        tokens_total: own.tokens_total.or(parent.tokens_total),
        memory_mb: own.memory_mb.or(parent.memory_mb),
        cpu_milli: own.cpu_milli.or(parent.cpu_milli),
    }
}

fn program(order: SpawnOrder, original: Option<String>) -> Program {
    let model = match (order.model.is_empty(), order.tier) {
        (false, _) => order.model,
        (true, Tier::Strategic) => "opus".to_owned(),
        (true, Tier::Tactical) => "sonnet".to_owned(),
        (true, Tier::Operational) => "mini".to_owned(),
    };
    Program {
        runtime: order.runtime,
        image: order.image,
        model,
        system_prompt: order.system_prompt,
        original,
        tools: order.tools,
        env: order.env.into_keys().collect(),
        metadata: order.metadata,
        limits: order.limits,
        budget: order.budget,
        schedule: order.schedule,
        initial_task: order.initial_task,
        confined: order.confined,
        node: crate::startup::node(),
        ..Program::new(order.role, order.tier)
    }
}

fn effect(world: &World, parent: Pid, name: &str, user: &str, program: &Program, zone: Option<ZoneId>) -> CallEffect<Pid> {
    let pid = world.next_pid();
    let spawned = ProcSpawned {
        pid,
        task: None,
        parent: Some(parent),
        name: name.to_owned(),
        role: program.role.as_str().to_owned(),
        zone,
        user: user.to_owned(),
        program: Some(Box::new(program.clone())),
    };
    // What a program is told at its start, a brain reads with every task.
    let prompt = Some(program.system_prompt.clone()).filter(|prompt| zone.is_some() && !prompt.is_empty());
    let pinned = prompt.map(|prompt| WorkerPinned { pid, task: None, pins: vec![prompt], by: name.to_owned() }.into());
    let events = std::iter::once(Event::from(spawned)).chain(pinned).collect();
    CallEffect { events, output: json!({ "pid": pid.0 }), value: pid }
}
