//! One fuzz target, run for half a second as a test and for `SKEP_FUZZ_SECONDS` by `cargo xtask fuzz`.
//!
//! Included by the `tests/fuzz.rs` of each crate that reads what others wrote. Bolero makes the bytes; under `cargo bolero` the same
//! targets run with a fuzzer that is guided by coverage.

use std::panic::{AssertUnwindSafe, RefUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const TIME_DEFAULT: Duration = Duration::from_millis(500);

/// Bytes as they come.
pub fn bytes(name: &str, target: impl Fn(&[u8])) {
    let seconds = std::env::var("SKEP_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let time = seconds.map_or(TIME_DEFAULT, Duration::from_secs);
    let (runs, target) = (AtomicU64::new(0), AssertUnwindSafe(target));
    let run = |input: &[u8]| {
        runs.fetch_add(1, Ordering::Relaxed);
        (target)(input);
    };
    each(time, run);
    println!("fuzz {name}: {} inputs in {} s, no panic", runs.load(Ordering::Relaxed), time.as_secs_f32());
}

fn each(time: Duration, run: impl Fn(&[u8]) + RefUnwindSafe) {
    bolero::check!().with_iterations(usize::MAX).with_test_time(time).with_max_len(512).for_each(run);
}

/// Text from words that the target knows, with noise between them.
#[allow(dead_code, reason = "not every crate that includes this reads text")]
pub fn text(name: &str, words: &[&str], target: impl Fn(&str)) {
    bytes(name, |input| {
        let mut text = String::new();
        let mut input = input.iter().copied();
        while let Some(byte) = input.next() {
            match (byte, words.get(usize::from(byte) % (words.len() + 2))) {
                (_, Some(word)) => text.push_str(word),
                (0..=127, None) => text.push(char::from(input.next().unwrap_or(b'a') & 0x7f)),
                (_, None) => text.extend(char::from_u32(u32::from(input.next().unwrap_or(1)) << 5)),
            }
        }
        target(&text);
    });
}
