//! What an answer still needs to know, asked for field by field. Pure.

use crate::command::review::answer::{Level, Whom, alternative, exactly, overrides};
use crate::terminal::key::Key;
use crate::units::duration_ms;
use clap::ValueEnum;
use wire::method::review::{AnswerReach, AnswerTerms, ReviewAnswerParams};
use wire::{Answer, Constraints, ReviewId};

/// Longest value of a field.
const CHARS_MAX: usize = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Constrained,
    Observed,
    Deny,
    Ban,
    Instead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    Text,
    Globs,
    Time,
    Pairs,
    /// A tool and its input.
    Call,
    Level,
    /// Once, or for whom.
    Whom,
    /// For whom; a ban is never for once.
    Ban,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub label: &'static str,
    pub hint: &'static str,
    pub text: String,
    wants: Wants,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    pub kind: Kind,
    pub fields: Vec<Field>,
    pub at: usize,
    /// What is wrong with the field that was just entered.
    pub wrong: Option<String>,
}

/// What a key did to a form.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Stay,
    Leave,
    Done(Box<ReviewAnswerParams>),
}

impl Form {
    pub fn new(kind: Kind) -> Form {
        let field = |label, hint, wants| Field { label, hint, text: String::new(), wants };
        let reason = field("reason", "the brain is told; may stay empty", Wants::Text);
        let whom = field("for", "once, process, session, zone, user or all; empty is once", Wants::Whom);
        let fields = match kind {
            Kind::Constrained => vec![
                field("writable", "globs it may write to, such as out/**; empty is all", Wants::Globs),
                field("readonly", "globs it may not write to; empty is none", Wants::Globs),
                field("duration", "longest time of one call, such as 30s; empty is the tool's own", Wants::Time),
                field("set", "fields of the input to fix, such as limit=10; empty is none", Wants::Pairs),
                whom,
            ],
            Kind::Observed => vec![field("observe", "basic or detailed; empty is basic", Wants::Level), whom],
            Kind::Deny => vec![reason],
            Kind::Ban => vec![reason, field("for", "process, session, zone, user or all; empty is zone", Wants::Ban)],
            Kind::Instead => vec![field("instead", "a tool and its input, such as fs.write path=out/a", Wants::Call), reason],
        };
        Form { kind, fields, at: 0, wrong: None }
    }

    pub fn title(&self) -> &'static str {
        match self.kind {
            Kind::Constrained => "allow on conditions",
            Kind::Observed => "allow and observe",
            Kind::Deny => "deny",
            Kind::Ban => "deny for good",
            Kind::Instead => "deny and name something better",
        }
    }

    pub fn key(&mut self, key: &Key, review: ReviewId) -> Step {
        let Some(field) = self.fields.get_mut(self.at) else { return Step::Leave };
        match key {
            Key::Escape | Key::Interrupt => return Step::Leave,
            Key::Char(c) => field.add(*c),
            Key::Paste(text) => text.chars().map(|c| if c.is_control() { ' ' } else { c }).for_each(|c| field.add(c)),
            Key::Backspace => drop(field.text.pop()),
            Key::Clear => field.text.clear(),
            Key::Up => self.at = self.at.saturating_sub(1),
            Key::Enter | Key::Down => return self.enter(review),
            Key::Left | Key::Right | Key::PageUp | Key::PageDown => return Step::Stay,
        }
        self.wrong = None;
        Step::Stay
    }

    fn enter(&mut self, review: ReviewId) -> Step {
        self.wrong = self.fields.get(self.at).and_then(|field| field.check().err());
        if self.wrong.is_some() {
            return Step::Stay;
        }
        if self.at + 1 < self.fields.len() {
            self.at += 1;
            return Step::Stay;
        }
        match self.params(review) {
            Ok(params) => Step::Done(Box::new(params)),
            Err(wrong) => {
                self.wrong = Some(wrong);
                Step::Stay
            }
        }
    }

    fn text(&self, label: &str) -> &str {
        self.fields.iter().find(|field| field.label == label).map_or("", |field| field.text.trim())
    }

    fn params(&self, review: ReviewId) -> Result<ReviewAnswerParams, String> {
        let reason = Some(self.text("reason").to_owned()).filter(|reason| !reason.is_empty());
        let deny = ReviewAnswerParams { reason, ..exactly(review, Answer::Deny) };
        let allow = |terms| -> Result<ReviewAnswerParams, String> {
            Ok(ReviewAnswerParams { reach: whom(self.text("for"))?, terms: Some(terms), ..exactly(review, Answer::Allow) })
        };
        match self.kind {
            Kind::Constrained => {
                let constraints = Constraints {
                    writable_paths: words(self.text("writable"))?,
                    readonly_paths: words(self.text("readonly"))?,
                    max_duration_ms: time(self.text("duration"))?,
                    input_overrides: pairs(self.text("set"))?,
                    ..Constraints::default()
                };
                if constraints == Constraints::default() {
                    return Err("there is no condition: go back with ↑, or esc and press a or s".into());
                }
                allow(AnswerTerms { constraints: Some(constraints), ..AnswerTerms::default() })
            }
            Kind::Observed => allow(AnswerTerms { observe: Some(level(self.text("observe"))?.into()), ..AnswerTerms::default() }),
            Kind::Deny => Ok(deny),
            Kind::Ban => Ok(ReviewAnswerParams { reach: Some(lasting(self.text("for"))?), ..deny }),
            Kind::Instead => Ok(ReviewAnswerParams { alternative: Some(call(self.text("instead"))?), ..deny }),
        }
    }
}

impl Field {
    fn add(&mut self, c: char) {
        if self.text.len() < CHARS_MAX {
            self.text.push(c);
        }
    }

