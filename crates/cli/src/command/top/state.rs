//! `skep top` as a machine: keys and news in, wishes out. Pure.
//!
//! **Invariant.** Nothing is ended by one key: a wish to end something is asked about first, and only `y` is a yes. Questions are
//! answered by the inbox's own machine, so what holds there for a yes holds here.

use super::snapshot::{TopRow, TopSnapshot};
use crate::command::review::inbox::state::{Inbox, InboxAction, Notice};
use crate::record::ParsedRecord;
use crate::show::transcript::Transcript;
use crate::show::{Line, Tone};
use crate::terminal::key::KeyPress;
use std::collections::VecDeque;
use wire::method::review::ReviewAnswerParams;
use wire::{Pid, TaskId};

/// Longest text that is filtered by.
const FILTER_MAX: usize = 100;
/// Lines of a transcript that are kept here, and their bytes; `skep log` has all of them.
pub const STORY_LINES_MAX: usize = 5_000;
pub const STORY_BYTES_MAX: usize = 1 << 20;

/// Where keys go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopFocus {
    #[default]
    Processes,
    Transcript,
    Reviews,
}

/// What the machine wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum TopAction {
    Quit,
    Answer(Box<ReviewAnswerParams>),
    /// Ends the task, or whatever else the process does.
    Kill {
        pid: Pid,
        task: Option<TaskId>,
    },
    Pause {
        task: TaskId,
    },
    Resume {
        task: TaskId,
    },
    Talk {
        pid: Pid,
        name: String,
    },
}

/// The story of one task, as far as it is shown.
#[derive(Debug, Default)]
pub struct TopStory {
    pub task: Option<TaskId>,
    transcript: Transcript,
    pub lines: VecDeque<Line>,
    bytes: usize,
    /// Lines between the end and what is in sight; none follows the end.
    pub back: usize,
    /// Lines that are in sight at once.
    pub page: usize,
}

impl TopStory {
    /// The story of a task from these records on.
    pub fn of(task: TaskId, records: &[ParsedRecord]) -> TopStory {
        let mut story = TopStory { task: Some(task), page: 1, ..TopStory::default() };
        records.iter().for_each(|record| story.add(record));
        story
    }

    pub fn add(&mut self, record: &ParsedRecord) {
        for line in self.transcript.add(record).0 {
            self.bytes += line.bytes();
            // Who looks at the past goes on looking at it.
            self.back += usize::from(self.back > 0);
            self.lines.push_back(line);
        }
        while self.lines.len() > STORY_LINES_MAX || self.bytes > STORY_BYTES_MAX {
            let Some(first) = self.lines.pop_front() else { break };
            self.bytes -= first.bytes();
        }
    }

    fn key(&mut self, key: &KeyPress) {
        let page = self.page.max(1);
        self.back = match key {
            KeyPress::Up | KeyPress::Char('k') => self.back + 1,
            KeyPress::Down | KeyPress::Char('j') => self.back.saturating_sub(1),
            KeyPress::PageUp => self.back + page,
            KeyPress::PageDown | KeyPress::Char(' ') => self.back.saturating_sub(page),
            _ => self.back,
        };
    }
}

#[derive(Debug, Default)]
pub struct Top {
    pub snapshot: TopSnapshot,
    pub focus: TopFocus,
    pub selected: Option<Pid>,
    pub filter: String,
    pub is_filtering: bool,
    pub is_helping: bool,
    /// What a `y` would end.
    pub ends: Option<(Pid, Option<TaskId>, String)>,
    pub notice: Option<Notice>,
    pub inbox: Inbox,
    pub story: TopStory,
}

impl Top {
    /// Takes a new snapshot. Whoever was selected stays so while it is there.
    pub fn refresh(&mut self, snapshot: TopSnapshot) {
        self.snapshot = snapshot;
        self.settle();
    }

