//! Conflicts that were laid out in a task's files for it to settle, and what is still unsettled of them.
//!
//! **Invariant.** Neither the marks of a conflict nor a side of it that nobody chose goes in as if it were settled. *Does not know* rooms
//! or the project.

use crate::tree::State;
use serde::{Deserialize, Serialize};

/// The lines that `three::merge` puts around what both sides changed, but for `=======`: that may be a heading.
const MARKS: [&str; 3] = ["<<<<<<< ours", "||||||| original", ">>>>>>> theirs"];

/// Why a file with marks is a conflict.
pub const MARKS_LEFT: &str = "it still has the marks of a conflict that nobody settled";

/// Why a file that both sides changed, and that the task deleted or moved since, is one.
pub const DELETED: &str = "it was changed after the task began, and the task deleted it instead of settling that";

/// A conflict of a path, laid out when the task's work was laid over a newer project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsettled {
    pub why: String,
    /// What the task had made of it.
    pub theirs: State,
    /// Whether both sides stand in it, marked; else the task's own version does.
    pub is_marked: bool,
}

impl Unsettled {
    /// Whether a person has still to choose where no marks tell that: the task left its own version as it was, or deleted the file, and with
    /// it the other's.
    pub fn is_open(&self, now: &State) -> bool {
        let is_deleted = *now == State::Absent && self.theirs != State::Absent;
        is_deleted || (!self.is_marked && self.theirs.plain() == now.plain())
    }
}

/// Whether a text has marks of a conflict that the project's version does not have.
pub fn has_marks(text: &[u8], project: &[u8]) -> bool {
    count(text) > count(project)
}

fn count(text: &[u8]) -> usize {
    text.split(|byte| *byte == b'\n').filter(|line| MARKS.iter().any(|mark| line.trim_ascii_end() == mark.as_bytes())).count()
}

/// A marked text with the task's side of each conflict that is left; `None` where that cannot be told.
pub fn task_side(marked: &[u8]) -> Option<String> {
    enum At {
        Outside,
        Project,
        Base,
        Task,
    }
    let (mut at, mut text) = (At::Outside, String::new());
    for line in std::str::from_utf8(marked).ok()?.split_inclusive('\n') {
        at = match (at, line.trim_ascii_end()) {
            (At::Outside, "<<<<<<< ours") => At::Project,
            (At::Project, "||||||| original") => At::Base,
            (At::Base, "=======") => At::Task,
            (At::Task, ">>>>>>> theirs") => At::Outside,
            // Marks in another order, or a line of the text that looks like one.
            (_, line) if MARKS.contains(&line) => return None,
            (At::Task, "=======") => return None,
            (now @ (At::Outside | At::Task), _) => {
                text.push_str(line);
                now
            }
            (now, _) => now,
        };
    }
    matches!(at, At::Outside).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::three::{Three, merge};

    #[test]
    fn what_a_merge_marks_is_found_and_the_tasks_side_is_taken() {
        let (base, mine, theirs) = ("a\nb\nc\nd\ne\nf\n", "a\nmine\nc\nd\ne\nF\n", "a\ntheirs\nc\nd\nE\n");
        let Three::Conflict(marked) = merge(base.as_bytes(), mine.as_bytes(), theirs.as_bytes()) else { panic!("it is one") };
        assert!(has_marks(marked.as_bytes(), mine.as_bytes()));
        assert_eq!(task_side(marked.as_bytes()).as_deref(), Some(theirs));
        // The project may hold such lines itself, and a heading is no mark.
        assert!(!has_marks(marked.as_bytes(), marked.as_bytes()) && !has_marks(b"Title\n=======\n", b""));
        assert!(!has_marks(mine.as_bytes(), base.as_bytes()) && !has_marks(theirs.as_bytes(), base.as_bytes()), "the controls");
    }

    #[test]
    fn without_marks_only_another_version_settles() {
        let file = |blob: &str, mode| State::File { blob: blob.into(), mode, owner: None };
        let unsettled = |theirs: State, is_marked| Unsettled { why: String::new(), theirs, is_marked };
        for (theirs, is_marked, now, is_open) in [
            (file("a", None), false, file("a", Some(0o644)), true),
            (file("a", None), false, file("b", None), false),
            (file("a", None), true, file("a", None), false),
            (file("a", None), true, State::Absent, true),
            (file("a", None), false, State::Absent, true),
            (State::Absent, false, State::Absent, true),
            (State::Absent, false, file("b", None), false),
        ] {
            assert_eq!(unsettled(theirs.clone(), is_marked).is_open(&now), is_open, "{theirs:?} {is_marked} {now:?}");
        }
    }

    #[test]
    fn half_settled_marks_are_still_marks() {
        for text in ["<<<<<<< ours\nx\n=======\ny\n", "x\n>>>>>>> theirs\n", "||||||| original\r\nx\r\n"] {
            assert!(has_marks(text.as_bytes(), b"x\n"), "{text}");
            assert_eq!(task_side(text.as_bytes()), None, "{text}");
        }
        let heading = "<<<<<<< ours\nx\n||||||| original\n=======\nT\n=======\n>>>>>>> theirs\n";
        assert_eq!(task_side(heading.as_bytes()), None, "nobody knows which of the two it is");
    }
}
