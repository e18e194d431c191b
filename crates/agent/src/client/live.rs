//! Clients that have nothing to do and stay for their worker's next task.
//!
//! A client keeps its mount. So it serves the next task only if every path in its layer equals the project then, and what it was started
//! with is what that task would start it with. **Invariant.** A client that waits is held still, belongs to one worker, and is in this list
//! and nowhere else; its room belongs to its last task as long as that has a workspace, then to this list, then to the task that takes it.

use super::notes;
use crate::{AgentProgram, BRAIN_RUN, TaskHook};
use brain::agent::{AgentBoot, HookQuestion, IdleAgent, LaunchPlan};
use gate::{Gate, Request};
use host::{LiveSettings, RoomSettings, Rooms};
use ledger::Ledger;
use parking_lot::Mutex;
use room::{OpenWorkspace, OpenWorkspaces};
use sandbox::{Bind, HostShare, Template};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use tool::KeptJob;
use workspace::{MaskSet, aside};
use world::limits::CLIENTS_IDLE_MAX;
use world::{Pid, Stop, Task, TaskId};

/// Paths that a reason names; the others are counted.
const NAMED_MAX: usize = 3;
/// The part of the machine's memory that must be free for clients to wait.
const MEMORY_FREE_PART: u64 = 10;
/// How long a clean stop waits for the rooms of clients, all together. It may take ten seconds, and agents need five of them.
const END_MAX: Duration = Duration::from_secs(4);

/// The clients that wait, one for each worker at most.
pub struct LiveClients {
    pub(super) gate: Arc<Gate>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) rooms: Arc<Rooms>,
    pub(super) workspaces: Arc<OpenWorkspaces>,
    pub(super) settings: Arc<LiveSettings>,
    /// Where the folders of rooms are.
    work: PathBuf,
    waiting: Mutex<HashMap<Pid, LiveClient>>,
    /// Why a worker's last client did not stay, until the next one is booted.
    reasons: Mutex<HashMap<Pid, String>>,
    /// Where hooks of tasks' clients are answered, for those that have any. The last of a task counts.
    hooks: Mutex<HashMap<TaskId, Arc<TaskHook>>>,
    /// Counts folders of rooms that wait, so that each has its own.
    folders: AtomicU64,
}

/// A client that waits.
pub(super) struct LiveClient {
    /// The task that it worked on last, or that has taken it.
    pub task: TaskId,
    pub terms: ClientTerms,
    pub series: Option<String>,
    pub job: Arc<KeptJob>,
    pub agent: IdleAgent,
    /// Its room, once that is no task's.
    room: Option<OpenWorkspace>,
    since: Instant,
}

impl LiveClient {
    pub fn new(task: TaskId, terms: ClientTerms, series: Option<&str>, job: Arc<KeptJob>, agent: IdleAgent) -> LiveClient {
        LiveClient { task, terms, series: series.map(str::to_owned), job, agent, room: None, since: Instant::now() }
    }

    /// How it ended while it waited, in words; `None` where it still waits.
    pub fn gone(&self) -> Option<String> {
        let how = self.job.exit().unwrap_or("nobody knows how");
        self.job.is_over().then(|| format!("it had ended while it waited ({how})"))
    }
}

/// What a client was started with. Another task may have it only on the same terms.
#[derive(Clone)]
pub(super) struct ClientTerms {
    pub brain: String,
    /// Without the conversation, and without what each turn says anew.
    pub boot: AgentBoot,
    pub plan: LaunchPlan,
    pub program: AgentProgram,
    pub template: Template,
    pub settings: Arc<RoomSettings>,
}

impl ClientTerms {
    /// What differs, in words.
    pub fn difference(&self, other: &ClientTerms) -> Option<&'static str> {
        match () {
            () if self.brain != other.brain => Some("another brain was asked for"),
            () if self.program != other.program => Some("its program is another one now"),
            () if self.template != other.template => Some("the policy gives it another sandbox now"),
            () if !Arc::ptr_eq(&self.settings, &other.settings) => Some("the settings of sandboxes changed"),
            () if self.boot != other.boot || self.plan != other.plan => Some("it would be started in another way now"),
            () => None,
        }
    }
}

