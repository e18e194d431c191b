//! KarnEvil9's `runner: shell`: `shell.run`, with a line of the shell as its command.

use super::Mapping;
use crate::manifest::Manifest;
use crate::permission::Permission;
use serde_json::{Map, Value, json};
use world::Refusal;

/// As a shell says it of a command that `timeout` ended.
const EXIT_TIMED_OUT: u64 = 124;
/// As a shell says it of a command that a signal ended.
const EXIT_SIGNAL: u64 = 128;

#[derive(Debug)]
pub(super) struct ShellExec;

impl Mapping for ShellExec {
    fn worker(&self) -> &'static str {
        "shell.run"
    }

    fn needs(&self) -> Permission {
        Permission::Exec
    }

    fn fields(&self) -> &'static [&'static str] {
        &["command", "cwd"]
    }

    fn complete(&self, manifest: &Manifest, fields: &mut Map<String, Value>) -> Result<(), Refusal> {
        if let Some(line) = fields.get("command").and_then(Value::as_str) {
            fields.insert("command".to_owned(), json!(["sh", "-c", line]));
        }
        fields.insert("timeout_ms".to_owned(), manifest.timeout_ms.into());
        Ok(())
    }

    fn output(&self, _manifest: &Manifest, value: &Value) -> Result<Value, Refusal> {
        let exit = match (value["exit_code"].as_u64(), value["signal"].as_u64()) {
            _ if value["timed_out"] == true => EXIT_TIMED_OUT,
            (Some(code), _) => code,
            (None, signal) => EXIT_SIGNAL + signal.unwrap_or(0),
        };
        Ok(json!({ "exit_code": exit, "stdout": value["stdout"], "stderr": value["stderr"] }))
    }
}
