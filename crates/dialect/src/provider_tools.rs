//! The tools that a request has its provider run: searches, pages, code, other people's servers. Nothing of that passes the room first.
//!
//! A tool that comes back as a call to whoever asked is the client's own. **Invariant.** What is not known to be the client's own counts
//! as the provider's, under its own name.

use crate::format::WireFormat;
use crate::members::{Members, text};
use aho_corasick::AhoCorasick;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// Names that mean the same whatever a provider calls it.
pub const KNOWN: &[&str] = &["code_execution", "file_search", "image_generation", "maps", "mcp", "web_fetch", "web_search"];

pub const WEB_FETCH: &str = "web_fetch";
pub const WEB_SEARCH: &str = "web_search";

/// Kinds of tools in one request. The vendors have about ten.
const NAMES_MAX: usize = 32;
const NAME_BYTES_MAX: usize = 64;
/// A namespace of tools may lie in another.
const DEPTH_MAX: usize = 4;

/// Why a tool without a type is refused, where the dialect has no such.
pub(crate) const NO_TYPE: &str = "one of its `tools` has no `type`";

/// Who runs a tool that a request offers.
pub(crate) enum ToolOwner<'a> {
    /// It comes back as a call to the client.
    Client,
    /// The provider runs it, or them; by the names that the vendor has.
    Provider(Vec<String>),
    /// It is a list of tools itself, where it has any.
    Inner(Option<&'a str>),
}

/// Everything that a request has its provider run, by name.
pub(crate) fn wanted(format: &dyn WireFormat, members: &Members<'_>) -> Result<BTreeSet<String>, String> {
    let mut names = BTreeSet::new();
    if let Some((tools, _)) = members.one(&["tools"])? {
        add_list(format, tools, &mut names, 0)?;
    }
    for (member, name) in format.tool_members() {
        if members.one(member)?.is_some_and(|(value, _)| !matches!(value, "null" | "false" | "[]")) {
            names.insert((*name).to_owned());
        }
    }
    if format.has_tools_in_conversation() {
        for member in format.conversation_members() {
            if let Some((items, _)) = members.one(member)? {
                add_conversation(format, items, &mut names)?;
            }
        }
    }
    if names.len() > NAMES_MAX {
        return Err(format!("its tools are of more than {NAMES_MAX} kinds"));
    }
    Ok(names)
}

/// Models that search whether or not a request asks for it.
pub fn of_model(model: &str) -> Option<&'static str> {
    let model = model.to_ascii_lowercase();
    let last = model.rsplit('/').next().unwrap_or(&model);
    let searches = last.contains("-search-preview")
        || last.contains("-search-api")
        || last.contains("deep-research")
        || last.ends_with(":online")
        || last.starts_with("sonar")
        || last.starts_with("compound");
    searches.then_some(WEB_SEARCH)
}

fn add_list(format: &dyn WireFormat, tools: &str, names: &mut BTreeSet<String>, depth: usize) -> Result<(), String> {
    if tools == "null" {
        return Ok(());
    }
    if format.takes_a_single_tool() && tools.starts_with('{') {
        return add_tool(format, tools, names, depth);
    }
    let tools: Vec<&RawValue> = serde_json::from_str(tools).map_err(|_| "`tools` is not a list".to_owned())?;
    tools.iter().try_for_each(|tool| add_tool(format, tool.get(), names, depth))
}

fn add_tool(format: &dyn WireFormat, tool: &str, names: &mut BTreeSet<String>, depth: usize) -> Result<(), String> {
    if !tool.starts_with('{') {
        return Err("one of its `tools` is not an object".to_owned());
    }
    match format.tool_owner(&Members::read(tool)?)? {
        ToolOwner::Client => Ok(()),
        ToolOwner::Provider(kinds) => {
            names.extend(kinds.iter().map(|kind| common_name(kind)));
            Ok(())
        }
        ToolOwner::Inner(_) if depth == DEPTH_MAX => Err("its `tools` are nested too deep".to_owned()),
        ToolOwner::Inner(tools) => tools.map_or(Ok(()), |tools| add_list(format, tools, names, depth + 1)),
    }
}

/// The `type` of a tool, where it has one.
pub(crate) fn tool_type(tool: &Members<'_>) -> Result<Option<String>, String> {
    let kind = tool.one(&["type"])?.filter(|(value, _)| *value != "null");
    kind.map(|(value, _)| text("type", value).map_err(|_| "the `type` of a tool is not text".to_owned())).transpose()
}

/// The tools of the items of a conversation.
fn add_conversation(format: &dyn WireFormat, items: &str, names: &mut BTreeSet<String>) -> Result<(), String> {
    static FIND: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    // A letter can be written as its number.
    let make = || AhoCorasick::builder().ascii_case_insensitive(true).build(["\"tools\"", "\\u00"]).ok();
    let may = FIND.get_or_init(make).as_ref().is_none_or(|find| find.is_match(items));
    if !may || !items.starts_with('[') {
        return Ok(());
    }
    let items: Vec<&RawValue> = serde_json::from_str(items).map_err(|error| error.to_string())?;
    for item in items.iter().filter(|item| item.get().starts_with('{')) {
        if let Some((tools, _)) = Members::read(item.get())?.one(&["tools"])? {
            // What the provider's own search found among tools that stand elsewhere.
            add_list(format, tools, names, 0)?;
        }
    }
    Ok(())
}

/// The name that a tool has in every dialect.
fn common_name(kind: &str) -> String {
    let kind = snake_case(undated(kind));
    let starts = |words: &[&str]| words.iter().any(|word| kind.starts_with(word));
    if starts(&["web_search", "google_search", "enterprise_web_search"]) {
        return WEB_SEARCH.to_owned();
    }
    if starts(&["web_fetch", "url_context"]) {
        return WEB_FETCH.to_owned();
    }
    let name = match kind.as_str() {
        "code_interpreter" | "shell" => "code_execution",
        "mcp_toolset" | "mcp_servers" => "mcp",
        "retrieval" => "file_search",
        "google_maps" => "maps",
        other => other,
    };
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_-.:$".contains(c) { c } else { '?' };
    name.chars().take(NAME_BYTES_MAX).map(plain).collect()
}

/// `web_search_20250305` is `web_search`.
pub(crate) fn undated(kind: &str) -> &str {
    let dated = |date: &str| date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit());
    kind.rsplit_once('_').filter(|(_, date)| dated(date)).map_or(kind, |(name, _)| name)
}

/// `googleSearch` is `google_search`: Google takes both.
pub(crate) fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests;
