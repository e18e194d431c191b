//! Which files of a project are tests, which only help them, and which tell a runner what to run.
//!
//! By their names alone. What a name does not tell is source: a test in a file of another name is found by its runner, and then its run names it.

mod library;

use crate::lex::SourceLanguage;
use library::{is_own_if_old, is_shadow};
use serde::{Deserialize, Serialize};

/// What a file is to the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileRole {
    /// Has tests, or is code beside them that they use.
    Test,
    /// What tests compare with: data in a folder of tests.
    Fixture,
    /// What a run once wrote down and later runs compare with.
    Snapshot,
    /// Tells a runner what to run, and how.
    RunnerConfig,
    /// Everything else. A source in Rust may have tests of its own inside.
    Source,
}

/// Folders whose files are tests or belong to them.
const TEST_FOLDERS: [&str; 8] = ["tests", "test", "__tests__", "spec", "specs", "testdata", "e2e", "__mocks__"];

/// Files by which runners are told what to do, wherever they are.
const CONFIG_NAMES: [&str; 65] = [
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "setup.py",
    "conftest.py",
    "tox.ini",
    "setup.cfg",
    "pyproject.toml",
    "noxfile.py",
    ".coveragerc",
    "sitecustomize.py",
    "usercustomize.py",
    "package.json",
    ".npmrc",
    "babel.config.js",
    ".babelrc",
    ".mocharc.json",
    ".mocharc.yml",
    ".mocharc.js",
    ".nycrc",
    ".swcrc",
    ".pnp.cjs",
    ".yarnrc.yml",
    "deno.json",
    "bunfig.toml",
    "Cargo.toml",
    "nextest.toml",
    "build.rs",
    "rust-toolchain.toml",
    "rust-toolchain",
    "go.mod",
    "go.work",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "tsconfig.json",
    "justfile",
    "Taskfile.yml",
    ".skipped-tests",
    // Which interpreter or compiler runs, and with which variables, by tools that read them unasked.
    ".python-version",
    ".nvmrc",
    ".node-version",
    ".tool-versions",
    ".go-version",
    ".ruby-version",
    "mise.toml",
    ".mise.toml",
    ".envrc",
    "pyvenv.cfg",
    ".yarnrc",
    "volta.json",
    // Hooks of package managers, and runners of other kinds.
    ".pnpmfile.cjs",
    "Justfile",
    ".justfile",
    "Taskfile.yaml",
    "hatch.toml",
    ".taprc",
    "phpunit.xml",
    "phpunit.xml.dist",
    ".rspec",
    "tarpaulin.toml",
    ".tarpaulin.toml",
    ".istanbul.yml",
    "deno.jsonc",
];

/// Names that begin so and end in the extension of a script, JSON or YAML: `jest.config.mjs`.
const CONFIG_STEMS: [&str; 23] = [
    "jest.config.",
    "jest.setup.",
    "vitest.config.",
    "vitest.setup.",
    "vitest.workspace.",
    "vite.config.",
    "playwright.config.",
    "karma.conf.",
    "jest.preset.",
    "babel.config.",
    ".babelrc.",
    ".mocharc.",
    "setupTests.",
    "test-setup.",
    "tsconfig.",
    ".nycrc.",
    "nyc.config.",
    ".c8rc.",
    ".pnp.",
    "ava.config.",
    "cypress.config.",
    "wdio.conf.",
    "web-test-runner.config.",
];

/// How a project is built, where sources and dependencies are named in the same file: a change of it is shown, and does not block.
const BUILD_NAMES: [&str; 17] = [
    "CMakeLists.txt",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "settings.gradle.kts",
    "gradle.properties",
    "meson.build",
    "BUILD",
    "BUILD.bazel",
    "MODULE.bazel",
    "Rakefile",
    "mix.exs",
    "Package.swift",
    "angular.json",
    "nx.json",
    "turbo.json",
];
const BUILD_STEMS: [&str; 4] = ["webpack.config.", "rollup.config.", "esbuild.config.", "rspack.config."];

/// Libraries by which Go's tests compare, below `vendor`.
const GO_ASSERTIONS: [&str; 6] = ["testify", "gotest.tools", "go-cmp", "gomega", "ginkgo", "quicktest"];

/// Folders of what a run once wrote down, or data that only tests read.
const RECORDED_FOLDERS: [&str; 8] =
    ["__snapshots__", "snapshots", "__image_snapshots__", "golden", "goldens", "__fixtures__", "cassettes", "__cassettes__"];
