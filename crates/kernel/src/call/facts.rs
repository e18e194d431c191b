//! Gathers what the gate needs and only IO can tell: the policy in force, the room, the real path behind every name.
//!
//! **Invariant.** The file that is decided is the file that is opened: each place is opened once, here, and goes with the permit.

use super::Request;
use super::like::{self, To};
use crate::desk::{self, Desk};
use crate::fault::{Fault, Stop};
use crate::replay::Then;
use crate::token::Presented;
use crate::zone::Trusted;
use crate::{Kernel, extension};
use ignore::gitignore::Gitignore;
use policy::{Opinion, RealPath, Standing, TokenFacts, Verdict};
use sandbox::Template;
use sandbox::egress::Ask;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use tool::{Place, Real, Tool};
use world::{Ban, Code, Hands, Mode, Pid, Refusal, TaskId, What};

pub(super) struct Facts {
    pub trusted: Arc<Trusted>,
    pub places: Vec<Place>,
    pub command: Option<Vec<String>>,
    pub size: Option<u64>,
    pub read_only: bool,
    /// The room it runs in, or comes from.
    pub room: Option<Template>,
    pub caller: String,
    pub role: String,
    /// Of the model that is asked for; empty for everything else.
    pub tier: String,
    /// What kind of caller it is: its role, and `operator` or `brain`.
    pub tags: Vec<String>,
    pub user: String,
    pub mode: Mode,
    pub zone: String,
    /// Hash of the exact call: what a person's answer is bound to.
    pub bind: String,
    /// In a replay, what this call was in the task that is replayed.
    pub then: Option<Then>,
    /// The grant that demanded another input than was asked; the call runs with that grant or not at all.
    pub demanded: Option<world::GrantId>,
    /// The call without its exact input: what a wider answer would be about.
    pub like: What,
    pub host: Option<String>,
    pub method: Option<String>,
    pub port: Option<u16>,
    pub token: Option<Presented>,
    pub opinions: Vec<Opinion>,
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
    /// Nothing: the call touches no file.
    None,
}

impl Root {
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Root::Desk(desk) => Some(desk.room.root().as_fd()),
            Root::Project(fd) => Some(fd.as_fd()),
            Root::None => None,
        }
    }
}

/// Who calls, and from where.
struct Caller {
    name: String,
    role: String,
    user: String,
    zone: String,
    mode: Mode,
    session: String,
    /// Where the task's workspace began.
    head: String,
    replays: Option<TaskId>,
}

fn caller(kernel: &Kernel, request: &Request) -> Result<Caller, Refusal> {
    let found = kernel.ledger.look(|world| {
        let process = world.processes.get(&request.pid)?;
        let zone = world.zones.get(&request.zone)?;
        let task = request.task.and_then(|task| world.tasks.get(&task));
        Some(Caller {
            name: process.name.clone(),
            role: process.role.clone(),
            user: process.user.clone(),
            zone: zone.path.clone(),
            mode: task.map_or(Mode::Call, |task| task.mode),
            session: world.session(request.pid),
            head: task.and_then(|task| task.workspace.as_ref()).and_then(|workspace| workspace.head.clone()).unwrap_or_default(),
            replays: task.and_then(|task| task.replays),
        })
    });
    found.ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no process {}", request.pid)))
}

fn trusted(kernel: &Kernel, request: &Request) -> Result<Arc<Trusted>, Stop> {
    let none =
        || Refusal::new(Code::Untrusted, "no policy is in force in this zone").hint("look at the project's own files and run `skep trust`");
    Ok(kernel.trusted(request.zone)?.ok_or_else(none)?)
}

/// What the facts are for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Call,
    /// Only to tell a person: nothing will run, so nothing needs a room.
    Explain,
}

pub(super) async fn gather(kernel: &Kernel, request: &Request, tool: &Tool) -> Result<Facts, Stop> {
    gather_for(kernel, request, tool, Purpose::Call).await
}

pub(super) async fn gather_for(kernel: &Kernel, request: &Request, tool: &Tool, purpose: Purpose) -> Result<Facts, Stop> {
    let trusted = trusted(kernel, request)?;
    let manifest = tool.manifest();
    let in_room = manifest.room == tool::Room::Sandbox;
    let project = PathBuf::from(caller(kernel, request)?.zone);
    let room = in_room.then(|| kernel.template_of(&trusted, request, tool)).transpose()?;
    let root = match (request.task, &room) {
        (Some(task), Some(room)) if purpose == Purpose::Call => Root::Desk(kernel.desk_for(task, request.zone, &room.name).await?),
        (Some(task), _) => Root::Desk(kernel.desk(task).await?),
        (None, _) if in_room && purpose == Purpose::Call => {
            return Err(Refusal::new(Code::WrongState, format!("`{}` needs a task to work in", request.tool)).into());
        }
        (None, _) => Root::Project(desk::open_root(&project)?),
    };
    // Asked again: opening the desk may have recorded the workspace that the bind speaks of.
    let caller = caller(kernel, request)?;
    let secrets = desk::secrets(&project, &trusted.config.mask)?;
    let places = open_places(request, tool, &root, &project)?;
    if purpose == Purpose::Call
        && let Some(refusal) = masked(&secrets, &places)
    {
        return Err(refusal.into());
    }
    let command = tool.command(&request.input);
    let size = tool.size(&request.input);
    let parts = Parts { trusted, places, command, size, read_only: tool.reads_only(&request.input), room, secrets, root, project };
    let mut facts = facts(kernel, request, caller, parts)?;
    facts.opinions = opinions(kernel, request, &facts).await;
    Ok(facts)
}

