//! A question below whatever else a terminal shows: `skep watch` and `--await` take the answer where they stand.
//!
//! The same machine as the inbox, by lines: a letter and the enter key. What was typed before the question was there answers nothing.

use super::inbox::state::Inbox;
use super::inbox::{LineEnd, fetch, typed_line};
use crate::command_error::CommandError;
use crate::console::Console;
use crate::show::{Line, Page, inbox};
use rustix::termios::{QueueSelector, tcflush};
use std::io::{BufRead, IsTerminal};
use std::time::Duration;
use tokio::sync::mpsc;
use wire::method::review::{ReviewShowParams, ReviewStatus};
use wire::table::ReviewShow;
use wire::{KernelClient, ReviewId};

/// How often is looked whether somebody else has answered.
const LOOK_MS: u64 = 300;

/// How a question ended here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerOutcome {
    /// It has its answer, from here or from elsewhere.
    Closed,
    /// The person leaves it open.
    Later,
}

/// Says that a question was left without an answer.
pub fn stays_open(review: ReviewId, console: &Console) {
    console.note(Line::new().wait("◍ ").plain(format!("{review} stays open: skep review")));
}

/// The same after ctrl-c, which leaves the cursor behind what was asked.
pub fn interrupted(review: ReviewId, console: &Console) {
    console.err.write(b"\n");
    stays_open(review, console);
}

/// Asks questions at a terminal, one after the other.
pub struct Asker<'a> {
    console: &'a Console,
    kernel: KernelClient,
    lines: mpsc::UnboundedReceiver<String>,
}

impl<'a> Asker<'a> {
    /// `None` where nobody can answer: in a pipe, or with `--json`.
    pub async fn open(console: &'a Console) -> Result<Option<Asker<'a>>, CommandError> {
        if console.json || !console.out.tty || !console.err.tty || !std::io::stdin().is_terminal() {
            return Ok(None);
        }
        let kernel = console.kernel().await?;
        let (sender, lines) = mpsc::unbounded_channel();
        // It reads until the command ends: a line that is being typed cannot be given back.
        std::thread::spawn(move || std::io::stdin().lock().lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Ok(Some(Asker { console, kernel, lines }))
    }

    /// Shows the question and takes its answer.
    pub async fn ask(&mut self, review: ReviewId) -> Result<AnswerOutcome, CommandError> {
        let view = self.kernel.call::<ReviewShow>(&ReviewShowParams { review, full: false }).await?;
        if view.state != ReviewStatus::Open {
            return Ok(AnswerOutcome::Closed);
        }
        let mut inbox = Inbox::default();
        inbox.refresh(vec![view]);
        fetch(&mut self.kernel, &mut inbox).await?;
        self.console.out.wrapped(&inbox::one(&inbox, crate::show::measure::now_ms()));
        inbox.saw_all();
        // Nothing typed before this moment is about this question.
        let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
        while self.lines.try_recv().is_ok() {}
        loop {
            self.console.err.write(inbox::prompt_here(&inbox).render(self.console.err.colour).as_bytes());
            self.console.err.write(b" ");
            let Some(line) = self.next_line(review, &mut inbox).await? else { return Ok(AnswerOutcome::Closed) };
            if typed_line(&mut self.kernel, &mut inbox, &line).await? == LineEnd::Leave {
                return Ok(AnswerOutcome::Later);
            }
            if std::mem::take(&mut inbox.is_helping) {
                self.console.out.wrapped(&inbox::help(&inbox));
            }
            if let Some(notice) = inbox.notice.take() {
                self.console.err.wrapped(&Page(vec![inbox::notice_line(&notice)]));
            }
            if inbox.current().is_none() {
                return Ok(AnswerOutcome::Closed);
            }
        }
    }

    /// The next line that is typed; `None` when the question is closed elsewhere, which is told.
    async fn next_line(&mut self, review: ReviewId, inbox: &mut Inbox) -> Result<Option<String>, CommandError> {
        let mut look = tokio::time::interval(Duration::from_millis(LOOK_MS));
        loop {
            tokio::select! {
                line = self.lines.recv() => match line {
                    Some(line) => return Ok(Some(line)),
                    // The terminal has gone; so does the question, for us.
                    None => return Ok(Some("q".into())),
                },
                _ = look.tick() => {
                    let now = self.kernel.call::<ReviewShow>(&ReviewShowParams { review, full: false }).await?;
                    if now.state != ReviewStatus::Open {
                        inbox.gone(&now);
                        let notice = inbox.notice.take().map(|notice| inbox::notice_line(&notice)).unwrap_or_default();
                        self.console.err.wrapped(&Page(vec![Line::new(), notice]));
                        return Ok(None);
                    }
                }
            }
        }
    }
}
