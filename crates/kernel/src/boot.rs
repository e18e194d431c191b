//! From a folder to a running kernel, and back to rest.

use crate::instance::{self, Instance};
use crate::live_settings::slot_limits;
use crate::tools::Tools;
use crate::work::Tasks;
use crate::{Crash, Kernel, Tuning, chores, notify, queue};
use agent::{Brains, LiveClients};
use gate::{Gate, Policies, Templates};
use host::{LiveSettings, RoomSettings, Rooms, SettingsFault};
use journal::{Finding, Journal, Options, Redactor};
use ledger::{BlobCollector, Home, Ledger, Retention, Verifier};
use models::Models;
use room::{OpenWorkspaces, ThrowawayRooms};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use workspace::aside;
use world::budget::{crash, lease};
use world::event::{CallLost, JournalResealed, KernelStarted, KernelStopped, ProcExited, ProcSpawned, TaskFailed};
use world::{Event, Mode, Pid, TaskId, TaskState, World, ZoneId};
use world::{Fault, FaultKind};

/// How long a boot waits for the ends of tasks that the last kernel left in the middle of them.
const CLOSING_MAX: Duration = Duration::from_millis(500);

impl Kernel {
    /// Opens the journal, folds it, settles what a crash left open, and starts the queue.
    pub async fn boot(
        home: Home,
        launcher: sandbox::Launcher,
        options: Options,
        kill_at: Option<(String, u64)>,
    ) -> Result<Arc<Kernel>, Fault> {
        Kernel::boot_tuned(home, launcher, options, kill_at, Tuning::default()).await
    }

    /// The same with a clock, a reach or a share of one's own.
    pub async fn boot_tuned(
        home: Home,
        launcher: sandbox::Launcher,
        options: Options,
        kill_at: Option<(String, u64)>,
        tuning: Tuning,
    ) -> Result<Arc<Kernel>, Fault> {
        let home = Arc::new(home);
        let live = Arc::new(LiveSettings::read(&home.path)?);
        let settings = live.in_force();
        let templates = Templates::of_operator(&settings.sandbox).map_err(SettingsFault::in_config)?;
        let rooms = RoomSettings::read(&settings, &home.path, &tuning.variables).map_err(SettingsFault::in_config)?;
        let options = Options { names: ledger::blob_names, ..options };
        let (journal, mut opened) = Journal::open(&home.path, options).map_err(ledger::fault)?;
        let (ledger, broken) = Ledger::open(home.clone(), journal, opened.snapshot.take(), Arc::new(Redactor::new()))?;
        let ledger = Arc::new(ledger);
        let launcher = Arc::new(launcher);
        let policies = Policies::new(ledger.clone(), launcher.clone(), &home.path, templates, settings.runtime);
        let (registry, user) = (Arc::new(tools(&home)), instance::user_name());
        let gate = Arc::new(Gate::new(policies, registry.clone(), tuning.clock.clone(), user.clone(), tuning.task_blob_bytes_max));
        let (models, sent) = Models::open(gate.clone(), &home.path, &settings.models())?;
        let findings: Vec<Finding> = opened.findings.into_iter().chain(broken).collect();
        for (_, secret) in &rooms.host_services.secrets {
            ledger.redactor.register(&secret.value);
        }
        let rooms = Arc::new(Rooms::new(launcher, &home.path, rooms));
        let workspaces = Arc::new(OpenWorkspaces::new(ledger.clone()));
        let tasks = Tasks::new(ledger.clone(), tuning.hold.clone());
        let kernel = Arc::new_cyclic(|me| Kernel {
            me: me.clone(),
            blobs: BlobCollector::new(
                ledger.clone(),
                Retention {
                    grace: Duration::from_millis(tuning.blob_grace_ms),
                    time: Duration::from_millis(tuning.retention_ms),
                    bytes_max: tuning.blob_bytes_max,
                },
            ),
            tools: Tools::new(registry, tuning.reach.clone(), tuning.clock.clone()),
            clients: Arc::new(LiveClients::new(gate.clone(), rooms.clone(), workspaces.clone(), live.clone(), home.work())),
            throwaways: ThrowawayRooms::new(gate.clone(), rooms.clone(), &home.path, tasks.works.clone()),
            tree: tree::Tree::new(gate.clone(), models.clone(), rooms.clone(), &home.path, &tuning.variables),
            rooms,
            workspaces,
            brains: Brains::new(gate.clone(), models.clone(), live.clone(), tuning.variables.clone()),
            models,
            tasks,
            increments: parking_lot::Mutex::default(),
            slots: Arc::new(session::RoomSlots::new(slot_limits(&settings.sessions))),
            talks: Arc::default(),
            watchers: Arc::default(),
            verifier: Verifier::default(),
            instance: Instance::new(home, user, tuning, live, kill_at),
            gate,
            ledger,
        });
        let user = kernel.instance.user.clone();
        let unsealed = opened.unsealed;
        *kernel.instance.crash.lock() = kernel.ledger.look(Crash::of);
        let lost = kernel
            .ledger
            .commit(|world, _| (opening(world, &user, unsealed, &findings, &sent), world.calls.keys().copied().collect::<Vec<_>>()))?
            .durable()
            .await?;
        kernel.models.begin()?;
        for call in lost {
            kernel.ledger.delete_original(call)?;
        }
        kernel.ledger.forget_questions(None)?;
        kernel.ledger.forget_ended_originals()?;
        kernel.verifier.begin(&kernel.ledger, sandbox::yield_to_all);
        kernel.sweep().await?;
        kernel.compare_left().await?;
        let left = kernel.ledger.look(interrupted_calls);
        tokio::spawn(crate::merge::finish_undone(kernel.clone()));
        tokio::spawn(kernel.clone().offer_left(left));
        // Mostly a matter of milliseconds; what takes longer goes on while the kernel works.
        drop(tokio::time::timeout(CLOSING_MAX, tokio::spawn(kernel.clone().close_left())).await);
        tokio::spawn(queue::run(kernel.clone()));
        tokio::spawn(notify::run(kernel.clone()));
        tokio::spawn(sweep_containers(kernel.clone()));
        chores::begin(&kernel);
        kernel.tree.set_brains(crate::brain_host::KernelBrains::of(&kernel));
        kernel.tree.begin(kernel.instance.tuning.startup.clone()).await?;
        Ok(kernel)
    }