/// What extensions think, where their word can still matter: never after a deny or a valid token.
async fn opinions(kernel: &Kernel, request: &Request, facts: &Facts) -> Vec<Opinion> {
    if facts.trusted.bundle.rules.is_empty() {
        return Vec::new();
    }
    let now = kernel.moment();
    let token = facts.token.as_ref().and_then(|token| kernel.ledger.look(|world| token.facts(world, &now)));
    let paths = facts.paths();
    let spoken = facts.as_policy(request, &paths, token.as_ref());
    if policy::preview(&facts.trusted.policy, &spoken).is_settled() {
        return Vec::new();
    }
    let mut input = request.input.clone();
    kernel.redactor.value(&mut input);
    // A rule judges what a call is about; a long text is cut as in a record, so that no call is too large to ask about.
    super::settle::shorten(&mut input);
    kernel.opinions(request.zone, &facts.trusted, &extension::described(request, &input, &spoken)).await
}

/// The facts of a call that the kernel itself carries out and that touches no file.
pub(super) fn of_syscall(kernel: &Kernel, request: &Request) -> Result<Facts, Stop> {
    let caller = caller(kernel, request)?;
    let project = PathBuf::from(&caller.zone);
    let parts = Parts {
        trusted: trusted(kernel, request)?,
        places: Vec::new(),
        command: None,
        size: None,
        read_only: false,
        room: None,
        secrets: Gitignore::empty(),
        root: Root::None,
        project,
    };
    Ok(facts(kernel, request, caller, parts)?)
}

/// The facts of what a job asks for at a door of its room.
pub(super) async fn at_a_door(kernel: &Kernel, request: &Request, ask: &Ask, template: &Template) -> Result<Facts, Stop> {
    let mut facts = of_syscall(kernel, request)?;
    facts.room = Some(template.clone());
    facts.host = Some(ask.host.clone());
    facts.method = ask.method.clone();
    facts.port = Some(ask.port);
    facts.like = like::like(request, &facts.bind, &[], None, facts.to());
    facts.opinions = opinions(kernel, request, &facts).await;
    Ok(facts)
}

/// The facts of a request to a model: for rules its provider and model are a command's words, `[anthropic, claude-opus-4-1]`.
pub(super) async fn of_model(kernel: &Kernel, request: &Request, about: super::About<'_>) -> Result<Facts, Stop> {
    let super::About { tier, host, words } = about;
    let host = (!host.is_empty()).then(|| host.to_owned());
    // Asked again after a crash it costs, but it changes nothing: it counts as a read.
    let own = of_syscall(kernel, request)?;
    let like = like::like(request, &own.bind, &[], Some(&words), To { host: host.as_deref(), ..To::default() });
    let mut facts = Facts { read_only: true, command: Some(words), tier: tier.to_owned(), host, like, ..own };
    facts.opinions = opinions(kernel, request, &facts).await;
    Ok(facts)
}

/// What differs between a tool's call and a syscall.
struct Parts {
    trusted: Arc<Trusted>,
    places: Vec<Place>,
    command: Option<Vec<String>>,
    size: Option<u64>,
    read_only: bool,
    room: Option<Template>,
    secrets: Gitignore,
    root: Root,
    project: PathBuf,
}

fn facts(kernel: &Kernel, request: &Request, caller: Caller, parts: Parts) -> Result<Facts, Fault> {
    let Caller { name, role, user, zone, mode, session, head, replays } = caller;
    let Parts { trusted, places, command, size, read_only, room, secrets, root, project } = parts;
    let bound = |task| like::bind(request, task, &session, &zone, &head);
    let bind = bound(request.task);
    let then = replays.map(|of| kernel.then(of, &request.tool, bound(Some(of)))).transpose()?;
    let url = request.input["url"].as_str();
    let (host, port) = (url.and_then(host_of), url.and_then(tool::port_of));
    // Left out, it is GET, and a rule about GET means that too.
    let method = host.as_ref().map(|_| request.input["method"].as_str().unwrap_or("GET").to_ascii_uppercase());
    let to = To { host: host.as_deref(), port, method: method.as_deref() };
    let like = like::like(request, &bind, &places, command.as_deref(), to);
    let token = request.token.as_ref().and_then(|(text, peer)| kernel.presented(text, peer.clone()));
    Ok(Facts {
        trusted,
        places,
        command,
        size,
        read_only,
        room,
        tags: tags(request.pid, &role),
        caller: name,
        role,
        tier: String::new(),
        user,
        mode,
        zone,
        bind,
        then,
        demanded: None,
        like,
        host,
        method,
        port,
        token,
        opinions: Vec::new(),
        project,
        secrets,
        root,
    })
}

