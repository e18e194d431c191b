//! A manifest in KarnEvil9's form names no program: `runner: internal`, `shell` or `http`, and the work is that of a built-in tool.
//!
//! **Invariant.** A call of such a tool is judged, recorded and run as a call of the built-in one; only the names of fields differ. What
//! the manifest's `permissions` do not name is refused, when it is loaded or when it is called.

mod http_request;
mod read_file;
mod shell_exec;
mod write_file;

use crate::context::Context;
use crate::fault::{ToolFault, ToolStop};
use crate::manifest::{Manifest, Runner};
use crate::permission::{Permission, Permissions};
use crate::resolved_path::ResolvedPath;
use crate::tool::{Adapter, Tool, ToolFuture};
use serde_json::{Map, Value};
use std::fmt::Debug;
use world::{Code, Refusal};

/// A manifest, and how its fields are those of a built-in tool.
#[derive(Debug)]
pub(crate) struct AdaptedTool {
    manifest: Manifest,
    mapping: &'static dyn Mapping,
}

/// Which built-in tool does the work, and how its fields are called outside.
trait Mapping: Debug + Sync {
    /// The name of the built-in tool.
    fn worker(&self) -> &'static str;

    /// What the manifest's permissions must name.
    fn needs(&self) -> Permission;

    /// The fields that the built-in tool takes under the same names.
    fn fields(&self) -> &'static [&'static str];

    /// Turns these fields into an input of the built-in tool.
    fn complete(&self, _manifest: &Manifest, _fields: &mut Map<String, Value>) -> Result<(), Refusal> {
        Ok(())
    }

    /// The built-in tool's result under KarnEvil9's names. A result of which they could say only a part is refused.
    fn output(&self, manifest: &Manifest, value: &Value) -> Result<Value, Refusal>;

    /// The result where the built-in tool found nothing.
    fn absence(&self) -> Option<Value> {
        None
    }
}

impl AdaptedTool {
    /// For a manifest without a `command`; else why nothing here does its work.
    pub fn new(manifest: Manifest) -> Result<AdaptedTool, String> {
        let mapping = mapping(&manifest)?;
        let needed = mapping.needs();
        if !Permissions::of(&manifest)?.covers(&needed) {
            return Err(format!("its work is done by `{}`, and its `permissions` do not name `{needed}`", mapping.worker()));
        }
        Ok(AdaptedTool { manifest, mapping })
    }

    /// The name of the built-in tool that does the work.
    pub fn worker(&self) -> &'static str {
        self.mapping.worker()
    }

    /// Takes over where the built-in tool runs, and whether it only reads.
    pub fn run_like(&mut self, worker: &Manifest) {
        (self.manifest.read_only, self.manifest.room) = (worker.read_only, worker.room);
    }
}

fn mapping(manifest: &Manifest) -> Result<&'static dyn Mapping, String> {
    let takes = |field: &str| manifest.input_schema["properties"].get(field).is_some();
    match (manifest.runner, manifest.name.as_str()) {
        (Runner::Internal, "read-file") => Ok(&read_file::ReadFile),
        (Runner::Internal, "write-file") => Ok(&write_file::WriteFile),
        (Runner::Internal, name) => {
            Err(format!("`runner: internal` is for `read-file` and `write-file`; nothing here does the work of `{name}`"))
        }
        (Runner::Shell, _) if takes("command") => Ok(&shell_exec::ShellExec),
        (Runner::Shell, _) => Err("`runner: shell` wants a `command`, of its own or in its input_schema".to_owned()),
        (Runner::Http, _) if takes("url") => Ok(&http_request::AdaptedHttpRequest),
        (Runner::Http, _) => Err("`runner: http` wants a `url` in its input_schema".to_owned()),
        (Runner::Container, _) => Err("`runner: container` wants a `command`".to_owned()),
    }
}

impl Tool for AdaptedTool {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn adapter(&self) -> Option<&dyn Adapter> {
        Some(self)
    }

    fn dry_run(&self, _input: &Value, _paths: &[ResolvedPath], _context: &Context<'_>) -> Result<String, ToolStop> {
        Ok(format!("call `{}`", self.worker()))
    }

    fn execute<'a>(&'a self, _input: &'a Value, _paths: Vec<ResolvedPath>, _context: &'a Context<'a>) -> ToolFuture<'a> {
        // INVARIANT: the door makes another call of it before anything runs.
        let refusal = Refusal::new(Code::Unsupported, format!("`{}` runs as `{}`", self.manifest.name, self.worker()));
        Box::pin(std::future::ready(Err(refusal.into())))
    }
}

impl Adapter for AdaptedTool {
    fn tool(&self) -> &str {
        self.worker()
    }

    fn input(&self, input: &Value) -> Result<Value, Refusal> {
        let names = self.mapping.fields();
        // A field that is left behind would make another call of it.
        if let Some(foreign) = input.as_object().and_then(|given| given.keys().find(|key| !names.contains(&key.as_str()))) {
            let reason = format!("`{}` is done by `{}`, which takes no `{foreign}`", self.manifest.name, self.worker());
            return Err(Refusal::new(Code::BadInput, reason).hint(format!("leave it out; it takes {}", names.join(", "))));
        }
        let mut fields = Map::new();
        for name in names {
            fields.extend(input.get(*name).map(|value| ((*name).to_owned(), value.clone())));
        }
        self.mapping.complete(&self.manifest, &mut fields)?;
        Ok(Value::Object(fields))
    }

