//! A tool: what can be called.
//!
//! Whoever implements [`Tool`] can be called through the door: what is built in, what a `tool.yaml` defines, and what another crate adds with
//! [`crate::Registry::add`]. Methods about a call get an input that fits the manifest's schema. **Invariant.** What a tool says of a call
//! is all that the door decides on, so it names every path that it opens and every host that it asks. Knows neither policy nor journal.

use crate::context::Context;
use crate::fault::ToolStop;
use crate::manifest::{Manifest, Runner};
use crate::net::Aim;
use crate::place::{Access, Place, Target};
use serde_json::Value;
use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;
use world::Refusal;

pub trait Tool: Debug + Send + Sync {
    fn manifest(&self) -> &Manifest;

    /// The paths that an input names. They are resolved in this order and handed to `dry_run` and `execute`.
    fn targets(&self, _input: &Value) -> Vec<Target> {
        Vec::new()
    }

    /// What a call may touch, so that calls which meet on a path run in order. A tool that names no path may touch every one.
    fn touches(&self, input: &Value) -> Vec<Target> {
        let targets = self.targets(input);
        if targets.is_empty() { vec![Target::project(Access::Run)] } else { targets }
    }

    /// The argument list that a call runs.
    fn command(&self, _input: &Value) -> Option<Vec<String>> {
        None
    }

    /// Where on the network a call goes first. A URL that cannot be used is refused here, before anything is decided on it.
    fn aim(&self, _input: &Value) -> Result<Option<Aim>, Refusal> {
        Ok(None)
    }

    /// Bytes that a call writes, sends or takes away.
    fn size(&self, _input: &Value, _paths: &[Place]) -> Option<u64> {
        None
    }

    /// Does this call change nothing anywhere? Such a call may be made twice.
    fn reads_only(&self, _input: &Value) -> bool {
        self.manifest().read_only
    }

    /// The time that a call may take.
    fn time_limit(&self, _input: &Value) -> Result<Duration, Refusal> {
        Ok(Duration::from_millis(self.manifest().timeout_ms))
    }

    /// Does it run in containers only?
    fn needs_container(&self) -> bool {
        self.manifest().runner == Runner::Container
    }

    /// Set where another tool does the work: then a call is judged, recorded and run as one of that tool, and this one is never executed.
    fn adapter(&self) -> Option<&dyn Adapter> {
        None
    }

    /// What a call would do, in one sentence. Looks at the paths, which are open anyway, and does nothing.
    fn dry_run(&self, input: &Value, paths: &[Place], context: &Context<'_>) -> Result<String, ToolStop>;

    /// Does the work once. The registry adds the time limit, the second try and the check of the result.
    fn execute<'a>(&'a self, input: &'a Value, paths: Vec<Place>, context: &'a Context<'a>) -> ToolFuture<'a>;
}

pub type ToolFuture<'a> = Pin<Box<dyn Future<Output = Result<Output, ToolStop>> + Send + 'a>>;

/// How a tool uses another one for its work: by other names for the same fields.
pub trait Adapter {
    /// The name of the tool that does the work.
    fn tool(&self) -> &str;

    /// What that tool gets for a checked input.
    fn input(&self, input: &Value) -> Result<Value, Refusal>;

    /// That tool's result under this one's names.
    fn output(&self, value: &Value) -> Result<Value, Refusal>;

    /// The result where that tool found nothing, if this one says so instead of failing.
    fn absence(&self) -> Option<Value>;
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Did the work itself go well? A command that ends with 1 ran, and is not ok.
    pub ok: bool,
    pub value: Value,
    /// Calls that were made again before this came of it.
    pub retries: u32,
}

impl Output {
    pub fn new(ok: bool, value: Value) -> Output {
        Output { ok, value, retries: 0 }
    }

    pub fn good(value: Value) -> Output {
        Output::new(true, value)
    }
}
