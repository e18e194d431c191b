//! A client's request as the scripted model sees it: who said what in which order, and which tools there are.
//!
//! Lenient: what is not known here is skipped. A conversation's place in a script follows from this alone.

use crate::Dialect;
use serde_json::Value;

/// One turn of the conversation. What the model said does not matter, only that it spoke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientTurn {
    User(String),
    Model,
    Results(Vec<ToolOutcome>),
}

/// The result of a call that the client made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutcome {
    pub ok: bool,
    pub text: String,
}

/// A tool that the request offers to the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OfferedTool {
    pub name: String,
    /// Codex's word for where it comes from, such as `mcp__skep`; a call must name it too.
    pub namespace: Option<String>,
    /// Finds tools that are not offered yet, as Codex has it for those of MCP servers.
    pub is_search: bool,
    /// Takes text instead of JSON, as Codex's `apply_patch` does.
    pub takes_text: bool,
    pub schema: Value,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientRequest {
    pub turns: Vec<ClientTurn>,
    pub tools: Vec<OfferedTool>,
    /// The schema that the answer must have, where one is asked for.
    pub answer_schema: Option<Value>,
    /// The folder that the client says it works in.
    pub folder: Option<String>,
    /// A chat client asked for usage at the end of the stream.
    pub wants_usage: bool,
}

impl Dialect {
    /// Reads the conversation and the tools of a request.
    pub fn read_conversation(self, body: &Value) -> ClientRequest {
        let mut request = ClientRequest::default();
        self.format().read_conversation(body, &mut request);
        request
    }
}

impl ClientRequest {
    pub(crate) fn add_user(&mut self, text: String) {
        self.look_for_folder(&text);
        self.turns.push(ClientTurn::User(text));
    }

    /// What a model says in several pieces is one turn.
    pub(crate) fn add_model(&mut self) {
        if self.turns.last() != Some(&ClientTurn::Model) {
            self.turns.push(ClientTurn::Model);
        }
    }

    pub(crate) fn add_results(&mut self, new: Vec<ToolOutcome>) {
        match self.turns.last_mut() {
            Some(ClientTurn::Results(results)) => results.extend(new),
            _ => self.turns.push(ClientTurn::Results(new)),
        }
    }

    pub(crate) fn add_tool(&mut self, name: Option<&str>, takes_text: bool, schema: &Value) {
        if let Some(name) = name {
            self.tools.push(OfferedTool { name: name.to_owned(), takes_text, schema: schema.clone(), ..OfferedTool::default() });
        }
    }

    /// Looks for the folder that the client works in; each has its own words for it, none in a field of its own.
    pub(crate) fn look_for_folder(&mut self, text: &str) {
        const SIGNS: &[&str] =
            &["<cwd>", "orking directory: ", "orking directory is: ", "orking directory is ", "Workspace Directories:**\n  - "];
        if self.folder.is_some() {
            return;
        }
        self.folder = SIGNS.iter().find_map(|sign| {
            let rest = text.split_once(sign)?.1.trim_start_matches('`');
            let path = rest.split(['\n', '<', '`']).next().unwrap_or(rest).trim().trim_end_matches('.');
            path.starts_with('/').then(|| path.to_owned())
        });
    }
}

impl ToolOutcome {
    /// Not every dialect has a flag for a failed call; then the words that the clients use for it have to do.
    pub(crate) fn new(has_failed: bool, text: String) -> ToolOutcome {
        let code = ["exited with code ", "Exit code: ", "exit_code\":", "Exit Code: ", "exit code "]
            .iter()
            .find_map(|sign| text.split_once(sign).map(|(_, rest)| rest.trim_start().starts_with(|c: char| matches!(c, '1'..='9' | '-'))));
        let start = ["Error", "error:", "<error>", "<tool_use_error>", "exec_command failed"].iter().any(|sign| text.starts_with(sign));
        ToolOutcome { ok: !(has_failed || code == Some(true) || start), text }
    }
}

pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The text in a content: itself, or that of its parts.
pub(crate) fn joined_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}
