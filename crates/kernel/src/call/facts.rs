//! Facts: what the gate needs and only IO can tell: the policy in force, the room, the real path behind every name.
//!
//! **Invariant.** The file that is decided is the file that is opened: each place is opened once, here, and goes with the permit.

use crate::Kernel;
use gate::{Details, GateFacts, Request, TrustedPolicy, network_target, used_room};
use policy::OwnedPath;
use room::OpenWorkspace;
use sandbox::Template;
use std::borrow::Cow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use tool::{PathKind, Real, RegisteredTool, ResolvedPath};
use workspace::{Hidden, READ, Sight};
use world::{Code, Hands, Refusal, Stop};

/// Calls of a brain's own hands that reach no further than its task's layer: one that a crash interrupted may simply be made again.
const LAYER_ONLY: [&str; 5] = ["fs.write", "fs.edit", "fs.delete", "fs.move", "fs.patch"];

pub(super) struct GatheredFacts {
    /// What the gate decides on.
    pub gate: GateFacts,
    pub places: Vec<ResolvedPath>,
    /// The room it runs in.
    pub room: Option<Template>,
    pub project: PathBuf,
    /// What the caller may see.
    sight: Arc<Sight>,
    pub root: Root,
}

/// Through what the project is read.
pub(super) enum Root {
    /// The task's merged view: a read sees the task's own writes.
    OpenWorkspace(Arc<OpenWorkspace>),
    /// The project itself, for a look outside any task.
    Project(OwnedFd),
}

impl Root {
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Root::OpenWorkspace(opened) => opened.room.root().as_fd(),
            Root::Project(fd) => fd.as_fd(),
        }
    }

    /// The room that the task's programs run in.
    pub fn room(&self) -> Option<&sandbox::Workspace> {
        match self {
            Root::OpenWorkspace(opened) => Some(&opened.room),
            Root::Project(_) => None,
        }
    }

    /// The same past the masks of the room: what is opened there, the gate decides about by its real path.
    fn bare(&self) -> BorrowedFd<'_> {
        match self {
            Root::OpenWorkspace(opened) => opened.room.bare().as_fd(),
            Root::Project(_) => self.fd(),
        }
    }
}

/// What the facts are for.
#[derive(Clone, Copy)]
pub(super) enum FactsPurpose<'a> {
    Call,
    /// Only to tell a person: nothing will run, so nothing needs a room.
    Explain,
    /// The same by another policy than the one in force, with what that one masks.
    ExplainOther(&'a Arc<TrustedPolicy>),
}

impl FactsPurpose<'_> {
    fn is_call(self) -> bool {
        matches!(self, FactsPurpose::Call)
    }
}

/// The facts of a call that is to be made, and the call as it is to be made: a grant may demand another input than was asked.
pub(super) async fn gather<'a>(
    kernel: &Kernel,
    asked: &'a Request,
    tool: &RegisteredTool,
) -> Result<(Cow<'a, Request>, GatheredFacts), Stop> {
    let mut request = Cow::Borrowed(asked);
    let mut facts = gather_for(kernel, asked, tool, FactsPurpose::Call).await?;
    if let Some((grant, input)) = kernel.gate.demanded_input(&facts.gate.call, &asked.input) {
        request.to_mut().input = input;
        tool.check(&request.input)?;
        // INVARIANT: the answer was bound to what was asked; what runs differs from it only by what the answer itself demanded.
        let bind = facts.gate.call.bind;
        facts = gather_for(kernel, &request, tool, FactsPurpose::Call).await?;
        facts.gate.call.bind = bind;
        facts.gate.call.demanded = Some(grant);
    }
    Ok((request, facts))
}

