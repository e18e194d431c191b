//! A stranger can verify an export with nothing but the documentation.

use std::fs;
use std::path::Path;
use std::process::Command;

use journal::Filter;

use crate::{filled, open};

fn python(file: &Path) -> (bool, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/journal_verify.py");
    let output = Command::new("python3").arg(script).arg(file).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr))
}

#[test]
fn python_accepts_an_export_and_refuses_a_changed_one() {
    let home = tempfile::tempdir().unwrap();
    filled(home.path(), 20);
    let (journal, opened) = open(home.path());
    let mut bytes = Vec::new();
    assert_eq!(journal.export(&mut bytes, &Filter::default()).unwrap(), 20);
    let file = home.path().join("export.jsonl");
    fs::write(&file, &bytes).unwrap();
    let (accepted, said) = python(&file);
    assert!(accepted, "{said}");
    assert!(said.contains(&opened.head.hash), "the head's hash can be compared with the seal: {said}");

    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let swapped = [&lines[..5], &[lines[6], lines[5]], &lines[7..]].concat().join("\n");
    let cut = [&lines[..5], &lines[6..]].concat().join("\n");
    for changed in [text.replace("record 5 ", "record 6 "), swapped, cut] {
        fs::write(&file, changed).unwrap();
        let (accepted, said) = python(&file);
        assert!(!accepted && said.contains("broken at"), "{said}");
    }
}
