//! The inbox as a picture: a head, the question as far as it fits, and what can be done.

use super::measure::plural;
use super::{Line, Page, Tone, model, review, table};
use crate::command::review::inbox::form::Form;
use crate::command::review::inbox::state::{Inbox, Notice};

/// A key, its word, and what it does in a sentence.
type Button = (char, &'static str, &'static str);
const KEYS: &[Button] = &[
    ('a', "llow this call", "yes to exactly this call, once"),
    ('s', " this task", "yes to calls like it, until this task ends"),
    ('z', " this repository", "yes to calls like it, by every worker in this repository"),
    ('g', " always", "yes to calls like it, always and everywhere"),
    ('d', "eny", "no; the brain is told your reason"),
    ('c', "onstrained", "yes, on conditions: paths, time, fields of the input"),
    ('o', "bserved", "yes, and more is written down about it"),
    ('D', "eny for good", "no, and no to calls like it from now on"),
    ('i', "nstead…", "no, and what should be done instead"),
    ('e', " send back…", "the brain is told what to change, and goes on in the same workspace"),
];
/// The first of them, where a merge is asked about.
const MERGES: Button = ('a', "llow this merge", "yes to exactly these changes");
const MOVES: &[Button] = &[
    ('n', "ext", "the next question"),
    ('p', "revious", "the question before"),
    ('m', "ore", "who asked, which rules, what came before"),
    ('/', " search", "looks for a text in the question; / and enter again finds the next"),
    ('?', " keys", "this page"),
    ('q', "uit", "leaves; the questions stay"),
];
/// The moves that make sense where a whole question is printed.
const LINE_MOVES: [Button; 3] = [MOVES[0], MOVES[1], MOVES[5]];
/// The answers that are shown below a question elsewhere; the others are taken too.
const HERE: &[char] = &['a', 's', 'd'];
/// What moves without a word of its own.
const SCROLLS: &[(&str, &str)] = &[("j ↓", "a line down"), ("k ↑", "a line up"), ("space", "a page down; page up and page down work too")];

fn keys(inbox: &Inbox) -> Vec<Button> {
    let answers = inbox.answers();
    // Only a merge can be sent back.
    let is_merge = answers.contains(&'e');
    let named = |button: &Button| if is_merge && button.0 == MERGES.0 { MERGES } else { *button };
    KEYS.iter().filter(|(key, ..)| answers.contains(key)).map(named).collect()
}

/// All of it, `columns` wide and at most `rows` high. Nothing is cut: what is too wide goes on below, what is too long scrolls, no
/// further than there is something.
pub fn frame(inbox: &mut Inbox, columns: usize, rows: usize, now_ms: i64) -> Page {
    let body: Vec<Line> = body(inbox, now_ms).0.into_iter().flat_map(|line| line.wrap(columns)).collect();
    find(inbox, &body);
    let head: Page = head(inbox).0.into_iter().flat_map(|line| line.wrap(columns)).collect();
    let foot = foot(inbox, columns, now_ms);
    let room = rows.saturating_sub(head.0.len() + foot.0.len()).max(1);
    // Where it does not fit, the last line says how much is out of sight, so that nothing is so unnoticed.
    let fits = body.len() <= room;
    let room = if fits { room } else { (room - 1).max(1) };
    let from = inbox.scroll.min(body.len().saturating_sub(room));
    let below = body.len().saturating_sub(from + room);
    inbox.scroll = from;
    if !inbox.is_helping {
        inbox.in_sight(columns, body.len(), from, room);
    }
    let mut page = head;
    page.0.extend(body.into_iter().skip(from).take(room));
    if !fits {
        page.push(Line::new().wait(format!("  ↕ {from} above, {below} below (j k space)")));
    }
    page.append(foot);
    page
}

