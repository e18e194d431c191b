//! Every field that a rule can match on means the same at the call, at the merge of a path, at the merge as a whole, and at the undo.
//!
//! One table. Each row is played at each place twice: with a value that fits, where the rule must deny, and with one that does not, which
//! is the control. A field of the rule type without a row is a failure.

use std::process::ExitCode;
use testkit::harness::{self, Test};

struct Row {
    field: &'static str,
    /// A value that the brain's own call has, and one that no call here has.
    fits: &'static str,
    misses: &'static str,
    /// What the operator's call has, where that differs.
    operator: Option<&'static str>,
    /// A call that has the field at all, where `fs.write` has not: its rule and the brain's line.
    elsewhere: Option<(&'static str, &'static str)>,
}

const fn row(field: &'static str, fits: &'static str, misses: &'static str) -> Row {
    Row { field, fits, misses, operator: None, elsewhere: None }
}

const ROWS: &[Row] = &[
    row("syscall", "fs.write", "fs.delete"),
    row("path_glob", "'src/**'", "'docs/**'"),
    Row { operator: Some("operator"), ..row("caller", "foreman.1", "somebody") },
    Row { operator: Some("operator"), ..row("caller_tag", "new_employee", "trusted_write") },
    Row { operator: Some("operator"), ..row("role", "foreman", "auditor") },
    row("user", "'?*'", "'no such user'"),
    row("zone", "'/?*'", "/elsewhere"),
    row("mode", "live", "dry_run"),
    row("workflow_state", "idle", "red"),
    row("sandbox", "default", "integration-test"),
    row("network", "none", "restricted"),
    row("size", "'>=3'", "'>1MiB'"),
    // Of a write nobody knows a tier, a command or a host: there the rule is silent at every place alike.
    Row { elsewhere: Some(("", "")), ..row("tier", "strategic", "tactical") },
    Row { elsewhere: Some(("shell.run", "call shell.run command=[\"touch\",\"x\"]")), ..row("command", "[[touch]]", "[[rm]]") },
    Row { elsewhere: Some(("http.request", "call http.request url=http://a.test/")), ..row("host", "a.test", "b.test") },
    Row { elsewhere: Some(("http.request", "call http.request url=http://a.test/")), ..row("method", "GET", "POST") },
    Row { elsewhere: Some(("http.request", "call http.request url=http://a.test/")), ..row("port", "80", "81") },
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Call,
    Path,
    Whole,
    Undo,
}

/// The rule under test.
fn rule(row: &Row, tool: &str, value: &str) -> String {
    let syscall = if row.field == "syscall" { String::new() } else { format!("syscall: {tool}, ") };
    format!("  - {{ name: no, match: {{ {syscall}{}: {value} }}, action: deny, reason: said so }}", row.field)
}

const ALL: &str = "  - { name: all, match: { syscall: '*' }, action: allow }";
const MERGES: &str = "  - { name: merges, match: { syscall: merge.apply }, action: require_review, reason: look }";

/// Writes against the rule by a program, which no rule about `fs.write` hears of. Something else is there to be merged in any case.
const PROGRAM: &str = "call shell.run command=[\"sh\",\"-c\",\"printf hello > src/a.txt; rm gone.txt\"]";