const RECORDED_ENDS: [&str; 5] = [".snap", ".snap.new", ".ambr", ".golden", ".snapshot"];

/// The role of a file, by its path within the project.
pub fn file_role(path: &str) -> FileRole {
    let name = path.rsplit('/').next().unwrap_or(path);
    let folders = || path.split('/').rev().skip(1);
    if RECORDED_ENDS.iter().any(|end| name.ends_with(end))
        || name.contains(".approved.")
        || folders().any(|folder| RECORDED_FOLDERS.contains(&folder))
    {
        return FileRole::Snapshot;
    }
    let is_cargo = path.ends_with(".cargo/config.toml") || path.ends_with(".cargo/config");
    // What was installed or built before runs in place of what is written.
    let is_installed = path.starts_with("target/")
        || folders().any(|folder| matches!(folder, "node_modules" | "site-packages" | ".venv" | "venv" | "__pycache__" | ".tox" | ".nox"));
    let is_metadata = folders().any(|folder| folder.ends_with(".egg-info") || folder.ends_with(".dist-info"));
    let is_vendored =
        path == "vendor/modules.txt" || path.starts_with("vendor/") && folders().any(|folder| GO_ASSERTIONS.contains(&folder));
    let is_included = name.ends_with(".mk");
    if is_cargo
        || is_installed
        || is_metadata
        || is_vendored
        || path.starts_with(".yarn/")
        || is_included
        || is_shadow(path)
        || CONFIG_NAMES.contains(&name)
        || CONFIG_STEMS.iter().any(|stem| name.starts_with(stem))
    {
        return FileRole::RunnerConfig;
    }
    if is_test_name(name) {
        return FileRole::Test;
    }
    if folders().any(|folder| TEST_FOLDERS.contains(&folder)) {
        let is_code = SourceLanguage::of(name).is_some() || name.ends_with(".sh");
        return if is_code && !folders().any(|folder| folder == "testdata") { FileRole::Test } else { FileRole::Fixture };
    }
    FileRole::Source
}

/// Whether a file tells how the project is built, beside what it is built from.
pub fn is_build_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    BUILD_NAMES.contains(&name) || BUILD_STEMS.iter().any(|stem| name.starts_with(stem))
}

/// Whether a path belongs to the tests: what only a phase of writing tests may write. Settings that lie among the tests are theirs: a `conftest.py`, the
/// `Cargo.toml` of a project that tests use.
pub fn is_test_path(path: &str) -> bool {
    match file_role(path) {
        FileRole::Test | FileRole::Fixture | FileRole::Snapshot => true,
        FileRole::RunnerConfig => path.split('/').rev().skip(1).any(|folder| TEST_FOLDERS.contains(&folder)),
        FileRole::Source => false,
    }
}

fn is_test_name(name: &str) -> bool {
    let Some((stem, extension)) = name.rsplit_once('.') else {
        return false;
    };
    match extension {
        "go" => stem.ends_with("_test"),
        "py" => stem.starts_with("test_") || stem.ends_with("_test") || stem == "tests" || stem == "test",
        "rs" => stem == "tests" || stem == "test" || stem.ends_with("_test") || stem.ends_with("_tests") || stem.starts_with("test_"),
        "ts" | "tsx" | "mts" | "cts" | "js" | "jsx" | "mjs" | "cjs" => {
            let ends = [".test", ".spec", "-test", "_test", ".e2e", ".cy"];
            ends.iter().any(|end| stem.ends_with(end)) || stem == "test"
        }
        _ => false,
    }
}

/// Whether a part of a runner's settings changed that can change what runs. Parts that only name dependencies or a version do not count.
/// `None`: the files cannot be compared part by part.
pub(crate) fn settings_change(path: &str, before: &str, after: &str) -> Option<bool> {
    match path.rsplit('/').next().unwrap_or(path) {
        "package.json" => {
            let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
            let (mut before, mut after) = (read(before)?, read(after)?);
            Some(package(&mut before) != package(&mut after))
        }
        "Cargo.toml" => Some(sections(before, &CARGO_PLAIN)? != sections(after, &CARGO_PLAIN)?),
        "pyproject.toml" => Some(sections(before, &PYTHON_PLAIN)? != sections(after, &PYTHON_PLAIN)?),
        "setup.cfg" => Some(sections(before, &["metadata", "options"])? != sections(after, &["metadata", "options"])?),
        "go.mod" => {
            let special =
                |text: &str| text.lines().any(|line| matches!(line.split_whitespace().next(), Some("replace" | "exclude" | "retract")));
            Some(special(before) || special(after))
        }
        _ if is_own_if_old(path) => Some(false),
        _ => None,
    }
}

