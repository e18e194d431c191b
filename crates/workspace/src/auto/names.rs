//! Paths that a person always looks at, whatever list they stand on: what decides about tests, what is built, and what other programs
//! run by themselves.
//!
//! The second wall of auto-merge. It is made of names, so it is never complete; the first wall, the list of safe paths, needs no
//! completeness.

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
    "bunfig.toml",
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
    "uv.toml",
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
    "build.xml",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "settings.gradle.kts",
    "gradle.properties",
    "gradle.lockfile",
    "build.sbt",
    "deps.edn",
    "project.clj",
    "mix.exs",
    "mix.lock",
    "rebar.config",
    "dune",
    "dune-project",
    "stack.yaml",
    "Package.swift",
    "Package.resolved",
    "pubspec.yaml",
    "flake.lock",
    "devbox.json",
    "rust-toolchain",
    "rust-toolchain.toml",
    // build scripts
    "build.rs",
    "build.zig",
    "Makefile",
    "GNUmakefile",
    "BSDmakefile",
    "CMakeLists.txt",
    "CMakePresets.json",
    "meson.build",
    "meson_options.txt",
    "configure",
    "configure.ac",
    "Justfile",
    "Taskfile.yml",
    "Taskfile.yaml",
    "Rakefile",
    "Dockerfile",
    "Containerfile",
    "docker-compose.yml",
    "compose.yml",
    "compose.yaml",
    "Vagrantfile",
    "Procfile",
    "Earthfile",
    "Tiltfile",
    "binding.gyp",
    "gradlew",
    "mvnw",
    "noxfile.py",
    "tasks.py",
    "wscript",
    "SConstruct",
    "SConscript",
    "BUILD",
    "WORKSPACE",
    "turbo.json",
    "nx.json",
    "lerna.json",
    // test, lint and CI configuration
    "conftest.py",
    "pytest.ini",
    "tox.ini",
    "tox.toml",
    "ruff.toml",
    "mypy.ini",
    "clippy.toml",
    "rustfmt.toml",
    "deny.toml",
    "biome.json",
    "biome.jsonc",
    "phpunit.xml",
    "phpunit.xml.dist",
    "phpstan.neon",
    "testng.xml",
    "nextest.toml",
    "tarpaulin.toml",
    "karma.conf.js",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "appveyor.yml",
    "bitbucket-pipelines.yml",
    "cloudbuild.yaml",
    "buildspec.yml",
    "wercker.yml",
    "codecov.yml",
    "dependabot.yml",
    "renovate.json",
    "lefthook.yml",
    "lefthook.yaml",
    "sitecustomize.py",
    "usercustomize.py",
    "CODEOWNERS",
    "mise.toml",
    "pytest.toml",
    "nose.cfg",
    "unittest.cfg",
    "behave.ini",
    "mocha.opts",
    "jasmine.json",
    "testem.js",
    "xunit.runner.json",
    "codeception.yml",
    "behat.yml",
    "pylintrc",
    "hatch.toml",
    "pixi.toml",
    "pants.toml",
    "angular.json",
    "project.json",
    "import_map.json",
    "importmap.json",
    "global.json",
    "nuget.config",
    "gems.rb",
    "Guardfile",
    "Snakefile",
    "dodo.py",
    "fabfile.py",
    "locustfile.py",
    "magefile.go",
    "Jakefile",
    "BUCK",
    "cabal.project",
    "package.yaml",
    "dune-workspace",
    "cpanfile",
    "Build.PL",
    "shard.yml",
    "elm.json",
    "bb.edn",
    "Taskfile.dist.yml",
    "Taskfile.dist.yaml",
    "meson.options",
    // the loader of programs
    "ld.so.preload",
    "ld.so.conf",
    // agents and MCP
    "AGENTS.md",
    "AGENT.md",
    "CLAUDE.md",
    "GEMINI.md",
    "CONVENTIONS.md",
    "SKILL.md",
    "mcp.json",
    "opencode.json",
    "opencode.jsonc",
    "skep.yml",
];

