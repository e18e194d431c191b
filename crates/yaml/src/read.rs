//! Reads types from a tree, as serde asks for them.
//!
//! **Invariant.** An error that has no place yet gets that of the innermost part in which it came up.

use crate::error::{Location, YamlError, YamlFault};
use crate::scalar::{self, ScalarMeaning};
use crate::spanned;
use crate::tree::{Content, YamlNode};
use serde::de::value::{StrDeserializer, U64Deserializer};
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor};

type Read<T> = Result<T, YamlError>;

#[derive(Clone, Copy)]
pub(crate) struct Reader<'de>(pub(crate) &'de YamlNode);

impl<'de> Reader<'de> {
    /// A word, or what is wrong with what stands there.
    fn word(self) -> Read<&'de str> {
        match &self.0.content {
            Content::Word { text, is_plain: true } if scalar::is_nothing(text) => Err(self.fault(YamlFault::NoValue)),
            Content::Word { text, .. } => Ok(text),
            _ => Err(self.other("this is to be one word")),
        }
    }

    fn is_nothing(self) -> bool {
        matches!(&self.0.content, Content::Word { text, is_plain: true } if scalar::is_nothing(text))
    }

    fn whole(self) -> Read<i128> {
        let text = self.word()?;
        scalar::whole(text).ok_or_else(|| self.other("this is to be a whole number"))
    }

    fn fault(self, fault: YamlFault) -> YamlError {
        YamlError::new(self.0.at, fault)
    }

    fn other(self, what: &str) -> YamlError {
        YamlError::other(self.0.at, what)
    }

    fn placed<T>(self, read: Read<T>) -> Read<T> {
        read.map_err(|error| error.or_at(self.0.at))
    }
}

/// Methods that read a number: as a natural one, or else as a negative one.
macro_rules! whole_numbers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
            let number = self.whole()?;
            match (u64::try_from(number), i64::try_from(number)) {
                (Ok(number), _) => self.placed(visitor.visit_u64(number)),
                (_, Ok(number)) => self.placed(visitor.visit_i64(number)),
                _ => Err(self.other("this number is too large")),
            }
        })*
    };
}

/// Methods that read the same as another.
macro_rules! the_same {
    ($($method:ident as $other:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
            self.$other(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = YamlError;

    whole_numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
    }

    the_same! {
        deserialize_f32 as deserialize_f64
        deserialize_char as deserialize_str
        deserialize_string as deserialize_str
        deserialize_identifier as deserialize_str
        deserialize_bytes as deserialize_any
        deserialize_byte_buf as deserialize_any
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        let (text, is_plain) = match &self.0.content {
            Content::List(_) => return self.deserialize_seq(visitor),
            Content::Map(_) => return self.deserialize_map(visitor),
            Content::Word { text, is_plain } => (text, *is_plain),
        };
        let meaning = if is_plain { scalar::meaning(text) } else { ScalarMeaning::Word };
        self.placed(match meaning {
            ScalarMeaning::Nothing => visitor.visit_unit(),
            ScalarMeaning::Flag(flag) => visitor.visit_bool(flag),
            ScalarMeaning::Natural(number) => visitor.visit_u64(number),
            ScalarMeaning::Negative(number) => visitor.visit_i64(number),
            ScalarMeaning::Float(number) if number.is_finite() => visitor.visit_f64(number),
            ScalarMeaning::Float(_) => Err(self.other("this number is not finite")),
            ScalarMeaning::Word => visitor.visit_str(text),
        })
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        let flag = scalar::flag(self.word()?).ok_or_else(|| self.other("this is to be `true` or `false`"))?;
        self.placed(visitor.visit_bool(flag))
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        let text = self.word()?;
        let number = scalar::float(text).or_else(|| scalar::whole(text).map(|number| number as f64));
        let number = number.ok_or_else(|| self.other("this is to be a number"))?;
        self.placed(visitor.visit_f64(number))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        let text = self.word()?;
        self.placed(visitor.visit_str(text))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.placed(if self.is_nothing() { visitor.visit_none() } else { visitor.visit_some(self) })
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        if self.is_nothing() { self.placed(visitor.visit_unit()) } else { Err(self.other("nothing belongs here")) }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Read<V::Value> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Read<V::Value> {
        self.placed(visitor.visit_newtype_struct(self))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        let items = match &self.0.content {
            Content::List(items) => items.as_slice(),
            _ if self.is_nothing() => &[],
            _ => return Err(self.fault(YamlFault::NotAList)),
        };
        self.placed(visitor.visit_seq(Items(items.iter())))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Read<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, _: usize, visitor: V) -> Read<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        let entries = match &self.0.content {
            Content::Map(entries) => entries.as_slice(),
            _ if self.is_nothing() => &[],
            _ => return Err(self.fault(YamlFault::NotAMap)),
        };
        self.placed(visitor.visit_map(Entries { left: entries.iter(), value: None }))
    }

    fn deserialize_struct<V: Visitor<'de>>(self, _: &'static str, _: &'static [&'static str], visitor: V) -> Read<V::Value> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(self, name: &'static str, _: &'static [&'static str], visitor: V) -> Read<V::Value> {
        if name == spanned::NAME {
            return self.placed(visitor.visit_enum(Placed(self)));
        }
        let variant = match &self.0.content {
            Content::Map(entries) => match entries.as_slice() {
                [(key, value)] => Variant { name: Reader(key), value: Some(Reader(value)) },
                _ => return Err(self.other("this is to be a word, or one key with its value")),
            },
            _ => Variant { name: self, value: None },
        };
        self.placed(visitor.visit_enum(variant))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_unit()
    }
}

struct Items<'de>(std::slice::Iter<'de, YamlNode>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = YamlError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Read<Option<T::Value>> {
        self.0.next().map(|item| seed.deserialize(Reader(item))).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.0.len())
    }
}

