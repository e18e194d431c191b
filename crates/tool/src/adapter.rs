//! A manifest in KarnEvil9's form names no program: `runner: internal`, `shell` or `http`, and the work is that of a built-in tool.
//!
//! **Invariant.** A call of such a tool is judged, recorded and run as a call of the built-in one; only the names of fields differ. What
//! the manifest's `permissions` do not name is refused, when it is loaded or when it is called.

use crate::fault::{ToolFault, ToolStop};
use crate::manifest::{Manifest, Runner};
use crate::permission::{Permission, Permissions};
use serde_json::{Map, Value, json};
use world::{Code, Refusal};

/// Which built-in tool does the work, and how its fields are called outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Adapter {
    ReadFile,
    WriteFile,
    ShellExec,
    HttpRequest,
}

/// As a shell says it of a command that `timeout` ended.
const EXIT_TIMED_OUT: u64 = 124;
/// As a shell says it of a command that a signal ended.
const EXIT_SIGNAL: u64 = 128;
/// The longest time that `http.request` takes in its input.
const HTTP_MS_MAX: u64 = 300_000;

impl Adapter {
    /// For a manifest without a `command`; else why nothing here does its work.
    pub fn of(manifest: &Manifest) -> Result<Adapter, String> {
        let takes = |field: &str| manifest.input_schema["properties"].get(field).is_some();
        let adapter = match (manifest.runner, manifest.name.as_str()) {
            (Runner::Internal, "read-file") => Adapter::ReadFile,
            (Runner::Internal, "write-file") => Adapter::WriteFile,
            (Runner::Internal, name) => {
                return Err(format!("`runner: internal` is for `read-file` and `write-file`; nothing here does the work of `{name}`"));
            }
            (Runner::Shell, _) if takes("command") => Adapter::ShellExec,
            (Runner::Shell, _) => return Err("`runner: shell` wants a `command`, of its own or in its input_schema".to_owned()),
            (Runner::Http, _) if takes("url") => Adapter::HttpRequest,
            (Runner::Http, _) => return Err("`runner: http` wants a `url` in its input_schema".to_owned()),
            (Runner::Container, _) => return Err("`runner: container` wants a `command`".to_owned()),
        };
        let needed = adapter.needs();
        if !Permissions::of(manifest)?.covers(&needed) {
            return Err(format!("its work is done by `{}`, and its `permissions` do not name `{needed}`", adapter.tool()));
        }
        Ok(adapter)
    }

