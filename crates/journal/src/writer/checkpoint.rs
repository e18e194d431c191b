//! Moves what the WAL holds into the database.

use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};

use rusqlite::Connection;

use super::Writer;

/// So many bytes of lines in the WAL are worth a checkpoint while busy.
const CHECKPOINT_BYTES: usize = 16 << 20;
/// And so many when nothing is waiting.
const IDLE_CHECKPOINT_BYTES: usize = 1 << 20;

/// Checkpoints in two steps: a thread beside the writer copies most of the WAL, then the writer copies what came
/// meanwhile, so that the WAL starts again at its beginning and never grows for good.
#[derive(Default)]
pub(super) struct Checkpoints {
    beside: Option<(JoinHandle<()>, Receiver<()>)>,
}

impl Checkpoints {
    pub(super) fn busy(&mut self, writer: &mut Writer) {
        match &self.beside {
            Some((_, done)) if done.try_recv() != Err(std::sync::mpsc::TryRecvError::Empty) => {
                self.join();
                complete(writer);
            }
            None if writer.wal_bytes >= CHECKPOINT_BYTES => {
                let (done, wait) = channel();
                let store = writer.store.clone();
                let spawned = thread::Builder::new().name("checkpoint".into()).spawn(move || {
                    if let Ok(db) = store.open_checkpointer() {
                        checkpoint(&db);
                    }
                    let _ = done.send(());
                });
                self.beside = spawned.ok().map(|thread| (thread, wait));
            }
            _ => {}
        }
    }

    pub(super) fn idle(&mut self, writer: &mut Writer) {
        if self.beside.is_none() && writer.wal_bytes >= IDLE_CHECKPOINT_BYTES {
            complete(writer);
        }
    }

    pub(super) fn join(&mut self) {
        if let Some((thread, _)) = self.beside.take() {
            let _ = thread.join();
        }
    }
}

fn complete(writer: &mut Writer) {
    checkpoint(&writer.db);
    writer.wal_bytes = 0;
}

/// A checkpoint that fails leaves the WAL as it was; the next one tries again.
fn checkpoint(db: &Connection) {
    let _ = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
}
