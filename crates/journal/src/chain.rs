//! One line of the chain: what goes in, in which order, and what the next line must quote.
//!
//! The format is public (docs/journal.md); a change here is a change of `v`.

use std::fmt::Write;

use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::canon;

/// How long a record may be late, and what must be durable before its ticket resolves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Resolves at once; written within 500 ms.
    Progress,
    /// Resolves when the batch is fsynced.
    Fact,
    /// As a fact, and may use the disk's reserve: what the operator does goes on when the disk is full.
    Operator,
    /// Resolves when the batch and its seal are fsynced.
    Security,
}

/// A record before it has its place in the chain.
#[derive(Debug, Clone)]
pub struct Draft {
    pub kind: &'static str,
    pub session: String,
    /// Must equal the payload's top-level `pid`, from which the index is derived.
    pub pid: Option<u64>,
    /// Must equal the payload's top-level `task`.
    pub task: Option<String>,
    pub payload: Box<RawValue>,
    /// Unix milliseconds by the ledger's clock.
    pub at_ms: i64,
    pub class: Class,
}

/// The last record of the chain. With `count` 0 there is none: `seq` is 0 and `hash` is the genesis hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub seq: u64,
    /// SHA-256 of the last line, lowercase hex.
    pub hash: String,
    pub count: u64,
}

pub(crate) type Hash = [u8; 32];

/// The random number a chain begins with; it gives every event its id and every seal its subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Genesis(pub [u8; 32]);

impl Genesis {
    pub(crate) fn hash(&self) -> Hash {
        sha256(&self.0)
    }

    /// A UUID in the v8 layout from SHA-256(nonce ‖ seq as 8 big-endian bytes).
    pub(crate) fn event_id(&self, seq: u64) -> [u8; 36] {
        let mut hasher = Sha256::new();
        hasher.update(self.0);
        hasher.update(seq.to_be_bytes());
        let digest: Hash = hasher.finalize().into();
        let mut id = [b'-'; 36];
        let mut at = 0;
        for (index, byte) in digest[..16].iter().enumerate() {
            let byte = match index {
                6 => byte & 0x0f | 0x80,
                8 => byte & 0x3f | 0x80,
                _ => *byte,
            };
            if matches!(index, 4 | 6 | 8 | 10) {
                at += 1;
            }
            id[at] = HEX[usize::from(byte >> 4)];
            id[at + 1] = HEX[usize::from(byte & 15)];
            at += 2;
        }
        id
    }
}

/// The last line's place and hash, as the writer carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tip {
    pub count: u64,
    /// Hash of the last line, or of the nonce where there is none.
    pub hash: Hash,
}

impl Tip {
    pub(crate) fn head(&self) -> Head {
        Head { seq: self.count.saturating_sub(1), hash: hex(&self.hash), count: self.count }
    }
}

/// A draft with all that does not depend on its place already written, by the thread that appends.
pub(crate) struct Prepared {
    pub kind: &'static str,
    pub session: String,
    pub pid: Option<u64>,
    pub task: Option<String>,
    pub at_ms: i64,
    middle: String,
}

impl Prepared {
    pub(crate) fn new(draft: Draft) -> Self {
        let mut middle = String::with_capacity(draft.payload.get().len() + draft.session.len() + 96);
        middle.push_str("\",\"timestamp\":\"");
        middle.push_str(ascii(&timestamp(draft.at_ms)));
        middle.push_str("\",\"session_id\":");
        canon::push_string(&mut middle, &draft.session);
        middle.push_str(",\"type\":");
        canon::push_string(&mut middle, draft.kind);
        middle.push_str(",\"payload\":");
        let (pid, task) = canon::push_payload(&mut middle, draft.payload.get());
        assert!(draft.pid.is_none() || draft.pid == pid, "draft `{}` and its payload name different pids", draft.kind);
        assert!(
            draft.task.is_none() || draft.task.as_deref() == task.as_deref(),
            "draft `{}` and its payload name different tasks",
            draft.kind
        );
        Self { kind: draft.kind, session: draft.session, pid, task, at_ms: draft.at_ms, middle }
    }

    /// Bytes the line will have, near enough to bound a batch.
    pub(crate) fn len(&self) -> usize {
        self.middle.len() + 160
    }