/// What the room of a task is to be like.
pub struct RoomTerms<'a> {
    pub found: &'a MaskSet,
    pub shares: &'a [HostShare],
    pub binds: &'a [Bind],
}

impl LiveClients {
    /// `work` is where the folders of rooms are.
    pub fn new(
        gate: Arc<Gate>,
        rooms: Arc<Rooms>,
        workspaces: Arc<OpenWorkspaces>,
        settings: Arc<LiveSettings>,
        work: PathBuf,
    ) -> LiveClients {
        LiveClients {
            ledger: gate.ledger.clone(),
            gate,
            rooms,
            workspaces,
            settings,
            work,
            waiting: Mutex::default(),
            reasons: Mutex::default(),
            hooks: Mutex::default(),
            folders: AtomicU64::new(0),
        }
    }

    pub(super) fn insert(&self, pid: Pid, client: LiveClient) {
        self.waiting.lock().insert(pid, client);
    }

    pub(super) fn take(&self, pid: Pid) -> Option<LiveClient> {
        self.waiting.lock().remove(&pid)
    }

    /// Where the brain of a task hears of its client's hooks.
    pub(super) fn open_hook(&self, task: TaskId) -> UnboundedReceiver<HookQuestion> {
        let (hook, heard) = TaskHook::new();
        let mut hooks = self.hooks.lock();
        hooks.retain(|_, hook| hook.is_heard());
        hooks.insert(task, Arc::new(hook));
        heard
    }

    /// Who answers the hooks of the client that a call runs.
    pub fn hook_of(&self, request: &Request) -> Option<Arc<TaskHook>> {
        let task = request.task.filter(|_| request.tool == BRAIN_RUN && request.live.is_some())?;
        self.hooks.lock().get(&task).filter(|hook| hook.is_heard()).cloned()
    }

    /// Says why the worker's client does not stay.
    pub(super) fn note(&self, pid: Pid, why: impl Into<String>) {
        self.reasons.lock().insert(pid, why.into());
    }

    /// Why a client must be booted.
    pub(super) fn reason(&self, pid: Pid) -> String {
        self.reasons.lock().remove(&pid).unwrap_or_else(|| "no client of this worker was running".to_owned())
    }

    /// Whether the client that a task had waits in the task's room.
    fn waits_in(&self, pid: Pid, task: TaskId) -> bool {
        self.waiting.lock().get(&pid).is_some_and(|client| client.task == task && client.room.is_none() && !client.job.is_over())
    }

    /// Those that have waited too long, or are too many, or for which there is no memory; and those that did not wait.
    fn due(&self, idle: Duration) -> Vec<(Pid, LiveClient)> {
        let mut waiting = self.waiting.lock();
        let mut by_age: Vec<(Instant, Pid)> = waiting.iter().map(|(pid, client)| (client.since, *pid)).collect();
        by_age.sort();
        let excess = by_age.len().saturating_sub(CLIENTS_IDLE_MAX).max(usize::from(memory_is_short()));
        let is_due = |at: usize, pid: &Pid| {
            waiting.get(pid).is_some_and(|client| at < excess || client.since.elapsed() >= idle || client.job.is_over())
        };
        let due: Vec<Pid> = by_age.iter().enumerate().filter(|(at, (_, pid))| is_due(*at, pid)).map(|(_, (_, pid))| *pid).collect();
        due.into_iter().filter_map(|pid| Some((pid, waiting.remove(&pid)?))).collect()
    }
}

/// Whether the machine has little memory left.
fn memory_is_short() -> bool {
    let Ok(text) = std::fs::read_to_string("/proc/meminfo") else { return false };
    let figure = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse::<u64>().ok());
    matches!((figure("MemTotal:"), figure("MemAvailable:")), (Some(all), Some(free)) if free < all / MEMORY_FREE_PART)
}

