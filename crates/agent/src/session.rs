//! One talk: what a brain draws on its terminal, kept for whoever looks at it.
//!
//! The last of it is in a ring, with the state of the screen beside it, so that whoever comes in the middle, or fell behind the ring, is shown
//! the screen as it is now and goes on from there. **Invariant.** The talker misses nothing: when it is a whole ring behind, the brain waits.
//! Who only watches is waited for by nobody.

use crate::TalkHook;
use parking_lot::{Condvar, Mutex};
use sandbox::Window;
use std::collections::VecDeque;
use std::fs::File;
use std::io::Read;
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::sync::{oneshot, watch};
use vt100::Parser;
use world::{Pid, TaskId};

/// Bytes of output that are held for those who read along.
const RING_BYTES: usize = 1 << 20;
/// Bytes of a talk that its archive holds; what comes after is counted.
const ARCHIVE_BYTES: usize = 16 << 20;
/// Lines above the screen that its readable text goes back to.
const SCROLLBACK_LINES: usize = 5_000;
/// Bytes in one piece for a reader.
const PIECE_BYTES: usize = 32 << 10;
/// Codes that take a full screen away: it is given back, or cleared.
const ENDS_SCREEN: [&[u8]; 4] = [b"\x1b[?1049l", b"\x1b[2J", b"\x1b[J", b"\x1b[0J"];

/// How far somebody has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TalkPosition {
    offset: Option<u64>,
    is_talker: bool,
    /// It has read all, and what comes behind it.
    is_at_end: bool,
}

impl TalkPosition {
    /// From the beginning on, and waited for.
    pub fn talker() -> TalkPosition {
        TalkPosition { offset: Some(0), is_talker: true, is_at_end: false }
    }

    /// From the present screen on.
    pub fn watcher() -> TalkPosition {
        TalkPosition { offset: None, is_talker: false, is_at_end: false }
    }
}

/// What is left of a talk when it is over.
pub struct TalkArchive {
    pub raw: Vec<u8>,
    pub dropped: u64,
    pub bytes: u64,
    /// As a person reads it.
    pub text: String,
}

/// How a talk comes to its end from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leave {
    #[default]
    No,
    Detached,
    Lost,
}

pub struct TalkSession {
    pub pid: Pid,
    task: Mutex<Option<TaskId>>,
    /// Who answers its client's hooks.
    hook: Mutex<Option<Arc<TalkHook>>>,
    state: Mutex<State>,
    /// Rung when the talker has read something, or nobody has to be waited for any more.
    space: Condvar,
    /// Counts what happened, for those who wait for more.
    changed: watch::Sender<u64>,
    /// True when nobody talks any more, which ends the program.
    gone: watch::Sender<bool>,
    /// Where keys go once the program has its terminal.
    give_keyboard: Mutex<Option<oneshot::Sender<OwnedFd>>>,
    keyboard: Mutex<Option<oneshot::Receiver<OwnedFd>>>,
}

struct State {
    screen: Parser,
    window: Window,
    ring: VecDeque<u8>,
    /// Bytes that came in all; the last of them are the ring.
    total: u64,
    /// How far the talker has read.
    read: u64,
    archive: Vec<u8>,
    /// The last other screen that the program gave back.
    alternate: Option<String>,
    leave: Leave,
    has_begun: bool,
    has_ended: bool,
}

impl TalkSession {
    pub fn new(pid: Pid, window: Window) -> TalkSession {
        let (rows, columns) = cells(window);
        let state = State {
            screen: Parser::new(rows, columns, SCROLLBACK_LINES),
            window,
            ring: VecDeque::new(),
            total: 0,
            read: 0,
            archive: Vec::new(),
            alternate: None,
            leave: Leave::No,
            has_begun: false,
            has_ended: false,
        };
        let (give, take) = oneshot::channel();
        TalkSession {
            pid,
            task: Mutex::new(None),
            hook: Mutex::new(None),
            state: Mutex::new(state),
            space: Condvar::new(),
            changed: watch::Sender::new(0),
            gone: watch::Sender::new(false),
            give_keyboard: Mutex::new(Some(give)),
            keyboard: Mutex::new(Some(take)),
        }
    }

    pub fn task(&self) -> Option<TaskId> {
        *self.task.lock()
    }

    pub fn set_task(&self, task: TaskId) {
        *self.task.lock() = Some(task);
    }

