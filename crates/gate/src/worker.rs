//! The workers of a zone: who is there, whom a task is for, and who is taken on.

use crate::{CLIENT, JOB, Parsed};
use world::event::{ProcSpawned, WorkerEnrolled};
use world::{Code, Event, Missing, Pid, Process, ProcessState, Refusal, RefusalKind, TaskState, World, ZoneId};

/// The role of the processes that work on tasks, as policies name it.
pub const WORKER_ROLE: &str = "foreman";
/// The role of a process that does one session.
pub const SESSION_ROLE: &str = "session";
/// What they are called by. In homes of earlier versions there are some that are called by their role.
pub const WORKER_NAME: &str = "worker";
/// What people may call the role of whoever does what nobody else is named for.
pub(crate) const HERO: &str = "hero";
/// Who is no worker.
const NO_ROLES: [&str; 5] = ["kernel", "operator", JOB, CLIENT, SESSION_ROLE];

/// The role as people read it.
pub fn shown_role(role: &str) -> &str {
    if role == WORKER_ROLE { WORKER_NAME } else { role }
}

/// Does it work on tasks, whatever its role is called?
pub(crate) fn works_on_tasks(process: &Process) -> bool {
    process.zone.is_some() && process.parent == Some(Pid::KERNEL) && !NO_ROLES.contains(&process.role.as_str())
}

/// Does it work on tasks of this zone?
pub fn is_worker(process: &Process, zone: ZoneId) -> bool {
    process.zone == Some(zone) && process.state.alive() && works_on_tasks(process)
}

fn workers(world: &World, zone: ZoneId) -> impl Iterator<Item = &Process> {
    world.processes.values().filter(move |process| is_worker(process, zone))
}

/// The process that does a zone's work.
pub fn first_worker(world: &World, zone: ZoneId) -> Option<&Process> {
    workers(world, zone).next()
}

/// The number in a worker's name.
fn index(process: &Process) -> Option<u32> {
    process.name.rsplit_once('.')?.1.parse().ok()
}

/// What names of brains stand for in a project: the name, and the brain; of none, those that the project has.
pub type BrainNames = dyn Fn(Option<&str>) -> (String, String) + Send + Sync;

/// Whom a task is for.
#[derive(Clone, Debug)]
pub struct WorkerWish {
    /// As policies name it.
    role: String,
    index: Option<u32>,
    /// The brain that was asked for, by its name; `None` is the project's own.
    brain: Option<String>,
    /// Nobody who is there will do.
    is_new: bool,
    workers_max: usize,
}

/// The worker that does it.
#[derive(Clone, Debug)]
pub struct FoundWorker {
    pub pid: Pid,
    /// The records by which it was taken on.
    pub enrolled: Vec<Event>,
}

impl WorkerWish {
    /// Reads an address for a project: its role must be one that the project has.
    pub fn new(address: &world::WorkerAddress, project: &Parsed) -> Result<WorkerWish, Refusal> {
        let role = match address.role.as_deref() {
            None => WORKER_ROLE,
            // Whatever role the project's own worker has, it is called `worker.1`.
            Some(role) if project.is_hero(role) => WORKER_ROLE,
            Some(role) if project.role_names().contains(&role) => role,
            Some(role) => {
                let mut known = project.role_names();
                known.push(WORKER_NAME);
                known.sort_unstable();
                return Err(Refusal::missing(Missing::Worker, format!("there is no role `{role}`")).hint(format!(
                    "roles: {}; {}/{role}.md would be one more",
                    known.join(", "),
                    crate::ROLES_FOLDER
                )));
            }
        };
        let (role, index, brain, is_new) = (role.to_owned(), address.index, address.brain.clone(), address.is_new);
        Ok(WorkerWish { role, index, brain, is_new, workers_max: project.config.workers_max() })
    }

