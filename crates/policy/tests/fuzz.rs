//! No text makes the policy's readers panic, and what they accept can be decided on.

#[path = "../../testkit/fuzz/fuzz.rs"]
mod fuzz;

use policy::{Globs, OwnedFacts, OwnedPath, Policy, Standing, decide, explain, parse_duration, parse_size, preview};

const YAML: &[&str] = &[
    "  - { name: a, match: { syscall: fs.write }, action: allow }\n",
    "  - { name: b, match: { path_glob: ['*', '!a'] }, action: deny }\n",
    "  - { name: c, match: { size: '>1', caller: '*' }, except: [{ host: x }], action: require_review }\n",
    "capabilities:\n",
    "  - name: ",
    "a",
    "b",
    "\n    match: ",
    "\n    action: ",
    "allow\n",
    "deny\n",
    "require_review\n",
    "pass\n",
    "\n    except:\n      - ",
    "{ syscall: fs.write }\n",
    "{ syscall: '*', path_glob: ['src/**', '!src'] }\n",
    "{ command: [npm, i], host: x }\n",
    "\n    constraints: { max_file_size: 1KiB, require_sandbox: true }\n",
    "\n    examples:\n      match:\n        - ",
    "      not_match:\n        - ",
    "{ syscall: fs.write, path: src/a.rs, size: 7 }\n",
    "size: '<0'",
    ", ",
    ": ",
    "[",
    "]",
    "{",
    "}",
    "'",
    "\"",
    "&x ",
    "*x",
    "<<: ",
    "\n",
    "  ",
    "- ",
    "#",
    "|",
    ">",
    "!!str ",
    "---\n",
    "path_glob: ",
    "'**/{a,b}*[c-d]?'",
    "0x1",
    "~",
    "null",
    "true",
    "\t",
    "\\",
];

const GLOB: &[&str] = &[
    "*", "**", "/", "?", "[", "]", "!", "{", "}", ",", "\\", "a", "b", "-", ".", "..", "src", ".rs", "ä", " ", "#", "^", "[a-c]", "{a,b}",
];

fn call() -> OwnedFacts {
    let mut facts = OwnedFacts::of("fs.write");
    facts.paths = vec![OwnedPath::Inside("src/a.rs".into()), OwnedPath::Outside("/etc/passwd".into())];
    (facts.command, facts.host, facts.size) = (Some(vec!["npm".into(), "i".into()]), Some("x".into()), Some(7));
    facts
}

#[test]
fn policy_yaml() {
    let call = call();
    fuzz::text("policy_yaml", YAML, |text| {
        // Half of them begin as a policy does, so that more are read to their end.
        let text = if text.len() % 2 == 0 { format!("capabilities:\n{text}") } else { text.to_owned() };
        let Ok((policy, _)) = Policy::parse(&text, "p.yaml") else { return };
        call.with(|facts| {
            let standing = Standing::default();
            let verdict = decide(&policy, facts, &standing);
            assert_eq!(explain(&policy, facts, &standing).verdict, verdict.action());
            preview(&policy, facts);
        });
    });
}

/// A list that is read matches or not, the same way each time, and its exclusions only take away.
#[test]
fn globs() {
    fuzz::text("globs", GLOB, |text| {
        let (pattern, path) = text.split_once(' ').unwrap_or((text, "src/a.rs"));
        let Ok(globs) = Globs::parse(&[pattern]) else { return };
        let path = path.replace(' ', "");
        for path in [path.as_str(), "src/a.rs", ".", "a/b/c.rs", ""] {
            let matched = globs.matches(path);
            assert_eq!(matched, globs.matches(path));
            if let Ok(fewer) = Globs::parse(&[pattern, "!a"]) {
                assert!(matched || !fewer.matches(path), "{pattern} on {path}");
            }
        }
    });
}

#[test]
fn units() {
    fuzz::text("units", &["1", "9", "KiB", "GB", "ms", "h", ".", "-", "e", "18446744073709551615"], |text| {
        let _ = (parse_size(text), parse_duration(text));
    });
}