    pub fn hook(&self) -> Option<Arc<TalkHook>> {
        self.hook.lock().clone()
    }

    pub fn set_hook(&self, hook: Option<Arc<TalkHook>>) {
        *self.hook.lock() = hook;
    }

    /// Where keys go, for the one who talks; comes out once the program runs.
    pub fn keyboard(&self) -> Option<oneshot::Receiver<OwnedFd>> {
        self.keyboard.lock().take()
    }

    pub fn window(&self) -> Window {
        self.state.lock().window
    }

    pub fn gone(&self) -> watch::Receiver<bool> {
        self.gone.subscribe()
    }

    /// The talker's window has another size. The terminal itself is told by whoever has the keyboard.
    pub fn resize(&self, window: Window) {
        let mut state = self.state.lock();
        state.window = window;
        let (rows, columns) = cells(window);
        state.screen.screen_mut().set_size(rows, columns);
    }

    /// The talker leaves, by its own will or because its connection broke.
    pub fn leave(&self, by_will: bool) {
        let mut state = self.state.lock();
        if state.leave == Leave::No && !state.has_ended {
            state.leave = if by_will { Leave::Detached } else { Leave::Lost };
        }
        drop(state);
        self.gone.send_replace(true);
        self.space.notify_all();
        self.ring_bell();
    }

    pub fn left(&self) -> Leave {
        self.state.lock().leave
    }

    /// Has the talker gone before it was over?
    pub fn is_left(&self) -> bool {
        self.left() != Leave::No
    }

    pub fn has_begun(&self) -> bool {
        self.state.lock().has_begun
    }

    /// Comes back when the program runs (true), or when it never will (false).
    pub async fn begun(&self) -> bool {
        let mut changed = self.changed.subscribe();
        loop {
            {
                let state = self.state.lock();
                if state.has_begun || state.has_ended || state.leave != Leave::No {
                    return state.has_begun;
                }
            }
            if changed.changed().await.is_err() {
                return false;
            }
        }
    }

    /// The next piece for a reader: output, or the whole screen where it cannot go on from where it was. `None` at the end.
    pub async fn next(&self, position: &mut TalkPosition) -> Option<Vec<u8>> {
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(piece) = self.take(position) {
                return piece;
            }
            if changed.changed().await.is_err() {
                return None;
            }
        }
    }

    /// `None` where there is nothing new yet.
    fn take(&self, position: &mut TalkPosition) -> Option<Option<Vec<u8>>> {
        let mut state = self.state.lock();
        let first = state.total - state.ring.len() as u64;
        let offset = match position.offset {
            Some(offset) if offset >= first => offset,
            _ => {
                position.offset = Some(state.total);
                return Some(Some(state.present()));
            }
        };
        let skip = usize::try_from(offset - first).unwrap_or(usize::MAX);
        let piece: Vec<u8> = state.ring.range(skip.min(state.ring.len())..).take(PIECE_BYTES).copied().collect();
        if piece.is_empty() {
            let is_read = !state.has_ended || std::mem::replace(&mut position.is_at_end, true);
            return match state.rows_below() {
                rows @ 1.. if !is_read => Some(Some(format!("\x1b[{rows}B").into_bytes())),
                _ => state.has_ended.then_some(None),
            };
        }
        let offset = offset + piece.len() as u64;
        position.offset = Some(offset);
        if position.is_talker {
            state.read = offset;
            drop(state);
            self.space.notify_all();
        }
        Some(Some(piece))
    }

    /// Copies what the program draws until its terminal is closed. The terminal cannot be waited for together with others, so it has a
    /// thread of its own.
    pub async fn copy(self: &Arc<Self>, side: oneshot::Receiver<OwnedFd>) {
        // A call that never got so far as to start its program has none.
        let Ok(terminal) = side.await else { return };
        let keys = terminal.try_clone();
        self.state.lock().has_begun = true;
        self.ring_bell();
        if let (Some(give), Ok(keys)) = (self.give_keyboard.lock().take(), keys) {
            drop(give.send(keys));
        }
        let (done, ended) = oneshot::channel::<()>();
        let session = Arc::clone(self);
        std::thread::spawn(move || {
            let (mut terminal, mut buffer) = (File::from(terminal), vec![0; PIECE_BYTES]);
            while let Ok(got @ 1..) = terminal.read(&mut buffer) {
                session.put(&buffer[..got]);
            }
            drop(done);
        });
        drop(ended.await);
    }

    fn put(&self, bytes: &[u8]) {
        let mut state = self.state.lock();
        while state.leave == Leave::No && !state.has_ended && state.unread() + bytes.len() > RING_BYTES {
            self.space.wait(&mut state);
        }
        state.draw(bytes);
        drop(state);
        self.ring_bell();
    }

    /// Nothing more comes.
    pub fn end(&self) {
        self.state.lock().has_ended = true;
        *self.give_keyboard.lock() = None;
        self.space.notify_all();
        self.ring_bell();
    }

    pub fn archive(&self) -> TalkArchive {
        let mut state = self.state.lock();
        let (raw, bytes) = (std::mem::take(&mut state.archive), state.total);
        TalkArchive { dropped: bytes - raw.len() as u64, raw, bytes, text: state.text() }
    }

    fn ring_bell(&self) {
        self.changed.send_modify(|changes| *changes = changes.wrapping_add(1));
    }
}

