//! A value with the place where it stands.

use crate::error::Location;
use serde::de::{Deserialize, Deserializer, EnumAccess, VariantAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// The name by which the reader knows that the place is wanted too.
pub(crate) const NAME: &str = "$yaml::Spanned";

/// A value and where it stands; of all that an alias stands for, where the alias does. Only this crate's reader can read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spanned<T> {
    pub value: T,
    pub referenced: Location,
}

/// serde has pairs of a small tag and a value of any type: variants of enums. The tag is the place.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spanned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Spanned<T>, D::Error> {
        struct Pair<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Pair<T> {
            type Value = Spanned<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value of a YAML file")
            }

            fn visit_enum<A: EnumAccess<'de>>(self, pair: A) -> Result<Spanned<T>, A::Error> {
                let (packed, value) = pair.variant::<u64>()?;
                Ok(Spanned { value: value.newtype_variant()?, referenced: Location::unpacked(packed) })
            }
        }
        deserializer.deserialize_enum(NAME, &[], Pair(PhantomData))
    }
}
