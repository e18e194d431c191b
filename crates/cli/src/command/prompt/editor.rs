//! The line that is typed: a thread of its own, because it waits for keys.
//!
//! **Invariant.** Between two lines the terminal is as it was found: nothing of this reads or switches it then.

use super::completion::Completion;
use super::history::{History, LINES_MAX};
use super::slash;
use crate::command_error::CommandError;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{ColorMode, CompletionType, Config, Context, Editor, Helper};
use tokio::sync::{mpsc, oneshot};
use wire::ErrorCode;

/// What a person did at the prompt.
#[derive(Debug, PartialEq, Eq)]
pub enum LineInput {
    Line(String),
    /// Ctrl-c. Says whether something was typed, which is gone now.
    Interrupted,
    /// Ctrl-d, or the terminal has gone.
    End,
}

/// A prompt, plain and in colours, and where the line goes.
type Wanted = ((String, String), oneshot::Sender<LineInput>);

pub struct LineEditor {
    wanted: mpsc::UnboundedSender<Wanted>,
}

impl LineEditor {
    pub fn open(completion: Completion, history: History, colour: bool) -> Result<LineEditor, CommandError> {
        let failed = |why: String| {
            CommandError::new(ErrorCode::Unsupported, "this terminal cannot be read").why(why).fix("use `skep act` and `skep watch`")
        };
        let mut editor = make(completion, colour).map_err(|error| failed(error.to_string()))?;
        for entry in history.load() {
            drop(editor.add_history_entry(entry));
        }
        let (wanted, mut asked) = mpsc::unbounded_channel::<Wanted>();
        let thread = std::thread::Builder::new().name("prompt".into()).spawn(move || {
            while let Some((prompt, answer)) = asked.blocking_recv() {
                let input = match editor.readline(&prompt) {
                    Ok(line) => {
                        if editor.add_history_entry(line.as_str()).unwrap_or(false) {
                            history.add(&line);
                        }
                        LineInput::Line(line)
                    }
                    Err(ReadlineError::Interrupted) => LineInput::Interrupted,
                    Err(_) => LineInput::End,
                };
                // Who does not wait any more leaves.
                drop(answer.send(input));
            }
        });
        thread.map_err(|error| failed(error.to_string()))?;
        Ok(LineEditor { wanted })
    }

    /// The next line.
    pub async fn read(&self, plain: String, coloured: String) -> LineInput {
        let (answer, line) = oneshot::channel();
        if self.wanted.send(((plain, coloured), answer)).is_err() {
            return LineInput::End;
        }
        line.await.unwrap_or(LineInput::End)
    }
}

fn make(completion: Completion, colour: bool) -> rustyline::Result<Editor<LineHelper, MemHistory>> {
    let config = Config::builder()
        .max_history_size(LINES_MAX)?
        .history_ignore_space(true)
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        .color_mode(if colour { ColorMode::Enabled } else { ColorMode::Disabled })
        .bracketed_paste(true)
        .build();
    let history = MemHistory::with_config(&config);
    let mut editor = Editor::with_history(config, history)?;
    editor.set_helper(Some(LineHelper(completion)));
    Ok(editor)
}

struct LineHelper(Completion);

impl Helper for LineHelper {}
impl Highlighter for LineHelper {}

impl Hinter for LineHelper {
    type Hint = String;
}

impl Completer for LineHelper {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.0.complete(line, at))
    }
}

impl Validator for LineHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if slash::is_incomplete(context.input()) { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}
