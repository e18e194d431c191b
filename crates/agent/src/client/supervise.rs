//! Starts a task's client in the task's room, or has one go on that waited there; and lets it wait for the next task.

use super::live::{ClientTerms, LiveClient};
use super::{LiveClients, notes};
use crate::{AgentProgram, BRAIN_RUN, CallDoor, ClientTranscript, exit_of, run_request};
use brain::BrainFault;
use brain::agent::{AgentBoot, AgentExit, AgentLauncher, AgentStreams, AttachedAgent, IdleAgent, KeptState, LaunchPlan};
use gate::{CallOutcome, Request};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tool::{JobFollower, KeptJob, Streams};
use world::event::BrainServed;
use world::{Fault, Stop, Task};

/// A client that has read the end of its input goes by itself; then it is ended.
const LEAVE_MAX: Duration = Duration::from_secs(2);

type Exit = Pin<Box<dyn Future<Output = AgentExit> + Send>>;

/// A task's client.
pub(super) struct RoomAgent {
    door: Arc<dyn CallDoor>,
    clients: Arc<LiveClients>,
    task: Task,
    program: AgentProgram,
    transcript: Option<ClientTranscript>,
    /// What a client of this task is started with.
    terms: Option<ClientTerms>,
    job: Option<Arc<KeptJob>>,
}

/// A call that runs a client.
struct RunningClient {
    call: JoinHandle<Result<CallOutcome, Fault>>,
    /// Ends the client when it is told.
    leave: watch::Sender<bool>,
}

impl RoomAgent {
    pub fn new(door: Arc<dyn CallDoor>, clients: Arc<LiveClients>, task: Task, program: AgentProgram) -> RoomAgent {
        RoomAgent { door, clients, task, program, transcript: None, terms: None, job: None }
    }

    /// What a client is started with for this task.
    fn terms(&self, boot: &AgentBoot, plan: &LaunchPlan) -> Result<ClientTerms, Stop> {
        let request = run_request(&self.task, &self.program, plan);
        let trusted = self.clients.gate.policies.in_force(self.task.zone)?;
        let tool = self.clients.gate.tool(BRAIN_RUN)?;
        Ok(ClientTerms {
            brain: self.task.brain.clone(),
            boot: AgentBoot { series: None, may_change: true, ..boot.clone() },
            plan: plan.clone(),
            program: self.program.clone(),
            template: self.clients.gate.policies.template_of(&trusted, &request, tool)?,
            settings: self.clients.rooms.settings(),
        })
    }

    /// Has the room show the project as it is now: it may be open since long before this turn.
    async fn refresh(&self) {
        if let Some(opened) = self.clients.workspaces.find(self.task.id)
            && let Err(error) = opened.room.refresh().await
        {
            world::log!("skep: {} may not see what changed in the project: {error}", self.task.id);
        }
    }

    /// Makes the call that runs this job.
    fn call(&self, job: &Arc<KeptJob>, plan: &LaunchPlan) -> RunningClient {
        let (leave, gone) = watch::channel(false);
        let follower = JobFollower { streams: Streams::Kept(job.clone()), gone };
        let request = Request { live: Some(Arc::new(follower)), ..run_request(&self.task, &self.program, plan) };
        let door = self.door.clone();
        RunningClient { call: tokio::spawn(async move { door.call(&request).await }), leave }
    }

    /// The end of a call, once nothing of it is left and what the client said, and which process it was, is on record.
    fn ended(&mut self, running: RunningClient, job: &Arc<KeptJob>, served: JoinHandle<()>) -> Exit {
        let transcript = ClientTranscript::begin(self.clients.ledger.clone(), self.task.pid, self.task.id);
        let taken_down = self.transcript.insert(transcript).over();
        let job = Arc::downgrade(job);
        Box::pin(async move {
            let RunningClient { mut call, leave } = running;
            let outcome = match tokio::time::timeout(LEAVE_MAX, &mut call).await {
                Ok(outcome) => outcome,
                Err(_) => {
                    leave.send_replace(true);
                    call.await
                }
            };
            taken_down.await;
            match job.upgrade().is_none_or(|job| job.pid().is_some()) {
                true => drop(served.await),
                // It never began, and so it is followed by nobody.
                false => served.abort(),
            }
            exit_of_call(outcome)
        })
    }

    /// Records which process works on the task, as soon as the call that is about to be made follows it.
    fn record_served(&self, job: &Arc<KeptJob>, reused: bool, why: String) -> JoinHandle<()> {
        // Neither lives on for this: a client that never began has nothing to record.
        let (ledger, followed, job) = (Arc::downgrade(&self.clients.ledger), job.followed(), Arc::downgrade(job));
        let (pid, task) = (self.task.pid, Some(self.task.id));
        tokio::spawn(async move {
            followed.await;
            let (Some(ledger), Some(process)) = (ledger.upgrade(), job.upgrade().and_then(|job| job.pid())) else { return };
            if let Err(fault) = ledger.record(BrainServed { pid, task, process, reused, why }).await {
                world::log!("skep: which client works on a task is not on record: {fault}");
            }
        })
    }

