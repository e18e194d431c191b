//! How the task at the prompt is held to tests first: what the line before the cursor says of it, and how it is switched.
//!
//! **Invariant.** The state that is shown is the one that the kernel has on record. What needs a person's yes first is done after that yes, and not
//! before; a no drops it.

use super::Prompt;
use super::turn::TurnEnd;
use crate::command::config;
use crate::command_error::CommandError;
use crate::show::{Line, Tone};
use wire::method::discipline::{DisciplineShowParams, DisciplineSwitchParams};
use wire::table::{DisciplineShow, DisciplineSwitch};
use wire::{ClientError, Discipline, Mode, ReviewId, TaskId, WorkflowState};

/// The last task of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldTask {
    /// `None` where tests need not come first.
    pub mode: Option<Discipline>,
    pub state: WorkflowState,
}

impl Default for HeldTask {
    fn default() -> HeldTask {
        HeldTask { mode: None, state: WorkflowState::Idle }
    }
}

/// What was typed and needs a yes before it can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeferredWish {
    Add {
        mode: Mode,
        prompt: String,
    },
    /// Another mode of the task that asks this.
    Switch {
        mode: Discipline,
        waiting: ReviewId,
    },
}

/// What the line says of a task: its mode and state, and that a call of it asks something.
struct ShownState {
    mode: Option<Discipline>,
    state: &'static str,
    asks: bool,
}

/// `next` is the mode of the next task; what waits is a merge, or a call.
fn shown(next: Option<Discipline>, held: HeldTask, waiting: Option<bool>) -> ShownState {
    let is_under_way = held.mode.is_some() && held.state != WorkflowState::Idle;
    match waiting {
        _ if is_under_way => ShownState { mode: held.mode, state: held.state.as_str(), asks: waiting == Some(false) },
        Some(true) => ShownState { mode: next.or(held.mode), state: "reviewing", asks: false },
        Some(false) => ShownState { mode: next.or(held.mode), state: "asks", asks: false },
        None => ShownState { mode: next, state: "idle", asks: false },
    }
}

impl Prompt {
    /// `[strict] [test_writing] > `: how strictly tests come first, and where the work stands.
    pub(super) fn state_line(&self) -> Line {
        let ShownState { mode, state, asks } =
            shown(self.discipline.or(self.usual), self.held, self.waiting.as_ref().map(|waiting| waiting.is_merge));
        let brain = self.brain.as_deref().map(|brain| format!("[{}] ", short(brain))).unwrap_or_default();
        let mode = mode.map(|mode| format!("[{mode}] ")).unwrap_or_default();
        let tone = if self.waiting.is_some() { Tone::Wait } else { Tone::Faint };
        let asks = if asks { " [asks]" } else { "" };
        Line::new().name(brain).strong(mode).add(tone, format!("[{state}]{asks}")).plain(" >")
    }

    /// Learns where the last task stands, and what counts for the next. A kernel that has gone is not started for it.
    pub(super) async fn look_at_held(&mut self) {
        self.usual = config::usual_discipline(&self.console, &self.project).await;
        if let (Some(task), Ok(mut kernel)) = (self.task(), self.console.connect().await)
            && let Ok(view) = kernel.call::<DisciplineShow>(&DisciplineShowParams { task }).await
        {
            self.held = HeldTask { mode: view.mode, state: view.state };
        }
    }

