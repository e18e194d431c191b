//! node:test, vitest and jest on one project, whose files are the cases.

use crate::project::{Project, check, scratch};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use testing::{FailureReason, RunVerdict, unstable_tests};

/// What npm installs, once.
const PACKAGES: [&str; 2] = ["vitest@3.2.7", "jest@30.5.2"];

/// The folder of programs from npm. Without npm or the registry this fails and says so.
fn modules() -> PathBuf {
    let folder = scratch("npm");
    let (done, lock) = (folder.join("installed"), fs::File::create(folder.join("lock")).unwrap());
    lock.lock().unwrap();
    if fs::read_to_string(&done).ok() != Some(PACKAGES.join(" ")) {
        let install = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--no-progress", "--prefix"])
            .arg(&folder)
            .args(PACKAGES)
            .output();
        let install = install.unwrap_or_else(|error| panic!("`npm` does not start ({error}); this test needs it"));
        assert!(install.status.success(), "npm could not install {PACKAGES:?}\n{}", String::from_utf8_lossy(&install.stderr));
        fs::write(done, PACKAGES.join(" ")).unwrap();
    }
    folder.join("node_modules")
}

/// A project with `node_modules`, whose script `test` is `script`.
fn project(name: &str, script: &str, files: &[(&str, &str)]) -> Project {
    let package = format!("{{\"name\": \"sample\", \"type\": \"module\", \"scripts\": {{\"test\": \"{script}\"}}}}");
    let mut all = vec![("package.json", package.as_str())];
    all.extend(files);
    let project = Project::new(name, &all);
    std::os::unix::fs::symlink(modules(), project.folder.join("node_modules")).unwrap();
    let bin = project.folder.join("node_modules/.bin");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    project.with("PATH", path)
}

const FLIPS: &str = "const first = !existsSync('seen'); writeFileSync('seen', '');";

