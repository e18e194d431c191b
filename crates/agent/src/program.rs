//! Vendors' clients on this machine: which program it is, and what a room must show of it.

use crate::Brains;
use crate::talk::{HOOK_PROGRAM, is_talk};
use brain::agent::{Acp, AcpAgent, AgentWire, Claude, Codex};
use brain::{BrainSpec, Vendor};
use host::HOME_LAYER;
use sandbox::HostShare;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tool::BRAIN_HOME;
use world::{Code, Refusal, Stop, Task};

/// A client on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentProgram {
    /// The program and what always stands behind it.
    pub command: Vec<String>,
    /// The folder that rooms must be shown to start it.
    shown: PathBuf,
}

impl AgentProgram {
    /// A program that lies here, behind links.
    fn at(path: &Path) -> Option<AgentProgram> {
        let real = path.canonicalize().ok()?;
        let metadata = real.metadata().ok()?;
        if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
            return None;
        }
        // A package brings what it needs in the same `node_modules`.
        let shown = real.ancestors().filter(|folder| folder.file_name().is_some_and(|name| name == "node_modules")).last();
        let shown = shown.or(real.parent())?.to_owned();
        Some(AgentProgram { command: vec![real.to_string_lossy().into_owned()], shown })
    }

    /// By its name in the folders of a PATH.
    fn on_path(name: &str, path: &str) -> Option<AgentProgram> {
        path.split(':').filter(|folder| folder.starts_with('/')).find_map(|folder| AgentProgram::at(&Path::new(folder).join(name)))
    }

    /// What a room must show beside what it shows anyway.
    fn shares(&self, others: &[HostShare], shown: &[PathBuf], project: &Path) -> Vec<HostShare> {
        let is_visible = ["/usr", "/bin", "/opt"].iter().any(|folder| self.shown.starts_with(folder))
            || others.iter().any(|share| self.shown.starts_with(&share.target))
            || shown.iter().any(|target| self.shown.starts_with(target))
            || self.shown.starts_with(project);
        if is_visible { Vec::new() } else { vec![HostShare::read_only(&self.shown, &self.shown)] }
    }
}

/// The client that a brain stands for; `None` for one that has no program.
pub fn client_of(spec: &BrainSpec) -> Option<&str> {
    match spec {
        BrainSpec::Vendor { vendor, .. } => Some(vendor.name()),
        BrainSpec::Acp(name) => Some(name),
        BrainSpec::Native { .. } | BrainSpec::Script(_) => None,
    }
}

impl Brains {
    /// The client of a brain on this machine; `None` for a brain that has none.
    pub fn program(&self, spec: &BrainSpec) -> Result<Option<AgentProgram>, Refusal> {
        let Some(name) = client_of(spec) else { return Ok(None) };
        let settings = self.settings.in_force();
        let set = settings.brains.get(name);
        let path = self.variable("PATH").unwrap_or_default();
        let command = match (set.map(|set| &set.command), spec) {
            (Some(command), _) if !command.is_empty() => command.clone(),
            (_, BrainSpec::Acp(_)) => {
                let reason = format!("there is no agent `{name}`: no program is named for it");
                let hint = format!("add `brains: {{{name}: {{command: [PROGRAM, ARGUMENT]}}}}` to config.yml in $SKEP_HOME");
                return Err(Refusal::new(Code::NotFound, reason).hint(hint));
            }
            _ => vec![name.to_owned()],
        };
        let program = match command[0].starts_with('/') {
            true => AgentProgram::at(Path::new(&command[0])),
            false => AgentProgram::on_path(&command[0], path),
        };
        let Some(mut found) = program else {
            let reason =
                format!("`{}` is not installed: no program of that name is on the PATH that the kernel was started with", command[0]);
            return Err(Refusal::new(Code::NotFound, reason).hint(install_hint(spec)));
        };
        found.command.extend(command.into_iter().skip(1));
        Ok(Some(found))
    }

    /// What the room of a task shows for its brain: the client's program, and a home that the worker keeps from task to task.
    pub fn shares(&self, task: &Task, others: &[HostShare], shown: &[PathBuf], project: &Path) -> Result<Vec<HostShare>, Stop> {
        let Ok(spec) = BrainSpec::parse(&task.brain) else { return Ok(Vec::new()) };
        let Some(program) = self.program(&spec)? else { return Ok(Vec::new()) };
        let mut shares = program.shares(others, shown, project);
        shares.push(HostShare::layered(None, BRAIN_HOME, HOME_LAYER));
        // This program, which the client's hooks run.
        if let (true, Ok(program)) = (is_talk(task) || is_hooked_at_work(&spec), gate::program().canonicalize()) {
            shares.push(HostShare::read_only(program, HOOK_PROGRAM));
        }
        Ok(shares)
    }
}

pub fn wire_of(spec: &BrainSpec) -> Result<Box<dyn AgentWire>, Refusal> {
    match spec {
        BrainSpec::Vendor { vendor: Vendor::Claude, .. } => Ok(Box::new(Claude::default())),
        BrainSpec::Vendor { vendor: Vendor::Codex, .. } => Ok(Box::new(Codex::default())),
        BrainSpec::Vendor { vendor: Vendor::OpenCode, .. } => Ok(Box::new(Acp::of(AcpAgent::OpenCode))),
        BrainSpec::Vendor { vendor: Vendor::Gemini, .. } => Ok(Box::new(Acp::of(AcpAgent::Gemini))),
        BrainSpec::Acp(_) => Ok(Box::new(Acp::of(AcpAgent::Other))),
        BrainSpec::Native { .. } | BrainSpec::Script(_) => Err(Refusal::new(Code::Unsupported, format!("`{spec}` has no program"))),
    }
}

/// Is a client of this brain asked for by its hooks also where nobody talks with it?
pub fn is_hooked_at_work(spec: &BrainSpec) -> bool {
    // Where its `app-server` does not answer, it is run in a way that knows no questions.
    matches!(spec, BrainSpec::Vendor { vendor: Vendor::Codex, .. })
}

/// How to get a client that is not there.
fn install_hint(spec: &BrainSpec) -> String {
    let BrainSpec::Vendor { vendor, .. } = spec else {
        return "name its program with its full path in `brains` of config.yml in $SKEP_HOME".to_owned();
    };
    format!("install it with `{}`, or name its program in `brains` of config.yml in $SKEP_HOME", vendor.install_command())
}
