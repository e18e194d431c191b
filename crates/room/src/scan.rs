//! The look through a project for the base of a task.

use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinHandle;
use world::Stop;

/// A look that goes on while its task works already; it ends with this.
#[derive(Default)]
pub struct Scan(Mutex<Option<JoinHandle<Result<(), Stop>>>>);

impl Scan {
    /// Held by whoever starts it, or waits for its end.
    pub async fn running(&self) -> MutexGuard<'_, Option<JoinHandle<Result<(), Stop>>>> {
        self.0.lock().await
    }

    pub async fn end(&self) {
        if let Some(scan) = self.0.lock().await.take() {
            scan.abort();
            // It was told to stop: whatever it says now is of no use.
            drop(scan.await);
        }
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        if let Some(scan) = self.0.get_mut() {
            scan.abort();
        }
    }
}
