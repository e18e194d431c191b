//! A person talks with a worker's brain on the brain's own terminal.
//!
//! A talk is a task of the worker: it comes first in its queue, runs the vendor's client as `brain.run` in the task's room, and what it changed
//! waits for its merge. While it lasts the worker does nothing else; afterwards its next task goes on in the same conversation. **Invariant.**
//! A worker has one talk at most, and it ends with whoever talks: detached, hung up or gone, nothing of the client is left running.

use crate::{Added, Kernel, NewTask, call};
use agent::{Leave, TalkArchive, TalkHook, TalkSeat, TalkSession, client_of, last_lines, newest_conversation, run_request, wire_of};
use brain::BrainSpec;
use brain::agent::{AgentBoot, TerminalPlan, checkpoint_of};
use gate::{CallEnd, CallOutcome, Request};
use sandbox::Window;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tool::{JobFollower, Streams, TerminalLine};
use world::event::{BrainRemembered, BrainSaid, BrainTalked};
use world::{Code, Fault, Mode, Pid, Refusal, ReviewId, Stop, Task, UNGATED};

/// Said of a talk whose client's own tools ran without the gate.
const NOT_ASKED: &str = "ungated: its own tools did not ask the policy";

/// A talk that somebody wants.
#[derive(Clone, Debug)]
pub struct NewTalk {
    pub path: PathBuf,
    /// The worker's name; the project's own without it.
    pub worker: Option<String>,
    pub brain: Option<String>,
    pub mode: Mode,
    pub window: Window,
}

/// Why there is no talk.
#[derive(Debug)]
pub enum TalkRefused {
    /// Somebody else talks with the worker.
    Busy(Refusal),
    Stop(Stop),
}

impl<E: Into<Stop>> From<E> for TalkRefused {
    fn from(error: E) -> TalkRefused {
        TalkRefused::Stop(error.into())
    }
}

/// What is to be said of a task in which a client's own tools ran without the gate.
pub(crate) fn ungated(task: &Task) -> Option<&'static str> {
    task.tags.iter().any(|tag| tag == UNGATED).then_some(NOT_ASKED)
}

/// How a talk ended.
pub(crate) enum TalkEnd {
    Over(String),
    /// A person must say whether the client may be started.
    Asked(ReviewId),
}

impl Kernel {
    /// Queues a talk, first of all that its worker has to do. It begins when the worker is free.
    pub async fn talk(&self, new: NewTalk) -> Result<(TalkSeat, Added), TalkRefused> {
        let (zone, worker) = self.worker_at(&new.path, new.worker.as_deref()).await?;
        let (brain, mode) = (self.talking_brain(&new, zone, worker)?, new.mode);
        let task = NewTask {
            path: new.path,
            mode,
            prompt: format!("talk with {brain}"),
            brain: Some(brain),
            priority: i64::MAX,
            calls_max: None,
            record: false,
            tags: Vec::new(),
            budget: None,
            new_worker: false,
            placement: world::TaskPlacement::default(),
            // What its role may use, it may use in a talk.
            shape: crate::TaskShape { role: worker.and_then(|worker| self.role_of(worker)), ..crate::TaskShape::default() },
        };
        // A project that is not there yet gets its worker on the way.
        let worker = match worker {
            Some(worker) => worker,
            None => {
                self.check_brain_first(&task).await?;
                let zone = match zone {
                    Some(zone) => zone,
                    None => self.gate.init(&task.path).await?.zone,
                };
                let found = self.ledger.look(|world| gate::first_worker(world, zone).map(|process| process.pid));
                found.ok_or_else(|| Refusal::new(Code::NotFound, "the repository has no worker"))?
            }
        };
        let session = Arc::new(TalkSession::new(worker, new.window));
        let Some(seat) = self.talks.reserve(&session) else {
            let name = self.ledger.look(|world| ledger::name_of(world, worker));
            let busy = Refusal::new(Code::WrongState, format!("somebody talks with {name} already"));
            return Err(TalkRefused::Busy(busy.hint("watch it, or wait until it is over")));
        };
        let added = self.add_talk(task, &session).await?;
        Ok((seat, added))
    }

