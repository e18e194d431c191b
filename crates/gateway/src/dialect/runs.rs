//! What a request has its provider run: searches, pages, code, other people's servers. Nothing of it comes back to the room first.
//!
//! A tool that comes back as a call to whoever asked is the client's own. **Invariant.** What is not known to be the client's own counts
//! as the provider's, under its own name.

use super::Dialect;
use super::body::{Members, text};
use aho_corasick::AhoCorasick;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// Names that mean the same whatever a provider calls it.
pub const KNOWN: &[&str] = &["code_execution", "file_search", "image_generation", "maps", "mcp", "web_fetch", "web_search"];

pub(super) const WEB_FETCH: &str = "web_fetch";
pub(super) const WEB_SEARCH: &str = "web_search";

/// Kinds of tools in one request. The vendors have about ten.
const NAMES_MAX: usize = 32;
const NAME_BYTES_MAX: usize = 64;
/// A namespace of tools may lie in another.
const DEPTH_MAX: usize = 4;

/// Typed tools that the client runs, dates left out. The search for tools goes through those of the request and no further.
const ANTHROPIC: &[&str] = &["custom", "bash", "text_editor", "memory", "computer", "tool_search_tool_regex", "tool_search_tool_bm25"];
const RESPONSES: &[&str] =
    &["function", "custom", "local_shell", "apply_patch", "computer", "computer_use", "computer_use_preview", "tool_search"];
const CHAT: &[&str] = &["function", "custom"];
const GEMINI: &[&str] = &["function_declarations", "computer_use"];

/// Members of a request that stand for such a tool.
const BESIDE: &[(Dialect, &[&str], &str)] = &[
    (Dialect::Anthropic, &["mcp_servers"], "mcp"),
    // Skills and files for code that is run there.
    (Dialect::Anthropic, &["container"], "code_execution"),
    (Dialect::Chat, &["web_search_options"], WEB_SEARCH),
    // Of servers that speak Chat: xAI, Qwen, OpenRouter.
    (Dialect::Chat, &["search_parameters"], WEB_SEARCH),
    (Dialect::Chat, &["enable_search"], WEB_SEARCH),
    (Dialect::Chat, &["plugins"], "plugins"),
];

/// Everything that a request has its provider run, by name.
pub(super) fn asked(dialect: Dialect, members: &Members<'_>) -> Result<BTreeSet<String>, String> {
    let mut names = BTreeSet::new();
    if let Some((tools, _)) = members.one(&["tools"])? {
        list(dialect, tools, &mut names, 0)?;
    }
    for (_, member, name) in BESIDE.iter().filter(|(of, ..)| *of == dialect) {
        if members.one(member)?.is_some_and(|(value, _)| !matches!(value, "null" | "false" | "[]")) {
            names.insert((*name).to_owned());
        }
    }
    // Tools that were found on the way stand within the conversation.
    if let (Dialect::Responses, Some((input, _))) = (dialect, members.one(&["input"])?) {
        within(dialect, input, &mut names)?;
    }
    if names.len() > NAMES_MAX {
        return Err(format!("its tools are of more than {NAMES_MAX} kinds"));
    }
    Ok(names)
}

/// Models that search whether or not a request asks for it.
pub(crate) fn of_model(model: &str) -> Option<&'static str> {
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

fn list(dialect: Dialect, tools: &str, names: &mut BTreeSet<String>, depth: usize) -> Result<(), String> {
    if tools == "null" {
        return Ok(());
    }
    // Google takes one where it wants several.
    if dialect == Dialect::Gemini && tools.starts_with('{') {
        return one(dialect, tools, names, depth);
    }
    let tools: Vec<&RawValue> = serde_json::from_str(tools).map_err(|_| "`tools` is not a list".to_owned())?;
    tools.iter().try_for_each(|tool| one(dialect, tool.get(), names, depth))
}

fn one(dialect: Dialect, tool: &str, names: &mut BTreeSet<String>, depth: usize) -> Result<(), String> {
    if !tool.starts_with('{') {
        return Err("one of its `tools` is not an object".to_owned());
    }
    let tool = Members::read(tool)?;
    if dialect == Dialect::Gemini {
        let given = tool.iter().filter(|(_, value)| *value != "null").map(|(key, _)| snake(key));
        names.extend(given.filter(|name| !GEMINI.contains(&name.as_str())).map(|name| common(&name)));
        return Ok(());
    }
    let kind = match tool.one(&["type"])? {
        Some((value, _)) if value != "null" => text("type", value).map_err(|_| "the `type` of a tool is not text".to_owned())?,
        _ if dialect == Dialect::Anthropic => return Ok(()),
        _ if dialect == Dialect::Chat && tool.one(&["function"])?.is_some() => return Ok(()),
        _ => return Err("one of its `tools` has no `type`".to_owned()),
    };
    let own = match dialect {
        Dialect::Anthropic => ANTHROPIC.contains(&undated(&kind)),
        Dialect::Responses if kind == "namespace" => {
            if depth == DEPTH_MAX {
                return Err("its `tools` are nested too deep".to_owned());
            }
            return tool.one(&["tools"])?.map_or(Ok(()), |(tools, _)| list(dialect, tools, names, depth + 1));
        }
        Dialect::Responses if kind == "shell" => is_local(&tool)?,
        Dialect::Responses => RESPONSES.contains(&kind.as_str()),
        Dialect::Chat | Dialect::Gemini => CHAT.contains(&kind.as_str()),
    };
    if !own {
        names.insert(common(&kind));
    }
    Ok(())
}

/// A shell is the client's where it says so; else it is a container of the provider's.
fn is_local(shell: &Members<'_>) -> Result<bool, String> {
    let Some((place, _)) = shell.one(&["environment"])?.filter(|(value, _)| value.starts_with('{')) else { return Ok(false) };
    Ok(Members::read(place)?.one(&["type"])?.is_some_and(|(kind, _)| text("type", kind).is_ok_and(|kind| kind == "local")))
}

/// The tools of the items of a conversation.
fn within(dialect: Dialect, input: &str, names: &mut BTreeSet<String>) -> Result<(), String> {
    static FIND: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    // A letter can be written as its number.
    let make = || AhoCorasick::builder().ascii_case_insensitive(true).build(["\"tools\"", "\\u00"]).ok();
    let may = FIND.get_or_init(make).as_ref().is_none_or(|find| find.is_match(input));
    if !may || !input.starts_with('[') {
        return Ok(());
    }
    let items: Vec<&RawValue> = serde_json::from_str(input).map_err(|error| error.to_string())?;
    for item in items.iter().filter(|item| item.get().starts_with('{')) {
        if let Some((tools, _)) = Members::read(item.get())?.one(&["tools"])? {
            // What the provider's own search found among tools that stand elsewhere.
            list(dialect, tools, names, 0)?;
        }
    }
    Ok(())
}

/// The name that a tool has in every dialect.
fn common(kind: &str) -> String {
    let kind = snake(undated(kind));
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
fn undated(kind: &str) -> &str {
    let dated = |date: &str| date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit());
    kind.rsplit_once('_').filter(|(_, date)| dated(date)).map_or(kind, |(name, _)| name)
}

/// `googleSearch` is `google_search`: Google takes both.
fn snake(name: &str) -> String {
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
