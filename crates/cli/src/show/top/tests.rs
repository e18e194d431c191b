//! The picture at the two sizes that people have, and at sizes that nobody should.

use super::*;
use crate::command::review::inbox::state::tests::{inbox, view};
use crate::command::top::state::TopStory;
use crate::command::top::state::tests::top;
use crate::record::ParsedRecord;
use crate::record::tests::line;
use crate::terminal::key::KeyPress;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::Modifier;
use wire::event::BrainSaid;
use wire::{CallPattern, Pid, TaskId};

fn shown(top: &mut Top, columns: u16, rows: u16, colour: bool) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(frame, top, colour, 10_000)).unwrap();
    terminal.backend().clone()
}

fn text(top: &mut Top, columns: u16, rows: u16) -> String {
    let backend = shown(top, columns, rows, false);
    let cells = backend.buffer().content();
    let mut text = String::new();
    for row in cells.chunks(usize::from(columns)) {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn told(top: &mut Top, count: u64) {
    let said = |n: u64| {
        let event = BrainSaid { pid: Pid(3), task: Some(TaskId(7)), text: format!("step {n} \x1b[2J") };
        ParsedRecord::parse(&line(n, event)).unwrap()
    };
    top.story = TopStory::of(TaskId(7), &(1..=count).map(said).collect::<Vec<_>>());
}

#[test]
fn the_board_on_a_screen_of_80_by_24() {
    let mut top = top();
    told(&mut top, 3);
    let expected = "\
skep top  1 running, 1 queued, nothing waits for you
  process         state    task      tokens    cost  context    memory   cpu
  ● kernel        running  —              —       —        —   24.0 MB     —
  ├ ○ operator    idle     —              —       —        —         —     —
› ├ ● worker.1    running  task-7     12.3k   $0.04        —  120.0 MB   50%
  │ └ ◍ helper.1  paused   —              —       —        —         —     —
  └ ◍ worker.2    waits    task-8       900       —        —         —     —
 transcript task-7 ─────────────────────────────────────────────────────────────
  › step 1 \\x1b[2J
  › step 2 \\x1b[2J
  › step 3 \\x1b[2J












[x] end  [p]ause  [t]alk  [r]eviews  [enter] read  [/] filter  [?] keys  [q]uit
";
    assert_eq!(text(&mut top, 80, 24), expected);
}

/// Somebody's merge waits, with its diff.
fn asked(top: &mut Top) {
    let mut merge = view(1);
    (merge.tool, merge.like) = ("merge.apply".into(), Some(CallPattern::Exact { tool: "merge.apply".into(), bind: "b".into() }));
    merge.input = serde_json::json!({"changes": [{"path": "src/flag.rs"}], "left_out": 0, "digest": "d"});
    merge.diff = Some("--- a/src/flag.rs\n+++ b/src/flag.rs\n@@ -1,1 +1,2 @@\n fn main() {}\n+// a flag\n".into());
    top.inbox = inbox(&[1]);
    top.inbox.show(merge, None, 0);
}

#[test]
fn the_board_on_a_screen_of_120_by_40() {
    let mut top = top();
    told(&mut top, 2);
    asked(&mut top);
    let drawn = text(&mut top, 120, 40);
    let expected = "\
skep top  1 running, 1 queued, 1 question (r answers)
  process         state    task      tokens    cost  context    memory   cpu  prompt
  ● kernel        running  —              —       —        —   24.0 MB     —
  ├ ○ operator    idle     —              —       —        —         —     —
› ├ ● worker.1    running  task-7     12.3k   $0.04        —  120.0 MB   50%  implement auth
  │ └ ◍ helper.1  paused   —              —       —        —         —     —
  └ ◍ worker.2    waits    task-8       900       —        —         —     —  explain the parser
 transcript task-7 ─────────────────────────────────────────  questions ────────────────────────────────────────────────
  › step 1 \\x1b[2J                                           inbox  1 of 1 question
  › step 2 \\x1b[2J
                                                             ◍ r-1  Merging 1 file  10s ago
                                                               why      asks before src (rule protect-src)
                                                               --- a/src/flag.rs
                                                               +++ b/src/flag.rs
                                                               @@ -1,1 +1,2 @@
                                                                fn main() {}
                                                               +// a flag
";
    let (shown, rest) = drawn.split_at(expected.len());
    assert_eq!(shown, expected);
    let keys = "[x] end  [p]ause  [t]alk  [r]eviews  [enter] read  [/] filter  [?] keys  [q]uit";
    assert_eq!((rest.trim(), drawn.lines().count()), (keys, 40));
    top.key(&KeyPress::Char('r'), 10_000);
    let drawn = text(&mut top, 120, 40);
    assert!(
        drawn.contains("worker.1") && drawn.contains("step 2") && drawn.contains("[a]llow this merge  [d]eny  [e] send back…"),
        "{drawn}"
    );
}

#[test]
fn on_a_narrow_screen_the_questions_take_its_place_while_they_have_the_keys() {
    let mut top = top();
    told(&mut top, 2);
    asked(&mut top);
    let before = text(&mut top, 80, 24);
    assert!(before.contains("1 question (r answers)") && !before.contains("+// a flag"), "{before}");
    top.key(&KeyPress::Char('r'), 10_000);
    let after = text(&mut top, 80, 24);
    for part in [
        "› questions ─",
        "inbox  1 of 1 question",
        "+// a flag",
        "[a]llow this merge  [d]eny  [e] send back…",
        "[tab] back to the processes",
    ] {
        assert!(after.contains(part), "`{part}` is not in:\n{after}");
    }
    assert!(!after.contains("worker.1  "), "{after}");
}

#[test]
fn what_is_asked_typed_and_explained_stands_at_the_foot() {
    let mut top = top();
    let last = |top: &mut Top| text(top, 80, 24).lines().last().unwrap().to_owned();
    top.key(&KeyPress::Char('x'), 0);
    assert_eq!(last(&mut top), "◍ end task-7 of worker.1? its changes are kept  [y]es, any other key: no");
    top.key(&KeyPress::Escape, 0);
    "/idle".chars().for_each(|c| drop(top.key(&KeyPress::Char(c), 0)));
    assert_eq!(last(&mut top), "/idle▏  enter keeps it, esc shows all");
    let filtered = text(&mut top, 80, 24);
    assert!(filtered.contains("› └ ○ operator") && !filtered.contains("worker.1"), "{filtered}");
    "xyz".chars().for_each(|c| drop(top.key(&KeyPress::Char(c), 0)));
    assert!(text(&mut top, 80, 24).contains("no process has this text; esc shows all"));
    top.key(&KeyPress::Escape, 0);
    top.key(&KeyPress::Char('?'), 0);
    let help = text(&mut top, 80, 24);
    assert!(
        help.contains("  x        end the task of the selected worker; asks first\n") && help.ends_with("any key goes back\n"),
        "{help}"
    );
    assert!(!help.contains('…'), "all of it fits:\n{help}");
}

#[test]
fn a_transcript_scrolls_to_its_beginning_and_follows_its_end() {
    let mut top = top();
    told(&mut top, 100);
    assert!(text(&mut top, 80, 24).contains("step 100 "));
    top.key(&KeyPress::Enter, 0);
    (0..300).for_each(|_| drop(top.key(&KeyPress::Up, 0)));
    let first = text(&mut top, 80, 24);
    assert!(first.contains("› step 1 ") && !first.contains("step 100 ") && first.contains("› transcript task-7 ─"), "{first}");
    assert!(top.story.back < 100, "one more than the beginning is the beginning");
    (0..20).for_each(|_| drop(top.key(&KeyPress::PageDown, 0)));
    assert!(text(&mut top, 80, 24).contains("step 100 "));
}

#[test]
fn without_colours_nothing_is_styled_and_with_them_the_selected_one_is_reversed() {
    let reversed = |backend: &TestBackend| backend.buffer().content().iter().any(|cell| cell.modifier.contains(Modifier::REVERSED));
    let coloured = |backend: &TestBackend| backend.buffer().content().iter().any(|cell| cell.fg != Color::Reset);
    let plain = shown(&mut top(), 80, 24, false);
    assert!(!reversed(&plain) && !coloured(&plain));
    let bright = shown(&mut top(), 80, 24, true);
    assert!(reversed(&bright) && coloured(&bright));
}

#[test]
fn no_size_is_too_small_to_be_drawn() {
    for (columns, rows) in [(1, 1), (2, 3), (10, 4), (30, 8), (109, 5), (110, 6), (300, 3)] {
        for focus in [TopFocus::Processes, TopFocus::Transcript, TopFocus::Reviews] {
            let mut top = top();
            told(&mut top, 30);
            asked(&mut top);
            top.focus = focus;
            shown(&mut top, columns, rows, true);
        }
    }
}
