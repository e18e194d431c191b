//! Known findings: `xtask/tidy.txt` keeps what is not mended yet, and can only get shorter.
//!
//! A line is the check, a count and what it is about. A finding that is not in the list fails, one that got larger fails, and an
//! entry that nothing answers to any more fails too, so that nobody can bring it back.

use anyhow::{Context, Result};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TidyCheck {
    Type,
    File,
    Function,
    Text,
}

impl TidyCheck {
    const ALL: [TidyCheck; 4] = [TidyCheck::Type, TidyCheck::File, TidyCheck::Function, TidyCheck::Text];

    fn name(self) -> &'static str {
        match self {
            TidyCheck::Type => "type",
            TidyCheck::File => "file",
            TidyCheck::Function => "function",
            TidyCheck::Text => "text",
        }
    }
}

/// Something that is not tidy.
#[derive(Clone, Debug, PartialEq)]
pub struct TidyFinding {
    pub check: TidyCheck,
    /// What it is about, in the same words as long as it is there.
    pub key: String,
    /// How bad it is: types of this name, lines, texts.
    pub count: usize,
    /// For people: what is wrong, and where.
    pub what: String,
}

type Known = BTreeMap<(TidyCheck, String), usize>;

/// What speaks against these findings, given the list.
pub fn complaints(findings: &[TidyFinding], list: &str) -> Result<Vec<String>> {
    let known = parsed(list)?;
    let mut complaints = Vec::new();
    for (key, finding) in &worst(findings) {
        match known.get(key) {
            None => complaints.push(finding.what.clone()),
            Some(allowed) if finding.count > *allowed => {
                complaints.push(format!("{} (xtask/tidy.txt knows {allowed} of it, and it may only shrink)", finding.what));
            }
            Some(_) => {}
        }
    }
    let found = worst(findings);
    for (check, key) in known.keys().filter(|entry| !found.contains_key(entry)) {
        complaints.push(format!("xtask/tidy.txt lists `{} {key}`, which is mended: take it out", check.name()));
    }
    Ok(complaints)
}

/// The list that knows exactly these findings.
pub fn written(findings: &[TidyFinding]) -> String {
    let mut text = String::from(
        "# What `cargo xtask tidy` finds and knows. It can only get shorter: mend an entry, then run `cargo xtask tidy --write`.\n",
    );
    for ((check, key), finding) in worst(findings) {
        text.push_str(&format!("{} {} {key}\n", check.name(), finding.count));
    }
    text
}

/// One finding for each key. Two functions of one name in one file are one entry, as long as the longer.
fn worst(findings: &[TidyFinding]) -> BTreeMap<(TidyCheck, String), &TidyFinding> {
    let mut by_key: BTreeMap<(TidyCheck, String), &TidyFinding> = BTreeMap::new();
    for finding in findings {
        let worst = by_key.entry((finding.check, finding.key.clone())).or_insert(finding);
        if finding.count > worst.count {
            *worst = finding;
        }
    }
    by_key
}

fn parsed(list: &str) -> Result<Known> {
    let mut known = Known::new();
    for line in list.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let entry = || {
            let (check, rest) = line.split_once(' ')?;
            let (count, key) = rest.split_once(' ')?;
            let check = TidyCheck::ALL.into_iter().find(|known| known.name() == check)?;
            Some(((check, key.to_owned()), count.parse().ok()?))
        };
        let (key, count) = entry().with_context(|| format!("xtask/tidy.txt: `{line}` is no entry"))?;
        known.insert(key, count);
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(key: &str, count: usize) -> TidyFinding {
        TidyFinding { check: TidyCheck::Type, key: key.to_owned(), count, what: format!("{key} stands {count} times") }
    }

    #[test]
    fn the_list_can_only_get_shorter() {
        let list = "# words\ntype 3 Answer\ntype 2 Voice\n";
        let check = |findings: &[TidyFinding]| complaints(findings, list).unwrap();
        assert_eq!(check(&[finding("Answer", 3), finding("Voice", 2)]), Vec::<String>::new());
        assert_eq!(check(&[finding("Answer", 2), finding("Voice", 2)]), Vec::<String>::new());
        assert_eq!(check(&[finding("Answer", 4), finding("Voice", 2)]).len(), 1);
        assert_eq!(check(&[finding("Answer", 3), finding("Voice", 2), finding("Part", 2)]), ["Part stands 2 times"]);
        assert_eq!(check(&[finding("Answer", 3)]), ["xtask/tidy.txt lists `type Voice`, which is mended: take it out"]);
    }

    #[test]
    fn what_is_written_is_known() {
        let findings = [finding("Answer", 3), finding("Answer", 5), finding("Voice", 2)];
        assert_eq!(complaints(&findings, &written(&findings)).unwrap(), Vec::<String>::new());
        assert!(complaints(&[], "type many Answer\n").is_err());
    }
}
