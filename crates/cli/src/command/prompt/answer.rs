//! What waits for an answer at the prompt: it is shown whole, and `/approve` and `/reject` answer it.
//!
//! **Invariant.** A yes is bound to what was shown: a merge to its digest, a call to what its full view names.

use super::Prompt;
use super::turn::TurnEnd;
use crate::command::merge::commit::{self, WantedCommit};
use crate::command::review::answer::exactly;
use crate::command::review::inbox::{fetch, state::Inbox};
use crate::command_error::CommandError;
use crate::show::{Line, inbox, measure};
use std::collections::BTreeMap;
use wire::method::merge::APPLY_TOOL;
use wire::method::review::{ReviewAnswerParams, ReviewShowParams};
use wire::method::task::{TaskDiffResult, TaskIdParams, TaskMergeParams, TaskRejectParams};
use wire::table::{ReviewAnswer, ReviewShow, TaskDiff, TaskMerge, TaskReject};
use wire::{Answer, ErrorCode, ReviewId, TaskId};

/// A question that is longer is not read in passing.
const LINES_MAX: usize = 400;

/// A question that was shown.
pub struct OpenQuestion {
    pub review: ReviewId,
    pub task: Option<TaskId>,
    /// It is about taking a task's changes.
    pub is_merge: bool,
    /// Part of it was not shown.
    pub is_unshown: bool,
    /// Files that no diff shows.
    unread: usize,
    /// What a yes to a call is bound to, where it was cut.
    seen: Option<String>,
    /// What a yes to a merge is bound to.
    shown: Option<Box<TaskDiffResult>>,
}

fn nothing_waits() -> CommandError {
    CommandError::new(ErrorCode::WrongState, "nothing waits for your answer here").fix("`skep review` shows what waits elsewhere")
}

impl Prompt {
    /// Shows a question, and what may be typed.
    pub(super) async fn show_question(&mut self, review: ReviewId) -> Result<(), CommandError> {
        let mut kernel = self.console.kernel().await?;
        let view = kernel.call::<ReviewShow>(&ReviewShowParams { review, full: false }).await?;
        let mut question = Inbox::default();
        question.refresh(vec![view]);
        fetch(&mut kernel, &mut question).await?;
        let Some(view) = question.shown.clone() else { return Ok(()) };
        let is_merge = view.tool == APPLY_TOOL;
        let shown = match (is_merge, view.task) {
            (true, Some(task)) => Some(Box::new(kernel.call::<TaskDiff>(&TaskIdParams { task }).await?)),
            _ => None,
        };
        let page = inbox::one(&question, measure::now_ms());
        let is_unshown = page.0.len() > LINES_MAX;
        let unread = shown.iter().flat_map(|shown| &shown.files).filter(|file| file.unshown && file.refused.is_none()).count();
        if is_unshown {
            let more = page.0.len() - LINES_MAX;
            self.show(&page.0.into_iter().take(LINES_MAX).collect());
            self.tell(Line::new().wait(format!("… {more} lines more: /diff shows all, and then a yes counts")));
        } else {
            self.show(&page);
        }
        self.tell(Line::new().faint(match is_merge {
            true => "/approve takes it, /approve commit makes a commit of it, /reject leaves it; or say what should be different",
            false => "/approve allows this once, /reject [REASON] refuses it; `skep review` has more answers",
        }));
        self.waiting = Some(OpenQuestion { review, task: view.task, is_merge, is_unshown, unread, seen: view.seen, shown });
        Ok(())
    }

    /// `/approve`, `/approve commit [MESSAGE]`, `/approve unread`.
    pub(super) async fn approve(&mut self, rest: &str) -> Result<TurnEnd, CommandError> {
        let waiting = self.waiting.as_ref().ok_or_else(nothing_waits)?;
        if waiting.is_unshown {
            return Err(CommandError::new(ErrorCode::WrongState, "a yes covers all of it, and part of it was not shown").fix("/diff first"));
        }
        let (word, message) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if !["", "commit", "unread"].contains(&word) || (word != "commit" && !message.is_empty()) {
            return Err(CommandError::new(ErrorCode::BadInput, format!("`/approve {rest}` means nothing"))
                .fix("/approve, or /approve commit [MESSAGE]"));
        }
        let mut kernel = self.console.kernel().await?;
        match (&waiting.shown, waiting.task) {
            (Some(shown), Some(task)) => {
                if waiting.unread > 0 && word != "unread" {
                    let what = format!("no diff shows {}", measure::plural(waiting.unread as u64, "file"));
                    return Err(CommandError::new(ErrorCode::WrongState, what).fix("`/approve unread` takes them as they are"));
                }
                let sides = BTreeMap::new();
                let wish = match word {
                    "commit" => {
                        let message = Some(message.trim().to_owned()).filter(|message| !message.is_empty());
                        Some(commit::wish(&mut kernel, WantedCommit { shown, only: &[], sides: &sides, branch: None, message }).await?)
                    }
                    _ => None,
                };
                let params = TaskMergeParams { task, digest: shown.digest.clone(), sides, only: Vec::new(), commit: wish };
                let merging = self.console.wait_counting("merging", Some(task), kernel.call::<TaskMerge>(&params));
                merging.await?;
            }
            _ => {
                let params = ReviewAnswerParams { seen: waiting.seen.clone(), ..exactly(waiting.review, Answer::Allow) };
                kernel.call::<ReviewAnswer>(&params).await?;
            }
        }
        self.answered(true).await
    }

    /// `/reject [REASON]`.
    pub(super) async fn reject(&mut self, reason: &str) -> Result<TurnEnd, CommandError> {
        let waiting = self.waiting.as_ref().ok_or_else(nothing_waits)?;
        let reason = Some(reason.to_owned()).filter(|reason| !reason.is_empty());
        let mut kernel = self.console.kernel().await?;
        match waiting.task.filter(|_| waiting.is_merge) {
            Some(task) => drop(kernel.call::<TaskReject>(&TaskRejectParams { task, reason }).await?),
            None => {
                let params = ReviewAnswerParams { reason, ..exactly(waiting.review, Answer::Deny) };
                kernel.call::<ReviewAnswer>(&params).await?;
            }
        }
        self.answered(false).await
    }

    /// Goes on with whoever asked: the task, or the person at this prompt.
    async fn answered(&mut self, is_yes: bool) -> Result<TurnEnd, CommandError> {
        self.waiting = None;
        match self.deferred.take() {
            Some(wish) => self.after_answer(wish, is_yes).await,
            None => self.turn().await,
        }
    }
}