    /// The processes that the filter leaves.
    pub fn rows(&self) -> Vec<&TopRow> {
        let wanted = self.filter.to_lowercase();
        let has = |text: &str| text.to_lowercase().contains(&wanted);
        let fits = |row: &&TopRow| {
            has(&row.full_name())
                || has(row.state)
                || row.task.is_some_and(|task| has(&task.to_string()))
                || row.prompt.as_deref().is_some_and(has)
                || row.branch.as_deref().is_some_and(has)
        };
        self.snapshot.processes.iter().filter(fits).collect()
    }

    pub fn selected_row(&self) -> Option<usize> {
        self.rows().iter().position(|row| Some(row.pid) == self.selected)
    }

    pub fn current(&self) -> Option<&TopRow> {
        self.rows().into_iter().find(|row| Some(row.pid) == self.selected)
    }

    /// The task whose story belongs on the screen; the last one stays where there is none.
    pub fn story_to_load(&self) -> Option<TaskId> {
        self.current().and_then(|row| row.task).filter(|task| self.story.task != Some(*task))
    }

    /// Selects the first that works, where nobody is selected or the selected one is gone.
    fn settle(&mut self) {
        if self.selected_row().is_none() {
            let rows = self.rows();
            let busy = rows.iter().find(|row| row.task.is_some()).or(rows.first());
            self.selected = busy.map(|row| row.pid);
        }
    }

    fn step(&mut self, forward: bool, by: usize) {
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        let at = self.selected_row().unwrap_or(0);
        let to = if forward { at.saturating_add(by).min(last) } else { at.saturating_sub(by) };
        self.selected = rows.get(to).map(|row| row.pid);
    }

    pub fn set_notice(&mut self, tone: Tone, text: impl Into<String>) {
        self.notice = Some(Notice { tone, text: text.into() });
    }

    /// Is something being typed, so that keys are letters?
    fn is_typing(&self) -> bool {
        self.inbox.form.is_some() || self.inbox.search.is_typing
    }

    pub fn key(&mut self, key: &KeyPress, now_ms: i64) -> Option<TopAction> {
        if *key == KeyPress::Interrupt {
            return Some(TopAction::Quit);
        }
        if let Some((pid, task, _)) = self.ends.take() {
            return (*key == KeyPress::Char('y')).then_some(TopAction::Kill { pid, task });
        }
        if self.is_helping {
            self.is_helping = false;
            return None;
        }
        if self.is_filtering {
            self.filter_by(key);
            return None;
        }
        if self.focus == TopFocus::Reviews {
            return self.reviews_key(key, now_ms);
        }
        match key {
            KeyPress::Char('q') => return Some(TopAction::Quit),
            KeyPress::Char('?') => self.is_helping = true,
            KeyPress::Char('/') => self.is_filtering = true,
            KeyPress::Char('r') => self.focus = TopFocus::Reviews,
            KeyPress::Tab => self.turn(),
            KeyPress::Enter => self.focus = TopFocus::Transcript,
            KeyPress::Escape if self.focus == TopFocus::Transcript => self.focus = TopFocus::Processes,
            KeyPress::Escape => (self.filter, self.notice) = (String::new(), None),
            KeyPress::Char('x') => self.ask_end(),
            KeyPress::Char('p') => return self.pause(),
            KeyPress::Char('t') => return self.talk(),
            key if self.focus == TopFocus::Transcript => self.story.key(key),
            KeyPress::Up | KeyPress::Char('k') => self.step(false, 1),
            KeyPress::Down | KeyPress::Char('j') => self.step(true, 1),
            KeyPress::PageUp => self.step(false, 10),
            KeyPress::PageDown | KeyPress::Char(' ') => self.step(true, 10),
            _ => {}
        }
        None
    }

    fn turn(&mut self) {
        self.focus = match self.focus {
            TopFocus::Processes => TopFocus::Transcript,
            TopFocus::Transcript => TopFocus::Reviews,
            TopFocus::Reviews => TopFocus::Processes,
        };
    }

