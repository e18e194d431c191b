//! How well texts fit a question: BM25 over the few texts that there are (decision 0080).

use std::collections::{BTreeMap, BTreeSet};

/// How fast more of the same word stops to count, and how much a long text is worth less: the usual figures of BM25.
const SATURATION: f64 = 1.2;
const LENGTH_WEIGHT: f64 = 0.75;

/// How often each word stands in a text.
pub(crate) type WordCounts = BTreeMap<String, usize>;

/// A text that fits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RankedText {
    /// Which of the texts.
    pub index: usize,
    pub score: f64,
    /// The words of the question that it has, with what each counts, the most first.
    pub words: Vec<(String, f64)>,
}

/// The texts that share a word with the question, the best first, of equal ones the later.
pub(crate) fn rank(question: &str, texts: &[WordCounts]) -> Vec<RankedText> {
    let average = texts.iter().map(length).sum::<f64>() / texts.len().max(1) as f64;
    let wanted: BTreeSet<String> = split(question).collect();
    let rarity = |word: &String| {
        let holders = texts.iter().filter(|words| words.contains_key(word)).count() as f64;
        // The form that is never negative: a word that all texts have still counts a little.
        (1.0 + (texts.len() as f64 - holders + 0.5) / (holders + 0.5)).ln()
    };
    let wanted: Vec<(String, f64)> = wanted.into_iter().map(|word| (word.clone(), rarity(&word))).collect();
    let score = |(index, text): (usize, &WordCounts)| {
        let weight = SATURATION * (1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length(text) / average.max(1.0));
        let one = |(word, rarity): &(String, f64)| {
            let count = *text.get(word)? as f64;
            Some((word.clone(), rarity * count * (SATURATION + 1.0) / (count + weight)))
        };
        let mut words: Vec<(String, f64)> = wanted.iter().filter_map(one).collect();
        words.sort_by(|a, b| b.1.total_cmp(&a.1));
        let score = words.iter().map(|(_, score)| score).sum();
        (!words.is_empty()).then_some(RankedText { index, score, words })
    };
    let mut ranked: Vec<RankedText> = texts.iter().enumerate().filter_map(score).collect();
    ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.index.cmp(&a.index)));
    ranked
}

fn length(words: &WordCounts) -> f64 {
    words.values().sum::<usize>() as f64
}

pub(crate) fn count_words<'a>(texts: impl IntoIterator<Item = &'a str>) -> WordCounts {
    let mut words = WordCounts::new();
    for word in texts.into_iter().flat_map(split) {
        *words.entry(word).or_default() += 1;
    }
    words
}

/// Words that say nothing about a task, and those that every lesson has. In order: they are searched by halves.
pub(crate) const COMMON: &[&str] = &[
    "a",
    "an",
    "and",
    "are",
    "as",
    "at",
    "be",
    "by",
    "completed",
    "do",
    "failed",
    "for",
    "from",
    "in",
    "is",
    "it",
    "its",
    "of",
    "on",
    "or",
    "steps",
    "succeeded",
    "that",
    "the",
    "then",
    "this",
    "to",
    "using",
    "what",
    "with",
];

pub(crate) fn split(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase);
    words.filter(|word| word.chars().count() > 1 && COMMON.binary_search(&word.as_str()).is_err()).map(|word| stem(&word).to_owned())
}

/// A word without the ending of its plural, so that `test` finds `tests`.
fn stem(word: &str) -> &str {
    match word.strip_suffix('s') {
        Some(stem) if stem.len() > 2 && !stem.ends_with(['s', 'u', 'i']) => stem,
        _ => word,
    }
}
