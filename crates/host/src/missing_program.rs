//! A program that a room lacks: where the person has it, and the exact lines of config.yml that show it.

use crate::Rooms;
use tool::{Output, ToolStop};
use world::Code;

/// What shells, `env` and `make` say of a program that is not there.
const MISSING: &[&str] = &[": command not found", ": not found", ": No such file or directory"];

/// The exit code with which a shell says that it found no program.
const NOT_FOUND: i64 = 127;

/// Adds a remedy to the end of a command that came to nothing for want of a program.
pub async fn explain_missing_program(rooms: &Rooms, mut result: Result<Output, ToolStop>) -> Result<Output, ToolStop> {
    let program = match &result {
        Err(ToolStop::Refused(refusal)) if refusal.code == Code::NotFound => unstarted(&refusal.reason),
        Ok(output) if !output.ok && output.value.get("hint").is_none() => unfound(&output.value),
        _ => None,
    };
    let Some(program) = program.map(str::to_owned) else { return result };
    let remedy = rooms.settings().toolchains.get().await.remedy_for(&program);
    match &mut result {
        Err(ToolStop::Refused(refusal)) => refusal.hint = Some(remedy),
        Ok(output) => {
            output.value["error"] = format!("`{program}` was not found in the sandbox").into();
            output.value["hint"] = remedy.into();
        }
        Err(ToolStop::Failed(_)) => {}
    }
    result
}

/// The program that a refusal of the sandbox names.
fn unstarted(reason: &str) -> Option<&str> {
    reason.strip_suffix("` was not found in the sandbox")?.strip_prefix('`')
}

/// The program that a shell in the room looked for.
fn unfound(value: &serde_json::Value) -> Option<&str> {
    let stderr = value["stderr"].as_str()?;
    if value["exit_code"].as_i64() != Some(NOT_FOUND) && !stderr.contains("Error 127") {
        return None;
    }
    stderr.lines().find_map(|line| {
        let before = MISSING.iter().find_map(|end| line.trim_end().strip_suffix(end))?;
        let name = before.rsplit_once(": ").map_or(before, |(_, name)| name).trim_matches(['\'', '‘', '’', '`', '"']);
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_.+/-@".contains(c));
        is_name.then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_program_is_read_out_of_what_shells_say() {
        for (stderr, expected) in [
            ("sh: 1: cargo: not found\n", Some("cargo")),
            ("bash: line 1: go: command not found\n", Some("go")),
            ("/bin/sh: vitest: command not found\n", Some("vitest")),
            ("env: ‘node’: No such file or directory\n", Some("node")),
            ("/usr/bin/env: 'python3.12': No such file or directory\n", Some("python3.12")),
            ("it said nothing of the kind\n", None),
        ] {
            assert_eq!(unfound(&json!({ "exit_code": 127, "stderr": stderr })), expected, "{stderr}");
        }
        let of_make = "make: cargo: No such file or directory\nmake: *** [Makefile:2: test] Error 127\n";
        assert_eq!(unfound(&json!({ "exit_code": 2, "stderr": of_make })), Some("cargo"));
        assert_eq!(unfound(&json!({ "exit_code": 1, "stderr": "sh: 1: cargo: not found\n" })), None);
        assert_eq!(unstarted("`cargo` was not found in the sandbox"), Some("cargo"));
        assert_eq!(unstarted("no such file"), None);
    }
}