    /// Comes to rest: no episode runs on, the world is saved, the journal closed. Unfinished tasks resume at the next boot.
    pub async fn stop(&self, reason: &str) -> Result<(), Fault> {
        self.instance.begin_stop();
        // Before their brains are gone, so that they are settled as stopped.
        let settled = self.models.stop();
        self.tasks.abort_all();
        self.verifier.stop().await;
        settled.await;
        self.clients.end_all().await;
        self.tree.stop().await;
        self.workspaces.close_all();
        self.rooms.close_engines().await;
        self.gate.policies.close();
        // The queue wakes once more, sees that it is over, and lets go of the kernel.
        self.tasks.wake();
        let stopped = KernelStopped { pid: Pid::KERNEL, task: None, reason: reason.to_owned() };
        let owed = self.ledger.owed_counts();
        let pending = self.ledger.commit(|world, _| {
            let mut events = lease::returned(world);
            events.extend(owed);
            events.push(stopped.into());
            (events, ())
        })?;
        // INVARIANT: nothing of this kernel follows; a row after a sealed stop is somebody else's.
        self.ledger.close();
        pending.durable().await?;
        // Last, so that whoever was stopped hears why.
        self.models.close();
        self.ledger.snapshot()
    }

    /// Removes what an earlier kernel left, but the workspaces of unfinished tasks, and of those that ended without their end being
    /// finished: what they wrote is kept first, by `Kernel::close_left`.
    async fn sweep(&self) -> Result<(), Fault> {
        let open = |world: &World| world.tasks.values().filter(|task| task.workspace.is_some()).map(|task| task.id).collect();
        let open: Vec<TaskId> = self.ledger.look(open);
        let keep: Vec<std::path::PathBuf> = open.iter().map(|task| self.instance.home.work_of(*task)).collect();
        let work = self.instance.home.work();
        let list = || std::fs::read_dir(&work).and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
        let entries: Result<Vec<_>, std::io::Error> = aside(list);
        let found = entries.map_err(|error| Fault::io("list", &work, error))?;
        let swept = tokio::task::spawn_blocking(move || sandbox::sweep(&found, |path| keep.iter().any(|kept| kept == path))).await;
        let swept = swept.map_err(|error| Fault::new(FaultKind::Bug, "the sweep failed", error))?;
        for (path, why) in swept.left {
            world::log!("skep: left behind `{}`: {why}", path.display());
        }
        let zones: BTreeSet<ZoneId> = self.ledger.look(|world| world.zones.keys().copied().collect());
        if let Err(error) = aside(|| self.rooms.find_builds(|zone| zones.contains(&zone))) {
            world::log!("skep: what tests built before is not used: {error}");
        }
        Ok(())
    }
}

