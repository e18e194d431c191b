//! An event as it is read back.

use super::Event;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// An event before it is known what its kind means.
#[derive(Deserialize)]
struct StoredEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    payload: Box<RawValue>,
}

/// The payload is taken as text first. So each kind is compiled for one reader of JSON, and not once more for a payload that stands before
/// its kind and for every source that an event is read from.
impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Event, D::Error> {
        let stored = StoredEvent::deserialize(deserializer)?;
        Event::parse(&stored.kind, stored.payload.get()).map_err(D::Error::custom)
    }
}
