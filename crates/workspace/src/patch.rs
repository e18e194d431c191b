//! A task's changes as a patch that `git apply` takes, byte for byte.
//!
//! Paths that stay out of a merge are not in it, and a conflict is in it only once somebody chose a side. A rename is a removal and a
//! creation. What is not text is a binary patch, so nothing is lost to an encoding.

mod binary;

use crate::diff::{FileGone, Kept, kept_bytes};
use crate::frozen::{Frozen, FrozenPath};
use crate::tree::State;
use crate::unified::unified;

/// Lines of context around a change, as many as git shows.
const CONTEXT_LINES: usize = 3;

impl Frozen {
    /// All that would be merged, as one patch.
    pub fn git_patch(&self, kept: &Kept<'_>) -> Result<Vec<u8>, FileGone> {
        let mut patch = Vec::new();
        for change in &self.changes {
            let (old, new) = (Side::of(&change.old, kept)?, Side::of(&change.new, kept)?);
            match (&old, &new) {
                // Git knows no way from a file to a link: one goes and the other comes.
                (Some(was), Some(becomes)) if was.is_link != becomes.is_link => {
                    add(&mut patch, change, old.as_ref(), None);
                    add(&mut patch, change, None, new.as_ref());
                }
                _ => add(&mut patch, change, old.as_ref(), new.as_ref()),
            }
        }
        Ok(patch)
    }
}

/// What git knows of a file.
struct Side {
    bytes: Vec<u8>,
    is_link: bool,
    is_program: bool,
}

impl Side {
    /// `None` where nothing stands that git knows of: folders are where their files are.
    fn of(state: &State, kept: &Kept<'_>) -> Result<Option<Side>, FileGone> {
        Ok(match state {
            State::Absent | State::Folder => None,
            State::Link { target } => Some(Side { bytes: target.clone().into_bytes(), is_link: true, is_program: false }),
            State::File { mode, .. } => {
                let bytes = kept_bytes(state, kept).map_err(FileGone::Fault)?.ok_or(FileGone::NotKept)?;
                Some(Side { bytes, is_link: false, is_program: mode.is_some_and(|mode| mode & 0o100 != 0) })
            }
        })
    }

    fn mode(&self) -> &'static str {
        match (self.is_link, self.is_program) {
            (true, _) => "120000",
            (false, true) => "100755",
            (false, false) => "100644",
        }
    }

    fn is_text(&self) -> bool {
        !self.bytes.contains(&0) && std::str::from_utf8(&self.bytes).is_ok()
    }
}

fn add(patch: &mut Vec<u8>, change: &FrozenPath, old: Option<&Side>, new: Option<&Side>) {
    let (before, after) = (old.map_or(&[][..], |side| &side.bytes), new.map_or(&[][..], |side| &side.bytes));
    let (a, b) = (quoted(&format!("a/{}", change.path)), quoted(&format!("b/{}", change.path)));
    let modes = match (old, new) {
        (None, None) => return,
        (None, Some(new)) => format!("new file mode {}\n", new.mode()),
        (Some(old), None) => format!("deleted file mode {}\n", old.mode()),
        (Some(old), Some(new)) if old.mode() != new.mode() => format!("old mode {}\nnew mode {}\n", old.mode(), new.mode()),
        (Some(_), Some(_)) if before == after => return,
        (Some(_), Some(_)) => String::new(),
    };
    patch.extend_from_slice(format!("diff --git {a} {b}\n{modes}").as_bytes());
    if before == after {
        return;
    }
    if [old, new].into_iter().flatten().all(Side::is_text) {
        let from = if old.is_some() { a } else { "/dev/null".to_owned() };
        let to = if new.is_some() { b } else { "/dev/null".to_owned() };
        let text = unified(("", ""), before, after, CONTEXT_LINES).text;
        // Its own names are for people; git's are quoted in git's way.
        let places = text.find("@@ ").map_or("", |at| &text[at..]);
        patch.extend_from_slice(format!("--- {from}\n+++ {to}\n{places}").as_bytes());
    } else {
        binary::add(patch, before, after, old.is_none(), new.is_none());
    }
}

/// A name as git writes it: in quotes and with C's escapes where it is not plain.
fn quoted(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"./_-+@,=".contains(&byte);
    if name.bytes().all(plain) {
        return name.to_owned();
    }
    let mut text = String::from("\"");
    for byte in name.bytes() {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(byte)),
            other => text.push_str(&format!("\\{other:03o}")),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests;
