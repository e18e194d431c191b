//! Laws of what a brain is given and of what runs at once, for any input.

use proptest::prelude::*;
use serde_json::{Map, Value};
use tool::{Access, Manifest, NamedPath, Sanitizer, conflicts};

fn manifest(strategy: &str, tokens: u64) -> Manifest {
    let text = format!(
        "name: x\nversion: 1.0.0\ndescription: d\nrunner: internal\ninput_schema: true\noutput_schema: true\ntimeout_ms: 1\n\
         truncate: {strategy}\nresult_tokens_max: {tokens}\n"
    );
    Manifest::parse(&text, "x").unwrap_or_else(|error| panic!("{error}"))
}

/// Any JSON, with texts of all kinds and lengths.
fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![any::<String>(), "[\u{1b}\u{9b}\\]\\[;m0-9\u{7}\n\r\u{202e}é😀a-z]{0,40}", "[a-zé\n]{500,2000}"];
    let leaf = prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), text.prop_map(Value::from)];
    leaf.prop_recursive(3, 60, 12, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn any_targets() -> impl Strategy<Value = Vec<NamedPath>> {
    let access = prop_oneof![Just(Access::Read), Just(Access::List), Just(Access::Write), Just(Access::Name), Just(Access::Run)];
    let target = ("[ab](/[ab]){0,3}|\\.", access).prop_map(|(path, access)| NamedPath { path, access });
    prop::collection::vec(target, 0..4)
}

/// Every text in a value, names of fields among them.
fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(fields) => fields.iter().for_each(|(name, field)| {
            found.push(name);
            texts(field, found);
        }),
        _ => {}
    }
}

proptest! {
    #[test]
    fn whatever_a_tool_gives_fits_and_acts_on_nothing(value in any_value(), strategy in "head|tail|middle", tokens in 100_u64..2_000) {
        let manifest = manifest(&strategy, tokens);
        let mut cleaned = value;
        Sanitizer::default().clean(&manifest, &mut cleaned);
        let mut found = Vec::new();
        texts(&cleaned, &mut found);
        prop_assert!(found.iter().map(|text| text.len()).sum::<usize>() <= manifest.result_bytes_max());
        for text in found {
            let stray = text.replace("\r\n", "\n").chars().find(|c| (c.is_control() && !matches!(c, '\n' | '\t')) || ('\u{202a}'..='\u{202e}').contains(c));
            prop_assert_eq!(stray, None, "{:?}", text);
        }
        let mut again = cleaned.clone();
        Sanitizer::default().clean(&manifest, &mut again);
        prop_assert_eq!(again, cleaned, "a second time changes nothing");
    }

    #[test]
    fn meeting_is_mutual_and_needs_a_writer(a in any_targets(), b in any_targets()) {
        prop_assert_eq!(conflicts(&a, &b), conflicts(&b, &a));
        let reads = |targets: &[NamedPath]| targets.iter().all(|target| matches!(target.access, Access::Read | Access::List));
        prop_assert!(!(reads(&a) && reads(&b) && conflicts(&a, &b)));
        let more: Vec<NamedPath> = b.iter().cloned().chain(a.clone()).collect();
        prop_assert!(!conflicts(&a, &b) || conflicts(&a, &more), "touching more never meets less");
    }

    #[test]
    fn no_manifest_makes_the_reader_stumble(text in any::<String>()) {
        if let Ok(manifest) = Manifest::parse(&text, "x") {
            let _ = manifest.check("x");
        }
        let _ = tool::host_of(&text);
        let _ = tool::HttpTarget::parse(&text, "GET");
    }
}
