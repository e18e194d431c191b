//! Every kind of event is told twice: by a row of the glossary, and by a scenario.
//!
//! A kind that no scenario can tell stands in `ELSEWHERE`, with the reason and the test that names it instead.

use anyhow::{Context, Result, ensure};
use std::path::Path;

/// Kinds without a scenario: the test that names each, from the workspace's root, and why no scenario can.
const ELSEWHERE: &[Elsewhere] = &[
    Elsewhere { kind: "journal.resealed", test: "crates/cli/tests/it/doubt.rs", _why: DIES },
    Elsewhere { kind: "call.lost", test: "crates/cli/tests/it/crash.rs", _why: DIES },
    Elsewhere { kind: "model.held", test: "crates/cli/tests/it/bill.rs", _why: DIES },
    Elsewhere { kind: "budget.lost", test: "crates/cli/tests/it/lease.rs", _why: "this version reads it and does not write it" },
    Elsewhere {
        kind: "workspace.based",
        test: "crates/cli/tests/it/crash.rs",
        _why: "it comes when the base is read, at another place each time",
    },
    Elsewhere {
        kind: "brain.transcribed",
        test: "crates/cli/tests/it/brains.rs",
        _why: "it comes when enough lines have come, at another place each time",
    },
    Elsewhere { kind: "brain.served", test: "crates/cli/tests/it/live_clients.rs", _why: "it names a process of the machine" },
    Elsewhere { kind: "commits.imported", test: "crates/cli/tests/it/live_clients.rs", _why: OBJECT },
    Elsewhere { kind: "commits.refused", test: "crates/cli/tests/it/live_clients.rs", _why: OBJECT },
    Elsewhere { kind: "worker.enrolled", test: "crates/cli/tests/it/who.rs", _why: COMMAND },
    Elsewhere { kind: "worker.pinned", test: "crates/cli/tests/it/prompt.rs", _why: COMMAND },
    Elsewhere { kind: "queue.paused", test: "crates/cli/tests/it/queue.rs", _why: COMMAND },
    Elsewhere { kind: "queue.resumed", test: "crates/cli/tests/it/queue.rs", _why: COMMAND },
    Elsewhere { kind: "task.scheduled", test: "crates/cli/tests/it/queue.rs", _why: COMMAND },
    Elsewhere { kind: "task.prioritized", test: "crates/cli/tests/it/queue.rs", _why: COMMAND },
    Elsewhere { kind: "task.paused", test: "crates/cli/tests/it/queue.rs", _why: COMMAND },
    Elsewhere { kind: "zone.closed", test: "crates/cli/tests/it/sites.rs", _why: COMMAND },
    Elsewhere { kind: "task.tried", test: "crates/cli/tests/it/merge.rs", _why: COMMAND },
    Elsewhere { kind: "brain.talked", test: "crates/cli/tests/it/talk.rs", _why: COMMAND },
    Elsewhere { kind: "blob.forgotten", test: "crates/cli/tests/it/doubt.rs", _why: COMMAND },
    Elsewhere { kind: "call.retried", test: "crates/testkit/tests/kernel/door/web.rs", _why: "it needs a server that fails once" },
    Elsewhere { kind: "budget.warned", test: "crates/cli/tests/it/gateway.rs", _why: MODEL },
    Elsewhere { kind: "budget.asked", test: "crates/cli/tests/it/spending.rs", _why: MODEL },
    Elsewhere { kind: "budget.returned", test: "crates/cli/tests/it/gateway.rs", _why: MODEL },
    Elsewhere { kind: "budget.reconciled", test: "crates/cli/tests/it/bill.rs", _why: MODEL },
    Elsewhere { kind: "model.released", test: "crates/cli/tests/it/bill.rs", _why: MODEL },
    Elsewhere {
        kind: "merge.uncommitted",
        test: "crates/cli/tests/it/mergeplus.rs",
        _why: "another git must hold the index between the yes and the commit",
    },
    Elsewhere { kind: "config.loaded", test: "crates/cli/tests/it/setup.rs", _why: FILES },
    Elsewhere { kind: "policy.home_updated", test: "crates/cli/tests/it/home_policy.rs", _why: FILES },
    Elsewhere { kind: "config.rejected", test: "crates/cli/tests/it/setup.rs", _why: FILES },
    Elsewhere { kind: "proc.started", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "proc.slept", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "proc.woken", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "proc.blocked", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "proc.unblocked", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "proc.crashed", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "proc.restarting", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "proc.adopted", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "proc.collected", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "proc.reported", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "proc.logged", test: "crates/testkit/tests/kernel/mail.rs", _why: TREE },
    Elsewhere { kind: "message.sent", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "message.delivered", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "message.answered", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "message.dropped", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "artifact.stored", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "artifact.removed", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "escalation.raised", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "escalation.passed", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "escalation.handled", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "resource.asked", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "resource.given", test: "crates/world/tests/tree/main.rs", _why: TREE },
    Elsewhere { kind: "cron.added", test: "crates/world/tests/tree/shared.rs", _why: TREE },
    Elsewhere { kind: "stream.opened", test: "crates/world/tests/tree/shared.rs", _why: TREE },
    Elsewhere { kind: "stream.closed", test: "crates/world/tests/tree/shared.rs", _why: TREE },
    Elsewhere { kind: "cron.removed", test: "crates/world/tests/tree/shared.rs", _why: TREE },
    Elsewhere { kind: "cron.fired", test: "crates/world/tests/tree/shared.rs", _why: TREE },
    Elsewhere { kind: "cron.ended", test: "crates/world/tests/tree/shared.rs", _why: TREE },
    Elsewhere { kind: "task.taken", test: "crates/world/tests/tree/lifecycle.rs", _why: TREE },
    Elsewhere { kind: "proc.signalled", test: "crates/world/tests/tree/lifecycle.rs", _why: TREE },
    Elsewhere { kind: "proc.snapshotted", test: "crates/world/tests/tree/lifecycle.rs", _why: TREE },
];

