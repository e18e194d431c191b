//! A record of the journal as a reader needs it.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use wire::{Event, Pid};

#[derive(Clone, Debug)]
pub struct ParsedRecord {
    pub seq: u64,
    pub at_ms: i64,
    pub kind: String,
    pub payload: Value,
    /// `None` for a kind that a newer kernel wrote.
    pub event: Option<Event>,
}

#[derive(Deserialize)]
struct Stored {
    seq: u64,
    timestamp: String,
    #[serde(rename = "type")]
    kind: String,
    payload: Value,
}

impl ParsedRecord {
    /// Reads a stored line; `None` for one that is no record.
    pub fn parse(line: &str) -> Option<ParsedRecord> {
        let stored: Stored = serde_json::from_str(line).ok()?;
        let at: Timestamp = stored.timestamp.parse().ok()?;
        let event = serde_json::from_str(line).ok();
        Some(ParsedRecord { seq: stored.seq, at_ms: at.as_millisecond(), kind: stored.kind, payload: stored.payload, event })
    }

    pub fn pid(&self) -> Option<Pid> {
        self.payload.get("pid").and_then(Value::as_u64).map(Pid)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::json;

    /// A stored line for an event.
    pub fn line(seq: u64, event: impl Into<Event>) -> String {
        let mut record = serde_json::to_value(event.into()).unwrap();
        record["seq"] = json!(seq);
        record["v"] = json!(1);
        record["timestamp"] = json!(Timestamp::from_millisecond(seq as i64 * 1_000).unwrap().to_string());
        record["session_id"] = json!("s-3");
        record["hash_prev"] = json!("00");
        record.to_string()
    }

    #[test]
    fn a_record_is_read_and_so_is_one_of_tomorrow() {
        let record = ParsedRecord::parse(&line(7, wire::event::BrainSaid { pid: Pid(3), task: None, text: "hi".into() })).unwrap();
        assert_eq!((record.seq, record.at_ms, record.pid()), (7, 7_000, Some(Pid(3))));
        assert!(record.event.is_some());
        let tomorrow = r#"{"seq":1,"timestamp":"2026-11-15T00:00:00.000Z","type":"dream.had","payload":{"pid":3}}"#;
        let record = ParsedRecord::parse(tomorrow).unwrap();
        assert!(record.event.is_none() && record.kind == "dream.had");
        assert!(ParsedRecord::parse("{}").is_none());
    }
}
