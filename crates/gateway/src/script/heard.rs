//! A request in any dialect, boiled down to what a script can react to: who said what in which order, and which tools there are.
//!
//! Lenient: what it does not know it skips. A conversation's place in a script follows from this alone.

use crate::Dialect;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    User(String),
    Model,
    Results(Vec<Outcome>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub ok: bool,
    pub text: String,
}

/// A tool that the request offers to the model.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tool {
    pub name: String,
    /// Takes text instead of JSON, as Codex's `apply_patch` does.
    pub free: bool,
    pub schema: Value,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Heard {
    pub turns: Vec<Turn>,
    pub tools: Vec<Tool>,
    /// The shape that the answer must have, where one is asked for.
    pub schema: Option<Value>,
    /// The folder that the client says it is in.
    pub cwd: Option<String>,
    /// A chat client asked for usage at the end of the stream.
    pub usage_asked: bool,
}

impl Heard {
    pub(super) fn read(dialect: Dialect, body: &Value) -> Heard {
        let mut heard = Heard::default();
        match dialect {
            Dialect::Anthropic => heard.anthropic(body),
            Dialect::Responses => heard.responses(body),
            Dialect::Chat => heard.chat(body),
            Dialect::Gemini => heard.gemini(body),
        }
        heard
    }

    fn anthropic(&mut self, body: &Value) {
        self.place(&words(&body["system"]));
        for message in list(&body["messages"]) {
            let content = &message["content"];
            let results: Vec<Outcome> = list(content)
                .filter(|block| block["type"] == "tool_result")
                .map(|block| outcome(block["is_error"] == true, words(&block["content"])))
                .collect();
            match message["role"].as_str() {
                // Reminders that come with results are not a new message of the user.
                Some("user") if !results.is_empty() => self.results(results),
                Some("user") => self.user(words(content)),
                Some("assistant") => self.model(),
                Some("system") => self.place(&words(content)),
                _ => {}
            }
        }
        for tool in list(&body["tools"]) {
            self.tool(tool["name"].as_str(), false, &tool["input_schema"]);
        }
        let format = [&body["output_config"]["format"], &body["output_format"]].into_iter().find(|format| format["type"] == "json_schema");
        self.schema = format.map(|format| format["schema"].clone());
    }

    fn responses(&mut self, body: &Value) {
        self.place(&words(&body["instructions"]));
        if let Some(text) = body["input"].as_str() {
            self.user(text.to_owned());
        }
        for item in list(&body["input"]) {
            match (item["type"].as_str().unwrap_or("message"), item["role"].as_str()) {
                ("message", Some("user")) => self.user(words(&item["content"])),
                ("message", Some("assistant")) => self.model(),
                ("message", _) => self.place(&words(&item["content"])),
                ("additional_tools", _) => self.open_tools(&item["tools"]),
                (kind, _) if kind.ends_with("_output") => self.results(vec![outcome(false, words(&item["output"]))]),
                (kind, _) if kind == "reasoning" || kind.ends_with("_call") => self.model(),
                _ => {}
            }
        }
        self.open_tools(&body["tools"]);
        if body["text"]["format"]["type"] == "json_schema" {
            self.schema = Some(body["text"]["format"]["schema"].clone());
        }
    }

    /// Tools of Responses; a namespace has tools within.
    fn open_tools(&mut self, tools: &Value) {
        for tool in list(tools) {
            match tool["type"].as_str() {
                Some("function") => self.tool(tool["name"].as_str(), false, &tool["parameters"]),
                Some("custom") => self.tool(tool["name"].as_str(), true, &Value::Null),
                Some("namespace") => self.open_tools(&tool["tools"]),
                _ => {}
            }
        }
    }