const TREE: &str = "it comes of programs of the process tree, which scenarios have no word for";
const DIES: &str = "a kernel must die for it, and a scenario's lives in the test's own process";
const COMMAND: &str = "it comes of a command that scenarios have no word for";
const FILES: &str = "it comes of a change in the home while the kernel runs";
const OBJECT: &str = "it names a commit, which is another one each time";
const MODEL: &str = "it needs a request of a certain size, a client that hangs up, or a bill";

/// A kind that a test tells.
#[derive(Clone, Copy)]
struct Elsewhere {
    kind: &'static str,
    test: &'static str,
    /// For whoever reads this list.
    _why: &'static str,
}

pub fn check(root: &Path) -> Result<Vec<String>> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).with_context(|| format!("{path} cannot be read"));
    let kinds = kinds(&read("crates/world/src/event.rs")?);
    ensure!(!kinds.is_empty(), "crates/world/src/event.rs names no events");
    let mut stories = Vec::new();
    for entry in std::fs::read_dir(root.join("crates/testkit/scenarios"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "scn") {
            stories.push(std::fs::read_to_string(&path)?);
        }
    }
    let told = told(&stories);
    let mut elsewhere = Vec::new();
    for entry in ELSEWHERE {
        elsewhere.push((entry.kind, entry.test, read(entry.test)?));
    }
    Ok(complaints(&kinds, &read("docs/GLOSSARY.md")?, &told, &elsewhere))
}

/// The wire names of the table `events!`: each row reads `Name = "kind", Weight {`.
fn kinds(text: &str) -> Vec<String> {
    let table = text.split_once("\nevents! {").map_or("", |(_, table)| table);
    let table = table.split_once("\n}").map_or(table, |(table, _)| table);
    let rows = table.lines().filter_map(|line| line.trim().split_once(" = \""));
    let named =
        rows.filter(|(name, _)| name.starts_with(|letter: char| letter.is_ascii_uppercase()) && name.chars().all(char::is_alphanumeric));
    named.filter_map(|(_, rest)| rest.split_once('"').map(|(kind, _)| kind.to_owned())).collect()
}

