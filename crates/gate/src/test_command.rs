//! Which command runs a project's tests, by the files it has. A guess that `skep init` writes into `skep.yml` and a person can change.

use serde_json::Value;
use workspace::reader::Folder;

/// Files of settings are no larger.
const FILE_MAX: u64 = 1 << 20;
/// Names in a folder that are looked at.
const NAMES_MAX: usize = 10_000;

type Words = Vec<&'static str>;

/// The first that fits: what builds the project says more than what surrounds it.
pub(crate) fn detect(project: &Folder) -> Option<Words> {
    let files = ProjectFiles(project);
    let cargo = files.has("Cargo.toml").then(|| vec!["cargo", "test"]);
    let go = || files.has("go.mod").then(|| vec!["go", "test", "./..."]);
    let script = || files.has("tests/run.sh").then(|| vec!["sh", "tests/run.sh"]);
    cargo.or_else(|| node(&files)).or_else(|| python(&files)).or_else(go).or_else(script).or_else(|| make(&files))
}

struct ProjectFiles<'a>(&'a Folder);

impl ProjectFiles<'_> {
    fn has(&self, name: &str) -> bool {
        self.0.has_file(name)
    }

    fn text(&self, name: &str) -> String {
        self.0.read(name, FILE_MAX).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// Names in a folder; an empty one is the project itself.
    fn names(&self, folder: &str) -> Vec<String> {
        let names = self.0.list(if folder.is_empty() { "." } else { folder }, NAMES_MAX).unwrap_or_default();
        names.into_iter().filter_map(|name| name.into_string().ok()).collect()
    }
}

