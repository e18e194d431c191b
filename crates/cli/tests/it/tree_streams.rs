//! Streams of bytes between a parent and its child, with real Python agents.

use crate::tree_site::TreeSite;
use serde_json::{Value, json};

const PIECE: u64 = 65_536;

fn opens(tree: &TreeSite) -> u64 {
    tree.spawn(&["opens", "--role", "lead", "--tier", "tactical", "--python", "streams:Opens"])
}

/// The records of streams, once so many are closed.
fn streams(tree: &TreeSite, count: usize) -> (Vec<Value>, Vec<Value>) {
    tree.until("the end of each is on record", || tree.records("stream.closed").len() == count);
    (tree.records("stream.opened"), tree.records("stream.closed"))
}

#[test]
fn bytes_pass_between_a_parent_and_its_child_and_are_counted() {
    let tree = TreeSite::new("");
    let parent = opens(&tree);
    let bytes = 100 * PIECE;
    assert_eq!(tree.exec("opens", &["echo"]), format!("{bytes} back, the same, child {bytes}"));
    let (opened, closed) = streams(&tree, 1);
    let child = parent + 1;
    let ends = [opened[0]["pid"].as_u64(), opened[0]["peer"].as_u64()];
    assert!(ends == [Some(parent), Some(child)] || ends == [Some(child), Some(parent)], "{opened:?}");
    assert_eq!((&opened[0]["name"], &opened[0]["stream"], &closed[0]["stream"]), (&json!("data"), &json!("stream-1"), &json!("stream-1")));
    assert_eq!((&closed[0]["sent"], &closed[0]["received"]), (&json!(bytes), &json!(bytes)));
    assert_eq!(closed[0]["why"], "both ends have finished");
    let calls = tree.records("call.admitted").into_iter().filter(|call| call["tool"] == "stream.open").count();
    assert_eq!(calls, 2, "each end was judged");
    tree.ends_clean();
}

#[test]
fn a_reader_that_does_not_read_holds_up_the_writer_and_no_memory() {
    let tree = TreeSite::new("");
    opens(&tree);
    let said = tree.exec("opens", &["hold"]);
    let numbers: Vec<u64> = said.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect();
    let [held, all, back, read] = numbers[..] else { panic!("{said}") };
    // Windows and buffers of both agents and of two sockets lie on the way; the kernel itself has a few pieces.
    assert!((4 * PIECE..16 << 20).contains(&held), "{said}");
    assert_eq!((read, back), (all, 0), "nothing of it is lost: {said}");
    let (_, closed) = streams(&tree, 2);
    assert!(closed.iter().any(|closed| [&closed["sent"], &closed["received"]].contains(&&json!(all))), "{closed:?}");
    tree.ends_clean();
}

#[test]
fn a_stream_ends_with_either_end() {
    let tree = TreeSite::new("");
    let parent = opens(&tree);
    for (nth, how) in ["leave", "die"].into_iter().enumerate() {
        let child = parent + 1 + nth as u64;
        assert_eq!(tree.exec("opens", &[how]), format!("stream failed: the stream is closed: process {child} closed it"), "{how}");
        let (_, closed) = streams(&tree, nth + 1);
        assert_eq!(closed[nth]["why"], json!(format!("process {child} closed it")));
    }
    tree.ends_clean();
}

#[test]
fn a_stream_leads_to_a_parent_or_a_child_alone_and_both_open_it() {
    let tree = TreeSite::new("");
    let parent = opens(&tree);
    let sibling = tree.spawn(&["sibling", "--role", "worker", "--python", "shows:Worker"]);
    let child = tree.spawn(&["kid", "--role", "lead", "--parent", "opens"]);
    let grandchild = tree.spawn(&["grandkid", "--role", "worker", "--parent", "kid"]);
    for other in [sibling, grandchild, parent, 1_000] {
        let said = tree.exec("opens", &["x", "--param", &format!("to={other}")]);
        let expected = if other == 1_000 { "process 1000 not found" } else { "a stream of bytes leads from a parent to its child" };
        assert!(said.contains(expected), "{other}: {said}");
    }
    let alone = tree.exec("opens", &["x", "--param", &format!("to={child}")]);
    assert!(alone.contains(&format!("process {child} did not open the stream `data` within 1 s")), "{alone}");
    let nameless = tree.exec("opens", &["x", "--param", &format!("to={child}"), "--param", "name="]);
    assert!(nameless.contains("the name of a stream is a word"), "{nameless}");
    assert!(tree.records("stream.opened").is_empty());
    tree.ends_clean();
}

#[test]
fn a_stream_that_a_crash_cut_off_is_closed_at_the_next_start() {
    let mut tree = TreeSite::new("");
    opens(&tree);
    let mut run = tree.exec_beside("opens", &["hold"]);
    tree.until("it is open", || !tree.records("stream.opened").is_empty());
    tree.kill();
    run.kill().unwrap();
    run.wait().unwrap();
    tree.start();
    let (opened, closed) = streams(&tree, 1);
    assert_eq!((opened.len(), &closed[0]["sent"], &closed[0]["why"]), (1, &Value::Null, &json!("the kernel ended")));
    tree.ends_clean();
}