    /// The talk that a worker is in, to watch.
    pub async fn talk_of(&self, path: &Path, worker: Option<&str>) -> Result<Arc<TalkSession>, Stop> {
        let (_, pid) = self.worker_at(path, worker).await?;
        pid.and_then(|pid| self.talks.of(pid))
            .ok_or_else(|| Refusal::new(Code::NotFound, "nobody talks with this worker").hint("begin a talk yourself").into())
    }

    /// Takes a talk back that has not begun.
    pub async fn drop_talk(&self, session: &TalkSession, by: &str) {
        if let Some(task) = session.task().filter(|_| !session.has_begun())
            && let Err(stop) = self.cancel(task, by).await
        {
            world::log!("skep: {task} waits for somebody who has gone: {stop}");
        }
    }

    /// The zone at a path and the worker of this address in it; neither where the project is not known yet and nobody was named.
    async fn worker_at(&self, path: &Path, who: Option<&str>) -> Result<(Option<world::ZoneId>, Option<Pid>), Stop> {
        let top = gate::locate(path).await?;
        let zone = self.ledger.look(|world| world.zone_at(&top.to_string_lossy()).map(|zone| zone.id));
        let worker = match who {
            Some(who) => Some(self.find_worker(path, who).await?),
            None => self.ledger.look(|world| gate::first_worker(world, zone?).map(|process| process.pid)),
        };
        Ok((zone, worker))
    }

    fn role_of(&self, worker: Pid) -> Option<String> {
        self.ledger.look(|world| world.processes.get(&worker).map(|process| process.role.clone()))
    }

    /// Whom to talk with: the brain that was asked for, else the one that the worker was enrolled with, else the one that tasks get here,
    /// else the last that the worker had. It must have a terminal.
    fn talking_brain(&self, new: &NewTalk, zone: Option<world::ZoneId>, worker: Option<Pid>) -> Result<String, Stop> {
        let trusted = zone.map(|zone| self.gate.policies.trusted(zone)).transpose()?.flatten();
        let own = trusted.as_ref().map(|trusted| &trusted.config);
        let talks = |name: &str| {
            let spec = self.brains.find(name, own).ok()?;
            wire_of(&spec).ok()?.launch_terminal(&AgentBoot::default())
        };
        let none = |name: &str| {
            let refusal = Refusal::new(Code::Unsupported, format!("`{name}` has no terminal of its own to talk on"));
            Stop::from(refusal.hint("name a vendor's client: claude, codex, opencode or gemini"))
        };
        if let Some(asked) = &new.brain {
            self.brains.find(asked, own)?;
            return talks(asked).map(|_| asked.clone()).ok_or_else(|| none(asked));
        }
        let enrolled = self.ledger.look(|world| world.processes.get(&worker?).and_then(|process| process.brain.clone()));
        let (default, _) = self.brains.choose(zone, None, own);
        let last = self.ledger.look(|world| {
            let own = world.tasks.values().filter(|task| Some(task.pid) == worker && talks(&task.brain).is_some());
            own.max_by_key(|task| task.id).map(|task| task.brain.clone())
        });
        let found = [enrolled, Some(default.clone()), last].into_iter().flatten().find(|name| talks(name).is_some());
        found.ok_or_else(|| none(&default))
    }