/// Turns to the next line with the text that is looked for, and from the last one to the first.
fn find(inbox: &mut Inbox, body: &[Line]) {
    if !std::mem::take(&mut inbox.search.is_wanted) {
        return;
    }
    let text = inbox.search.text.to_lowercase();
    let found = body.iter().enumerate().filter(|(_, line)| line.render(false).to_lowercase().contains(&text));
    let found: Vec<usize> = found.map(|(at, _)| at).collect();
    let next = found.iter().find(|at| inbox.search.found.is_none_or(|last| **at > last)).or(found.first());
    inbox.search.found = next.copied();
    match next {
        Some(at) => inbox.scroll = *at,
        None => inbox.notice = Some(Notice { tone: Tone::Wait, text: format!("`{}` is not in this question", inbox.search.text) }),
    }
}

/// The same for a terminal without pictures.
pub fn sheet(inbox: &Inbox, now_ms: i64) -> Page {
    let mut page = head(inbox);
    if inbox.current().is_some() {
        page.append(body(inbox, now_ms));
    }
    page
}

/// One question, printed whole below whatever was there.
pub fn one(inbox: &Inbox, now_ms: i64) -> Page {
    let mut page = Page(vec![Line::new()]);
    page.append(body(inbox, now_ms));
    page.blank();
    page
}

/// What is typed next below one question.
pub fn prompt_here(inbox: &Inbox) -> Line {
    match &inbox.form {
        Some(_) => prompt(inbox),
        None => {
            let mut short: Vec<Button> = keys(inbox).into_iter().filter(|(key, ..)| HERE.contains(key)).collect();
            short.extend([MOVES[4], ('q', " later", "")]);
            bar(&short).name(" ›")
        }
    }
}

/// What is typed next on a terminal that only knows lines.
pub fn prompt(inbox: &Inbox) -> Line {
    match &inbox.form {
        Some(form) => {
            let field = form.fields.get(form.at);
            let wrong = form.wrong.as_ref().map(|wrong| Line::new().bad("✗ ").plain(wrong).plain("  ")).unwrap_or_default();
            wrong.join(field.map(|field| Line::new().strong(field.label).faint(format!(" ({})", field.hint))).unwrap_or_default())
        }
        None => bar(&keys(inbox)).plain("  ").join(bar(&LINE_MOVES)),
    }
}

fn head(inbox: &Inbox) -> Page {
    let count = inbox.open.len();
    let line = Line::new().strong("inbox");
    let line = match count {
        0 if inbox.waits.is_empty() => line.faint("  nothing waits"),
        0 => line.faint("  no questions"),
        _ => line.plain(format!("  {} of {}", inbox.at + 1, plural(count as u64, "question"))),
    };
    let mut page = Page(vec![line]);
    inbox.waits.iter().for_each(|wait| page.push(Line::new().wait("◍ ").plain(model::waits(wait))));
    page.blank();
    page
}

fn body(inbox: &Inbox, now_ms: i64) -> Page {
    match (&inbox.shown, inbox.current()) {
        (_, None) => Page(vec![
            Line::new().good("✓ ").plain("nothing waits for your answer"),
            Line::new().faint("  a new question appears here by itself"),
        ]),
        (Some(_), Some(_)) if inbox.is_helping => help(inbox),
        (Some(view), Some(_)) => review::question_first(view, inbox.about.as_ref(), inbox.is_detailed, now_ms),
        (None, Some(view)) => Page(vec![Line::new().faint(format!("{} …", view.review))]),
    }
}

/// Every key that does something here.
pub fn help(inbox: &Inbox) -> Page {
    let row = |key: String, about: &str| vec![Line::new().plain("  ").name(key), Line::new().plain(about)];
    let mut rows: Vec<_> = keys(inbox).iter().map(|(key, _, about)| row(key.to_string(), about)).collect();
    rows.extend(MOVES.iter().map(|(key, _, about)| row(key.to_string(), about)));
    rows.extend(SCROLLS.iter().map(|(key, about)| row((*key).to_owned(), about)));
    table(rows)
}

/// What just happened, in one line.
pub fn notice_line(notice: &Notice) -> Line {
    let mark = match notice.tone {
        Tone::Good => "✓ ",
        Tone::Bad => "✗ ",
        _ => "◍ ",
    };
    Line::new().add(notice.tone, mark).plain(&notice.text)
}

