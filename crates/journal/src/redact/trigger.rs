//! The words that make a place of a text worth a look.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Anchored, Input, Match, MatchKind, StartKind};

use super::text::{OWN_KEY, OWN_KEY_BASE64, PEM};
use super::{flag, key, prefix};

/// How a JSON object begins in base64.
const WEB_TOKEN: &str = "eyJ";
/// What stands between password and host where Go names a database.
const GO_DATABASE: [&str; 2] = ["@tcp(", "@unix("];
const URL: &str = "://";
/// Addresses whose rest is all that one needs to write there.
const WEBHOOKS: [&str; 3] = ["hooks.slack.com/services/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/"];
/// How the second half of a Telegram bot's token begins.
const BOT_TOKEN: &str = ":AA";
const SQL_LOGIN: &str = "identified by ";
/// What stands before `name/secret@host` where Java names a database.
const ORACLE_LOGIN: &str = "oracle:thin:";

/// What such a word stands for.
#[derive(Clone, Copy)]
pub(super) enum Hit {
    OwnKey,
    OwnKeyBase64(usize),
    Prefix(usize),
    Pem,
    Url,
    WebToken,
    Basic,
    Cookie,
    Signature,
    GoDatabase,
    Program,
    Webhook,
    BotToken,
    SqlLogin,
    OracleLogin,
    Name,
}

/// The words that make a place worth a look.
pub(super) struct Triggers {
    automaton: AhoCorasick,
    hits: Vec<Hit>,
    /// One bit for each number that a word can begin with. The automaton is asked at those places alone: it takes many steps for each byte.
    beginnings: Vec<u64>,
}

/// So many bytes at a word's beginning make its number, five bits each. Those are the same for a letter in both cases.
const NUMBERED: usize = 3;
const NUMBERS: usize = 1 << (5 * NUMBERED);

/// The number of the bytes before, one byte further.
fn next_number(number: usize, byte: u8) -> usize {
    (number << 5 | usize::from(byte & 31)) % NUMBERS
}

impl Triggers {
    fn new(words: &[&str], hits: Vec<Hit>) -> Option<Triggers> {
        let mut beginnings = vec![0; NUMBERS / 64];
        for word in words {
            let number = word.as_bytes().get(..NUMBERED)?.iter().fold(0, |number, byte| next_number(number, *byte));
            beginnings[number / 64] |= 1 << (number % 64);
        }
        let mut builder = AhoCorasick::builder();
        builder.ascii_case_insensitive(true).match_kind(MatchKind::LeftmostFirst).start_kind(StartKind::Anchored);
        let automaton = builder.build(words).ok()?;
        Some(Triggers { automaton, hits, beginnings })
    }

    /// The words in a text from left to right, apart from each other. Of those that begin at one place the first in the list is meant.
    pub(super) fn all(&self, text: &str) -> impl Iterator<Item = (Match, Hit)> {
        let mut from = 0;
        std::iter::from_fn(move || {
            loop {
                from = self.next_beginning(text.as_bytes(), from)?;
                match self.automaton.find(Input::new(text).range(from..).anchored(Anchored::Yes)) {
                    Some(found) => {
                        from = found.end();
                        return Some((found, self.hits[found.pattern().as_usize()]));
                    }
                    None => from += 1,
                }
            }
        })
    }

    /// The first place from here on where a word may begin.
    fn next_beginning(&self, bytes: &[u8], from: usize) -> Option<usize> {
        let (first, rest) = bytes.get(from..)?.split_at_checked(NUMBERED - 1)?;
        let mut number = first.iter().fold(0, |number, byte| next_number(number, *byte));
        let place = rest.iter().position(|byte| {
            number = next_number(number, *byte);
            self.beginnings[number / 64] >> (number % 64) & 1 != 0
        });
        place.map(|place| from + place)
    }
}

/// `None` where they could not be built: then nothing could be found.
pub(super) static TRIGGERS: LazyLock<Option<Triggers>> = LazyLock::new(|| {
    let (words, hits) = words();
    Triggers::new(&words, hits)
});

/// The words, with what each stands for. Of two that begin at one place the first is meant.
fn words() -> (Vec<&'static str>, Vec<Hit>) {
    let mut words = Vec::new();
    let mut hits = Vec::new();
    // First, because `sk-` is the beginning of other keys too.
    words.push(OWN_KEY);
    hits.push(Hit::OwnKey);
    for (index, beginning) in OWN_KEY_BASE64.iter().enumerate() {
        words.push(*beginning);
        hits.push(Hit::OwnKeyBase64(index));
    }
    for (index, prefix) in prefix::all().enumerate() {
        words.push(prefix);
        hits.push(Hit::Prefix(index));
    }
    let mut add = |word: &'static str, hit: Hit| {
        words.push(word);
        hits.push(hit);
    };
    PEM.into_iter().for_each(|pem| add(pem, Hit::Pem));
    GO_DATABASE.into_iter().for_each(|at| add(at, Hit::GoDatabase));
    for (word, hit) in
        [(URL, Hit::Url), (WEB_TOKEN, Hit::WebToken), ("basic ", Hit::Basic), ("cookie:", Hit::Cookie), ("cookie\"", Hit::Cookie)]
    {
        add(word, hit);
    }
    for sign in ["sig=", "signature="] {
        add(sign, Hit::Signature);
    }
    WEBHOOKS.into_iter().for_each(|address| add(address, Hit::Webhook));
    add(BOT_TOKEN, Hit::BotToken);
    add(SQL_LOGIN, Hit::SqlLogin);
    add(ORACLE_LOGIN, Hit::OracleLogin);
    flag::programs().for_each(|program| add(program, Hit::Program));
    for word in key::WORDS {
        words.push(word);
        hits.push(Hit::Name);
    }
    (words, hits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Asked at the beginnings alone, the automaton finds what it finds in the whole text.
        #[test]
        fn no_word_is_missed(parts in prop::collection::vec("[a-z_ :/\"-]{0,4}|sk-|GHP_|token|API_key|apikey|://|:AA|cookie\"|eyJ|sig=", 0..12)) {
            let text = parts.concat();
            let triggers = TRIGGERS.as_ref().unwrap();
            let found: Vec<(usize, usize)> = triggers.all(&text).map(|(found, _)| (found.start(), found.end())).collect();
            let mut builder = AhoCorasick::builder();
            builder.ascii_case_insensitive(true).match_kind(MatchKind::LeftmostFirst);
            let whole = builder.build(words().0).unwrap();
            let expected: Vec<(usize, usize)> = whole.find_iter(&text).map(|found| (found.start(), found.end())).collect();
            prop_assert_eq!(found, expected, "{}", text);
        }
    }
}