/// The kinds that scenarios tell: the second word of each line below `----`.
fn told(stories: &[String]) -> Vec<String> {
    let journals = stories.iter().filter_map(|story| story.split_once("\n----\n").map(|(_, journal)| journal));
    journals.flat_map(str::lines).filter_map(|line| line.split_whitespace().nth(1)).map(ToOwned::to_owned).collect()
}

/// Does a test name the kind, as the journal or as Rust spells it?
fn names(test: &str, kind: &str) -> bool {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    test.contains(kind) || test.contains(&kind.split(['.', '_']).map(capital).collect::<String>())
}

fn complaints(kinds: &[String], glossary: &str, told: &[String], elsewhere: &[(&str, &str, String)]) -> Vec<String> {
    let mut complaints = Vec::new();
    for kind in kinds {
        match glossary.lines().filter(|line| line.starts_with(&format!("| `{kind}` |"))).count() {
            0 => complaints.push(format!("the event `{kind}` has no row in docs/GLOSSARY.md")),
            1 => {}
            rows => complaints.push(format!("the event `{kind}` has {rows} rows in docs/GLOSSARY.md")),
        }
        let entry = elsewhere.iter().find(|(other, ..)| other == kind);
        match (told.contains(kind), entry) {
            (false, None) => complaints.push(format!("no scenario tells the event `{kind}`")),
            (false, Some((_, test, text))) if !names(text, kind) => {
                complaints.push(format!("the event `{kind}` should be told by {test}, which does not name it"));
            }
            (true, Some(_)) => complaints.push(format!("a scenario tells the event `{kind}`: take it out of the list in {}", file!())),
            (true, None) | (false, Some(_)) => {}
        }
    }
    let gone = elsewhere.iter().filter(|(kind, ..)| !kinds.iter().any(|other| other == kind));
    complaints.extend(gone.map(|(kind, ..)| format!("there is no event `{kind}`: take it out of the list in {}", file!())));
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_read_from_the_table() {
        let table = "macro_rules! events { ($a) => { A = \"no\" } }\nevents! {\n    /// One.\n    TaskQueued = \"task.queued\", Fact { zone: ZoneId }\n\
                     \x20   CallLost = \"call.lost\", Security {\n        #[serde(rename = \"x\")]\n        a: u8,\n    }\n}\nconst B: &str = \"b\";";
        assert_eq!(kinds(table), ["task.queued", "call.lost"]);
        let real = std::fs::read_to_string(crate::run::root().join("crates/world/src/event.rs")).unwrap();
        assert!(kinds(&real).iter().any(|kind| kind == "records.dropped"), "{:?}", kinds(&real));
    }

    #[test]
    fn a_kind_that_is_not_told_is_found() {
        let kinds: Vec<String> = ["task.queued", "call.lost"].map(ToOwned::to_owned).into();
        let told = told(&["brain done\n----\n1  task.queued       p3 act\n".to_owned(), "no line\n1 call.lost p3".to_owned()]);
        assert_eq!(told, ["task.queued"]);
        let rows = "| `task.queued` | work waits |\n| `call.lost` | no outcome |\n";
        let check = |rows: &str, elsewhere: &[(&str, &str, String)]| complaints(&kinds, rows, &told, elsewhere);
        assert_eq!(check(rows, &[("call.lost", "crash.rs", "CallLost(_)".to_owned())]), Vec::<String>::new());
        assert_eq!(check(rows, &[]), ["no scenario tells the event `call.lost`"]);
        assert_eq!(check("| `task.queued` | x |\n", &[]).len(), 2);
        let twice = format!("{rows}| `task.queued` | the same again |\n");
        assert_eq!(
            check(&twice, &[("call.lost", "crash.rs", "CallLost(_)".to_owned())]),
            ["the event `task.queued` has 2 rows in docs/GLOSSARY.md"]
        );
        assert_eq!(check(rows, &[("call.lost", "crash.rs", "nothing".to_owned())]).len(), 1);
        assert_eq!(
            check(rows, &[("call.lost", "a.rs", "call.lost".to_owned()), ("task.queued", "b.rs", "task.queued".to_owned())]).len(),
            1
        );
        assert_eq!(check(rows, &[("call.lost", "a.rs", "call.lost".to_owned()), ("no.event", "b.rs", String::new())]).len(), 1);
    }
}
