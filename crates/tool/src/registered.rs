//! A tool in the registry, with what no tool does for itself: its schemas, its mock responses, the run around its work.
//!
//! **Invariant.** From outside this crate a tool runs only through [`RegisteredTool::run`].

use crate::adapted;
use crate::context::{Context, RunMode};
use crate::fault::{ToolFault, ToolStop};
use crate::manifest::Manifest;
use crate::net::Aim;
use crate::pipeline;
use crate::place::{Place, Target};
use crate::schema::{self, Validator};
use crate::tool::{Output, Tool};
use serde_json::{Value, json};
use std::fmt;
use std::path::{Component, Path};
use std::sync::{Arc, OnceLock};
use world::{Code, Refusal};

pub struct RegisteredTool {
    tool: Arc<dyn Tool>,
    /// Compiled when the first call comes, so that a kernel starts fast.
    input: OnceLock<Validator>,
    output: OnceLock<Validator>,
}

impl RegisteredTool {
    pub(crate) fn new(tool: Arc<dyn Tool>) -> RegisteredTool {
        RegisteredTool { tool, input: OnceLock::new(), output: OnceLock::new() }
    }

    pub fn manifest(&self) -> &Manifest {
        self.tool.manifest()
    }

    /// Does the input fit the schema?
    pub fn check(&self, input: &Value) -> Result<(), Refusal> {
        let Manifest { name, input_schema, .. } = self.manifest();
        schema::check(name, self.validator(&self.input, input_schema), input_schema, input)
    }

    /// Does a result fit the schema? One that does not is the tool's fault, never the caller's.
    pub(crate) fn check_output(&self, value: &Value) -> Result<(), ToolFault> {
        let Manifest { name, output_schema, .. } = self.manifest();
        match self.validator(&self.output, output_schema).misfit(value, "its output") {
            Some(what) => Err(ToolFault::InvalidOutput { tool: name.clone(), what }),
            None => Ok(()),
        }
    }

    fn validator<'a>(&self, cell: &'a OnceLock<Validator>, schema: &Value) -> &'a Validator {
        cell.get_or_init(|| match Validator::new(schema) {
            Ok(validator) => validator,
            Err(error) => panic!("a schema of `{}` is broken: {error}", self.manifest().name),
        })
    }

    /// The paths that a checked input names, in the order in which `run` wants them resolved.
    pub fn targets(&self, input: &Value) -> Vec<Target> {
        self.tool.targets(input)
    }

    /// What a call touches, by the names alone: what [`crate::Lanes`] compare. A name that could mean another path stands for the whole
    /// project; a link is taken for what it is called, so calls that meet only behind one are not told apart.
    pub fn touches_by_name(&self, input: &Value) -> Vec<Target> {
        let plain = |target: Target| Target { path: plain(&target.path), access: target.access };
        self.tool.touches(input).into_iter().map(plain).collect()
    }

    /// The argument list that a checked input would run.
    pub fn command(&self, input: &Value) -> Option<Vec<String>> {
        self.tool.command(input)
    }

    /// Bytes that a checked input would write, send or take away.
    pub fn size(&self, input: &Value, paths: &[Place]) -> Option<u64> {
        self.tool.size(input, paths)
    }

    /// Where on the network a checked input aims. A URL that cannot be used is refused here, before anything is decided on it.
    pub fn aim(&self, input: &Value) -> Result<Option<Aim>, Refusal> {
        self.tool.aim(input)
    }

    /// Does this call change nothing anywhere? Some tools change things with some inputs only.
    pub fn reads_only(&self, input: &Value) -> bool {
        self.tool.reads_only(input)
    }

    /// Does it run in containers only?
    pub fn needs_container(&self) -> bool {
        self.tool.needs_container()
    }

    /// Is a call of it judged as one of another tool?
    pub fn is_adapted(&self) -> bool {
        self.tool.adapter().is_some()
    }

    /// The tool that does this one's work, and what it gets for a checked input. A call is judged, recorded and run as that one.
    pub fn adapted(&self, input: &Value) -> Option<Result<(&str, Value), Refusal>> {
        let adapter = self.tool.adapter()?;
        Some(adapter.input(input).map(|input| (adapter.tool(), input)))
    }

    /// The other tool's result under this tool's own names.
    pub fn adapted_output(&self, mode: RunMode, value: Value) -> Result<Value, Refusal> {
        let Some(adapter) = self.tool.adapter() else { return Ok(value) };
        let own = match mode {
            // What it would do is said in the other tool's words.
            RunMode::DryRun => return Ok(value),
            RunMode::Mock => return self.mock().map(|output| output.value),
            RunMode::Live => adapter.output(&value)?,
        };
        self.check_output(&own).map_err(|fault| adapted::unfit(&fault))?;
        Ok(own)
    }

    /// The result where the other tool found nothing, if this one says so instead of failing.
    pub fn adapted_absence(&self) -> Option<Value> {
        self.tool.adapter()?.absence()
    }

    /// Carries out a call whose input was checked. `paths` are those of `targets`, resolved when the call was decided.
    pub async fn run(&self, input: &Value, paths: Vec<Place>, context: &Context<'_>) -> Result<Output, ToolStop> {
        match context.mode {
            RunMode::Live => {
                let output = pipeline::run(&*self.tool, input, paths, context).await?;
                self.check_output(&output.value)?;
                Ok(output)
            }
            RunMode::DryRun => self.dry_run(input, &paths, context),
            RunMode::Mock => Ok(self.mock()?),
        }
    }

    fn mock(&self) -> Result<Output, Refusal> {
        let Manifest { name, supports, mock_responses, .. } = self.manifest();
        match mock_responses.first() {
            Some(response) if supports.mock => Ok(Output::good(response.clone())),
            _ => Err(Refusal::new(Code::Unsupported, format!("`{name}` has no mock response"))
                .hint("add `mock_responses` to its tool.yaml, or run in another mode")),
        }
    }

    fn dry_run(&self, input: &Value, paths: &[Place], context: &Context<'_>) -> Result<Output, ToolStop> {
        let Manifest { name, supports, .. } = self.manifest();
        if !supports.dry_run {
            return Err(Refusal::new(Code::Unsupported, format!("`{name}` cannot say what it would do"))
                .hint("run in another mode")
                .into());
        }
        let would = self.tool.dry_run(input, paths, context)?;
        Ok(Output::good(json!({ "dry_run": true, "would": would })))
    }
}

impl fmt::Debug for RegisteredTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RegisteredTool").field(&self.manifest().name).finish()
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
