//! YAML files, read into types that derive `Deserialize`.
//!
//! Pure, but for [`read_file`]. A file becomes a tree once, and every type is read from that tree, so that the code for a type is compiled once and is small.
//!
//! **Invariant.** Every error says where it stands. A key that stands twice, a second document, a tag that means nothing here and a file
//! that unfolds to more than [`NODES_MAX`] parts, or to words of more than [`COPIED_BYTES_MAX`] bytes, are errors.
//!
//! Only `true` and `false` are booleans: `no`, `on` and `y` are words. It does not know what the files are for.
#![forbid(unsafe_code)]

mod error;
mod file;
mod flat;
mod read;
mod scalar;
mod spanned;
mod tree;

pub use error::{Location, YamlError, YamlFault};
pub use file::{FILE_BYTES_MAX, read_file};
pub use flat::{FlatSetting, flatten};
pub use spanned::Spanned;

use serde::de::DeserializeOwned;

/// Words, lists and maps that a file may have, with those that aliases stand for. Ten thousand rules have a third of that.
pub const NODES_MAX: usize = 250_000;
/// Bytes of words that anchors and aliases may stand for, all together: as many as the longest file has.
pub const COPIED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How deeply lists and maps may be nested.
pub const DEPTH_MAX: usize = 64;

/// Reads a file. One without content is no value: an empty list, a map of no keys, or `None`.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    let tree = tree::parse(text)?;
    T::deserialize(read::Reader(&tree))
}

#[cfg(test)]
mod tests;
