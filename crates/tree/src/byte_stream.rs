//! Streams of bytes between a parent and its child.
//!
//! Each end opens it by the other's pid and a name; whoever comes first waits for the other. Then bytes pass in both directions, a few pieces at a time:
//! who writes waits for who reads. **Invariant.** A stream is on record before its first byte passes, and so is its end with what it carried; what it
//! makes the kernel hold is bounded, however slow a reader is; it ends with either end.

use crate::Tree;
use crate::calls::{CallEffect, TreeCall};
use bytes::Bytes;
use gate::TreeRequest;
use parking_lot::Mutex;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use world::event::{StreamClosed, StreamOpened};
use world::{Code, Event, Fault, Pid, Refusal, Stop, StreamId, World, limits};

/// How long the first one waits for the other, where it says nothing itself, and at most.
pub const STREAM_WAIT: Duration = Duration::from_secs(60);
/// What a stream that a crash cut off is closed with.
const KERNEL_ENDED: &str = "the kernel ended";

/// Those who wait for the other end: by the two pids, the smaller first, and the name.
pub(crate) type WaitingEnds = Mutex<HashMap<(Pid, Pid, String), WaitingEnd>>;

pub(crate) struct WaitingEnd {
    by: Pid,
    joined: oneshot::Sender<StreamEnd>,
}

/// Which of the two directions: from the one who came first, or to it.
#[derive(Clone, Copy)]
enum Direction {
    Forth = 0,
    Back = 1,
}

/// What both ends know of a stream.
struct StreamState {
    /// Bytes that were taken by the other end, in each direction.
    carried: [AtomicU64; 2],
    /// The writer of each direction has said that there is no more.
    finished: [AtomicBool; 2],
    /// Why it is over before both have finished.
    broken: watch::Sender<Option<String>>,
}

impl StreamState {
    fn break_off(&self, why: String) {
        self.broken.send_if_modified(|broken| {
            let is_first = broken.is_none();
            broken.get_or_insert(why);
            is_first
        });
    }
}

/// One end of an open stream. Dropped before it has finished, it breaks the stream off.
pub struct StreamEnd {
    pub reader: StreamReader,
    pub writer: StreamWriter,
}

/// Why nothing more passes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream is closed: {0}")]
pub struct StreamBroken(pub String);

pub struct StreamReader {
    state: Arc<StreamState>,
    broken: watch::Receiver<Option<String>>,
    bytes: mpsc::Receiver<Bytes>,
    direction: Direction,
    /// Says who left, to the other.
    left: LeaveGuard,
}

pub struct StreamWriter {
    state: Arc<StreamState>,
    broken: watch::Receiver<Option<String>>,
    bytes: mpsc::Sender<Bytes>,
    direction: Direction,
    _left: LeaveGuard,
}

/// Held by both halves of an end: the stream is over when all of them are gone.
#[derive(Clone)]
struct LeaveGuard {
    by: Pid,
    _open: mpsc::Sender<()>,
}

impl StreamReader {
    /// The next piece, as the other end wrote it; `None` when the other end has finished.
    pub async fn next(&mut self) -> Result<Option<Bytes>, StreamBroken> {
        let piece = tokio::select! {
            biased;
            piece = self.bytes.recv() => piece,
            why = broken(&mut self.broken) => return Err(why),
        };
        match piece {
            Some(piece) => {
                self.state.carried[self.direction as usize].fetch_add(piece.len() as u64, Ordering::Relaxed);
                Ok(Some(piece))
            }
            None if self.state.finished[self.direction as usize].load(Ordering::SeqCst) => Ok(None),
            None => Err(broken(&mut self.broken).await),
        }
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        // What was read to its end is over in order.
        let is_over = self.state.finished[self.direction as usize].load(Ordering::SeqCst) && self.bytes.is_empty();
        if !is_over {
            self.state.break_off(format!("process {} closed it", self.left.by));
        }
    }
}

impl StreamWriter {
    /// Writes a piece, once there is room for it.
    pub async fn write(&mut self, piece: Bytes) -> Result<(), StreamBroken> {
        if piece.is_empty() {
            return Ok(());
        }
        tokio::select! {
            biased;
            why = broken(&mut self.broken) => Err(why),
            sent = self.bytes.send(piece) => match sent {
                Ok(()) => Ok(()),
                Err(_) => Err(broken(&mut self.broken).await),
            },
        }
    }

    /// Says that there is no more; the other direction stays open.
    pub fn finish(self) {
        self.state.finished[self.direction as usize].store(true, Ordering::SeqCst);
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        if !self.state.finished[self.direction as usize].load(Ordering::SeqCst) {
            self.state.break_off(format!("process {} closed it", self._left.by));
        }
    }
}

async fn broken(broken: &mut watch::Receiver<Option<String>>) -> StreamBroken {
    match broken.wait_for(Option::is_some).await {
        Ok(why) => StreamBroken(why.clone().unwrap_or_default()),
        Err(_) => StreamBroken("the other end is gone".to_owned()),
    }
}

