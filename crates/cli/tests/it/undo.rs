//! A merge is taken back, all of it in the end, and nothing that a person wrote is lost on the way.

use crate::common::{HOLDS, Site};
use serde_json::Value;

/// What the person had in a file and never committed is not lost when an undo finds the file edited: it can be read, and a later undo brings
/// it back.
#[test]
fn a_further_undo_takes_back_what_the_first_left() {
    let site = Site::new(&[(".skep/policy.yaml", HOLDS), ("a.txt", "old\n")]);
    site.trust();
    site.write("a.txt", "mine, not committed\n");
    let script = "call fs.write path=a.txt content=\"the task's\\n\"\ncall fs.write path=b.txt content=\"b\\n\"\ndone\n";
    site.ok(&["act", "write", "--brain", &site.script(script), "--await"]);
    site.ok(&["merge", "task-1", "--yes"]);
    assert_eq!(site.read("a.txt"), "the task's\n");
    assert_eq!(site.ok(&["diff", "task-1", "--file", "a.txt", "--before"]), "mine, not committed\n");
    site.write("a.txt", "edited after it\n");
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let listed = || words(site.ok(&["merge", "list"]));
    let said = words(site.fails(9, &["merge", "undo", "task-1"]));
    assert!(said.contains("took back 1 file") && said.contains("○ a.txt") && said.contains("`skep merge undo task-1` goes on"), "{said}");
    assert!(listed().contains("taken back 1 file, 1 left as it is"), "{}", listed());
    let status = || words(site.ok(&["status"]));
    assert!(status().contains("merge taken back but for 1 file"), "{}", status());
    assert_eq!((site.read("a.txt").as_str(), site.project().join("b.txt").exists()), ("edited after it\n", false));
    // As often as it is tried, and across a restart: nothing is forgotten, and nothing is overwritten.
    let said = site.fails(9, &["merge", "undo", "task-1"]);
    assert!(said.contains("✗ took nothing back") && said.contains("skep diff task-1 --file a.txt --before"), "{said}");
    site.ok(&["kernel", "restart"]);
    assert_eq!(site.ok(&["diff", "task-1", "--file", "a.txt", "--before"]), "mine, not committed\n");
    assert_eq!(site.ok(&["diff", "task-1", "--file", "a.txt"]), "the task's\n");
    assert!(listed().contains("taken back 1 file, 1 left as it is"), "{}", listed());
    // Dropping the task's changes takes nothing of the person's.
    site.ok(&["drop", "task-1", "--yes"]);
    assert_eq!(site.ok(&["diff", "task-1", "--file", "a.txt", "--before"]), "mine, not committed\n");
    site.write("a.txt", "the task's\n");
    assert!(site.ok(&["merge", "undo", "task-1"]).contains("took back 1 file"));
    assert_eq!(site.read("a.txt"), "mine, not committed\n");
    assert!(listed().contains("taken back 2 files") && !listed().contains("left"), "{}", listed());
    assert!(status().contains("merge taken back") && !status().contains("but for"), "{}", status());
    assert!(site.fails(9, &["merge", "undo", "task-1"]).contains("was taken back already"));
    assert_eq!(site.ok(&["diff", "task-1", "--file", "b.txt", "--before"]), "", "there was none");
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
}