/// What kind of caller it is.
pub(crate) fn tags(pid: Pid, role: &str) -> Vec<String> {
    vec![role.to_owned(), if pid == Pid::OPERATOR { "operator" } else { "brain" }.to_owned()]
}

/// The host of a URL, by the reader that the request itself goes through: two readers would be two opinions.
pub(crate) fn host_of(url: &str) -> Option<String> {
    tool::host_of(url)
}

fn open_places(request: &Request, tool: &Tool, root: &Root, project: &std::path::Path) -> Result<Vec<Place>, Refusal> {
    let Some(fd) = root.fd() else { return Ok(Vec::new()) };
    tool.targets(&request.input).iter().map(|target| Place::open(fd, project, target)).collect()
}

/// Why no call may touch these places, whatever the policy says of them.
fn masked(secrets: &Gitignore, places: &[Place]) -> Option<Refusal> {
    let place = places.iter().find(|place| is_secret(secrets, place))?;
    let hint = "take it out of `mask` in skep.yml and run `skep trust`, if it is not secret";
    Some(Refusal::new(Code::Denied, format!("`{}` is masked: no brain may see it", shown(&place.real))).hint(hint))
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
    fn to(&self) -> To<'_> {
        To { host: self.host.as_deref(), port: self.port, method: self.method.as_deref() }
    }

    /// Whether all that the call can do ends with its task's workspace.
    pub fn stays_inside(&self, request: &Request) -> bool {
        let closed = self.room.as_ref().is_none_or(|room| room.network == sandbox::Network::None);
        matches!(self.root, Root::Desk(_)) && self.host.is_none() && closed && request.hands == Hands::Kernel
    }

    /// Why this call is refused before any rule is asked.
    pub fn masked(&self) -> Option<Refusal> {
        masked(&self.secrets, &self.places)
    }

    /// The real paths in the policy's words.
    pub fn paths(&self) -> Vec<RealPath<'_>> {
        let real = self.places.iter().map(|place| &place.real);
        real.map(|real| match real {
            Real::Inside(path) => RealPath::Inside(path),
            Real::Outside(path) => RealPath::Outside(path),
        })
        .collect()
    }

    /// May a result of this call name `path`? Not what is masked, nor what the policy denies to this tool, nor what a rule or one of
    /// these bans keeps from being read; and what would ask only with a person's leave.
    pub fn shows(&self, request: &Request, path: &str, bans: &[Ban], granted: bool) -> bool {
        if self.secrets.matched_path_or_any_parents(path, false).is_ignore() {
            return false;
        }
        let paths = [RealPath::Inside(path)];
        let standing = Standing { grant: None, calls_left: None };
        let own = policy::Facts { opinions: &[], ..self.as_policy(request, &paths, None) };
        let read = policy::Facts { tool: "fs.read", ..own.clone() };
        if bans.iter().any(|ban| policy::ban_covers(ban, &own, "") || policy::ban_covers(ban, &read, "")) {
            return false;
        }
        match policy::decide(&self.trusted.policy, &own, &standing) {
            Verdict::Deny { .. } => return false,
            Verdict::Review { .. } if !granted => return false,
            Verdict::Review { .. } | Verdict::Allow(_) => {}
        }
        match policy::decide(&self.trusted.policy, &read, &standing) {
            // Silence about reading says nothing against a search that a rule allows.
            Verdict::Deny { rules, .. } => rules.is_empty(),
            Verdict::Review { .. } | Verdict::Allow(_) => true,
        }
    }

    /// The real paths as records hold them: relative inside the project, absolute outside.
    pub fn real_paths(&self) -> Vec<String> {
        self.places.iter().map(|place| shown(&place.real).to_owned()).collect()
    }

    pub fn as_policy<'a>(&'a self, request: &'a Request, paths: &'a [RealPath<'a>], token: Option<&'a TokenFacts>) -> policy::Facts<'a> {
        policy::Facts {
            tool: &request.tool,
            read_only: self.read_only,
            paths,
            caller: &self.caller,
            caller_tags: &self.tags,
            role: &self.role,
            tier: &self.tier,
            user: &self.user,
            zone: &self.zone,
            mode: self.mode,
            run_mode: request.run_mode.as_str(),
            workflow_state: "idle",
            command: self.command.as_deref(),
            host: self.host.as_deref(),
            method: self.method.as_deref(),
            size: self.size,
            sandbox: self.room.as_ref().map(|template| template.name.as_str()),
            network: self.room.as_ref().map(|template| template.network.as_str()),
            port: self.port,
            token,
            opinions: &self.opinions,
        }
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
