//! What the reader of a policy file checks beyond its grammar: examples, and rules that can never matter.

use policy::{OwnedFacts, OwnedPath, Policy, Standing, Verdict, decide};

fn text(body: &str) -> String {
    let body: String = body.lines().map(|line| format!("    {line}\n")).collect();
    format!("capabilities:\n  - name: r\n{body}")
}

#[track_caller]
fn refused(body: &str, expect: &str) {
    let Err(error) = Policy::parse(&text(body), "p.yaml") else { panic!("it was read: {body}") };
    assert_eq!(error.to_string(), expect);
}

#[track_caller]
fn warned(text: &str, expect: &[&str]) {
    let (_, warnings) = Policy::parse(text, "p.yaml").unwrap_or_else(|error| panic!("{error}"));
    let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(shown, expect);
    assert!(warnings.iter().all(|warning| warning.hint.is_some() || warning.remedy.is_some()));
}

/// The policies in docs/policy.md are read without a warning, and the first protects its files from every verb that changes one.
#[test]
fn the_policies_of_the_guide_hold() {
    let guide = include_str!("../../../../docs/policy.md");
    let blocks = guide.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let policies: Vec<&str> = blocks.filter(|block| block.starts_with("capabilities:")).collect();
    assert!(policies.len() >= 4, "{}", policies.len());
    policies.iter().for_each(|text| warned(text, &[]));
    let (policy, _) = Policy::parse(policies[0], "p.yaml").unwrap_or_else(|error| panic!("{error}"));
    let says = |tool: &str, path: &str| {
        let facts = OwnedFacts { paths: vec![OwnedPath::Inside(path.into())], size: Some(1), ..OwnedFacts::of(tool) };
        facts.with(|facts| decide(&policy, facts, &Standing::default()))
    };
    for tool in ["fs.write", "fs.edit", "fs.patch", "fs.delete", "fs.move"] {
        let verdict = says(tool, "gen/api.rs");
        assert!(matches!(&verdict, Verdict::Deny { rules, .. } if rules == &["generated"]), "{tool}: {verdict:?}");
    }
    for (tool, path) in [("fs.write", "gen/README.md"), ("fs.write", "src/a.rs"), ("fs.read", "gen/api.rs")] {
        assert!(matches!(says(tool, path), Verdict::Allow(_)), "the control: {tool} {path}");
    }
}

#[test]
fn examples_that_hold_are_silent() {
    let body = r#"match:
  syscall: [fs.write, shell.run, http.request]
  caller_tag: new
  mode: [live, mock]
  size: "<10"
except:
  - { path_glob: 'docs/**' }
  - { command: [true] }
  - { host: docs.rs, method: GET }
action: deny
examples:
  match:
    - { syscall: fs.write, path: src/a.rs, caller_tag: [old, new], size: 9 }
    - { syscall: shell.run, command: [ls, "-l"], caller_tag: new, size: 0, mode: mock }
    - { syscall: http.request, host: docs.rs, method: POST, caller_tag: new, size: 1 }
    - { syscall: fs.write, path: /etc/passwd, caller_tag: new, size: 1 }
  not_match:
    - { syscall: fs.write, path: docs/a.md, caller_tag: new, size: 9 }
    - { syscall: fs.write, path: src/a.rs, caller_tag: new, size: 10 }
    - { syscall: fs.write, path: src/a.rs, caller_tag: new, size: 1, mode: dry_run }
    - { syscall: fs.read, path: src/a.rs, caller_tag: new, size: 1 }
    - { syscall: http.request, host: DOCS.rs, method: get, caller_tag: new, size: 1 }
"#;
    warned(&text(&body.replace("[true]", "['true']")), &[]);
}

#[test]
fn an_example_that_does_not_hold_is_an_error_at_its_place() {
    refused(
        "match: { syscall: fs.write, path_glob: 'src/**' }\naction: deny\nexamples:\n  match:\n    - { syscall: fs.write, path: src/a }\n    - { syscall: fs.write, path: lib/a }",
        "p.yaml:8:11: the rule `r` does not match this example, and should: its `path_glob` does not fit",
    );
    refused(
        "match: { syscall: fs.write }\naction: deny\nexamples:\n  not_match:\n    - { syscall: fs.write }",
        "p.yaml:7:11: the rule `r` matches this example, and should not",
    );
    refused(
        "match: { syscall: fs.write }\nexcept: [{ path_glob: a }]\naction: deny\nexamples: { match: [{ syscall: fs.write, path: a }] }",
        "p.yaml:6:25: the rule `r` does not match this example, and should: its exception 1 fits",
    );
    refused(
        "match: { syscall: fs.read }\naction: allow\nexamples: { match: [{ syscall: fs.read, path: /etc/passwd }] }",
        "p.yaml:5:25: the rule `r` does not match this example, and should: an allow ends at the project's border",
    );
}

#[test]
fn an_example_is_read_as_strictly_as_a_rule() {
    let table = [
        ("{ sycall: a.b }", "p.yaml:5:27: nobody knows the key `sycall`"),
        ("{ path: a }", "p.yaml:5:25: the key `syscall` is missing"),
        ("{ syscall: a.b, path: ../x }", "p.yaml:5:47: `../x` is not a real path"),
        ("{ syscall: a.b, path: a//b }", "p.yaml:5:47: `a//b` is not a real path"),
        ("{ syscall: a.b, path: [a, b] }", "p.yaml:5:47: an example has one `path`"),
        ("{ syscall: a.b, size: 1kb }", "p.yaml:5:47: `1kb` is not a size"),
        ("{ syscall: a.b, mode: alive }", "p.yaml:5:47: `alive` is not a mode"),
    ];
    for (example, expect) in table {
        refused(&format!("match: {{ syscall: a.b }}\naction: deny\nexamples: {{ match: [{example}] }}"), expect);
    }
}

