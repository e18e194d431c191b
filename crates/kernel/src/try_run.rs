//! `skep try`: when a trial in a throw-away room begins, and that it ends with its task.

use crate::Kernel;
use room::{OutputPiece, TryRun};
use sandbox::Exit;
use tokio::sync::mpsc;
use world::Stop;

impl Kernel {
    /// Runs a command over what a task has made so far. Output goes to `told` as it comes; a reader that is slow slows the command.
    /// It ends with its task.
    pub async fn try_out(&self, run: TryRun, told: mpsc::Sender<OutputPiece>) -> Result<Exit, Stop> {
        let task = run.task;
        let work = async {
            let trial = self.throwaways.prepare_trial(run).await?;
            let opened = self.workspace_of(task).await?;
            self.throwaways.run_trial(trial, &opened, told).await
        };
        self.tasks.work_on(task, work).await
    }
}