    fn output(&self, value: &Value) -> Result<Value, Refusal> {
        Ok(fitting(&self.manifest, self.mapping.output(&self.manifest, value)?))
    }

    fn absence(&self) -> Option<Value> {
        Some(fitting(&self.manifest, self.mapping.absence()?))
    }
}

/// Without the fields that its own schema does not know.
fn fitting(manifest: &Manifest, mut value: Value) -> Value {
    let schema = &manifest.output_schema;
    if let (Some(fields), Some(known)) = (value.as_object_mut(), schema["properties"].as_object())
        && schema["additionalProperties"] == false
    {
        fields.retain(|name, _| known.contains_key(name));
    }
    value
}

/// A result that is longer than what the manifest's names can say.
fn too_long(what: &str, manifest: &Manifest, worker: &str) -> Refusal {
    Refusal::new(Code::TooLarge, format!("{what} is longer than `{}` can give", manifest.name))
        .hint(format!("use `{worker}`, which gives it in parts"))
}

/// An adapted result that does not fit is nobody's input error.
pub(crate) fn unfit(fault: &ToolFault) -> Refusal {
    Refusal::new(Code::WrongState, fault.to_string()).hint("mend `output_schema` in its tool.yaml, or use the built-in tool")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn manifest(name: &str, runner: &str, fields: &str, permissions: &str) -> Manifest {
        let text = format!(
            "name: {name}\nversion: 1.0.0\ndescription: d\nrunner: {runner}\ninput_schema: {{type: object, properties: {{{fields}}}}}\n\
             output_schema: {{}}\npermissions: [{permissions}]\ntimeout_ms: 5000\n"
        );
        Manifest::parse(&text, "tool.yaml").unwrap()
    }

    fn adapted(name: &str, runner: &str, fields: &str, permissions: &str) -> AdaptedTool {
        AdaptedTool::new(manifest(name, runner, fields, permissions)).unwrap()
    }

    #[test]
    fn what_does_the_work_is_found_by_runner_and_name() {
        let of =
            |name, runner, fields, permissions| AdaptedTool::new(manifest(name, runner, fields, permissions)).map(|tool| tool.worker());
        assert_eq!(of("read-file", "internal", "path: {}", "'filesystem:read:workspace'"), Ok("fs.read"));
        assert_eq!(of("write-file", "internal", "path: {}", "'filesystem:write:workspace'"), Ok("fs.write"));
        assert_eq!(of("shell-exec", "shell", "command: {}", "'shell:exec:workspace'"), Ok("shell.run"));
        assert_eq!(of("http-request", "http", "url: {}", "'network:request:https'"), Ok("http.request"));
        for (name, runner, fields, permissions, why) in [
            ("browser", "internal", "x: {}", "", "nothing here does the work of `browser`"),
            ("x", "shell", "x: {}", "'shell:exec:workspace'", "`runner: shell` wants a `command`"),
            ("x", "http", "x: {}", "'network:request:*'", "`runner: http` wants a `url`"),
            ("x", "container", "command: {}", "'shell:exec:workspace'", "`runner: container` wants a `command`"),
            ("write-file", "internal", "path: {}", "'filesystem:read:workspace'", "do not name `filesystem:write:workspace`"),
            ("http-request", "http", "url: {}", "", "do not name `network:request:*`"),
            ("read-file", "internal", "path: {}", "'filesystem:read:/etc'", "`filesystem:read:/etc` is more than a sandbox gives"),
        ] {
            let told = of(name, runner, fields, permissions).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn fields_change_their_names_and_none_is_lost() {
        let shell = adapted("shell-exec", "shell", "command: {}", "'shell:exec:workspace'");
        let input = shell.input(&json!({"command": "ls | wc", "cwd": "src"})).unwrap();
        assert_eq!(input, json!({"command": ["sh", "-c", "ls | wc"], "cwd": "src", "timeout_ms": 5000}));
        assert_eq!(shell.input(&json!({"command": ["ls"]})).unwrap()["command"], json!(["ls"]));
        let refusal = shell.input(&json!({"command": "x", "env": {}})).unwrap_err();
        assert_eq!(refusal.reason, "`shell-exec` is done by `shell.run`, which takes no `env`");
        let output = |value| shell.output(&value).unwrap()["exit_code"].clone();
        assert_eq!(output(json!({"exit_code": 3, "timed_out": false})), 3);
        assert_eq!(output(json!({"signal": 9, "timed_out": false})), 137);
        assert_eq!(output(json!({"signal": 9, "timed_out": true})), 124);
        let read = adapted("read-file", "internal", "path: {}", "'filesystem:read:workspace'");
        let part = json!({"content": "a", "size": 9, "truncated": true});
        assert_eq!(read.output(&part).unwrap_err().code, Code::TooLarge);
    }

    #[test]
    fn https_means_https() {
        let only = adapted("http-request", "http", "url: {}", "'network:request:https'");
        let ask = |url: &str| only.input(&json!({"url": url, "method": "GET"}));
        assert_eq!(ask("https://example.com/").unwrap()["timeout_ms"], 5000);
        let refusal = ask("http://example.com/").unwrap_err();
        assert_eq!(
            (refusal.code, &*refusal.reason),
            (Code::Denied, "`http-request` may not ask `http://example.com/`: its permissions say `network:request:https`")
        );
        let host = adapted("http-request", "http", "url: {}", "'network:request:api.example.com'");
        assert!(host.input(&json!({"url": "https://api.example.com/x"})).is_ok());
        assert!(host.input(&json!({"url": "https://api.example.com.evil/x"})).is_err());
    }
}
