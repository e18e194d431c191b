//! Three-way merge of text: what two sides made of one base.
//!
//! Pure. **Invariant.** A clean result holds every change of both sides; what touches the same or neighbouring lines is a conflict.

/// Beyond this many bytes a person merges by hand: comparing costs more than it helps.
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Three {
    Clean(String),
    /// The whole text with marks around what both changed; only ever shown.
    Conflict(String),
    /// Not text, or too much of it.
    NotText,
}

/// `mine` is the person's, `theirs` the task's.
pub fn merge(base: &[u8], mine: &[u8], theirs: &[u8]) -> Three {
    if [base, mine, theirs].iter().any(|side| side.len() > TEXT_BYTES_MAX || side.contains(&0)) {
        return Three::NotText;
    }
    let (Ok(base), Ok(mine), Ok(theirs)) = (std::str::from_utf8(base), std::str::from_utf8(mine), std::str::from_utf8(theirs)) else {
        return Three::NotText;
    };
    match diffy::MergeOptions::new().set_conflict_style(diffy::ConflictStyle::Diff3).merge(base, mine, theirs) {
        Ok(clean) => Three::Clean(clean),
        Err(marked) => Three::Conflict(marked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(words: &[&str]) -> String {
        words.iter().map(|word| format!("{word}\n")).collect()
    }

    #[test]
    fn both_sides_go_in_or_it_is_a_conflict() {
        let base = lines(&["a", "b", "c", "d", "e"]);
        let check = |mine: &[&str], theirs: &[&str], expected: Option<&[&str]>| {
            let found = merge(base.as_bytes(), lines(mine).as_bytes(), lines(theirs).as_bytes());
            match expected {
                Some(words) => assert_eq!(found, Three::Clean(lines(words))),
                None => assert!(matches!(&found, Three::Conflict(text) if text.contains("<<<<<<<")), "{found:?}"),
            }
        };
        check(&["A", "b", "c", "d", "e"], &["a", "b", "c", "d", "E"], Some(&["A", "b", "c", "d", "E"]));
        check(&["a", "b", "c", "d", "e", "f"], &["x", "a", "b", "c", "d", "e"], Some(&["x", "a", "b", "c", "d", "e", "f"]));
        check(&["a", "b", "X", "d", "e"], &["a", "b", "Y", "d", "e"], None);
        check(&["a", "b", "X", "d", "e"], &["a", "b", "d", "e"], None);
        check(&["a", "b", "X", "d", "e"], &["a", "b", "X", "d", "e"], Some(&["a", "b", "X", "d", "e"]));
        assert_eq!(merge(b"a\0", b"b", b"c"), Three::NotText);
        assert_eq!(merge(&[0xff], b"b", b"c"), Three::NotText);
    }

    #[test]
    fn line_ends_and_a_missing_last_one_are_kept() {
        let (base, mine, theirs) = ("a\r\nb\r\nc\r\nd", "A\r\nb\r\nc\r\nd", "a\r\nb\r\nc\r\nD");
        assert_eq!(merge(base.as_bytes(), mine.as_bytes(), theirs.as_bytes()), Three::Clean("A\r\nb\r\nc\r\nD".into()));
    }

    /// Edits of single lines, by number; a base of distinct lines.
    fn edited(count: usize, edits: &[(usize, u8)], mark: &str) -> String {
        let mut text = String::new();
        for line in 0..count {
            match edits.iter().find(|(at, _)| *at == line) {
                Some((_, 0)) => {}
                Some((_, 1)) => text.push_str(&format!("{mark}{line}\n")),
                Some((_, 2)) => text.push_str(&format!("line{line}\n{mark}{line}\n")),
                _ => text.push_str(&format!("line{line}\n")),
            }
        }
        text
    }

    fn edits() -> impl Strategy<Value = Vec<(usize, u8)>> {
        proptest::collection::btree_map(0usize..30, 0u8..3, 0..6).prop_map(|map| map.into_iter().collect())
    }

    proptest! {
        #[test]
        fn distant_edits_merge_and_equal_both_applied_in_any_order(mine in edits(), theirs in edits()) {
            prop_assume!(mine.iter().all(|(m, _)| theirs.iter().all(|(t, _)| m.abs_diff(*t) > 1)));
            let base = edited(30, &[], "");
            let both: Vec<(usize, u8)> = mine.iter().chain(&theirs).copied().collect();
            let mark = |text: String| text.replace("mine", "new").replace("theirs", "new");
            let expected = edited(30, &both, "new");
            let (mine, theirs) = (edited(30, &mine, "mine"), edited(30, &theirs, "theirs"));
            for (one, other) in [(&mine, &theirs), (&theirs, &mine)] {
                match merge(base.as_bytes(), one.as_bytes(), other.as_bytes()) {
                    Three::Clean(text) => prop_assert_eq!(mark(text), expected.clone()),
                    found => prop_assert!(false, "{:?}", found),
                }
            }
        }

        /// Whatever both do: a clean result has every line that a person added and none that a person removed.
        #[test]
        fn no_line_of_a_person_is_lost(mine in edits(), theirs in edits()) {
            let base = edited(30, &[], "");
            let mine_text = edited(30, &mine, "mine");
            let theirs_text = edited(30, &theirs, "theirs");
            let kept = |text: &str| {
                let added = mine.iter().filter(|(_, what)| *what > 0).all(|(at, _)| text.lines().any(|line| line == format!("mine{at}")));
                let removed = mine.iter().filter(|(_, what)| *what < 2).all(|(at, _)| text.lines().all(|line| line != format!("line{at}")));
                added && removed
            };
            match merge(base.as_bytes(), mine_text.as_bytes(), theirs_text.as_bytes()) {
                Three::Clean(text) => prop_assert!(kept(&text), "{}", text),
                Three::Conflict(text) => {
                    let shown = mine.iter().filter(|(_, what)| *what > 0).all(|(at, _)| text.contains(&format!("mine{at}\n")));
                    prop_assert!(shown, "{}", text);
                }
                Three::NotText => prop_assert!(false),
            }
        }
    }
}
