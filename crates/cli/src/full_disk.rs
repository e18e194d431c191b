//! A disk that fills up while somebody waits for a task: the task waits too, and says nothing by itself.

use crate::console::Console;
use crate::show::kernel::{FULL_DISK, full_disk};
use crate::start;
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use wire::method::Nothing;
use wire::table::KernelStatus;

/// A full disk is rare, and nobody minds hearing of it some seconds later.
const LOOK_MS: u64 = 2_000;

/// Tells that the disk is full, when it becomes so, for as long as anybody waits: on a terminal in `word`, else in lines of its own.
pub async fn report(console: &Console, word: &Mutex<String>) -> Infallible {
    let mut was_full = false;
    let mut kernel = start::running(&console.home).await.ok().flatten();
    while let Some(client) = &mut kernel {
        let Ok(status) = client.call::<KernelStatus>(&Nothing {}).await else { break };
        if status.disk_full != was_full {
            was_full = status.disk_full;
            match (console.err.is_lively(), was_full) {
                (true, true) => say(word, format!("✗ {FULL_DISK}")),
                (true, false) => say(word, String::new()),
                (false, true) if !console.json => console.err.wrapped(&full_disk()),
                (false, _) => {}
            }
        }
        tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
    }
    std::future::pending().await
}

fn say(word: &Mutex<String>, text: String) {
    *word.lock().unwrap_or_else(PoisonError::into_inner) = text;
}
