//! What is read, what is not, and where it is said to stand.

use super::*;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sample {
    name: String,
    #[serde(default)]
    count: u8,
    #[serde(default)]
    share: f64,
    #[serde(default)]
    is_open: bool,
    #[serde(default)]
    note: Option<String>,
    #[serde(default)]
    parts: Vec<Shape>,
    #[serde(default)]
    by_number: BTreeMap<u16, String>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Shape {
    Round,
    Square(u32),
    Odd { sides: u32 },
}

fn error(text: &str) -> String {
    from_str::<Sample>(text).unwrap_err().to_string()
}

#[test]
fn a_type_is_read_as_its_fields_say() {
    let text = "name: 1.0\ncount: 0x1f\nshare: 2\nis_open: True\nnote: ~\nparts: [round, square: 4, odd: {sides: 5}]\nby_number: {80: a, 443: 'b'}\n";
    let read: Sample = from_str(text).unwrap();
    let expected = Sample {
        name: "1.0".into(),
        count: 31,
        share: 2.0,
        is_open: true,
        note: None,
        parts: vec![Shape::Round, Shape::Square(4), Shape::Odd { sides: 5 }],
        by_number: BTreeMap::from([(80, "a".into()), (443, "b".into())]),
    };
    assert_eq!(read, expected);
    let nothing: Sample = from_str("name: null-and-void\nparts:\nby_number:\n").unwrap();
    assert!(nothing.parts.is_empty() && nothing.by_number.is_empty(), "nothing is an empty list and an empty map");
    assert_eq!(from_str::<Option<Sample>>("# only a comment\n"), Ok(None));
}

#[test]
fn words_stand_for_what_yaml_says() {
    let text =
        "[1, -2, 1_000, 0o17, 0b11, 007, 1.5, 2e3, true, FALSE, no, on, y, null, ~, '', '1', \"true\", !!str 1, inf, 1__0, .5, 1.2.3]";
    let expected = json!([
        1, -2, 1000, 15, 3, 7.0, 1.5, 2000.0, true, false, "no", "on", "y", null, null, "", "1", "true", "1", "inf", "1__0", 0.5, "1.2.3"
    ]);
    assert_eq!(from_str::<Value>(text).unwrap(), expected);
    assert_eq!(from_str::<Value>("a: |\n  two\n  lines\n").unwrap(), json!({"a": "two\nlines\n"}));
    assert_eq!(from_str::<Value>("18446744073709551615").unwrap(), json!(u64::MAX));
    assert!(from_str::<Value>(".inf").unwrap_err().to_string().contains("not finite"));
}

#[test]
fn aliases_and_merge_keys_are_unfolded() {
    let text = "base: &b {a: 1, b: 2}\nnext: {<<: *b, b: 3}\nboth: {<<: [{a: 9}, *b], c: *b}\n";
    let expected = json!({"base": {"a": 1, "b": 2}, "next": {"b": 3, "a": 1}, "both": {"a": 9, "b": 2, "c": {"a": 1, "b": 2}}});
    assert_eq!(from_str::<Value>(text).unwrap(), expected);
    assert!(from_str::<Value>("a: {<<: 1}").unwrap_err().to_string().contains("`<<` takes a map"));
    assert!(from_str::<Value>("a: &a [*a]").unwrap_err().to_string().contains("inside of what it is an alias for"));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let cases = [
        ("nam: x", "line 1, column 1: unknown field `nam`, expected one of name, count, share, is_open, note, parts, by_number"),
        ("name: x\ncount: 256", "line 2, column 8: invalid value: integer `256`, expected u8"),
        ("name: x\ncount: -1", "line 2, column 8: invalid value: integer `-1`, expected u8"),
        ("name: x\ncount: many", "line 2, column 8: this is to be a whole number"),
        ("name: x\nis_open: yes", "line 2, column 10: this is to be `true` or `false`"),
        ("name:", "line 1, column 5: there is no value here"),
        ("name: [x]", "line 1, column 7: this is to be one word"),
        ("name: x\nparts: round", "line 2, column 8: this is to be a list"),
        ("name: x\nparts: [flat]", "line 2, column 9: unknown variant `flat`, expected one of round, square, odd"),
        ("name: x\nparts: [square]", "line 2, column 9: this word needs a value: write `word: value`"),
        ("name: x\nparts: [round: 1]", "line 2, column 16: this word has no value"),
        ("name: x\nparts: [odd: {}]", "line 2, column 14: the key `sides` is missing"),
        ("- name: x", "line 1, column 1: these are to be keys with their values"),
        ("count: 1", "line 1, column 1: the key `name` is missing"),
        ("name: x\nname: y", "line 2, column 1: the key `name` stands here twice"),
        ("name: x\n---\nname: y", "line 2, column 1: the file goes on after its end"),
        ("name: !secret x", "line 1, column 15: nobody knows the tag `!secret`"),
        ("? [a]\n: b", "line 1, column 3: a key is to be a word"),
    ];
    for (text, expected) in cases {
        assert_eq!(error(text), expected, "{text}");
    }
}

#[test]
fn a_value_knows_its_place_and_an_alias_its_own() {
    let read: BTreeMap<String, Vec<Spanned<String>>> = from_str("a: &a [x, y]\nb: *a\nc:\n  - z\n").unwrap();
    let places = |key: &str| read[key].iter().map(|word| (word.referenced.line(), word.referenced.column())).collect::<Vec<_>>();
    assert_eq!((places("a"), places("b"), places("c")), (vec![(1, 8), (1, 11)], vec![(2, 4), (2, 4)], vec![(4, 5)]));
    let alias: BTreeMap<String, Spanned<Value>> = from_str("a: &a [x, y]\nb: *a\n").unwrap();
    assert_eq!((alias["b"].referenced.line(), alias["b"].referenced.column()), (2, 4));
}

#[test]
fn a_file_that_unfolds_without_end_is_refused() {
    let mut laughs = "a0: &a0 [l, l, l, l, l, l, l, l, l, l]\n".to_owned();
    for level in 1..9 {
        let before = vec![format!("*a{}", level - 1); 10].join(", ");
        laughs += &format!("a{level}: &a{level} [{before}]\n");
    }
    assert!(from_str::<Value>(&laughs).unwrap_err().to_string().contains("more than 250000 words"));
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(from_str::<Value>(&deep(DEPTH_MAX)).is_ok(), "the control");
    assert!(from_str::<Value>(&deep(DEPTH_MAX + 1)).unwrap_err().to_string().contains("nested more than 64 deep"));
    let mut chain = "a0: &a0 [x]\n".to_owned();
    for level in 1..100 {
        chain += &format!("a{level}: &a{level} [*a{}]\n", level - 1);
    }
    assert!(from_str::<Value>(&chain).unwrap_err().to_string().contains("nested more than 64 deep"), "also by aliases");
}

/// A few bytes for each alias of a long word: counted by parts alone they would be more than there is memory.
#[test]
fn a_long_word_with_many_aliases_is_refused_before_it_is_copied() {
    let file = |letters: usize, aliases: usize| format!("a: &a {}\nb: [{}]\n", "x".repeat(letters), vec!["*a"; aliases].join(","));
    let told = from_str::<Value>(&file(1_000_000, 100_000)).unwrap_err().to_string();
    assert!(told.contains("anchors and aliases stand for more than 16777216 bytes"), "{told}");
    let read = from_str::<Value>(&file(1_000, 10_000)).unwrap();
    assert_eq!(read["b"].as_array().unwrap().len(), 10_000, "short words may have many");
    let levels: String = (0..60).map(|level| format!("&n{level} [")).collect();
    let nested = format!("&a [{levels}{}{}", "y".repeat(1_000_000), "]".repeat(61));
    assert!(from_str::<Value>(&nested).unwrap_err().to_string().contains("anchors and aliases"), "anchors are copies too");
}
