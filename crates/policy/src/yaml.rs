//! The policy file: YAML in, rules out, and for every mistake the place where it stands.
//!
//! A key that nobody knows is an error, never skipped: a typo in `match` must not widen a rule.

mod compile;
mod example;
mod host;
mod lint;
mod shadow;
pub(crate) mod typo;

use crate::rule::{Action, Rule};
use crate::test_rules::{BadExemption, TestRules, WrittenDebt, WrittenExemptions};
use ::yaml::{Spanned, YamlError, YamlFault};
use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};
use std::fmt;
use world::Remedy;
use world::near::distance;

/// A policy file that cannot be put in force.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {what}")]
pub struct PolicyError {
    pub file: String,
    pub line: u64,
    pub column: u64,
    pub what: String,
    pub hint: Option<String>,
}

/// A rule that is legal and surely not what its writer meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {what}")]
pub struct Warning {
    pub file: String,
    pub line: u64,
    pub column: u64,
    pub what: String,
    pub hint: Option<String>,
    /// What the operator can do; a face says how.
    pub remedy: Option<Remedy>,
}

/// What a file says.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub rules: Vec<Rule>,
    pub warnings: Vec<Warning>,
    pub names: Vec<typo::NamedWord>,
    pub test_rules: TestRules,
}

/// Far more than ten thousand rules need.
const TEXT_BYTES_MAX: usize = 8 << 20;

pub(crate) fn parse(text: &str, name: &str) -> Result<Compiled, PolicyError> {
    if text.len() > TEXT_BYTES_MAX {
        let what = format!("the file has {} bytes; {TEXT_BYTES_MAX} are read", text.len());
        let hint = Some("write globs and lists instead of one rule for each file".to_owned());
        return Err(PolicyError { file: name.to_owned(), line: 1, column: 1, what, hint });
    }
    let file: Option<File> = ::yaml::from_str(text).map_err(|error| unreadable(error, name))?;
    let File { capabilities, tdd_exemptions, tech_debt } = file.unwrap_or_default();
    let capabilities = capabilities.unwrap_or_default();
    let test_rules = TestRules::of(tdd_exemptions, tech_debt).map_err(|BadExemption { at, bad }| PolicyError {
        file: name.to_owned(),
        line: at.line(),
        column: at.column(),
        what: bad.to_string(),
        hint: Some(bad.hint.to_owned()),
    })?;
    let none = capabilities.is_empty();
    let mut compiled = compile::rules(capabilities, name)?;
    compiled.test_rules = test_rules;
    if none {
        let (file, what) = (name.to_owned(), "there are no rules, so every call is denied".to_owned());
        let remedy = Some(Remedy::WriteDefaultPolicy);
        compiled.warnings.push(Warning { file, line: 1, column: 1, what, hint: None, remedy });
    }
    Ok(compiled)
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    capabilities: Option<Vec<Capability>>,
    #[serde(default)]
    tdd_exemptions: Option<WrittenExemptions>,
    #[serde(default)]
    tech_debt: Option<WrittenDebt>,
}

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Capability {
    name: Spanned<String>,
    #[serde(rename = "match")]
    on: Spanned<Fields>,
    #[serde(default, deserialize_with = "written")]
    except: Option<Spanned<Excepts>>,
    action: Spanned<Action>,
    #[serde(default, deserialize_with = "written")]
    reason: Option<String>,
    #[serde(default, deserialize_with = "written")]
    hint: Option<String>,
    #[serde(default, deserialize_with = "written")]
    constraints: Option<Spanned<Limits>>,
    /// Calls that it must, and must not, speak about.
    #[serde(default, deserialize_with = "written")]
    examples: Option<Spanned<example::Examples>>,
}

/// A field as written. `None` is a field that is not there.
type Spelled = Option<Spanned<Tree>>;

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    #[serde(default, deserialize_with = "written")]
    require_sandbox: Option<Spanned<Tree>>,
    #[serde(default)]
    require_capability_token: bool,
    #[serde(default, deserialize_with = "written")]
    max_file_size: Option<Spanned<Tree>>,
}

