//! A rule file as JavaScript. The work is the crate `typescript`'s; here its flaws get the file's name.

use crate::fault::RuleFlaw;
use crate::limits::FRAME_BYTES;

#[cfg(test)]
mod tests;

/// The file as JavaScript, or its first error.
pub(super) fn strip(file: &str, text: &str) -> Result<String, RuleFlaw> {
    typescript::strip(text, FRAME_BYTES).map_err(|flaw| RuleFlaw::new(file, flaw.at, flaw.what))
}
