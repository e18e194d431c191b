//! Facts: what the gate needs and only IO can tell: the policy in force, the room, the real path behind every name.
//!
//! **Invariant.** The file that is decided is the file that is opened: each place is opened once, here, and goes with the permit.

use super::Request;
use super::call_facts::{self, CallFacts, Details};
use super::judge;
use super::pattern::{self, NetworkTarget};
use crate::Kernel;
use crate::open_workspace::OpenWorkspace;
use crate::replay::OriginalCall;
use crate::zone::Trusted;
use policy::OwnedPath;
use sandbox::Template;
use sandbox::egress::Destination;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use tool::{PathKind, Real, RegisteredTool, ResolvedPath};
use workspace::{Hidden, Sight};
use world::Stop;
use world::{Code, Hands, Refusal, TaskId, What};

pub(super) struct Facts {
    /// What it is judged by.
    pub call: CallFacts,
    pub places: Vec<ResolvedPath>,
    /// The room it runs in, or comes from.
    pub room: Option<Template>,
    /// In a replay, what this call was in the task that is replayed.
    pub then: Option<OriginalCall>,
    /// The grant that demanded another input than was asked; the call runs with that grant or not at all.
    pub demanded: Option<world::GrantId>,
    /// The call without its exact input: what a wider answer would be about.
    pub like: What,
    pub project: PathBuf,
    /// What the caller may see; `None` where the call touches no file.
    pub sight: Option<Arc<Sight>>,
    pub root: Root,
}

/// Through what the project is read.
pub(super) enum Root {
    /// The task's merged view: a read sees the task's own writes.
    OpenWorkspace(Arc<OpenWorkspace>),
    /// The project itself, for a look outside any task.
    Project(OwnedFd),
    /// Nothing: the call touches no file.
    None,
}

impl Root {
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Root::OpenWorkspace(opened) => Some(opened.room.root().as_fd()),
            Root::Project(fd) => Some(fd.as_fd()),
            Root::None => None,
        }
    }

    /// The room that the task's programs run in.
    pub fn room(&self) -> Option<&sandbox::Workspace> {
        match self {
            Root::OpenWorkspace(opened) => Some(&opened.room),
            Root::Project(_) | Root::None => None,
        }
    }

    /// The same past the masks of the room: what is opened there, the gate decides about by its real path.
    fn bare(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Root::OpenWorkspace(opened) => Some(opened.room.bare().as_fd()),
            Root::Project(_) | Root::None => self.fd(),
        }
    }
}

/// Where a call comes from.
struct Origin {
    zone: String,
    session: String,
    /// Where the task's workspace began.
    head: String,
    replays: Option<TaskId>,
}

fn origin(kernel: &Kernel, request: &Request) -> Result<Origin, Refusal> {
    let found = kernel.ledger.look(|world| {
        let zone = world.zones.get(&request.zone)?;
        let task = request.task.and_then(|task| world.tasks.get(&task));
        Some(Origin {
            zone: zone.path.clone(),
            session: world.session(request.pid),
            head: task.and_then(|task| task.workspace.as_ref()).and_then(|workspace| workspace.head.clone()).unwrap_or_default(),
            replays: task.and_then(|task| task.replays),
        })
    });
    found.ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no {}", request.zone)))
}

/// What the facts are for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Call,
    /// Only to tell a person: nothing will run, so nothing needs a room.
    Explain,
    /// The same by another policy than the one in force: what this one masks says nothing of that one.
    ExplainOther,
}

/// The facts of a call that is to be made, and the call as it is to be made: a grant may demand another input than was asked.
pub(super) async fn gather(kernel: &Kernel, asked: &Request, tool: &RegisteredTool) -> Result<(Request, Facts), Stop> {
    let mut request = asked.clone();
    let mut facts = gather_for(kernel, &request, tool, Purpose::Call).await?;
    if let Some((grant, input)) = judge::demanded_input(kernel, &facts.call, &request.input) {
        request.input = input;
        tool.check(&request.input)?;
        // INVARIANT: the answer was bound to what was asked; what runs differs from it only by what the answer itself demanded.
        let bind = facts.call.bind;
        facts = gather_for(kernel, &request, tool, Purpose::Call).await?;
        facts.call.bind = bind;
        facts.demanded = Some(grant);
    }
    Ok((request, facts))
}

