//! A tool's manifest: what it is called, what it takes and gives, and what it needs. The file format is KarnEvil9's `tool.yaml`
//! with keys of our own: `read_only`, `room`, `retries`, `output_mode`, `truncate`, `result_tokens_max`, `command`,
//! `environment` and `template`.

use crate::env;
use crate::permission::{Permission, Permissions};
use crate::schema::Validator;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use world::{Code, Refusal};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `noun.verb`, the same in policy files, RPC, CLI and journal.
    pub name: String,
    pub version: String,
    pub description: String,
    pub runner: Runner,
    pub input_schema: Value,
    pub output_schema: Value,
    #[serde(default)]
    pub permissions: Vec<String>,
    pub timeout_ms: u64,
    #[serde(default)]
    pub supports: Supports,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mock_responses: Vec<Value>,
    /// It changes nothing anywhere. Left out, a tool counts as one that does.
    #[serde(default)]
    pub read_only: bool,
    /// Where it runs. Left out, in a sandbox.
    #[serde(default)]
    pub room: Room,
    /// How often a call that met a passing fault is made again. Left out, once for a tool that only reads; never for any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    #[serde(default)]
    pub output_mode: OutputMode,
    /// Which part of a long result is kept.
    #[serde(default)]
    pub truncate: Truncate,
    /// Tokens of a result that reach a brain; a token counts as four bytes.
    #[serde(default = "default_result_tokens")]
    pub result_tokens_max: u64,
    /// What a `shell` runner runs. The input comes on its stdin as JSON, and JSON is expected on its stdout.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Variables of a `shell` runner, beside those that the operator's configuration passes into every room.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The bounds of its jobs: the name of a template. Left out, `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
}

/// Seed 003's default.
pub const RESULT_TOKENS_MAX: u64 = 4_000;
const TOKEN_BYTES: u64 = 4;
/// Calls of one tool never outlast an hour, whatever its manifest says.
const TIMEOUT_MS_MAX: u64 = 3_600_000;
/// More would only hide that something is broken.
const RETRIES_MAX: u32 = 3;

fn default_result_tokens() -> u64 {
    RESULT_TOKENS_MAX
}