impl State {
    fn unread(&self) -> usize {
        usize::try_from(self.total - self.read).unwrap_or(usize::MAX)
    }

    fn draw(&mut self, bytes: &[u8]) {
        // Some programs clear the full screen before they give it back: the last that had something on it is kept.
        let ends = |code: &&[u8]| bytes.windows(code.len()).any(|window| window == *code);
        if self.screen.screen().alternate_screen() && ENDS_SCREEN.iter().any(ends) {
            let shown = self.screen.screen().contents();
            if !shown.trim().is_empty() {
                self.alternate = Some(shown);
            }
        }
        self.screen.process(bytes);
        self.ring.extend(bytes);
        let over = self.ring.len().saturating_sub(RING_BYTES);
        self.ring.drain(..over);
        self.total += bytes.len() as u64;
        // All or nothing, so that what is kept is a beginning.
        if self.archive.len() as u64 + bytes.len() as u64 == self.total && self.archive.len() + bytes.len() <= ARCHIVE_BYTES {
            self.archive.extend_from_slice(bytes);
        }
    }

    /// Rows with something on them below the cursor, where they stay on the terminal: a program that is ended leaves its cursor anywhere, and
    /// what the shell prints next must not stand on them.
    fn rows_below(&self) -> u16 {
        let screen = self.screen.screen();
        if screen.alternate_screen() {
            return 0;
        }
        let rows = (0..).zip(screen.rows(0, screen.size().1.get()));
        let last = rows.filter(|(_, line)| !line.trim().is_empty()).map(|(row, _)| row).last().unwrap_or(0_u16);
        last.saturating_sub(screen.cursor_position().0)
    }

    /// What makes a terminal show the present screen.
    fn present(&self) -> Vec<u8> {
        let screen = self.screen.screen();
        let mut codes = if screen.alternate_screen() { "\x1b[?1049h".to_owned() } else { String::new() };
        codes.push_str(&screen.state_formatted());
        codes.into_bytes()
    }

    /// Everything that can be read of it: what scrolled away, the screen, and the last full screen that was given back.
    fn text(&mut self) -> String {
        let mut text = String::new();
        let screen = self.screen.screen_mut();
        let rows = usize::from(screen.size().0.get());
        let above = screen.scrollback_len();
        let mut from = 0;
        while from < above {
            screen.set_scrollback(above - from);
            let count = rows.min(above - from);
            push_rows(screen, count, &mut text);
            from += count;
        }
        screen.set_scrollback(0);
        push_rows(screen, rows, &mut text);
        if let Some(alternate) = self.alternate.take() {
            text = format!("{}\n\n{}", alternate.trim_end(), text.trim_start());
        }
        text.trim().to_owned()
    }
}

/// The first rows in view, each wrapped line as the one line that it is.
fn push_rows(screen: &vt100::Screen, count: usize, text: &mut String) {
    let columns = screen.size().1.get();
    for (row, line) in screen.rows(0, columns).take(count).enumerate() {
        let is_wrapped = u16::try_from(row).is_ok_and(|row| screen.row_wrapped(row));
        text.push_str(if is_wrapped { &line } else { line.trim_end() });
        if !is_wrapped {
            text.push('\n');
        }
    }
}

/// A window of no size has the smallest.
fn cells(window: Window) -> (NonZeroU16, NonZeroU16) {
    let cells = |count: u16| NonZeroU16::new(count).unwrap_or(NonZeroU16::MIN);
    (cells(window.rows), cells(window.columns))
}

#[cfg(test)]
mod tests;
