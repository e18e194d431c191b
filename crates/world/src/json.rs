//! Reads a type from JSON, a struct's fields by name only.
//!
//! serde_json's own reader also takes a struct's fields by position, in a list. That doubles the code of each of four hundred types, and by name
//! is how they are documented. So a struct is asked for as a map here; everything else goes on to serde_json as it is.

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};
use std::fmt;

pub fn from_json<T: DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = T::deserialize(ByName(&mut reader))?;
    reader.end()?;
    Ok(value)
}

/// What is wrong with it, without the place: one line has none worth telling.
pub fn what(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what).to_owned()
}

/// Whatever reads: the whole text, a key, a value or a variant.
struct ByName<D>(D);

/// Methods that need a value without parts: nothing in it could be a struct.
macro_rules! plain {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(visitor)
        })*
    };
}

/// Methods that need a value with parts.
macro_rules! parts {
    ($($method:ident($($name:ident: $type:ty)?))*) => {
        $(fn $method<V: Visitor<'de>>(self, $($name: $type,)? visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method($($name,)? Parts(visitor))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for ByName<D> {
    type Error = D::Error;

    plain! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16 deserialize_u32
        deserialize_u64 deserialize_f32 deserialize_f64 deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_unit deserialize_identifier deserialize_ignored_any
    }

    parts! {
        deserialize_any() deserialize_option() deserialize_seq() deserialize_map() deserialize_tuple(len: usize)
        deserialize_unit_struct(name: &'static str) deserialize_newtype_struct(name: &'static str)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, name: &'static str, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_tuple_struct(name, len, Parts(visitor))
    }

    fn deserialize_struct<V: Visitor<'de>>(self, _: &'static str, _: &'static [&'static str], visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(Members(visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, Variants(visitor))
    }
}

/// A struct's visitor, that is given a map and nothing else.
struct Members<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Members<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(ByName(access))
    }
}

/// An enum's visitor.
struct Variants<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Variants<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(ByName(access))
    }
}

/// Any other visitor: what it is given reads its own parts by name too.
struct Parts<V>(V);

/// Values that are passed on as they are.
macro_rules! as_they_are {
    ($($method:ident($type:ty))*) => {
        $(fn $method<E: serde::de::Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Parts<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    as_they_are! {
        visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_f64(f64) visit_str(&str) visit_borrowed_str(&'de str) visit_string(String)
        visit_bytes(&[u8]) visit_borrowed_bytes(&'de [u8])
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.0.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(ByName(deserializer))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(ByName(deserializer))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(ByName(access))
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(ByName(access))
    }
}

/// What reads a part, for as long as it reads.
struct Part<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Part<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(ByName(deserializer))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for ByName<A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(Part(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for ByName<A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        // A key has no parts.
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(Part(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for ByName<A> {
    type Error = A::Error;
    type Variant = ByName<A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, ByName<A::Variant>), A::Error> {
        let (name, held) = self.0.variant_seed(seed)?;
        Ok((name, ByName(held)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for ByName<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(Part(seed))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, Parts(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, Members(visitor))
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
