//! The inbox as a machine: keys and news in, requests out. Pure.
//!
//! **Invariant.** A key answers only the question that has been on the screen for [`SIGHT_MS`]: whatever moves the next one into its
//! place, a key meant for the last is not taken for it. A yes counts only after every line of it has been in sight.

use super::form::{Form, FormKind, FormStep};
use crate::command::review::answer::exactly;
use crate::command_error::CommandError;
use crate::show::Tone;
use crate::terminal::key::KeyPress;
use wire::method::merge::APPLY_TOOL;
use wire::method::model::WaitView;
use wire::method::review::{AnswerReach, ReviewAnswerParams, ReviewStatus, ReviewView};
use wire::method::task::TaskView;
use wire::{Answer, CallPattern, ReviewId};

/// How long a question must have been in sight: longer than a key repeats, shorter than anyone reads.
pub const SIGHT_MS: i64 = 400;
/// Longest text that is looked for.
const SEARCH_MAX: usize = 200;
/// Keys that answer, in the order in which they are shown.
const ANSWERS: &[char] = &['a', 's', 'z', 'g', 'd', 'c', 'o', 'D', 'i', 'e'];

#[derive(Debug, Default)]
pub struct Inbox {
    /// What waits, oldest first.
    pub open: Vec<ReviewView>,
    pub at: usize,
    /// The question at `at`, with what only `review.show` tells; `None` until that has come.
    pub shown: Option<ReviewView>,
    pub form: Option<Form>,
    pub notice: Option<Notice>,
    pub scroll: usize,
    /// The task that the question in sight belongs to.
    pub about: Option<TaskView>,
    /// Is what is seldom needed shown too?
    pub is_detailed: bool,
    /// Are the keys explained instead of the question?
    pub is_helping: bool,
    /// What is looked for in the question.
    pub search: Search,
    /// Requests that wait for more of a budget; `skep budget grant` answers those.
    pub waits: Vec<WaitView>,
    /// What was answered here.
    pub said: Vec<(ReviewView, Option<AnswerReach>)>,
    awake_ms: i64,
    sight: SeenLines,
}

/// A text that is looked for in the question in sight.
#[derive(Debug, Default)]
pub struct Search {
    pub text: String,
    /// What was looked for last, and the line that had it.
    last: String,
    pub found: Option<usize>,
    pub is_typing: bool,
    /// The picture must turn to the next line that has it.
    pub is_wanted: bool,
}

impl Search {
    /// An empty text means the last one again, from where it was found.
    fn begin(&mut self) {
        if self.text.is_empty() {
            self.text = std::mem::take(&mut self.last);
        } else if self.text != self.last {
            self.found = None;
        }
        (self.is_typing, self.is_wanted) = (false, !self.text.is_empty());
    }
}

/// How much of the question has been in sight.
#[derive(Debug, Default)]
struct SeenLines {
    /// Width of the screen that its lines were counted on.
    columns: usize,
    lines: usize,
    /// Lines from the first on, without a gap.
    seen: usize,
    /// Lines that are in sight at once.
    page: usize,
}

/// One thing that a person should know, beside the question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub tone: Tone,
    pub text: String,
}

/// What the machine wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum InboxAction {
    Answer(Box<ReviewAnswerParams>),
    Quit,
}

impl Inbox {
    pub fn current(&self) -> Option<&ReviewView> {
        self.open.get(self.at)
    }

    /// The question that must be fetched before it can be shown.
    pub fn wanted(&self) -> Option<ReviewId> {
        let current = self.current()?.review;
        self.shown.as_ref().is_none_or(|shown| shown.review != current).then_some(current)
    }

    /// Do answers count yet?
    pub fn is_awake(&self, now_ms: i64) -> bool {
        self.wanted().is_none() && self.shown.is_some() && now_ms >= self.awake_ms
    }

    /// What waits now. Gives the question that was in sight, if it no longer waits.
    pub fn refresh(&mut self, open: Vec<ReviewView>) -> Option<ReviewId> {
        let before = self.current().map(|review| review.review);
        let at = before.and_then(|id| open.iter().position(|review| review.review == id));
        self.open = open;
        match at {
            Some(at) => {
                self.at = at;
                None
            }
            None => {
                self.turn(self.at);
                before
            }
        }
    }

    /// Puts the whole question in sight.
    pub fn show(&mut self, view: ReviewView, about: Option<TaskView>, now_ms: i64) {
        self.about = about;
        (self.is_helping, self.search) = (false, Search::default());
        self.awake_ms = now_ms.saturating_add(SIGHT_MS);
        self.scroll = 0;
        self.sight = SeenLines { lines: usize::MAX, page: 1, ..SeenLines::default() };
        self.shown = Some(view);
    }

