//! Where a program runs: in a room of its own, or, at the operator's word, outside.
//!
//! **Invariant.** In a room it reaches the kernel and models at doors of its own loopback, and nothing else; it sees its own folder, what the
//! operator shows, and no other process's files.

use super::environment::is_visible;
use super::{CPU_MILLI, MEMORY_MB, StartPlan, WORKSPACE, failed};
use crate::live::{ProgramControl, ProgramEnd};
use crate::spawn::PROGRAMS;
use crate::{CoreFace, Tree};
use gate::RoomRuntime;
use hive::{AgentLink, GrpcListener, LinkLimits, ServerHandle, connect_loopback};
use models::RoomModels;
use sandbox::{
    Bind, CORE_PORT, Door, Exit, HostProgram, HostShare, HostStart, Inlets, JobSpec, Limits, MODELS_PORT, Profile, SandboxError, Stdio,
    Template, Workspace, WorkspaceSpec,
};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use world::{Fault, Pid, ZoneId};

/// Connections into a room: the link, and one more while it is made anew.
const INLETS: usize = 2;
/// Processes and threads of one program.
const PIDS_MAX: u32 = 512;

/// A program that runs somewhere.
pub(super) struct PlacedProgram {
    pub control: ProgramControl,
    pub stdout: pipe::Receiver,
    pub stderr: pipe::Receiver,
    pub ended: watch::Receiver<Option<ProgramEnd>>,
    pub reach: ProgramReach,
    pub core: Option<ServerHandle>,
    /// Why it never ran, once that is known.
    pub unrun: Arc<OnceLock<String>>,
}

/// The way to what it listens on.
pub(super) enum ProgramReach {
    Room(Arc<Inlets>),
    Loopback,
}

impl ProgramReach {
    pub async fn connect(&self, port: u16, limits: LinkLimits) -> Result<AgentLink, String> {
        let broken = |error: std::io::Error| format!("its port {port} cannot be reached: {error}");
        let link = match self {
            ProgramReach::Room(inlets) => {
                let inlet = inlets.connect(port).await.map_err(broken)?;
                inlet.set_nodelay(true).map_err(broken)?;
                AgentLink::connect(Pin::new(inlet), limits).await
            }
            ProgramReach::Loopback => AgentLink::connect(connect_loopback(port).await.map_err(broken)?, limits).await,
        };
        link.map_err(|error| error.to_string())
    }

    pub fn address(&self, port: u16) -> String {
        format!("localhost:{port}")
    }
}

impl Tree {
    pub(super) async fn place(&self, plan: &StartPlan, face: &dyn CoreFace) -> Result<PlacedProgram, Fault> {
        if plan.program.confined { self.place_in_room(plan, face).await } else { self.place_on_host(plan, face).await }
    }

