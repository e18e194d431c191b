//! One tool: manifest, input check, body.

use crate::adapter::{self, Adapter};
use crate::builtin::Body;
use crate::fault::{ToolFault, ToolStop};
use crate::leave::Leave;
use crate::live::Terms;
use crate::manifest::Manifest;
use crate::net::{Aim, Reach};
use crate::pipeline;
use crate::place::{Access, Place, Target};
use crate::schema::{self, Validator};
use serde_json::{Value, json};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::{Component, Path};
use std::sync::OnceLock;
use world::{Code, Refusal};

pub struct Tool {
    manifest: Manifest,
    /// Compiled when the first call comes, so that a kernel starts fast.
    input: OnceLock<Validator>,
    output: OnceLock<Validator>,
    body: Body,
}

/// What a body may use besides its places.
pub struct Context<'a> {
    /// The project as the caller sees it: the workspace's merged root.
    pub root: BorrowedFd<'a>,
    /// The project's path on the host, for absolute names.
    pub project: &'a Path,
    pub room: Option<&'a sandbox::Workspace>,
    /// `test.command` of `skep.yml`.
    pub test_command: Option<&'a [String]>,
    /// Bytes of a file or stream that a result may hold.
    pub output_max: usize,
    /// May a result name this path, relative to the project?
    pub visible: &'a (dyn Fn(&str) -> bool + Sync),
    pub mode: RunMode,
    /// Which addresses http.request may connect to.
    pub reach: &'a Reach,
    /// Asked about what the input did not say: redirects, files of a patch.
    pub leave: &'a dyn Leave,
    /// What a trusted configuration passes into the room, before it is scrubbed.
    pub environment: &'a [(String, String)],
    /// The bounds of a job, and whoever follows it.
    pub terms: Terms<'a>,
    /// Secrets that stand in headers as sentinels.
    pub secrets: &'a [Secret],
}

/// The way out of a room with a restricted network.
pub trait Network: Send + Sync {
    fn doors(&self) -> Vec<sandbox::Door>;

    /// What tells programs about it.
    fn environment(&self) -> Vec<(String, String)>;

    /// Gets the doors of a job that has started.
    fn attend(&self, doors: Vec<tokio::net::TcpListener>);
}

/// A secret that callers know by its sentinel alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    pub sentinel: String,
    pub value: String,
    /// The hosts that may get it.
    pub hosts: Vec<String>,
    /// The only header it may stand in, in lower case.
    pub header: Option<String>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("sentinel", &self.sentinel).field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// How real a call is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RunMode {
    #[default]
    Live,
    /// It says what it would do, and does nothing.
    DryRun,
    /// It answers with the manifest's first mock response.
    Mock,
}

