//! Redaction: takes secrets out of text and JSON before they become a record.
//!
//! Only the secret part is replaced, so that the rest can still be read. One pass of an automaton over the text finds
//! the places worth a look; clean text costs no more than that. It knows shapes and registered values, not meaning:
//! a secret in words, without a key name and of no known shape, passes.

mod address;
mod decode;
mod encoded;
mod flag;
mod key;
mod known;
mod prefix;
mod text;
mod trigger;

use std::borrow::Cow;

use parking_lot::RwLock;
use serde_json::Value;

use known::KnownSecrets;
pub use text::OWN_KEY;

/// What stands in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Replaces secrets by `[redacted]`: by pattern, by key name, and by exact value for those that were registered.
#[derive(Default)]
pub struct Redactor {
    known: RwLock<KnownSecrets>,
}

impl Redactor {
    pub fn new() -> Self {
        Self::default()
    }

    /// Redacts this value from now on wherever it appears, also in base64 and URL-encoded. Values under four bytes are
    /// not registered, they would take ordinary words with them; says whether it was.
    pub fn register(&self, secret: &str) -> bool {
        self.known.write().add(secret)
    }

    /// The text without its secrets; borrowed where there were none.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.known.read().redact(text) {
            Cow::Borrowed(text) => text::redact(text),
            Cow::Owned(changed) => Cow::Owned(text::redact(&changed).into_owned()),
        }
    }

    /// The value without its secrets, by key name and by content, at every depth.
    pub fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(changed) = self.text(text) {
                    *text = changed;
                }
            }
            Value::Array(items) => {
                self.words(items);
                items.iter_mut().for_each(|item| self.value(item));
            }
            Value::Object(members) => {
                self.names(members);
                pair(members);
                for (key, member) in members.iter_mut() {
                    self.member(key, member);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// As `value`, for what we named ourselves: names of members tell nothing, and numbers are no secrets.
    pub fn strings(&self, value: &mut Value) {
        match value {
            Value::String(_) => self.value(value),
            Value::Array(items) => {
                self.words(items);
                items.iter_mut().for_each(|item| self.strings(item));
            }
            Value::Object(members) => {
                self.names(members);
                members.values_mut().for_each(|member| self.strings(member));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Whether the text has anything that a secret could be known by. Quick, and right about JSON as it is stored.
    pub fn suspects(&self, text: &str) -> bool {
        self.known.read().suspects(text) || text::suspects(text)
    }

    /// Takes out what the words of a command say beside each other.
    fn words(&self, items: &mut [Value]) {
        let words: Vec<&str> = items.iter().map(|item| item.as_str().unwrap_or_default()).collect();
        let found = flag::secrets(&words);
        for (index, part) in found {
            if let Some(Value::String(word)) = items.get_mut(index)
                && word != REDACTED
                && word.get(part.clone()).is_some_and(|secret| secret != REDACTED && !secret.is_empty())
            {
                word.replace_range(part, REDACTED);
            }
        }
        key_lines(items);
    }

    fn names(&self, members: &mut serde_json::Map<String, Value>) {
        if members.keys().any(|key| matches!(self.text(key), Cow::Owned(_))) {
            *members = std::mem::take(members).into_iter().map(|(key, value)| (self.text(&key).into_owned(), value)).collect();
        }
    }

    fn member(&self, key: &str, member: &mut Value) {
        match member {
            Value::String(text) if key::is_secret(key, text) || key::is_cookie(key, text) => {
                if !text.is_empty() {
                    *text = REDACTED.into();
                }
            }
            Value::Number(number) if key::is_secret(key, &number.to_string()) => *member = REDACTED.into(),
            Value::Array(items) => {
                self.words(items);
                items.iter_mut().for_each(|item| self.member(key, item));
            }
            Value::Object(members) if key::hides_all(key) => members.values_mut().for_each(|member| self.member(key, member)),
            _ => self.value(member),
        }
    }
}

/// Takes out a private key whose lines are elements of their own, or members of elements, as a search has them.
fn key_lines(items: &mut [Value]) {
    // In which member the key began; `None` where the elements are lines themselves.
    let mut inside: Option<Option<String>> = None;
    for item in items {
        let of = match &inside {
            Some(of) => of.clone(),
            None => {
                let opened = match item {
                    Value::String(line) => text::opens_private_key(line).then_some(None),
                    Value::Object(members) => {
                        let opens = |member: &Value| member.as_str().is_some_and(text::opens_private_key);
                        members.iter().find(|(_, member)| opens(member)).map(|(name, _)| Some(name.clone()))
                    }
                    _ => None,
                };
                inside = opened;
                continue;
            }
        };
        let line = match (&of, item) {
            (None, line @ Value::String(_)) => Some(line),
            (Some(name), Value::Object(members)) => members.get_mut(name),
            _ => None,
        };
        let Some(Value::String(line)) = line else { continue };
        if text::closes_private_key(line) {
            inside = None;
        } else if !line.is_empty() {
            *line = REDACTED.into();
        }
    }
}

/// Takes out the value of what is written as two members: `{"name": "DB_PASSWORD", "value": "…"}`.
fn pair(members: &mut serde_json::Map<String, Value>) {
    let name = ["name", "key", "header"].into_iter().find_map(|key| members.get(key).and_then(Value::as_str));
    let Some(name) = name.map(str::to_owned) else { return };
    if let Some(Value::String(value)) = members.get_mut("value")
        && !value.is_empty()
        && !key::is_about(value)
        && (key::is_secret(&name, value) || key::is_cookie(&name, value))
    {
        *value = REDACTED.into();
    }
}

#[cfg(test)]
mod tests;