/// The script that the project itself calls its tests, else the runner that it depends on, else Node's own where there are tests for it.
fn node(files: &ProjectFiles<'_>) -> Option<Words> {
    if !files.has("package.json") {
        return None;
    }
    let package: Value = serde_json::from_str(&files.text("package.json")).unwrap_or_default();
    // `npm init` writes one that only fails.
    let script = package["scripts"]["test"].as_str().filter(|script| !script.contains("no test specified"));
    if script.is_some() {
        let manager = [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn")].into_iter().find(|(lock, _)| files.has(lock));
        return Some(vec![manager.map_or("npm", |(_, manager)| manager), "test"]);
    }
    let depends = |name: &str| ["dependencies", "devDependencies"].iter().any(|kind| !package[*kind][name].is_null());
    if depends("vitest") {
        return Some(vec!["npx", "vitest", "run"]);
    }
    if depends("jest") {
        return Some(vec!["npx", "jest"]);
    }
    let ends = [".test.js", ".test.mjs", ".test.cjs", "-test.js", "_test.js"];
    let is_test =
        |name: &String| ends.iter().any(|end| name.ends_with(end)) || matches!(name.as_str(), "test.js" | "test.mjs" | "test.cjs");
    let in_test = files.names("test").iter().any(|name| name.ends_with(".js") || name.ends_with(".mjs") || name.ends_with(".cjs"));
    let anywhere = ["", "src", "tests", "lib"].iter().any(|folder| files.names(folder).iter().any(is_test));
    (in_test || anywhere).then(|| vec!["node", "--test"])
}

/// pytest where the project says so, else unittest where there are tests.
fn python(files: &ProjectFiles<'_>) -> Option<Words> {
    let settings = ["pyproject.toml", "setup.cfg", "tox.ini", "setup.py", "Pipfile"];
    let requirements =
        ["requirements.txt", "requirements-dev.txt", "dev-requirements.txt", "requirements/dev.txt", "requirements/test.txt"];
    let is_test = |name: &String| name.ends_with(".py") && (name.starts_with("test_") || name.ends_with("_test.py"));
    let folders = ["", "tests", "test"];
    let tests: Vec<String> = folders
        .iter()
        .flat_map(|folder| {
            let path = |name: String| if folder.is_empty() { name } else { format!("{folder}/{name}") };
            files.names(folder).into_iter().filter(is_test).map(path).collect::<Vec<_>>()
        })
        .collect();
    let is_python = settings.iter().chain(&requirements).any(|name| files.has(name)) || !tests.is_empty();
    if !is_python {
        return None;
    }
    let named = settings.iter().chain(&requirements).any(|name| files.text(name).contains("pytest"));
    let marked = ["pytest.ini", "conftest.py", "tests/conftest.py", "test/conftest.py"].iter().any(|name| files.has(name));
    let uses_unittest = |name: &String| files.text(name).contains("unittest");
    if !named && !marked && !tests.is_empty() && tests.iter().all(uses_unittest) {
        // Without a folder's name it finds only what is a package.
        let folder = folders.iter().skip(1).find(|folder| tests.iter().any(|test| test.starts_with(&format!("{folder}/"))));
        return Some(match folder {
            Some(folder) if !files.has(&format!("{folder}/__init__.py")) => vec!["python3", "-m", "unittest", "discover", "-s", *folder],
            _ => vec!["python3", "-m", "unittest"],
        });
    }
    Some(vec!["python3", "-m", "pytest"])
}

fn make(files: &ProjectFiles<'_>) -> Option<Words> {
    let file = ["Makefile", "makefile", "GNUmakefile"].into_iter().find(|name| files.has(name))?;
    let is_target = |line: &str| {
        line.split_once(':').is_some_and(|(names, rest)| !rest.starts_with('=') && names.split_whitespace().any(|name| name == "test"))
    };
    files.text(file).lines().filter(|line| !line.starts_with(['\t', '#'])).any(is_target).then(|| vec!["make", "test"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &str) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found = detect(&Folder::open(dir.path()).unwrap()).map(|words| words.join(" ")).unwrap_or_default();
        assert_eq!(found, expected, "{files:?}");
    }

    #[test]
    fn the_command_of_each_ecosystem_is_found() {
        check(&[], "");
        check(&[("Cargo.toml", ""), ("Makefile", "test:\n"), ("package.json", "{}")], "cargo test");
        check(&[("go.mod", "")], "go test ./...");
        check(&[("tests/run.sh", "")], "sh tests/run.sh");
    }

    #[test]
    fn node_runs_its_script_its_runner_or_its_own_tests() {
        check(&[("package.json", r#"{"scripts": {"test": "vitest run"}}"#)], "npm test");
        check(&[("package.json", r#"{"scripts": {"test": "jest"}}"#), ("pnpm-lock.yaml", "")], "pnpm test");
        check(&[("package.json", r#"{"scripts": {"test": "jest"}}"#), ("yarn.lock", "")], "yarn test");
        let unsaid = r#"{"scripts": {"test": "echo \"Error: no test specified\" && exit 1"}, "devDependencies": {"vitest": "1"}}"#;
        check(&[("package.json", unsaid)], "npx vitest run");
        check(&[("package.json", r#"{"devDependencies": {"jest": "29"}}"#)], "npx jest");
        check(&[("package.json", "{}"), ("test/a.js", "")], "node --test");
        check(&[("package.json", "{}"), ("src/a.test.mjs", "")], "node --test");
        check(&[("package.json", "{}")], "");
        check(&[("package.json", "not json")], "");
    }

    #[test]
    fn python_runs_pytest_or_unittest() {
        check(&[("pyproject.toml", "[tool.pytest.ini_options]\n"), ("tests/test_a.py", "import unittest\n")], "python3 -m pytest");
        check(&[("pyproject.toml", "[project]\n")], "python3 -m pytest");
        check(&[("requirements-dev.txt", "pytest==8\n")], "python3 -m pytest");
        check(&[("test_a.py", "def test(): pass\n")], "python3 -m pytest");
        check(&[("test_a.py", "import unittest\n")], "python3 -m unittest");
        check(&[("setup.py", ""), ("tests/__init__.py", ""), ("tests/test_a.py", "import unittest\n")], "python3 -m unittest");
        check(&[("tests/test_a.py", "from unittest import TestCase\n")], "python3 -m unittest discover -s tests");
        check(&[("tests/test_a.py", "import unittest\n"), ("tests/conftest.py", "")], "python3 -m pytest");
    }

    #[test]
    fn make_is_asked_only_for_a_target_that_it_has() {
        check(&[("Makefile", "all:\n\tcc x.c\ntest: all\n\t./x\n")], "make test");
        check(&[("Makefile", ".PHONY: all test\ncheck test:\n\t./x\n")], "make test");
        check(&[("Makefile", "test := 3\nall:\n\ttest: x\n")], "");
    }
}