pub(super) async fn gather_for(
    kernel: &Kernel,
    request: &Request,
    tool: &RegisteredTool,
    purpose: FactsPurpose<'_>,
) -> Result<GatheredFacts, Stop> {
    let trusted = kernel.gate.policies.in_force(request.zone)?;
    let manifest = tool.manifest();
    let in_room = manifest.room == tool::Room::Sandbox;
    let project = kernel.gate.project_of(request)?;
    // Another policy comes with its own `skep.yml`, which may give the tool another room.
    let by = if let FactsPurpose::ExplainOther(proposed) = purpose { proposed } else { &trusted };
    let room = in_room.then(|| kernel.gate.policies.template_of(by, request, tool)).transpose()?;
    // Its own hands reach the paths that it names and no other, so the room need not be masked anew for them; the next command's is.
    let is_own_write = request.hands == Hands::Caller && LAYER_ONLY.contains(&request.tool.as_str());
    let root = match (request.task, &room) {
        (Some(task), Some(room)) if purpose.is_call() && !is_own_write => {
            Root::OpenWorkspace(kernel.workspace_for(task, request, &room.name).await?)
        }
        (Some(task), _) => Root::OpenWorkspace(kernel.workspace_of(task).await?),
        (None, _) if in_room && purpose.is_call() => {
            return Err(Refusal::new(Code::WrongState, format!("`{}` needs a task to work in", request.tool)).into());
        }
        (None, _) => Root::Project(workspace::open_root(&project)?),
    };
    let sight = match purpose {
        FactsPurpose::ExplainOther(proposed) => Arc::new(kernel.gate.proposed_sight(request.who(), proposed)?),
        FactsPurpose::Call | FactsPurpose::Explain => kernel.sight_for(request)?,
    };
    let places = open_places(request, tool, &root, &project)?;
    let (host, port, method) = network_target(&request.input);
    let details = Details {
        run_mode: request.run_mode,
        read_only: tool.reads_only(&request.input),
        paths: places.iter().map(|place| owned(&place.real)).collect(),
        command: tool.command(&request.input),
        host,
        port,
        method,
        size: tool.size(&request.input, &places),
        room: room.as_ref().map(used_room),
        ..Details::of(&request.tool, request.input.clone())
    };
    // After the workspace is open, for what the answer is bound to names it.
    let is_closed = room.as_ref().is_none_or(|room| room.network == sandbox::Network::None);
    let is_confined = is_closed && matches!(root, Root::OpenWorkspace(_));
    let described = kernel.gate.describe(request, trusted, details, &places, is_confined)?;
    let mut facts = GatheredFacts { gate: described, places, room, project, sight, root };
    facts.gate.call.is_repeatable = is_own_write;
    facts.gate.call.masked = masked(kernel, &facts).await?;
    facts.gate.call.ask_extensions(&kernel.gate).await;
    Ok(facts)
}

fn open_places(request: &Request, tool: &RegisteredTool, root: &Root, project: &std::path::Path) -> Result<Vec<ResolvedPath>, Refusal> {
    tool.named_paths(&request.input).iter().map(|target| ResolvedPath::open(root.bare(), project, target)).collect()
}

/// Why no call may touch these places: they are masked in the task's rooms, so a program there could not either. Whether a path may be read
/// is for the gate to say, which may ask a person; a list or a search leaves out what may not.
async fn masked(kernel: &Kernel, facts: &GatheredFacts) -> Result<Option<Refusal>, Stop> {
    let by_policy = facts.gate.call.seen().tool != READ;
    for place in &facts.places {
        let Real::Inside(path) = &place.real else { continue };
        if let Some(hidden) = hidden(kernel, facts, place, path, by_policy).await? {
            return Ok(Some(hidden.refusal(path)));
        }
    }
    Ok(None)
}

async fn hidden(kernel: &Kernel, facts: &GatheredFacts, place: &ResolvedPath, path: &str, by_policy: bool) -> Result<Option<Hidden>, Stop> {
    let sight = &facts.sight;
    let named = match (by_policy, place.kind) {
        (false, _) => sight.hides_name(path),
        (true, PathKind::Directory) => sight.hides_folder(path),
        (true, _) => sight.masks(path),
    };
    if named.is_some() {
        return Ok(named);
    }
    if let Root::OpenWorkspace(opened) = &facts.root
        && let Some(same) = opened.other_name(path)
    {
        return Ok(Some(same));
    }
    // Only what has several names can be a hidden file by another one; then the project is looked through.
    let several = |fd: &OwnedFd| rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_nlink > 1);
    match &place.fd {
        Some(fd) if matches!(place.kind, PathKind::File { .. }) && several(fd) => kernel.gate.masks.other_name(sight, path).await,
        _ => Ok(None),
    }
}

fn owned(real: &Real) -> OwnedPath {
    match real {
        Real::Inside(path) => OwnedPath::Inside(path.clone()),
        Real::Outside(path) => OwnedPath::Outside(path.clone()),
    }
}

impl GatheredFacts {
    /// Is a path masked for this call, by its own name or as another name of a hidden file?
    pub fn hides(&self, path: &str) -> bool {
        let is_masked = self.sight.masks(path).is_some();
        is_masked || matches!(&self.root, Root::OpenWorkspace(opened) if opened.other_name(path).is_some())
    }
}
