//! One tool: manifest, input check, body.

use crate::builtin::Body;
use crate::fault::ToolStop;
use crate::manifest::Manifest;
use crate::place::{Place, Target};
use crate::schema;
use jsonschema::Validator;
use serde_json::Value;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::OnceLock;
use world::Refusal;

pub struct Tool {
    manifest: Manifest,
    /// Compiled when the first call comes, so that a kernel starts fast.
    input: OnceLock<Validator>,
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
}

#[derive(Debug, Clone, PartialEq)]
pub struct Output {
    /// Did the work itself go well? A command that ends with 1 ran, and is not ok.
    pub ok: bool,
    pub value: Value,
}

impl Tool {
    pub(crate) fn builtin(body: Body) -> Tool {
        match Manifest::parse(body.manifest(), "built-in manifest") {
            Ok(manifest) => Tool { manifest, input: OnceLock::new(), body },
            Err(error) => panic!("a built-in manifest is broken: {error}"),
        }
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Does the input fit the schema?
    pub fn check(&self, input: &Value) -> Result<(), Refusal> {
        let Manifest { name, input_schema, .. } = &self.manifest;
        let validator = self.input.get_or_init(|| match jsonschema::validator_for(input_schema) {
            Ok(validator) => validator,
            Err(error) => panic!("the input schema of `{name}` is broken: {error}"),
        });
        schema::check(name, validator, input_schema, input)
    }

    /// The paths that a checked input names, in the order in which `run` wants their places.
    pub fn targets(&self, input: &Value) -> Vec<Target> {
        self.body.targets(input)
    }

    /// The argument list that a checked input would run.
    pub fn command(&self, input: &Value) -> Option<Vec<String>> {
        self.body.command(input)
    }

    /// Bytes that a checked input would write.
    pub fn size(&self, input: &Value) -> Option<u64> {
        self.body.size(input)
    }

    /// Runs the body. `places` are those of `targets`, opened when the call was decided.
    pub async fn run(&self, input: &Value, places: Vec<Place>, context: &Context<'_>) -> Result<Output, ToolStop> {
        self.body.run(&self.manifest, input, places, context).await
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("name", &self.manifest.name).field("body", &self.body).finish_non_exhaustive()
    }
}