pub(super) async fn gather_for(kernel: &Kernel, request: &Request, tool: &RegisteredTool, purpose: Purpose) -> Result<Facts, Stop> {
    let trusted = kernel.policies.in_force(request.zone)?;
    let manifest = tool.manifest();
    let in_room = manifest.room == tool::Room::Sandbox;
    let project = PathBuf::from(origin(kernel, request)?.zone);
    let room = in_room.then(|| kernel.policies.template_of(&trusted, request, tool)).transpose()?;
    let root = match (request.task, &room) {
        (Some(task), Some(room)) if purpose == Purpose::Call => {
            Root::OpenWorkspace(kernel.workspace_for(task, request.who(), &room.name).await?)
        }
        (Some(task), _) => Root::OpenWorkspace(kernel.workspace_of(task).await?),
        (None, _) if in_room && purpose == Purpose::Call => {
            return Err(Refusal::new(Code::WrongState, format!("`{}` needs a task to work in", request.tool)).into());
        }
        (None, _) => Root::Project(workspace::open_root(&project)?),
    };
    let sight = kernel.sight(request.who())?;
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
        room: room.as_ref().map(call_facts::used),
        ..Details::of(&request.tool, request.input.clone())
    };
    // The origin is asked again: opening the workspace may have recorded the workspace that the bind speaks of.
    let sight = Some(sight);
    let mut facts = facts(kernel, request, trusted, details, Surroundings { places, room, sight, root, project })?;
    facts.call.masked = masked(kernel, &facts, purpose).await?;
    facts.call.ask_extensions(kernel).await;
    Ok(facts)
}

/// Where a call of the web aims. Left out, the method is GET, and a rule about GET means that too.
pub(crate) fn network_target(input: &serde_json::Value) -> (Option<String>, Option<u16>, Option<String>) {
    let url = input["url"].as_str();
    let (host, port) = (url.and_then(host_of), url.and_then(tool::port_of));
    let method = host.as_ref().map(|_| input["method"].as_str().unwrap_or("GET").to_ascii_uppercase());
    (host, port, method)
}

/// The facts of a call that the kernel itself carries out and that touches no file.
pub(super) async fn of_syscall(kernel: &Kernel, request: &Request) -> Result<Facts, Stop> {
    let details = Details { run_mode: request.run_mode, ..Details::of(&request.tool, request.input.clone()) };
    let mut facts = without_files(kernel, request, details, None)?;
    facts.call.ask_extensions(kernel).await;
    Ok(facts)
}

fn without_files(kernel: &Kernel, request: &Request, details: Details, room: Option<Template>) -> Result<Facts, Stop> {
    let project = PathBuf::from(origin(kernel, request)?.zone);
    let surroundings = Surroundings { places: Vec::new(), room, sight: None, root: Root::None, project };
    facts(kernel, request, kernel.policies.in_force(request.zone)?, details, surroundings)
}

/// The facts of what a job asks for at a door of its room.
pub(super) async fn of_connection(kernel: &Kernel, request: &Request, ask: &Destination, template: &Template) -> Result<Facts, Stop> {
    let details = Details {
        run_mode: request.run_mode,
        host: Some(ask.host.clone()),
        method: ask.method.clone(),
        port: Some(ask.port),
        room: Some(call_facts::used(template)),
        ..Details::of(&request.tool, request.input.clone())
    };
    let mut facts = without_files(kernel, request, details, Some(template.clone()))?;
    facts.call.ask_extensions(kernel).await;
    Ok(facts)
}

/// The facts of a request to a model: for rules its provider and model are a command's words, `[anthropic, claude-opus-4-1]`.
pub(super) async fn of_model(kernel: &Kernel, request: &Request, about: super::model::ModelFacts<'_>) -> Result<Facts, Stop> {
    let super::model::ModelFacts { tier, host, words, room } = about;
    let details = Details {
        run_mode: request.run_mode,
        // Asked again after a crash it costs, but it changes nothing: it counts as a read.
        read_only: true,
        command: Some(words),
        host: (!host.is_empty()).then(|| host.to_owned()),
        room,
        tier: tier.to_owned(),
        ..Details::of(&request.tool, request.input.clone())
    };
    let mut facts = without_files(kernel, request, details, None)?;
    facts.call.ask_extensions(kernel).await;
    Ok(facts)
}

/// What a call has to do with files and rooms.
struct Surroundings {
    places: Vec<ResolvedPath>,
    room: Option<Template>,
    sight: Option<Arc<Sight>>,
    root: Root,
    project: PathBuf,
}

