//! Characters that a reader does not see, by their Unicode properties.
//!
//! Pure. **Invariant.** Beside the plain space, whatever has no picture of its own counts: doubt is unseen.

use regex::Regex;
use std::sync::LazyLock;

/// Controls, formats, private use and unassigned (`C`), separators (`Z`), what the standard says may be ignored, and the few that it
/// calls letters, marks or symbols and that are drawn as nothing: blank braille, fillers and joiners of single scripts, a note without
/// a head, and the stand-in for an object.
static UNSEEN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\x{2800}\x{2D7F}\x{1107F}\x{16FE4}\x{1D159}\x{FFFC}]").ok());

/// Would a reader of a terminal not see this character, or take it for a plain space?
pub fn is_unseen(c: char) -> bool {
    match c {
        ' '..='~' => false,
        '\0'..='\x7f' => true,
        // What most texts have beside ASCII, our own marks among it. A command prints a few of these and ends: it need not make the tables
        // of all of Unicode for that.
        '¡'..='¬' | '®'..='ſ' | '‐'..='‧' | '‰'..='⁞' | '←'..='⏿' | '─'..='➿' => false,
        c => UNSEEN.as_ref().is_none_or(|unseen| unseen.is_match(c.encode_utf8(&mut [0; 4]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_picture_is_unseen() {
        let ranges: &[(&str, &[u32])] = &[
            ("controls", &[0x00, 0x07, 0x08, 0x0a, 0x0d, 0x1b, 0x7f, 0x80, 0x85, 0x9b, 0x9f]),
            ("odd spaces", &[0xa0, 0x1680, 0x2000, 0x2003, 0x2007, 0x2009, 0x200a, 0x202f, 0x205f, 0x3000]),
            ("lines that are none", &[0x2028, 0x2029]),
            ("zero widths and joiners", &[0x200b, 0x200c, 0x200d, 0x2060, 0xfeff, 0x34f]),
            ("directions", &[0x61c, 0x200e, 0x200f, 0x202a, 0x202e, 0x2066, 0x2069, 0x206a]),
            ("soft hyphen", &[0xad]),
            ("fillers", &[0x115f, 0x1160, 0x3164, 0xffa0, 0x17b4, 0x17b5, 0x16fe4]),
            ("Mongolian", &[0x180b, 0x180c, 0x180d, 0x180e, 0x180f]),
            ("invisible mathematics", &[0x2061, 0x2062, 0x2063, 0x2064]),
            ("variation selectors", &[0xfe00, 0xfe0e, 0xfe0f, 0xe0100, 0xe01ef]),
            ("tags", &[0xe0000, 0xe0001, 0xe0020, 0xe0041, 0xe007f, 0xe0fff]),
            ("interlinear", &[0xfff9, 0xfffa, 0xfffb]),
            ("what is set aside to be ignored", &[0x2065, 0xfff0, 0xfff8]),
            ("music and shorthand", &[0x1d159, 0x1d173, 0x1d17a, 0x1bca0, 0x1bca3]),
            ("hieroglyphs' joints", &[0x13430, 0x1343f]),
            ("blank braille", &[0x2800]),
            ("joiners of one script", &[0x2d7f, 0x1107f]),
            ("an object", &[0xfffc]),
            ("private use", &[0xe000, 0xf8ff, 0xf0000, 0x10fffd]),
            ("no characters", &[0xfdd0, 0xffff, 0x1fffe, 0x378]),
        ];
        for (what, codes) in ranges {
            for code in *codes {
                assert!(char::from_u32(*code).is_none_or(is_unseen), "{what}: U+{code:04X} would pass");
            }
        }
    }

    #[test]
    fn what_is_known_without_the_tables_is_what_they_say() {
        let unseen = UNSEEN.as_ref().unwrap();
        for c in ('\x7f'..='\u{ffff}').chain('\u{1f000}'..='\u{1ffff}') {
            assert_eq!(is_unseen(c), unseen.is_match(&c.to_string()), "U+{:04X}", u32::from(c));
        }
    }

    #[test]
    fn what_people_write_is_seen() {
        for text in [
            "plain {}();\"'\\~ ",
            "äöüßéñçøå",
            "Привет Ελληνικά",
            "漢字かなカナ한국어",
            "نص عربي",
            "עברית",
            "हिन्दी ไทย",
            "👩🚀✓→…─│",
            "e\u{301}",
        ] {
            assert!(text.chars().all(|c| !is_unseen(c)), "{text}");
        }
    }
}