    /// The built-in tool.
    pub fn tool(self) -> &'static str {
        match self {
            Adapter::ReadFile => "fs.read",
            Adapter::WriteFile => "fs.write",
            Adapter::ShellExec => "shell.run",
            Adapter::HttpRequest => "http.request",
        }
    }

    fn needs(self) -> Permission {
        match self {
            Adapter::ReadFile => Permission::Read,
            Adapter::WriteFile => Permission::Write,
            Adapter::ShellExec => Permission::Exec,
            Adapter::HttpRequest => Permission::Network("*".to_owned()),
        }
    }

    /// What the built-in tool gets for a checked input.
    pub fn input(self, manifest: &Manifest, input: &Value) -> Result<Value, Refusal> {
        let mut fields = Map::new();
        let names: &[&str] = match self {
            Adapter::ReadFile => &["path"],
            Adapter::WriteFile => &["path", "content"],
            Adapter::ShellExec => &["command", "cwd"],
            Adapter::HttpRequest => &["url", "method", "headers", "body"],
        };
        // A field that is left behind would make another call of it.
        if let Some(foreign) = input.as_object().and_then(|given| given.keys().find(|key| !names.contains(&key.as_str()))) {
            let reason = format!("`{}` is done by `{}`, which takes no `{foreign}`", manifest.name, self.tool());
            return Err(Refusal::new(Code::BadInput, reason).hint(format!("leave it out; it takes {}", names.join(", "))));
        }
        for name in names {
            fields.extend(input.get(*name).map(|value| ((*name).to_owned(), value.clone())));
        }
        match self {
            Adapter::ReadFile | Adapter::WriteFile => {}
            Adapter::ShellExec => {
                if let Some(line) = fields.get("command").and_then(Value::as_str) {
                    fields.insert("command".to_owned(), json!(["sh", "-c", line]));
                }
                fields.insert("timeout_ms".to_owned(), manifest.timeout_ms.into());
            }
            Adapter::HttpRequest => {
                let url = fields.get("url").and_then(Value::as_str).unwrap_or_default();
                Permissions::of(manifest).map_err(|why| Refusal::new(Code::Denied, why))?.allow_url(&manifest.name, url)?;
                fields.insert("timeout_ms".to_owned(), manifest.timeout_ms.min(HTTP_MS_MAX).into());
            }
        }
        Ok(Value::Object(fields))
    }

    /// The built-in tool's result under the manifest's names. A result of which they could say only a part is refused.
    pub fn output(self, manifest: &Manifest, value: &Value) -> Result<Value, Refusal> {
        let is = |field: &str| value[field].as_bool() == Some(true);
        let cut = |what: &str| {
            Refusal::new(Code::TooLarge, format!("{what} is longer than `{}` can give", manifest.name))
                .hint(format!("use `{}`, which gives it in parts", self.tool()))
        };
        let given = match self {
            Adapter::ReadFile if is("truncated") => return Err(cut("the file")),
            Adapter::ReadFile => json!({ "content": value["content"], "exists": true, "size_bytes": value["size"] }),
            Adapter::WriteFile => json!({ "written": true, "bytes_written": value["bytes"] }),
            Adapter::ShellExec => {
                let exit = match (value["exit_code"].as_u64(), value["signal"].as_u64()) {
                    _ if is("timed_out") => EXIT_TIMED_OUT,
                    (Some(code), _) => code,
                    (None, signal) => EXIT_SIGNAL + signal.unwrap_or(0),
                };
                json!({ "exit_code": exit, "stdout": value["stdout"], "stderr": value["stderr"] })
            }
            Adapter::HttpRequest if is("truncated") => return Err(cut("the answer")),
            Adapter::HttpRequest if value["encoding"] != "utf-8" => {
                let reason = format!("the answer is not text, and `{}` gives only text", manifest.name);
                return Err(Refusal::new(Code::Unsupported, reason).hint("use `http.request`, which gives it as base64"));
            }
            Adapter::HttpRequest => json!({ "status": value["status"], "body": value["body"], "headers": value["headers"] }),
        };
        Ok(fitting(manifest, given))
    }

    /// The result where the built-in tool found nothing: KarnEvil9's `read-file` says so instead of failing.
    pub fn absent(self, manifest: &Manifest) -> Option<Value> {
        (self == Adapter::ReadFile).then(|| fitting(manifest, json!({ "content": "", "exists": false, "size_bytes": 0 })))
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

/// An adapted result that does not fit is nobody's input error.
pub(crate) fn unfit(fault: &ToolFault) -> Refusal {
    Refusal::new(Code::WrongState, fault.to_string()).hint("mend `output_schema` in its tool.yaml, or use the built-in tool")
}

pub(crate) fn refusal(stop: ToolStop) -> Refusal {
    match stop {
        ToolStop::Refused(refusal) => refusal,
        ToolStop::Failed(fault) => unfit(&fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(name: &str, runner: &str, fields: &str, permissions: &str) -> Manifest {
        let text = format!(
            "name: {name}\nversion: 1.0.0\ndescription: d\nrunner: {runner}\ninput_schema: {{type: object, properties: {{{fields}}}}}\n\
             output_schema: {{}}\npermissions: [{permissions}]\ntimeout_ms: 5000\n"
        );
        Manifest::parse(&text, "tool.yaml").unwrap()
    }

    #[test]
    fn what_does_the_work_is_found_by_runner_and_name() {
        let of = |name, runner, fields, permissions| Adapter::of(&manifest(name, runner, fields, permissions));
        assert_eq!(of("read-file", "internal", "path: {}", "'filesystem:read:workspace'"), Ok(Adapter::ReadFile));
        assert_eq!(of("write-file", "internal", "path: {}", "'filesystem:write:workspace'"), Ok(Adapter::WriteFile));
        assert_eq!(of("shell-exec", "shell", "command: {}", "'shell:exec:workspace'"), Ok(Adapter::ShellExec));
        assert_eq!(of("http-request", "http", "url: {}", "'network:request:https'"), Ok(Adapter::HttpRequest));
        for (name, runner, fields, permissions, why) in [
            ("browser", "internal", "x: {}", "", "nothing here does the work of `browser`"),
            ("x", "shell", "x: {}", "'shell:exec:workspace'", "`runner: shell` wants a `command`"),
            ("x", "http", "x: {}", "'network:request:*'", "`runner: http` wants a `url`"),
            ("x", "container", "command: {}", "'shell:exec:workspace'", "`runner: container` wants a `command`"),
            ("write-file", "internal", "path: {}", "'filesystem:read:workspace'", "do not name `filesystem:write:workspace`"),
            ("http-request", "http", "url: {}", "", "do not name `network:request:*`"),
            ("read-file", "internal", "path: {}", "'filesystem:read:/etc'", "`filesystem:read:/etc` is more than a room gives"),
        ] {
            let told = of(name, runner, fields, permissions).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn fields_change_their_names_and_none_is_lost() {
        let shell = manifest("shell-exec", "shell", "command: {}", "'shell:exec:workspace'");
        let input = Adapter::ShellExec.input(&shell, &json!({"command": "ls | wc", "cwd": "src"})).unwrap();
        assert_eq!(input, json!({"command": ["sh", "-c", "ls | wc"], "cwd": "src", "timeout_ms": 5000}));
        assert_eq!(Adapter::ShellExec.input(&shell, &json!({"command": ["ls"]})).unwrap()["command"], json!(["ls"]));
        let refusal = Adapter::ShellExec.input(&shell, &json!({"command": "x", "env": {}})).unwrap_err();
        assert_eq!(refusal.reason, "`shell-exec` is done by `shell.run`, which takes no `env`");
        let output = |value| Adapter::ShellExec.output(&shell, &value).unwrap()["exit_code"].clone();
        assert_eq!(output(json!({"exit_code": 3, "timed_out": false})), 3);
        assert_eq!(output(json!({"signal": 9, "timed_out": false})), 137);
        assert_eq!(output(json!({"signal": 9, "timed_out": true})), 124);
        let read = manifest("read-file", "internal", "path: {}", "'filesystem:read:workspace'");
        let part = json!({"content": "a", "size": 9, "truncated": true});
        assert_eq!(Adapter::ReadFile.output(&read, &part).unwrap_err().code, Code::TooLarge);
    }

    #[test]
    fn https_means_https() {
        let only = manifest("http-request", "http", "url: {}", "'network:request:https'");
        let ask = |url: &str| Adapter::HttpRequest.input(&only, &json!({"url": url, "method": "GET"}));
        assert_eq!(ask("https://example.com/").unwrap()["timeout_ms"], 5000);
        let refusal = ask("http://example.com/").unwrap_err();
        assert_eq!(
            (refusal.code, &*refusal.reason),
            (Code::Denied, "`http-request` may not ask `http://example.com/`: its permissions say `network:request:https`")
        );
        let host = manifest("http-request", "http", "url: {}", "'network:request:api.example.com'");
        assert!(Adapter::HttpRequest.input(&host, &json!({"url": "https://api.example.com/x"})).is_ok());
        assert!(Adapter::HttpRequest.input(&host, &json!({"url": "https://api.example.com.evil/x"})).is_err());
    }
}