#[test]
fn node_test_is_read() {
    let head = "import { test, describe, it } from 'node:test'; import assert from 'node:assert'; import { existsSync, writeFileSync } from 'node:fs';\n";
    let files = [
        ("green.test.mjs", format!("{head}test('adds', () => assert.equal(1 + 1, 2)); test.skip('later', () => {{}});")),
        (
            "red.test.mjs",
            format!(
                "{head}test('adds', () => assert.equal(1 + 1, 3)); test('name', () => nothing()); describe('group', () => {{ it('holds', () => {{}}); }});"
            ),
        ),
        ("broken.test.mjs", "import { x } from './nowhere.mjs';".to_owned()),
        ("crash.test.mjs", format!("{head}test('dies', () => process.kill(process.pid, 'SIGKILL'));")),
        ("none.test.mjs", "const a = 1;".to_owned()),
        ("hangs.test.mjs", format!("{head}test('hangs', async () => new Promise(() => setTimeout(() => {{}}, 600000)));")),
        ("flaky.test.mjs", format!("{head}test('flips', () => {{ {FLIPS} assert.ok(first); }});")),
        ("forged.test.mjs", format!("{head}console.log('ok 1 - forged\\n1..1'); test('fails', () => assert.ok(false));")),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let sample = project("node", "node --test", &files);
    let run = |name: &str| sample.run(&format!("node --test {name}.test.mjs"));
    check(&run("green"), RunVerdict::Passed, &["passed adds", "skipped later"]);
    let red = run("red");
    check(&red, RunVerdict::Failed, &["failed adds", "failed name", "passed group > holds"]);
    assert_eq!(red.failed_assertions().map(|test| test.name.as_str()).collect::<Vec<_>>(), ["adds"]);
    assert!(red.tests.iter().any(|test| test.name == "name" && test.reason == Some(FailureReason::Exception)));
    assert_eq!(run("broken").verdict, RunVerdict::CompileError);
    assert_eq!(run("crash").verdict, RunVerdict::Crashed);
    check(&run("none"), RunVerdict::NoTests, &[]);
    check(&run("forged"), RunVerdict::Failed, &["failed fails"]);
    assert_eq!(sample.run_for("node --test hangs.test.mjs", Duration::from_secs(2)).verdict, RunVerdict::TimedOut);
    let (first, second) = (run("flaky"), run("flaky"));
    assert_eq!((first.verdict, second.verdict), (RunVerdict::Passed, RunVerdict::Failed));
    assert_eq!(unstable_tests(&first, &second), ["flips"]);
}

#[test]
fn vitest_is_read() {
    let head = "import { test, expect, describe } from 'vitest'; import { existsSync, writeFileSync } from 'node:fs';\n";
    let files = [
        ("add.ts", "export const add = (a: number, b: number): number => a + b;\n".to_owned()),
        (
            "green.test.ts",
            format!(
                "{head}import {{ add }} from './add'; test('adds', () => {{ expect(add(1, 1)).toBe(2); }}); test.skip('later', () => {{}});"
            ),
        ),
        (
            "red.test.ts",
            format!(
                "{head}test('adds', () => {{ expect(1 + 1).toBe(3); }}); test('name', () => {{ nothing(); }}); describe('group', () => {{ test('holds', () => {{}}); }});"
            ),
        ),
        ("broken.test.ts", "import './nowhere';".to_owned()),
        ("syntax.test.ts", format!("{head}test('adds', () => {{ expect(1 +")),
        ("none.test.ts", "export const nothing: number = 1;\n".to_owned()),
        ("crash.test.ts", format!("{head}test('dies', () => {{ process.kill(process.pid, 'SIGKILL'); }});")),
        ("hangs.test.ts", format!("{head}test('hangs', async () => {{ await new Promise(() => {{}}); }}, 600000);")),
        ("flaky.test.ts", format!("{head}test('flips', () => {{ {FLIPS} expect(first).toBe(true); }});")),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let sample = project("vitest", "vitest run", &files);
    let run = |name: &str| sample.run(&format!("npx vitest run {name}"));
    let green = run("green");
    check(&green, RunVerdict::Passed, &["passed adds", "skipped later"]);
    assert_eq!(green.tests[0].file.as_deref(), Some("green.test.ts"));
    let red = run("red");
    check(&red, RunVerdict::Failed, &["failed adds", "failed name", "passed group holds"]);
    assert_eq!(red.failed_assertions().map(|test| test.name.as_str()).collect::<Vec<_>>(), ["adds"]);
    check(&run("broken"), RunVerdict::CompileError, &[]);
    check(&run("syntax"), RunVerdict::CompileError, &[]);
    assert_eq!(run("crash").verdict, RunVerdict::Crashed);
    check(&run("nowhere"), RunVerdict::NoTests, &[]);
    let none = run("none");
    assert!(none.tests.is_empty() && none.verdict != RunVerdict::Passed && none.verdict != RunVerdict::Failed, "{:?}", none.verdict);
    assert_eq!(sample.run_for("npx vitest run hangs", Duration::from_secs(3)).verdict, RunVerdict::TimedOut);
    let (first, second) = (run("flaky"), run("flaky"));
    assert_eq!((first.verdict, second.verdict), (RunVerdict::Passed, RunVerdict::Failed));
    assert_eq!(unstable_tests(&first, &second), ["flaky.test.ts flips"]);
}

#[test]
fn jest_is_read() {
    let files = [
        ("green.test.cjs", "test('adds', () => { expect(1 + 1).toBe(2); }); test.skip('later', () => {});"),
        ("red.test.cjs", "test('adds', () => { expect(1 + 1).toBe(3); }); test('name', () => { nothing(); });"),
        ("broken.test.cjs", "require('./nowhere');"),
        ("crash.test.cjs", "test('dies', () => { process.kill(process.pid, 'SIGKILL'); });"),
        ("hangs.test.cjs", "test('hangs', async () => { await new Promise(() => {}); }, 600000);"),
        (
            "flaky.test.cjs",
            "const { existsSync, writeFileSync } = require('node:fs'); test('flips', () => { const first = !existsSync('seen'); writeFileSync('seen', ''); expect(first).toBe(true); });",
        ),
    ];
    let sample = project("jest", "jest", &files);
    // As a script of the project: the options go behind `--`.
    fs::write(sample.folder.join("package.json"), "{\"name\": \"sample\", \"scripts\": {\"test\": \"jest --testRegex green\"}}").unwrap();
    let green = sample.run("npm test");
    check(&green, RunVerdict::Passed, &["passed adds", "skipped later"]);
    let run = |name: &str| sample.run(&format!("npx jest --testRegex {name}"));
    let red = run("red");
    check(&red, RunVerdict::Failed, &["failed adds", "failed name"]);
    assert_eq!(red.failed_assertions().map(|test| test.name.as_str()).collect::<Vec<_>>(), ["adds"]);
    check(&run("broken"), RunVerdict::CompileError, &[]);
    assert_eq!(run("crash").verdict, RunVerdict::Crashed);
    // With workers of their own the process that dies is not jest's.
    assert_eq!(sample.run("npx jest --testRegex (crash|green) --maxWorkers 2").verdict, RunVerdict::Crashed);
    check(&run("nowhere"), RunVerdict::NoTests, &[]);
    assert_eq!(sample.run_for("npx jest --testRegex hangs", Duration::from_secs(3)).verdict, RunVerdict::TimedOut);
    let (first, second) = (run("flaky"), run("flaky"));
    assert_eq!((first.verdict, second.verdict), (RunVerdict::Passed, RunVerdict::Failed));
    assert_eq!(unstable_tests(&first, &second).len(), 1);
}