/// Both ends of a new stream, of who came first and of the other, and what is over with them.
fn pair(first: Pid, second: Pid) -> (StreamEnd, StreamEnd, Arc<StreamState>, mpsc::Receiver<()>) {
    let state = Arc::new(StreamState { carried: Default::default(), finished: Default::default(), broken: watch::Sender::new(None) });
    let (open, over) = mpsc::channel(1);
    let (forth, to_second) = mpsc::channel(limits::STREAM_CHUNKS_WAITING);
    let (back, to_first) = mpsc::channel(limits::STREAM_CHUNKS_WAITING);
    let end = |by, bytes_in, bytes_out, reads, writes| {
        let left = LeaveGuard { by, _open: open.clone() };
        let broken = || state.broken.subscribe();
        let reader = StreamReader { state: Arc::clone(&state), broken: broken(), bytes: bytes_in, direction: reads, left: left.clone() };
        let writer = StreamWriter { state: Arc::clone(&state), broken: broken(), bytes: bytes_out, direction: writes, _left: left };
        StreamEnd { reader, writer }
    };
    let one = end(first, to_first, forth, Direction::Back, Direction::Forth);
    let other = end(second, to_second, back, Direction::Forth, Direction::Back);
    drop(open);
    (one, other, state, over)
}

impl Tree {
    /// Opens a stream to a parent or a child, which must open it too. Done when both have.
    pub async fn open_stream(&self, by: Pid, peer: Pid, name: &str, wait: Option<Duration>) -> Result<StreamEnd, Stop> {
        let is_word = !name.is_empty() && name.len() <= limits::STREAM_NAME_MAX && !name.contains(char::is_control);
        if !is_word {
            let why = format!("the name of a stream is a word of at most {} bytes", limits::STREAM_NAME_MAX);
            return Err(Refusal::new(Code::BadInput, why).into());
        }
        let input = json!({ "peer": peer.0, "name": name });
        let call = TreeCall { by, tool: "stream.open", input, about: Some(TreeRequest::Stream { peer }), read_only: false };
        self.commit_call(call, |world, _, _| {
            has_room(world, by)?;
            Ok(CallEffect { events: Vec::new(), output: json!({}), value: () })
        })
        .await?;
        let key = (by.min(peer), by.max(peer), name.to_owned());
        let (joined, mut waiting) = oneshot::channel();
        let other = {
            let mut ends = self.streams.lock();
            match ends.remove(&key) {
                Some(other) if other.by == peer && !other.joined.is_closed() => Some(other),
                Some(same) if same.by == by && !same.joined.is_closed() => {
                    ends.insert(key, same);
                    let why = format!("a stream `{name}` to process {peer} waits for it already");
                    return Err(Refusal::new(Code::WrongState, why).hint("call the second one something else").into());
                }
                _ => {
                    ends.insert(key.clone(), WaitingEnd { by, joined });
                    None
                }
            }
        };
        if let Some(other) = other {
            return self.join(other, by, name).await;
        }
        let forget = ForgetWaiting { ends: &self.streams, key: &key, by };
        let wait = wait.unwrap_or(STREAM_WAIT).min(STREAM_WAIT);
        let mut stopping = self.stopping.subscribe();
        let end = tokio::select! {
            end = &mut waiting => end.ok(),
            () = tokio::time::sleep(wait) => None,
            _ = stopping.wait_for(|stops| *stops) => return Err(crate::spawn::stopping().into()),
        };
        drop(forget);
        // It may have come at the last moment.
        let end = end.or_else(|| waiting.try_recv().ok());
        end.ok_or_else(|| {
            let why = format!("process {peer} did not open the stream `{name}` within {} s", wait.as_secs());
            Refusal::new(Code::WrongState, why).hint("both ends open it, by the same name").into()
        })
    }

    /// Records a stream whose other end waits, and hands that its end.
    async fn join(&self, other: WaitingEnd, by: Pid, name: &str) -> Result<StreamEnd, Stop> {
        let first = other.by;
        let pending = self.ledger.commit(|world, _| {
            let stream = world.next_stream();
            let opened = Event::from(StreamOpened { pid: first, task: None, stream, peer: by, name: name.to_owned() });
            match world.check(&opened) {
                Ok(()) => (vec![opened], Ok(stream)),
                Err(illegal) => (Vec::new(), Err(Refusal::new(Code::WrongState, illegal.why))),
            }
        })?;
        let stream = pending.durable().await??;
        let (one, end, state, over) = pair(first, by);
        self.record_end(stream, first, state, over);
        // Whoever gave up meanwhile has closed it by that.
        drop(other.joined.send(one));
        Ok(end)
    }

