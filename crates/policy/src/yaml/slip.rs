//! Words in rules that name something: calls, rooms and tags, which only the kernel knows, and words of closed lists.

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
    Tier,
    State,
    Method,
}

impl Kind {
    pub fn key(self) -> &'static str {
        match self {
            Kind::Call => "syscall",
            Kind::Room => "sandbox",
            Kind::Tag => "caller_tag",
            Kind::Tier => "tier",
            Kind::State => "workflow_state",
            Kind::Method => "method",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Kind::Call => "call",
            Kind::Room => "template",
            Kind::Tag => "tag",
            Kind::Tier => "tier",
            Kind::State => "workflow state",
            Kind::Method => "method",
        }
    }
}

const TIERS: &[&str] = &["strategic", "tactical", "operational"];
const STATES: &[&str] =
    &["idle", "planning", "test_writing", "code_writing", "exploring", "validating", "reviewing", "committing", "retroactive_testing"];
const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"];

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
            Kind::Tier => TIERS,
            Kind::State => STATES,
            Kind::Method => METHODS,
        };
        // Methods are matched in any case.
        let upper = named.word.to_ascii_uppercase();
        let word = if named.kind == Kind::Method { upper.as_str() } else { named.word.as_str() };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_in_a_closed_list_is_warned_about_where_it_stands() {
        let named = |kind, word: &str| Named { rule: "r".into(), kind, word: word.into(), line: 3, column: 9 };
        let names = [
            named(Kind::Tier, "stratgic"),
            named(Kind::Tier, "strategic"),
            named(Kind::State, "test_writin"),
            named(Kind::Method, "get"),
            named(Kind::Method, "POTS"),
        ];
        let known = Known { calls: &[], rooms: &[], tags: &[] };
        let said: Vec<String> =
            slips(&names, &known, "p.yaml").iter().map(|warning| format!("{} {:?}", warning.what, warning.hint)).collect();
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(said[0].contains("`stratgic`, and there is no such tier") && said[0].contains("`strategic`"), "{said:?}");
        assert!(said[1].contains("no such workflow state") && said[2].contains("no such method"), "{said:?}");
    }
}
