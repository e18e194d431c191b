//! Pictures in a request. Their bytes say nothing of their tokens, so they are counted and their bytes left out.
//!
//! Only where the dialect has content, and only what starts like a picture: elsewhere it would be a way to send text that nobody counts.

use super::Dialect;
use aho_corasick::AhoCorasick;
use serde_json::Value;
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
    "\"file_url",
];

/// How base64 of PNG, JPEG, GIF and WebP begins.
const PICTURES: &[&str] = &["iVBORw0", "/9j/", "R0lGOD", "UklGR"];

/// Pictures that a file counts as that is only referred to: about two hundred thousand tokens, which is what most models hold.
const FILE_IMAGES: u32 = 120;

#[derive(Default)]
pub(super) struct Images {
    pub count: u32,
    pub bytes: u64,
}

/// `content` is the part of the request that holds the conversation.
pub(super) fn count(dialect: Dialect, content: &str) -> Images {
    static FIND: OnceLock<Option<AhoCorasick>> = OnceLock::new();
    let mut images = Images::default();
    let find = FIND.get_or_init(|| AhoCorasick::new(SIGNS).ok());
    if find.as_ref().is_some_and(|find| !find.is_match(content)) {
        return images;
    }
    // What does not parse stays counted as bytes.
    if let Ok(value) = serde_json::from_str::<Value>(content) {
        let keys: &[&str] = match dialect {
            Dialect::Anthropic | Dialect::Chat => &["content", "source", "image_url"],
            Dialect::Responses => &["content", "output"],
            Dialect::Gemini => &["parts", "inlineData", "inline_data", "functionResponse"],
        };
        walk(&value, keys, &mut images);
    }
    images
}

fn walk(value: &Value, keys: &[&str], images: &mut Images) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| walk(item, keys, images)),
        Value::Object(members) => {
            let referred = ["file_id", "file_url", "fileData", "file_data"].iter().any(|key| members.contains_key(*key));
            if referred {
                images.count = images.count.saturating_add(FILE_IMAGES);
            }
            let document = members.get("type").is_some_and(|kind| kind == "document");
            let by_url = document && members.get("source").and_then(|source| source.get("type")).is_some_and(|kind| kind == "url");
            if by_url {
                images.count = images.count.saturating_add(FILE_IMAGES);
            }
            for (key, member) in members {
                match member {
                    Value::String(text) if ["data", "url", "image_url"].contains(&key.as_str()) => picture(text, images),
                    member if keys.contains(&key.as_str()) => walk(member, keys, images),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

fn picture(text: &str, images: &mut Images) {
    let data = text.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")).map_or(text, |(_, data)| data);
    if PICTURES.iter().any(|start| data.starts_with(start)) {
        images.count += 1;
        images.bytes += data.len() as u64;
    } else if text.starts_with("http") {
        images.count += 1;
    }
}
