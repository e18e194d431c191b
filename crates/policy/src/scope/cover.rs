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

impl Globs {
    /// Every path beneath this folder matches, whatever its name. As above, a yes is sure.
    pub(crate) fn matches_all_below(&self, folder: &str) -> bool {
        self.include.iter().any(|glob| glob.matches_all_below(folder)) && !self.exclude.iter().any(|glob| glob.may_match_below(folder))
    }

    /// Some path beneath this folder may match. Here a no is sure.
    pub(crate) fn may_match_below(&self, folder: &str) -> bool {
        self.include.iter().any(|glob| glob.may_match_below(folder))
    }
}

impl Word {
    pub(crate) fn covers(&self, other: &Word) -> bool {
        self.0.covers(&other.0)
    }

    /// No word fits both. Here a yes is sure.
    pub(crate) fn is_apart_from(&self, other: &Word) -> bool {
        let is_literal = |word: &Word| matches!(word.0, Segment::Literal(_));
        (is_literal(self) || is_literal(other)) && !self.covers(other) && !other.covers(self)
    }
}

impl Glob {
    fn is_apart_from(&self, other: &Glob) -> bool {
        let mut names = self.segments.iter().zip(&other.segments);
        let literal = |segments: &(&Segment, &Segment)| matches!(segments, (Segment::Literal(_), Segment::Literal(_)));
        names.by_ref().take_while(literal).any(|(own, theirs)| own != theirs)
    }

    /// Where in its segments a match can stand when the names of a folder are read.
    fn after(&self, folder: &str) -> Vec<usize> {
        // `**` takes no name as well as many: where it stands, so does what follows it.
        let settle = |at: usize, into: &mut Vec<usize>| {
            let mut at = at;
            while at <= self.segments.len() && !into.contains(&at) {
                into.push(at);
                if self.segments.get(at) != Some(&Segment::Deep) {
                    break;
                }
                at += 1;
            }
        };
        let mut places = Vec::new();
        settle(0, &mut places);
        for name in folder.split('/').filter(|name| !name.is_empty() && *name != ".") {
            let mut next = Vec::new();
            for at in places {
                match self.segments.get(at) {
                    Some(Segment::Deep) => settle(at, &mut next),
                    Some(segment) if segment.matches(name) => settle(at + 1, &mut next),
                    _ => {}
                }
            }
            places = next;
        }
        places
    }

    fn may_match_below(&self, folder: &str) -> bool {
        self.after(folder).iter().any(|at| *at < self.segments.len())
    }

    /// What is left takes any one name and all that follows.
    fn matches_all_below(&self, folder: &str) -> bool {
        self.after(folder).iter().any(|at| {
            let rest = &self.segments[*at..];
            let anything = rest.iter().all(|segment| matches!(segment, Segment::Deep | Segment::Any));
            let names = rest.iter().filter(|segment| **segment == Segment::Any).count();
            anything && names <= 1 && rest.last() == Some(&Segment::Deep)
        })
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

    #[test]
    fn folders_are_matched_whole_or_in_part() {
        let table: &[(&[&str], &str, bool, bool)] = &[
            (&["/private/**"], "private", true, true),
            (&["/private/**"], "private/deep/er", true, true),
            (&["/private/**"], "privat", false, false),
            (&["/private/**"], "a/private", false, false),
            (&["private"], "a/private/b", true, true),
            (&["private/*"], "private", true, true),
            (&["/a/*/*"], "a", false, true),
            (&["/a/*/*"], "a/b", true, true),
            (&["*.key"], "private", false, true),
            (&["*.key"], "x.key", true, true),
            (&["**"], "a", true, true),
            (&["/a/**", "!/a/b/**"], "a", false, true),
            (&["/a/**", "!/a/b/**"], "a/c", true, true),
            (&["/a/**", "!/a/b/**"], "a/b", false, true),
            (&["/a/b"], "a", false, true),
            (&["/a/b"], "a/b/c", true, true),
            (&["/a/b"], "b", false, false),
        ];
        for (list, folder, all, some) in table {
            let globs = globs(list);
            assert_eq!((globs.matches_all_below(folder), globs.may_match_below(folder)), (*all, *some), "{list:?} below {folder}");
        }
    }

    proptest! {
        #[test]
        fn what_is_said_of_a_folder_holds_for_its_paths(
            include in "/?(a|\\*|\\*\\*|a\\*|\\*b)(/(a|b|\\*|\\*\\*|\\*b)){0,3}/?",
            exclude in proptest::option::of("!/?(a|\\*b|ab)(/(a|b|\\*|\\*\\*)){0,2}"),
            folder in "(a|b|ab|ba)(/(a|b|ab|ba)){0,2}",
            rest in "(a|b|ab|ba|c)(/(a|b|ab|ba)){0,2}",
        ) {
            let list: Vec<&str> = std::iter::once(include.as_str()).chain(exclude.as_deref()).collect();
            let (globs, path) = (globs(&list), format!("{folder}/{rest}"));
            prop_assert!(!globs.matches_all_below(&folder) || globs.matches(&path), "{list:?} on {path}");
            prop_assert!(globs.may_match_below(&folder) || !globs.matches(&path), "{list:?} on {path}");
        }

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
