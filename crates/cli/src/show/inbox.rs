//! The inbox as a picture: a head, the question as far as it fits, and what can be done.

use super::measure::plural;
use super::{Line, Page, Tone, model, review};
use crate::command::review::inbox::form::Form;
use crate::command::review::inbox::state::{Inbox, Notice};
use wire::CallPattern;

type Button = (&'static str, &'static str);
const KEYS: &[Button] = &[
    ("a", "llow once"),
    ("s", "ession"),
    ("g", "lobal: always, for everyone"),
    ("c", "onstrained"),
    ("o", "bserved"),
    ("d", "eny"),
    ("D", "eny for good"),
    ("i", "nstead…"),
];
/// What only makes sense where a wider answer has something to be about.
const WIDE: &[&str] = &["s", "g", "D"];
const MOVES: &[Button] = &[("n", "ext"), ("p", "revious"), ("q", "uit")];

fn keys(inbox: &Inbox) -> Vec<Button> {
    let exact = inbox.shown.as_ref().is_some_and(|view| matches!(view.like, Some(CallPattern::Exact { .. })));
    KEYS.iter().filter(|(key, _)| !exact || !WIDE.contains(key)).copied().collect()
}

/// All of it, `columns` wide and at most `rows` high. Nothing is cut: what is too wide goes on below, what is too long scrolls, no
/// further than there is something.
pub fn frame(inbox: &mut Inbox, columns: usize, rows: usize, now_ms: i64) -> Page {
    let head: Page = head(inbox).0.into_iter().flat_map(|line| line.wrap(columns)).collect();
    let foot = foot(inbox, columns, now_ms);
    let room = rows.saturating_sub(head.0.len() + foot.0.len()).max(1);
    let body: Vec<Line> = body(inbox, now_ms).0.into_iter().flat_map(|line| line.wrap(columns)).collect();
    // Where it does not fit, the last line says how much is out of sight, so that nothing is so unnoticed.
    let fits = body.len() <= room;
    let room = if fits { room } else { (room - 1).max(1) };
    let from = inbox.scroll.min(body.len().saturating_sub(room));
    let below = body.len().saturating_sub(from + room);
    inbox.scroll = from;
    inbox.in_sight(columns, body.len(), from, room);
    let mut page = head;
    page.0.extend(body.into_iter().skip(from).take(room));
    if !fits {
        page.push(Line::new().wait(format!("  ↕ {from} above, {below} below (↑ ↓ space)")));
    }
    page.append(foot);
    page
}

/// The same for a terminal without pictures.
pub fn sheet(inbox: &Inbox, now_ms: i64) -> Page {
    let mut page = head(inbox);
    if inbox.current().is_some() {
        page.append(body(inbox, now_ms));
    }
    page
}

/// What is typed next on a terminal that only knows lines.
pub fn prompt(inbox: &Inbox) -> Line {
    match &inbox.form {
        Some(form) => {
            let field = form.fields.get(form.at);
            let wrong = form.wrong.as_ref().map(|wrong| Line::new().bad("✗ ").plain(wrong).plain("  ")).unwrap_or_default();
            wrong.join(field.map(|field| Line::new().strong(field.label).faint(format!(" ({})", field.hint))).unwrap_or_default())
        }
        None => bar(&keys(inbox)).plain("  ").join(bar(MOVES)),
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
        (Some(view), Some(_)) => review::question(view, now_ms),
        (None, Some(view)) => Page(vec![Line::new().faint(format!("{} …", view.review))]),
    }
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
        None => {
            if inbox.is_awake(now_ms) {
                page.0.extend(flow(&keys(inbox), columns));
            } else if inbox.current().is_some() {
                page.push(Line::new().faint("…"));
            }
            page.0.extend(flow(MOVES, columns));
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

fn button((key, rest): &Button) -> Line {
    Line::new().faint("[").name(*key).faint("]").plain(*rest)
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

    #[test]
    fn a_question_with_its_keys() {
        let expected = "\
inbox  1 of 2 questions

◍ r-1  Writing src/a.rs
├─ asked by  foreman.1 (pid 3)
├─ task      task-1
├─ asked     10s ago
├─ state     open
├─ because   asks before src
├─ rule      protect-src
└─ tool      fs.write
input
  path  src/a.rs

[a]llow once  [s]ession  [g]lobal: always, for everyone  [c]onstrained
[o]bserved  [d]eny  [D]eny for good  [i]nstead…
[n]ext  [p]revious  [q]uit
";
        assert_eq!(frame(&mut inbox(&[1, 2]), 72, 40, 10_000).render(false, None), expected);
        let empty = frame(&mut inbox(&[]), 72, 40, 10_000).render(false, None);
        assert!(empty.starts_with("inbox  nothing waits\n\n✓ nothing waits for your answer\n") && !empty.contains("[a]"), "{empty}");
    }

    #[test]
    fn a_question_that_cannot_be_widened_offers_no_wide_answers() {
        let mut inbox = inbox(&[1]);
        let mut exact = view(1);
        exact.like = Some(CallPattern::Exact { tool: "merge.apply".into(), bind: "b".into() });
        inbox.show(exact, 0);
        let text = frame(&mut inbox, 200, 40, 10_000).render(false, None);
        assert!(text.contains("[a]llow once  [c]onstrained  [o]bserved  [d]eny  [i]nstead…\n") && !text.contains("like it"), "{text}");
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
        inbox.show(long, 0);
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
