//! The inbox as a machine: keys and news in, requests out. Pure.
//!
//! **Invariant.** A key answers only the question that has been on the screen for [`SIGHT_MS`]: whatever moves the next one into its
//! place, a key meant for the last is not taken for it. A yes counts only after every line of it has been in sight.

use super::form::{Form, FormKind, FormStep};
use crate::command::review::answer::exactly;
use crate::command_error::CommandError;
use crate::show::Tone;
use crate::terminal::key::KeyPress;
use wire::method::model::WaitView;
use wire::method::review::{AnswerReach, ReviewAnswerParams, ReviewStatus, ReviewView};
use wire::{Answer, ReviewId};

/// How long a question must have been in sight: longer than a key repeats, shorter than anyone reads.
pub const SIGHT_MS: i64 = 400;

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
    /// Requests that wait for more of a budget; `skep budget grant` answers those.
    pub waits: Vec<WaitView>,
    /// What was answered here.
    pub said: Vec<ReviewView>,
    awake_ms: i64,
    sight: Sight,
}

/// How much of the question has been in sight.
#[derive(Debug, Default)]
struct Sight {
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
    pub fn show(&mut self, view: ReviewView, now_ms: i64) {
        self.awake_ms = now_ms.saturating_add(SIGHT_MS);
        self.scroll = 0;
        self.sight = Sight { lines: usize::MAX, page: 1, ..Sight::default() };
        self.shown = Some(view);
    }

    /// Of the question's `lines`, those from `from` on are in sight, `page` of them. Another width breaks them anew.
    pub fn in_sight(&mut self, columns: usize, lines: usize, from: usize, page: usize) {
        if (self.sight.columns, self.sight.lines) != (columns, lines) {
            self.sight = Sight { columns, lines, ..Sight::default() };
        }
        self.sight.page = page;
        if from <= self.sight.seen {
            self.sight.seen = self.sight.seen.max((from + page).min(lines));
        }
    }

    /// All of the question was printed.
    pub fn saw_all(&mut self) {
        self.sight = Sight { page: 1, ..Sight::default() };
    }

    /// Why a yes does not count yet.
    fn unseen(&self) -> Option<String> {
        let Sight { lines, seen, .. } = self.sight;
        (seen < lines).then(|| format!("a yes covers all of it: page to its end first (space); {seen} of {lines} lines were in sight"))
    }

    /// Somebody else, or the end of its task, took a question away.
    pub fn gone(&mut self, view: &ReviewView) {
        let by = view.by.as_deref().unwrap_or("somebody");
        let text = match (view.state, view.answer) {
            (ReviewStatus::Void, _) => format!("{} is void: its task has ended", view.review),
            (_, Some(Answer::Allow)) => format!("{} was allowed by {by} meanwhile", view.review),
            (_, Some(Answer::Deny)) => format!("{} was denied by {by} meanwhile", view.review),
            (_, None) => format!("{} no longer waits", view.review),
        };
        self.notice = Some(Notice { tone: Tone::Wait, text });
    }

    /// The kernel took an answer.
    pub fn took(&mut self, view: ReviewView, params: &ReviewAnswerParams) {
        self.notice = Some(answer_notice(params));
        self.open.retain(|review| review.review != view.review);
        self.turn(self.at);
        self.said.push(view);
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
        match key {
            KeyPress::Char('q') | KeyPress::Interrupt => return Some(InboxAction::Quit),
            KeyPress::Char('n') | KeyPress::Right => self.turn(self.at + 1),
            KeyPress::Char('p') | KeyPress::Left => self.turn(self.at.saturating_sub(1)),
            KeyPress::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyPress::Down => self.scroll += 1,
            KeyPress::PageUp => self.scroll = self.scroll.saturating_sub(self.sight.page),
            KeyPress::PageDown | KeyPress::Char(' ') => self.scroll += self.sight.page,
            KeyPress::Char(c) if self.is_awake(now_ms) => return self.answer(*c, current?),
            _ => return None,
        }
        None
    }