/// Folders in which everything is looked at; hidden ones are anyway.
const FOLDERS: &[&str] = &["hooks", "githooks", "git-hooks", "xtask", "ci", "husky", "buildsrc", "nix", "meta-inf"];

/// Folders of what is built or installed: never the work of a hand.
const BUILT: &[&str] = &[
    "node_modules",
    "bower_components",
    "jspm_packages",
    "web_modules",
    "__pycache__",
    "__pypackages__",
    "site-packages",
    "dist-packages",
    "venv",
    "env",
    "virtualenv",
    "target",
    "vendor",
    "third_party",
    "_build",
    "deps",
    "bazel-bin",
    "bazel-out",
    "pods",
    "carthage",
];

/// Beginnings of names that are always looked at.
const BEGINNINGS: &[&str] = &[
    "jest.",
    "vitest.",
    "vite.",
    "playwright.",
    "cypress.",
    "wdio.",
    "nightwatch.",
    "webpack.",
    "rollup.",
    "rspack.",
    "rsbuild.",
    "babel.",
    "tsconfig",
    "jsconfig",
    "tsup.",
    "tslint",
    "eslint",
    "stylelint",
    "prettier.",
    "commitlint",
    "ava.config.",
    "requirements-",
    "requirements_",
    "next.config.",
    "nuxt.config.",
    "astro.config.",
    "svelte.config.",
    "postcss.",
    "tailwind.",
    "esbuild.",
    "gulpfile",
    "gruntfile",
    "makefile",
    "dockerfile",
    "docker-compose",
    "bazel",
    "phpunit",
    "junit-platform",
];

/// Ends of names that are always looked at: shells, build languages, what an interpreter loads unasked, programs.
const ENDS: &[&str] = &[
    ".sh",
    ".bash",
    ".zsh",
    ".ksh",
    ".fish",
    ".csh",
    ".ps1",
    ".psm1",
    ".bat",
    ".cmd",
    ".awk",
    ".sed",
    ".nix",
    ".gradle",
    ".kts",
    ".cmake",
    ".mk",
    ".mak",
    ".am",
    ".ac",
    ".m4",
    ".csproj",
    ".fsproj",
    ".vbproj",
    ".sln",
    ".props",
    ".targets",
    ".gemspec",
    ".cabal",
    ".bazel",
    ".bzl",
    ".mdc",
    ".pth",
    ".egg-link",
    ".pyc",
    ".pyo",
    ".pyd",
    ".so",
    ".dylib",
    ".dll",
    ".jar",
    ".class",
    ".whl",
    ".node",
    ".wasm",
    ".snap",
    ".feature",
    ".rc",
    "rc.js",
    "rc.cjs",
    "rc.mjs",
    ".config.js",
    ".config.ts",
    ".config.mjs",
    ".config.cjs",
    ".config.mts",
    ".desktop",
    ".service",
    ".timer",
    ".tf",
    ".conf.js",
    ".conf.ts",
    ".runsettings",
    ".rake",
    ".sbt",
    ".nimble",
    ".opam",
    ".rockspec",
    ".just",
    ".hcl",
];

/// Why a person looks at this path whatever list it stands on.
pub fn always_reviewed(path: &str) -> Option<&'static str> {
    let lower = path.to_ascii_lowercase();
    let mut folders: Vec<&str> = lower.split('/').collect();
    let name = folders.pop()?;
    if is_test(path) {
        return Some("tests are always looked at");
    }
    if lower.split('/').any(|part| part.starts_with('.')) {
        return Some("hidden files and folders are always looked at");
    }
    let installed = |folder: &&str| [".egg-info", ".dist-info", ".egg"].iter().any(|end| folder.ends_with(end));
    if folders.iter().any(|folder| BUILT.contains(folder) || installed(folder)) {
        return Some("folders of this name hold what is built or installed");
    }
    if NAMES.iter().any(|known| known.eq_ignore_ascii_case(name)) || BEGINNINGS.iter().any(|begin| name.starts_with(begin)) {
        return Some("files of this name are always looked at");
    }
    if folders.iter().any(|folder| FOLDERS.contains(folder)) || ENDS.iter().any(|end| name.ends_with(end)) {
        return Some("files of this kind or in this place are always looked at");
    }
    None
}

