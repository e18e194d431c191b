//! Toolchains in sandboxes: the real ones of this machine, and homes with credentials planted beside them.

use crate::common::{Site, text};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs the test command that `skep init` found, as a brain's call, and gives what came of it.
#[track_caller]
fn tested(site: &Site) -> serde_json::Value {
    site.ok(&["init"]);
    let task = site.ok(&["act", "run the tests", "--await", "--brain", &site.script("call test.run\ndone\n")]);
    let records = site.records(&[]);
    let finished = records.iter().rev().find(|record| record["type"] == "call.finished");
    let finished = finished.unwrap_or_else(|| panic!("no call was made: {task}\n{}", site.ok(&["journal", "log"])));
    assert_eq!(finished["payload"]["ok"], true, "{finished:#}");
    site.ok(&["kernel", "stop"]);
    finished["payload"].clone()
}

fn manifest(dependencies: &str) -> String {
    format!("[package]\nname = \"demo\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\n{dependencies}\n[workspace]\n")
}

#[test]
fn cargo_test_runs_as_init_found_it() {
    let site = Site::new(&[
        ("Cargo.toml", &manifest("")),
        ("src/lib.rs", "#[test]\nfn adds() {\n    assert_eq!(1 + 1, 2);\n}\n"),
        (".gitignore", "/target\nCargo.lock\n"),
    ]);
    let finished = tested(&site);
    assert!(finished.to_string().contains("1 passed"), "{finished:#}");
}

/// One of our own dependencies, so that it is in the cache wherever this is built.
#[test]
fn cargo_finds_a_dependency_in_the_shared_cache_and_writes_to_a_layer() {
    let site = Site::new(&[
        ("Cargo.toml", &manifest("cfg-if = \"1\"")),
        (
            "src/lib.rs",
            "#[test]\nfn chosen() {\n    cfg_if::cfg_if! { if #[cfg(unix)] { let here = 1; } else { let here = 2; } }\n    assert_eq!(here, 1);\n}\n",
        ),
        (".gitignore", "/target\nCargo.lock\n"),
    ]);
    let finished = tested(&site);
    assert!(finished.to_string().contains("1 passed"), "{finished:#}");
    // A sandbox writes its own cache and nobody else's.
    let mark = format!("skep-test-{}", std::process::id());
    let write = format!("test -d $CARGO_HOME/registry/index && echo x > $CARGO_HOME/registry/{mark} && ls $CARGO_HOME/registry/{mark}");
    let output = site.skep(&["sandbox", "run", "--discard", "--", "sh", "-c", &write]);
    assert!(output.status.success(), "{}", text(&output));
    let cargo_home =
        std::env::var("CARGO_HOME").map_or_else(|_| PathBuf::from(std::env::var("HOME").unwrap()).join(".cargo"), PathBuf::from);
    assert!(cargo_home.join("registry/index").is_dir() && !cargo_home.join("registry").join(&mark).exists());
    site.ok(&["kernel", "stop"]);
}

#[test]
fn unittest_runs_with_the_python_of_this_machine() {
    let site = Site::new(&[(
        "test_sum.py",
        "import unittest\n\nclass Sum(unittest.TestCase):\n    def test(self):\n        self.assertEqual(1 + 1, 2)\n",
    )]);
    tested(&site);
    // The very one that the person's shell finds, also by way of pyenv's shims.
    let which = "import sys; print(sys.executable, sys.version)";
    let outside = Command::new("python3").args(["-c", which]).current_dir(site.project()).output().unwrap();
    let inside = site.skep(&["sandbox", "run", "--discard", "--", "python3", "-c", which]);
    assert_eq!(String::from_utf8_lossy(&inside.stdout), String::from_utf8_lossy(&outside.stdout), "{}", text(&inside));
    site.ok(&["kernel", "stop"]);
}