#[test]
fn a_rule_that_can_never_speak_is_a_warning() {
    let table = [
        (
            "match: { syscall: fs.write, path_glob: ['src/**', '!src'] }\naction: deny",
            "p.yaml:3:44: the rule `r` never speaks: its exclusions take away all that its globs include",
        ),
        ("match: { syscall: fs.write, size: '<0' }\naction: deny", "p.yaml:3:39: the rule `r` never speaks: nothing has that size"),
        (
            "match: { syscall: fs.write, size: '>1MiB' }\naction: allow\nconstraints: { max_file_size: 1KiB }",
            "p.yaml:3:39: the rule `r` never says yes: all sizes that it matches are over its own `max_file_size`",
        ),
        (
            "match: { syscall: [fs.write, search.grep], command: [ls] }\naction: deny",
            "p.yaml:3:57: the rule `r` never speaks: the calls that it names have no `command`",
        ),
        (
            "match: { syscall: http.request, path_glob: a }\naction: deny",
            "p.yaml:3:48: the rule `r` never speaks: the calls that it names have no `path_glob`",
        ),
        (
            "match: { syscall: fs.write, path_glob: 'src/**' }\naction: deny\nexcept: [{ path_glob: src }]",
            "p.yaml:5:14: the rule `r` never speaks: the exception takes all that it matches",
        ),
        (
            "match: { syscall: fs.write }\naction: deny\nexcept: [{ syscall: fs.read }]",
            "p.yaml:5:14: this exception of `r` never applies: it is for other syscalls",
        ),
    ];
    for (body, expect) in table {
        warned(&text(body), &[expect]);
    }
    // And their sound neighbours.
    for body in [
        "match: { syscall: fs.write, path_glob: ['src/**', '!src/a'] }\naction: deny",
        "match: { syscall: [fs.write, shell.run], command: [ls] }\naction: deny",
        "match: { syscall: 'fs.*' }\naction: deny\nexcept: [{ syscall: fs.read }]",
        "match: { syscall: fs.write, path_glob: src }\naction: deny\nexcept: [{ path_glob: 'src/**' }]",
        "match: { syscall: fs.write, size: ['<1', '>1MiB'] }\naction: allow\nconstraints: { max_file_size: 1KiB }",
    ] {
        warned(&text(body), &[]);
    }
}

#[test]
fn a_rule_that_another_denies_altogether_is_a_warning() {
    let shadow = |deny: &str, allow: &str| {
        format!(
            "capabilities:\n  - {{ name: d, match: {{ {deny} }}, action: deny }}\n  - {{ name: a, match: {{ {allow} }}, action: allow }}\n"
        )
    };
    for (deny, allow) in [
        ("syscall: '*'", "syscall: fs.read, path_glob: 'src/**'"),
        ("syscall: 'fs.*', path_glob: '*.pem'", "syscall: fs.read, path_glob: tls/server.pem"),
        ("path_glob: src", "syscall: fs.read, path_glob: 'src/a/*.rs'"),
        ("syscall: shell.run, command: [npm]", "syscall: shell.run, command: [npm, install]"),
        ("syscall: http.request, host: '*.example.com'", "syscall: http.request, host: api.example.com, method: GET"),
        ("size: '>=10'", "syscall: fs.write, size: '>10'"),
    ] {
        warned(&shadow(deny, allow), &["p.yaml:3:13: `a` never matters: `d` in line 2 denies all that it covers"]);
    }
    for (deny, allow) in [
        ("syscall: fs.write", "syscall: 'fs.*'"),
        ("syscall: fs.read, path_glob: '*.pem'", "syscall: fs.read, path_glob: 'tls/**'"),
        ("syscall: fs.read, caller: bob", "syscall: fs.read"),
        ("syscall: shell.run, command: [npm, install]", "syscall: shell.run, command: [npm]"),
        ("size: '>10'", "size: '>=10'"),
    ] {
        warned(&shadow(deny, allow), &[]);
    }
}

/// An exception that may be about the same calls leaves the yes its meaning.
#[test]
fn a_yes_to_what_a_question_excepts_matters() {
    let policy = |except: &str| {
        format!(
            "capabilities:\n  - {{ name: ask, match: {{ syscall: 'net.*' }}, except: [{{ {except} }}], action: ask }}\n  - {{ name: docs, match: {{ syscall: net.connect, host: docs.rs }}, action: allow }}\n"
        )
    };
    warned(&policy("syscall: net.connect, host: docs.rs"), &[]);
    warned(&policy("sandbox: install"), &[]);
    warned(&policy("host: pypi.org"), &["p.yaml:3:13: `docs` never matters: `ask` in line 2 asks about all that it covers"]);
}

#[test]
fn a_host_is_a_name_alone() {
    for host in ["https://docs.rs", "docs.rs:443", "docs.rs/x", "me@docs.rs"] {
        let error = Policy::parse(&text(&format!("match: {{ host: '{host}' }}\naction: deny")), "p.yaml").unwrap_err();
        assert_eq!(error.to_string(), format!("p.yaml:3:20: `{host}` is not a host"));
    }
    warned(&text("match: { host: ['::1', '*.docs.rs', 127.0.0.1] }\naction: deny"), &[]);
}