    /// Switches how strictly tests come first: of the task that waits, and of the next ones. The policy decides when it is to count.
    pub(super) async fn switch(&mut self, name: &str) -> Result<TurnEnd, CommandError> {
        let Some(mode) = Discipline::parse(name) else { return Ok(TurnEnd::Ended) };
        if let Some((task, review)) = self.waiting.as_ref().and_then(|waiting| Some((waiting.task?, waiting.review))) {
            let switched = self.console.kernel().await?.call::<DisciplineSwitch>(&DisciplineSwitchParams { task, mode }).await;
            match switched {
                Ok(view) => {
                    let now = view.mode.map_or("no tests first".to_owned(), |mode| mode.to_string());
                    self.tell(Line::new().plain(format!("{task}: ")).strong(now).faint(format!("  {}", view.reason.unwrap_or_default())));
                }
                Err(error) => return self.defer(error, DeferredWish::Switch { mode, waiting: review }).await,
            }
        }
        self.discipline = Some(mode);
        self.tell(Line::new().faint(format!("your next tasks are {mode}, if the policy lets them")));
        Ok(TurnEnd::Ended)
    }

    /// Shows the question that stands before a wish, and keeps the wish; other errors are told.
    pub(super) async fn defer(&mut self, error: ClientError, wish: DeferredWish) -> Result<TurnEnd, CommandError> {
        let Some(review) = error.review() else { return Err(error.into()) };
        self.show_question(review).await?;
        self.deferred = Some(wish);
        Ok(TurnEnd::Asks(review))
    }

    /// Goes on after the answer to a question of the person's own: with the wish after a yes, and to what waited before it.
    pub(super) async fn after_answer(&mut self, wish: DeferredWish, is_yes: bool) -> Result<TurnEnd, CommandError> {
        match wish {
            DeferredWish::Add { mode, prompt } if is_yes => Box::pin(self.add(mode, prompt)).await,
            DeferredWish::Add { .. } => Ok(TurnEnd::Ended),
            DeferredWish::Switch { mode, waiting } => {
                self.show_question(waiting).await?;
                if is_yes { Box::pin(self.switch(mode.as_str())).await } else { Ok(TurnEnd::Ended) }
            }
        }
    }

    /// How the last task is held to tests first, and what the kernel saw of them.
    pub(super) async fn show_discipline(&mut self, task: TaskId) -> Result<(), CommandError> {
        let view = self.console.kernel().await?.call::<DisciplineShow>(&DisciplineShowParams { task }).await?;
        let Some(mode) = view.mode else { return Ok(()) };
        let runs = [("red", &view.red), ("green", &view.green)];
        let seen =
            runs.iter().filter_map(|(name, run)| run.as_ref().map(|run| format!("  {name}: {} failed, {} passed", run.failed, run.passed)));
        self.tell(Line::new().plain(format!("{task}: ")).strong(format!("[{mode}] [{}]", view.state)).faint(seen.collect::<String>()));
        Ok(())
    }
}

/// A brain's name without the path of a script.
fn short(brain: &str) -> String {
    match brain.strip_prefix("script:") {
        Some(file) => format!("script:{}", file.rsplit('/').next().unwrap_or(file)),
        None => brain.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_that_of_the_work_while_it_is_under_way() {
        let at = |next: Option<Discipline>, mode: Option<Discipline>, state: WorkflowState, waiting: Option<bool>| {
            let ShownState { mode, state, asks } = shown(next, HeldTask { mode, state }, waiting);
            (mode, state, asks)
        };
        let (strict, explore) = (Some(Discipline::Strict), Some(Discipline::Explore));
        use WorkflowState::{Idle, Reviewing, TestWriting};
        assert_eq!(at(None, strict, TestWriting, None), (strict, "test_writing", false), "a task that stopped there");
        assert_eq!(at(None, strict, TestWriting, Some(false)), (strict, "test_writing", true));
        assert_eq!(at(explore, strict, Reviewing, Some(true)), (strict, "reviewing", false), "the next task's mode is not this one's");
        assert_eq!(at(explore, strict, Idle, None), (explore, "idle", false));
        assert_eq!(at(None, strict, Idle, None), (None, "idle", false), "the next task is held to nothing");
        assert_eq!(at(None, None, Idle, Some(true)), (None, "reviewing", false), "a task that is held to nothing");
        assert_eq!(at(None, None, Idle, Some(false)), (None, "asks", false));
    }
}