fn foot(inbox: &Inbox, columns: usize, now_ms: i64) -> Page {
    let mut page = Page(vec![Line::new()]);
    if let Some(notice) = &inbox.notice {
        page.0.extend(notice_line(notice).wrap(columns));
    }
    match &inbox.form {
        Some(form) => page.append(fields(form, columns)),
        None if inbox.search.is_typing => {
            page.0.extend(Line::new().name("/").plain(&inbox.search.text).name("▏").faint("  enter finds it, esc leaves").wrap(columns));
        }
        None if inbox.is_helping => page.push(Line::new().faint("any key goes back to the question")),
        None => {
            if inbox.is_awake(now_ms) {
                page.0.extend(flow(&keys(inbox), columns));
            } else if inbox.current().is_some() {
                page.push(Line::new().faint("…"));
            }
            let leaves = |(key, ..): &&Button| inbox.current().is_some() || *key == 'q';
            page.0.extend(flow(&MOVES.iter().filter(leaves).copied().collect::<Vec<_>>(), columns));
        }
    }
    page
}

fn fields(form: &Form, columns: usize) -> Page {
    let mut page = Page(vec![Line::new().strong(form.title()).faint("  enter goes on, ↑ goes back, esc leaves")]);
    let width = form.fields.iter().map(|field| field.label.len()).max().unwrap_or(0);
    for (index, field) in form.fields.iter().enumerate() {
        let here = index == form.at;
        let mark = if here { Line::new().name("› ") } else { Line::new().plain("  ") };
        let line = mark.join(Line::new().plain(field.label).pad(width)).plain("  ").plain(&field.text);
        match here {
            true => page.0.extend(line.name("▏").faint(if field.text.is_empty() { field.hint } else { "" }).wrap(columns)),
            false => page.0.extend(line.wrap(columns)),
        }
    }
    if let Some(wrong) = &form.wrong {
        page.0.extend(Line::new().bad("✗ ").plain(wrong).wrap(columns));
    }
    page
}

fn button((key, rest, _): &Button) -> Line {
    Line::new().faint("[").name(key.to_string()).faint("]").plain(*rest)
}

fn bar(keys: &[Button]) -> Line {
    let mut buttons = keys.iter().map(button);
    let first = buttons.next().unwrap_or_default();
    buttons.fold(first, |line, next| line.plain("  ").join(next))
}

