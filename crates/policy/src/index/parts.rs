//! Rules whose globs have letters but no whole segment in them, such as `**/*secret*/**`: one automaton looks for all their letters
//! in one pass over the path.

use aho_corasick::{AhoCorasick, MatchKind};

/// Below this, asking each rule costs less time and memory than an automaton.
const RULES_MIN: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Parts {
    letters: Vec<Box<str>>,
    /// The rule of each of `letters`.
    rules: Vec<u32>,
    automaton: Option<AhoCorasick>,
}

impl Parts {
    pub fn add(&mut self, letters: &str, rule: u32) {
        self.letters.push(letters.into());
        self.rules.push(rule);
    }

    /// Builds the automaton; gives back the rules that are better asked one by one.
    pub fn build(&mut self) -> Vec<u32> {
        if self.letters.len() >= RULES_MIN {
            let letters = self.letters.iter().map(|letters| letters.as_bytes());
            self.automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).build(letters).ok();
        }
        self.letters = Vec::new();
        if self.automaton.is_some() { Vec::new() } else { std::mem::take(&mut self.rules) }
    }

    pub fn candidates(&self, path: &str, visit: &mut impl FnMut(u32)) {
        let Some(automaton) = &self.automaton else { return };
        for found in automaton.find_overlapping_iter(path) {
            if let Some(rule) = self.rules.get(found.pattern().as_usize()) {
                visit(*rule);
            }
        }
    }
}