    /// Keys of the inbox; what leaves it comes back to the processes.
    fn reviews_key(&mut self, key: &KeyPress, now_ms: i64) -> Option<TopAction> {
        if !self.is_typing() && !self.inbox.is_helping && matches!(key, KeyPress::Tab | KeyPress::Escape) {
            self.focus = TopFocus::Processes;
            return None;
        }
        match self.inbox.key(key, now_ms) {
            Some(InboxAction::Answer(params)) => return Some(TopAction::Answer(params)),
            Some(InboxAction::Quit) => self.focus = TopFocus::Processes,
            None => {}
        }
        None
    }

    fn filter_by(&mut self, key: &KeyPress) {
        match key {
            KeyPress::Char(c) if self.filter.len() < FILTER_MAX => self.filter.push(*c),
            KeyPress::Backspace => drop(self.filter.pop()),
            KeyPress::Clear => self.filter.clear(),
            KeyPress::Enter => self.is_filtering = false,
            KeyPress::Escape => (self.is_filtering, self.filter) = (false, String::new()),
            _ => {}
        }
        self.settle();
    }

    fn ask_end(&mut self) {
        self.notice = None;
        let Some(row) = self.current() else { return };
        let wish = match (row.task, row.role.as_str()) {
            (Some(task), _) => Some((row.pid, Some(task), format!("end {task} of {}? its changes are kept", row.full_name()))),
            (None, "kernel" | "operator") => None,
            (None, _) => Some((row.pid, None, format!("end what {} does?", row.full_name()))),
        };
        match wish {
            Some(wish) => self.ends = Some(wish),
            None => self.set_notice(Tone::Wait, "it has no task to end; `skep kernel stop` stops the kernel"),
        }
    }

    fn pause(&mut self) -> Option<TopAction> {
        self.notice = None;
        let row = self.current()?;
        match row.task.filter(|_| row.memory_bytes.is_some()) {
            Some(task) if row.paused => Some(TopAction::Resume { task }),
            Some(task) => Some(TopAction::Pause { task }),
            None => {
                self.set_notice(Tone::Wait, "it has no sandbox open that could be paused");
                None
            }
        }
    }