    async fn place_in_room(&self, plan: &StartPlan, face: &dyn CoreFace) -> Result<PlacedProgram, Fault> {
        let pid = plan.process.pid;
        let room = self.open_room(plan).await?;
        let core = format!("127.0.0.1:{CORE_PORT}");
        let has_models = self.models.gateway().providers().next().is_some();
        let template = Template::built_in().into_iter().find(|template| template.name == Template::DEFAULT);
        let template = template.ok_or_else(|| failed("there is no default template"))?;
        let mut variables = self.rooms.environment(room.project(), Some(&room), Path::new(""), &template).await;
        variables.extend(self.contract_variables(plan, &core));
        let mut doors = vec![Door { port: CORE_PORT }];
        // The key is made before the job is, and its listener comes out of the job: a room has both or none.
        if has_models {
            doors.push(Door { port: MODELS_PORT });
        }
        let gateway = has_models.then(|| RoomModels::of_process(&self.models, pid, ZoneId::NONE)).transpose()?;
        if let Some(gateway) = &gateway {
            variables.extend(gateway.environment(MODELS_PORT));
            variables.push(("OPENROUTER_BASE_URL".to_owned(), format!("http://127.0.0.1:{MODELS_PORT}/v1")));
            variables.push(("OPENROUTER_API_KEY".to_owned(), gateway.key().to_owned()));
        }
        let (job, stdout, stderr) = self.start_job(plan, &room, &core, &doors, variables).await?;
        let mut job = job;
        let mut listeners = job.doors().into_iter();
        let core = listeners.next().map(|socket| face.serve(GrpcListener::Door { socket, pid: pid.0 }));
        let (control, inlets) = (job.control(), job.inlets());
        let (end, ended) = watch::channel(None);
        if let (Some(gateway), Some(listener)) = (gateway, listeners.next()) {
            let mut over = ended.clone();
            let over = async move { drop(over.wait_for(Option::is_some).await) };
            tokio::spawn(gateway.serve(listener, over));
        }
        let unrun: Arc<OnceLock<String>> = Arc::default();
        let reason = Arc::clone(&unrun);
        tokio::spawn(async move {
            let exit = job.wait().await;
            if let Err(error) = room.close().await {
                world::log!("skep: the sandbox of process {pid} was not closed in order: {error}");
            }
            end.send_replace(Some(match exit {
                Ok(end) => ended_by(end.exit),
                Err(error) => {
                    let why = error.to_string();
                    world::log!("skep: how the program of process {pid} ended is not known: {why}");
                    reason.get_or_init(|| why);
                    ProgramEnd { code: None, signal: None }
                }
            }));
        });
        Ok(PlacedProgram { control: ProgramControl::Room(control), stdout, stderr, ended, reach: ProgramReach::Room(inlets), core, unrun })
    }

    /// Starts the job; Python by either of its names.
    async fn start_job(
        &self,
        plan: &StartPlan,
        room: &Workspace,
        core: &str,
        doors: &[Door],
        variables: Vec<(String, String)>,
    ) -> Result<(sandbox::Job, pipe::Receiver, pipe::Receiver), Fault> {
        let (stdout, out) = pipe_pair()?;
        let (stderr, err) = pipe_pair()?;
        let mut spec = JobSpec::exec(self.command(plan, "python3", core));
        spec.env = variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        spec.profile = Profile::StandardNet;
        spec.limits = limits_of(plan);
        spec.branch = self.branch_of(plan.process.pid)?;
        spec.doors = doors.to_vec();
        spec.inlets = INLETS;
        let started = room.spawn(spec, Stdio::Null, Stdio::Fd(out), Stdio::Fd(err)).await;
        Ok((started.map_err(|error: SandboxError| failed(error))?, stdout, stderr))
    }

    /// Where a process keeps its files.
    pub(crate) fn folder_of(&self, pid: Pid) -> PathBuf {
        self.home.join("agents").join(pid.to_string())
    }

    async fn open_room(&self, plan: &StartPlan) -> Result<Workspace, Fault> {
        let folder = self.folder_of(plan.process.pid);
        let (project, work) = (folder.join("files"), folder.join("room"));
        private_folder(&project)?;
        let shown = self.shown_folders(plan);
        let mut spec = WorkspaceSpec::new(&project, &work);
        // What its image says of itself opens nothing: a spawn says which folders of programs its room shows.
        let programs = plan.original.metadata.get(PROGRAMS).into_iter().flat_map(|text| text.lines()).map(PathBuf::from);
        let all = shown.into_iter().chain(programs.filter(|folder| !self.home.starts_with(folder) && !folder.starts_with(&self.home)));
        let mut shares: Vec<PathBuf> = all.filter(|folder| !is_visible(folder)).collect();
        shares.sort();
        shares.dedup();
        let shown = tokio::task::spawn_blocking(move || shares.into_iter().map(without_secrets).collect::<Result<Vec<_>, _>>()).await;
        spec.shares = shown.map_err(failed)?.map_err(failed)?;
        if let Some(workspace) = plan.original.metadata.get(WORKSPACE).map(PathBuf::from).filter(|path| path.is_absolute()) {
            std::fs::create_dir_all(&workspace).map_err(|error| Fault::io("make", &workspace, error))?;
            spec.binds.push(Bind { source: workspace.clone(), target: workspace, writable: true });
        }
        let runtime = self.rooms.settings().fixed_runtime.unwrap_or(RoomRuntime::Native);
        let opened = self.rooms.open_equipped(runtime, spec).await;
        opened.map_err(|stop| failed(format!("its sandbox could not be closed, so nothing ran: {stop}")))
    }

