//! Policy files with a mistake in them: where, what, and how to fix it.

use policy::Policy;

/// A file with one rule, whose lines after `name` are given.
#[track_caller]
fn check(rest: &str, expect: &str, hint: &str) {
    let body: String = rest.lines().map(|line| format!("    {}\n", line.trim())).collect();
    let text = format!("capabilities:\n  - name: r\n{body}");
    let Err(error) = Policy::parse(&text, "p.yaml") else { panic!("no error in\n{text}") };
    assert_eq!(error.to_string(), expect, "\n{text}");
    assert_eq!(error.hint.unwrap_or_default(), hint);
}

#[test]
fn unknown_keys_are_errors_everywhere() {
    let error = Policy::parse("capabilites: []\n", "p.yaml").unwrap_err();
    assert_eq!(error.to_string(), "p.yaml:1:1: nobody knows the key `capabilites`");
    assert_eq!(error.hint.as_deref(), Some("did you mean `capabilities`?"));
    check("match: { syscall: a.b }\naction: allow\nreasons: x", "p.yaml:5:5: nobody knows the key `reasons`", "did you mean `reason`?");
    check(
        "match: { syscall: a.b }\nexcept: [{ path: x }]\naction: allow",
        "p.yaml:4:16: nobody knows the key `path`",
        "the keys here are syscall, path_glob, caller, caller_tag, role, tier, user, zone, mode, state_machine_state, workflow_state, session_mode, command, host, method, port, sandbox, network, size",
    );
    check(
        "match: { syscall: a.b }\naction: allow\nconstraints: { max_size: 1 }",
        "p.yaml:5:20: nobody knows the key `max_size`",
        "the keys here are require_sandbox, require_capability_token, max_file_size",
    );
}

#[test]
fn values_that_say_nothing_are_errors() {
    check("match: { syscall: a.b }\naction: alow", "p.yaml:4:13: nobody knows the action `alow`", "did you mean `allow`?");
    check(
        "match: { syscall: fs.re* }\naction: allow",
        "p.yaml:3:23: `fs.re*` is not a syscall",
        "write a name such as `fs.read`, a family such as `fs.*`, or `*`",
    );
    check("match: { port: 0 }\naction: allow", "p.yaml:3:20: `0` is not a port", "write a number from 1 to 65535");
    check("match: { port: https }\naction: allow", "p.yaml:3:20: `https` is not a port", "write a number from 1 to 65535");
    check("match: { network: open }\naction: allow", "p.yaml:3:23: `open` is not a network", "the networks are none and restricted");
    check("match: { mode: alive }\naction: allow", "p.yaml:3:20: `alive` is not a mode", "the modes are live, dry_run and mock");
    check(
        "match: { path_glob: [src, ./x] }\naction: allow",
        "p.yaml:3:31: the glob `./x` has an empty, `.` or `..` segment, which no real path has",
        "write it relative to the project's root, such as `src/**`",
    );
    check(
        "match: { path_glob: ['!src'] }\naction: allow",
        "p.yaml:3:25: the list only excludes, so it matches nothing",
        "put \"**\" before the exclusions",
    );
    check(
        "match: { size: 1kb }\naction: allow",
        "p.yaml:3:20: `1kb` is not a size",
        "write a whole number of bytes, or one with KiB, MiB, GiB, KB, MB or GB right behind it, such as `100KiB`",
    );
    check(
        "match: { command: npm install }\naction: deny",
        "p.yaml:3:23: `npm install` is one word here, and no program has that name",
        "write the beginning of the argument list, such as [npm, install]",
    );
    check(
        "match: { caller: true }\naction: deny",
        "p.yaml:3:22: `caller` is a word, not `true`",
        "write \"true\" in quotes if that is the word",
    );
    check(
        "match: { syscall: a.b }\nexcept: [{}]\naction: deny",
        "p.yaml:4:14: an exception of `r` has no condition and would take the whole rule away",
        "write the condition, or delete the rule",
    );
}

/// `caller:` with nothing behind it must not read as a rule for every caller.
#[test]
fn a_key_without_a_value_is_an_error() {
    for key in ["syscall", "path_glob", "caller", "command", "size"] {
        let text = format!("capabilities:\n  - name: r\n    match:\n      zone: z\n      {key}:\n    action: allow\n");
        let error = Policy::parse(&text, "p.yaml").unwrap_err();
        assert_eq!(error.line, 5, "{error}");
    }
    assert!(Policy::parse("capabilities:\n  - name: r\n    match:\n    action: allow\n", "p.yaml").is_err());
}

#[test]
fn names_are_unique_and_not_the_gates_own() {
    let rule = |name: &str| format!("  - {{ name: '{name}', match: {{ syscall: a.b }}, action: allow }}\n");
    let error = Policy::parse(&format!("capabilities:\n{}{}{}", rule("a"), rule("b"), rule("a")), "p.yaml").unwrap_err();
    assert_eq!(error.to_string(), "p.yaml:4:13: the name `a` is already taken in line 2");
    for name in ["", " ", "builtin:ask-mode", "token:1", "extension:x"] {
        assert!(Policy::parse(&format!("capabilities:\n{}", rule(name)), "p.yaml").is_err(), "{name:?}");
    }
}

#[test]
fn broken_yaml_says_where() {
    for text in ["capabilities: [", "capabilities:\n\t- x", "a: 1\na: 2", "[]", "capabilities: {}", "---\ncapabilities: []\n---\nx: 1\n"] {
        let error = Policy::parse(text, "p.yaml").unwrap_err();
        assert!(error.line > 0 && !error.what.is_empty(), "{text:?}: {error}");
    }
    check("action: allow", "p.yaml:2:5: the key `match` is missing", "");
}

#[test]
fn what_does_nothing_is_a_warning() {
    let text = "capabilities:\n  - name: r\n    match: { syscall: a.b, caller: [] }\n    action: deny\n    constraints: { require_sandbox: true }\n";
    let (_, warnings) = Policy::parse(text, "p.yaml").unwrap();
    let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "p.yaml:3:36: `caller` is an empty list and matches nothing",
            "p.yaml:5:18: the constraints of `r` do nothing: its action is `deny`",
        ]
    );
}

/// What cannot be seen cannot be ruled on: a method in a tunnel.
#[test]
fn a_method_in_a_tunnel_is_an_error() {
    let hint = "name net.request for plain HTTP alone, or take `method` away";
    check(
        "match: { syscall: net.connect, host: docs.rs, method: GET }\naction: allow",
        "p.yaml:3:59: `net.connect` is encrypted, so its `method` cannot be seen",
        hint,
    );
    check(
        "match: { syscall: [http.request, 'net.*'], method: POST }\naction: deny",
        "p.yaml:3:56: `net.*` is encrypted, so its `method` cannot be seen",
        hint,
    );
    check(
        "match: { syscall: 'net.*' }\nexcept: [{ syscall: net.connect, method: GET }]\naction: deny",
        "p.yaml:4:46: `net.connect` is encrypted, so its `method` cannot be seen",
        hint,
    );
    let plain = "capabilities:\n  - name: r\n    match: { syscall: net.request, method: GET, port: [80, 8080] }\n    action: allow\n";
    assert!(Policy::parse(plain, "p.yaml").is_ok());
}