    fn talk(&mut self) -> Option<TopAction> {
        self.notice = None;
        let row = self.current()?;
        if matches!(row.role.as_str(), "kernel" | "operator") {
            self.set_notice(Tone::Wait, "one talks with a worker: select one first");
            return None;
        }
        Some(TopAction::Talk { pid: row.pid, name: row.name.clone() })
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::snapshot::tests::sources;
    use super::super::snapshot::{ContextSizes, arrange};
    use super::*;
    use crate::command::review::inbox::state::tests::inbox;
    use crate::record::tests::line;
    use wire::Answer;
    use wire::event::BrainSaid;

    pub fn top() -> Top {
        let mut top = Top::default();
        top.refresh(arrange(sources(), &ContextSizes::default(), &TopSnapshot::default(), 1_000));
        top
    }

    fn press(top: &mut Top, keys: &str) -> Vec<TopAction> {
        keys.chars().filter_map(|c| top.key(&KeyPress::Char(c), 10_000)).collect()
    }

    fn name(top: &Top) -> &str {
        top.current().map_or("", |row| row.name.as_str())
    }

    #[test]
    fn the_first_that_works_is_selected_and_stays_so() {
        let mut top = top();
        assert_eq!((name(&top), top.story_to_load()), ("worker.1", Some(TaskId(7))));
        press(&mut top, "jj");
        assert_eq!(name(&top), "worker.2");
        press(&mut top, "jjjjk");
        assert_eq!(name(&top), "helper.1", "the list has an end");
        let again = arrange(sources(), &ContextSizes::default(), &top.snapshot, 2_000);
        top.refresh(again);
        assert_eq!(name(&top), "helper.1");
        assert_eq!(top.story_to_load(), None, "who has no task leaves the last story");
    }

    #[test]
    fn an_end_is_asked_about_and_only_y_is_a_yes() {
        let mut top = top();
        assert_eq!(press(&mut top, "x"), []);
        assert!(top.ends.as_ref().is_some_and(|(.., question)| question == "end task-7 of worker.1? its changes are kept"));
        assert_eq!(press(&mut top, "n"), []);
        assert!(top.ends.is_none());
        assert_eq!(press(&mut top, "xq"), [], "a q is a no, and quits nothing");
        assert_eq!(press(&mut top, "xy"), [TopAction::Kill { pid: Pid(3), task: Some(TaskId(7)) }]);
        press(&mut top, "k");
        assert_eq!(name(&top), "operator");
        assert_eq!(press(&mut top, "xy"), []);
        assert!(top.notice.as_ref().is_some_and(|notice| notice.text.contains("skep kernel stop")));
    }

    #[test]
    fn a_sandbox_is_paused_and_goes_on_by_the_same_key() {
        let mut top = top();
        assert_eq!(press(&mut top, "p"), [TopAction::Pause { task: TaskId(7) }]);
        top.snapshot.processes[2].paused = true;
        assert_eq!(press(&mut top, "p"), [TopAction::Resume { task: TaskId(7) }]);
        press(&mut top, "jj");
        assert_eq!(press(&mut top, "p"), []);
        assert!(top.notice.as_ref().is_some_and(|notice| notice.text.contains("no sandbox")));
    }

    #[test]
    fn a_filter_leaves_what_has_the_text() {
        let mut top = top();
        press(&mut top, "/PARSER");
        assert_eq!((top.rows().len(), name(&top)), (1, "worker.2"), "by its prompt");
        top.key(&KeyPress::Enter, 0);
        assert_eq!(press(&mut top, "t"), [TopAction::Talk { pid: Pid(4), name: "worker.2".into() }], "keys are keys again");
        top.key(&KeyPress::Escape, 0);
        assert_eq!(top.rows().len(), 5);
        press(&mut top, "/nowhere");
        assert_eq!((top.rows().len(), top.current().is_none(), top.story_to_load()), (0, true, None));
        press(&mut top, "q");
        assert_eq!(top.filter, "nowhereq", "a q is a letter of it");
    }

    #[test]
    fn questions_are_answered_by_the_inbox() {
        let mut top = top();
        top.inbox = inbox(&[1]);
        assert_eq!(press(&mut top, "a"), [], "not from elsewhere");
        press(&mut top, "r");
        top.inbox.saw_all();
        let answered = press(&mut top, "a");
        assert!(matches!(&answered[..], [TopAction::Answer(params)] if params.answer == Answer::Allow), "{answered:?}");
        // In a form a letter is a letter, and tab and escape leave the form first.
        press(&mut top, "dq");
        assert_eq!((top.focus, top.inbox.form.is_some()), (TopFocus::Reviews, true));
        top.key(&KeyPress::Escape, 10_000);
        assert_eq!((top.focus, top.inbox.form.is_some()), (TopFocus::Reviews, false));
        press(&mut top, "q");
        assert_eq!(top.focus, TopFocus::Processes);
        assert_eq!(press(&mut top, "q"), [TopAction::Quit]);
        press(&mut top, "rd");
        assert_eq!(top.key(&KeyPress::Interrupt, 10_000), Some(TopAction::Quit), "ctrl-c leaves from everywhere");
    }

    #[test]
    fn a_story_is_bounded_and_who_reads_back_is_not_moved() {
        let said = |seq: u64, text: &str| {
            let event = BrainSaid { pid: Pid(3), task: Some(TaskId(7)), text: text.into() };
            ParsedRecord::parse(&line(seq, event)).unwrap()
        };
        let mut story = TopStory::of(TaskId(7), &[said(1, "one"), said(2, "two\nthree")]);
        assert_eq!(story.lines.len(), 3);
        story.key(&KeyPress::Up);
        story.add(&said(3, "four"));
        assert_eq!(story.back, 2);
        (0..300).for_each(|seq| story.add(&said(seq, &"x".repeat(10_000))));
        assert!(story.bytes <= STORY_BYTES_MAX && story.lines.len() < 200, "{} lines", story.lines.len());
        (0..6_000).for_each(|seq| story.add(&said(seq, "short")));
        assert_eq!(story.lines.len(), STORY_LINES_MAX);
    }
}
