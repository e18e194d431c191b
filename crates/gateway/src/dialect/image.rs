//! Pictures and files in a request. A picture's bytes say nothing of its tokens, so pictures are counted and their bytes left out; and what
//! is only named by its address, the provider fetches.
//!
//! Only where the dialect has content, and only what starts like a picture: elsewhere it would be a way to send text that nobody counts.

use super::{Dialect, body};
use aho_corasick::AhoCorasick;
use serde_json::{Map, Value};
use std::sync::OnceLock;

/// Words without which a request has no pictures and no files.
const SIGNS: &[&str] = &[
    "\"image",
    "\"input_image",
    "\"inlineData",
    "\"inline_data",
    "\"fileData",
    "\"file_data",
    "\"file_id",
    "\"input_file",
    "\"document",
    "\"item_reference",
    "_url\"",
    "\"url\"",
    "Uri\"",
    "_uri\"",
    // A letter can be written as its number.
    "\\u00",
];

/// How base64 of PNG, JPEG, GIF and WebP begins.
const PICTURES: &[&str] = &["iVBORw0", "/9j/", "R0lGOD", "UklGR"];

/// Where Google keeps files: what lies there belongs to the key, and nobody else is asked for it.
const GOOGLE_FILES: &str = "https://generativelanguage.googleapis.com/";

/// Pictures that a file counts as that is only referred to: about two hundred thousand tokens, which is what most models hold.
const FILE_IMAGES: u32 = 40;

#[derive(Default)]
pub(super) struct Images {
    pub count: u32,
    pub bytes: u64,
    /// The provider is to fetch some of it from an address of the request's choosing.
    pub fetched: bool,
}

/// `content` is a part of the request that holds conversation.
pub(super) fn count(dialect: Dialect, content: &str, images: &mut Images) -> Result<(), String> {
    static FIND: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    let find = FIND.get_or_init(|| AhoCorasick::new(SIGNS).ok());
    if find.as_ref().is_some_and(|find| !find.is_match(content)) {
        return Ok(());
    }
    let keys: &[&str] = match dialect {
        Dialect::Anthropic => &["content", "source"],
        Dialect::Chat => &["content", "image_url"],
        Dialect::Responses => &["content", "output"],
        Dialect::Gemini => &["parts", "inlineData", "inline_data", "functionResponse", "function_response"],
    };
    walk(dialect, &body::tree(content)?, keys, images);
    Ok(())
}

fn walk(dialect: Dialect, value: &Value, keys: &[&str], images: &mut Images) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| walk(dialect, item, keys, images)),
        Value::Object(members) => {
            let kind = members.get("type").and_then(Value::as_str).unwrap_or_default();
            let referred = ["file_id", "file_url", "fileData", "file_data"].iter().any(|key| members.contains_key(*key));
            let by_url =
                kind == "document" && members.get("source").and_then(|source| source.get("type")).is_some_and(|kind| kind == "url");
            // An item of an earlier answer that the provider kept may be as long as a file.
            if referred || by_url || (dialect == Dialect::Responses && kind == "item_reference") {
                images.count = images.count.saturating_add(FILE_IMAGES);
            }
            if members.iter().any(|(key, member)| is_address(dialect, key, member)) {
                (images.fetched, images.count) = (true, images.count.saturating_add(1));
            }
            if let Some(data) = picture(dialect, members) {
                images.count = images.count.saturating_add(1);
                images.bytes += data.len() as u64;
            }
            members.iter().filter(|(key, _)| keys.contains(&key.as_str())).for_each(|(_, member)| walk(dialect, member, keys, images));
        }
        _ => {}
    }
}

/// Is this an address that the provider goes to? What carries its data with it is none.
fn is_address(dialect: Dialect, key: &str, member: &Value) -> bool {
    let carries =
        |value: &Value| value.as_str().is_some_and(|text| text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:")));
    match dialect {
        Dialect::Anthropic => key == "source" && (member["type"] == "url" || !member["url"].is_null()),
        Dialect::Responses => matches!(key, "image_url" | "file_url") && !member.is_null() && !carries(member),
        // Servers that speak Chat know `video_url` and `audio_url` too, and files by address.
        Dialect::Chat if key == "file" => {
            member["file_data"].as_str().is_some_and(|text| text.contains("://"))
                || member.get("file_url").is_some_and(|url| !url.is_null())
        }
        Dialect::Chat => key.ends_with("_url") && !member.is_null() && !carries(member) && !carries(&member["url"]),
        Dialect::Gemini => {
            let uri = |name: &str| member.get(name).is_some_and(|uri| !uri.as_str().is_some_and(|uri| uri.starts_with(GOOGLE_FILES)));
            matches!(key, "fileData" | "file_data") && (uri("fileUri") || uri("file_uri"))
        }
    }
}

/// The data of a picture that this object is. It says so and begins like one: text in its place is read as text, and is as long as it is.
fn picture(dialect: Dialect, members: &Map<String, Value>) -> Option<&str> {
    let text = |name: &str| members.get(name).and_then(Value::as_str);
    let data = match dialect {
        Dialect::Anthropic if text("type") == Some("base64") => text("data").filter(|_| is_image(text("media_type"))),
        Dialect::Anthropic => None,
        Dialect::Responses => text("image_url").and_then(inline),
        Dialect::Chat => text("url").or(text("image_url")).and_then(inline),
        Dialect::Gemini => match (text("mimeType"), text("mime_type")) {
            (kind, None) | (None, kind) => text("data").filter(|_| is_image(kind)),
            _ => None,
        },
    };
    data.filter(|data| PICTURES.iter().any(|start| data.starts_with(start)))
}

fn is_image(kind: Option<&str>) -> bool {
    kind.is_some_and(|kind| kind.starts_with("image/"))
}

/// What stands behind `data:image/png;base64,`.
fn inline(text: &str) -> Option<&str> {
    text.strip_prefix("data:image/")?.split_once(";base64,").map(|(_, data)| data)
}
