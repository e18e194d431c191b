//! Talks: who talks with which worker, and what is left of a talk.

use crate::{BRAIN_RUN, TalkHook, TalkSession};
use brain::agent::AgentWire;
use gate::Request;
use host::HOME_LAYER;
use parking_lot::Mutex;
use sandbox::HOOK_PORT;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use workspace::aside;
use world::{Pid, Task, limits};

/// What rules call the caller of a talk, and how its task is told from others.
pub const TALK: &str = "talk";
/// Where a talk's room shows this program, for the client's hooks.
pub(crate) const HOOK_PROGRAM: &str = "/home/skep";
/// Conversations of one client that are looked through for the last.
const CONVERSATIONS_MAX: usize = 10_000;

/// The command by which a client's hooks ask the kernel.
pub fn hook_command() -> String {
    format!("{HOOK_PROGRAM} hook-child {HOOK_PORT}")
}

/// The talks that go on, one for each worker.
#[derive(Default)]
pub struct Talks(Mutex<HashMap<Pid, Arc<TalkSession>>>);

impl Talks {
    pub fn reserve(self: &Arc<Talks>, session: &Arc<TalkSession>) -> Option<TalkSeat> {
        let mut open = self.0.lock();
        if open.contains_key(&session.pid) {
            return None;
        }
        open.insert(session.pid, Arc::clone(session));
        Some(TalkSeat { talks: Arc::clone(self), session: Arc::clone(session) })
    }

    /// Who answers the hooks of the client that a call runs.
    pub fn hook_of(&self, request: &Request) -> Option<Arc<TalkHook>> {
        let session = self.of(request.pid).filter(|_| request.tool == BRAIN_RUN)?;
        session.hook().filter(|_| session.task() == request.task)
    }

    /// The talk that a worker is in.
    pub fn of(&self, pid: Pid) -> Option<Arc<TalkSession>> {
        self.0.lock().get(&pid).cloned()
    }
}

/// The talker's place, as long as this is held.
pub struct TalkSeat {
    talks: Arc<Talks>,
    pub session: Arc<TalkSession>,
}

impl Drop for TalkSeat {
    fn drop(&mut self) {
        self.session.leave(false);
        self.talks.0.lock().remove(&self.session.pid);
    }
}

/// Is this a talk? One that a person gave a further prompt goes on as an ordinary task.
pub fn is_talk(task: &Task) -> bool {
    task.further.is_empty() && task.tags.iter().any(|tag| tag == TALK)
}

/// The conversation that a client wrote to last in a workspace. Names are all that is read, for whatever runs in the room may have put them there.
pub fn newest_conversation(work: &Path, folder: &str, wire: &dyn AgentWire) -> Option<String> {
    aside(|| newest_below(work, folder, wire))
}

fn newest_below(work: &Path, folder: &str, wire: &dyn AgentWire) -> Option<String> {
    let mut at = work.join("layers").join(HOME_LAYER).join("upper");
    for part in Path::new(folder).components() {
        at.push(part);
        // A link could lead anywhere.
        at.symlink_metadata().ok().filter(|metadata| metadata.is_dir())?;
    }
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().take(CONVERSATIONS_MAX);
    let folders = entries(&at).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let files = folders.flat_map(|entry| entries(&entry.path()).collect::<Vec<_>>());
    let named = files.filter_map(|entry| {
        let (name, metadata) = (entry.file_name(), entry.metadata().ok()?);
        let series = name.to_str()?.strip_suffix(".jsonl").filter(|name| wire.is_series(name))?.to_owned();
        metadata.is_file().then_some((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), series))
    });
    named.max().map(|(_, series)| series)
}

/// The end of a text, as much as one record holds.
pub fn last_lines(text: &str) -> String {
    let over = text.len().saturating_sub(limits::OUTPUT_INLINE_MAX);
    if over == 0 {
        return text.to_owned();
    }
    let from = text[text.ceil_char_boundary(over)..].find('\n').map_or(text.len(), |at| text.ceil_char_boundary(over) + at + 1);
    format!("… {} lines before\n{}", text[..from].lines().count(), &text[from..])
}
