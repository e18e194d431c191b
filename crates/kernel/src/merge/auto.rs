//! Merging without a question: when a rule lets merges pass, and the changes are small, harmless by name and tested.
//!
//! **Invariant.** The kernel itself ran the trusted test command, in a fresh room on exactly these changes, and counted at least one test.
//! Everything that decides what tests mean is a person's to look at: manifests, build scripts, test and CI configuration, tests that shrink.

use super::count::count;
use super::diff::lines;
use super::frozen::Frozen;
use super::tree::State;
use crate::Kernel;
use crate::config::Config;
use crate::desk::room_fault;
use crate::fault::{Fault, FaultKind, Stop};
use crate::scratch::Shows;
use sandbox::{Act, Exit, JobSpec};
use std::path::PathBuf;
use std::time::Duration;
use world::event::MergeTested;
use world::{MergeId, Task, limits};

/// Seed 003: more than this is read by a person.
const LINES_MAX: usize = 500;
/// Output of a test run that is kept.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// File names that are always looked at, wherever they lie.
const NAMES: &[&str] = &[
    // manifests and lockfiles
    "Cargo.toml",
    "Cargo.lock",
    "package.json",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "bun.lock",
    "bun.lockb",
    "deno.json",
    "deno.jsonc",
    "deno.lock",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "Pipfile",
    "Pipfile.lock",
    "poetry.lock",
    "uv.lock",
    "pdm.lock",
    "requirements.txt",
    "constraints.txt",
    "go.mod",
    "go.sum",
    "go.work",
    "Gemfile",
    "Gemfile.lock",
    "composer.json",
    "composer.lock",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "settings.gradle.kts",
    "gradle.lockfile",
    "mix.exs",
    "mix.lock",
    "Package.swift",
    "Package.resolved",
    "flake.nix",
    "flake.lock",
    "rust-toolchain",
    "rust-toolchain.toml",
    ".tool-versions",
    ".nvmrc",
    ".python-version",
    // build scripts
    "build.rs",
    "Makefile",
    "makefile",
    "GNUmakefile",
    "CMakeLists.txt",
    "meson.build",
    "configure",
    "configure.ac",
    "Justfile",
    "justfile",
    "Taskfile.yml",
    "Taskfile.yaml",
    "Rakefile",
    "Dockerfile",
    "Containerfile",
    "docker-compose.yml",
    "compose.yml",
    "compose.yaml",
    "binding.gyp",
    "gradlew",
    "mvnw",
    "noxfile.py",
    "tasks.py",
    "BUILD",
    "BUILD.bazel",
    "WORKSPACE",
    // test and CI configuration
    "conftest.py",
    "pytest.ini",
    "tox.ini",
    ".coveragerc",
    "karma.conf.js",
    ".travis.yml",
    ".gitlab-ci.yml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "appveyor.yml",
    ".drone.yml",
    "codecov.yml",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".nycrc",
    "sitecustomize.py",
    "usercustomize.py",
    "nextest.toml",
    // git, shells, editors
    ".gitattributes",
    ".gitmodules",
    ".gitignore",
    ".envrc",
    ".editorconfig",
    ".lintstagedrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".bashrc",
    ".profile",
    ".zshrc",
    ".vimrc",
    ".exrc",
    ".nvim.lua",
    ".mise.toml",
    "mise.toml",
    // the loader of programs
    "ld.so.preload",
    "ld.so.conf",
    // agents and MCP
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    "CONVENTIONS.md",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".goosehints",
    ".mcp.json",
    "mcp.json",
    "opencode.json",
    "opencode.jsonc",
    "skep.yml",
];
/// Folders in which everything is looked at.
const FOLDERS: &[&str] = &[
    ".github",
    ".gitlab",
    ".circleci",
    ".buildkite",
    ".woodpecker",
    ".forgejo",
    ".gitea",
    ".ci",
    ".husky",
    ".cargo",
    ".config",
    ".vscode",
    ".idea",
    ".zed",
    ".fleet",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".opencode",
    ".aider",
    ".skep",
    ".devcontainer",
    ".direnv",
    ".git",
    ".hooks",
    "hooks",
    "xtask",
];
/// Beginnings of names that are always looked at.
const BEGINNINGS: &[&str] = &[
    "jest.config.",
    "vitest.config.",
    "vite.config.",
    "playwright.config.",
    "cypress.config.",
    "webpack.config.",
    "rollup.config.",
    "babel.config.",
    "tsconfig",
    "eslint.config.",
    ".eslintrc",
    ".prettierrc",
    ".mocharc",
    "ava.config.",
    "requirements-",
    "requirements_",
    "next.config.",
    "svelte.config.",
    "postcss.config.",
    "tailwind.config.",
    "esbuild.",
    "gulpfile.",
    "Gruntfile.",
    "Dockerfile.",
    "docker-compose.",
    ".env",
    ".aider",
];

