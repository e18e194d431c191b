//! Pictures and files in a request. A picture's bytes say nothing of its tokens, so pictures are counted and their bytes left out; what a
//! request only names by its address, the provider fetches.
//!
//! Only where the dialect has content, and only what starts like a picture: elsewhere it would be a way to send text that is not counted.

use crate::format::WireFormat;
use crate::members::{Members, tree};
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

/// Tokens that one picture is taken to have: what most providers charge for their largest. A few charge two or three times that for a photo.
pub const IMAGE_TOKENS: u64 = 5_000;

/// Pictures that a file counts as that is only referred to: about two hundred thousand tokens, which is what most models hold.
const FILE_IMAGES: u32 = 40;

#[derive(Default)]
pub(crate) struct Images {
    pub count: u32,
    pub bytes: u64,
    /// The provider is to fetch some of it from an address that the request names.
    pub are_fetched: bool,
}

impl Images {
    /// Counts the pictures and files in the conversation of a request.
    pub fn count_conversation(&mut self, format: &dyn WireFormat, members: &Members<'_>) -> Result<(), String> {
        static FIND: OnceLock<Option<AhoCorasick>> = OnceLock::new();
        let find = FIND.get_or_init(|| AhoCorasick::new(SIGNS).ok());
        for names in format.conversation_members() {
            let Some((content, _)) = members.one(names)? else { continue };
            if find.as_ref().is_none_or(|find| find.is_match(content)) {
                self.walk(format, &tree(content)?);
            }
        }
        Ok(())
    }

    fn walk(&mut self, format: &dyn WireFormat, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.walk(format, item)),
            Value::Object(members) => {
                let kind = members.get("type").and_then(Value::as_str).unwrap_or_default();
                let is_referred = ["file_id", "file_url", "fileData", "file_data"].iter().any(|key| members.contains_key(*key));
                let is_by_url =
                    kind == "document" && members.get("source").and_then(|source| source.get("type")).is_some_and(|kind| kind == "url");
                if is_referred || is_by_url || format.is_kept_item(kind) {
                    self.count = self.count.saturating_add(FILE_IMAGES);
                }
                if members.iter().any(|(key, member)| format.is_address(key, member)) {
                    (self.are_fetched, self.count) = (true, self.count.saturating_add(1));
                }
                // It says that it is one and begins like one: text in its place is read as text, and is as long as it is.
                let data = format.picture_data(members).filter(|data| PICTURES.iter().any(|start| data.starts_with(start)));
                if let Some(data) = data {
                    self.count = self.count.saturating_add(1);
                    self.bytes += data.len() as u64;
                }
                let keys = format.content_keys();
                members.iter().filter(|(key, _)| keys.contains(&key.as_str())).for_each(|(_, member)| self.walk(format, member));
            }
            _ => {}
        }
    }
}

/// Whether an address carries its data with it, so that nobody fetches it.
pub(crate) fn carries_data(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:")))
}

pub(crate) fn is_image(media_type: Option<&str>) -> bool {
    media_type.is_some_and(|kind| kind.starts_with("image/"))
}

/// What stands behind `data:image/png;base64,`.
pub(crate) fn inline_picture(text: &str) -> Option<&str> {
    text.strip_prefix("data:image/")?.split_once(";base64,").map(|(_, data)| data)
}