impl RunMode {
    /// As policies and configurations call it; `real` is KarnEvil9's word for `live`.
    pub fn parse(name: &str) -> Option<RunMode> {
        match name {
            "live" | "real" => Some(RunMode::Live),
            "dry_run" => Some(RunMode::DryRun),
            "mock" => Some(RunMode::Mock),
            _ => None,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            RunMode::Live => "live",
            RunMode::DryRun => "dry_run",
            RunMode::Mock => "mock",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Did the work itself go well? A command that ends with 1 ran, and is not ok.
    pub ok: bool,
    pub value: Value,
    /// Calls that were made again before this came of it.
    pub retries: u32,
}

impl Output {
    pub(crate) fn new(ok: bool, value: Value) -> Output {
        Output { ok, value, retries: 0 }
    }

    pub(crate) fn good(value: Value) -> Output {
        Output::new(true, value)
    }
}

impl Tool {
    pub(crate) fn new(manifest: Manifest, body: Body) -> Tool {
        Tool { manifest, input: OnceLock::new(), output: OnceLock::new(), body }
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Is it part of skep? Of other tools only their schema says what a field means.
    pub(crate) fn is_builtin(&self) -> bool {
        !matches!(self.body, Body::Foreign | Body::Adapted(_))
    }

    /// The built-in tool that does this one's work, and what it gets for a checked input. A call is judged, recorded and run as that one.
    pub fn adapted(&self, input: &Value) -> Option<Result<(&'static str, Value), Refusal>> {
        let adapter = self.adapter()?;
        Some(adapter.input(&self.manifest, input).map(|input| (adapter.tool(), input)))
    }

    /// The built-in tool's result under this tool's own names.
    pub fn adapted_output(&self, mode: RunMode, value: Value) -> Result<Value, Refusal> {
        let Some(adapter) = self.adapter() else { return Ok(value) };
        let own = match mode {
            // What it would do is said in the built-in tool's words.
            RunMode::DryRun => return Ok(value),
            RunMode::Mock => return self.mock().map(|output| output.value).map_err(adapter::refusal),
            RunMode::Live => adapter.output(&self.manifest, &value)?,
        };
        self.check_output(&own).map_err(|fault| adapter::unfit(&fault))?;
        Ok(own)
    }

    /// The result where the built-in tool found nothing, if this one says so instead of failing.
    pub fn adapted_absence(&self) -> Option<Value> {
        self.adapter()?.absent(&self.manifest)
    }

    /// Is a call of it judged as one of another tool?
    pub fn is_adapted(&self) -> bool {
        self.adapter().is_some()
    }

    fn adapter(&self) -> Option<Adapter> {
        match self.body {
            Body::Adapted(adapter) => Some(adapter),
            _ => None,
        }
    }

    /// Does the input fit the schema?
    pub fn check(&self, input: &Value) -> Result<(), Refusal> {
        let Manifest { name, input_schema, .. } = &self.manifest;
        schema::check(name, self.validator(&self.input, input_schema), input_schema, input)
    }

    /// Does a result fit the schema? One that does not is the tool's fault, never the caller's.
    pub(crate) fn check_output(&self, value: &Value) -> Result<(), ToolFault> {
        let Manifest { name, output_schema, .. } = &self.manifest;
        match self.validator(&self.output, output_schema).misfit(value, "its output") {
            Some(what) => Err(ToolFault::InvalidOutput { tool: name.clone(), what }),
            None => Ok(()),
        }
    }

    fn validator<'a>(&self, cell: &'a OnceLock<Validator>, schema: &Value) -> &'a Validator {
        cell.get_or_init(|| match Validator::new(schema) {
            Ok(validator) => validator,
            Err(error) => panic!("a schema of `{}` is broken: {error}", self.manifest.name),
        })
    }

    /// The paths that a checked input names, in the order in which `run` wants their places.
    pub fn targets(&self, input: &Value) -> Vec<Target> {
        self.body.targets(input)
    }

    /// What a call touches, by the real paths of its places: what [`crate::conflicts`] and [`crate::Lanes`] compare.
    pub fn touches(&self, input: &Value, places: &[Place]) -> Vec<Target> {
        if let Some(access) = self.body.touches_all() {
            return vec![Target { path: ".".to_owned(), access }];
        }
        let real = |(target, place): (Target, &Place)| Target { path: place.real.as_str().to_owned(), access: target.access };
        self.targets(input).into_iter().zip(places).map(real).collect()
    }

    /// The same before any place is open, by the names alone. A name that could mean another path stands for the whole project; a link
    /// is taken for what it is called, so calls that meet only behind one are not told apart.
    pub fn touches_by_name(&self, input: &Value) -> Vec<Target> {
        if self.body.touches_all().is_some() {
            return self.touches(input, &[]);
        }
        let plain = |target: Target| Target { path: plain(&target.path), access: target.access };
        self.targets(input).into_iter().map(plain).collect()
    }

    /// The argument list that a checked input would run.
    pub fn command(&self, input: &Value) -> Option<Vec<String>> {
        self.body.command(&self.manifest, input)
    }

    /// Bytes that a checked input would write or send.
    pub fn size(&self, input: &Value) -> Option<u64> {
        self.body.size(input)
    }

    /// Where on the network a checked input aims. A URL that cannot be used is refused here, before anything is decided on it.
    pub fn aim(&self, input: &Value) -> Result<Option<Aim>, Refusal> {
        self.body.aim(input)
    }

    /// Does this call change nothing anywhere? Some tools change things with some inputs only.
    pub fn reads_only(&self, input: &Value) -> bool {
        self.manifest.read_only || self.body.reads_only(input)
    }

    /// Carries out a call whose input was checked. `places` are those of `targets`, opened when the call was decided.
    pub async fn run(&self, input: &Value, places: Vec<Place>, context: &Context<'_>) -> Result<Output, ToolStop> {
        match context.mode {
            RunMode::Live => pipeline::run(self, input, places, context).await,
            RunMode::DryRun => self.describe(input, &places, context),
            RunMode::Mock => self.mock(),
        }
    }

    /// One try in earnest.
    pub(crate) async fn act(&self, input: &Value, places: Vec<Place>, context: &Context<'_>) -> Result<Output, ToolStop> {
        self.body.run(&self.manifest, input, places, context).await
    }

    fn mock(&self) -> Result<Output, ToolStop> {
        let Manifest { name, supports, mock_responses, .. } = &self.manifest;
        match mock_responses.first() {
            Some(response) if supports.mock => Ok(Output::good(response.clone())),
            _ => Err(Refusal::new(Code::Unsupported, format!("`{name}` has no mock response"))
                .hint("add `mock_responses` to its tool.yaml, or run in another mode")
                .into()),
        }
    }

    fn describe(&self, input: &Value, places: &[Place], context: &Context<'_>) -> Result<Output, ToolStop> {
        let Manifest { name, supports, .. } = &self.manifest;
        if !supports.dry_run {
            return Err(Refusal::new(Code::Unsupported, format!("`{name}` cannot say what it would do"))
                .hint("run in another mode")
                .into());
        }
        let would = self.body.would(&self.manifest, input, places, context)?;
        Ok(Output::good(json!({ "dry_run": true, "would": would })))
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.manifest.name).field("body", &self.body).finish_non_exhaustive()
    }
}

/// A relative path without needless parts; `.` for one that goes up or begins at the root.
fn plain(path: &str) -> String {
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => parts.push(name.to_string_lossy()),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return ".".to_owned(),
        }
    }
    if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
}

/// Does a call of this kind change what it names?
pub(crate) fn writes(access: Access) -> bool {
    matches!(access, Access::Write | Access::Name | Access::Run)
}
