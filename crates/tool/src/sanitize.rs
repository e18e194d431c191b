//! A result on its way to a brain: nothing that acts on a terminal or deceives a reader, nothing a configuration wants out, and no
//! more than the tool's share of the context.
//!
//! Known secrets are the journal's redactor's, which the kernel applies before: a secret that a cut went through would not be
//! recognised any more. **Invariant.** What is left out is named where it was.

mod shorten;
mod unseen;
mod visible;

use crate::manifest::Manifest;
use regex::Regex;
use serde_json::Value;
pub use unseen::is_unseen;

#[derive(Debug, Default)]
pub struct Sanitizer {
    patterns: Vec<(String, Regex)>,
}

/// What was done to a result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Control sequences and characters that were removed or made visible.
    pub controls: usize,
    /// Matches of the configuration's patterns.
    pub removed: usize,
    /// Bytes before and after shortening; equal when nothing was left out.
    pub bytes: usize,
    pub kept: usize,
}

impl Cleaned {
    pub fn shortened(&self) -> bool {
        self.kept < self.bytes
    }
}

/// A pattern of the configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("pattern `{name}`: {what}")]
pub struct PatternError {
    pub name: String,
    pub what: String,
}

/// Removes or shows what acts on a terminal or deceives a reader; says whether there was any.
pub fn visible(value: &mut Value) -> bool {
    let mut cleaned = Cleaned::default();
    Sanitizer::default().texts(value, &mut cleaned);
    cleaned.controls > 0
}

impl Sanitizer {
    /// Patterns by name, from a trusted configuration.
    pub fn new<'a>(patterns: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Sanitizer, PatternError> {
        let compile = |(name, pattern): (&str, &str)| {
            let bad = |what: String| PatternError { name: name.to_owned(), what };
            let regex = Regex::new(pattern).map_err(|error| bad(error.to_string()))?;
            if regex.is_match("") {
                return Err(bad("it matches the empty text, and so everywhere".to_owned()));
            }
            Ok((name.to_owned(), regex))
        };
        Ok(Sanitizer { patterns: patterns.into_iter().map(compile).collect::<Result<_, _>>()? })
    }

    /// Whether [`Sanitizer::clean`] leaves every result as it is that has so many bytes of JSON and nothing in it that [`visible`] would change.
    pub fn leaves(&self, manifest: &Manifest, json_bytes: usize) -> bool {
        // What is counted for a value is less than twice its JSON.
        self.patterns.is_empty() && json_bytes.saturating_mul(2) <= manifest.result_bytes_max()
    }

    /// Makes a result fit to be read by a brain.
    pub fn clean(&self, manifest: &Manifest, value: &mut Value) -> Cleaned {
        let mut cleaned = Cleaned::default();
        self.texts(value, &mut cleaned);
        cleaned.bytes = shorten::size(value);
        shorten::fit(value, manifest.result_bytes_max(), manifest.truncate);
        cleaned.kept = shorten::size(value).min(cleaned.bytes);
        cleaned
    }

    /// The same of a text that is nobody's result, at whatever length.
    pub fn clean_text(&self, text: &mut String) {
        self.text(text, &mut Cleaned::default());
    }

    fn texts(&self, value: &mut Value, cleaned: &mut Cleaned) {
        match value {
            Value::String(text) => self.text(text, cleaned),
            Value::Array(items) => items.iter_mut().for_each(|item| self.texts(item, cleaned)),
            Value::Object(fields) => {
                let names: Vec<String> = fields.keys().filter(|name| visible::needed(name)).cloned().collect();
                for name in names {
                    if let Some(held) = fields.remove(&name) {
                        let mut shown = name;
                        cleaned.controls += visible::show(&mut shown);
                        fields.insert(shown, held);
                    }
                }
                fields.values_mut().for_each(|field| self.texts(field, cleaned));
            }
            _ => {}
        }
    }

    fn text(&self, text: &mut String, cleaned: &mut Cleaned) {
        // First, so that nothing hides from a pattern behind an escape code.
        cleaned.controls += visible::show(text);
        for (name, pattern) in &self.patterns {
            let found = pattern.find_iter(text).count();
            if found > 0 {
                *text = pattern.replace_all(text, regex::NoExpand(&format!("[removed: {name}]"))).into_owned();
                cleaned.removed += found;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn manifest(lines: &str) -> Manifest {
        let text = format!(
            "name: x\nversion: 1.0.0\ndescription: d\nrunner: internal\ninput_schema: true\noutput_schema: true\ntimeout_ms: 1\n{lines}\n"
        );
        Manifest::parse(&text, "x").unwrap()
    }

    #[test]
    fn patterns_are_taken_out_even_behind_escape_codes() {
        let sanitizer = Sanitizer::new([("ticket", "ACME-[0-9]+")]).unwrap();
        let mut value = json!({ "stdout": "see ACME-\u{1b}[31m12\u{1b}[0m and ACME-3", "list": ["ACME-4"], "n": 5 });
        let cleaned = sanitizer.clean(&manifest(""), &mut value);
        assert_eq!(value, json!({ "stdout": "see [removed: ticket] and [removed: ticket]", "list": ["[removed: ticket]"], "n": 5 }));
        assert_eq!((cleaned.controls, cleaned.removed, cleaned.shortened()), (2, 3, false));
    }

    #[test]
    fn a_pattern_that_cannot_be_is_named() {
        assert_eq!(Sanitizer::new([("a", "(")]).unwrap_err().name, "a");
        assert_eq!(Sanitizer::new([("b", "x*")]).unwrap_err().to_string(), "pattern `b`: it matches the empty text, and so everywhere");
    }

    #[test]
    fn keys_cannot_deceive_either() {
        let mut value = json!({ "a\u{202e}b": 1 });
        Sanitizer::default().clean(&manifest(""), &mut value);
        assert_eq!(value, json!({ "a[U+202E]b": 1 }));
    }

    #[test]
    fn a_long_result_is_cut_by_the_tools_own_strategy() {
        let long = format!("BEGIN{}END", "x".repeat(10_000));
        for (strategy, begin, end) in [("head", true, false), ("tail", false, true), ("middle", true, true)] {
            let mut value = json!({ "stdout": long });
            let cleaned = Sanitizer::default().clean(&manifest(&format!("truncate: {strategy}\nresult_tokens_max: 100")), &mut value);
            let text = value["stdout"].as_str().unwrap();
            assert_eq!((text.contains("BEGIN"), text.contains("END")), (begin, end), "{strategy}");
            assert!(text.contains("bytes left out") && text.len() <= 400, "{strategy} {}", text.len());
            assert!(cleaned.shortened());
        }
    }
}