const CARGO_PLAIN: [&str; 7] =
    ["dependencies", "dev-dependencies", "build-dependencies", "workspace.dependencies", "package.metadata", "badges", "workspace.package"];
const PYTHON_PLAIN: [&str; 7] = ["project", "project.urls", "project.scripts", "build-system", "tool.black", "tool.ruff", "tool.mypy"];

/// Members of `package.json` that say nothing of tests are taken out; runners among the dependencies stay.
fn package(package: &mut serde_json::Value) -> &serde_json::Value {
    if let Some(members) = package.as_object_mut() {
        for name in ["name", "version", "description", "author", "license", "repository", "keywords", "homepage", "bugs", "private"] {
            members.remove(name);
        }
        for kind in ["dependencies", "devDependencies", "peerDependencies", "optionalDependencies"] {
            if let Some(list) = members.get_mut(kind).and_then(|list| list.as_object_mut()) {
                // `file:`, `npm:other@1` and addresses take a package from elsewhere.
                let is_plain = |version: &serde_json::Value| version.as_str().is_some_and(|version| !version.contains([':', '/']));
                let is_runner =
                    |name: &str| ["vitest", "jest", "mocha", "ts-node", "tsx", "chai", "babel"].iter().any(|runner| name.contains(runner));
                list.retain(|name, version| is_runner(name) || !is_plain(version));
                if list.is_empty() {
                    members.remove(kind);
                }
            }
        }
    }
    package
}