impl LiveClients {
    /// How long a client that has nothing to do stays.
    pub fn idle_time(&self) -> Duration {
        self.settings.in_force().brain_idle_time()
    }

    /// Ends clients that have waited long enough.
    pub async fn end_idle(&self) {
        for (pid, client) in self.due(self.idle_time()) {
            let why = client.gone().unwrap_or_else(|| "it had nothing to do for too long, or there was no memory for it".to_owned());
            self.end(pid, client, why).await;
        }
    }

    /// Ends every client that waits.
    pub async fn end_all(&self) {
        let waiting: Vec<(Pid, LiveClient)> = self.waiting.lock().drain().collect();
        let until = tokio::time::Instant::now() + END_MAX;
        waiting.iter().for_each(|(_, client)| client.job.kill());
        for (pid, client) in waiting {
            // What is left behind then, the next start removes.
            drop(tokio::time::timeout_at(until, self.end(pid, client, "the kernel stopped")).await);
        }
    }

    /// Ends a client that waits, with its room if that is nobody's else.
    pub(super) async fn end(&self, pid: Pid, client: LiveClient, why: impl Into<String>) {
        self.note(pid, why);
        let LiveClient { job, agent, room, .. } = client;
        job.kill();
        drop((agent, job));
        let Some(OpenWorkspace { room, work, .. }) = room else { return };
        self.rooms.release_layers(pid);
        if let Err(error) = room.close().await {
            world::log!("skep: the sandbox of a client of {pid} was not closed: {error}");
        }
        let removed = aside(|| {
            sandbox::release(&work);
            sandbox::remove(&work)
        });
        if let Err(error) = removed {
            world::log!("skep: the sandbox of a client of {pid} is left behind: {error}");
        }
    }

    /// Keeps the room of a task that ended, with the client that waits in it, if the next task could have both. Gives the room back where
    /// not. What was written beside the project is kept as always.
    pub async fn keep_room(&self, pid: Pid, task: TaskId, opened: OpenWorkspace) -> Option<OpenWorkspace> {
        if !self.waits_in(pid, task) {
            return Some(opened);
        }
        let why = match opened.is_native() {
            true => difference(&opened).await,
            false => Some("containers do not wait".to_owned()),
        };
        if let Some(why) = why {
            if let Some(client) = self.take(pid) {
                self.end(pid, client, why).await;
            }
            return Some(opened);
        }
        let number = self.folders.fetch_add(1, Ordering::Relaxed);
        let folder = self.work.join(format!("idle-{number}"));
        if let Some(zone) = self.ledger.look(|world| world.tasks.get(&task).map(|task| task.zone)) {
            self.rooms.keep_layers(zone, pid, &opened.work);
            self.rooms.hold_layers(zone, pid);
        }
        if let Err(error) = aside(|| std::fs::rename(&opened.work, &folder)) {
            world::log!("skep: the sandbox of {task} does not stay: {error}");
            return Some(opened);
        }
        if let Some(client) = self.waiting.lock().get_mut(&pid).filter(|client| client.task == task) {
            (client.room, client.since) = (Some(opened.moved(folder)), Instant::now());
            return None;
        }
        // The client went meanwhile, and whoever closes the task removes its room where it was.
        self.rooms.release_layers(pid);
        if let Err(error) = aside(|| std::fs::rename(&folder, &opened.work)) {
            world::log!("skep: the sandbox of {task} is left behind: {error}");
        }
        Some(opened)
    }

    /// Lets go of a client whose room is closed with its task.
    pub async fn forget(&self, pid: Pid, task: TaskId) {
        let is_left = |client: &LiveClient| client.task == task && client.room.is_none();
        let left = {
            let mut waiting = self.waiting.lock();
            if waiting.get(&pid).is_some_and(is_left) { waiting.remove(&pid) } else { None }
        };
        if let Some(client) = left {
            let why = self.reasons.lock().get(&pid).cloned();
            self.end(pid, client, why.unwrap_or_else(|| format!("the sandbox of {task} was closed"))).await;
        }
    }