/// How a tool changes files. Either way the change lies in the overlay in the end, where the merge reads it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputMode {
    /// It says what to change: its stdout is a unified diff, and the door asks about each file and applies it whole or not at all.
    Patch,
    /// It changes files itself, in its room; its stdout is JSON.
    #[default]
    Full,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truncate {
    /// The beginning: lists and files.
    Head,
    /// The end: logs, whose last lines say what went wrong.
    Tail,
    /// Both ends.
    #[default]
    Middle,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Runner {
    /// Part of skep.
    Internal,
    Shell,
    Http,
    Container,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Supports {
    #[serde(default)]
    pub mock: bool,
    #[serde(default)]
    pub dry_run: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Room {
    /// The kernel's own process, through the workspace's root descriptor.
    Kernel,
    #[default]
    Sandbox,
}

/// A manifest that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {what}")]
pub struct ManifestError {
    pub file: String,
    pub line: u64,
    pub column: u64,
    pub what: String,
}

impl Manifest {
    /// Reads a `tool.yaml`. `file` is how messages call it.
    pub fn parse(text: &str, file: &str) -> Result<Manifest, ManifestError> {
        yaml::from_str(text).map_err(|error| {
            let (line, column) = (error.at.line(), error.at.column());
            ManifestError { file: file.to_owned(), line, column, what: error.fault.to_string() }
        })
    }

    /// Is it one that can be called? Reading the file says only that its keys have the right types.
    pub fn check(&self, file: &str) -> Result<(), ManifestError> {
        self.flaw().map_or(Ok(()), |what| Err(ManifestError { file: file.to_owned(), line: 0, column: 0, what }))
    }

    fn flaw(&self) -> Option<String> {
        if !is_name(&self.name) {
            return Some(format!("`{}` is not a tool's name: lower-case words with `-` or `_`, at most one dot", self.name));
        }
        if !is_version(&self.version) {
            return Some(format!("`{}` is not a version such as 1.0.0", self.version));
        }
        if !(1..=TIMEOUT_MS_MAX).contains(&self.timeout_ms) {
            return Some(format!("`timeout_ms` must lie between 1 and {TIMEOUT_MS_MAX}"));
        }
        if self.result_tokens_max == 0 {
            return Some("`result_tokens_max` leaves no space for a result".to_owned());
        }
        match self.retries {
            Some(1..) if !self.read_only => return Some("`retries` is for tools with `read_only: true`: others act twice".to_owned()),
            Some(retries) if retries > RETRIES_MAX => return Some(format!("`retries` may be {RETRIES_MAX} at most")),
            _ => {}
        }
        if self.template.is_some() && self.room == Room::Kernel {
            return Some("`template` is for tools with `room: sandbox`".to_owned());
        }
        match (self.runner, self.command.first()) {
            (Runner::Shell | Runner::Container, Some(program)) if program.is_empty() => {
                return Some("`command` names no program".to_owned());
            }
            (Runner::Shell | Runner::Container, _) | (_, None) => {}
            (_, Some(_)) => return Some("`command` is for `runner: shell` and `runner: container`".to_owned()),
        }
        if self.output_mode == OutputMode::Patch && self.runner != Runner::Shell {
            return Some("`output_mode: patch` is for `runner: shell`".to_owned());
        }
        if let Some(name) = self.environment.keys().find(|name| env::is_closed(name)) {
            return Some(format!("`environment.{name}` may hold a credential or alter program loading; not passed into sandboxes"));
        }
        if let Err(error) = Validator::new(&self.input_schema) {
            return Some(format!("`input_schema` is not a JSON Schema: {error}"));
        }
        let output = match Validator::new(&self.output_schema) {
            Ok(output) => output,
            Err(error) => return Some(format!("`output_schema` is not a JSON Schema: {error}")),
        };
        if self.supports.mock && self.mock_responses.is_empty() {
            return Some("`supports.mock` wants at least one of `mock_responses`".to_owned());
        }
        let unfit = self.mock_responses.iter().enumerate().find_map(|(index, response)| Some((index, output.misfit(response, "it")?)));
        unfit.map(|(index, what)| format!("`mock_responses[{index}]` does not fit `output_schema`: {what}"))
    }

    /// May its job have a way out, if its template has one? Permissions that name no network are a bound like any other.
    pub fn may_use_network(&self) -> bool {
        let named = Permissions::of(self).is_ok_and(|given| given.covers(&Permission::Network("*".to_owned())));
        self.permissions.is_empty() || named || self.runner == Runner::Internal
    }

    /// May it ask for this URL?
    pub fn may_ask(&self, url: &str) -> Result<(), Refusal> {
        self.bounds()?.map_or(Ok(()), |given| given.allow_url(&self.name, url))
    }

    /// May its job reach this host, through a tunnel or in clear text?
    pub fn may_reach(&self, host: &str, is_tunnel: bool) -> Result<(), Refusal> {
        self.bounds()?.map_or(Ok(()), |given| given.allow_host(&self.name, host, is_tunnel))
    }

    /// What its permissions hold it to on the network; `None` where they say nothing.
    fn bounds(&self) -> Result<Option<Permissions>, Refusal> {
        if self.permissions.is_empty() || self.runner == Runner::Internal {
            return Ok(None);
        }
        Permissions::of(self).map(Some).map_err(|why| Refusal::new(Code::Denied, why))
    }

    /// [`Manifest::result_tokens_max`] in bytes.
    pub fn result_bytes_max(&self) -> usize {
        usize::try_from(self.result_tokens_max.saturating_mul(TOKEN_BYTES)).unwrap_or(usize::MAX)
    }
}

/// KarnEvil9's `read-file` and our `fs.read`.
fn is_name(name: &str) -> bool {
    let is_word = |word: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        word.starts_with(|first: char| first.is_ascii_lowercase()) && word.bytes().all(inner)
    };
    name.len() <= 64 && name.split('.').count() <= 2 && name.split('.').all(is_word)
}

/// Three numbers, and whatever a `-` or `+` adds.
fn is_version(version: &str) -> bool {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    core.split('.').count() == 3 && core.split('.').all(is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As it stands in KarnEvil9's tree.
    const READ_FILE: &str = r#"
name: read-file
version: "1.0.0"
description: Read the contents of a file from the workspace
runner: internal
input_schema: {type: object, required: [path], properties: {path: {type: string}}, additionalProperties: false}
output_schema: {type: object, required: [content, exists], properties: {content: {type: string}, exists: {type: boolean}, size_bytes: {type: number}}, additionalProperties: false}
permissions: ["filesystem:read:workspace"]
timeout_ms: 10000
supports: {mock: true, dry_run: true}
mock_responses: [{content: "x", exists: true, size_bytes: 48}]
"#;

    #[test]
    fn karnevil9s_own_file_is_read_and_counts_as_one_that_changes_things() {
        let manifest = Manifest::parse(READ_FILE, "tool.yaml").unwrap();
        assert_eq!(manifest.name, "read-file");
        assert_eq!((manifest.read_only, manifest.room), (false, Room::Sandbox));
        assert_eq!(manifest.mock_responses[0]["size_bytes"], 48);
        assert_eq!(manifest.input_schema["additionalProperties"], false);
        assert_eq!(manifest.check("tool.yaml"), Ok(()));
        assert_eq!((manifest.retries, manifest.truncate, manifest.result_bytes_max()), (None, Truncate::Middle, 16_000));
    }

    #[track_caller]
    fn flaw(from: &str, to: &str) -> String {
        assert!(READ_FILE.contains(from), "{from}");
        let manifest = Manifest::parse(&READ_FILE.replacen(from, to, 1), "tool.yaml").unwrap();
        manifest.check("tool.yaml").unwrap_err().what
    }

    #[test]
    fn what_cannot_be_called_is_said() {
        assert!(flaw("name: read-file", "name: ../../etc").starts_with("`../../etc` is not a tool's name"));
        assert!(flaw("name: read-file", "name: a.b.c").contains("at most one dot"));
        assert_eq!(flaw("1.0.0", "new"), "`new` is not a version such as 1.0.0");
        assert!(flaw("10000", "0").starts_with("`timeout_ms`"));
        assert!(flaw("timeout_ms:", "retries: 1\ntimeout_ms:").contains("others act twice"));
        assert!(flaw("timeout_ms:", "read_only: true\nretries: 9\ntimeout_ms:").contains("3 at most"));
        assert!(flaw("timeout_ms:", "command: [ls]\ntimeout_ms:").contains("runner: shell"));
        assert!(flaw("input_schema: {type: object", "input_schema: {type: thing").starts_with("`input_schema` is not"));
        assert!(flaw("exists: true", "exists: 7").starts_with("`mock_responses[0]` does not fit"));
        assert!(flaw("mock_responses: [{content: \"x\", exists: true, size_bytes: 48}]", "").contains("at least one"));
    }

    #[test]
    fn an_unknown_key_says_where() {
        let error = Manifest::parse(&READ_FILE.replace("timeout_ms", "timeout"), "tool.yaml").unwrap_err();
        assert_eq!(error.line, 9, "{error}");
        assert!(error.what.contains("timeout"), "{error}");
    }
}