    /// A worker who is there and is meant; `None` where one has to be taken on. `brain` says what names stand for.
    pub fn find<'a>(&self, world: &'a World, zone: ZoneId, brain: &BrainNames) -> Result<Option<&'a Process>, Refusal> {
        let mut of_role = workers(world, zone).filter(|process| process.role == self.role);
        let shown = shown_role(&self.role);
        if let Some(wanted) = self.index {
            let Some(found) = of_role.find(|process| index(process) == Some(wanted)) else {
                let known: Vec<&str> = workers(world, zone).map(|process| process.name.as_str()).collect();
                return Err(Refusal::missing(Missing::Worker, format!("there is no worker `{shown}.{wanted}` here"))
                    .hint(format!("there are {}; a role without a number finds or enrols one", known.join(", "))));
            };
            let ((name, has), asked) = (brain(found.brain.as_deref()), self.brain.as_deref().map(|asked| (asked, brain(Some(asked)).1)));
            return match asked {
                Some((asked, wanted)) if wanted != has => {
                    let reason = format!("{} is on {}, not {}", found.name, short_brain(&name), short_brain(asked));
                    Err(Refusal::new(Code::WrongState, reason)
                        .hint(format!("leave out the brain, or enrol another worker with `{shown}@{asked}`")))
                }
                _ => Ok(Some(found)),
            };
        }
        if self.is_new {
            return Ok(None);
        }
        Ok(self.suitable(world, zone, brain).next())
    }

    /// Workers of its role and its brain, in the order in which they came.
    fn suitable<'a>(&self, world: &'a World, zone: ZoneId, brain: &BrainNames) -> impl Iterator<Item = &'a Process> {
        let (_, wanted) = brain(self.brain.as_deref());
        workers(world, zone).filter(move |process| process.role == self.role && brain(process.brain.as_deref()).1 == wanted)
    }

    /// The worker who is meant, taken on where that is needed and there is room.
    pub fn find_or_enrol(&self, world: &World, zone: ZoneId, user: &str, brain: &BrainNames) -> Result<FoundWorker, Refusal> {
        if let Some(found) = self.find(world, zone, brain)? {
            // Of several of a role, one that has nothing to do; the project's own worker is the first.
            let is_any = self.index.is_none() && self.role != WORKER_ROLE;
            let free = if is_any { self.suitable(world, zone, brain).find(|process| is_free(world, process)) } else { None };
            return Ok(FoundWorker { pid: free.unwrap_or(found).pid, enrolled: Vec::new() });
        }
        let count = workers(world, zone).count();
        if count >= self.workers_max {
            let what = format!("this repository has {count} workers, and may have no more");
            return Err(Refusal::new(Code::Exhausted, what)
                .kind(RefusalKind::WorkersMax)
                .hint("name one of them, or raise `limits: {workers: N}` in skep.yml and trust it")
                .remedy(world::Remedy::List { what: world::Listing::Processes }));
        }
        // A number that somebody had is not given again: records name workers by it.
        let past = world.processes.values().filter(|process| process.zone == Some(zone) && process.role == self.role);
        let next = past.filter_map(index).max().unwrap_or(0) + 1;
        let (pid, name) = (world.next_pid(), format!("{}.{next}", shown_role(&self.role)));
        let mut enrolled: Vec<Event> = vec![spawned(pid, name, &self.role, zone, user).into()];
        if let Some(brain) = &self.brain {
            enrolled.push(WorkerEnrolled { pid, task: None, brain: brain.clone(), by: "operator".into() }.into());
        }
        Ok(FoundWorker { pid, enrolled })
    }
}

/// A brain's name in a sentence: the file of a script says nothing there.
fn short_brain(name: &str) -> &str {
    if name.starts_with("script:") { "script" } else { name }
}

fn spawned(pid: Pid, name: String, role: &str, zone: ZoneId, user: &str) -> ProcSpawned {
    let (parent, role, user) = (Some(Pid::KERNEL), role.to_owned(), user.to_owned());
    ProcSpawned { pid, task: None, parent, name, role, zone: Some(zone), user, program: None }
}

/// Does it take things up, and has nothing to do?
fn is_free(world: &World, process: &Process) -> bool {
    let is_open = |state| matches!(state, TaskState::Queued | TaskState::Running);
    let has_work = || world.tasks.values().any(|task| task.pid == process.pid && is_open(task.state));
    process.state != ProcessState::Paused && !process.queue_paused && !has_work()
}

/// A worker for one more task: one of a zone that has nothing to do, or a new one, if there are fewer than `max`.
pub fn free_worker(world: &World, zone: ZoneId, max: usize, user: &str) -> Result<(Pid, Option<ProcSpawned>), Refusal> {
    let all: Vec<&Process> = workers(world, zone).collect();
    let may_take = |process: &&&Process| process.role == WORKER_ROLE && process.brain.is_none();
    if let Some(free) = all.iter().filter(may_take).find(|process| is_free(world, process)) {
        return Ok((free.pid, None));
    }
    if all.len() >= max {
        let what = format!("{} workers are busy in this repository, and it has no more", all.len());
        return Err(Refusal::new(Code::Exhausted, what)
            .kind(RefusalKind::WorkersMax)
            .hint("wait for one of them, or raise `limits: {workers: N}` in skep.yml and trust it")
            .remedy(world::Remedy::QueueBehind));
    }
    let is_taken = |name: &str| all.iter().any(|process| process.name == name);
    let name = (1..=max).map(|nth| format!("{WORKER_NAME}.{nth}")).find(|name| !is_taken(name)).unwrap_or_else(|| WORKER_NAME.to_owned());
    let pid = world.next_pid();
    Ok((pid, Some(spawned(pid, name, WORKER_ROLE, zone, user))))
}
