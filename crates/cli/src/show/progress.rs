//! A spinner for what may take more than a moment. On a terminal's stderr only, and gone when the work is done.

use super::{Line, Screen};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Quick work shows no spinner at all.
const QUIET_MS: u64 = 300;
const FRAME_MS: u64 = 80;

/// Waits for `work`, with `label` turning beside it.
pub async fn wait<F: Future>(screen: Screen, label: &str, work: F) -> F::Output {
    wait_telling(screen, label, &Mutex::default(), work).await
}

/// The same, with the latest word on how it goes.
pub async fn wait_telling<F: Future>(screen: Screen, label: &str, word: &Mutex<String>, work: F) -> F::Output {
    if !screen.tty || !screen.colour {
        return work.await;
    }
    let started = Instant::now();
    let mut work = std::pin::pin!(work);
    if let Ok(output) = tokio::time::timeout(Duration::from_millis(QUIET_MS), &mut work).await {
        return output;
    }
    let mut frames = FRAMES.iter().cycle();
    let mut tick = tokio::time::interval(Duration::from_millis(FRAME_MS));
    loop {
        tokio::select! {
            output = &mut work => {
                clear(screen);
                return output;
            }
            _ = tick.tick() => {
                let frame = frames.next().copied().unwrap_or_default();
                let elapsed = started.elapsed().as_secs();
                let word = word.lock().unwrap_or_else(PoisonError::into_inner).clone();
                draw(screen, &Line::new().name(frame).plain(" ").plain(label).faint(format!("  {elapsed}s  ")).plain(word));
            }
        }
    }
}

/// Puts `line` where the cursor is, without a line break.
pub fn draw(screen: Screen, line: &Line) {
    screen.write(format!("\r\x1b[K{}", line.clone().cut(70).render(screen.colour)).as_bytes());
}

pub fn clear(screen: Screen) {
    screen.write(b"\r\x1b[K");
}