    fn answer(&mut self, c: char, review: ReviewId) -> Option<InboxAction> {
        if let Some(text) = self.unseen().filter(|_| matches!(c, 'a' | 's' | 'g' | 'c' | 'o')) {
            self.notice = Some(Notice { tone: Tone::Wait, text });
            return None;
        }
        let seen = self.shown.as_ref().and_then(|view| view.seen.clone());
        if self.shown.as_ref().is_some_and(|view| view.lost) && matches!(c, 'a' | 's' | 'g' | 'c' | 'o') {
            let text = format!("not all of it can be shown here, so no key says yes: `skep review show {review} --full` says how");
            self.notice = Some(Notice { tone: Tone::Wait, text });
            return None;
        }
        let yes =
            |reach| Some(InboxAction::Answer(Box::new(ReviewAnswerParams { reach, seen: seen.clone(), ..exactly(review, Answer::Allow) })));
        let kind = match c {
            'a' => return yes(None),
            's' => return yes(Some(AnswerReach::Session)),
            'g' => return yes(Some(AnswerReach::All)),
            'c' => FormKind::Constrained,
            'o' => FormKind::Observed,
            'd' => FormKind::Deny,
            'D' => FormKind::Ban,
            'i' => FormKind::Instead,
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
            (self.shown, self.form, self.scroll) = (None, None, 0);
        }
    }
}

/// What an answer was, as soon as it counts.
fn answer_notice(params: &ReviewAnswerParams) -> Notice {
    let id = params.review;
    let whom = match params.reach {
        None => "once",
        Some(AnswerReach::Process) => "for its process",
        Some(AnswerReach::Session) => "for its session",
        Some(AnswerReach::Zone) => "in its repository",
        Some(AnswerReach::User) => "for its user",
        Some(AnswerReach::All) => "always, for everyone",
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
        (Answer::Deny, None) => Notice { tone: Tone::Bad, text: format!("{id} denied") },
        (Answer::Deny, Some(_)) => Notice { tone: Tone::Bad, text: format!("{id} denied for good {whom}{lasts}") },
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use serde_json::{Value, json};
    use wire::ErrorCode;

    pub fn view(id: u64) -> ReviewView {
        serde_json::from_value(json!({
            "review": format!("r-{id}"), "pid": 3, "process": "foreman.1", "task": "task-1", "tool": "fs.write",
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
            inbox.show(view(id.0), now_ms);
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
        assert_eq!(press(&mut inbox(&[1]), "xyzAGS1\n?"), Vec::<Value>::new());
        assert_eq!(press(&mut inbox(&[]), "asgcodDinp"), Vec::<Value>::new());
    }

    #[test]
    fn a_yes_counts_when_every_line_was_in_sight() {
        let mut inbox = inbox(&[1]);
        let mut cut = view(1);
        (cut.cut, cut.seen) = (true, Some("0a1b2c3d".into()));
        inbox.show(cut, 0);
        assert_eq!(press(&mut inbox, "asgco"), Vec::<Value>::new(), "nothing was drawn yet");
        inbox.in_sight(40, 30, 0, 10);
        assert_eq!(press(&mut inbox, "a"), Vec::<Value>::new());
        assert_eq!(
            inbox.notice.as_ref().unwrap().text,
            "a yes covers all of it: page to its end first (space); 10 of 30 lines were in sight"
        );
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
        inbox.show(lost, 0);
        inbox.saw_all();
        assert_eq!(press(&mut inbox, "a"), Vec::<Value>::new());
        assert!(inbox.notice.as_ref().unwrap().text.contains("skep review show r-1 --full"));
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
        assert!(
            matches!(inbox.key(&KeyPress::Char('a'), 1_000 + SIGHT_MS), Some(InboxAction::Answer(params)) if params.review == ReviewId(2))
        );
        assert_eq!(inbox.key(&KeyPress::Paste("a".into()), 10_000), None, "pasted text is no answer");
    }

    #[test]
    fn an_answer_of_ours_moves_on() {
        let mut inbox = inbox(&[1, 2]);
        let params = ReviewAnswerParams { reach: Some(AnswerReach::Session), ..exactly(ReviewId(1), Answer::Allow) };
        inbox.took(view(1), &params);
        assert_eq!((inbox.wanted(), inbox.said.len()), (Some(ReviewId(2)), 1));
        assert!(inbox.notice.as_ref().is_some_and(|notice| notice.text.starts_with("r-1 allowed for its session; ")));
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
}