    /// The room of the worker's client that waits, for a task that begins, in the task's own folder; the client is that task's then. Where
    /// the task cannot have it, it ends, and the reason is kept.
    pub async fn take_room(&self, task: &Task, work: &Path, wanted: RoomTerms<'_>) -> Result<Option<OpenWorkspace>, Stop> {
        let Some(mut client) = self.take(task.pid) else { return Ok(None) };
        let Some(opened) = client.room.take() else {
            let why = format!("{} is not over: its client has changes that are not in the project", client.task);
            self.end(task.pid, client, why).await;
            return Ok(None);
        };
        let why = match client.gone().or_else(|| refusal(&client, &opened, task, &wanted).map(str::to_owned)) {
            Some(why) => Some(why),
            None => difference(&opened).await,
        };
        if let Some(why) = why {
            client.room = Some(opened);
            self.end(task.pid, client, why).await;
            return Ok(None);
        }
        let moved = aside(|| std::fs::remove_dir_all(work).and_then(|()| std::fs::rename(&opened.work, work)));
        if let Err(error) = moved {
            client.room = Some(opened);
            self.end(task.pid, client, format!("its sandbox cannot be moved: {error}")).await;
            aside(|| std::fs::create_dir_all(work)).map_err(|error| world::Fault::io("make", work, error))?;
            return Ok(None);
        }
        self.rooms.release_layers(task.pid);
        self.reasons.lock().insert(task.pid, format!("it had worked on {}", client.task));
        client.task = task.id;
        self.insert(task.pid, client);
        Ok(Some(opened.moved(work.to_owned())))
    }
}

/// Why a task cannot have a client that waits, by what both are like.
fn refusal(client: &LiveClient, opened: &OpenWorkspace, task: &Task, wanted: &RoomTerms<'_>) -> Option<&'static str> {
    match () {
        () if crate::is_talk(task) => Some("a person talks with the brain on its own terminal"),
        () if task.replays.is_some() || task.kept.is_some() => Some("the task goes on with work that is kept"),
        () if client.terms.brain != task.brain => Some("another brain was asked for"),
        () if !opened.is_masked_as(wanted.found) => Some("other files must be masked"),
        () if opened.shares != wanted.shares => Some("its sandbox would show other files of the machine"),
        () if !same_binds(&opened.binds, wanted.binds) => Some("the repository's own settings changed"),
        () => None,
    }
}

/// Why a room is not like new: paths in its layer that are not as the project has them.
async fn difference(opened: &OpenWorkspace) -> Option<String> {
    let found = match opened.room.changes().await {
        Ok(found) => found,
        Err(error) => return Some(format!("its layer cannot be read: {error}")),
    };
    let refused = found.refused.iter().map(|no| &*no.path);
    let mut paths: Vec<&Path> = found.changes.iter().map(|change| &*change.path).chain(refused).collect();
    if paths.is_empty() {
        return None;
    }
    // What git ignores is never merged and stays with the worker: build output is no difference.
    let ignored = notes::ignored(opened, &paths.iter().filter_map(|path| path.to_str()).collect::<Vec<_>>()).await;
    paths.retain(|path| path.to_str().is_none_or(|path| !ignored.contains(path)));
    if paths.is_empty() {
        return None;
    }
    let named: Vec<String> = paths.iter().take(NAMED_MAX).map(|path| format!("`{}`", path.display())).collect();
    let more = paths.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("its layer is not as the project: {}{more}", named.join(", ")))
}

/// Whether two rooms are shown the same beside the project. A copy that was made for a room counts by its content.
fn same_binds(one: &[Bind], other: &[Bind]) -> bool {
    let is_same = |one: &PathBuf, other: &PathBuf| {
        one == other || matches!((std::fs::read(one), std::fs::read(other)), (Ok(one), Ok(other)) if one == other)
    };
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            (one.writable, &one.target) == (other.writable, &other.target) && aside(|| is_same(&one.source, &other.source))
        })
}
