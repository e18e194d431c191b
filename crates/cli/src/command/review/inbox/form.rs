//! What an answer still needs to know, asked for field by field. Pure.

use crate::command::review::answer::{Level, Whom, alternative, exactly, overrides};
use crate::terminal::key::KeyPress;
use crate::units::duration_ms;
use clap::ValueEnum;
use wire::method::review::{AnswerReach, AnswerTerms, ReviewAnswerParams};
use wire::{Answer, Constraints, ReviewId};

/// Longest value of a field.
const CHARS_MAX: usize = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormKind {
    Constrained,
    Observed,
    Deny,
    Ban,
    Instead,
    Changes,
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
pub struct FormField {
    pub label: &'static str,
    pub hint: &'static str,
    pub text: String,
    wants: Wants,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Form {
    pub kind: FormKind,
    pub fields: Vec<FormField>,
    pub at: usize,
    /// What is wrong with the field that was just entered.
    pub wrong: Option<String>,
}

/// What a key did to a form.
#[derive(Clone, Debug, PartialEq)]
pub enum FormStep {
    Stay,
    Leave,
    Done(Box<ReviewAnswerParams>),
}

impl Form {
    pub fn new(kind: FormKind) -> Form {
        let field = |label, hint, wants| FormField { label, hint, text: String::new(), wants };
        let reason = field("reason", "the brain is told; may stay empty", Wants::Text);
        let whom = field("for", "once, task, repository, process, user or all; empty is once", Wants::Whom);
        let fields = match kind {
            FormKind::Constrained => vec![
                field("writable", "globs it may write to, such as out/**; empty is all", Wants::Globs),
                field("readonly", "globs it may not write to; empty is none", Wants::Globs),
                field("duration", "longest time of one call, such as 30s; empty is the tool's own", Wants::Time),
                field("set", "fields of the input to fix, such as limit=10; empty is none", Wants::Pairs),
                whom,
            ],
            FormKind::Observed => vec![field("observe", "basic or detailed; empty is basic", Wants::Level), whom],
            FormKind::Deny => vec![reason],
            FormKind::Ban => {
                vec![reason, field("for", "task, repository, process, user or all; empty is repository", Wants::Ban)]
            }
            FormKind::Changes => vec![field("reason", "what should be different; the brain is told", Wants::Text)],
            FormKind::Instead => vec![field("instead", "a tool and its input, such as fs.write path=out/a", Wants::Call), reason],
        };
        Form { kind, fields, at: 0, wrong: None }
    }

    pub fn title(&self) -> &'static str {
        match self.kind {
            FormKind::Constrained => "allow on conditions",
            FormKind::Observed => "allow and observe",
            FormKind::Deny => "deny",
            FormKind::Ban => "deny for good",
            FormKind::Instead => "deny and name something better",
            FormKind::Changes => "send it back with a comment",
        }
    }

    pub fn key(&mut self, key: &KeyPress, review: ReviewId) -> FormStep {
        let Some(field) = self.fields.get_mut(self.at) else { return FormStep::Leave };
        match key {
            KeyPress::Escape | KeyPress::Interrupt => return FormStep::Leave,
            KeyPress::Char(c) => field.add(*c),
            KeyPress::Paste(text) => text.chars().map(|c| if c.is_control() { ' ' } else { c }).for_each(|c| field.add(c)),
            KeyPress::Backspace => drop(field.text.pop()),
            KeyPress::Clear => field.text.clear(),
            KeyPress::Up => self.at = self.at.saturating_sub(1),
            KeyPress::Enter | KeyPress::Down => return self.enter(review),
            KeyPress::Tab | KeyPress::Left | KeyPress::Right | KeyPress::PageUp | KeyPress::PageDown => return FormStep::Stay,
        }
        self.wrong = None;
        FormStep::Stay
    }

    fn enter(&mut self, review: ReviewId) -> FormStep {
        self.wrong = self.fields.get(self.at).and_then(|field| field.check().err());
        if self.wrong.is_some() {
            return FormStep::Stay;
        }
        if self.at + 1 < self.fields.len() {
            self.at += 1;
            return FormStep::Stay;
        }
        match self.params(review) {
            Ok(params) => FormStep::Done(Box::new(params)),
            Err(wrong) => {
                self.wrong = Some(wrong);
                FormStep::Stay
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
            FormKind::Constrained => {
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
            FormKind::Observed => allow(AnswerTerms { observe: Some(level(self.text("observe"))?.into()), ..AnswerTerms::default() }),
            FormKind::Deny => Ok(deny),
            FormKind::Changes if deny.reason.is_none() => Err("say what should be different".into()),
            FormKind::Changes => Ok(ReviewAnswerParams { answer: Answer::Changes, ..deny }),
            FormKind::Ban => Ok(ReviewAnswerParams { reach: Some(lasting(self.text("for"))?), ..deny }),
            FormKind::Instead => Ok(ReviewAnswerParams { alternative: Some(call(self.text("instead"))?), ..deny }),
        }
    }
}

impl FormField {
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

const WHOM: &str = "write task, repository, process, user or all";

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
    overrides(&words(text)?).map_err(|error| error.what)
}

fn call(text: &str) -> Result<wire::Alternative, String> {
    match words(text)?.split_first() {
        Some((tool, pairs)) => alternative(tool, pairs).map_err(|error| error.what),
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
    fn fill(kind: FormKind, text: &str) -> (Form, Option<Value>) {
        let mut form = Form::new(kind);
        let mut done = None;
        for c in text.chars() {
            let key = if c == '\n' { KeyPress::Enter } else { KeyPress::Char(c) };
            if let FormStep::Done(params) = form.key(&key, ReviewId(1)) {
                done = Some(serde_json::to_value(*params).unwrap());
            }
        }
        (form, done)
    }

    #[track_caller]
    fn gives(kind: FormKind, text: &str, expected: Value) {
        let (form, done) = fill(kind, text);
        assert_eq!(done, Some(expected), "{:?}", form.wrong);
    }

    #[test]
    fn forms_become_answers() {
        gives(
            FormKind::Constrained,
            "out/** 'a b'\n\n30s\nlimit=10 note=\"x y\"\nsession\n",
            json!({"review": "r-1", "answer": "allow", "reach": "session", "terms": {"constraints": {
                "writable_paths": ["out/**", "a b"], "max_duration_ms": 30_000, "input_overrides": {"limit": 10, "note": "x y"}}}}),
        );
        gives(FormKind::Observed, "\n\n", json!({"review": "r-1", "answer": "allow", "terms": {"observe": "basic"}}));
        gives(
            FormKind::Observed,
            "detailed\nall\n",
            json!({"review": "r-1", "answer": "allow", "reach": "all", "terms": {"observe": "detailed"}}),
        );
        gives(FormKind::Deny, "\n", json!({"review": "r-1", "answer": "deny"}));
        gives(FormKind::Deny, "not here\n", json!({"review": "r-1", "answer": "deny", "reason": "not here"}));
        gives(FormKind::Ban, "no\n\n", json!({"review": "r-1", "answer": "deny", "reason": "no", "reach": "zone"}));
        gives(
            FormKind::Instead,
            "fs.write path=out/a\nsafer\n",
            json!({"review": "r-1", "answer": "deny", "reason": "safer", "alternative": {"tool": "fs.write", "input": {"path": "out/a"}}}),
        );
    }

    #[test]
    fn a_wrong_value_stays_until_it_is_right() {
        for (kind, text, says) in [
            (FormKind::Constrained, "\n\n30\n", "not a time"),
            (FormKind::Constrained, "\n\n\nlimit\n", "not key=value"),
            (FormKind::Constrained, "'a\n", "quote"),
            (FormKind::Constrained, "\n\n\n\n\n", "no condition"),
            (FormKind::Observed, "much\n", "neither"),
            (FormKind::Observed, "\neverybody\n", "nobody"),
            (FormKind::Ban, "\nonce\n", "nobody"),
            (FormKind::Instead, "\n", "name a tool"),
        ] {
            let (form, done) = fill(kind, text);
            assert_eq!(done, None, "{text:?}");
            assert!(form.wrong.as_ref().is_some_and(|wrong| wrong.contains(says)), "{text:?}: {:?}", form.wrong);
        }
    }

    #[test]
    fn a_form_can_be_corrected_and_left() {
        let mut form = Form::new(FormKind::Observed);
        let r = ReviewId(1);
        for key in [KeyPress::Char('x'), KeyPress::Backspace, KeyPress::Paste("deta\niled".into())] {
            assert_eq!(form.key(&key, r), FormStep::Stay);
        }
        assert_eq!(form.fields[0].text, "deta iled");
        form.key(&KeyPress::Clear, r);
        assert_eq!((form.key(&KeyPress::Enter, r), form.at), (FormStep::Stay, 1));
        assert_eq!((form.key(&KeyPress::Up, r), form.at), (FormStep::Stay, 0));
        assert_eq!(form.key(&KeyPress::Escape, r), FormStep::Leave);
    }
}
