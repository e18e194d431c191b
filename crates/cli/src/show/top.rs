//! `skep top` as a picture: the tree of processes, below it the transcript of the selected one, and the questions that wait.
//!
//! On a narrow screen the questions take the place of the rest while they have the keys; on a wide one they stand beside the
//! transcript. Whatever is drawn was a [`Line`], so nothing foreign reaches the terminal.

use super::measure::{bytes, plural, width};
use super::{Line, Page, Tone, inbox, table};
use crate::command::top::snapshot::TopRow;
use crate::command::top::state::{Top, TopFocus};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as DrawnLine, Span, Text};
use ratatui::widgets::{Block, Borders, Paragraph};
use std::collections::BTreeSet;

/// From so many columns on, transcript and questions stand side by side.
const WIDE: u16 = 110;
/// Columns of each figure, and its name.
const FIGURES: [(&str, usize); 7] = [("state", 7), ("task", 8), ("tokens", 6), ("cost", 6), ("context", 7), ("memory", 8), ("cpu", 4)];
/// Columns of all of them with the gaps between, and of the mark of the selected one.
const FIGURES_COLUMNS: usize = 62;
/// A name is told before figures: on a narrow screen those are cut.
const NAME_MIN: usize = 16;
const NAME_MAX: usize = 28;
/// A prompt stands in a line only where so much of it fits.
const PROMPT_MIN: usize = 12;
const KEYS: &[(&str, &str)] = &[
    ("j k ↓ ↑", "select a process, or move in the transcript"),
    ("tab", "from the processes to the transcript, to the questions, and back"),
    ("enter", "the transcript: page up and down, esc goes back"),
    ("r", "the questions: answer them as in `skep review`; q goes back"),
    ("x", "end the task of the selected worker; asks first"),
    ("p", "pause its sandbox, or have it go on"),
    ("t", "talk with it on its own screens; comes back here"),
    ("/", "show only what has a text: name, state, task, prompt; esc shows all"),
    ("q", "quit; the work goes on"),
];

pub fn draw(frame: &mut Frame<'_>, top: &mut Top, colour: bool, now_ms: i64) {
    let [head, body, foot] = Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)]).areas(frame.area());
    put(frame, head, &[header(top)], colour);
    put(frame, foot, &[footer(top)], colour);
    if top.is_helping {
        return put(frame, body, &help().0, colour);
    }
    let is_wide = body.width >= WIDE;
    if top.focus == TopFocus::Reviews && !is_wide {
        return questions(frame, body, top, colour, now_ms);
    }
    let wanted = u16::try_from(top.rows().len() + 1).unwrap_or(u16::MAX);
    let share = if is_wide { body.height * 2 / 5 } else { body.height / 2 };
    let [upper, lower] = Layout::vertical([Constraint::Length(wanted.clamp(2, share.max(2))), Constraint::Min(0)]).areas(body);
    processes(frame, upper, top, colour);
    let has_questions = top.focus == TopFocus::Reviews || !top.inbox.open.is_empty();
    if is_wide && has_questions {
        let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(1).areas(lower);
        story(frame, left, top, colour);
        questions(frame, right, top, colour, now_ms);
    } else {
        story(frame, lower, top, colour);
    }
}

fn header(top: &Top) -> Line {
    let works = |row: &&TopRow| row.task.is_some();
    let running = top.snapshot.processes.iter().filter(works).filter(|row| row.state == "running").count() as u64;
    let line = Line::new().strong("skep top").plain(format!("  {running} running, {} queued", top.snapshot.queued));
    match top.inbox.open.len() as u64 {
        0 => line.faint(", nothing waits for you"),
        waits if top.focus == TopFocus::Reviews => line.wait(format!(", {}", plural(waits, "question"))),
        waits => line.wait(format!(", {}", plural(waits, "question"))).faint(" (r answers)"),
    }
}

fn footer(top: &Top) -> Line {
    if let Some((.., question)) = &top.ends {
        return Line::new().wait("◍ ").strong(question).faint("  [").name("y").faint("]es, any other key: no");
    }
    if top.is_filtering {
        return Line::new().name("/").plain(&top.filter).name("▏").faint("  enter keeps it, esc shows all");
    }
    if top.is_helping {
        return Line::new().faint("any key goes back");
    }
    if let Some(notice) = &top.notice {
        return inbox::notice_line(notice);
    }
    let keys: &[(&str, &str)] = match top.focus {
        TopFocus::Processes => &[
            ("x", " end"),
            ("p", "ause"),
            ("t", "alk"),
            ("r", "eviews"),
            ("enter", " read"),
            ("/", " filter"),
            ("?", " keys"),
            ("q", "uit"),
        ],
        TopFocus::Transcript => &[("j k", " scroll"), ("esc", " back"), ("tab", " reviews"), ("x", " end"), ("?", " keys"), ("q", "uit")],
        TopFocus::Reviews => &[("tab", " back to the processes")],
    };
    let mut line = Line::new();
    if !top.filter.is_empty() && top.focus == TopFocus::Processes {
        line = line.wait(format!("/{}", top.filter)).plain("  ");
    }
    for (n, (key, rest)) in keys.iter().enumerate() {
        line = line.plain(if n > 0 { "  " } else { "" }).faint("[").name(*key).faint("]").plain(*rest);
    }
    line
}

