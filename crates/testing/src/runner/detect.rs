//! Which runners a project has, by its files. A guess that `skep init` shows and a person can change.

use super::{RunnerKind, TestRunner};
use crate::project::ProjectFiles;
use serde_json::Value;

/// Every runner that fits, the likeliest first: what builds the project says more than what surrounds it.
pub fn detect(files: &dyn ProjectFiles) -> Vec<TestRunner> {
    let mut found = Vec::new();
    if files.has_file("Cargo.toml") {
        let nextest = [".config/nextest.toml", "nextest.toml"].into_iter().find(|name| files.has_file(name));
        let plain = runner(RunnerKind::CargoTest, &["cargo", "test"], "Cargo.toml");
        // A project may have settings of nextest and people without it: what cargo brings comes first.
        found.push(plain);
        found.extend(nextest.map(|name| runner(RunnerKind::Nextest, &["cargo", "nextest", "run"], name)));
    }
    found.extend(node(files));
    found.extend(python(files));
    if files.has_file("go.mod") {
        found.push(runner(RunnerKind::GoTest, &["go", "test", "./..."], "go.mod"));
    }
    if files.has_file("tests/run.sh") {
        found.push(runner(RunnerKind::Command, &["sh", "tests/run.sh"], "tests/run.sh"));
    }
    found.extend(make(files));
    found
}

fn runner(kind: RunnerKind, command: &[&str], reason: &str) -> TestRunner {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    TestRunner { kind, command, reason: reason.to_owned(), script: Vec::new(), report: None }
}

/// The words of the script `test` of `package.json`, if there is one and it is one plain command.
pub(super) fn test_script(files: &dyn ProjectFiles) -> Option<Vec<String>> {
    let script = script(&package(files)?)?;
    let is_plain = !script.contains(['&', '|', ';', '<', '>', '$', '`', '(', ')', '\n', '"', '\'', '\\', '*', '?', '~']);
    is_plain.then(|| script.split_whitespace().map(str::to_owned).collect())
}

fn package(files: &dyn ProjectFiles) -> Option<Value> {
    serde_json::from_str(&files.read("package.json")?).ok()
}

fn script(package: &Value) -> Option<String> {
    // `npm init` writes one that only fails.
    package["scripts"]["test"].as_str().filter(|script| !script.contains("no test specified")).map(str::to_owned)
}

/// The script that the project itself calls its tests, else the runner that it depends on, else Node's own where there are tests for it.
fn node(files: &dyn ProjectFiles) -> Option<TestRunner> {
    if !files.has_file("package.json") {
        return None;
    }
    let package = package(files).unwrap_or_default();
    if script(&package).is_some() {
        let manager = [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn")].into_iter().find(|(lock, _)| files.has_file(lock));
        let command = [manager.map_or("npm", |(_, manager)| manager).to_owned(), "test".to_owned()];
        let mut found = TestRunner::recognise(&command, files);
        if found.kind == RunnerKind::Command {
            "the script `test` of package.json".clone_into(&mut found.reason);
        }
        return Some(found);
    }
    let depends = |name: &str| ["dependencies", "devDependencies"].iter().any(|kind| !package[*kind][name].is_null());
    if depends("vitest") {
        return Some(runner(RunnerKind::Vitest, &["npx", "vitest", "run"], "package.json depends on vitest"));
    }
    if depends("jest") {
        return Some(runner(RunnerKind::Jest, &["npx", "jest"], "package.json depends on jest"));
    }
    let ends = [".test.js", ".test.mjs", ".test.cjs", "-test.js", "_test.js"];
    let is_test =
        |name: &String| ends.iter().any(|end| name.ends_with(end)) || matches!(name.as_str(), "test.js" | "test.mjs" | "test.cjs");
    let is_script = |name: &String| name.ends_with(".js") || name.ends_with(".mjs") || name.ends_with(".cjs");
    let in_test = files.names("test").into_iter().find(is_script).map(|name| format!("test/{name}"));
    let anywhere = || {
        let of = |folder: &&str| files.names(folder).into_iter().find(is_test).map(|name| join(folder, &name));
        ["", "src", "tests", "lib"].iter().find_map(of)
    };
    in_test.or_else(anywhere).map(|test| runner(RunnerKind::NodeTest, &["node", "--test"], &test))
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// pytest where the project says so, else unittest where there are tests.
fn python(files: &dyn ProjectFiles) -> Option<TestRunner> {
    let settings = ["pyproject.toml", "setup.cfg", "tox.ini", "setup.py", "Pipfile"];
    let requirements =
        ["requirements.txt", "requirements-dev.txt", "dev-requirements.txt", "requirements/dev.txt", "requirements/test.txt"];
    let is_test = |name: &String| name.ends_with(".py") && (name.starts_with("test_") || name.ends_with("_test.py"));
    let folders = ["", "tests", "test"];
    let tests: Vec<String> = folders
        .iter()
        .flat_map(|folder| files.names(folder).into_iter().filter(is_test).map(|name| join(folder, &name)).collect::<Vec<_>>())
        .collect();
    let told = settings.iter().chain(&requirements).find(|name| files.has_file(name));
    let first = told.map(|name| (*name).to_owned()).or_else(|| tests.first().cloned())?;
    let text = |name: &str| files.read(name).unwrap_or_default();
    let named = settings.iter().chain(&requirements).find(|name| text(name).contains("pytest"));
    let marked = ["pytest.ini", "conftest.py", "tests/conftest.py", "test/conftest.py"].into_iter().find(|name| files.has_file(name));
    if named.is_none() && marked.is_none() && !tests.is_empty() && tests.iter().all(|name| text(name).contains("unittest")) {
        // Without a folder's name it finds only what is a package.
        let folder = folders.iter().skip(1).find(|folder| tests.iter().any(|test| test.starts_with(&format!("{folder}/"))));
        let command = match folder {
            Some(folder) if !files.has_file(&format!("{folder}/__init__.py")) => {
                vec!["python3", "-m", "unittest", "discover", "-s", *folder]
            }
            _ => vec!["python3", "-m", "unittest"],
        };
        return Some(runner(RunnerKind::Unittest, &command, &tests[0]));
    }
    let reason = named.map(|name| format!("{name} names pytest")).or_else(|| marked.map(str::to_owned)).unwrap_or(first);
    Some(runner(RunnerKind::Pytest, &["python3", "-m", "pytest"], &reason))
}

fn make(files: &dyn ProjectFiles) -> Option<TestRunner> {
    let file = ["Makefile", "makefile", "GNUmakefile"].into_iter().find(|name| files.has_file(name))?;
    let is_target = |line: &str| {
        line.split_once(':').is_some_and(|(names, rest)| !rest.starts_with('=') && names.split_whitespace().any(|name| name == "test"))
    };
    let text = files.read(file).unwrap_or_default();
    let has_target = text.lines().filter(|line| !line.starts_with(['\t', '#'])).any(is_target);
    has_target.then(|| runner(RunnerKind::Make, &["make", "test"], &format!("the target `test` of {file}")))
}