/// Buttons side by side, on as many lines as they need.
fn flow(keys: &[Button], columns: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for next in keys.iter().map(button) {
        match lines.pop() {
            Some(line) if line.width() + 2 + next.width() <= columns => lines.push(line.plain("  ").join(next)),
            Some(line) => lines.extend([line, next]),
            None => lines.push(next),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::review::inbox::state::tests::{inbox, view};
    use crate::terminal::key::KeyPress;
    use serde_json::json;
    use wire::CallPattern;
    use wire::method::review::ReviewView;
    use wire::method::task::{TaskStatus, TaskView};

    /// A merge as it waits: what was asked for, what came of it, and the diff.
    fn merge() -> (ReviewView, TaskView) {
        let mut merge = view(1);
        (merge.tool, merge.like) = ("merge.apply".into(), Some(CallPattern::Exact { tool: "merge.apply".into(), bind: "b".into() }));
        merge.input = json!({"changes": [{"path": "src/flag.rs"}], "left_out": 0, "digest": "d"});
        (merge.reasons, merge.rules) = (vec!["merges wait for a person".into()], vec!["ask-merge".into()]);
        let added: String = (1..=20).map(|n| format!("+    let line_{n} = {n};\n")).collect();
        merge.diff = Some(format!("--- a/src/flag.rs\n+++ b/src/flag.rs\n@@ -1,1 +1,21 @@\n fn main() {{\n{added}"));
        let mut task = crate::show::task::tests::task(1, TaskStatus::Parked);
        (task.prompt, task.summary) = ("add a --version flag".into(), Some("added the flag and a test for it".into()));
        (merge, task)
    }

    #[test]
    fn the_inbox_on_a_screen_of_80_by_24() {
        let mut inbox = inbox(&[1, 2]);
        let (review, task) = merge();
        inbox.show(review, Some(task), 0);
        let text = frame(&mut inbox, 80, 24, 10_000).render(false, None);
        let expected = "\
inbox  1 of 2 questions

◍ r-1  Merging 1 file  10s ago
  task-1   \"add a --version flag\"
  summary  added the flag and a test for it
  why      merges wait for a person (rule ask-merge)
  --- a/src/flag.rs
  +++ b/src/flag.rs
  @@ -1,1 +1,21 @@
   fn main() {
  +    let line_1 = 1;
  +    let line_2 = 2;
  +    let line_3 = 3;
  +    let line_4 = 4;
  +    let line_5 = 5;
  +    let line_6 = 6;
  +    let line_7 = 7;
  +    let line_8 = 8;
  +    let line_9 = 9;
  +    let line_10 = 10;
  ↕ 0 above, 10 below (j k space)

[a]llow this merge  [d]eny  [e] send back…
[n]ext  [p]revious  [m]ore  [/] search  [?] keys  [q]uit
";
        assert_eq!(text, expected);
        "/LINE_15\n".chars().for_each(|c| drop(inbox.key(&if c == '\n' { KeyPress::Enter } else { KeyPress::Char(c) }, 10_000)));
        let text = frame(&mut inbox, 80, 24, 10_000).render(false, None);
        assert!(text.contains("line_15") && text.contains("line_20") && text.contains("10 above, 0 below"), "{text}");
        "/nowhere\n".chars().for_each(|c| drop(inbox.key(&if c == '\n' { KeyPress::Enter } else { KeyPress::Char(c) }, 10_000)));
        assert!(frame(&mut inbox, 80, 24, 10_000).render(false, None).contains("`nowhere` is not in this question"));
    }

    #[test]
    fn the_inbox_on_a_screen_of_120_by_40() {
        let mut inbox = inbox(&[1]);
        let (review, task) = merge();
        inbox.show(review, Some(task), 0);
        inbox.key(&KeyPress::Char('m'), 10_000);
        let text = frame(&mut inbox, 120, 40, 10_000).render(false, None);
        assert!(text.contains("line_20 = 20;\n  asked by worker.1 (pid 3)\n"), "{text}");
        assert!(!text.contains('↕') && text.lines().count() <= 40, "all of it fits:\n{text}");
    }

    #[test]
    fn a_question_with_its_keys() {
        let expected = "\
inbox  1 of 2 questions

◍ r-1  Writing src/a.rs  10s ago
  why      asks before src (rule protect-src)
  path  src/a.rs

[a]llow this call  [s] this task  [z] this repository  [g] always  [d]eny
[c]onstrained  [o]bserved  [D]eny for good  [i]nstead…
[n]ext  [p]revious  [m]ore  [/] search  [?] keys  [q]uit
";
        assert_eq!(frame(&mut inbox(&[1, 2]), 80, 24, 10_000).render(false, None), expected);
        let empty = frame(&mut inbox(&[]), 72, 40, 10_000).render(false, None);
        assert!(empty.starts_with("inbox  nothing waits\n\n✓ nothing waits for your answer\n"), "{empty}");
        assert!(empty.ends_with("\n\n[q]uit\n") && !empty.contains("[a]"), "only keys that do something: {empty}");
    }

    #[test]
    fn a_key_explains_the_keys() {
        let mut inbox = inbox(&[1]);
        inbox.key(&KeyPress::Char('?'), 10_000);
        let text = frame(&mut inbox, 80, 24, 10_000).render(false, None);
        assert!(
            text.contains("  s      yes to calls like it, until this task ends\n") && text.contains("  j ↓    a line down\n"),
            "{text}"
        );
        assert!(text.lines().count() <= 24 && text.ends_with("any key goes back to the question\n"), "{text}");
        let (review, task) = merge();
        inbox.show(review, Some(task), 0);
        inbox.key(&KeyPress::Char('?'), 10_000);
        assert!(!frame(&mut inbox, 80, 24, 10_000).render(false, None).contains("until this task ends"), "only what makes sense");
    }

    #[test]
    fn a_merge_can_be_sent_back() {
        let mut merge = view(1);
        (merge.tool, merge.like) = ("merge.apply".into(), Some(CallPattern::Exact { tool: "merge.apply".into(), bind: "b".into() }));
        let mut inbox = inbox(&[1]);
        inbox.show(merge, None, 0);
        for columns in [80, 120] {
            let text = frame(&mut inbox, columns, 24, 10_000).render(false, None);
            assert!(text.contains("[e] send back…\n"), "{text}");
        }
    }

    #[test]
    fn a_merge_that_cannot_be_shown_whole_says_why_no_key_allows_it() {
        let mut inbox = inbox(&[1]);
        let (mut review, task) = merge();
        (review.cut, review.lost) = (true, true);
        review.diff = Some("created data.bin: not only lines change\nbinary: nothing becomes 8 bytes (sha256 0a)\n".into());
        inbox.show(review, Some(task), 0);
        for columns in [80, 120] {
            let text = frame(&mut inbox, columns, 24, 10_000).render(false, None);
            let told = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(!text.contains("[a]llow") && text.contains("[d]eny"), "{text}");
            assert!(told.contains("allow not with a key, because not all of it can be shown here: skep merge task-1"), "{text}");
        }
        // The control.
        let (review, task) = merge();
        inbox.show(review, Some(task), 0);
        let text = frame(&mut inbox, 80, 24, 10_000).render(false, None);
        assert!(text.contains("[a]llow") && !text.contains("not with a key"), "{text}");
    }

    #[test]
    fn keys_show_when_they_count() {
        let waiting = frame(&mut inbox(&[1]), 72, 40, 0).render(false, None);
        assert!(!waiting.contains("[a]llow") && waiting.contains("[q]uit"), "{waiting}");
    }

    #[test]
    fn a_long_question_scrolls_and_keeps_its_width() {
        let mut inbox = inbox(&[1]);
        let mut long = view(1);
        let lines: String = (0..50).map(|n| format!("line {n} {}\x1b[2J\u{202e}\n", "x".repeat(60))).collect();
        long.input = json!({"path": "a", "content": lines});
        inbox.show(long, None, 0);
        let first = frame(&mut inbox, 40, 20, 10_000);
        assert_eq!(first.0.len(), 20);
        assert!(first.0.iter().all(|line| line.width() <= 40));
        let text = first.render(false, None);
        assert!(text.contains("↕ 0 above, ") && !text.contains('\x1b') && !text.contains('\u{202e}'), "{text}");
        (0..500).for_each(|_| drop(inbox.key(&KeyPress::Down, 0)));
        let text = frame(&mut inbox, 40, 20, 10_000).render(false, None);
        assert!(text.contains(" 0 below") && text.contains("line 49"), "{text}");
        assert!(inbox.scroll < 200, "one more than the end is the end");
    }

    #[test]
    fn a_form_shows_where_one_is() {
        let mut inbox = inbox(&[1]);
        "cout".chars().for_each(|c| drop(inbox.key(&KeyPress::Char(c), 10_000)));
        let text = frame(&mut inbox, 80, 40, 10_000).render(false, None);
        assert!(text.contains("allow on conditions") && text.contains("› writable  out▏\n") && text.contains("\n  readonly\n"), "{text}");
        inbox.key(&KeyPress::Enter, 10_000);
        inbox.key(&KeyPress::Enter, 10_000);
        "x\n".chars().for_each(|c| drop(inbox.key(&if c == '\n' { KeyPress::Enter } else { KeyPress::Char(c) }, 10_000)));
        assert!(prompt(&inbox).render(false).starts_with("✗ `x` is not a time"));
    }
}
