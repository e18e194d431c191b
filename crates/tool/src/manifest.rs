//! A tool's manifest: what it is called, what it takes and gives, and what it needs. The file format is KarnEvil9's `tool.yaml`
//! with two keys of our own, `read_only` and `room`.

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// Where its body runs. Left out, in a sandbox.
    #[serde(default)]
    pub room: Room,
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
        use serde_saphyr::MessageFormatter as _;
        serde_saphyr::from_str(text).map_err(|error| {
            let error = error.without_snippet();
            let (line, column) = error.location().map_or((0, 0), |at| (at.line(), at.column()));
            let what = serde_saphyr::DefaultMessageFormatter.format_message(error).into_owned();
            ManifestError { file: file.to_owned(), line, column, what }
        })
    }
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
    }

    #[test]
    fn an_unknown_key_says_where() {
        let error = Manifest::parse(&READ_FILE.replace("timeout_ms", "timeout"), "tool.yaml").unwrap_err();
        assert_eq!(error.line, 9, "{error}");
        assert!(error.what.contains("timeout"), "{error}");
    }
}
