//! What moves while a person waits: on a terminal's stderr only, and gone when the work is done.

use super::{Line, Screen};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Quick work shows no spinner at all.
const QUIET_MS: u64 = 300;
const FRAME_MS: u64 = 80;
/// Where a terminal does not tell its width.
const COLUMNS: usize = 80;

/// Waits for `work`, with `label` turning beside it.
pub async fn wait<F: Future>(screen: Screen, label: &str, work: F) -> F::Output {
    wait_telling(screen, label, &Mutex::default(), work).await
}

/// The same, with the latest word on how it goes.
pub async fn wait_telling<F: Future>(screen: Screen, label: &str, word: &Mutex<String>, work: F) -> F::Output {
    if !screen.is_lively() {
        return work.await;
    }
    let started = Instant::now();
    let mut work = std::pin::pin!(work);
    if let Ok(output) = tokio::time::timeout(Duration::from_millis(QUIET_MS), &mut work).await {
        return output;
    }
    let mut frames = FRAMES.iter().cycle();
    let mut tick = tokio::time::interval(Duration::from_millis(FRAME_MS));
    let mut footer = Footer::new(screen);
    loop {
        tokio::select! {
            output = &mut work => {
                footer.clear();
                return output;
            }
            _ = tick.tick() => {
                let frame = frames.next().copied().unwrap_or_default();
                let elapsed = started.elapsed().as_secs();
                let word = word.lock().unwrap_or_else(PoisonError::into_inner).clone();
                footer.draw(&[Line::new().name(frame).plain(" ").plain(label).faint(format!("  {elapsed}s  ")).plain(word)]);
            }
        }
    }
}

/// The frame of a spinner that turns `ms` after its beginning.
pub fn frame(ms: u64) -> &'static str {
    FRAMES[usize::try_from(ms / FRAME_MS).unwrap_or(0) % FRAMES.len()]
}

/// A few lines below everything that was printed, drawn over and over. **Invariant.** What is printed elsewhere comes after `clear`.
#[derive(Debug)]
pub struct Footer {
    screen: Screen,
    /// Lines that stand there now.
    height: usize,
}

impl Footer {
    pub fn new(screen: Screen) -> Footer {
        Footer { screen, height: 0 }
    }

    /// Puts `lines` where the last ones were; none is wider than the terminal.
    pub fn draw(&mut self, lines: &[Line]) {
        if !self.screen.is_lively() {
            return;
        }
        let columns = self.screen.columns().unwrap_or(COLUMNS) - 1;
        let text: Vec<String> = lines.iter().map(|line| line.clone().cut(columns).render(self.screen.colour)).collect();
        self.screen.write(format!("{}{}", self.back(), text.join("\n")).as_bytes());
        self.height = lines.len();
    }

    /// Removes one line that another footer left behind when its wait was given up.
    pub fn wipe(screen: Screen) {
        Footer { screen, height: 1 }.clear();
    }

    pub fn clear(&mut self) {
        if self.height > 0 {
            self.screen.write(self.back().as_bytes());
            self.height = 0;
        }
    }

    /// Back to where the first line began, with nothing behind it.
    fn back(&self) -> String {
        match self.height {
            0 | 1 => "\r\x1b[J".to_owned(),
            height => format!("\r\x1b[{}A\x1b[J", height - 1),
        }
    }
}
