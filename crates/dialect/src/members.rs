//! The members of a request's JSON and where each stands, so that a change of one value leaves every other byte alone.
//!
//! **Invariant.** [`splice`] changes the spans it is given and nothing else.

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt, ops::Range};

/// Where a value stands in the text.
pub(crate) type Span = Range<usize>;

/// A span and the text that takes its place.
pub(crate) type Edit = (Span, String);

/// The text of a request and its members.
pub(crate) struct RequestBody<'a> {
    pub text: &'a str,
    pub members: Members<'a>,
}

impl<'a> RequestBody<'a> {
    pub fn parse(body: &'a [u8]) -> Result<RequestBody<'a>, String> {
        let text = std::str::from_utf8(body).map_err(|_| "it is not UTF-8".to_owned())?;
        check_value_count(text)?;
        Ok(RequestBody { text, members: Members::read(text)? })
    }

    /// The value of one member as a whole; `null` where it is missing.
    pub fn value(&self, name: &str) -> Result<Value, String> {
        self.members.one(&[name])?.map(|(value, _)| tree(value)).transpose().map(Option::unwrap_or_default)
    }
}

/// The members of one JSON object and where each value stands in the text.
pub(crate) struct Members<'a> {
    /// Just behind the opening brace.
    open: usize,
    members: Vec<(Cow<'a, str>, &'a str, usize)>,
}

struct Listed<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Listed<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Listed<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    members.push((key.0, value));
                }
                Ok(Listed(members))
            }
        }
        from.deserialize_map(Each)
    }
}

/// Whether these are equal but for upper and lower case, as servers in Go compare keys.
fn same_but_for_case(key: &str, name: &str) -> bool {
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    key == name || (key.len() >= name.len() && key.chars().map(fold).eq(name.chars().map(fold)))
}

/// A key, borrowed where it has no escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(Text)
    }
}

impl<'a> Members<'a> {
    pub(crate) fn read(text: &'a str) -> Result<Members<'a>, String> {
        let listed: Listed<'a> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let open = text.find('{').map_or(0, |at| at + 1);
        // A raw value is borrowed from the text, so the distance of the two is its place.
        let place = |value: &str| value.as_ptr() as usize - text.as_ptr() as usize;
        let members = listed.0.into_iter().map(|(key, value)| (key, value.get(), place(value.get()))).collect();
        Ok(Members { open, members })
    }

    /// The value of a member by any of its names. A member that is given twice is an error, as the provider might take the other one. So is
    /// one in other case, `Model`: some servers take it for the same and others do not know it.
    pub(crate) fn one(&self, names: &[&str]) -> Result<Option<(&'a str, Span)>, String> {
        let mut found = None;
        for (key, value, at) in &self.members {
            let Some(name) = names.iter().find(|name| same_but_for_case(key, name)) else { continue };
            if key != name {
                return Err(format!("`{}` is in another case; write `{name}`", key.escape_debug()));
            }
            if found.is_some() {
                return Err(format!("`{key}` is given twice"));
            }
            found = Some((*value, *at..*at + value.len()));
        }
        Ok(found)
    }

    /// Every member, as often as it is given.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &'a str)> {
        self.members.iter().map(|(key, value, _)| (key.as_ref(), *value))
    }

    /// The edit that adds a member in front of all others.
    pub(crate) fn insert(&self, key: &str, value: &str) -> Edit {
        let comma = if self.members.is_empty() { "" } else { "," };
        (self.open..self.open, format!("\"{key}\":{value}{comma}"))
    }
}

/// Values in one request. Each takes up to a kilobyte when it is parsed, however few bytes it was sent with.
const VALUES_MAX: usize = 250_000;
/// A shorter text has too few values to matter.
const BYTES_MIN: usize = 1024 * 1024;

/// Refuses a text with so many values that parsing it would fill memory.
fn check_value_count(text: &str) -> Result<(), String> {
    if text.len() < BYTES_MIN {
        return Ok(());
    }
    let (mut values, mut string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = string,
            b'"' => string = !string,
            b',' | b':' | b'[' | b'{' if !string => values += 1,
            _ => {}
        }
    }
    if values > VALUES_MAX { Err(format!("it has more than {VALUES_MAX} values")) } else { Ok(()) }
}

/// A value parsed as a whole. A member that is given twice is an error, and so is nesting deeper than serde_json allows.
pub(crate) fn tree(text: &str) -> Result<Value, String> {
    serde_json::from_str::<Tree>(text).map(|tree| tree.0).map_err(|error| error.to_string())
}

struct Tree(Value);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Tree;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_unit<E>(self) -> Result<Tree, E> {
                Ok(Tree(Value::Null))
            }
            fn visit_bool<E>(self, value: bool) -> Result<Tree, E> {
                Ok(Tree(value.into()))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
                Ok(Tree(value.into()))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
                Ok(Tree(value.into()))
            }
            fn visit_f64<E>(self, value: f64) -> Result<Tree, E> {
                Ok(Tree(value.into()))
            }
            fn visit_str<E>(self, value: &str) -> Result<Tree, E> {
                Ok(Tree(value.into()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
                let mut all = Vec::new();
                while let Some(Tree(next)) = seq.next_element()? {
                    all.push(next);
                }
                Ok(Tree(all.into()))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
                let mut all = serde_json::Map::new();
                while let Some((key, Tree(value))) = map.next_entry::<String, Tree>()? {
                    if all.contains_key(&key) {
                        return Err(de::Error::custom(format!("`{}` is given twice", key.escape_debug())));
                    }
                    all.insert(key, value);
                }
                Ok(Tree(all.into()))
            }
        }
        from.deserialize_any(Any)
    }
}

/// The text with each span replaced. Spans do not overlap.
pub(crate) fn splice(text: &[u8], mut edits: Vec<Edit>) -> Vec<u8> {
    edits.sort_by_key(|(span, _)| (span.start, span.end));
    let mut out = Vec::with_capacity(text.len() + 64);
    let mut at = 0;
    for (span, new) in edits {
        out.extend_from_slice(text.get(at..span.start).unwrap_or_default());
        out.extend_from_slice(new.as_bytes());
        at = span.end;
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    out
}

/// A whole number as clients write it: `100`, `1e2`, and `"100"`, which Google's JSON allows. `null` is none.
pub(crate) fn number(name: &str, value: &str) -> Result<Option<u64>, String> {
    let value: Value = serde_json::from_str(value).map_err(|error| error.to_string())?;
    let whole = match &value {
        Value::Null => return Ok(None),
        Value::Number(number) => number.as_u64().or_else(|| {
            // INVARIANT: within f64's whole range, so the cast is exact enough for a limit and never wraps.
            number.as_f64().filter(|number| (0.0..1e15).contains(number)).map(|number| number.ceil() as u64)
        }),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    whole.map(Some).ok_or_else(|| format!("`{name}` is not a whole number"))
}

pub(crate) fn text(name: &str, value: &str) -> Result<String, String> {
    serde_json::from_str::<String>(value).map_err(|_| format!("`{name}` is not text"))
}

/// `"text"` as JSON writes it.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}