    /// Writes the line for the place after `tip` into `line` and moves the tip onto it.
    pub(crate) fn write(&self, genesis: &Genesis, tip: &mut Tip, line: &mut String) {
        line.clear();
        line.push_str("{\"event_id\":\"");
        line.push_str(ascii(&genesis.event_id(tip.count)));
        line.push_str(&self.middle);
        if tip.count > 0 {
            line.push_str(",\"hash_prev\":\"");
            line.push_str(ascii(&hash_hex(&tip.hash)));
            line.push('"');
        }
        // Writing to a String can't fail.
        let _ = write!(line, ",\"seq\":{},\"v\":1}}", tip.count);
        tip.hash = sha256(line.as_bytes());
        tip.count += 1;
    }
}

/// ISO 8601 with milliseconds, as JavaScript's `toISOString` writes it.
pub(crate) fn timestamp(at_ms: i64) -> [u8; 24] {
    assert!((0..253_402_300_800_000).contains(&at_ms), "time {at_ms} ms is outside the years 1970 to 9999");
    let days = at_ms / 86_400_000;
    let mut rest = at_ms % 86_400_000;
    // Days to a civil date, with years that begin in March so that the leap day comes last.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let mut put = |from: usize, digits: usize, mut value: i64| {
        for place in (from..from + digits).rev() {
            text[place] = b'0' + u8::try_from(value % 10).unwrap_or_default();
            value /= 10;
        }
    };
    put(0, 4, year);
    put(5, 2, month);
    put(8, 2, day);
    put(20, 3, rest % 1000);
    rest /= 1000;
    put(17, 2, rest % 60);
    put(14, 2, rest / 60 % 60);
    put(11, 2, rest / 3600);
    text
}

const HEX: &[u8; 16] = b"0123456789abcdef";

pub(crate) fn sha256(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}

/// As `hex`, on the stack: once per line on the way in and in every verification.
pub(crate) fn hash_hex(hash: &Hash) -> [u8; 64] {
    let mut text = [0; 64];
    for (pair, byte) in text.chunks_exact_mut(2).zip(hash) {
        pair[0] = HEX[usize::from(byte >> 4)];
        pair[1] = HEX[usize::from(byte & 15)];
    }
    text
}

/// Lowercase hex of exactly `N` bytes, or nothing.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != N * 2 {
        return None;
    }
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn ascii(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn timestamps_agree_with_jiff(at_ms in 0i64..253_402_300_800_000) {
            let expected = jiff::Timestamp::from_millisecond(at_ms).unwrap().strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
            prop_assert_eq!(timestamp(at_ms).to_vec(), expected.into_bytes());
        }

        #[test]
        fn hex_round_trips(bytes: [u8; 32]) {
            prop_assert_eq!(from_hex::<32>(&hex(&bytes)), Some(bytes));
        }
    }

    #[test]
    fn the_line_is_as_documented() {
        let draft = |payload: &str| Draft {
            kind: "call.admitted",
            session: "s \"1\"".into(),
            pid: Some(7),
            task: None,
            payload: RawValue::from_string(payload.into()).unwrap(),
            at_ms: 1_794_000_000_123,
            class: Class::Fact,
        };
        let genesis = Genesis([1; 32]);
        let mut tip = Tip { count: 0, hash: genesis.hash() };
        let mut first = String::new();
        Prepared::new(draft("{ \"pid\": 7 }")).write(&genesis, &mut tip, &mut first);
        let id = ascii(&genesis.event_id(0)).to_owned();
        assert_eq!(
            first,
            format!(
                r#"{{"event_id":"{id}","timestamp":"2026-11-06T21:20:00.123Z","session_id":"s \"1\"","type":"call.admitted","payload":{{"pid":7}},"seq":0,"v":1}}"#
            )
        );
        assert_eq!((&id[14..15], id.len()), ("8", 36), "{id} has the v8 layout");
        let mut second = String::new();
        Prepared::new(draft("{\"pid\":7,\"x\":1.0}")).write(&genesis, &mut tip, &mut second);
        let expected = format!(r#""payload":{{"pid":7,"x":1}},"hash_prev":"{}","seq":1,"v":1}}"#, hex(&sha256(first.as_bytes())));
        assert!(second.ends_with(&expected), "{second}");
    }

    #[test]
    #[should_panic(expected = "name different pids")]
    fn a_draft_that_contradicts_its_payload_is_a_bug() {
        let payload = RawValue::from_string("{\"pid\":8}".into()).unwrap();
        let draft = Draft { kind: "k", session: String::new(), pid: Some(7), task: None, payload, at_ms: 0, class: Class::Fact };
        Prepared::new(draft);
    }
}