fn story(row: &Row, place: Place, fits: bool) -> String {
    let value = if fits { row.fits } else { row.misses };
    let begin = "file src/a.txt before\nfile gone.txt gone\ntag new_employee\n";
    let merge =
        |rule: &str, human: &str| format!("{begin}policy\n{ALL}\n{MERGES}\n{rule}brain {PROGRAM}\nbrain done\n{human}show src/a.txt\n");
    match (place, row.elsewhere) {
        (Place::Call, Some((tool, line))) if !tool.is_empty() => {
            format!("{begin}policy\n{ALL}\n{}\nbrain {line}\nbrain done\n", rule(row, tool, value))
        }
        (Place::Call, _) => {
            let line = "call fs.write path=src/a.txt content=hello";
            format!("{begin}policy\n{ALL}\n{}\nbrain {line}\nbrain done\n", rule(row, "fs.write", value))
        }
        (Place::Path, _) => merge(&format!("{}\n", rule(row, "fs.write", value)), "human allow\n"),
        (Place::Whole, elsewhere) => {
            let value = if row.field == "syscall" && fits { "merge.apply" } else { value };
            let is_rejected = fits && elsewhere.is_none();
            merge(&format!("{}\n", rule(row, "merge.apply", value)), if is_rejected { "" } else { "human allow\n" })
        }
        // In force only after the merge, or it would have stayed out.
        (Place::Undo, _) => {
            let value = row.operator.filter(|_| fits).unwrap_or(value);
            let policy = format!("capabilities:\n{ALL}\n{MERGES}\n{}\n", rule(row, "fs.write", value)).replace('\n', "\\n");
            let merged = merge("", "human allow\n");
            format!("{merged}edit .skep/policy.yaml {policy}\ntrust\nundo\nshow src/a.txt\nundo undo task-1 anyway\nshow src/a.txt\n")
        }
    }
}

/// Whether the rule denied, as the journal tells it; what is neither yes nor no is a failure of the test.
fn denied(place: Place, told: &str) -> Result<bool, String> {
    let (no, yes) = match place {
        Place::Call => (told.contains("said so"), told.contains("call.admitted")),
        Place::Path => (told.contains("(modified src/a.txt: "), told.contains("src/a.txt: hello")),
        Place::Whole => (told.contains("merge.rejected"), told.contains("src/a.txt: hello")),
        Place::Undo => {
            let passed_over = told.contains("by human over ") && told.contains("said so (no)");
            let no = told.contains("undo refused: ") && told.contains("`fs.write` on `src/a.txt` is denied by `no`: said so");
            if no && !(passed_over && told.contains("call.refused") && told.ends_with("src/a.txt: hello\nsrc/a.txt: before\n")) {
                return Err(format!("the phrase does not take it back, or the record does not say so:\n{told}"));
            }
            (no, !told.contains("is denied by") && told.contains("src/a.txt: before"))
        }
    };
    match (no, yes) {
        (true, false) => Ok(true),
        (false, true) => Ok(false),
        _ => Err(format!("neither a yes nor a no:\n{told}")),
    }
}

fn check(row: &Row, place: Place, fits: bool) -> Result<(), String> {
    let story = story(row, place, fits);
    let told = testkit::scenario::tell(&story)?;
    let speaks = match row.elsewhere {
        Some((tool, _)) => place == Place::Call && !tool.is_empty(),
        None => true,
    };
    let expected = fits && speaks;
    match denied(place, &told)? {
        found if found == expected => Ok(()),
        _ => Err(format!("`{}` at the {place:?}: expected a {}\n{story}----\n{told}", row.field, if expected { "no" } else { "yes" })),
    }
}

fn complete() -> Result<(), String> {
    let rows: Vec<&str> = ROWS.iter().map(|row| row.field).collect();
    match policy::match_fields().find(|field| !rows.contains(field)) {
        Some(field) => Err(format!("`{field}` has no row")),
        None if rows.len() != policy::match_fields().count() => Err("a row names no field".into()),
        None => Ok(()),
    }
}

fn main() -> ExitCode {
    if let Some(ended) = harness::child() {
        return ended;
    }
    let mut tests = vec![Test::new("every_field_has_a_row", complete)];
    for row in ROWS {
        for place in [Place::Call, Place::Path, Place::Whole, Place::Undo] {
            for (fits, name) in [(true, "denies"), (false, "control")] {
                let name = format!("{}_at_the_{}_{name}", row.field, format!("{place:?}").to_lowercase());
                tests.push(Test::new(name, move || check(row, place, fits)));
            }
        }
    }
    harness::main(&tests)
}
