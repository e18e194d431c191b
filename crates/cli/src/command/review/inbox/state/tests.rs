use super::*;
use serde_json::{Value, json};
use wire::ErrorCode;

pub fn view(id: u64) -> ReviewView {
    serde_json::from_value(json!({
        "review": format!("r-{id}"), "pid": 3, "process": "worker.1", "task": "task-1", "tool": "fs.write",
        "input": {"path": "src/a.rs"}, "reasons": ["asks before src"], "rules": ["protect-src"], "asked_ms": 0, "state": "open",
    }))
    .unwrap()
}

/// An inbox with these questions, the first in sight since long ago.
pub fn inbox(ids: &[u64]) -> Inbox {
    let mut inbox = Inbox::default();
    inbox.refresh(ids.iter().map(|id| view(*id)).collect());
    fetch(&mut inbox, 0);
    inbox
}

fn fetch(inbox: &mut Inbox, now_ms: i64) {
    if let Some(id) = inbox.wanted() {
        inbox.show(view(id.0), None, now_ms);
        inbox.saw_all();
    }
}

fn press(inbox: &mut Inbox, keys: &str) -> Vec<Value> {
    let acts = keys.chars().filter_map(|c| inbox.key(&if c == '\n' { KeyPress::Enter } else { KeyPress::Char(c) }, 10_000));
    acts.map(|act| match act {
        InboxAction::Answer(params) => serde_json::to_value(params).unwrap(),
        InboxAction::Quit => json!("quit"),
    })
    .collect()
}

#[test]
fn each_key_is_one_answer() {
    for (keys, expected) in [
        ("a", json!({"review": "r-1", "answer": "allow"})),
        ("s", json!({"review": "r-1", "answer": "allow", "reach": "session"})),
        ("z", json!({"review": "r-1", "answer": "allow", "reach": "zone"})),
        ("g", json!({"review": "r-1", "answer": "allow", "reach": "all"})),
        ("cout/**\n\n\n\n\n", json!({"review": "r-1", "answer": "allow", "terms": {"constraints": {"writable_paths": ["out/**"]}}})),
        ("o\n\n", json!({"review": "r-1", "answer": "allow", "terms": {"observe": "basic"}})),
        ("dno\n", json!({"review": "r-1", "answer": "deny", "reason": "no"})),
        ("D\nall\n", json!({"review": "r-1", "answer": "deny", "reach": "all"})),
        ("ifs.read path=a\n\n", json!({"review": "r-1", "answer": "deny", "alternative": {"tool": "fs.read", "input": {"path": "a"}}})),
        ("q", json!("quit")),
    ] {
        assert_eq!(press(&mut inbox(&[1, 2]), keys), [expected], "{keys:?}");
    }
    assert_eq!(press(&mut inbox(&[1]), "xyAGS1\n"), Vec::<Value>::new());
    assert_eq!(press(&mut inbox(&[]), "asgcodDinp"), Vec::<Value>::new());
}

#[test]
fn a_merge_is_sent_back_with_a_comment_and_nothing_else_is() {
    let mut merge = view(1);
    merge.tool = APPLY_TOOL.into();
    let mut inbox = Inbox::default();
    inbox.refresh(vec![merge.clone()]);
    inbox.show(merge, None, 0);
    // It says yes to nothing, so not every line must have been in sight; but it says something.
    assert_eq!(press(&mut inbox, "e\n"), Vec::<Value>::new());
    assert_eq!(press(&mut inbox, "add a test\n"), [json!({"review": "r-1", "answer": "changes", "reason": "add a test"})]);
    assert_eq!(press(&mut self::inbox(&[1]), "eno\n"), Vec::<Value>::new());
}

#[test]
fn a_yes_counts_when_every_line_was_in_sight() {
    let mut inbox = inbox(&[1]);
    let mut cut = view(1);
    (cut.cut, cut.seen) = (true, Some("0a1b2c3d".into()));
    inbox.show(cut, None, 0);
    assert_eq!(press(&mut inbox, "asgco"), Vec::<Value>::new(), "nothing was drawn yet");
    inbox.in_sight(40, 30, 0, 10);
    assert_eq!(press(&mut inbox, "a"), Vec::<Value>::new());
    assert_eq!(inbox.notice.as_ref().unwrap().text, "a yes covers all of it: page to its end first (space); 10 of 30 lines were in sight");
    // A jump over lines shows the end and not what is between.
    inbox.in_sight(40, 30, 20, 10);
    assert_eq!(press(&mut inbox, "sgco"), Vec::<Value>::new());
    inbox.in_sight(40, 30, 10, 10);
    // Another width breaks the lines anew.
    inbox.in_sight(20, 60, 50, 10);
    assert_eq!(press(&mut inbox, "a"), Vec::<Value>::new());
    (0..6).for_each(|page| inbox.in_sight(20, 60, page * 10, 10));
    assert_eq!(press(&mut inbox, "a"), [json!({"review": "r-1", "answer": "allow", "seen": "0a1b2c3d"})]);
    assert_eq!(
        press(&mut inbox, "o\n\n"),
        [json!({"review": "r-1", "answer": "allow", "seen": "0a1b2c3d", "terms": {"observe": "basic"}})]
    );
    inbox.in_sight(30, 60, 0, 10);
    assert_eq!(press(&mut inbox, "dno\n"), [json!({"review": "r-1", "answer": "deny", "reason": "no"})], "a no needs no look");
    let mut lost = view(1);
    (lost.cut, lost.lost, lost.seen) = (true, true, Some("0a1b2c3d".into()));
    inbox.show(lost, None, 0);
    inbox.saw_all();
    assert_eq!(press(&mut inbox, "a"), Vec::<Value>::new());
    assert!(inbox.notice.as_ref().unwrap().text.contains("skep review show r-1 --full"));
}