/// Why these changes want a person, as far as can be said without running them.
pub(super) fn doubts(kernel: &Kernel, frozen: &Frozen, config: &Config) -> Result<Vec<String>, Fault> {
    let mut doubts = Vec::new();
    if config.test.command.is_none() {
        doubts.push("no test command is trusted, so nothing vouches for the changes".to_owned());
    }
    let mut changed = 0;
    for change in &frozen.changes {
        let path = &change.path;
        if let Some(why) = always_reviewed(path) {
            doubts.push(format!("{path}: {why}"));
        }
        if matches!(change.new, State::Link { .. }) || matches!(change.old, State::Link { .. }) {
            doubts.push(format!("{path}: links are looked at"));
        }
        let Some((removed, added)) = lines(&change.old.bytes(kernel)?, &change.new.bytes(kernel)?) else {
            doubts.push(format!("{path}: it is not text, or too large to be counted"));
            continue;
        };
        if change.from.is_none() && change.to.is_none() {
            changed += removed.len() + added.len();
        }
        if let Some(why) = weakens(path, &removed, &added, change.new == State::Absent && change.to.is_none()) {
            doubts.push(format!("{path}: {why}"));
        }
    }
    if changed >= LINES_MAX {
        doubts.push(format!("{changed} lines change; fewer than {LINES_MAX} go in unread"));
    }
    Ok(doubts)
}

fn always_reviewed(path: &str) -> Option<&'static str> {
    let mut parts: Vec<&str> = path.split('/').collect();
    let name = parts.pop()?;
    let same = |known: &&&str| known.eq_ignore_ascii_case(name);
    let begins = |begin: &&&str| name.get(..begin.len()).is_some_and(|start| start.eq_ignore_ascii_case(begin));
    if NAMES.iter().any(|known| same(&known)) || BEGINNINGS.iter().any(|begin| begins(&begin)) {
        return Some("files of this name are always looked at");
    }
    let inside = parts.iter().any(|part| FOLDERS.iter().any(|folder| folder.eq_ignore_ascii_case(part)));
    let ends = [".gradle", ".cmake", ".mk", ".csproj", ".sln", ".gemspec", ".cabal", ".bazel", ".bzl", ".mdc"];
    if inside || ends.iter().any(|end| name.ends_with(end)) {
        return Some("files in this place are always looked at");
    }
    None
}

fn is_test(path: &str) -> bool {
    let mut parts: Vec<&str> = path.split('/').collect();
    let name = parts.pop().unwrap_or_default().to_ascii_lowercase();
    let folder = parts.iter().any(|part| ["test", "tests", "__tests__", "spec", "specs", "testdata", "fixtures", "e2e"].contains(part));
    folder
        || name.starts_with("test_")
        || ["_test.", ".test.", ".spec.", "_spec.", "tests."].iter().any(|mark| name.contains(mark))
        || name == "test.sh"
}

/// What makes tests say less than before.
fn weakens(path: &str, removed: &[String], added: &[String], deleted: bool) -> Option<&'static str> {
    const CHECKS: &[&str] = &["#[test]", "assert", "expect(", "#[tokio::test]", "it(", "test(", "def test", "should", "@test"];
    const SKIPS: &[&str] = &[
        "#[ignore",
        "should_panic",
        ".skip(",
        ".only(",
        "xit(",
        "xdescribe(",
        "@skip",
        "pytest.mark.skip",
        "xfail",
        "# skip",
        "t.skip",
        "todo(",
    ];
    let has = |lines: &[String], marks: &[&str]| lines.iter().any(|line| marks.iter().any(|mark| line.to_ascii_lowercase().contains(mark)));
    if is_test(path) && deleted {
        return Some("a test is deleted");
    }
    if is_test(path) && removed.iter().any(|line| !line.trim().is_empty()) {
        return Some("a test loses lines");
    }
    if has(removed, CHECKS) {
        return Some("a check is removed");
    }
    has(added, SKIPS).then_some("a test is switched off")
}

