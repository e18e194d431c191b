//! Text that is not read as it looks.

use crate::lex::SourceLanguage;

/// Characters that turn the direction of a text around.
const TURNING: [char; 9] = ['\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}'];
/// Encodings in which code looks as it runs.
const PLAIN: [&str; 9] = ["utf-8", "utf8", "utf-8-sig", "ascii", "us-ascii", "latin-1", "latin1", "iso-8859-1", "iso-8859-15"];

/// Why people would read something else in a file of code than runs, if they would.
pub(super) fn hidden_text(path: &str, text: &str) -> Option<String> {
    let language = SourceLanguage::of(path)?;
    if text.contains(TURNING) {
        return Some("characters that turn the direction of the text around let people read something else than runs".to_owned());
    }
    let encoding = text.lines().take(2).find_map(|line| {
        let (_, behind) = line.trim_start().strip_prefix('#')?.split_once("coding")?;
        let name = behind.strip_prefix([':', '='])?.trim_start();
        Some(name.split(|c: char| !(c.is_alphanumeric() || "-_.".contains(c))).next().unwrap_or_default().to_lowercase())
    });
    let encoding = encoding.filter(|name| language == SourceLanguage::Python && !PLAIN.contains(&name.replace('_', "-").as_str()))?;
    Some(format!("its encoding is `{encoding}`, in which comments and texts can hold code that runs"))
}
