//! `skep session replay`: what a session's record is good for.

use crate::command::run::started;
use crate::console::{Console, ExitResult};
use crate::show::measure::now_ms;
use crate::show::plan::ROWS_SHOWN;
use crate::show::session;
use jiff::tz::TimeZone;
use wire::TaskId;
use wire::code::EXIT_FAILED;
use wire::method::session::{SessionForkParams, SessionReplayParams, SessionShowParams};
use wire::table::{SessionFork, SessionReplay, SessionShow};

/// Check a session's record, or show the session as it was
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep session replay task-4                is its record whole and true?\n  \
skep session replay task-4 --until 120    as it was after record 120\n  \
skep session replay task-4 --reexecute    does all of it follow again?\n  \
skep session replay task-4 --fork build   go on from the end of step build\n\n\
The chain of the journal is verified, and the session is made again from its\nrecords and held against what is known. No tool runs and no model is asked.\n\
Exit code 0 when all holds, 1 when something differs.")]
pub struct SessionReplayArgs {
    /// Its id, such as task-4
    session: TaskId,
    /// Check the chain, and that its records make the session that is known; what is done without a flag
    #[arg(long, group = "how")]
    verify: bool,
    /// Show it as it was after this record
    #[arg(long, value_name = "RECORD", group = "how")]
    until: Option<u64>,
    /// Execute it again on what its calls and planners gave then, and tell the first difference
    #[arg(long, group = "how")]
    reexecute: bool,
    /// Begin a session that goes on from the end of this step: its id, PLAN/STEP or a record
    #[arg(long, value_name = "STEP", group = "how")]
    fork: Option<String>,
}

impl SessionReplayArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        let task = self.session;
        if let Some(until) = self.until {
            let view = kernel.call::<SessionShow>(&SessionShowParams { task, brief: false, until_seq: Some(until) }).await?;
            console.show(&view, |view| session::detail(view, Some(ROWS_SHOWN), now_ms(), &TimeZone::system(), console.out.columns()));
            return Ok(0);
        }
        if let Some(at) = self.fork {
            let added = console.wait("forking it", kernel.call::<SessionFork>(&SessionForkParams { task, at })).await?;
            console.show_wrapped(&added, started);
            return Ok(0);
        }
        let label = format!("{task} is checked");
        let result = console
            .wait_counting(&label, None, kernel.call::<SessionReplay>(&SessionReplayParams { task, reexecute: self.reexecute }))
            .await?;
        console.show_wrapped(&result, session::replayed);
        let differs = result.again.as_ref().is_some_and(|again| again.difference.is_some());
        Ok(if result.findings.is_empty() && !differs { 0 } else { EXIT_FAILED })
    }
}
