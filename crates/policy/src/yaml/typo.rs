//! Words in rules that name something: calls, rooms and tags, which only the kernel knows, and words of closed lists.

use super::Warning;
use world::near::distance;
use world::{Listing, Remedy};

/// A word that a rule names something by, and where it stands.
#[derive(Debug)]
pub(crate) struct NamedWord {
    pub rule: String,
    pub kind: WordKind,
    pub word: String,
    pub line: u64,
    pub column: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WordKind {
    Call,
    Room,
    Caller,
    Tag,
    Role,
    Tier,
    State,
    Discipline,
    Method,
}

impl WordKind {
    pub fn key(self) -> &'static str {
        match self {
            WordKind::Call => "syscall",
            WordKind::Room => "sandbox",
            WordKind::Caller => "caller",
            WordKind::Tag => "caller_tag",
            WordKind::Role => "role",
            WordKind::Tier => "tier",
            WordKind::State => "workflow_state",
            WordKind::Discipline => "session_mode",
            WordKind::Method => "method",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            WordKind::Call => "call",
            WordKind::Room => "template",
            WordKind::Caller => "caller",
            WordKind::Tag => "tag",
            WordKind::Role => "role",
            WordKind::Tier => "tier",
            WordKind::State => "workflow state",
            WordKind::Discipline => "session mode",
            WordKind::Method => "method",
        }
    }
}

const TIERS: &[&str] = &["strategic", "tactical", "operational"];
const STATES: &[&str] =
    &["idle", "planning", "test_writing", "code_writing", "exploring", "validating", "reviewing", "committing", "retroactive_testing"];
const DISCIPLINES: &[&str] = &["strict", "explore", "debug"];
const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"];
/// Names that a hint can list.
const LISTED_MAX: usize = 12;

/// What there is.
#[derive(Debug, Clone, Copy)]
pub struct KnownNames<'a> {
    pub calls: &'a [&'a str],
    pub rooms: &'a [&'a str],
    pub tags: &'a [&'a str],
    pub roles: &'a [&'a str],
    /// Without their numbers: `worker` of `worker.1`.
    pub callers: &'a [&'a str],
}

impl KnownNames<'_> {
    fn of(&self, kind: WordKind) -> &[&str] {
        match kind {
            WordKind::Call => self.calls,
            WordKind::Room => self.rooms,
            WordKind::Tag => self.tags,
            WordKind::Role => self.roles,
            WordKind::Caller => self.callers,
            WordKind::Tier => TIERS,
            WordKind::State => STATES,
            WordKind::Discipline => DISCIPLINES,
            WordKind::Method => METHODS,
        }
    }

    /// Is there what a rule means by this word? Of a pattern nobody can tell.
    fn has(&self, kind: WordKind, word: &str) -> bool {
        let known = self.of(kind);
        match kind {
            WordKind::Call if word == "*" => true,
            WordKind::Call if word.ends_with(".*") => known.iter().any(|name| name.starts_with(word.trim_end_matches('*'))),
            _ if word.contains(['*', '?', '[', '\\']) => true,
            // Methods are matched in any case.
            WordKind::Method => known.contains(&word.to_ascii_uppercase().as_str()),
            WordKind::Caller => known.contains(&stem_of(word)),
            _ => known.contains(&word),
        }
    }
}

/// `worker` of `worker.1`.
fn stem_of(caller: &str) -> &str {
    caller.rsplit_once('.').map_or(caller, |(stem, _)| stem)
}

/// A word that is nothing: such a rule never speaks, or its exception never applies.
pub(crate) fn typos(names: &[NamedWord], known: &KnownNames<'_>, file: &str) -> Vec<Warning> {
    let warning = |named: &NamedWord| {
        let NamedWord { rule, kind, word, line, column } = named;
        if known.has(*kind, word) {
            return None;
        }
        let meant = match kind {
            WordKind::Method => word.to_ascii_uppercase(),
            WordKind::Caller => stem_of(word).to_owned(),
            _ => word.clone(),
        };
        let near = known.of(*kind).iter().map(|name| (distance(&meant, name), *name)).min().filter(|(distance, _)| *distance <= 2);
        // The operator gives tags with a task, so any word may be one.
        if *kind == WordKind::Tag && near.is_none() {
            return None;
        }
        let (hint, remedy) = match near {
            Some((_, near)) => (Some(format!("did you mean `{near}`?")), None),
            None if *kind == WordKind::Call => (None, Some(Remedy::List { what: Listing::Tools })),
            None if known.of(*kind).len() <= LISTED_MAX => (Some(format!("there are {}", known.of(*kind).join(", "))), None),
            None => (Some("take it away, or name one that there is".to_owned()), None),
        };
        let what = format!("the rule `{rule}` names `{word}`, and there is no such {}", kind.noun());
        Some(Warning { file: file.to_owned(), line: *line, column: *column, what, hint, remedy })
    };
    names.iter().filter_map(warning).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_nothing_is_warned_about_where_it_stands() {
        let known = KnownNames {
            calls: &["fs.read", "fs.write"],
            rooms: &["default"],
            tags: &["operator"],
            roles: &["operator", "foreman"],
            callers: &["operator", "worker"],
        };
        let said = |kind, word: &str| {
            let named = NamedWord { rule: "r".into(), kind, word: word.into(), line: 3, column: 9 };
            let warnings = typos(&[named], &known, "p.yaml");
            let shown = |warning: &Warning| {
                format!("{warning} ({})", world::remedy::advice(warning.hint.as_deref(), warning.remedy.as_ref()).unwrap_or_default())
            };
            warnings.first().map(shown).unwrap_or_default()
        };
        for (kind, word) in [
            (WordKind::Call, "fs.read"),
            (WordKind::Call, "fs.*"),
            (WordKind::Call, "*"),
            (WordKind::Room, "def*"),
            (WordKind::Role, "foreman"),
            (WordKind::Caller, "worker.12"),
            (WordKind::Caller, "operator"),
            (WordKind::Tier, "strategic"),
            (WordKind::State, "idle"),
            (WordKind::Method, "get"),
            (WordKind::Tag, "new_employee"),
        ] {
            assert_eq!(said(kind, word), "", "{word}");
        }
        assert_eq!(
            said(WordKind::Tier, "stratgic"),
            "p.yaml:3:9: the rule `r` names `stratgic`, and there is no such tier (did you mean `strategic`?)"
        );
        for (kind, word, noun, hint) in [
            (WordKind::Call, "f.*", "call", "list of tools"),
            (WordKind::Call, "database.query", "call", "list of tools"),
            (WordKind::Call, "FS.read", "call", "`fs.read`"),
            (WordKind::Room, "lab", "template", "there are default"),
            (WordKind::Role, "formean", "role", "`foreman`"),
            (WordKind::Caller, "wroker.1", "caller", "`worker`"),
            (WordKind::Caller, "foreman.1", "caller", "there are operator, worker"),
            (WordKind::Tag, "opertor", "tag", "`operator`"),
            (WordKind::State, "test_writin", "workflow state", "`test_writing`"),
            (WordKind::Method, "POTS", "method", "`POST`"),
            (WordKind::Method, "BREW", "method", "there are GET"),
        ] {
            let said = said(kind, word);
            assert!(said.contains(&format!("no such {noun}")) && said.contains(hint), "{word}: {said}");
        }
    }
}