macro_rules! fields {
    ($($(#[$attribute:meta])* $name:ident),*) => {
        /// A condition as written. `None` is a field that is not there.
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            $($(#[$attribute])* #[serde(default, deserialize_with = "written")] $name: Spelled,)*
        }

        impl Fields {
            fn is_empty(&self) -> bool {
                true $(&& self.$name.is_none())*
            }
        }
    };
}
fields!(
    syscall,
    path_glob,
    caller,
    caller_tag,
    role,
    tier,
    user,
    zone,
    mode,
    // Seed 003's name for it.
    #[serde(alias = "state_machine_state")]
    workflow_state,
    session_mode,
    command,
    host,
    method,
    port,
    sandbox,
    network,
    size
);

/// A key with nothing behind it is no value, so `caller:` alone is an error rather than a field that was not written.
fn written<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A word, a list of words, or a list of lists.
#[derive(Debug)]
enum Tree {
    Word(String),
    Flag(bool),
    List(Vec<Spanned<Tree>>),
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Tree;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a word or a list of words")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Tree, E> {
                Ok(Tree::Word(text.to_owned()))
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Tree, E> {
                Ok(Tree::Word(number.to_string()))
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Tree, E> {
                u64::try_from(number).map(|number| Tree::Word(number.to_string())).map_err(|_| E::custom("a number below zero"))
            }

            fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Tree, E> {
                Err(E::custom(format!("`{number}` is no whole number; write one without a point or a leading zero, or a word in quotes")))
            }

            fn visit_bool<E: serde::de::Error>(self, flag: bool) -> Result<Tree, E> {
                Ok(Tree::Flag(flag))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Tree, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = seq.next_element()? {
                    list.push(item);
                }
                Ok(Tree::List(list))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// One condition or a list of them.
#[derive(Debug)]
struct Excepts(Vec<Spanned<Fields>>);

impl<'de> Deserialize<'de> for Excepts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Excepts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of conditions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Excepts, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = seq.next_element()? {
                    list.push(item);
                }
                Ok(Excepts(list))
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, _: A) -> Result<Excepts, A::Error> {
                Err(A::Error::custom("`except` is a list of conditions: put a `- ` before each"))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// What cannot be read, and what to write instead.
fn unreadable(error: YamlError, file: &str) -> PolicyError {
    let (what, hint) = match error.fault {
        YamlFault::UnknownKey { key, known } => (format!("nobody knows the key `{key}`"), Some(suggestion(&key, known, "keys"))),
        YamlFault::UnknownWord { word, known } => (format!("nobody knows the action `{word}`"), Some(action_suggestion(&word, known))),
        YamlFault::Other(said) => plainly(said),
        fault => (fault.to_string(), remedy(&fault).map(str::to_owned)),
    };
    PolicyError { file: file.to_owned(), line: error.at.line(), column: error.at.column(), what, hint }
}

fn remedy(fault: &YamlFault) -> Option<&'static str> {
    match fault {
        YamlFault::DuplicateKey(_) => Some("keep one of them; several values are one list"),
        YamlFault::SecondDocument => Some("take the line `---` away"),
        YamlFault::NoValue => Some("write one, or take the key away"),
        YamlFault::NotAList => Some("put `- ` before each of its parts"),
        YamlFault::NotAMap => Some("write `key: value`"),
        _ => None,
    }
}

/// The reader's own words where they help, and better ones for what people often write.
fn plainly(said: String) -> (String, Option<String>) {
    let (what, hint) = if said.contains("unit value") {
        ("there is no value here", "write one, or take the key away")
    } else if said.starts_with("invalid type: map") {
        ("this is to be a word or a list of words", "take the braces away")
    } else if said.starts_with("tabs disallowed") {
        ("a line begins with a tab", "use blanks: YAML takes no tabs there")
    } else {
        return (said, None);
    };
    (what.to_owned(), Some(hint.to_owned()))
}

fn suggestion(word: &str, known: &[&str], kind: &str) -> String {
    match known.iter().map(|name| (distance(word, name), name)).min() {
        Some((distance, name)) if distance <= 2 => format!("did you mean `{name}`?"),
        _ => format!("the {kind} here are {}", known.join(", ")),
    }
}

/// An action that was surely meant. One that lets through is proposed only for a word one letter away, and never where a stricter one is as near.
fn action_suggestion(word: &str, known: &[&str]) -> String {
    let lower = word.to_lowercase();
    let strictness = |name: &str| match name {
        "deny" => 0,
        "require_review" | "ask" => 1,
        _ => 2,
    };
    let near = known.iter().map(|name| (distance(&lower, name), strictness(name), name)).min();
    match near {
        Some((0 | 1, _, name)) | Some((2, 0 | 1, name)) => format!("did you mean `{name}`?"),
        _ => format!("the actions here are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_action_is_never_made_weaker() {
        let known = &["pass", "allow", "require_review", "ask", "deny"];
        for (word, meant) in [("denny", "deny"), ("Deny", "deny"), ("akk", "ask"), ("Allow", "allow"), ("require-review", "require_review")]
        {
            assert_eq!(action_suggestion(word, known), format!("did you mean `{meant}`?"));
        }
        for word in ["block", "pss_", "dllow_", "review"] {
            assert!(action_suggestion(word, known).starts_with("the actions here are"), "{word}");
        }
    }

    #[test]
    fn ask_is_a_word_for_review() {
        let rules = parse("capabilities:\n  - { name: a, match: { syscall: fs.write }, action: ask }\n", "p").unwrap().rules;
        assert_eq!(rules[0].action, Action::RequireReview);
    }

    #[test]
    fn words_that_yaml_once_took_for_booleans_are_words() {
        let text =
            "capabilities:\n  - { name: no, match: { syscall: fs.read, role: [no, yes, y, n, on, off] }, action: deny, reason: off }\n";
        let rules = parse(text, "p").unwrap().rules;
        assert_eq!(rules[0].name, "no");
        let role = |role: &'static str| parse(&text.replace("[no, yes, y, n, on, off]", role), "p");
        let error = role("true").unwrap_err();
        assert!(error.line == 2 && error.column > 40, "{error}");
        assert!(role("\"true\"").is_ok(), "the control: quoted it is a word");
    }
}