fn help() -> Page {
    let row = |(key, about): &(&str, &str)| vec![Line::new().plain("  ").name(*key), Line::new().plain(*about)];
    let mut page = Page(vec![Line::new()]);
    page.append(table(KEYS.iter().map(row).collect()));
    page.blank();
    page.push(Line::new().faint("  ● running  ○ idle  ◍ waits or paused"));
    page.push(Line::new().faint("  tokens, cost and context are the task's; — is unknown, + is more than that"));
    page.push(Line::new().faint("  memory and cpu are those of its sandbox, cpu as a share of one core"));
    page
}

/// The tree with its figures, and the selected one in sight.
fn processes(frame: &mut Frame<'_>, area: Rect, top: &Top, colour: bool) {
    let columns = usize::from(area.width);
    let rows = top.rows();
    let stems = stems(&rows);
    let name_columns = rows.iter().zip(&stems).map(|(row, stem)| width(stem) + width(&row.full_name())).max().unwrap_or(0) + 2;
    let name_columns = name_columns.clamp(8, columns.saturating_sub(FIGURES_COLUMNS).clamp(NAME_MIN, NAME_MAX));
    let has_prompt = columns >= FIGURES_COLUMNS + name_columns + 2 + PROMPT_MIN;
    let mut head = Line::new().plain("  ").join(Line::new().faint("process").pad(name_columns));
    for (n, (name, columns)) in FIGURES.into_iter().enumerate() {
        head = head.plain("  ").faint(if n < 2 { format!("{name:<columns$}") } else { format!("{name:>columns$}") });
    }
    put(frame, Rect { height: area.height.min(1), ..area }, &[head.faint(if has_prompt { "  prompt" } else { "" })], colour);
    let list = Rect { y: area.y + area.height.min(1), height: area.height.saturating_sub(1), ..area };
    let (at, shown) = (top.selected_row().unwrap_or(0), usize::from(list.height));
    let from = (at + 1).saturating_sub(shown);
    let mut drawn = Vec::new();
    for (n, (row, stem)) in rows.iter().zip(&stems).enumerate().skip(from).take(shown) {
        let mut line = process(row, stem, name_columns, n == at);
        if has_prompt {
            line = line.plain("  ").faint(row.prompt.as_deref().and_then(|prompt| prompt.lines().next()).unwrap_or_default());
        }
        let line = line.cut(columns);
        let is_here = n == at && top.focus == TopFocus::Processes;
        let style = if is_here && colour { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        drawn.push(drawn_line(&line.pad(columns), colour).style(style));
    }
    if rows.is_empty() {
        drawn.push(drawn_line(&Line::new().faint("  no process has this text; esc shows all"), colour));
    }
    frame.render_widget(Paragraph::new(Text::from(drawn)), list);
}

fn process(row: &TopRow, stem: &str, name_columns: usize, is_selected: bool) -> Line {
    let (tone, mark) = match row.state {
        "running" => (Tone::Good, "● "),
        "paused" | "waits" => (Tone::Wait, "◍ "),
        _ => (Tone::Faint, "○ "),
    };
    let name = Line::new().faint(stem).add(tone, mark).strong(&row.name);
    let name = match &row.repository {
        Some(repository) => name.faint(format!(" {repository}")),
        None => name,
    };
    let name = name.cut(name_columns).pad(name_columns);
    let dash = || "—".to_owned();
    let cost = match (row.cost_micros, row.cost_is_partial, row.tokens) {
        (Some(micros), partial, _) => format!("{}{}", money(micros), if partial { "+" } else { "" }),
        _ => dash(),
    };
    let figures = [
        row.tokens.map_or_else(dash, short),
        cost,
        row.context_tokens.map_or_else(dash, short),
        row.memory_bytes.map_or_else(dash, bytes),
        row.cpu_percent.map_or_else(dash, |percent| format!("{percent}%")),
    ];
    let task = row.task.map_or_else(dash, |task| task.to_string());
    let mut line = if is_selected { Line::new().name("› ") } else { Line::new().plain("  ") }
        .join(name)
        .plain("  ")
        .join(Line::new().add(tone, row.state).pad(FIGURES[0].1))
        .plain("  ")
        .join(Line::new().name(task).pad(FIGURES[1].1));
    for (figure, (_, columns)) in figures.iter().zip(&FIGURES[2..]) {
        line = line.plain("  ").plain(" ".repeat(columns.saturating_sub(width(figure)))).plain(figure);
    }
    line
}

/// What stands before each name: the stems of the tree. A filter may have taken a parent away; then its children stand where it stood.
fn stems(rows: &[&TopRow]) -> Vec<String> {
    let mut open: BTreeSet<usize> = BTreeSet::new();
    let mut stems: Vec<String> = Vec::with_capacity(rows.len());
    // From below, it is known of each depth whether a sibling follows.
    for row in rows.iter().rev() {
        open.retain(|depth| *depth <= row.depth);
        let mut stem = String::new();
        for depth in 1..row.depth {
            stem.push_str(if open.contains(&depth) { "│ " } else { "  " });
        }
        if row.depth > 0 {
            stem.push_str(if open.contains(&row.depth) { "├ " } else { "└ " });
        }
        open.insert(row.depth);
        stems.push(stem);
    }
    stems.reverse();
    stems
}

fn story(frame: &mut Frame<'_>, area: Rect, top: &mut Top, colour: bool) {
    let who = top.story.task.map(|task| format!("{task} ")).unwrap_or_default();
    let title = Line::new().strong(" transcript ").name(who);
    let inner = pane(frame, area, title, top.focus == TopFocus::Transcript, colour);
    let columns = usize::from(inner.width).max(1);
    let shown = usize::from(inner.height);
    // From the end, and no further than what is in sight.
    let mut wrapped: Vec<Line> = Vec::new();
    for line in top.story.lines.iter().rev() {
        if wrapped.len() >= top.story.back + shown {
            break;
        }
        wrapped.extend(line.clone().wrap(columns).into_iter().rev());
    }
    wrapped.reverse();
    top.story.page = shown.max(1);
    top.story.back = top.story.back.min(wrapped.len().saturating_sub(shown));
    let end = wrapped.len() - top.story.back;
    match wrapped.is_empty() {
        true => put(frame, inner, &[Line::new().faint("nothing yet: select a process that has a task")], colour),
        false => put(frame, inner, &wrapped[end.saturating_sub(shown)..end], colour),
    }
}

fn questions(frame: &mut Frame<'_>, area: Rect, top: &mut Top, colour: bool, now_ms: i64) {
    let has_keys = top.focus == TopFocus::Reviews;
    let inner = pane(frame, area, Line::new().strong(" questions "), has_keys, colour);
    let (columns, rows) = (usize::from(inner.width).max(1), usize::from(inner.height));
    // Keys that would not be heard are not shown.
    let lines = match has_keys {
        true => inbox::frame(&mut top.inbox, columns, rows, now_ms).0,
        false => inbox::sheet(&top.inbox, now_ms).0.into_iter().flat_map(|line| line.wrap(columns)).collect(),
    };
    put(frame, inner, &lines, colour);
}

/// A line with its title above a part of the picture.
fn pane(frame: &mut Frame<'_>, area: Rect, title: Line, has_keys: bool, colour: bool) -> Rect {
    let title = if has_keys { Line::new().name("›").join(title) } else { title };
    let border = if colour { style(Tone::Faint) } else { Style::new() };
    let block = Block::new().borders(Borders::TOP).border_style(border).title(drawn_line(&title, colour));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    inner
}

fn put(frame: &mut Frame<'_>, area: Rect, lines: &[Line], colour: bool) {
    let columns = usize::from(area.width);
    let lines = lines.iter().take(usize::from(area.height)).map(|line| drawn_line(&line.clone().cut(columns), colour));
    frame.render_widget(Paragraph::new(Text::from(lines.collect::<Vec<_>>())), area);
}

fn drawn_line(line: &Line, colour: bool) -> DrawnLine<'static> {
    let span = |(tone, text): (Tone, &str)| Span::styled(text.to_owned(), if colour { style(tone) } else { Style::new() });
    DrawnLine::from(line.parts().map(span).collect::<Vec<_>>())
}

fn style(tone: Tone) -> Style {
    match tone {
        Tone::Plain => Style::new(),
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Bad => Style::new().fg(Color::Red),
        Tone::Wait => Style::new().fg(Color::Yellow),
        Tone::Faint => Style::new().add_modifier(Modifier::DIM),
        Tone::Strong => Style::new().add_modifier(Modifier::BOLD),
        Tone::Name => Style::new().fg(Color::Cyan),
    }
}

/// `950`, `12.3k`, `4.1M`
fn short(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..1_000_000 => format!("{:.1}k", n as f64 / 1e3),
        _ => format!("{:.1}M", n as f64 / 1e6),
    }
}

/// Cents at most: `$0.04`, `<$0.01`.
fn money(micros: u64) -> String {
    match micros {
        0 => "$0.00".to_owned(),
        1..10_000 => "<$0.01".to_owned(),
        _ => format!("${:.2}", micros as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests;
