//! Does one glob match everything that another matches?
//!
//! Sound and not complete: a yes is sure, a no means that nobody could tell. Good enough to find rules that cannot speak.

use super::segment::Segment;
use super::{Glob, Globs, Word};

impl Globs {
    /// Whatever `other` matches, this matches too.
    pub(crate) fn covers(&self, other: &Globs) -> bool {
        self.exclude.is_empty() && other.include.iter().all(|glob| self.include.iter().any(|own| own.covers(glob)))
    }

    /// Its exclusions take everything away that it includes.
    pub(crate) fn is_void(&self) -> bool {
        !self.include.is_empty() && self.include.iter().all(|glob| self.exclude.iter().any(|excluded| excluded.covers(glob)))
    }
}

impl Globs {
    /// No path matches both, as far as their first names tell.
    pub(crate) fn is_apart_from(&self, other: &Globs) -> bool {
        self.include.iter().all(|glob| other.include.iter().all(|theirs| glob.is_apart_from(theirs)))
    }
}

impl Word {
    pub(crate) fn covers(&self, other: &Word) -> bool {
        self.0.covers(&other.0)
    }
}

impl Glob {
    fn is_apart_from(&self, other: &Glob) -> bool {
        let mut names = self.segments.iter().zip(&other.segments);
        let literal = |segments: &(&Segment, &Segment)| matches!(segments, (Segment::Literal(_), Segment::Literal(_)));
        names.by_ref().take_while(literal).any(|(own, theirs)| own != theirs)
    }

    /// A table over both lists of segments from their ends, so that any two globs cost segments × segments.
    fn covers(&self, other: &Glob) -> bool {
        let (wide, narrow) = (&self.segments, &other.segments);
        let mut below = vec![false; wide.len() + 1];
        for start in (0..=narrow.len()).rev() {
            let mut row = vec![false; wide.len() + 1];
            row[wide.len()] = start == narrow.len();
            for at in (0..wide.len()).rev() {
                row[at] = match (&wide[at], narrow.get(start)) {
                    (Segment::Deep, None) => row[at + 1],
                    (Segment::Deep, Some(_)) => row[at + 1] || below[at],
                    (_, None | Some(Segment::Deep)) => false,
                    (segment, Some(name)) => segment.covers(name) && below[at + 1],
                };
            }
            below = row;
        }
        below[0]
    }
}

impl Segment {
    /// Of single segments only; `**` is the list's business.
    fn covers(&self, other: &Segment) -> bool {
        match (self, other) {
            (Segment::Any | Segment::Deep, _) => true,
            (own, Segment::Literal(name)) => own.matches(name),
            (Segment::Prefix(own), Segment::Prefix(other)) => other.starts_with(&**own),
            (Segment::Suffix(own), Segment::Suffix(other)) => other.ends_with(&**own),
            (Segment::Contains(own), Segment::Prefix(other) | Segment::Suffix(other) | Segment::Contains(other)) => other.contains(&**own),
            (own, other) => own == other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn globs(patterns: &[&str]) -> Globs {
        Globs::parse(patterns).unwrap()
    }

    #[test]
    fn wider_covers_narrower() {
        let table: &[(&[&str], &[&str], bool)] = &[
            (&["**"], &["src/**", "*.rs"], true),
            (&["src"], &["src/**", "src/a/*.rs"], true),
            (&["src/**"], &["src"], false),
            (&["*.rs"], &["src/*_test.rs"], true),
            (&["*.rs"], &["src/*"], false),
            (&["src/*.rs"], &["src/**"], false),
            (&["a*"], &["abc"], true),
            (&["**", "!docs"], &["src/**"], false),
        ];
        for (wide, narrow, expect) in table {
            assert_eq!(globs(wide).covers(&globs(narrow)), *expect, "{wide:?} over {narrow:?}");
        }
    }

    #[test]
    fn what_lies_in_other_folders_is_apart() {
        let apart = |a: &[&str], b: &[&str]| globs(a).is_apart_from(&globs(b));
        assert!(apart(&["/src/**"], &["/docs/**", "/tests/a"]) && apart(&["/src/a/*.rs"], &["/src/b/*.rs"]));
        for (a, b) in
            [(&["/src/**"][..], &["*.rs"][..]), (&["/src/**", "/docs"], &["/docs/a"]), (&["/*/a"], &["/src/b"]), (&["/src"], &["/src/a"])]
        {
            assert!(!apart(a, b), "{a:?} {b:?}");
        }
    }

    #[test]
    fn exclusions_can_leave_nothing() {
        assert!(globs(&["src/**", "!src"]).is_void() && globs(&["*.rs", "a/b", "!**"]).is_void());
        assert!(!globs(&["src/**", "!src/secret"]).is_void() && !globs(&[]).is_void());
    }

    proptest! {
        #[test]
        fn what_is_covered_matches_both(
            wide in "(a|\\*|\\*\\*|a\\*|\\*b|\\*a\\*)(/(a|b|\\*|\\*\\*|\\*b)){0,3}",
            narrow in "(a|\\*|\\*\\*|a\\*|\\*b|\\*a\\*)(/(a|b|\\*|\\*\\*|\\*b)){0,3}",
            path in "(a|b|ab|ba)(/(a|b|ab|ba)){0,4}",
        ) {
            let (wide, narrow) = (globs(&[&wide]), globs(&[&narrow]));
            prop_assert!(!wide.covers(&narrow) || !narrow.matches(&path) || wide.matches(&path));
        }
    }
}
