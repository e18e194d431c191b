//! Reads parameters and results from JSON.
//!
//! The text becomes a value once, and every type is read from that. serde_json's own readers also take a struct's fields by position, in
//! a list; that doubles the code of each of two hundred types, and by name is how they are documented.

use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use serde_json::{Error, Map, Value};

pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    T::deserialize(Json(serde_json::from_str(text)?))
}

struct Json(Value);

impl Json {
    fn misfit<'de, V: Visitor<'de>>(&self, visitor: &V) -> Error {
        let found = match &self.0 {
            Value::Null => Unexpected::Unit,
            Value::Bool(flag) => Unexpected::Bool(*flag),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => Unexpected::Unsigned(number),
                (_, Some(number)) => Unexpected::Signed(number),
                _ => Unexpected::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        };
        Error::invalid_type(found, visitor)
    }
}

/// Methods that read a number of any kind: the type checks its range.
macro_rules! numbers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match &self.0 {
                Value::Number(number) => visit_number(number, visitor),
                _ => Err(self.misfit(&visitor)),
            }
        })*
    };
}

/// Methods that read a text.
macro_rules! texts {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.0 {
                Value::String(text) => visitor.visit_string(text),
                _ => Err(self.misfit(&visitor)),
            }
        })*
    };
}

fn visit_number<'de, V: Visitor<'de>>(number: &serde_json::Number, visitor: V) -> Result<V::Value, Error> {
    match (number.as_u64(), number.as_i64()) {
        (Some(number), _) => visitor.visit_u64(number),
        (_, Some(number)) => visitor.visit_i64(number),
        _ => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
    }
}

impl<'de> Deserializer<'de> for Json {
    type Error = Error;

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_f32 deserialize_f64
    }

    texts! { deserialize_char deserialize_str deserialize_string deserialize_identifier }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(flag) => visitor.visit_bool(flag),
            Value::Number(number) => visit_number(&number, visitor),
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => visitor.visit_seq(Items(items.into_iter())),
            Value::Object(members) => visitor.visit_map(Members::of(members)),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Bool(flag) => visitor.visit_bool(flag),
            _ => Err(self.misfit(&visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.0.is_null() { visitor.visit_unit() } else { Err(self.misfit(&visitor)) }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Array(items) => visitor.visit_seq(Items(items.into_iter())),
            _ => Err(self.misfit(&visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Object(members) => visitor.visit_map(Members::of(members)),
            _ => Err(self.misfit(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(self, _: &'static str, _: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(self, _: &'static str, _: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::String(name) => visitor.visit_enum(Variant { name, value: None }),
            Value::Object(members) if members.len() == 1 => match members.into_iter().next() {
                Some((name, value)) => visitor.visit_enum(Variant { name, value: Some(value) }),
                None => Err(Error::custom("a map of one key has none")),
            },
            _ => Err(self.misfit(&visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
}

struct Items(std::vec::IntoIter<Value>);

impl<'de> SeqAccess<'de> for Items {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.0.next().map(|item| seed.deserialize(Json(item))).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Members {
    left: serde_json::map::IntoIter,
    value: Option<Value>,
}

impl Members {
    fn of(members: Map<String, Value>) -> Members {
        Members { left: members.into_iter(), value: None }
    }
}

impl<'de> MapAccess<'de> for Members {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.left.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(Key(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let value = self.value.take().ok_or_else(|| Error::custom("a value was read before its key"))?;
        seed.deserialize(Json(value))
    }
}

/// A key: a text, or a number as JSON writes it there.
struct Key(String);

/// Methods that read a key as a number, where it is one.
macro_rules! number_keys {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match (self.0.parse::<u64>(), self.0.parse::<i64>()) {
                (Ok(number), _) => visitor.visit_u64(number),
                (_, Ok(number)) => visitor.visit_i64(number),
                _ => visitor.visit_string(self.0),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Key {
    type Error = Error;

    number_keys! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(self, _: &'static str, _: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        visitor.visit_enum(Variant { name: self.0, value: None })
    }

    serde::forward_to_deserialize_any! {
        bool f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// A variant of an enum: its name alone, or with what it holds.
struct Variant {
    name: String,
    value: Option<Value>,
}

impl<'de> EnumAccess<'de> for Variant {
    type Error = Error;
    type Variant = HeldVariant;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, HeldVariant), Error> {
        let name: StringDeserializer<Error> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, HeldVariant(self.value)))
    }
}

struct HeldVariant(Option<Value>);

impl HeldVariant {
    fn value(self) -> Result<Json, Error> {
        self.0.map(Json).ok_or_else(|| Error::invalid_type(Unexpected::UnitVariant, &"a variant with a value"))
    }
}

impl<'de> VariantAccess<'de> for HeldVariant {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        match self.0 {
            None | Some(Value::Null) => Ok(()),
            Some(_) => Err(Error::invalid_type(Unexpected::NewtypeVariant, &"a variant without a value")),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.value()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.value()?.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.value()?.deserialize_map(visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::BTreeMap;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        name: String,
        count: Option<u8>,
        #[serde(default)]
        by_number: BTreeMap<u64, Vec<Shape>>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Shape {
        Round,
        Square(f64),
        Odd { sides: i32 },
    }

    /// The same as serde_json's own reader, for what is right and for what is wrong.
    #[test]
    fn types_are_read_as_serde_json_reads_them() {
        let texts = [
            r#"{"name": "a", "count": 3, "by_number": {"7": ["round", {"square": 2}, {"odd": {"sides": -1}}]}}"#,
            r#"{"name": "a", "count": null}"#,
            r#"{"name": "a"}"#,
            r#"{}"#,
            r#"{"name": 1}"#,
            r#"{"name": "a", "count": 256}"#,
            r#"{"name": "a", "count": "3"}"#,
            r#"{"name": "a", "count": -1}"#,
            r#"{"name": "a", "other": 1}"#,
            r#"{"name": "a", "by_number": {"x": []}}"#,
            r#"{"name": "a", "by_number": {"1": ["flat"]}}"#,
            r#"{"name": "a", "by_number": {"1": ["square"]}}"#,
            r#"{"name": "a", "by_number": {"1": [{"round": 1}]}}"#,
            "null",
            "{",
        ];
        for text in texts {
            let (ours, theirs) = (from_json::<Sample>(text), serde_json::from_str::<Sample>(text));
            assert_eq!(ours.as_ref().ok(), theirs.as_ref().ok(), "{text}");
        }
        assert!(from_json::<Sample>(texts[0]).is_ok(), "the control");
        assert!(from_json::<Sample>(r#"["a", 3, {}]"#).is_err(), "fields go by name");
    }
}