    /// Of the question's `lines`, those from `from` on are in sight, `page` of them. Another width breaks them anew.
    pub fn in_sight(&mut self, columns: usize, lines: usize, from: usize, page: usize) {
        if (self.sight.columns, self.sight.lines) != (columns, lines) {
            self.sight = SeenLines { columns, lines, ..SeenLines::default() };
        }
        self.sight.page = page;
        if from <= self.sight.seen {
            self.sight.seen = self.sight.seen.max((from + page).min(lines));
        }
    }

    /// All of the question was printed.
    pub fn saw_all(&mut self) {
        self.sight = SeenLines { page: 1, ..SeenLines::default() };
    }

    /// Why a yes does not count yet.
    fn unseen(&self) -> Option<String> {
        let SeenLines { lines, seen, .. } = self.sight;
        (seen < lines).then(|| format!("a yes covers all of it: page to its end first (space); {seen} of {lines} lines were in sight"))
    }

    /// Somebody else, or the end of its task, took a question away.
    pub fn gone(&mut self, view: &ReviewView) {
        let by = view.by.as_deref().unwrap_or("somebody");
        let text = match (view.state, view.answer) {
            (ReviewStatus::Void, _) => format!("{} is void: its task has ended", view.review),
            (_, Some(Answer::Allow)) => format!("{} was allowed by {by} meanwhile", view.review),
            (_, Some(Answer::Deny)) => format!("{} was denied by {by} meanwhile", view.review),
            (_, Some(Answer::Changes)) => format!("{} was sent back by {by} meanwhile", view.review),
            (_, None) => format!("{} no longer waits", view.review),
        };
        self.notice = Some(Notice { tone: Tone::Wait, text });
    }

    /// The kernel took an answer.
    pub fn took(&mut self, view: ReviewView, params: &ReviewAnswerParams) {
        self.notice = Some(answer_notice(params));
        self.open.retain(|review| review.review != view.review);
        self.turn(self.at);
        self.said.push((view, params.reach));
    }

    /// The kernel did not take it.
    pub fn refused(&mut self, error: &CommandError) {
        let parts = [Some(error.what.as_str()), error.why.as_deref(), error.fix.as_deref()];
        let text = parts.into_iter().flatten().collect::<Vec<_>>().join(": ");
        self.notice = Some(Notice { tone: Tone::Bad, text });
    }

    pub fn key(&mut self, key: &KeyPress, now_ms: i64) -> Option<InboxAction> {
        let current = self.current().map(|review| review.review);
        if let (Some(form), Some(review)) = (&mut self.form, current) {
            return match form.key(key, review) {
                FormStep::Stay => None,
                FormStep::Leave => {
                    self.form = None;
                    None
                }
                FormStep::Done(mut params) => {
                    self.form = None;
                    if params.answer == Answer::Allow {
                        params.seen = self.shown.as_ref().and_then(|view| view.seen.clone());
                    }
                    Some(InboxAction::Answer(params))
                }
            };
        }
        if self.search.is_typing {
            self.look_for(key);
            return None;
        }
        if self.is_helping && !matches!(key, KeyPress::Interrupt) {
            self.is_helping = false;
            return None;
        }
        match key {
            KeyPress::Char('q') | KeyPress::Interrupt => return Some(InboxAction::Quit),
            KeyPress::Char('?') => self.is_helping = true,
            KeyPress::Char('m') => self.is_detailed = !self.is_detailed,
            KeyPress::Char('/') => {
                self.search.last = std::mem::take(&mut self.search.text);
                self.search.is_typing = true;
            }
            KeyPress::Char('n') | KeyPress::Right => self.turn(self.at + 1),
            KeyPress::Char('p') | KeyPress::Left => self.turn(self.at.saturating_sub(1)),
            KeyPress::Up | KeyPress::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyPress::Down | KeyPress::Char('j') => self.scroll += 1,
            KeyPress::PageUp => self.scroll = self.scroll.saturating_sub(self.sight.page),
            KeyPress::PageDown | KeyPress::Char(' ') => self.scroll += self.sight.page,
            KeyPress::Char(c) if self.is_awake(now_ms) => return self.answer(*c, current?),
            _ => return None,
        }
        None
    }

