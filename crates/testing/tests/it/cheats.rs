//! The list of cheats: each has its sentences, and those that need no kernel are played, with their control. The others are played by the tests of
//! the whole kernel (`crates/testkit/tests/cheats`).

use std::collections::BTreeSet;
use testing::{
    ChangedFile, CommandEnd, ReportFormat, ReportPlace, ReportingCommand, RunOutput, RunnerKind, TestRunner, TypeOnly, compare_tests,
    inspect_tests, read_run, type_only_change,
};

const CORPUS: &str = include_str!("../../corpus/cheats.txt");

#[derive(Default, Debug)]
struct Cheat {
    name: String,
    does: String,
    met: String,
    control: String,
    by: Vec<String>,
    red: String,
    honest: String,
    cheat: String,
    play: String,
    found: String,
}

fn cheats() -> Vec<Cheat> {
    let mut cheats: Vec<Cheat> = Vec::new();
    let mut text: Option<&str> = None;
    for line in CORPUS.lines() {
        if let Some(name) = line.strip_prefix("cheat ").filter(|_| text.is_none()) {
            cheats.push(Cheat { name: name.to_owned(), ..Cheat::default() });
            continue;
        }
        let Some(cheat) = cheats.last_mut() else {
            continue;
        };
        if let Some(name) = line.strip_prefix("<<< ") {
            text = Some(name);
        } else if let Some(found) = line.strip_prefix("=> ") {
            found.clone_into(&mut cheat.found);
            text = None;
        } else if let Some(name) = text {
            let field = match name {
                "red" => &mut cheat.red,
                "honest" => &mut cheat.honest,
                "cheat" => &mut cheat.cheat,
                "play" => &mut cheat.play,
                other => panic!("{}: a text is named {other}", cheat.name),
            };
            field.push_str(line);
            field.push('\n');
        } else if let Some((word, rest)) = line.split_once(' ') {
            match word {
                "does" => rest.clone_into(&mut cheat.does),
                "met" => rest.clone_into(&mut cheat.met),
                "control" => rest.clone_into(&mut cheat.control),
                "spares" => {}
                "by" => cheat.by = rest.split(' ').map(str::to_owned).collect(),
                _ => panic!("{}: {line}", cheat.name),
            }
        }
    }
    cheats
}

/// What is found of a text, by the cheat's own way.
fn found(cheat: &Cheat, text: &str) -> Vec<String> {
    let words: Vec<&str> = cheat.by.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["inspect", path] => inspect_tests(path, text).iter().map(|finding| format!("{:?}", finding.kind)).collect(),
        ["compare", path] => {
            let change = ChangedFile { path, before: Some(cheat.red.as_bytes()), after: Some(text.as_bytes()) };
            compare_tests(&[change]).iter().map(|finding| format!("{:?}", finding.kind)).collect()
        }
        ["types", path] => match type_only_change(path, &cheat.red, text) {
            TypeOnly::Proven => vec!["Proven".to_owned()],
            TypeOnly::Refused(_) => vec!["Refused".to_owned()],
        },
        ["report", format, exit] => {
            let format: ReportFormat = serde_json::from_value(serde_json::json!(format)).unwrap();
            let reporting = ReportingCommand { command: Vec::new(), environment: Vec::new(), format, place: ReportPlace::Stdout };
            let runner =
                TestRunner { kind: RunnerKind::Command, command: Vec::new(), reason: String::new(), script: Vec::new(), report: None };
            let end = CommandEnd::Exited(exit.parse().unwrap());
            let output = RunOutput { end, stdout: text.as_bytes(), stderr: b"", report: None, is_cut: false, root: "/" };
            vec![format!("{:?}", read_run(&runner, &reporting, &output).verdict)]
        }
        _ => panic!("{}: {words:?}", cheat.name),
    }
}

#[test]
fn each_cheat_is_found_and_its_control_is_not() {
    let mut played = 0;
    for cheat in cheats().iter().filter(|cheat| cheat.by != ["kernel"]) {
        let caught = found(cheat, &cheat.cheat);
        assert!(caught.contains(&cheat.found), "{}: {caught:?}", cheat.name);
        let honest = found(cheat, &cheat.honest);
        let expected: &[&str] = match cheat.by[0].as_str() {
            "types" => &["Proven"],
            "report" => &["Passed"],
            _ => &[],
        };
        assert_eq!(honest, expected, "the control of {}", cheat.name);
        played += 1;
    }
    assert!(played >= 60, "{played} cheats were played");
}

#[test]
fn each_cheat_says_what_it_does_and_where_it_is_met() {
    let cheats = cheats();
    let names: BTreeSet<&str> = cheats.iter().map(|cheat| cheat.name.as_str()).collect();
    assert_eq!(names.len(), cheats.len(), "two cheats have one name");
    for cheat in &cheats {
        let sentences = [&cheat.does, &cheat.met, &cheat.control];
        assert!(sentences.iter().all(|sentence| sentence.len() > 5), "{cheat:?}");
        assert_eq!(cheat.by == ["kernel"], !cheat.play.is_empty(), "{cheat:?}");
        assert!(!cheat.found.is_empty(), "{cheat:?}");
    }
}
