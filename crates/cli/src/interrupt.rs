//! Ctrl-c, from the first line that a command prints until it ends.

use crate::command_error::CommandError;
use tokio::signal::unix::{Signal, SignalKind, signal};
use wire::ErrorCode;

/// Hears ctrl-c from when it is opened on, also between two waits: who opens it before the first line is printed loses none.
pub struct Interrupt(Signal);

impl Interrupt {
    pub fn open() -> Result<Interrupt, CommandError> {
        let failed = |error| CommandError::new(ErrorCode::Internal, "ctrl-c cannot be listened for").why(error);
        signal(SignalKind::interrupt()).map(Interrupt).map_err(failed)
    }

    /// Returns when ctrl-c was pressed, even if that was before this wait.
    pub async fn pressed(&mut self) {
        self.0.recv().await;
    }
}
