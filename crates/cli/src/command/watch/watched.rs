//! A place among those who look on: records as they come, and a sign of life from time to time.

use crate::command_error::CommandError;
use std::time::Duration;
use tokio::task::JoinHandle;
use wire::method::Nothing;
use wire::method::journal::{RECORD, RecordNote};
use wire::method::watch::{BEAT, BEAT_MS, LIVE, ProcWatchParams};
use wire::table::ProcWatch;
use wire::{ClientError, ErrorCode, KernelClient, Notification, ResponseStream, StreamItem};

pub struct WatchStream {
    responses: ResponseStream<ProcWatch>,
    /// Beside everything else: a person may think long about a question.
    beats: JoinHandle<()>,
}

impl WatchStream {
    /// Takes a place and gives the past that was asked for, oldest first.
    pub async fn open(kernel: KernelClient, params: &ProcWatchParams) -> Result<(WatchStream, Vec<String>), CommandError> {
        let (responses, mut notes) = kernel.begin::<ProcWatch>(params).await?;
        let beats = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(BEAT_MS)).await;
                if notes.note(BEAT, &Nothing {}).await.is_err() {
                    return;
                }
            }
        });
        let (mut watched, mut past) = (WatchStream { responses, beats }, Vec::new());
        loop {
            match watched.responses.next().await? {
                StreamItem::Note(note) if note.method == LIVE => return Ok((watched, past)),
                StreamItem::Note(note) => past.extend(line(&note)),
                StreamItem::Answer(Nothing {}) => return Err(CommandError::new(ErrorCode::Unavailable, "the kernel has stopped")),
            }
        }
    }

    /// The next record; `None` when the kernel has ended, in order or not. Cancel-safe.
    pub async fn next_line(&mut self) -> Result<Option<String>, CommandError> {
        loop {
            match self.responses.next().await {
                Ok(StreamItem::Note(note)) => {
                    if let Some(line) = line(&note) {
                        return Ok(Some(line));
                    }
                }
                // A kernel that stops in order hangs up.
                Ok(StreamItem::Answer(Nothing {})) | Err(ClientError::Broken { .. }) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        self.beats.abort();
    }
}

fn line(note: &Notification) -> Option<String> {
    let params = note.params.as_ref().filter(|_| note.method == RECORD)?;
    serde_json::from_str::<RecordNote>(params.get()).ok().map(|record| record.line)
}
