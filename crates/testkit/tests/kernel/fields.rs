//! Every field that a rule can match on means the same at the call, at the merge of a path, at the merge as a whole, and at the undo.
//!
//! One table. Each row is played at each place with a value that fits, where the rule must deny. The control is played once for all rows
//! whose call is the same: with values that do not fit, none of their rules may deny. A field of the rule type without a row is a failure.

use std::collections::BTreeMap;
use testkit::harness::Test;

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
    Row { operator: Some("operator"), ..row("caller", "worker.1", "somebody") },
    Row { operator: Some("operator"), ..row("caller_tag", "new_employee", "trusted_write") },
    Row { operator: Some("operator"), ..row("role", "foreman", "auditor") },
    row("user", "'?*'", "'no such user'"),
    row("zone", "'/?*'", "/elsewhere"),
    row("mode", "live", "dry_run"),
    row("workflow_state", "idle", "planning"),
    Row { elsewhere: Some(("", "")), ..row("session_mode", "strict", "explore") },
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
    let field = row.field;
    format!("  - {{ name: no-{field}, match: {{ {syscall}{field}: {value} }}, action: deny, reason: said so }}\n")
}

const ALL: &str = "  - { name: all, match: { syscall: '*' }, action: allow }";
const MERGES: &str = "  - { name: merges, match: { syscall: merge.apply }, action: require_review, reason: look }";

/// Writes against the rule by a program, which no rule about `fs.write` hears of. Something else is there to be merged in any case.
const PROGRAM: &str = "call shell.run command=[\"sh\",\"-c\",\"printf hello > src/a.txt; rm gone.txt\"]";

/// The story of one row whose value fits, or of several whose values do not and whose call is the same.
fn story(rows: &[&Row], place: Place, fits: bool) -> String {
    let value = |row: &Row| if fits { row.fits } else { row.misses };
    let rules = |tool: &str, value: &dyn Fn(&Row) -> &'static str| rows.iter().map(|row| rule(row, tool, value(row))).collect::<String>();
    let elsewhere = rows[0].elsewhere;
    let begin = "file src/a.txt before\nfile gone.txt gone\ntag new_employee\n";
    let merge =
        |rule: &str, human: &str| format!("{begin}policy\n{ALL}\n{MERGES}\n{rule}brain {PROGRAM}\nbrain done\n{human}show src/a.txt\n");
    match (place, elsewhere) {
        (Place::Call, Some((tool, line))) if !tool.is_empty() => {
            format!("{begin}policy\n{ALL}\n{}brain {line}\nbrain done\n", rules(tool, &value))
        }
        (Place::Call, _) => {
            let line = "call fs.write path=src/a.txt content=hello";
            format!("{begin}policy\n{ALL}\n{}brain {line}\nbrain done\n", rules("fs.write", &value))
        }
        (Place::Path, _) => merge(&rules("fs.write", &value), "human allow\n"),
        (Place::Whole, elsewhere) => {
            let value = |row: &Row| if row.field == "syscall" && fits { "merge.apply" } else { value(row) };
            let is_rejected = fits && elsewhere.is_none();
            merge(&rules("merge.apply", &value), if is_rejected { "" } else { "human allow\n" })
        }
        // In force only after the merge, or it would have stayed out.
        (Place::Undo, _) => {
            let value = |row: &Row| row.operator.filter(|_| fits).unwrap_or(value(row));
            let policy = format!("capabilities:\n{ALL}\n{MERGES}\n{}", rules("fs.write", &value)).replace('\n', "\\n");
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
            let passed_over = told.contains("by human over ") && told.contains("said so (no-");
            let no = told.contains("undo refused: ") && told.contains("`fs.write` on `src/a.txt` is denied by `no-");
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

fn check(rows: &[&Row], place: Place, fits: bool) -> Result<(), String> {
    let story = story(rows, place, fits);
    let told = testkit::scenario::tell(&story)?;
    let speaks = match rows[0].elsewhere {
        Some((tool, _)) => place == Place::Call && !tool.is_empty(),
        None => true,
    };
    let expected = fits && speaks;
    match denied(place, &told)? {
        found if found == expected => Ok(()),
        _ => Err(format!("at the {place:?}: expected a {}\n{story}----\n{told}", if expected { "no" } else { "yes" })),
    }
}

/// Rows whose call is the same at a place, by the name of that call.
fn by_call(place: Place) -> BTreeMap<&'static str, Vec<&'static Row>> {
    let mut groups: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in ROWS {
        let call = row.elsewhere.map(|(tool, _)| tool).filter(|tool| place == Place::Call && !tool.is_empty());
        groups.entry(call.unwrap_or("fs.write")).or_default().push(row);
    }
    groups
}

fn complete() -> Result<(), String> {
    let rows: Vec<&str> = ROWS.iter().map(|row| row.field).collect();
    match policy::match_fields().find(|field| !rows.contains(field)) {
        Some(field) => Err(format!("`{field}` has no row")),
        None if rows.len() != policy::match_fields().count() => Err("a row names no field".into()),
        None => Ok(()),
    }
}

pub fn tests() -> Vec<Test> {
    let mut tests = vec![Test::new("every_field_has_a_row", complete)];
    for place in [Place::Call, Place::Path, Place::Whole, Place::Undo] {
        let at = format!("at_the_{}", format!("{place:?}").to_lowercase());
        tests.extend(ROWS.iter().map(|row| Test::new(format!("{}_{at}_denies", row.field), move || check(&[row], place, true))));
        for (call, rows) in by_call(place) {
            tests.push(Test::new(format!("no_field_of_{call}_{at}_denies_what_it_does_not_fit"), move || check(&rows, place, false)));
        }
    }
    tests
}