    async fn place_on_host(&self, plan: &StartPlan, face: &dyn CoreFace) -> Result<PlacedProgram, Fault> {
        let core = face.address().ok_or_else(|| failed("the kernel listens nowhere that a program outside sandboxes could reach"))?;
        let mut variables = self.variables.clone();
        variables.extend(self.contract_variables(plan, &core));
        // On the socket its credentials prove who it is; on a port, this.
        let secret = self.secrets.issue(plan.process.pid.0).map_err(failed)?;
        self.ledger.redactor.register(&secret);
        variables.push(("SKEP_SECRET".to_owned(), secret));
        let branch = self.branch_of(plan.process.pid)?;
        let mut started = None;
        for python in ["python3", "python"] {
            let words = self.command(plan, python, &core);
            let mut command = std::process::Command::new(&words[0]);
            command.args(&words[1..]).env_clear().envs(variables.iter().map(|(name, value)| (name, value)));
            started = match HostProgram::start(command, branch.as_ref()).await {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                other => Some(other.map_err(failed)?),
            };
            break;
        }
        let HostStart { program, stdout, stderr, ended: mut exit } =
            started.ok_or_else(|| failed(format!("`{}` is not on this machine", self.command(plan, "python3", &core)[0])))?;
        let (end, ended) = watch::channel(None);
        tokio::spawn(async move {
            let exit = exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit);
            end.send_replace(Some(exit.map_or(ProgramEnd { code: None, signal: None }, ended_by)));
        });
        let control = ProgramControl::Host(program);
        let (stdout, stderr) = (receiver(stdout)?, receiver(stderr)?);
        Ok(PlacedProgram { control, stdout, stderr, ended, reach: ProgramReach::Loopback, core: None, unrun: Arc::default() })
    }
}

/// A folder of the host as a room shows it. What is secret in it is looked for at each start.
fn without_secrets(folder: PathBuf) -> Result<HostShare, world::Refusal> {
    let masked = room::secret_files(&folder)?;
    Ok(HostShare { masked, ..HostShare::read_only(&folder, &folder) })
}

fn ended_by(exit: Exit) -> ProgramEnd {
    match exit {
        Exit::Code(code) => ProgramEnd { code: Some(code), signal: None },
        Exit::Signal(signal) => ProgramEnd { code: None, signal: Some(signal) },
    }
}

fn limits_of(plan: &StartPlan) -> Limits {
    let number = |key: &str| plan.original.metadata.get(key).and_then(|value| value.parse::<u64>().ok());
    Limits {
        memory_bytes: number(MEMORY_MB).map(|mebibytes| mebibytes << 20),
        cpu_milli: number(CPU_MILLI).and_then(|milli| u32::try_from(milli).ok()),
        pids: PIDS_MAX,
        ..Limits::default()
    }
}

fn pipe_pair() -> Result<(pipe::Receiver, OwnedFd), Fault> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(failed)?;
    Ok((receiver(read)?, write))
}

fn receiver(read: OwnedFd) -> Result<pipe::Receiver, Fault> {
    pipe::Receiver::from_owned_fd(read).map_err(failed)
}

fn private_folder(path: &Path) -> Result<(), Fault> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| Fault::io("make", path, error))
}
