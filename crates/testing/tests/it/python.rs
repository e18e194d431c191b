//! pytest and unittest on one project, whose files are the cases.

use crate::project::{Project, check, scratch};
use std::fs;
use std::process::Command;
use std::time::Duration;
use testing::{FailureReason, RunVerdict, unstable_tests};

const PYTEST: &str = "pytest==9.2.0";

const FILES: &[(&str, &str)] = &[
    ("pytest.ini", "[pytest]\n"),
    ("sample.py", "def add(a, b):\n    return a + b\n"),
    (
        "test_green.py",
        "import pytest\nfrom sample import add\n\ndef test_adds():\n    assert add(1, 1) == 2\n\n@pytest.mark.skip\ndef test_later():\n    assert False\n",
    ),
    (
        "test_red.py",
        "import pytest\nfrom sample import add\n\n@pytest.mark.parametrize('b', [1, 2])\ndef test_adds(b):\n    assert add(1, b) == 3\n\ndef test_name():\n    subtract(1, 1)\n\n@pytest.fixture\ndef broken():\n    raise ValueError('no')\n\ndef test_setup(broken):\n    pass\n",
    ),
    ("test_broken.py", "from sample import subtract\n\ndef test_subtracts():\n    assert subtract(1, 1) == 0\n"),
    ("test_crash.py", "import os\n\ndef test_aborts():\n    os.abort()\n"),
    ("test_leaves.py", "import os\n\ndef test_leaves():\n    os._exit(0)\n"),
    ("test_none.py", "def no_test():\n    pass\n"),
    ("test_hangs.py", "import time\n\ndef test_hangs():\n    time.sleep(600)\n"),
    (
        "test_flaky.py",
        "import pathlib\n\ndef test_flips():\n    seen = pathlib.Path('seen')\n    first = not seen.exists()\n    seen.write_text('')\n    assert first\n",
    ),
    (
        "unit/test_unit.py",
        "import unittest\n\nclass T(unittest.TestCase):\n    def test_holds(self):\n        self.assertEqual(1 + 1, 2)\n",
    ),
    (
        "unit_red/test_unit.py",
        "import unittest\n\nclass T(unittest.TestCase):\n    def test_holds(self):\n        self.assertEqual(1 + 1, 2)\n    def test_fails(self):\n        self.assertEqual(1 + 1, 3)\n",
    ),
    ("unit_broken/test_unit.py", "import nowhere\n"),
    ("unit_crash/test_unit.py", "import os, unittest\n\nclass T(unittest.TestCase):\n    def test_aborts(self):\n        os.abort()\n"),
    ("unit_none/test_unit.py", "import unittest\n\nclass T(unittest.TestCase):\n    pass\n"),
    (
        "unit_hangs/test_unit.py",
        "import time, unittest\n\nclass T(unittest.TestCase):\n    def test_hangs(self):\n        time.sleep(600)\n",
    ),
    (
        "unit_flaky/test_unit.py",
        "import pathlib, unittest\n\nclass T(unittest.TestCase):\n    def test_flips(self):\n        seen = pathlib.Path('seen')\n        first = not seen.exists()\n        seen.write_text('')\n        self.assertTrue(first)\n",
    ),
];

/// pytest from PyPI, installed once into the build's own folder.
fn pytest() -> std::path::PathBuf {
    let folder = scratch("pytest");
    let (done, lock) = (folder.join("installed"), fs::File::create(folder.join("lock")).unwrap());
    lock.lock().unwrap();
    if fs::read_to_string(&done).ok().as_deref() != Some(PYTEST) {
        let install = Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade", "--target"])
            .arg(&folder)
            .arg(PYTEST)
            .output();
        let install = install.unwrap_or_else(|error| panic!("`python3` does not start: {error}"));
        assert!(install.status.success(), "pip could not install `{PYTEST}`\n{}", String::from_utf8_lossy(&install.stderr));
        fs::write(done, PYTEST).unwrap();
    }
    folder
}

#[test]
fn pytest_is_read() {
    let sample = Project::new("python", FILES).with("PYTHONPATH", pytest());
    let run = |name: &str| sample.run(&format!("python3 -m pytest test_{name}.py"));
    let green = run("green");
    check(&green, RunVerdict::Passed, &["passed test_adds", "skipped test_later"]);
    assert_eq!(green.tests[0].file.as_deref(), Some("test_green.py"));
    let red = run("red");
    check(&red, RunVerdict::Failed, &["errored test_setup", "failed test_adds[1]", "failed test_name", "passed test_adds[2]"]);
    assert_eq!(red.failed_assertions().map(|test| test.name.as_str()).collect::<Vec<_>>(), ["test_adds[1]"]);
    assert!(red.tests.iter().any(|test| test.name == "test_name" && test.reason == Some(FailureReason::Exception)));
    assert_eq!(run("broken").verdict, RunVerdict::CompileError);
    assert_eq!(run("crash").verdict, RunVerdict::Crashed);
    assert_eq!(run("leaves").verdict, RunVerdict::Unreadable);
    check(&run("none"), RunVerdict::NoTests, &[]);
    assert_eq!(run("nowhere").verdict, RunVerdict::NotStarted);
    assert_eq!(sample.run_for("python3 -m pytest test_hangs.py", Duration::from_secs(2)).verdict, RunVerdict::TimedOut);
    let (first, second) = (run("flaky"), run("flaky"));
    assert_eq!((first.verdict, second.verdict), (RunVerdict::Passed, RunVerdict::Failed));
    assert_eq!(unstable_tests(&first, &second), ["test_flaky test_flips"]);
    let without =
        Project { folder: sample.folder.clone(), environment: vec![("PYTHONNOUSERSITE".to_owned(), "1".to_owned())], report: None };
    assert_eq!(without.run("python3 -S -m pytest").verdict, RunVerdict::NotStarted);
}

#[test]
fn unittest_is_counted() {
    let sample = Project::new("unittest", FILES);
    let run = |folder: &str| sample.run(&format!("python3 -m unittest discover -s {folder}"));
    let green = run("unit");
    assert_eq!((green.verdict, green.totals.passed), (RunVerdict::Passed, 1));
    let red = run("unit_red");
    assert_eq!((red.verdict, red.totals.passed, red.totals.failed), (RunVerdict::Failed, 1, 1));
    assert_eq!(run("unit_broken").verdict, RunVerdict::CompileError);
    assert_eq!(run("unit_crash").verdict, RunVerdict::Crashed);
    assert_eq!(run("unit_none").verdict, RunVerdict::NoTests);
    let hangs = sample.run_for("python3 -m unittest discover -s unit_hangs", Duration::from_secs(2));
    assert_eq!(hangs.verdict, RunVerdict::TimedOut);
    // It names no tests, so that the two runs differ is all that can be told.
    let (first, second) = (run("unit_flaky"), run("unit_flaky"));
    assert_eq!((first.verdict, second.verdict), (RunVerdict::Passed, RunVerdict::Failed));
}