    fn chat(&mut self, body: &Value) {
        for message in list(&body["messages"]) {
            let text = words(&message["content"]);
            match message["role"].as_str() {
                Some("user") => self.user(text),
                Some("assistant") => self.model(),
                Some("tool" | "function") => self.results(vec![outcome(false, text)]),
                Some("system" | "developer") => self.place(&text),
                _ => {}
            }
        }
        for tool in list(&body["tools"]) {
            self.tool(tool["function"]["name"].as_str(), false, &tool["function"]["parameters"]);
        }
        if body["response_format"]["type"] == "json_schema" {
            self.schema = Some(body["response_format"]["json_schema"]["schema"].clone());
        }
        self.usage_asked = body["stream_options"]["include_usage"] == true;
    }

    fn gemini(&mut self, body: &Value) {
        let either = |one: &str, other: &str| if body[one].is_null() { body[other].clone() } else { body[one].clone() };
        self.place(&words(&either("systemInstruction", "system_instruction")["parts"]));
        for content in list(&body["contents"]) {
            let responses = list(&content["parts"]).map(|part| &part["functionResponse"]).filter(|response| !response.is_null());
            let results: Vec<Outcome> = responses
                .map(|response| {
                    let response = &response["response"];
                    let text = response["output"].as_str().map_or_else(|| response.to_string(), str::to_owned);
                    outcome(!response["error"].is_null(), text)
                })
                .collect();
            match content["role"].as_str() {
                Some("model") => self.model(),
                _ if !results.is_empty() => self.results(results),
                _ => self.user(words(&content["parts"])),
            }
        }
        for tool in list(&body["tools"]) {
            for function in list(&tool["functionDeclarations"]).chain(list(&tool["function_declarations"])) {
                let schema = [&function["parametersJsonSchema"], &function["parameters"]].into_iter().find(|schema| !schema.is_null());
                self.tool(function["name"].as_str(), false, schema.unwrap_or(&Value::Null));
            }
        }
        let config = either("generationConfig", "generation_config");
        self.schema = ["responseJsonSchema", "responseSchema"].iter().map(|name| &config[*name]).find(|schema| !schema.is_null()).cloned();
    }

    fn user(&mut self, text: String) {
        self.place(&text);
        self.turns.push(Turn::User(text));
    }

    /// What a model says in several pieces is one turn.
    fn model(&mut self) {
        if self.turns.last() != Some(&Turn::Model) {
            self.turns.push(Turn::Model);
        }
    }

    fn results(&mut self, new: Vec<Outcome>) {
        match self.turns.last_mut() {
            Some(Turn::Results(results)) => results.extend(new),
            _ => self.turns.push(Turn::Results(new)),
        }
    }

    fn tool(&mut self, name: Option<&str>, free: bool, schema: &Value) {
        if let Some(name) = name {
            self.tools.push(Tool { name: name.to_owned(), free, schema: schema.clone() });
        }
    }

    /// Looks for the folder that the client works in; each has its own words for it, none in a field of its own.
    fn place(&mut self, text: &str) {
        const SIGNS: &[&str] =
            &["<cwd>", "orking directory: ", "orking directory is: ", "orking directory is ", "Workspace Directories:**\n  - "];
        if self.cwd.is_some() {
            return;
        }
        self.cwd = SIGNS.iter().find_map(|sign| {
            let rest = text.split_once(sign)?.1.trim_start_matches('`');
            let path = rest.split(['\n', '<', '`']).next().unwrap_or(rest).trim().trim_end_matches('.');
            path.starts_with('/').then(|| path.to_owned())
        });
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The text in a content: itself, or that of its parts.
fn words(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

/// Not every dialect has a flag for a failed call; then the words that the clients use for it have to do.
fn outcome(failed: bool, text: String) -> Outcome {
    let code = ["exited with code ", "Exit code: ", "exit_code\":", "Exit Code: ", "exit code "]
        .iter()
        .find_map(|sign| text.split_once(sign).map(|(_, rest)| rest.trim_start().starts_with(|c: char| matches!(c, '1'..='9' | '-'))));
    let start = ["Error", "error:", "<error>", "<tool_use_error>", "exec_command failed"].iter().any(|sign| text.starts_with(sign));
    Outcome { ok: !(failed || code == Some(true) || start), text }
}
