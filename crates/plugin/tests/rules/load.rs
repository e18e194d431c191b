//! What is wrong with a file is said with its place, before any rule is in force.

use plugin::{Extensions, PluginError};

use super::host::{Host, Test, bounds};

pub const TESTS: &[Test] = &[
    ("flaws_have_their_place", flaws_have_their_place),
    ("a_file_that_kills_its_reader_is_an_error", a_file_that_kills_its_reader_is_an_error),
    ("a_set_too_large_is_refused", a_set_too_large_is_refused),
    ("check_names_the_rules_and_leaves_nothing", check_names_the_rules_and_leaves_nothing),
    ("a_program_that_is_no_child_is_an_error", a_program_that_is_no_child_is_an_error),
    ("bounds_are_those_of_the_template", bounds_are_those_of_the_template),
];

const GOOD: &str = "export default rule('good', () => pass());";

fn flaws_have_their_place(host: &Host) {
    let check = |text: &str, wanted: &str| {
        let files = [("rules/good.ts", GOOD), ("rules/bad.ts", text)];
        match host.try_start(&files) {
            Err(PluginError::Flawed(flaw)) => assert!(flaw.to_string().starts_with(wanted), "{flaw}\ninstead of\n{wanted}"),
            other => panic!("{other:?} for {text}"),
        }
    };
    // The types' place, the syntax, and what only the engine sees.
    check("export default rule('a', () => pass()\nconst b = 1;", "rules/bad.ts:2:1: ");
    check("const a: = 1;", "rules/bad.ts:1:10: ");
    check("enum Colour { Red }\nexport default rule('a', () => pass());", "rules/bad.ts:1:1: ");
    check("const a: number = 1;\n\n  gone();\n", "rules/bad.ts:3:3: gone is not defined");
    check("import { a } from './gone';\nexport default rule('a', () => a);", "rules/bad.ts:1:19: `./gone` is not among the rule files");
    check("\nimport fs from 'fs';\nexport default rule('a', () => fs);", "rules/bad.ts:2:16: `fs` is not among the rule files");
    check("import x from '../../../../etc/passwd';\nx;", "rules/bad.ts:1:15: `../../../../etc/passwd` is not among the rule files");
    check("import good, { gone } from './good';\nexport default [good, gone];", "rules/bad.ts");
    check("const x = await Promise.resolve(1);\nexport default rule('a', () => pass());", "rules/bad.ts:1:11: a file of rules cannot wait");
    check("export const a = 1;", "rules/bad.ts: it exports no rule");
    check("export default { name: 'a', judge: () => pass() };", "rules/bad.ts: export default holds something that is not a rule");
    check("export const all = [rule('a', () => pass()), 1];", "rules/bad.ts: export all holds something that is not a rule");
    check(
        "rule('quiet', () => deny('never said'));\nexport default rule('a', () => pass());",
        "rules/bad.ts:1:6: no file exports rule `quiet`",
    );
    check("export default rule('good', () => pass());", "rules/bad.ts: there is more than one rule `good`");
    check("export default rule('Bad Name', () => pass());", "rules/bad.ts:1:15: a rule's name is");
    check("export default rule('*', () => pass());", "rules/bad.ts:1:15: a rule's name is");
    check("export default rule('a', 1 as any);", "rules/bad.ts:1:15: rule a needs a function");
    check("while (true) {}", "rules/bad.ts: the rules took more than 100 ms to load");
    check("throw new Error('no');", "rules/bad.ts:1:11: no");
    // The good file alone, and a rule that two files export.
    host.try_start(&[("rules/good.ts", GOOD)]).unwrap();
    let both = host.try_start(&[("rules/good.ts", GOOD), ("rules/index.ts", "export { default as good } from './good';")]).unwrap();
    assert_eq!(both.status().rules, ["good"]);
}

/// Parsers recurse; the one that gives up here is the child's.
fn a_file_that_kills_its_reader_is_an_error(host: &Host) {
    let nested = |depth: usize| format!("{GOOD} export const deep = {}1{};", "(".repeat(depth), ")".repeat(depth));
    match host.try_start(&[("a.ts", &nested(100_000))]) {
        Err(PluginError::Flawed(flaw)) => assert_eq!(flaw.to_string(), "a.ts:1:1064: brackets are nested more than 1000 deep here"),
        other => panic!("{other:?}"),
    }
    host.try_start(&[("a.ts", &nested(10))]).unwrap();
    // No bracket tells how deep this is.
    let chained = |depth: usize| format!("{GOOD} export const deep = {}1;", "!".repeat(depth));
    match host.try_start(&[("a.ts", &chained(900_000))]) {
        Err(PluginError::Child { why }) => assert!(why.starts_with("it ended while it read the rule files"), "{why}"),
        other => panic!("{other:?}"),
    }
    host.try_start(&[("a.ts", &chained(100))]).unwrap();
}

fn a_set_too_large_is_refused(host: &Host) {
    let with = |bytes: usize| format!("{GOOD} //{}", "x".repeat(bytes));
    assert!(matches!(host.try_start(&[("a.ts", &with(1 << 20))]), Err(PluginError::TooLarge { .. })));
    host.try_start(&[("a.ts", &with(900_000))]).unwrap();
}

fn check_names_the_rules_and_leaves_nothing(host: &Host) {
    let program = std::env::current_exe().unwrap();
    let check = |text: &str| {
        let files = vec![("a.ts".to_owned(), text.to_owned())];
        host.block_on(Extensions::check(&host.launcher, &host.dir(), &program, &["extension-child"], files, &bounds()))
    };
    assert_eq!(check(GOOD).unwrap(), ["good"]);
    assert!(matches!(check("export default"), Err(PluginError::Flawed(flaw)) if flaw.at == Some((1, 15))));
    assert_eq!(host.works(), Vec::<std::path::PathBuf>::new());
}

fn a_program_that_is_no_child_is_an_error(host: &Host) {
    // Lists the tests instead of greeting.
    let error = host.start_with(&["--list"], &[("a.ts", GOOD)]).unwrap_err();
    assert!(matches!(&error, PluginError::Child { why } if why.contains("nonsense")), "{error}");
    let files = || vec![("a.ts".to_owned(), GOOD.to_owned())];
    let start = |program: &str| host.block_on(Extensions::start(&host.launcher, &host.dir(), program.as_ref(), &[], files(), &bounds()));
    assert!(matches!(start("/bin/true"), Err(PluginError::Child { .. })));
    assert!(matches!(start("/bin/no-such-program"), Err(PluginError::Folder(_))));
    assert!(matches!(start("/etc/hostname"), Err(PluginError::Room(_))));
    host.try_start(&[("a.ts", GOOD)]).unwrap();
}

fn bounds_are_those_of_the_template(host: &Host) {
    let held = |memory: u64| {
        let bounds = sandbox::Template { memory_bytes: Some(memory), ..bounds() };
        let (program, files) = (std::env::current_exe().unwrap(), vec![("a.ts".to_owned(), GOOD.to_owned())]);
        let started = host.block_on(Extensions::start(&host.launcher, &host.dir(), &program, &["extension-child"], files, &bounds));
        let extensions = started.unwrap();
        let first = extensions.status().pid.unwrap();
        let child = std::fs::read_to_string(format!("/proc/{first}/task/{first}/children")).unwrap();
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.trim())).unwrap();
        host.block_on(extensions.stop());
        let line = limits.lines().find_map(|line| line.strip_prefix("Max data size")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!((held(128 << 20), held(120 << 20)), (128 << 20, 120 << 20));
}