    /// Runs a talk to its end. Without a talker, which a restart leaves, only what was written is gone on with.
    pub(crate) async fn hold_talk(&self, task: &Task) -> Result<TalkEnd, Stop> {
        let Some(session) = self.talks.of(task.pid).filter(|session| session.task() == Some(task.id)) else {
            let end = "was interrupted";
            let lost =
                BrainTalked { pid: task.pid, task: Some(task.id), blob: None, bytes: 0, dropped: 0, ungated: true, end: end.to_owned() };
            self.ledger.record(lost).await?;
            return Ok(TalkEnd::Over(summary(task, end, false)));
        };
        let _over = EndOnDrop(&session);
        let spec = BrainSpec::parse(&task.brain).map_err(|unknown| Refusal::new(Code::Unsupported, unknown.to_string()))?;
        let project = self.workspace_of(task.id).await?.project.clone();
        let boot = AgentBoot { hook: Some(agent::hook_command()), ..self.brains.boot_of(task, &spec, &project)? };
        let mut wire = wire_of(&spec)?;
        let (Some(plan), Some(program)) = (wire.launch_terminal(&boot), self.brains.program(&spec)?) else {
            return Err(Refusal::new(Code::Unsupported, format!("`{spec}` has no terminal of its own")).into());
        };
        let TerminalPlan { launch, conversations } = plan;
        let hook = match launch.is_hooked {
            true => {
                let mut wire = wire_of(&spec)?;
                // It knows by this what it works on.
                wire.launch_terminal(&boot);
                Some(Arc::new(TalkHook::new(task.pid, task.id, task.zone, wire)))
            }
            false => None,
        };
        session.set_hook(hook.clone());
        let (line, side) = TerminalLine::new(session.window());
        let follower = JobFollower { streams: Streams::Terminal(line), gone: session.gone() };
        let request = run_request(task, &program, &launch);
        let request = Request { live: Some(Arc::new(follower)), ..request };
        // When the call is over its end of the terminal is closed, and the copying comes to its end.
        let (outcome, ()) = tokio::join!(run_and_close(self, request), session.copy(side));
        session.end();
        if let Some(hook) = &hook {
            hook.close(self).await?;
        }
        let is_gated = hook.as_ref().is_some_and(|hook| hook.is_gated());
        let end = match (outcome?.end, session.left()) {
            (CallEnd::Pending(Refusal { review: Some(review), .. }), _) => return Ok(TalkEnd::Asked(review)),
            (CallEnd::Refused(refusal) | CallEnd::Pending(refusal), _) => return Err(refusal.into()),
            (_, Leave::Detached) => "was left".to_owned(),
            (_, Leave::Lost) => "ended with its connection".to_owned(),
            (CallEnd::Done { value, .. }, Leave::No) => match (value["exit_code"].as_i64(), value["signal"].as_i64()) {
                (Some(0), _) => "ended".to_owned(),
                (Some(code), _) => format!("ended with exit code {code}"),
                (None, signal) => format!("ended by signal {}", signal.unwrap_or_default()),
            },
            (CallEnd::CallerExecutes, Leave::No) => "was never begun".to_owned(),
        };
        self.keep_talk(task, session.archive(), &end, is_gated).await?;
        let written = || conversations.and_then(|folder| newest_conversation(&self.instance.home.work_of(task.id), folder, wire.as_ref()));
        if let Some(series) = hook.and_then(|hook| hook.series()).or_else(written)
            && let Some(checkpoint) = checkpoint_of(&series)
        {
            let blob = self.ledger.keep(&checkpoint.bytes)?;
            self.ledger.record(BrainRemembered { pid: task.pid, task: Some(task.id), blob, anew: checkpoint.replaces_all }).await?;
        }
        Ok(TalkEnd::Over(summary(task, &end, is_gated)))
    }

    /// Records what was drawn: as it came, encrypted, and as a person reads it, without its secrets.
    async fn keep_talk(&self, task: &Task, archive: TalkArchive, end: &str, is_gated: bool) -> Result<(), Fault> {
        let (pid, id) = (task.pid, Some(task.id));
        let TalkArchive { raw, dropped, bytes, text } = archive;
        let text = self.ledger.redactor.text(&text);
        let said = last_lines(&text);
        if !said.is_empty() {
            self.ledger.record(BrainSaid { pid, task: id, text: said }).await?;
        }
        let blob = if raw.is_empty() { None } else { Some(self.ledger.keep(&raw)?) };
        self.ledger.record(BrainTalked { pid, task: id, blob, bytes, dropped, ungated: !is_gated, end: end.to_owned() }).await
    }
}

/// Ends a session also where the work on it is cut off.
struct EndOnDrop<'a>(&'a TalkSession);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Runs the client, and lets go of its streams when that is over.
async fn run_and_close(kernel: &Kernel, request: Request) -> Result<CallOutcome, Fault> {
    let outcome = call::run(kernel, &request).await;
    drop(request);
    outcome
}

fn summary(task: &Task, end: &str, is_gated: bool) -> String {
    let client =
        BrainSpec::parse(&task.brain).ok().and_then(|spec| client_of(&spec).map(str::to_owned)).unwrap_or_else(|| task.brain.clone());
    if is_gated { format!("a talk with {client} {end}") } else { format!("a talk with {client} {end} ({NOT_ASKED})") }
}