/// Runs the trusted test command on exactly these changes. `Some` says why they do not go in by themselves.
pub(super) async fn test(kernel: &Kernel, task: &Task, merge: MergeId, frozen: &Frozen, config: &Config) -> Result<Option<String>, Stop> {
    let Some(command) = config.test.command.clone() else { return Ok(Some("no test command is trusted".into())) };
    let project = kernel.ledger.look(|world| world.zones.get(&task.zone).map(|zone| PathBuf::from(&zone.path)));
    let project = project.ok_or_else(|| Fault::new(FaultKind::Bug, "the zone is gone", task.zone))?;
    let manifest = kernel.tools.find("test.run").ok().and_then(|tool| tool.manifest().template.clone());
    let templates = kernel.templates(kernel.trusted(task.zone)?.as_deref())?;
    let template = templates.of_tool("test.run", manifest.as_deref())?;
    let scratch = kernel.scratch_for(task.zone, &project, Shows::Project, Some(&template.name)).await?;
    for change in &frozen.changes {
        let path = PathBuf::from(&change.path);
        let (act, stdin) = match &change.new {
            State::Absent => (Act::Delete { path }, None),
            State::File { blob, mode, .. } => (Act::Write { path, mode: *mode }, Some(kernel.ledger.blob(blob)?)),
            State::Link { .. } => return Ok(Some("links are looked at".into())),
        };
        let outcome = scratch.room()?.run(JobSpec { act, ..JobSpec::exec(["true"]) }, stdin).await.map_err(room_fault)?;
        if !outcome.exit.success() {
            return Ok(Some(format!("{} could not be put into the test room", change.path)));
        }
    }
    let mut job = JobSpec::exec(command.iter().cloned());
    job.output_max = OUTPUT_BYTES_MAX;
    job.limits.wall = Some(Duration::from_millis(limits::JOB_MS_DEFAULT));
    template.bound(&mut job);
    let ran = scratch.room()?.run(job, None).await;
    scratch.close().await?;
    let (exit, output, why) = match ran {
        Ok(outcome) => {
            let exit = match outcome.exit {
                Exit::Code(code) => Some(code),
                Exit::Signal(_) => None,
            };
            let output = [outcome.stdout.as_slice(), b"\n", outcome.stderr.as_slice()].concat();
            let why = match exit {
                Some(0) => None,
                Some(code) => Some(format!("the tests failed with exit code {code}")),
                None if outcome.timed_out => Some("the tests took too long".to_owned()),
                None => Some("the tests were killed".to_owned()),
            };
            (exit, output, why)
        }
        Err(error) => (None, error.to_string().into_bytes(), Some(format!("the tests did not run: {error}"))),
    };
    let text = kernel.redactor.text(&String::from_utf8_lossy(&output)).into_owned();
    let counted = count(&text);
    let doubt = why.or_else(|| match counted {
        None => Some("the test command counted no tests".to_owned()),
        Some(count) if count.failed > 0 => Some(format!("{} tests failed", count.failed)),
        Some(count) if count.passed == 0 => Some("the test command ran no test".to_owned()),
        Some(_) => None,
    });
    let tested = MergeTested {
        pid: task.pid,
        task: Some(task.id),
        merge,
        digest: frozen.digest.clone(),
        command,
        exit,
        passed: counted.map(|count| count.passed),
        failed: counted.map(|count| count.failed),
        output: kernel.ledger.keep(text.as_bytes())?,
        ok: doubt.is_none(),
    };
    kernel.ledger.record(tested).await?;
    if doubt.is_none() && super::moved(kernel, task, frozen)?.is_some() {
        return Ok(Some("the project changed while the tests ran".into()));
    }
    Ok(doubt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_about_tests_is_always_looked_at() {
        for path in [
            "Cargo.toml",
            "a/b/package.json",
            ".github/workflows/ci.yml",
            "build.rs",
            ".gitattributes",
            "sub/.gitmodules",
            ".envrc",
            ".vscode/settings.json",
            ".husky/pre-commit",
            ".cargo/config.toml",
            ".mcp.json",
            "CLAUDE.md",
            "docs/AGENTS.md",
            "jest.config.ts",
            "requirements-dev.txt",
            "cargo.TOML",
            "tests/conftest.py",
            ".env.local",
            "x/Makefile",
            "image/etc/ld.so.preload",
        ] {
            assert!(always_reviewed(path).is_some(), "{path}");
        }
        for path in ["src/main.rs", "README.md", "lib/package.rs", "src/config.ts", "docs/cargo.md"] {
            assert!(always_reviewed(path).is_none(), "{path}");
        }
    }

    #[test]
    fn tests_that_say_less_are_seen() {
        let lines = |text: &str| text.lines().map(|line| format!("{line}\n")).collect::<Vec<_>>();
        let check = |path: &str, removed: &str, added: &str, deleted: bool, weak: bool| {
            assert_eq!(weakens(path, &lines(removed), &lines(added), deleted).is_some(), weak, "{path} {removed} {added}");
        };
        check("tests/a.rs", "", "let x = 1;", false, false);
        check("tests/a.rs", "let x = 1;", "let x = 2;", false, true);
        check("src/a_test.go", "", "", true, true);
        check("src/lib.rs", "    assert_eq!(1, 1);", "", false, true);
        check("src/lib.rs", "", "#[ignore]", false, true);
        check("src/lib.rs", "let x = 1;", "let x = 2;", false, false);
        check("web/a.spec.ts", "", "it.skip('x')", false, true);
    }
}