#[test]
fn only_keys_that_make_sense_answer() {
    let mut inbox = inbox(&[1]);
    assert_eq!(inbox.answers(), ['a', 's', 'z', 'g', 'd', 'c', 'o', 'D', 'i']);
    let mut merge = view(1);
    (merge.tool, merge.like) = (APPLY_TOOL.into(), Some(CallPattern::Exact { tool: APPLY_TOOL.into(), bind: "b".into() }));
    inbox.show(merge, None, 0);
    inbox.saw_all();
    assert_eq!(inbox.answers(), ['a', 'd', 'e']);
    assert_eq!((press(&mut inbox, "szgcoDi"), inbox.form.is_none()), (Vec::new(), true), "what is not offered does nothing");
    assert_eq!(press(&mut inbox, "a"), [json!({"review": "r-1", "answer": "allow"})]);
    let mut exact = view(1);
    exact.like = Some(CallPattern::Exact { tool: "fs.write".into(), bind: "b".into() });
    inbox.show(exact, None, 0);
    assert_eq!(inbox.answers(), ['a', 'd', 'c', 'o', 'i']);
    let mut lost = view(1);
    lost.lost = true;
    inbox.show(lost, None, 0);
    assert_eq!(inbox.answers(), ['d', 'D', 'i']);
}

#[test]
fn help_details_and_search_answer_nothing() {
    let mut inbox = inbox(&[1]);
    assert_eq!(press(&mut inbox, "?a"), Vec::<Value>::new(), "the key that closes the help is no answer");
    assert!(!inbox.is_helping);
    press(&mut inbox, "m");
    assert!(inbox.is_detailed);
    assert_eq!(press(&mut inbox, "/agd"), Vec::<Value>::new());
    assert_eq!((inbox.search.text.as_str(), inbox.search.is_wanted), ("agd", false));
    press(&mut inbox, "\n");
    assert!(inbox.search.is_wanted && !inbox.search.is_typing);
    press(&mut inbox, "jjjk");
    assert_eq!(inbox.scroll, 2);
}

#[test]
fn one_turns_the_pages() {
    let mut inbox = inbox(&[1, 2, 3]);
    press(&mut inbox, "pnn");
    assert_eq!(inbox.wanted(), Some(ReviewId(3)));
    fetch(&mut inbox, 0);
    press(&mut inbox, "nn");
    assert_eq!(press(&mut inbox, "a")[0]["review"], "r-3");
    assert!(inbox.key(&KeyPress::Interrupt, 0) == Some(InboxAction::Quit));
}

#[test]
fn what_has_not_been_seen_is_not_answered() {
    let mut inbox = inbox(&[1, 2]);
    assert!(inbox.key(&KeyPress::Char('n'), 1_000).is_none());
    assert_eq!(inbox.key(&KeyPress::Char('a'), 1_000), None, "r-2 is not fetched yet");
    fetch(&mut inbox, 1_000);
    assert_eq!(inbox.key(&KeyPress::Char('a'), 1_000 + SIGHT_MS - 1), None);
    assert!(matches!(inbox.key(&KeyPress::Char('a'), 1_000 + SIGHT_MS), Some(InboxAction::Answer(params)) if params.review == ReviewId(2)));
    assert_eq!(inbox.key(&KeyPress::Paste("a".into()), 10_000), None, "pasted text is no answer");
}

#[test]
fn an_answer_of_ours_moves_on() {
    let mut inbox = inbox(&[1, 2]);
    let params = ReviewAnswerParams { reach: Some(AnswerReach::Session), ..exactly(ReviewId(1), Answer::Allow) };
    inbox.took(view(1), &params);
    assert_eq!((inbox.wanted(), inbox.said.len()), (Some(ReviewId(2)), 1));
    assert!(inbox.notice.as_ref().is_some_and(|notice| notice.text.starts_with("r-1 allowed for this task; ")));
    assert_eq!(inbox.refresh(vec![view(2)]), None, "our own answer is no news");
}

#[test]
fn somebody_elses_answer_is_said_and_the_form_is_gone() {
    let mut inbox = inbox(&[1, 2]);
    press(&mut inbox, "dhalf a rea");
    assert_eq!(inbox.refresh(vec![view(2), view(3)]), Some(ReviewId(1)));
    let mut gone = view(1);
    (gone.state, gone.answer, gone.by) = (ReviewStatus::Answered, Some(Answer::Allow), Some("ann".into()));
    inbox.gone(&gone);
    assert_eq!(inbox.notice.as_ref().unwrap().text, "r-1 was allowed by ann meanwhile");
    assert_eq!((inbox.wanted(), inbox.form.is_none()), (Some(ReviewId(2)), true));
    fetch(&mut inbox, 10_000);
    assert_eq!(press(&mut inbox, "son"), Vec::<Value>::new(), "the rest of the reason answers nothing");
}

#[test]
fn news_about_others_do_not_disturb() {
    let mut inbox = inbox(&[1]);
    press(&mut inbox, "dbecause");
    assert_eq!(inbox.refresh(vec![view(1), view(2)]), None);
    assert_eq!(press(&mut inbox, "\n")[0]["reason"], "because");
    let mut empty = self::inbox(&[]);
    assert_eq!((empty.refresh(vec![view(7)]), empty.wanted()), (None, Some(ReviewId(7))));
}

#[test]
fn a_refused_answer_says_why_and_the_question_stays() {
    let mut inbox = inbox(&[1]);
    inbox.refused(&CommandError::new(ErrorCode::WrongState, "r-1 was answered by ann").fix("look again"));
    assert_eq!(inbox.notice.as_ref().unwrap().text, "r-1 was answered by ann: look again");
    assert_eq!(inbox.current().unwrap().review, ReviewId(1));
}
