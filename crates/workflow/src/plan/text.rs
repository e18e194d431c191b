//! The text of a plan as a tree of values, within bounds.
//!
//! **Invariant.** No key stands twice and nothing is nested deeper than [`PLAN_DEPTH_MAX`], in JSON as in YAML.

use super::misfit;
use crate::findings::shown;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::{Map, Number, Value};
use std::fmt;
use world::PlanFinding;
use world::limits::{PLAN_BYTES_MAX, PLAN_DEPTH_MAX};

pub(super) fn value(text: &str) -> Result<Value, Vec<PlanFinding>> {
    let text = text.trim_start_matches('\u{feff}');
    if text.len() > PLAN_BYTES_MAX {
        return Err(vec![misfit("", format!("the plan has {} bytes; it may have {PLAN_BYTES_MAX} at most", text.len()))]);
    }
    if text.trim().is_empty() {
        return Err(vec![misfit("", "there is no plan: the text is empty")]);
    }
    let read: Result<StrictValue, (String, String)> = if text.trim_start().starts_with('{') {
        serde_json::from_str(text).map_err(|error| {
            let what = error.to_string();
            // serde_json ends its message with the place, which stands beside it here.
            let what = what.split(" at line ").next().unwrap_or_default();
            (format!("line {}, column {}", error.line(), error.column()), format!("it is not JSON: {}", shown_line(what)))
        })
    } else {
        yaml::from_str(text).map_err(|error| {
            let at = format!("line {}, column {}", error.at.line(), error.at.column());
            (at, format!("it is not YAML: {}", shown_line(&error.fault.to_string())))
        })
    };
    read.map(|value| value.0).map_err(|(at, message)| vec![misfit(at, message)])
}

/// The plans of a file: parts between lines of `---`, each as a text of its own.
pub fn plan_documents(text: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for line in text.lines() {
        match all.last_mut() {
            Some(_) if line.trim_end() == "---" => all.push(String::new()),
            Some(last) => {
                last.push_str(line);
                last.push('\n');
            }
            None => {}
        }
    }
    all.retain(|document| !document.trim().is_empty());
    all
}

/// What a parser said; it quotes the text.
fn shown_line(text: &str) -> String {
    let bounded: String = text.chars().take(200).collect();
    bounded.chars().map(|letter| if crate::findings::is_unseen(letter) { '\u{fffd}' } else { letter }).collect()
}

/// Any value without a key that stands twice.
struct StrictValue(Value);

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<StrictValue, D::Error> {
        Level(0).deserialize(from).map(StrictValue)
    }
}

/// Reads a value that stands inside of so many others.
struct Level(usize);

impl Level {
    fn inner<E: de::Error>(&self) -> Result<Level, E> {
        if self.0 == PLAN_DEPTH_MAX {
            Err(E::custom(format!("lists and maps are nested more than {PLAN_DEPTH_MAX} deep")))
        } else {
            Ok(Level(self.0 + 1))
        }
    }
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = from.next_element_seed(self.inner::<A::Error>()?)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = from.next_key::<String>()? {
            let value = from.next_value_seed(self.inner::<A::Error>()?)?;
            if fields.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{}` stands twice", shown(&key))));
            }
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_one_plan_or_several() {
        assert_eq!(plan_documents("a: 1\n"), ["a: 1\n"]);
        assert_eq!(plan_documents("---\na: 1\n---\nb: 2\n"), ["a: 1\n", "b: 2\n"]);
        assert_eq!(plan_documents("text: |\n  ---\n"), ["text: |\n  ---\n"], "an indented line is content");
        assert!(plan_documents("\n---\n \n").is_empty());
    }
}