    fn check(&self) -> Result<(), String> {
        let text = self.text.trim();
        match self.wants {
            Wants::Text => Ok(()),
            Wants::Globs => words(text).map(drop),
            Wants::Time => time(text).map(drop),
            Wants::Pairs => pairs(text).map(drop),
            Wants::Call => call(text).map(drop),
            Wants::Level => level(text).map(drop),
            Wants::Whom => whom(text).map(drop),
            Wants::Ban => lasting(text).map(drop),
        }
    }
}

fn whom(text: &str) -> Result<Option<AnswerReach>, String> {
    match text {
        "" | "once" => Ok(None),
        text => Whom::from_str(text, false).map(|whom| Some(whom.into())).map_err(|_| format!("`{text}` is nobody: {WHOM}")),
    }
}

const WHOM: &str = "write process, session, zone, user or all";

fn lasting(text: &str) -> Result<AnswerReach, String> {
    match text {
        "" => Ok(AnswerReach::Zone),
        text => Whom::from_str(text, false).map(Into::into).map_err(|_| format!("`{text}` is nobody: {WHOM}")),
    }
}

fn level(text: &str) -> Result<Level, String> {
    match text {
        "" => Ok(Level::Basic),
        text => Level::from_str(text, false).map_err(|_| format!("`{text}` is neither basic nor detailed")),
    }
}

fn time(text: &str) -> Result<Option<u64>, String> {
    if text.is_empty() { Ok(None) } else { duration_ms(text).map(Some) }
}

fn pairs(text: &str) -> Result<serde_json::Map<String, serde_json::Value>, String> {
    overrides(&words(text)?).map_err(|trouble| trouble.what)
}

fn call(text: &str) -> Result<wire::Alternative, String> {
    match words(text)?.split_first() {
        Some((tool, pairs)) => alternative(tool, pairs).map_err(|trouble| trouble.what),
        None => Err("name a tool, or esc and press d".into()),
    }
}

/// Words between gaps; quotes of either kind keep a gap.
fn words(text: &str) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if quote.is_some() { Err("a quote is not closed".into()) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Types `text`, where a line break is the enter key.
    fn fill(kind: Kind, text: &str) -> (Form, Option<Value>) {
        let mut form = Form::new(kind);
        let mut done = None;
        for c in text.chars() {
            let key = if c == '\n' { Key::Enter } else { Key::Char(c) };
            if let Step::Done(params) = form.key(&key, ReviewId(1)) {
                done = Some(serde_json::to_value(*params).unwrap());
            }
        }
        (form, done)
    }

    #[track_caller]
    fn gives(kind: Kind, text: &str, expected: Value) {
        let (form, done) = fill(kind, text);
        assert_eq!(done, Some(expected), "{:?}", form.wrong);
    }

    #[test]
    fn forms_become_answers() {
        gives(
            Kind::Constrained,
            "out/** 'a b'\n\n30s\nlimit=10 note=\"x y\"\nsession\n",
            json!({"review": "r-1", "answer": "allow", "reach": "session", "terms": {"constraints": {
                "writable_paths": ["out/**", "a b"], "max_duration_ms": 30_000, "input_overrides": {"limit": 10, "note": "x y"}}}}),
        );
        gives(Kind::Observed, "\n\n", json!({"review": "r-1", "answer": "allow", "terms": {"observe": "basic"}}));
        gives(
            Kind::Observed,
            "detailed\nall\n",
            json!({"review": "r-1", "answer": "allow", "reach": "all", "terms": {"observe": "detailed"}}),
        );
        gives(Kind::Deny, "\n", json!({"review": "r-1", "answer": "deny"}));
        gives(Kind::Deny, "not here\n", json!({"review": "r-1", "answer": "deny", "reason": "not here"}));
        gives(Kind::Ban, "no\n\n", json!({"review": "r-1", "answer": "deny", "reason": "no", "reach": "zone"}));
        gives(
            Kind::Instead,
            "fs.write path=out/a\nsafer\n",
            json!({"review": "r-1", "answer": "deny", "reason": "safer", "alternative": {"tool": "fs.write", "input": {"path": "out/a"}}}),
        );
    }

    #[test]
    fn a_wrong_value_stays_until_it_is_right() {
        for (kind, text, says) in [
            (Kind::Constrained, "\n\n30\n", "not a time"),
            (Kind::Constrained, "\n\n\nlimit\n", "not key=value"),
            (Kind::Constrained, "'a\n", "quote"),
            (Kind::Constrained, "\n\n\n\n\n", "no condition"),
            (Kind::Observed, "much\n", "neither"),
            (Kind::Observed, "\neverybody\n", "nobody"),
            (Kind::Ban, "\nonce\n", "nobody"),
            (Kind::Instead, "\n", "name a tool"),
        ] {
            let (form, done) = fill(kind, text);
            assert_eq!(done, None, "{text:?}");
            assert!(form.wrong.as_ref().is_some_and(|wrong| wrong.contains(says)), "{text:?}: {:?}", form.wrong);
        }
    }

    #[test]
    fn a_form_can_be_corrected_and_left() {
        let mut form = Form::new(Kind::Observed);
        let r = ReviewId(1);
        for key in [Key::Char('x'), Key::Backspace, Key::Paste("deta\niled".into())] {
            assert_eq!(form.key(&key, r), Step::Stay);
        }
        assert_eq!(form.fields[0].text, "deta iled");
        form.key(&Key::Clear, r);
        assert_eq!((form.key(&Key::Enter, r), form.at), (Step::Stay, 1));
        assert_eq!((form.key(&Key::Up, r), form.at), (Step::Stay, 0));
        assert_eq!(form.key(&Key::Escape, r), Step::Leave);
    }
}
