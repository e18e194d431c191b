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
