//! Words in rules that only the kernel can check: which calls, rooms and tags there are.

use super::{Warning, distance};

/// A word that a rule names something by, and where it stands.
#[derive(Debug)]
pub(crate) struct Named {
    pub rule: String,
    pub kind: Kind,
    pub word: String,
    pub line: u64,
    pub column: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Call,
    Room,
    Tag,
}

impl Kind {
    pub fn key(self) -> &'static str {
        match self {
            Kind::Call => "syscall",
            Kind::Room => "sandbox",
            Kind::Tag => "caller_tag",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Kind::Call => "call",
            Kind::Room => "template",
            Kind::Tag => "tag",
        }
    }
}

/// What there is.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    pub calls: &'a [&'a str],
    pub rooms: &'a [&'a str],
    pub tags: &'a [&'a str],
}

/// A word that is nothing, and a slip away from something: such a rule never speaks.
pub(crate) fn slips(names: &[Named], known: &Known<'_>, file: &str) -> Vec<Warning> {
    let near = |named: &Named| {
        let known = match named.kind {
            Kind::Call => known.calls,
            Kind::Room => known.rooms,
            Kind::Tag => known.tags,
        };
        let word = named.word.as_str();
        if known.contains(&word) || word.contains(['*', '?', '[']) {
            return None;
        }
        known.iter().map(|known| (distance(word, known), *known)).min().filter(|(distance, _)| *distance <= 2)
    };
    let warning = |named: &Named| {
        let (_, near) = near(named)?;
        let what = format!("the rule `{}` names `{}`, and there is no such {}", named.rule, named.word, named.kind.noun());
        let hint = Some(format!("did you mean `{near}`?"));
        Some(Warning { file: file.to_owned(), line: named.line, column: named.column, what, hint })
    };
    names.iter().filter_map(warning).collect()
}
