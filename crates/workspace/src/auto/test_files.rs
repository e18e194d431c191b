//! Which files hold tests: by their names, and by what they contain.

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
    "mock",
    "fakes",
    "stubs",
    "cassettes",
    "expected",
    "approved",
    "approvals",
    "baselines",
    "proptest",
    "regressions",
    "acceptance",
];
/// What stands before or after `test` in one word: `selftest`, `runtests`, `unittest`, `testrunner`. Not `latest` or `contest`.
const JOINED: &[&str] = &[
    "self",
    "unit",
    "run",
    "smoke",
    "doc",
    "load",
    "perf",
    "api",
    "ui",
    "func",
    "int",
    "reg",
    "sys",
    "android",
    "integration",
    "e2e",
    "runner",
];

pub fn is_test(path: &str) -> bool {
    let word = |part: &str| {
        let mut words = part.split(|c: char| !c.is_ascii_alphanumeric()).map(str::to_ascii_lowercase);
        words.any(|word| TESTS.contains(&word.as_str()) || is_joined(&word))
    };
    path.split('/').any(|part| word(part) || is_camel_test(part)) || path.ends_with(".t")
}

fn is_joined(word: &str) -> bool {
    let rest = word.strip_suffix("tests").or_else(|| word.strip_suffix("test")).or_else(|| word.strip_prefix("test"));
    rest.is_some_and(|rest| JOINED.contains(&rest))
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
    "func Example",
    "func Fuzz",
    "func Benchmark",
    "func test",
    "function test",
    "describe.each",
    "describe.only",
    "it.each",
    "it.only",
    "test.each",
    "test.only",
    "test.describe",
    "suite(",
    "Deno.test(",
    "iex> ",
    "/// ```",
    "//! ```",
    "TEST(",
    "TEST_P(",
    "START_TEST(",
    "SCENARIO(",
    "(deftest",
    "@test",
    "@given(",
    "@when(",
    "@then(",
    "Given(",
    "When(",
    "Then(",
    "let%test",
    "let%expect_test",
    "test.serial",
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
    "Test::More",
    "XCTest",
    "ExUnit",
    "#[bench]",
    "#[quickcheck]",
    "#[gtest]",
    "_test]",
    "vitest",
    "bun:test",
    "node:test",
    "@jest/globals",
    "@playwright/test",
    "QUnit.",
    "@RepeatedTest",
    "[Test",
    "extends TestCase",
    "extends Specification",
    "FunSuite",
    "FlatSpec",
    "FunSpec",
    "StringSpec",
    "TEST_ASSERT",
    "ck_assert",
    "gtest/gtest.h",
    "catch2/",
    "doctest.h",
    "import Testing",
    "luaunit",
    "eunit.hrl",
    "Test.Hspec",
    "Test.Tasty",
    "Test.HUnit",
    "Alcotest",
    "rackunit",
    "shunit2",
    "package:test/",
    "flutter_test",
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
            "tools/selftest.py",
            "julia/runtests.jl",
            "app/src/androidTest/A.kt",
            "proptest-regressions/a.txt",
            "web/expected/a.html",
        ] {
            assert!(is_test(path), "{path}");
        }
        for path in ["src/attest.rs", "src/latest.ts", "contests/x.rs", "src/Testament.java", "docs/inspect.md", "src/greatest.rs"] {
            assert!(!is_test(path), "{path}");
        }
    }

    #[test]
    fn tests_are_known_by_what_they_hold() {
        for text in [
            "/// Doubles.\n/// ```\n/// assert_eq!(two(1), 2);\n/// ```\npub fn two() {}",
            "func ExampleTwo() {",
            "describe.each([1])('x', f)",
            "Deno.test('x', f)",
            "    iex> two(1)\n    2",
            "use Test::More;",
            "(deftest two (is true))",
            "@when('they add two')",
            "import { expect } from 'vitest'",
            "    [TestCase(1)]",
            "#[wasm_bindgen_test]",
            "class Two extends AnyFunSuite {",
            "#include <gtest/gtest.h>",
        ] {
            assert!(holds_tests(text.as_bytes()), "{text}");
        }
        for text in
            ["pub fn two() {}", "/// Says what it is.\nfn a() {}", "func Two() {", "const test = 1", "when(x) {}", "let latest = tested[0]"]
        {
            assert!(!holds_tests(text.as_bytes()), "{text}");
        }
    }
}