    /// One key of a text that is looked for.
    fn look_for(&mut self, key: &KeyPress) {
        match key {
            KeyPress::Char(c) if self.search.text.len() < SEARCH_MAX => self.search.text.push(*c),
            KeyPress::Backspace => drop(self.search.text.pop()),
            KeyPress::Clear => self.search.text.clear(),
            KeyPress::Enter => self.search.begin(),
            KeyPress::Escape | KeyPress::Interrupt => self.search = Search::default(),
            _ => {}
        }
    }

    /// Which answers make sense for the question in sight.
    pub fn answers(&self) -> Vec<char> {
        let Some(view) = &self.shown else { return Vec::new() };
        let is_exact = matches!(view.like, Some(CallPattern::Exact { .. }));
        let makes_sense = |c: &char| match c {
            'd' => true,
            // A yes to what cannot be shown is given elsewhere, with the words that belong to it.
            'a' | 's' | 'z' | 'g' | 'c' | 'o' if view.lost => false,
            // All of a merge is in its diff: it has no fields to set, and nothing is done instead of it.
            'c' | 'o' | 'i' if view.tool == APPLY_TOOL => false,
            's' | 'z' | 'g' | 'D' => !is_exact && view.tool != APPLY_TOOL,
            'e' => view.tool == APPLY_TOOL,
            _ => true,
        };
        ANSWERS.iter().copied().filter(makes_sense).collect()
    }

    fn answer(&mut self, c: char, review: ReviewId) -> Option<InboxAction> {
        let is_yes = matches!(c, 'a' | 's' | 'z' | 'g' | 'c' | 'o');
        if let Some(text) = self.unseen().filter(|_| is_yes) {
            self.notice = Some(Notice { tone: Tone::Wait, text });
            return None;
        }
        let seen = self.shown.as_ref().and_then(|view| view.seen.clone());
        if self.shown.as_ref().is_some_and(|view| view.lost) && is_yes {
            let text = format!("not all of it can be shown here, so no key says yes: `skep review show {review} --full` says how");
            self.notice = Some(Notice { tone: Tone::Wait, text });
            return None;
        }
        if !self.answers().contains(&c) {
            return None;
        }
        let yes =
            |reach| Some(InboxAction::Answer(Box::new(ReviewAnswerParams { reach, seen: seen.clone(), ..exactly(review, Answer::Allow) })));
        let kind = match c {
            'a' => return yes(None),
            's' => return yes(Some(AnswerReach::Session)),
            'z' => return yes(Some(AnswerReach::Zone)),
            'g' => return yes(Some(AnswerReach::All)),
            'c' => FormKind::Constrained,
            'o' => FormKind::Observed,
            'd' => FormKind::Deny,
            'D' => FormKind::Ban,
            'i' => FormKind::Instead,
            'e' if self.current().is_some_and(|view| view.tool == APPLY_TOOL) => FormKind::Changes,
            _ => return None,
        };
        self.notice = None;
        self.form = Some(Form::new(kind));
        None
    }

    /// Turns to the question at `to`, or the last.
    fn turn(&mut self, to: usize) {
        let to = to.min(self.open.len().saturating_sub(1));
        let stays = self.shown.as_ref().map(|shown| shown.review) == self.open.get(to).map(|review| review.review);
        self.at = to;
        if !stays {
            (self.shown, self.about, self.form, self.scroll) = (None, None, None, 0);
        }
    }
}

/// What an answer was, as soon as it counts.
fn answer_notice(params: &ReviewAnswerParams) -> Notice {
    let id = params.review;
    let whom = match params.reach {
        None => "for this call",
        Some(AnswerReach::Process) => "for this worker",
        Some(AnswerReach::Session) => "for this task",
        Some(AnswerReach::Zone) => "in this repository",
        Some(AnswerReach::User) => "for its user, always",
        Some(AnswerReach::All) => "always",
    };
    let lasts = if params.reach.is_some() { "; `skep grant list` shows it, `skep grant revoke` takes it back" } else { "" };
    match (params.answer, &params.reach) {
        (Answer::Allow, _) => {
            let how = match params.terms.as_ref().map(|terms| (terms.constraints.is_some(), terms.observe.is_some())) {
                Some((true, _)) => " on conditions",
                Some((_, true)) => " and observed",
                _ => "",
            };
            Notice { tone: Tone::Good, text: format!("{id} allowed {whom}{how}{lasts}") }
        }
        (Answer::Changes, _) => Notice { tone: Tone::Good, text: format!("{id} sent back: its task goes on with that") },
        (Answer::Deny, None) => Notice { tone: Tone::Bad, text: format!("{id} denied") },
        (Answer::Deny, Some(_)) => Notice { tone: Tone::Bad, text: format!("{id} denied for good {whom}{lasts}") },
    }
}

#[cfg(test)]
pub mod tests;