    /// Records the end of a stream when both ends have left, or when the kernel goes down.
    fn record_end(&self, stream: StreamId, first: Pid, state: Arc<StreamState>, mut over: mpsc::Receiver<()>) {
        let Some(tree) = self.me.upgrade() else { return };
        let mut stopping = self.stopping.subscribe();
        self.mail.keep_task(tokio::spawn(async move {
            tokio::select! {
                _ = over.recv() => {}
                _ = stopping.wait_for(|stops| *stops) => state.break_off("the kernel stops".to_owned()),
            }
            let [sent, received] = [Direction::Forth, Direction::Back].map(|way| Some(state.carried[way as usize].load(Ordering::Relaxed)));
            let why = state.broken.borrow().clone().unwrap_or_else(|| "both ends have finished".to_owned());
            let closed = StreamClosed { pid: first, task: None, stream, sent, received, why };
            if let Err(fault) = tree.ledger.record(closed).await {
                world::log!("skep: the end of {stream} is not on record: {fault}");
            }
        }));
    }

    /// At boot: streams that the last kernel left open carried nobody knows how much.
    pub(crate) async fn close_lost_streams(&self) -> Result<(), Fault> {
        let pending = self.ledger.commit(|world, _| {
            let closed = world.streams.values().map(|stream| {
                let why = KERNEL_ENDED.to_owned();
                StreamClosed { pid: stream.from, task: None, stream: stream.id, sent: None, received: None, why }.into()
            });
            (closed.collect(), ())
        })?;
        pending.durable().await
    }
}

fn has_room(world: &World, by: Pid) -> Result<(), Refusal> {
    let open = world.streams.values().filter(|stream| stream.is_of(by)).count();
    if open < limits::STREAMS_OPEN_MAX {
        return Ok(());
    }
    Err(Refusal::new(Code::Exhausted, format!("process {by} has {open} streams open, and may have no more")).hint("close one first"))
}

/// Takes a waiting end back when nobody waits any more.
struct ForgetWaiting<'a> {
    ends: &'a WaitingEnds,
    key: &'a (Pid, Pid, String),
    by: Pid,
}

impl Drop for ForgetWaiting<'_> {
    fn drop(&mut self) {
        let mut ends = self.ends.lock();
        if ends.get(self.key).is_some_and(|end| end.by == self.by) {
            ends.remove(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Pid = Pid(3);
    const OTHER: Pid = Pid(4);

    #[tokio::test]
    async fn bytes_pass_both_ways_and_each_way_has_its_end() {
        let (mut one, mut other, state, mut over) = pair(ONE, OTHER);
        one.writer.write(Bytes::from_static(b"hello")).await.unwrap();
        one.writer.finish();
        assert_eq!(other.reader.next().await, Ok(Some(Bytes::from_static(b"hello"))));
        assert_eq!(other.reader.next().await, Ok(None));
        other.writer.write(Bytes::from_static(b"you")).await.unwrap();
        other.writer.finish();
        assert_eq!((one.reader.next().await, one.reader.next().await), (Ok(Some(Bytes::from_static(b"you"))), Ok(None)));
        assert!(over.try_recv().is_err_and(|error| error == mpsc::error::TryRecvError::Empty), "the readers are still there");
        drop((one.reader, other.reader));
        assert_eq!(over.recv().await, None);
        let carried = [Direction::Forth, Direction::Back].map(|way| state.carried[way as usize].load(Ordering::Relaxed));
        assert_eq!((carried, state.broken.borrow().clone()), ([5, 3], None));
    }

    #[tokio::test]
    async fn who_writes_waits_for_who_reads() {
        let (mut one, mut other, state, _over) = pair(ONE, OTHER);
        let piece = Bytes::from(vec![7; limits::STREAM_CHUNK_MAX]);
        for _ in 0..limits::STREAM_CHUNKS_WAITING {
            one.writer.write(piece.clone()).await.unwrap();
        }
        let mut next = std::pin::pin!(one.writer.write(piece.clone()));
        let waits = tokio::time::timeout(Duration::from_millis(50), next.as_mut()).await;
        assert!(waits.is_err(), "there is no room");
        assert_eq!(state.carried[0].load(Ordering::Relaxed), 0, "nothing was read yet");
        other.reader.next().await.unwrap();
        next.await.unwrap();
    }

    #[tokio::test]
    async fn an_end_that_goes_away_breaks_the_stream_off() {
        let (mut one, other, state, mut over) = pair(ONE, OTHER);
        one.writer.write(Bytes::from_static(b"lost")).await.unwrap();
        drop(other);
        let why = StreamBroken("process 4 closed it".to_owned());
        assert_eq!(one.writer.write(Bytes::from_static(b"more")).await, Err(why.clone()));
        assert_eq!(one.reader.next().await, Err(why));
        drop(one);
        assert_eq!(over.recv().await, None);
        assert_eq!(state.carried[0].load(Ordering::Relaxed), 0, "what nobody took was not carried");
        assert_eq!(state.broken.borrow().as_deref(), Some("process 4 closed it"), "the first reason stays");
    }
}