struct Entries<'de> {
    left: std::slice::Iter<'de, (YamlNode, YamlNode)>,
    value: Option<&'de YamlNode>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = YamlError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Read<Option<K::Value>> {
        let Some((key, value)) = self.left.next() else { return Ok(None) };
        self.value = Some(value);
        seed.deserialize(Reader(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Read<V::Value> {
        let value = self.value.take().ok_or_else(|| YamlError::other(Location::UNKNOWN, "a value was read before its key"))?;
        seed.deserialize(Reader(value))
    }
}

/// A variant of an enum: its name alone, or with what it holds.
struct Variant<'de> {
    name: Reader<'de>,
    value: Option<Reader<'de>>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = YamlError;
    type Variant = VariantNode<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Read<(V::Value, VariantNode<'de>)> {
        let name: StrDeserializer<'_, YamlError> = self.name.word()?.into_deserializer();
        let variant = self.name.placed(seed.deserialize(name))?;
        Ok((variant, VariantNode { name: self.name, value: self.value }))
    }
}

struct VariantNode<'de> {
    name: Reader<'de>,
    value: Option<Reader<'de>>,
}

impl<'de> VariantNode<'de> {
    fn value(self) -> Read<Reader<'de>> {
        self.value.ok_or_else(|| self.name.other("this word needs a value: write `word: value`"))
    }
}

impl<'de> VariantAccess<'de> for VariantNode<'de> {
    type Error = YamlError;

    fn unit_variant(self) -> Read<()> {
        match self.value {
            Some(value) if !value.is_nothing() => Err(value.other("this word has no value")),
            _ => Ok(()),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Read<T::Value> {
        seed.deserialize(self.value()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Read<V::Value> {
        self.value()?.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Read<V::Value> {
        self.value()?.deserialize_map(visitor)
    }
}

/// A value with its place, as [`spanned::Spanned`] reads it.
struct Placed<'de>(Reader<'de>);

impl<'de> EnumAccess<'de> for Placed<'de> {
    type Error = YamlError;
    type Variant = VariantNode<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Read<(V::Value, VariantNode<'de>)> {
        let place: U64Deserializer<YamlError> = self.0.0.at.packed().into_deserializer();
        Ok((seed.deserialize(place)?, VariantNode { name: self.0, value: Some(self.0) }))
    }
}