async fn sweep_containers(kernel: Arc<Kernel>) {
    kernel.rooms.sweep_containers(|| kernel.instance.stopping()).await;
}

/// The operator's own calls that the last kernel left in the middle, with what they wrote.
fn interrupted_calls(world: &World) -> Vec<TaskId> {
    world.tasks.values().filter(|task| task.mode == Mode::Call && task.state == TaskState::Running).map(|task| task.id).collect()
}

/// The first records of this boot.
fn opening(world: &World, user: &str, unsealed: u64, findings: &[Finding], left: &crash::Left) -> Vec<Event> {
    let (pid, task) = (Pid::KERNEL, None);
    let mut events: Vec<Event> = Vec::new();
    if world.processes.is_empty() {
        let spawned = |pid, parent, name: &str| ProcSpawned {
            pid,
            task: None,
            parent,
            name: name.into(),
            role: name.into(),
            zone: None,
            user: user.into(),
            program: None,
        };
        events.push(spawned(Pid::KERNEL, None, "kernel").into());
        events.push(spawned(Pid::OPERATOR, Some(Pid::KERNEL), "operator").into());
    }
    events.push(KernelStarted { pid, task, version: env!("CARGO_PKG_VERSION").into(), boot: ledger::boot_id() }.into());
    events.extend(ledger::doubts(world, findings, 0));
    if unsealed > 0 {
        events.push(JournalResealed { pid, task, unsealed }.into());
    }
    events.extend(crash::settle(world, left));
    for (call, open) in &world.calls {
        let ended = if world.is_running { "the kernel ended without notice" } else { "the kernel was stopped" };
        let why = format!("{ended} before its outcome was known");
        events.push(CallLost { pid: open.pid, task: open.task, call: *call, tool: open.tool.clone(), why }.into());
    }
    for process in
        world.processes.values().filter(|process| [models::CLIENT, gate::JOB].contains(&process.role.as_str()) && process.state.alive())
    {
        let reason = "the kernel that served it ended".to_owned();
        events.push(ProcExited { pid: process.pid, task: None, killed: true, reason, exit: None }.into());
    }
    // What the others wrote is kept and offered: `Kernel::offer_left`.
    let empty = |task: &world::Task| task.merge.is_none() && task.workspace.is_none();
    let own = world.tasks.values().filter(|task| task.mode == Mode::Call && task.state == TaskState::Running);
    for task in own.filter(|task| task.discard || empty(task)) {
        let dropped = if task.discard { "; its changes are dropped, as asked" } else { "" };
        let reason = format!("the kernel ended during the call{dropped}");
        events.push(TaskFailed { pid: task.pid, task: Some(task.id), reason, result: None }.into());
    }
    events
}

/// The built-in tools, and those the operator put into `$SKEP_HOME/tools`.
fn tools(home: &Home) -> tool::Registry {
    let mut tools = tool::Registry::builtin();
    let folder = home.path.join("tools");
    if folder.is_dir() {
        tools.load(&folder);
        for error in tools.left_out() {
            world::log!("skep: a tool was left out: {error}");
        }
    }
    tools
}
