//! How many tokens a text has, roughly and without a vocabulary.
//!
//! Used where a provider reports no usage, and always marked as an estimate. It errs high: a budget that is used up a little early is
//! a nuisance, one that is overdrawn is a lie. The figures are held against real counts in the tests; see decision 0028.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Class {
    #[default]
    Start,
    Letter,
    Digit,
    Space,
    Line,
    Mark,
    Wide,
}

/// Counts as bytes come; where the text is cut makes no difference.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    tokens: u64,
    class: Class,
    /// Length of the current run of one class.
    run: u32,
    upper: bool,
}

impl Counter {
    pub fn push(&mut self, byte: u8) {
        let class = match byte {
            b'a'..=b'z' | b'A'..=b'Z' => Class::Letter,
            b'0'..=b'9' => Class::Digit,
            b' ' | b'\t' => Class::Space,
            b'\n' | b'\r' => Class::Line,
            0..=0x7f => Class::Mark,
            _ => Class::Wide,
        };
        if class == Class::Wide {
            return self.wide(byte);
        }
        let upper = byte.is_ascii_uppercase();
        // `fooBar` is two words.
        let breaks = class == Class::Letter && upper && !self.upper && self.run > 0;
        let before = std::mem::replace(&mut self.class, class);
        self.upper = upper;
        if class != before || breaks {
            self.run = 1;
            self.tokens += match (before, class) {
                // The line end after a mark, and the space before a word, are part of that token.
                (Class::Mark, Class::Line) | (_, Class::Space) => 0,
                _ => 1,
            };
            return;
        }
        self.run += 1;
        let more = match class {
            // The first letters of a word are one token, the rest of a long word is cut up.
            Class::Letter => self.run > 7 && self.run.is_multiple_of(4),
            Class::Digit => self.run % 3 == 1,
            Class::Mark => self.run % 2 == 1,
            // Indentation is a token of its own, however deep.
            Class::Space => self.run == 2,
            Class::Line | Class::Wide | Class::Start => false,
        };
        self.tokens += u64::from(more);
    }

    /// A byte of a character outside ASCII. Its first byte says how long it is, and that is a fair guess at what it costs.
    fn wide(&mut self, byte: u8) {
        if (0x80..0xC0).contains(&byte) {
            return;
        }
        if self.class != Class::Wide {
            self.class = Class::Wide;
            self.run = 0;
        }
        self.run += 1;
        self.tokens += match byte {
            // Accents stand alone in a word; Greek, Cyrillic and Arabic words have about four letters a token.
            0xC0..0xE0 => u64::from(self.run % 4 == 1),
            0xE0..0xF0 => 1,
            _ => 2,
        };
    }

    pub fn tokens(&self) -> u64 {
        self.tokens
    }
}

/// The estimate for a text.
pub fn estimate(text: &str) -> u64 {
    let mut counter = Counter::default();
    text.bytes().for_each(|byte| counter.push(byte));
    counter.tokens()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts with their counts by OpenAI's `o200k_base`.
    const KNOWN: &[(u64, &str)] = &[
        (
            51,
            r#"I have read the three files you asked about. The parser rejects a key that is given twice, so the second test cannot pass as written; I would rather change the test than the parser. Here is what I suggest we do next, and why.
"#,
        ),
        (
            43,
            r#"Der Kern des Systems ist einfach: Jede Handlung eines Prozesses geht durch eine einzige Tür, und was dort nicht erlaubt wird, geschieht nicht. Größere Änderungen müssen geprüft werden, bevor sie übernommen werden können.
"#,
        ),
        (
            31,
            r#"Каждое действие процесса проходит через одну дверь, и то, что там не разрешено, не происходит. Большие изменения должны быть проверены человеком.
"#,
        ),
        (
            38,
            r#"每个进程的每个动作都要经过同一扇门,没有被允许的事情就不会发生。较大的修改必须由人检查之后才能合并。
"#,
        ),
        (
            58,
            r#"{"file_path":"/home/user/project/src/components/UserProfile.tsx","old_string":"const [isLoading, setIsLoading] = useState(false);","new_string":"const [isLoading, setIsLoading] = useState<boolean>(true);","replace_all":false}
"#,
        ),
        (
            87,
            r#"commit e289c29f0b1a7d6c4e53a8d9c2f1b0a9e8d7c6b5 2026-11-15T23:07:33Z 1763248053 0x7fff5fbff8c0 550e8400-e29b-41d4-a716-446655440000
"#,
        ),
        (
            18,
            r#"Done ✅ 🎉 tests pass 🚀 — see “notes” … naïve café
"#,
        ),
    ];

    #[test]
    fn estimates_are_near_real_counts_and_rather_above() {
        for (tokens, text) in KNOWN {
            let estimate = estimate(text);
            assert!(estimate * 100 >= tokens * 95 && estimate * 100 <= tokens * 160, "{estimate} for {tokens}: {text}");
        }
        let (all, real) = KNOWN.iter().fold((0, 0), |(all, real), (tokens, text)| (all + estimate(text), real + tokens));
        assert!(all >= real && all * 100 <= real * 130, "{all} for {real}");
    }

    #[test]
    fn hostile_text_costs_what_it_should() {
        // Without spaces, in one script or in marks: no text is free.
        for text in ["a".repeat(1000), "1".repeat(1000), "{".repeat(1000), "я".repeat(1000), "语".repeat(1000), "🎉".repeat(1000)] {
            assert!(estimate(&text) >= 200, "{} for {}", estimate(&text), &text[..4]);
        }
    }
}
