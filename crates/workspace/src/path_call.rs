//! A changed path as a call that the gate knows, and the gate as this crate asks it.

use crate::frozen::FrozenPath;
use crate::tree::State;
use world::{Stop, limits};

/// What the gate knows reads and changes of paths as.
pub const READ: &str = "fs.read";
pub const WRITE: &str = "fs.write";
pub const MOVE: &str = "fs.move";

/// One change of a path, as a call that the gate knows.
#[derive(Debug)]
pub struct PathCall<'a> {
    pub tool: &'static str,
    /// Old and new name of a move; else the one path.
    pub paths: Vec<&'a str>,
    pub size: u64,
    /// The text of a write, as its call would have it.
    pub content: Option<String>,
}

impl<'a> PathCall<'a> {
    pub fn of(path: &'a str, from: Option<&'a str>, to: Option<&'a str>, gone: bool, size: u64) -> PathCall<'a> {
        match (from, to) {
            (None, None) => PathCall { tool: if gone { "fs.delete" } else { WRITE }, paths: vec![path], size, content: None },
            (from, to) => PathCall { tool: MOVE, paths: vec![from.unwrap_or(path), to.unwrap_or(path)], size, content: None },
        }
    }

    /// The same with the bytes that a write writes. No call has more of them than an input may hold, so no more is shown.
    pub fn with_content(self, bytes: &[u8]) -> PathCall<'a> {
        let shown = &bytes[..bytes.len().min(limits::INPUT_BYTES_MAX)];
        let content = (self.tool == WRITE).then(|| String::from_utf8_lossy(shown).into_owned());
        PathCall { content, ..self }
    }

    pub fn of_frozen(frozen_path: &'a FrozenPath) -> PathCall<'a> {
        // A file that gives its place to a folder goes.
        let gone = matches!(frozen_path.new, State::Absent | State::Folder);
        PathCall::of(&frozen_path.path, frozen_path.from.as_deref(), frozen_path.to.as_deref(), gone, frozen_path.size)
    }
}

/// Who says whether a changed path may go into the project; the kernel's gate.
pub trait ChangeGate {
    /// A question for a person, if there is one, or why the path stays out.
    fn may_change(&self, deed: &PathCall<'_>, path: &str) -> impl Future<Output = Result<Result<Option<String>, String>, Stop>>;

    /// Does it look at what is written?
    fn reads_content(&self) -> bool;
}
