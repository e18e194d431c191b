//! A test main that is single-threaded: a kernel's launcher must be forked before there are threads, and libtest has some.
//!
//! Speaks as much of libtest's command line as nextest and `cargo test` need. Each test gets a process of its own.

use std::process::{Command, ExitCode};

/// A named test. It fails by returning an error or by panicking.
pub struct Test {
    pub name: String,
    pub run: Box<dyn Fn() -> Result<(), String>>,
}

impl Test {
    pub fn new(name: impl Into<String>, run: impl Fn() -> Result<(), String> + 'static) -> Test {
        Test { name: name.into(), run: Box::new(run) }
    }
}

/// A kernel under test starts its children from its own program, which is this one: are we such a child?
pub fn child() -> Option<ExitCode> {
    std::env::args().nth(1).filter(|first| first == "extension-child").map(|_| plugin::child_main())
}

pub fn main(tests: &[Test]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has("--list") {
        let listed = if has("--ignored") { &[] } else { tests };
        listed.iter().for_each(|test| println!("{}: test", test.name));
        return ExitCode::SUCCESS;
    }
    let wanted = arguments.iter().find(|argument| !argument.starts_with('-'));
    if has("--exact") {
        return exact(tests, wanted.map_or("", String::as_str));
    }
    each(tests, wanted)
}

fn exact(tests: &[Test], name: &str) -> ExitCode {
    let Some(test) = tests.iter().find(|test| test.name == name) else {
        eprintln!("there is no test `{name}`");
        return ExitCode::FAILURE;
    };
    match (test.run)() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// `cargo test`: one after another, with the closing line people expect.
fn each(tests: &[Test], part: Option<&String>) -> ExitCode {
    let (mut passed, mut failed) = (0, 0);
    for test in tests.iter().filter(|test| part.is_none_or(|part| test.name.contains(part.as_str()))) {
        let status = std::env::current_exe().and_then(|me| Command::new(me).args(["--exact", &test.name]).status());
        let ok = status.is_ok_and(|status| status.success());
        println!("test {} ... {}", test.name, if ok { "ok" } else { "FAILED" });
        *(if ok { &mut passed } else { &mut failed }) += 1;
    }
    println!(
        "\ntest result: {}. {passed} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out\n",
        if failed == 0 { "ok" } else { "FAILED" }
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
