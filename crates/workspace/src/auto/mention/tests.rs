use super::*;
use std::convert::Infallible;

/// Reads `PATH TEXT` lines as a project and says why each of `paths` is the command's.
fn why(command: &str, files: &[(&str, &str)], path: &str) -> Option<String> {
    let names: Vec<String> = files.iter().map(|(path, _)| (*path).to_owned()).collect();
    let read = |path: &str| {
        let text = files.iter().find(|(name, _)| *name == path).map(|(_, text)| *text);
        Ok::<_, Infallible>(match text {
            Some(text) => match text.strip_prefix("-> ") {
                Some(target) => Script::Link(target.into()),
                None => Script::Text(text.into()),
            },
            None => Script::Unreadable,
        })
    };
    let command: Vec<String> = command.split(' ').map(str::to_owned).collect();
    let Ok(mentions) = Mentions::of(&command, &names, read);
    mentions.of_path(path)
}

#[test]
fn a_command_that_names_nothing_of_the_project_mentions_nothing() {
    let files = [("Cargo.toml", "[package]\nname = \"thing\""), ("src/lib.rs", ""), ("docs/a.md", "")];
    assert_eq!(why("cargo test", &files, "src/parse.rs"), None);
    assert_eq!(why("cargo test", &files, "docs/a.md"), None);
}

#[test]
fn scripts_are_followed_through_shells_makefiles_and_manifests() {
    for (command, files) in [
        ("sh run.sh", vec![("run.sh", "sh ./lib/helper.sh"), ("lib/helper.sh", "./verdict")]),
        ("make test", vec![("Makefile", "test:\n\t./go.py"), ("go.py", "import verdict\n")]),
        ("npm test", vec![("package.json", r#"{"scripts": {"test": "node tools/run.js"}}"#), ("tools/run.js", "require('../verdict')")]),
        ("just check", vec![("justfile", "check:\n  python3 -m verdict")]),
        ("tox", vec![("tox.ini", "commands = python -m pkg.verdict")]),
        ("cargo t", vec![(".cargo/config.toml", "[alias]\nt = \"run -p verdict\"")]),
        ("python3 check.py", vec![("check.py", "import rules"), ("rules.py", "from verdict import ok")]),
        ("./check", vec![("check", "-> bin/real"), ("bin/real", "#!/bin/sh\nverdict")]),
        ("env sh -c ./verdict", vec![]),
        ("sh run.sh", vec![("run.sh", "while read f; do . \"$f\"; done < steps.txt"), ("steps.txt", "lib/verdict.dat")]),
        ("make test", vec![("Makefile", "include rules.inc"), ("rules.inc", "test:\n\t./verdict")]),
        ("sh run.sh", vec![("run.sh", "for f in checks/*; do . $f; done"), ("checks/one.sh", "exec verdict")]),
    ] {
        for path in ["verdict.py", "deep/verdict.sh", "verdict/main.rs"] {
            assert!(why(command, &files, path).is_some(), "{command} {files:?} {path}");
        }
        assert_eq!(why(command, &files, "docs/guide.md"), None, "{command} {files:?}");
    }
}

#[test]
fn names_that_are_made_up_put_what_they_may_be_in_doubt() {
    let check = |script: &str, path: &str, doubted: bool| {
        assert_eq!(why("sh run.sh", &[("run.sh", script)], path).is_some(), doubted, "{script} {path}");
    };
    check(". \"lib/$x.sh\"", "lib/y.sh", true);
    check(". \"lib/${x}.sh\"", "lib/y.sh", true);
    check(". \"lib/$x\"", "lib/deep/y.txt", true);
    check(". \"lib/$x\"", "docs/y.txt", false);
    check(". \"$dir/y.txt\"", "docs/y.txt", true);
    check(". \"$dir/$x\"", "docs/y.txt", false);
    check("case $x in *) true;; esac", "docs/y.txt", false);
    check("sh ${X:-docs/y.txt}", "docs/y.txt", true);
    check("cat *.conf", "docs/a.conf", true);
    check("cat *.conf", "docs/a.txt", false);
    check("sh ./*", "docs/a.txt", true);
    check("find . -name x", "docs/a.txt", true);
    check("eval $X", "docs/a.txt", true);
    check("echo {one,two}.sh", "two.sh", true);
    check("for f in $(git ls-files); do . $f; done", "docs/a.txt", true);
    let command = |command: &str| why(command, &[], "docs/a.txt").is_some();
    assert!(command("sh -c find|xargs") && command("sh -c eval"));
    assert!(!command("python3 -m unittest discover"), "the control");
}

#[test]
fn what_cannot_be_read_or_is_too_much_puts_all_in_doubt() {
    let nul: &str = "\0";
    assert!(why("sh run.sh", &[("run.sh", nul)], "docs/a.txt").is_some());
    assert!(why("npm test", &[("package.json", "{")], "docs/a.txt").is_some());
    let many: Vec<(String, String)> = (0..300).map(|n| (format!("s{n}.sh"), format!("sh s{}.sh", n + 1))).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    assert!(why("sh s0.sh", &many, "docs/a.txt").is_some());
}

#[test]
fn configuration_mentions_files_and_not_folders() {
    let files = [("conftest.py", "from helper import x\nsrc = 'src'"), ("jest.config.js", "setupFiles: ['./setup/env.js']")];
    for command in ["pytest", "npx jest"] {
        assert!(why(command, &files, "src/helper.py").is_some());
        assert!(why(command, &files, "setup/env.js").is_some());
        assert_eq!(why(command, &files, "src/app.py"), None);
    }
}

#[test]
fn names_with_blanks_and_signs_are_found_in_pieces() {
    for (command, name) in [
        ("sh\nrun me.sh", "run me.sh"),
        ("sh\n-c\n. ./run\\ me.sh", "lib/run me.sh"),
        ("sh\n-c\n. 'a=b, c'", "a=b, c/step"),
        ("sh\n-c\n. 'check (1)'", "check (1).py"),
    ] {
        let command: Vec<String> = command.split('\n').map(str::to_owned).collect();
        let doubted = |path: &str| {
            let Ok(mentions) = Mentions::of(&command, &[], |_| Ok::<_, Infallible>(Script::Unreadable));
            mentions.of_path(path).is_some()
        };
        assert!(doubted(name), "{command:?} {name}");
        assert!(!doubted("docs/guide to it.md") && !doubted("me too.py"), "{command:?}");
    }
    // They are followed, too.
    let files = [("run.sh", "sh 'my steps.sh'"), ("my steps.sh", "./verdict")];
    assert!(why("sh run.sh", &files, "verdict.py").is_some());
    assert_eq!(why("sh run.sh", &files[..1], "verdict.py"), None, "the control");
}

#[test]
fn what_is_named_in_full_is_followed_whatever_it_ends_in() {
    for name in ["run.dat", "suite.xml", "steps.robot", "cases.sql", "plan.md", "main.c"] {
        let command = format!("runner {name}");
        assert!(why(&command, &[(name, "./verdict")], "verdict.py").is_some(), "{name}");
        assert_eq!(why(&command, &[(name, "./other")], "verdict.py"), None, "{name}");
        assert!(why(&command, &[(name, "\0")], "verdict.py").is_some(), "{name} cannot be read");
    }
    assert_eq!(why("runner logo.png", &[("logo.png", "\0")], "verdict.py"), None, "a picture runs nothing");
    assert!(why("runner logo.png", &[("logo.png", "\0")], "web/logo.png").is_some());
}
