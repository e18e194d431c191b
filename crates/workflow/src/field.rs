//! Where in an output a value stands: `content`, `files[0].path`, `build.exit`.

use serde_json::Value;
use std::fmt;

/// Names and numbers, one for each level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    parts: Vec<String>,
}

/// More levels than any output has.
const PARTS_MAX: usize = 32;
const PATH_BYTES_MAX: usize = 256;

impl FieldPath {
    /// `a.b[0].c`; a number alone (`a.0`) is a place in a list too.
    pub fn parse(text: &str) -> Result<FieldPath, String> {
        if text.len() > PATH_BYTES_MAX {
            return Err(format!("a field has at most {PATH_BYTES_MAX} characters"));
        }
        let mut parts = Vec::new();
        for word in text.split('.') {
            let (name, places) = word.split_at(word.find('[').unwrap_or(word.len()));
            if name.is_empty() || !name.bytes().all(is_name_byte) {
                return Err(
                    "a field is names of letters, digits, `_` and `-` with dots between them, and `[0]` for a place in a list".to_owned()
                );
            }
            parts.push(name.to_owned());
            let mut rest = places;
            while !rest.is_empty() {
                let place = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
                let Some((place, after)) = place.filter(|(place, _)| is_place(place)) else {
                    return Err("a place in a list is a number in brackets: `[0]`".to_owned());
                };
                parts.push(place.to_owned());
                rest = after;
            }
        }
        if parts.len() > PARTS_MAX {
            return Err(format!("a field has at most {PARTS_MAX} levels"));
        }
        Ok(FieldPath { parts })
    }

    /// The name that it begins with.
    pub fn first(&self) -> &str {
        self.parts.first().map_or("", String::as_str)
    }

    /// Whether it is one name and nothing below it.
    pub fn is_single(&self) -> bool {
        self.parts.len() == 1
    }

    /// What stands there, if anything does.
    pub fn find<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        self.parts.iter().try_fold(value, |value, part| match value {
            Value::Object(fields) => fields.get(part),
            Value::Array(items) if is_place(part) => items.get(part.parse::<usize>().ok()?),
            _ => None,
        })
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn is_place(text: &str) -> bool {
    (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts.join("."))
    }
}

/// A field of an earlier step's output: `"<step_id>.<field>"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputRef {
    pub step: String,
    pub field: FieldPath,
}

impl OutputRef {
    pub fn parse(text: &str) -> Result<OutputRef, String> {
        let Some((step, field)) = text.split_once('.') else {
            return Err("it names a step and a field of its output: `<step_id>.<field>`".to_owned());
        };
        if !crate::plan::is_step_id(step) {
            return Err("before the dot stands the id of a step".to_owned());
        }
        Ok(OutputRef { step: step.to_owned(), field: FieldPath::parse(field)? })
    }
}

impl fmt::Display for OutputRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.step, self.field)
    }
}
