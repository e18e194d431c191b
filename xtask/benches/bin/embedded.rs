//! The benches that boot a kernel in their own process, in one program: to link a kernel takes longer than to measure it.
//!
//! The first argument says which one runs; the others are its own.
#![forbid(unsafe_code)]

mod door;
mod mail;
mod phase;
mod plan;

use std::error::Error;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["door", words @ ..] => door::run(words),
        ["mail"] => mail::run(),
        ["phase", words @ ..] => phase::run(words),
        ["plan", words @ ..] => plan::run(words),
        _ => Err("usage: bench-embedded door|mail|phase|plan ARGUMENTS".into()),
    }
}
