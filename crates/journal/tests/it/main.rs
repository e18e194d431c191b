//! The journal from outside: what a kernel may rely on.
#![expect(clippy::unwrap_used, reason = "what a test can't do, it fails at")]

mod append;
mod boot;
mod corpus;
mod crash;
mod export;
mod fault;
mod index;
mod late;
mod slices;
mod snapshot;
mod tamper;

use std::path::Path;

use journal::{Class, Draft, Journal, Opened, Options};
use serde_json::value::RawValue;

pub fn draft(n: u64) -> Draft {
    let payload = format!(r#"{{"pid":{},"task":"task-{}","text":"record {n} é \" \n"}}"#, n % 3, n % 2);
    Draft {
        kind: if n.is_multiple_of(2) { "call.admitted" } else { "task.queued" },
        session: format!("s-{}", n % 4),
        pid: Some(n % 3),
        task: Some(format!("task-{}", n % 2)),
        payload: RawValue::from_string(payload).unwrap(),
        at_ms: 1_794_000_000_000 + n.cast_signed() * 1000,
        class: Class::Fact,
    }
}

pub fn security(n: u64) -> Draft {
    Draft { class: Class::Security, ..draft(n) }
}

pub fn open(home: &Path) -> (Journal, Opened) {
    Journal::open(home, Options::default()).unwrap()
}

/// A closed journal with records 0 to `count` - 1.
pub fn filled(home: &Path, count: u64) {
    let (journal, _) = open(home);
    for n in 0..count {
        drop(journal.append(vec![draft(n)]));
    }
    journal.close();
}
