//! Words in rules that name something: calls, rooms and tags, which only the kernel knows, and words of closed lists.

use super::Warning;
use world::near::distance;
use world::{Listing, Remedy};

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
    Caller,
    Tag,
    Role,
    Tier,
    State,
    Method,
}

impl Kind {
    pub fn key(self) -> &'static str {
        match self {
            Kind::Call => "syscall",
            Kind::Room => "sandbox",
            Kind::Caller => "caller",
            Kind::Tag => "caller_tag",
            Kind::Role => "role",
            Kind::Tier => "tier",
            Kind::State => "workflow_state",
            Kind::Method => "method",
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Kind::Call => "call",
            Kind::Room => "template",
            Kind::Caller => "caller",
            Kind::Tag => "tag",
            Kind::Role => "role",
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
/// Names that a hint can list.
const LISTED_MAX: usize = 12;

/// What there is.
#[derive(Debug, Clone, Copy)]
pub struct KnownNames<'a> {
    pub calls: &'a [&'a str],
    pub rooms: &'a [&'a str],
    pub tags: &'a [&'a str],
    /// Callers are named after them: `foreman.1`.
    pub roles: &'a [&'a str],
}

impl KnownNames<'_> {
    fn of(&self, kind: Kind) -> &[&str] {
        match kind {
            Kind::Call => self.calls,
            Kind::Room => self.rooms,
            Kind::Tag => self.tags,
            Kind::Role | Kind::Caller => self.roles,
            Kind::Tier => TIERS,
            Kind::State => STATES,
            Kind::Method => METHODS,
        }
    }

    /// Is there what a rule means by this word? Of a pattern nobody can tell.
    fn has(&self, kind: Kind, word: &str) -> bool {
        let known = self.of(kind);
        match kind {
            Kind::Call if word == "*" => true,
            Kind::Call if word.ends_with(".*") => known.iter().any(|name| name.starts_with(word.trim_end_matches('*'))),
            _ if word.contains(['*', '?', '[', '\\']) => true,
            // Methods are matched in any case.
            Kind::Method => known.contains(&word.to_ascii_uppercase().as_str()),
            Kind::Caller => known.contains(&role_of(word)),
            _ => known.contains(&word),
        }
    }
}

/// `foreman` of `foreman.1`.
fn role_of(caller: &str) -> &str {
    caller.rsplit_once('.').map_or(caller, |(role, _)| role)
}

/// A word that is nothing: such a rule never speaks, or its exception never applies.
pub(crate) fn typos(names: &[Named], known: &KnownNames<'_>, file: &str) -> Vec<Warning> {
    let warning = |named: &Named| {
        let Named { rule, kind, word, line, column } = named;
        if known.has(*kind, word) {
            return None;
        }
        let meant = match kind {
            Kind::Method => word.to_ascii_uppercase(),
            Kind::Caller => role_of(word).to_owned(),
            _ => word.clone(),
        };
        let near = known.of(*kind).iter().map(|name| (distance(&meant, name), *name)).min().filter(|(distance, _)| *distance <= 2);
        // The operator gives tags with a task, so any word may be one.
        if *kind == Kind::Tag && near.is_none() {
            return None;
        }
        let (hint, remedy) = match near {
            Some((_, near)) => (Some(format!("did you mean `{near}`?")), None),
            None if *kind == Kind::Call => (None, Some(Remedy::List { what: Listing::Tools })),
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
        let known =
            KnownNames { calls: &["fs.read", "fs.write"], rooms: &["default"], tags: &["operator"], roles: &["operator", "foreman"] };
        let said = |kind, word: &str| {
            let named = Named { rule: "r".into(), kind, word: word.into(), line: 3, column: 9 };
            let warnings = typos(&[named], &known, "p.yaml");
            let shown = |warning: &Warning| {
                format!("{warning} ({})", world::remedy::advice(warning.hint.as_deref(), warning.remedy.as_ref()).unwrap_or_default())
            };
            warnings.first().map(shown).unwrap_or_default()
        };
        for (kind, word) in [
            (Kind::Call, "fs.read"),
            (Kind::Call, "fs.*"),
            (Kind::Call, "*"),
            (Kind::Room, "def*"),
            (Kind::Role, "foreman"),
            (Kind::Caller, "foreman.12"),
            (Kind::Caller, "operator"),
            (Kind::Tier, "strategic"),
            (Kind::State, "idle"),
            (Kind::Method, "get"),
            (Kind::Tag, "new_employee"),
        ] {
            assert_eq!(said(kind, word), "", "{word}");
        }
        assert_eq!(
            said(Kind::Tier, "stratgic"),
            "p.yaml:3:9: the rule `r` names `stratgic`, and there is no such tier (did you mean `strategic`?)"
        );
        for (kind, word, noun, hint) in [
            (Kind::Call, "f.*", "call", "list of tools"),
            (Kind::Call, "database.query", "call", "list of tools"),
            (Kind::Call, "FS.read", "call", "`fs.read`"),
            (Kind::Room, "lab", "template", "there are default"),
            (Kind::Role, "formean", "role", "`foreman`"),
            (Kind::Caller, "formean.1", "caller", "`foreman`"),
            (Kind::Tag, "opertor", "tag", "`operator`"),
            (Kind::State, "test_writin", "workflow state", "`test_writing`"),
            (Kind::Method, "POTS", "method", "`POST`"),
            (Kind::Method, "BREW", "method", "there are GET"),
        ] {
            let said = said(kind, word);
            assert!(said.contains(&format!("no such {noun}")) && said.contains(hint), "{word}: {said}");
        }
    }
}
