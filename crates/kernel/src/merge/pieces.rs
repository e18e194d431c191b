//! Long answers that are fetched piece by piece: made for the first piece, and served from memory for the others.
//!
//! **Invariant.** One answer is kept at most, until its last piece is fetched, another is asked for, or its task changed. *Does not know*
//! what is in it.

use parking_lot::Mutex;
use std::future::Future;
use std::sync::Arc;
use workspace::FileVersion;
use world::{MergeId, MergeState, Stop, TaskId, TaskState};

/// What is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    Patch,
    File(String, FileVersion),
}

/// An answer, and how its task stood when it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PieceKey {
    pub task: TaskId,
    pub what: Served,
    pub state: TaskState,
    pub kept: Option<String>,
    pub merge: Option<(MergeId, MergeState, usize)>,
}

/// The bytes of an answer, with their digest.
type Whole = Arc<(Vec<u8>, String)>;

/// The answer that somebody is fetching.
#[derive(Default)]
pub(crate) struct PieceCache(Mutex<Option<(PieceKey, Whole)>>);

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerPiece {
    pub data: Vec<u8>,
    /// Bytes of the whole, and their SHA-256 where it is a patch.
    pub total: u64,
    pub digest: String,
}

impl PieceCache {
    /// `length` bytes from `offset` on, of what `make` gives.
    pub async fn serve<F: Future<Output = Result<(Vec<u8>, String), Stop>>>(
        &self,
        key: PieceKey,
        offset: u64,
        length: usize,
        make: impl FnOnce() -> F,
    ) -> Result<AnswerPiece, Stop> {
        let known = self.0.lock().take().filter(|(of, _)| offset > 0 && *of == key).map(|(_, whole)| whole);
        let whole = match known {
            Some(whole) => whole,
            None => Arc::new(make().await?),
        };
        let (bytes, digest) = &*whole;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let to = bytes.len().min(from.saturating_add(length));
        let piece = AnswerPiece { data: bytes[from..to].to_vec(), total: bytes.len() as u64, digest: digest.clone() };
        if to < bytes.len() {
            *self.0.lock() = Some((key, whole));
        }
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test]
    async fn an_answer_is_made_once_for_all_its_pieces() {
        let (cache, made) = (PieceCache::default(), Cell::new(0));
        let key = |kept: &str| {
            let (task, state) = (TaskId(1), TaskState::Done);
            PieceKey { task, what: Served::Patch, state, kept: Some(kept.to_owned()), merge: None }
        };
        let fetch = async |kept: &str, offset: u64| {
            let make = || async {
                made.set(made.get() + 1);
                Ok((b"0123456789".to_vec(), "digest".to_owned()))
            };
            let piece = cache.serve(key(kept), offset, 4, make).await.unwrap();
            (String::from_utf8(piece.data).unwrap(), piece.total)
        };
        let mut whole = String::new();
        while whole.len() < 10 {
            whole.push_str(&fetch("a", whole.len() as u64).await.0);
        }
        assert_eq!((whole.as_str(), made.get()), ("0123456789", 1));
        // Nothing stays in memory, and what was asked for anew is made anew.
        assert!(cache.0.lock().is_none());
        assert_eq!((fetch("a", 0).await, made.get()), (("0123".to_owned(), 10), 2));
        assert_eq!((fetch("another state", 4).await, made.get()), (("4567".to_owned(), 10), 3));
        assert_eq!((fetch("a", 99).await, made.get()), ((String::new(), 10), 4));
    }
}
