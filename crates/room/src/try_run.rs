//! `skep try`: a command in the tree of a task, in a room that is thrown away.
//!
//! **Invariant.** Nothing that the command writes gets into the task or the project, and it ends with whoever watches it.

use crate::{OpenWorkspace, RoomContent, ThrowawayRooms};
use gate::{CallFacts, Details, Request, Who, used_room};
use policy::{OwnedPath, Verdict};
use sandbox::{Exit, Inlets, JobSpec, Profile, Stdio, Template};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use workspace::room_fault;
use world::event::TaskTried;
use world::{Code, Fault, FaultKind, Refusal, Stop, Task, TaskId};

/// Bytes of output that are handed on at once.
const CHUNK: usize = 16 * 1024;

/// The tool whose rules and bounds hold.
const TOOL: &str = "shell.run";

/// What somebody wants to try.
#[derive(Clone, Debug)]
pub struct TryRun {
    pub task: TaskId,
    pub command: Vec<String>,
    /// Ports of this machine's loopback, each with the one of the room's that it leads to.
    pub ports: Vec<(u16, u16)>,
}

/// A piece of output.
#[derive(Clone, Debug)]
pub struct OutputPiece {
    pub is_error: bool,
    pub bytes: Vec<u8>,
}

/// A trial that the policy lets pass and whose ports are held.
pub struct ReadyTrial {
    run: TryRun,
    task: Task,
    template: Template,
    listeners: Vec<(u16, TcpListener)>,
}

impl ThrowawayRooms {
    /// Judges a trial, and takes the ports that it needs.
    pub async fn prepare_trial(&self, run: TryRun) -> Result<ReadyTrial, Stop> {
        let task = self.gate.ledger.task(run.task)?;
        if task.workspace.is_none() || task.state.ended() {
            return Err(Refusal::new(Code::WrongState, format!("{} has no workspace to look at", task.id))
                .hint("a task can be tried from its start until its changes are merged or rejected")
                .into());
        }
        let template = self.may_try(&task, &run).await?;
        let mut listeners = Vec::new();
        for (here, there) in &run.ports {
            listeners.push((*there, TcpListener::bind((Ipv4Addr::LOCALHOST, *here)).await.map_err(|error| busy(*here, *there, &error))?));
        }
        Ok(ReadyTrial { run, task, template, listeners })
    }

    /// Runs a command over what a task has made so far. Output goes to `told` as it comes; a reader that is slow slows the command.
    pub async fn run_trial(&self, trial: ReadyTrial, opened: &OpenWorkspace, told: mpsc::Sender<OutputPiece>) -> Result<Exit, Stop> {
        let ReadyTrial { run, task, template, listeners } = trial;
        let shows = RoomContent::Task(opened.work.join("upper"), self.gate.owner(task.id)?);
        let throwaway = self.open_for(task.zone, &opened.project, shows, Some(&template.name)).await?;
        let tried = TaskTried {
            pid: world::Pid::OPERATOR,
            task: Some(task.id),
            command: run.command.clone(),
            ports: run.ports.iter().map(|(here, _)| *here).collect(),
        };
        self.gate.ledger.record(tried).await?;
        let mut job = JobSpec::exec(run.command.iter().cloned());
        let variables = self.rooms.environment(&opened.project, Some(throwaway.room()?), Path::new(""), &template).await;
        job.env = tool::scrub(&variables).into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        job.profile = Profile::StandardNet;
        template.bound(&mut job);
        // A server runs until its reader has seen enough.
        job.limits.wall = None;
        job.inlets = if listeners.is_empty() { 0 } else { Inlets::MAX };
        let pipe =
            || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|error| Fault::new(FaultKind::Io, "no pipe", error));
        let ((out, out_end), (err, err_end)) = (pipe()?, pipe()?);
        let job = throwaway.room()?.spawn(job, Stdio::Null, Stdio::Fd(out_end), Stdio::Fd(err_end)).await.map_err(room_fault)?;
        let mut doors = JoinSet::new();
        for (port, listener) in listeners {
            doors.spawn(forward(listener, port, job.inlets()));
        }
        let (ended, ()) = tokio::join!(job.wait(), async {
            tokio::join!(pass(out, false, told.clone()), pass(err, true, told.clone()));
        });
        drop(doors);
        throwaway.close().await?;
        Ok(ended.map_err(room_fault)?.exit)
    }

    /// The operator's command is its own answer to a question; a denial stays one. Gives the bounds of its room.
    async fn may_try(&self, task: &Task, run: &TryRun) -> Result<Template, Stop> {
        let trusted = self.gate.policies.in_force(task.zone)?;
        let template = self.gate.policies.templates(Some(&trusted))?.of_tool(TOOL, Some("default"))?.clone();
        let details = Details {
            paths: vec![OwnedPath::Inside(".".into())],
            command: Some(run.command.clone()),
            room: Some(used_room(&template)),
            ..Details::of(TOOL, serde_json::json!({ "command": run.command }))
        };
        let who = Who { pid: world::Pid::OPERATOR, zone: task.zone, task: Some(task.id) };
        let mut call = CallFacts::new(&self.gate.ledger, who, trusted, details)?;
        call.ask_extensions(&self.gate).await;
        let rights = self.gate.rights(&call).without_grants();
        match call.judge(&rights).verdict {
            Verdict::Deny { refusal, rules } => {
                let input = serde_json::json!({ "command": run.command });
                let request = Request::new(world::Pid::OPERATOR, Some(task.id), task.zone, TOOL, input);
                self.gate.record_denial(&request, &refusal, rules).await?;
                Err(refusal.into())
            }
            Verdict::Allow(_) | Verdict::Review { .. } => Ok(template),
        }
    }
}

fn busy(here: u16, there: u16, error: &std::io::Error) -> Refusal {
    // Ports below 1024 are not everybody's.
    let other = here.checked_add(1).unwrap_or(here - 1).max(1024);
    Refusal::new(Code::WrongState, format!("port {here} of this machine cannot be had: {error}"))
        .hint("end what uses it, or let another lead there")
        .remedy(world::Remedy::UseOtherPort { here: other, there })
}

/// Hands a stream on until its end; a reader that hung up ends it too.
async fn pass(stream: OwnedFd, is_error: bool, told: mpsc::Sender<OutputPiece>) {
    let Ok(mut stream) = pipe::Receiver::from_owned_fd(stream) else { return };
    let mut buffer = vec![0; CHUNK];
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        if told.send(OutputPiece { is_error, bytes: buffer[..length].to_vec() }).await.is_err() {
            return;
        }
    }
}

/// Joins each connection to the host's port with one to the room's. Aborted with the run.
async fn forward(listener: TcpListener, port: u16, inlets: Arc<Inlets>) {
    let mut open = JoinSet::new();
    while let Ok((mut outer, _)) = listener.accept().await {
        let inlets = Arc::clone(&inlets);
        open.spawn(async move {
            // Where nobody listens in the room, the caller is hung up on.
            if let Ok(mut inner) = inlets.connect(port).await {
                drop(tokio::io::copy_bidirectional(&mut outer, &mut *inner).await);
            }
        });
        while open.try_join_next().is_some() {}
    }
}
