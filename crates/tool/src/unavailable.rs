//! The answer to a call of a tool that there is, but not now: what state things are in, and what there is instead.

use serde::Serialize;
use serde_json::json;
use world::{Code, Refusal};

/// Seed 003's `ToolUnavailableError`. It serializes with `"error": "tool_unavailable"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "error", rename = "tool_unavailable")]
pub struct ToolUnavailable {
    pub tool_name: String,
    /// Of the workflow, or of what else is in the way.
    pub current_state: String,
    pub reason: String,
    pub available_tools: Vec<String>,
}

impl From<&ToolUnavailable> for Refusal {
    fn from(no: &ToolUnavailable) -> Refusal {
        let hint = match no.available_tools.as_slice() {
            [] => "no tool is available in this state".to_owned(),
            tools => format!("available now: {}", tools.join(", ")),
        };
        let refusal =
            Refusal::new(Code::WrongState, format!("`{}` is not available in state {}: {}", no.tool_name, no.current_state, no.reason))
                .hint(hint);
        let fields = [
            ("error", json!("tool_unavailable")),
            ("tool_name", json!(no.tool_name)),
            ("current_state", json!(no.current_state)),
            ("reason", json!(no.reason)),
            ("available_tools", json!(no.available_tools)),
            // The state passes, and the call is as good then as it is now.
            ("is_retryable", json!(true)),
        ];
        refusal.detail(fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_there_is_instead() {
        let no = ToolUnavailable {
            tool_name: "fs.write".into(),
            current_state: "validating".into(),
            reason: "tests are being run".into(),
            available_tools: vec!["fs.read".into(), "test.run".into()],
        };
        let expect = json!({
            "error": "tool_unavailable",
            "tool_name": "fs.write",
            "current_state": "validating",
            "reason": "tests are being run",
            "available_tools": ["fs.read", "test.run"],
        });
        assert_eq!(serde_json::to_value(&no).unwrap(), expect);
        let refusal = Refusal::from(&no);
        assert_eq!(refusal.reason, "`fs.write` is not available in state validating: tests are being run");
        assert_eq!(refusal.hint.as_deref(), Some("available now: fs.read, test.run"));
        // The caller gets the same as structure, and that it may ask again.
        let mut told = expect;
        told["is_retryable"] = json!(true);
        told["hint"] = json!("available now: fs.read, test.run");
        assert_eq!(refusal.told(), told);
    }
}