#[test]
fn npm_test_and_node_test_run() {
    let test = "const test = require('node:test');\nconst assert = require('node:assert');\ntest('adds', () => assert.equal(1 + 1, 2));\n";
    let script = r#"{"name": "demo", "version": "1.0.0", "scripts": {"test": "node --test"}}"#;
    tested(&Site::new(&[("package.json", script), ("test/a.test.js", test)]));
    tested(&Site::new(&[("package.json", "{}"), ("test/a.test.js", test)]));
}

#[test]
fn doctor_lists_the_toolchains_of_this_machine() {
    let site = Site::new(&[]);
    let cargo = PathBuf::from(std::env::var("HOME").unwrap()).join(".cargo/bin/cargo");
    let printed = site.skep(&["doctor", "--json"]);
    let found: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    let names: Vec<&str> = found["toolchains"].as_array().unwrap().iter().map(|found| found["name"].as_str().unwrap()).collect();
    assert_eq!(names.contains(&"cargo"), cargo.exists(), "{names:?}");
    site.ok(&["kernel", "stop"]);
}

/// A person's home with fake programs and planted credentials.
struct Person {
    site: Site,
    home: PathBuf,
}

impl Person {
    fn new(files: &[(&str, &str)]) -> Person {
        let site = Site::new(&[("a.txt", "one\n")]);
        let home = site.folder.path().canonicalize().unwrap().join("person");
        std::fs::create_dir(&home).unwrap();
        let person = Person { site, home };
        files.iter().for_each(|(name, content)| person.write(name, content));
        std::fs::set_permissions(&person.home, PermissionsExt::from_mode(0o700)).unwrap();
        person
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.home.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        let mode = if content.starts_with("#!") { 0o755 } else { 0o600 };
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    fn skep(&self, arguments: &[&str]) -> Output {
        let mut command = self.site.command(arguments);
        for name in [
            "CARGO_HOME",
            "RUSTUP_HOME",
            "PYENV_ROOT",
            "NVM_DIR",
            "VOLTA_HOME",
            "GOPATH",
            "GOROOT",
            "JAVA_HOME",
            "XDG_DATA_HOME",
            "XDG_CACHE_HOME",
        ] {
            command.env_remove(name);
        }
        command
            .env("HOME", &self.home)
            .env("PATH", format!("{}/.cargo/bin:{}/tools:/usr/bin:/bin", self.home.display(), self.home.display()));
        command.output().unwrap()
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.skep(arguments);
        assert!(output.status.success(), "skep {arguments:?}: {}\n{}", output.status, text(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn sh(&self, script: &str) -> Output {
        self.skep(&["sandbox", "run", "--discard", "--", "sh", "-c", script])
    }

    fn settings(&self, config: &str) {
        std::fs::create_dir_all(self.site.home()).unwrap();
        std::fs::set_permissions(self.site.home(), PermissionsExt::from_mode(0o700)).unwrap();
        std::fs::write(self.site.home().join("config.yml"), config).unwrap();
    }
}

const SECRET: &str = "planted-credential";

fn planted() -> Person {
    let token = &format!("token = \"{SECRET}\"\n");
    let person = Person::new(&[
        (".cargo/bin/cargo", "#!/bin/sh\necho the cargo of the person\n"),
        (".cargo/credentials.toml", token),
        (".cargo/credentials", token),
        (".cargo/config.toml", token),
        (".cargo/registry/cache/x.crate", "a crate\n"),
        (".nvm/versions/node/v20.0.0/bin/node", "#!/bin/sh\necho the node of the person\n"),
        (".nvm/versions/node/v20.0.0/etc/npmrc", token),
        (".npmrc", token),
        (".npm/_cacache/x", "a package\n"),
        (".npm/_logs/x.log", token),
        (".netrc", token),
        (".pypirc", token),
        (".config/app-token", token),
        (".m2/settings.xml", token),
        (".pyenv/versions/3.12.0/bin/python3.12", "#!/bin/sh\necho the python of the person\n"),
        (".pyenv/versions/3.12.0/pip.conf", token),
        (".pyenv/plugins/x/.git/config", token),
        (".ssh/id_ed25519", token),
        ("go/pkg/mod/cache/download/x", "a module\n"),
        ("go/pkg/mod/cache/vcs/x/config", token),
        ("tools/other", "#!/bin/sh\necho another tool\n"),
    ]);
    symlink(person.home.join(".ssh"), person.home.join(".pyenv/versions/link")).unwrap();
    symlink(person.home.join(".ssh"), person.home.join(".nvm/alias")).unwrap();
    person
}

#[test]
fn no_sandbox_sees_planted_credentials() {
    let person = planted();
    person.ok(&["init"]);
    // The control: the programs and caches beside them are there.
    let home = person.home.display();
    let run = format!(
        "cargo && node && {home}/.pyenv/versions/3.12.0/bin/python3.12 && cat {home}/.cargo/registry/cache/x.crate {home}/.npm/_cacache/x {home}/go/pkg/mod/cache/download/x"
    );
    let output = person.sh(&run);
    let expected = "the cargo of the person\nthe node of the person\nthe python of the person\na crate\na package\na module\n";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{}", text(&output));
    // Everything that can be read in the home.
    let read = person.sh(&read_all(&person.home));
    let read = String::from_utf8_lossy(&read.stdout).into_owned();
    assert!(read.contains("the cargo of the person") && read.contains("a module"), "{read}");
    assert!(!read.contains(SECRET), "{read}");
    // Nothing of the kernel's home, and nothing that the person would find changed.
    let kernel_home = person.site.home().canonicalize().unwrap();
    assert!(!person.sh(&format!("ls {}", kernel_home.display())).status.success());
    let write = format!(
        "cd {home}; for file in .cargo/bin/x .cargo/x .cargo/registry/x .npm/x .npm/_cacache/x .nvm/versions/x .pyenv/shims/x go/pkg/mod/x x; do echo x > $file; done; true"
    );
    person.sh(&write);
    let changed =
        walk(&person.home).into_iter().filter(|path| path.ends_with("x") && std::fs::read_to_string(path).is_ok_and(|text| text == "x\n"));
    assert_eq!(changed.collect::<Vec<_>>(), Vec::<PathBuf>::new());
    let listed = person.skep(&["doctor"]);
    let listed = text(&listed);
    for line in ["cargo", "nvm", "pyenv", "go modules", "npmrc: it may hold credentials", "pip.conf: it may hold credentials"] {
        assert!(listed.contains(line), "{line}: {listed}");
    }
    person.ok(&["kernel", "stop"]);
}

/// The same view in containers, with the real cargo as the control that it works there.
#[test]
fn containers_see_the_same_toolchains() {
    let person = planted();
    person.settings("runtime: podman\n");
    person.ok(&["init"]);
    let home = person.home.display();
    let look = format!(
        "test -e /.skep && cargo && node; cat {home}/.cargo/registry/cache/x.crate; echo x > {home}/.cargo/registry/x && echo written; {}",
        read_all(&person.home)
    );
    let output = person.sh(&look);
    let read = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(read.starts_with("the cargo of the person\nthe node of the person\na crate\nwritten\n"), "{}", text(&output));
    assert!(!read.contains(SECRET) && !person.home.join(".cargo/registry/x").exists(), "{read}");
    person.ok(&["kernel", "stop"]);
    let files = [("Cargo.toml", &*manifest("")), ("src/lib.rs", "#[test]\nfn passes() {}\n"), (".gitignore", "/target\nCargo.lock\n")];
    let site = Site::new(&files);
    std::fs::create_dir_all(site.home()).unwrap();
    std::fs::set_permissions(site.home(), PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::write(site.home().join("config.yml"), "runtime: podman\n").unwrap();
    assert!(tested(&site).to_string().contains("1 passed"));
}

/// Prints everything that can be read in a folder, links followed.
fn read_all(folder: &Path) -> String {
    format!("find -L {} -type f 2>/dev/null | while read -r file; do cat \"$file\" 2>/dev/null; done; true", folder.display())
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() && !path.is_symlink() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn a_worker_finds_its_own_cache_again_and_other_projects_do_not() {
    let person = planted();
    person.ok(&["init"]);
    let cache = person.home.join(".cargo/registry/mine");
    let script = |line: &str| person.site.script(&format!("call shell.run command=[\"sh\", \"-c\", \"{line}\"]\ndone\n"));
    let first = script(&format!("echo fetched > {}; echo x > a.txt", cache.display()));
    person.ok(&["act", "fetch", "--await", "--brain", &first]);
    person.ok(&["merge", "task-1", "--yes"]);
    assert_eq!(person.site.read("a.txt"), "x\n");
    let second = script(&format!("cat {} > b.txt", cache.display()));
    person.ok(&["act", "use", "--await", "--brain", &second]);
    person.ok(&["merge", "task-2", "--yes"]);
    assert_eq!(person.site.read("b.txt"), "fetched\n");
    // The person's own has nothing of it, and neither has a sandbox of another worker.
    assert!(!cache.exists());
    assert!(!person.sh(&format!("cat {}", cache.display())).status.success());
    person.ok(&["kernel", "stop"]);
}

#[test]
fn the_operator_switches_toolchains_off_and_a_project_switches_nothing_on() {
    let person = planted();
    person.settings("sandbox: {toolchains: off}\n");
    person.ok(&["init"]);
    let output = person.sh("cargo");
    assert_eq!(output.status.code(), Some(127), "{}", text(&output));
    assert!(text(&output).contains("leaves rust out") && text(&output).contains("toolchains: [rust]"), "{}", text(&output));
    let listed = text(&person.skep(&["doctor"]));
    assert!(listed.contains("○ cargo") && listed.contains("leaves rust out"), "{listed}");
    for config in ["sandbox: {toolchains: all}\n", "sandbox: {toolchains: [rust]}\n", "sandbox: {environment: {set: {A: b}}}\n"] {
        person.site.write("skep.yml", config);
        let refused = person.skep(&["trust", "--yes"]);
        assert!(!refused.status.success() && text(&refused).contains("only the operator's config.yml"), "{config}: {}", text(&refused));
    }
    person.ok(&["kernel", "stop"]);
    person.settings("sandbox: {toolchains: [perl]}\n");
    let refused = person.skep(&["status"]);
    assert!(text(&refused).contains("rust, node, python, go, java"), "{}", text(&refused));
    person.settings("sandbox: {toolchains: [node]}\n");
    assert_eq!(String::from_utf8_lossy(&person.sh("node; cargo").stdout), "the node of the person\n");
    person.ok(&["kernel", "stop"]);
}

#[test]
fn a_command_that_is_not_found_comes_with_the_lines_that_help() {
    let person = planted();
    person.ok(&["init"]);
    let tools = person.home.join("tools");
    let lines = format!("sandbox:\n           show: [{}]\n", tools.display());
    for command in [&["other"][..], &["sh", "-c", "other"]] {
        let output = person.skep(&[&["sandbox", "run", "--discard", "--"][..], command].concat());
        assert!(!output.status.success() && text(&output).contains("other` is in a folder that sandboxes do not see"), "{}", text(&output));
        assert!(text(&output).contains(&lines), "{}", text(&output));
    }
    let output = person.skep(&["sandbox", "run", "--discard", "--", "nothing-like-it"]);
    assert!(text(&output).contains("has no `nothing-like-it` on the PATH"), "{}", text(&output));
    person.ok(&["kernel", "stop"]);
    // The very lines, as they were printed.
    person.settings(&format!("sandbox:\n  show: [{}]\n  environment: {{set: {{GREETING: hello}}}}\n", tools.display()));
    assert_eq!(String::from_utf8_lossy(&person.sh("other; echo $GREETING").stdout), "another tool\nhello\n");
    person.ok(&["kernel", "stop"]);
}
