//! Gathers what the gate needs and only IO can tell: the policy in force, the room, the real path behind every name.
//!
//! **Invariant.** The file that is decided is the file that is opened: each place is opened once, here, and goes with the permit.

use super::Request;
use crate::desk::{self, Desk};
use crate::fault::Stop;
use crate::zone::Trusted;
use crate::{Kernel, hash};
use ignore::gitignore::Gitignore;
use policy::RealPath;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use tool::{Place, Real, Tool};
use world::{Code, Mode, Refusal};

pub(super) struct Facts {
    pub trusted: Arc<Trusted>,
    pub places: Vec<Place>,
    pub command: Option<Vec<String>>,
    pub size: Option<u64>,
    pub read_only: bool,
    pub in_room: bool,
    pub caller: String,
    pub role: String,
    pub user: String,
    pub mode: Mode,
    pub zone: String,
    /// Hash of session, task, tool and exact input: what a person's answer is bound to.
    pub bind: String,
    pub project: PathBuf,
    /// What no tool shows, not even its name.
    pub secrets: Gitignore,
    pub root: Root,
}

/// Through what the project is read.
pub(super) enum Root {
    /// The task's merged view: a read sees the task's own writes.
    Desk(Arc<Desk>),
    /// The project itself, for a look outside any task.
    Project(OwnedFd),
}

impl Root {
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Root::Desk(desk) => desk.room.root().as_fd(),
            Root::Project(fd) => fd.as_fd(),
        }
    }
}

pub(super) async fn gather(kernel: &Kernel, request: &Request, tool: &Tool) -> Result<Facts, Stop> {
    let trusted = kernel.trusted(request.zone)?.ok_or_else(|| {
        Refusal::new(Code::Untrusted, "no policy is in force in this zone").hint("look at the project's own files and run `skep trust`")
    })?;
    let manifest = tool.manifest();
    let in_room = manifest.room == tool::Room::Sandbox;
    let found = kernel.ledger.look(|world| {
        let process = world.processes.get(&request.pid)?;
        let zone = world.zones.get(&request.zone)?;
        let task = request.task.and_then(|task| world.tasks.get(&task));
        let mode = task.map_or(Mode::Call, |task| task.mode);
        let base = task.and_then(|task| task.workspace.as_ref()).map(|workspace| workspace.base.clone());
        Some((process.name.clone(), process.role.clone(), process.user.clone(), zone.path.clone(), mode, world.session(request.pid), base))
    });
    let Some((caller, role, user, zone, mode, session, base)) = found else {
        return Err(Refusal::new(Code::NotFound, format!("there is no process {}", request.pid)).into());
    };
    let project = PathBuf::from(&zone);
    let root = match request.task {
        Some(task) => Root::Desk(kernel.desk(task).await?),
        None if in_room => return Err(Refusal::new(Code::WrongState, format!("`{}` needs a task to work in", request.tool)).into()),
        None => Root::Project(desk::open_root(&project)?),
    };
    let secrets = desk::secrets(&project, &trusted.config.mask)?;
    let places = open_places(request, tool, &root, &project)?;
    if let Some(place) = places.iter().find(|place| is_secret(&secrets, place)) {
        return Err(Refusal::new(Code::Denied, format!("`{}` is masked: no brain may see it", shown(&place.real)))
            .hint("take it out of `mask` in skep.yml and run `skep trust`, if it is not secret")
            .into());
    }
    let task = request.task.map(|task| task.to_string()).unwrap_or_default();
    let input = request.input.to_string();
    let bind = hash::of_parts(&[
        session.as_bytes(),
        task.as_bytes(),
        request.tool.as_bytes(),
        input.as_bytes(),
        base.unwrap_or_default().as_bytes(),
    ]);
    Ok(Facts {
        trusted,
        command: tool.command(&request.input),
        size: tool.size(&request.input),
        read_only: manifest.read_only,
        places,
        in_room,
        caller,
        role,
        user,
        mode,
        zone,
        bind,
        project,
        secrets,
        root,
    })
}

fn open_places(request: &Request, tool: &Tool, root: &Root, project: &std::path::Path) -> Result<Vec<Place>, Refusal> {
    tool.targets(&request.input).iter().map(|target| Place::open(root.fd(), project, target)).collect()
}

fn is_secret(secrets: &Gitignore, place: &Place) -> bool {
    match &place.real {
        Real::Inside(path) => secrets.matched_path_or_any_parents(path, false).is_ignore(),
        Real::Outside(_) => false,
    }
}

fn shown(real: &Real) -> &str {
    match real {
        Real::Inside(path) | Real::Outside(path) => path,
    }
}

impl Facts {
    /// The real paths in the policy's words.
    pub fn paths(&self) -> Vec<RealPath<'_>> {
        let real = self.places.iter().map(|place| &place.real);
        real.map(|real| match real {
            Real::Inside(path) => RealPath::Inside(path),
            Real::Outside(path) => RealPath::Outside(path),
        })
        .collect()
    }

    pub fn as_policy<'a>(&'a self, request: &'a Request, paths: &'a [RealPath<'a>]) -> policy::Facts<'a> {
        policy::Facts {
            tool: &request.tool,
            read_only: self.read_only,
            paths,
            caller: &self.caller,
            caller_tags: &[],
            role: &self.role,
            tier: "",
            user: &self.user,
            zone: &self.zone,
            mode: self.mode,
            run_mode: "live",
            workflow_state: "idle",
            command: self.command.as_deref(),
            host: None,
            method: None,
            size: self.size,
            sandbox: self.in_room.then_some("code-executor"),
            token: None,
            opinions: &[],
        }
    }
}