fn facts(kernel: &Kernel, request: &Request, trusted: Arc<Trusted>, details: Details, surroundings: Surroundings) -> Result<Facts, Stop> {
    let Origin { zone, session, head, replays } = origin(kernel, request)?;
    let Surroundings { places, room, sight, root, project } = surroundings;
    let bound = |task| pattern::bind(request, task, &session, &zone, &head);
    let bind = bound(request.task);
    let then = replays.map(|of| kernel.models.original_call(of, &request.tool, bound(Some(of)))).transpose()?;
    let target = NetworkTarget { host: details.host.as_deref(), port: details.port, method: details.method.as_deref() };
    let like = pattern::similar_calls(request, &bind, &places, details.command.as_deref(), target);
    let token = request.token.as_ref().and_then(|(text, peer)| crate::token::presented(&kernel.ledger, text, peer.clone()));
    let mut call = CallFacts::new(kernel, request.who(), trusted, details)?;
    (call.bind, call.token) = (bind, token);
    Ok(Facts { call, places, room, then, demanded: None, like, project, sight, root })
}

/// The host of a URL, by the reader that the request itself goes through: two readers would be two opinions.
pub(crate) fn host_of(url: &str) -> Option<String> {
    tool::host_of(url)
}

fn open_places(request: &Request, tool: &RegisteredTool, root: &Root, project: &std::path::Path) -> Result<Vec<ResolvedPath>, Refusal> {
    let Some(fd) = root.bare() else { return Ok(Vec::new()) };
    tool.named_paths(&request.input).iter().map(|target| ResolvedPath::open(fd, project, target)).collect()
}

/// Why no call may touch these places: they are masked in the task's rooms, so a program there could not either. Whether a path may be read
/// is for the gate to say, which may ask a person; a list or a search leaves out what may not.
async fn masked(kernel: &Kernel, facts: &Facts, purpose: Purpose) -> Result<Option<Refusal>, Stop> {
    let Some(sight) = &facts.sight else { return Ok(None) };
    let by_policy = purpose != Purpose::ExplainOther && facts.call.seen().tool != call_facts::READ;
    for place in &facts.places {
        let Real::Inside(path) = &place.real else { continue };
        if let Some(hidden) = hidden(kernel, facts, sight, place, path, by_policy).await? {
            return Ok(Some(hidden.refusal(path)));
        }
    }
    Ok(None)
}

async fn hidden(
    kernel: &Kernel,
    facts: &Facts,
    sight: &Arc<Sight>,
    place: &ResolvedPath,
    path: &str,
    by_policy: bool,
) -> Result<Option<Hidden>, Stop> {
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
        Some(fd) if matches!(place.kind, PathKind::File { .. }) && several(fd) => kernel.masks.other_name(sight, path).await,
        _ => Ok(None),
    }
}

fn shown(real: &Real) -> &str {
    match real {
        Real::Inside(path) | Real::Outside(path) => path,
    }
}

fn owned(real: &Real) -> OwnedPath {
    match real {
        Real::Inside(path) => OwnedPath::Inside(path.clone()),
        Real::Outside(path) => OwnedPath::Outside(path.clone()),
    }
}

impl Facts {
    /// Whether all that the call can do ends with its task's workspace.
    pub fn stays_inside(&self, request: &Request) -> bool {
        let closed = self.room.as_ref().is_none_or(|room| room.network == sandbox::Network::None);
        matches!(self.root, Root::OpenWorkspace(_)) && self.call.seen().host.is_none() && closed && request.hands == Hands::Kernel
    }

    /// Is a path masked for this call, by its own name or as another name of a hidden file?
    pub fn hides(&self, path: &str) -> bool {
        let is_masked = self.sight.as_ref().is_some_and(|sight| sight.masks(path).is_some());
        is_masked || matches!(&self.root, Root::OpenWorkspace(opened) if opened.other_name(path).is_some())
    }

    /// The real paths as records hold them: relative inside the project, absolute outside.
    pub fn real_paths(&self) -> Vec<String> {
        self.places.iter().map(|place| shown(&place.real).to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_url_is_the_one_that_would_be_asked() {
        for (url, host) in [
            ("https://Example.com/x", Some("example.com")),
            ("http://user:pw@host.example:8080/", Some("host.example")),
            ("http://a.example\\@b.example/", Some("a.example")),
            ("http://[::1]:80/", Some("::1")),
            ("http://x.example./", Some("x.example")),
            ("http://%65vil.example/", Some("evil.example")),
            ("http://2130706433/", Some("127.0.0.1")),
            ("no url", None),
            ("http://", None),
        ] {
            assert_eq!(host_of(url).as_deref(), host, "{url}");
        }
    }
}