    /// The client that waits for this task, if it may have it.
    async fn waiting(&self, boot: &AgentBoot, terms: &ClientTerms) -> Option<LiveClient> {
        let (clients, pid) = (&self.clients, self.task.pid);
        let client = clients.take(pid)?;
        let why = match () {
            () if client.task != self.task.id => Some("another task of the worker goes on".to_owned()),
            () if client.job.is_over() => client.gone(),
            () if client.series != boot.series => Some("another conversation is to go on".to_owned()),
            () => client.terms.difference(terms).map(str::to_owned),
        };
        match why {
            None => Some(client),
            Some(why) => {
                clients.end(pid, client, why).await;
                None
            }
        }
    }
}

impl AgentLauncher for RoomAgent {
    fn start(&mut self, plan: LaunchPlan) -> Pin<Box<dyn Future<Output = Result<AgentStreams, BrainFault>> + Send + '_>> {
        Box::pin(async move {
            let broken = |error: std::io::Error| BrainFault::of_machine(format!("its streams cannot be made: {error}"));
            let ((in_read, in_write), (out_read, out_write)) = (pipe_pair().map_err(broken)?, pipe_pair().map_err(broken)?);
            let job = KeptJob::new(in_read, out_write);
            self.refresh().await;
            let hooks = plan.is_hooked.then(|| self.clients.open_hook(self.task.id));
            let served = self.record_served(&job, false, self.clients.reason(self.task.pid));
            let running = self.call(&job, &plan);
            self.job = Some(job.clone());
            Ok(AgentStreams {
                input: Box::new(pipe::Sender::from_owned_fd(in_write).map_err(broken)?),
                output: Box::new(pipe::Receiver::from_owned_fd(out_read).map_err(broken)?),
                ended: self.ended(running, &job, served),
                questions: self.door.questions_of(self.task.id),
                hooks,
            })
        })
    }

    fn attach<'a>(
        &'a mut self,
        boot: &'a AgentBoot,
        fresh: &'a LaunchPlan,
    ) -> Pin<Box<dyn Future<Output = Result<Option<AttachedAgent>, AgentExit>> + Send + 'a>> {
        Box::pin(async move {
            // Where that cannot be said, the call that boots it will say why.
            let Ok(terms) = self.terms(boot, fresh) else { return Ok(None) };
            let client = self.waiting(boot, &terms).await;
            self.terms = Some(terms);
            let Some(LiveClient { job, agent, .. }) = client else { return Ok(None) };
            self.refresh().await;
            let followed = job.followed();
            let served = self.record_served(&job, true, self.clients.reason(self.task.pid));
            let mut running = self.call(&job, fresh);
            // It may not be admitted any more.
            tokio::select! {
                () = followed => {}
                outcome = &mut running.call => {
                    served.abort();
                    return Err(exit_of_call(outcome));
                }
            }
            self.job = Some(job.clone());
            let questions = self.door.questions_of(self.task.id);
            Ok(Some(AttachedAgent { agent, ended: self.ended(running, &job, served), questions }))
        })
    }

    fn keep_line(&mut self, line: &str) {
        if let Some(transcript) = &self.transcript {
            transcript.keep(line);
        }
    }

    fn before_tool(&mut self) {
        if let Some(job) = &self.job {
            job.note_own();
        }
    }

    fn hold(&mut self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(async move {
            let (Some(job), Some(_)) = (&self.job, &self.terms) else { return false };
            let why = match () {
                () if self.door.is_stopping() => "the kernel stopped",
                () if self.clients.idle_time().is_zero() => "clients do not wait here (`brain_idle`)",
                () if job.has_more() => "a tool of it left something running",
                () if !job.let_go().await => "it could not be held still",
                () => return true,
            };
            self.clients.note(self.task.pid, why);
            false
        })
    }

    fn files(&mut self) -> KeptState {
        self.clients.workspaces.find(self.task.id).map(|opened| notes::files(&opened)).unwrap_or_default()
    }

    fn keep(&mut self, agent: IdleAgent, series: Option<&str>) {
        if let (Some(job), Some(terms)) = (self.job.take(), self.terms.take()) {
            self.clients.insert(self.task.pid, LiveClient::new(self.task.id, terms, series, job, agent));
        }
    }
}

/// How a client ended, by what came of the call that ran it.
fn exit_of_call(outcome: Result<Result<CallOutcome, Fault>, JoinError>) -> AgentExit {
    match outcome {
        Ok(Ok(outcome)) => exit_of(outcome.end),
        Ok(Err(fault)) => AgentExit::Ended { how: format!("ended ({fault})"), error_output: String::new() },
        Err(error) => AgentExit::Ended { how: format!("ended ({error})"), error_output: String::new() },
    }
}

fn pipe_pair() -> std::io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}