/// The lines of a file with `[sections]`, without those sections that are `plain`, blanks and comments. `None` where a text of several lines could hide a section.
///
/// What begins with a bracket begins a section, and one that is not named plainly is not plain. In plain sections lines stay that take something from a place
/// of their own.
fn sections(text: &str, plain: &[&str]) -> Option<Vec<String>> {
    if text.contains("\"\"\"") || text.contains("'''") {
        return None;
    }
    let (mut kept, mut is_plain) = (Vec::new(), false);
    for line in text.lines() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix('[') {
            let (name, behind) = rest.split_once(']').unwrap_or((rest, "?"));
            let is_known = |known: &&str| {
                let below = known.contains("dependencies").then(|| name.strip_prefix(*known)).flatten();
                name == *known || below.is_some_and(|rest| rest.starts_with('.'))
            };
            is_plain = plain.iter().any(is_known) && (behind.trim().is_empty() || behind.trim().starts_with('#'));
        }
        let is_noise = line.is_empty() || line.starts_with('#') || line.starts_with("version =") || line.starts_with("description =");
        let is_local = ["path", "git", "package", " @ ", "file:", "registry", "pytest"].iter().any(|word| line.contains(word));
        if (!is_plain || is_local) && !is_noise {
            kept.push(line.to_owned());
        }
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_has_its_role() {
        use FileRole::*;
        for (path, role) in [
            ("src/lib.rs", Source),
            ("src/parse_tests.rs", Test),
            ("src/parse/tests.rs", Test),
            ("tests/it/main.rs", Test),
            ("tests/data/a.json", Fixture),
            ("pkg/a_test.go", Test),
            ("pkg/testdata/x.go", Fixture),
            ("pkg/a.go", Source),
            ("app/test_a.py", Test),
            ("app/a_test.py", Test),
            ("app/attest.py", Source),
            ("tests/helpers.py", Test),
            ("tests/conftest.py", RunnerConfig),
            ("src/a.test.ts", Test),
            ("src/a.spec.tsx", Test),
            ("src/__tests__/a.js", Test),
            ("src/latest.ts", Source),
            ("src/__snapshots__/a.test.ts.snap", Snapshot),
            ("tests/snapshots/a.snap", Snapshot),
            ("jest.config.mjs", RunnerConfig),
            ("packages/a/package.json", RunnerConfig),
            ("Cargo.toml", RunnerConfig),
            (".config/nextest.toml", RunnerConfig),
            (".cargo/config.toml", RunnerConfig),
            ("contest/a.py", Source),
            ("pytest.py", RunnerConfig),
            ("tests/json.py", RunnerConfig),
            ("app/json.py", Source),
            ("argparse.py", RunnerConfig),
            ("src/__pycache__/a.cpython-311.pyc", RunnerConfig),
            ("target/debug/a", RunnerConfig),
            ("src/target/mod.rs", Source),
            ("src/types.py", Source),
            ("mk/test.mk", RunnerConfig),
            (".python-version", RunnerConfig),
            ("unittest/__init__.py", RunnerConfig),
            ("node_modules/jest/index.js", RunnerConfig),
            ("tsconfig.build.json", RunnerConfig),
            ("README.md", Source),
            ("hashlib.py", RunnerConfig),
            ("app/hashlib.py", Source),
            ("pluggy.pyc", RunnerConfig),
            ("src/_pytest/__init__.so", RunnerConfig),
            ("x.egg-info/entry_points.txt", RunnerConfig),
            ("vendor/a/b.go", Source),
            ("vendor/github.com/stretchr/testify/assert/a.go", RunnerConfig),
            (".yarn/releases/y.cjs", RunnerConfig),
            (".nycrc.json", RunnerConfig),
            ("golden/a.txt", Snapshot),
            ("src/a.golden", Snapshot),
            ("src/golden.rs", Source),
            ("CMakeLists.txt", Source),
        ] {
            assert_eq!(file_role(path), role, "{path}");
        }
    }

    #[test]
    fn settings_among_the_tests_are_written_with_them() {
        for (path, is_test) in [
            ("tests/conftest.py", true),
            ("tests/fixtures/app/Cargo.toml", true),
            ("conftest.py", false),
            ("Cargo.toml", false),
            ("src/a.py", false),
            ("tests/test_a.py", true),
        ] {
            assert_eq!(is_test_path(path), is_test, "{path}");
        }
    }

    #[test]
    fn only_settings_that_can_change_what_runs_count() {
        let check = |path: &str, before: &str, after: &str, expected: Option<bool>| {
            assert_eq!(settings_change(path, before, after), expected, "{path}: {after}");
        };
        let cargo = "[package]\nname = \"a\"\nversion = \"1\"\n[dependencies]\na = \"1\"\n";
        check("Cargo.toml", cargo, &cargo.replace("a = \"1\"", "a = \"2\""), Some(false));
        check("Cargo.toml", cargo, &format!("{cargo}[[test]]\nname = \"it\"\ntest = false\n"), Some(true));
        check("Cargo.toml", cargo, &cargo.replace("[package]\n", "[package]\nautotests = false\n"), Some(true));
        check("Cargo.toml", cargo, &format!("{cargo}[x]\ny = \"\"\"\n[dependencies]\n\"\"\"\n"), None);
        check("package.json", r#"{"scripts": {"test": "jest"}}"#, r#"{"scripts": {"test": "true"}}"#, Some(true));
        check("package.json", r#"{"dependencies": {"a": "1"}}"#, r#"{"dependencies": {"a": "2", "b": "1"}}"#, Some(false));
        check("package.json", r#"{"devDependencies": {"jest": "29"}}"#, r#"{"devDependencies": {"jest": "npm:fake@1"}}"#, Some(true));
        check("pyproject.toml", "[project]\nname = \"a\"\n", "[project]\nname = \"b\"\n", Some(false));
        check("pyproject.toml", "[project]\n", "[project]\n[tool.pytest.ini_options]\naddopts = \"-k x\"\n", Some(true));
        check("go.mod", "module a\n", "module a\nrequire b v1\n", Some(false));
        check("go.mod", "module a\n", "module a\nreplace b => ./c\n", Some(true));
        check("pytest.ini", "", "x", None);
        check("calendar.py", "a = 1\n", "a = 2\n", Some(false));
        check("argparse.py", "a = 1\n", "a = 2\n", None);
        check("Cargo.toml", cargo, &format!("{cargo}[\"lib\"]\ntest = false\n"), Some(true));
        check("Cargo.toml", cargo, &format!("{cargo}[lib] # x\ntest = false\n"), Some(true));
        check("Cargo.toml", cargo, &cargo.replace("a = \"1\"", "a = { path = \"fake\" }"), Some(true));
        check("Cargo.toml", cargo, &format!("{cargo}[dependencies.b]\nversion = \"1\"\nfeatures = [\"c\"]\n"), Some(false));
        check("Cargo.toml", cargo, &format!("{cargo}[dependencies.b]\ngit = \"https://example.invalid\"\n"), Some(true));
        check("pyproject.toml", "[project]\n", "[project]\n[project.entry-points.pytest11]\nx = \"x\"\n", Some(true));
        check("package.json", r#"{"dependencies": {"a": "1"}}"#, r#"{"dependencies": {"a": "file:./fake"}}"#, Some(true));
    }
}