/// Words in a name that make it a test's.
const TESTS: &[&str] = &[
    "test",
    "tests",
    "testing",
    "testdata",
    "testcase",
    "testcases",
    "testsuite",
    "testutil",
    "testutils",
    "testhelper",
    "testhelpers",
    "testlib",
    "testkit",
    "spec",
    "specs",
    "fixture",
    "fixtures",
    "mocks",
    "snapshots",
    "e2e",
    "cypress",
    "golden",
    "goldens",
];

pub fn is_test(path: &str) -> bool {
    let word =
        |part: &str| part.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| TESTS.contains(&word.to_ascii_lowercase().as_str()));
    path.split('/').any(|part| word(part) || is_camel_test(part)) || path.ends_with(".t")
}

/// Beginnings of lines, and words in them, by which a file holds tests whatever its name.
const TEST_LINES: &[&str] = &[
    "def test",
    "class Test",
    ">>> ",
    "describe(",
    "it('",
    "it(\"",
    "it(`",
    "test('",
    "test(\"",
    "test(`",
    "test \"",
    "func Test",
    "TEST(",
];
const TEST_WORDS: &[&str] = &[
    "#[test]",
    "#[cfg(test)]",
    "::test]",
    "#[rstest",
    "#[test_case",
    "proptest!",
    "import pytest",
    "from pytest",
    "unittest",
    "@Test",
    "@ParameterizedTest",
    "[Fact]",
    "[Theory]",
    "[TestMethod]",
    "TEST_F(",
    "TEST_CASE(",
    "BOOST_AUTO_TEST",
    "RSpec.",
    "@testset",
    "test_that(",
];

/// Whether a file holds tests beside, or instead of, code.
pub fn holds_tests(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.lines().any(|line| {
        let line = line.trim_start();
        TEST_LINES.iter().any(|begin| line.starts_with(begin)) || TEST_WORDS.iter().any(|word| line.contains(word))
    })
}

/// `FooTest.java`, `FooTests.cs`, `TestFoo.kt`, `FooIT.java`
fn is_camel_test(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name);
    let ends = ["Test", "Tests", "TestCase", "TestSuite", "Spec", "Specs", "IT"].iter().any(|end| stem.ends_with(end));
    ends || stem.strip_prefix("Test").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
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
            "shell.nix",
            "nix/overlay.nix",
            "scripts/check.sh",
            ".golangci.yml",
            ".shellcheckrc",
            "ruff.toml",
            ".woodpecker.yml",
            "node_modules/x/index.js",
            "src/__pycache__/app.py",
            "lib/extra.pth",
            "web/src/__snapshots__/a.js",
            "plugin.egg-info/entry_points.txt",
            "src/main/resources/META-INF/services/x",
            "t/basic.t",
            "src/pytest.toml",
            "web/protractor.conf.js",
            "src/x.runsettings",
        ] {
            assert!(always_reviewed(path).is_some(), "{path}");
        }
        for path in ["src/main.rs", "README.md", "lib/package.rs", "src/config.ts", "docs/cargo.md", "src/latest.rs", "src/contest.py"] {
            assert!(always_reviewed(path).is_none(), "{path}");
        }
    }

    #[test]
    fn tests_are_known_by_their_names() {
        for path in [
            "tests/a.rs",
            "src/a_test.go",
            "web/a.spec.ts",
            "test.sh",
            "src/test/java/A.java",
            "src/FooTest.java",
            "src/FooIT.java",
            "TestFoo.kt",
            "unit-tests/x",
            "a/__tests__/b.js",
            "Tests/A.cs",
        ] {
            assert!(is_test(path), "{path}");
        }
        for path in ["src/attest.rs", "src/latest.ts", "contests/x.rs", "src/Testament.java", "docs/inspect.md"] {
            assert!(!is_test(path), "{path}");
        }
    }
}
