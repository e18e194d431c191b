//! The body of an answer on its way to the client, read along by the meter.
//!
//! Nothing is held back: a piece is passed on as it came, and the next is asked for only when the client took the last. Dropping the
//! body is how a client that went away cancels its upstream. **Invariant.** Every admitted request is settled exactly once, and a client
//! that has seen the end of its answer knows that the usage is on disk.

use crate::admission::{Admitted, BoxedFuture, Denial, ExchangeOutcome, Settlement};
use crate::cassette::{CassetteWriter, ExchangeRecording};
use crate::limiter::Slot;
use crate::mask::Masked;
use crate::memory_quota::MemoryLease;
use crate::stop_signal::{StopCause, StopSignal};
use dialect::{DenialKind, Dialect, Meter, UsageSource};
use hyper::body::{Body, Bytes, Frame, SizeHint};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::time::Sleep;
use world::Ending;

/// Bytes of one answer that are kept where recording is on.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// An admitted request on its way. Settles itself as abandoned when it is dropped.
pub(crate) struct InFlight {
    /// `None` once it is settled.
    settlement: Option<Box<dyn Settlement>>,
    pub outcome: ExchangeOutcome,
    /// Reads the answer along, once there is one.
    pub meter: Option<Meter>,
    /// The cassette that is to record the exchange, and the recording once there is an answer.
    cassette: Option<Arc<CassetteWriter>>,
    recording: Option<ExchangeRecording>,
    /// The answer is to be kept.
    record: bool,
    /// What was answered so far, where it is kept.
    answer: Option<Vec<u8>>,
    stop: StopSignal,
    /// What the request takes of its process's memory; what is recorded holds it until the end.
    _memory: Option<MemoryLease>,
}

impl InFlight {
    pub fn new(admitted: Admitted, memory: Option<MemoryLease>) -> InFlight {
        let Admitted { record, cassette, stop, settlement, .. } = admitted;
        InFlight {
            settlement: Some(settlement),
            outcome: ExchangeOutcome::default(),
            meter: None,
            cassette,
            recording: None,
            record,
            answer: None,
            stop,
            _memory: memory,
        }
    }

    pub fn stop(&self) -> StopSignal {
        self.stop.clone()
    }

    /// Why its cassette records nothing more.
    pub fn cassette_fault(&self) -> Option<String> {
        self.cassette.as_ref()?.fault()
    }

    /// Starts to record the exchange, where it has a cassette.
    pub fn start_recording(&mut self, begin: impl FnOnce(Arc<CassetteWriter>) -> ExchangeRecording) {
        self.recording = self.cassette.clone().map(begin);
    }

    /// Records that the request is sent now, and may have to be paid for.
    pub async fn note_sent(&mut self) -> Result<(), Denial> {
        if let Some(settlement) = &mut self.settlement {
            settlement.note_sent().await?;
        }
        // What an earlier try came to says nothing of this one.
        (self.outcome.sent, self.outcome.status) = (true, None);
        Ok(())
    }

    /// Waits until the admission is on disk.
    pub async fn recorded(&mut self) -> Result<(), Denial> {
        match &mut self.settlement {
            Some(settlement) => settlement.recorded().await,
            None => Ok(()),
        }
    }

    /// Says what came of it, with what was metered so far.
    pub fn settle(mut self) -> BoxedFuture<'static, ()> {
        self.close().unwrap_or_else(|| Box::pin(std::future::ready(())))
    }

    fn close(&mut self) -> Option<BoxedFuture<'static, ()>> {
        let settlement = self.settlement.take()?;
        self.outcome.metered = self.meter.take().map(Meter::finish);
        // A disconnect after the final event counts as complete: Codex disconnects there, and the usage is known.
        if self.outcome.metered.as_ref().is_some_and(|metered| metered.complete && metered.usage.source == UsageSource::Reported) {
            (self.outcome.ending, self.outcome.why) = (Ending::Complete, None);
        }
        self.outcome.answer = self.answer.take();
        if let Some(recording) = self.recording.take()
            && let Err(why) = recording.end(self.outcome.status.unwrap_or_default(), self.outcome.is_complete())
        {
            self.outcome.why.get_or_insert(why);
        }
        Some(settlement.settle(std::mem::take(&mut self.outcome)))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.settlement.is_none() {
            return;
        }
        match self.stop.now() {
            Some(StopCause { ending, words }) => (self.outcome.ending, self.outcome.why) = (ending, Some(words)),
            None => drop(self.outcome.why.get_or_insert_with(|| "the client went away".to_owned())),
        }
        // Without a runtime the kernel is going down: the call stays open and counts as lost at the next boot.
        if let Ok(runtime) = tokio::runtime::Handle::try_current()
            && let Some(work) = self.close()
        {
            runtime.spawn(work);
        }
    }
}

/// Where an answer comes from.
pub(crate) enum AnswerSource {
    Upstream(Box<Masked>),
    /// Made in this process.
    Played(Played),
}

/// Pieces that come one after the other, each after its time.
pub(crate) struct Played {
    pieces: VecDeque<(Duration, Bytes)>,
    cut: bool,
    wait: Option<Pin<Box<Sleep>>>,
}

impl Played {
    pub fn new(pieces: VecDeque<(Duration, Bytes)>, cut: bool) -> Played {
        Played { pieces, cut, wait: None }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        let Some((after, _)) = self.pieces.front() else {
            return Poll::Ready(std::mem::take(&mut self.cut).then(|| Err("it is cut off there".to_owned())));
        };
        if !after.is_zero() {
            let after = *after;
            let wait = self.wait.get_or_insert_with(|| Box::pin(tokio::time::sleep(after)));
            std::task::ready!(wait.as_mut().poll(cx));
            self.wait = None;
        }
        Poll::Ready(self.pieces.pop_front().map(|(_, piece)| Ok(piece)))
    }
}

/// What breaks an answer off. The client sees its connection end before the answer does.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the answer broke off: {0}")]
pub struct ResponseBroken(String);

pub struct Tee {
    stage: Stage,
    /// Until the next piece must be there.
    idle: Duration,
    alarm: Pin<Box<Sleep>>,
    /// Bytes still to come, where the provider said how many.
    left: Option<u64>,
}

enum Stage {
    /// A finished answer of our own, without anything to settle.
    Whole(Option<Bytes>),
    Passing(Arc<Mutex<Shared>>),
    /// The end is known and being recorded; then this last piece, or error, goes out.
    Settling(BoxedFuture<'static, ()>, Option<Result<Bytes, ResponseBroken>>),
    /// The end is on record, and what came before it goes out now.
    Breaking(ResponseBroken),
    Done,
}

/// An answer on its way, which somebody may stop even while its client takes nothing.
#[derive(Default)]
struct Shared {
    /// `None` once it was stopped.
    passing: Option<Passing>,
    /// What the client is told then, as soon as the end is on record.
    last: Option<Result<Bytes, ResponseBroken>>,
    waker: Option<Waker>,
}

/// An answer that is being passed on.
pub(crate) struct Passing {
    pub source: AnswerSource,
    pub flight: InFlight,
    pub start: Instant,
    /// The wire format, where the answer is a stream of events of any length and can take one more.
    pub stream: Option<Dialect>,
    /// The place at the provider that it takes until its end.
    pub slot: Option<Slot>,
}

impl Tee {
    pub(crate) fn whole(bytes: Bytes) -> Tee {
        let left = Some(bytes.len() as u64);
        Tee { stage: Stage::Whole(Some(bytes)), idle: Duration::MAX, alarm: Box::pin(tokio::time::sleep(Duration::ZERO)), left }
    }

    /// Passes an answer on. `idle` is the longest pause between two pieces of it.
    pub(crate) fn passing(mut passing: Passing, idle: Duration) -> Tee {
        let left = match &passing.source {
            AnswerSource::Upstream(body) => body.size_hint().exact(),
            AnswerSource::Played(_) => None,
        };
        let stop = passing.flight.stop();
        passing.flight.answer = passing.flight.record.then(Vec::new);
        passing.stream = passing.stream.filter(|_| left.is_none());
        let shared = Arc::new(Mutex::new(Shared { passing: Some(passing), ..Shared::default() }));
        tokio::spawn(watch(stop, Arc::downgrade(&shared)));
        Tee { stage: Stage::Passing(shared), idle, alarm: Box::pin(tokio::time::sleep(idle)), left }
    }

    /// Closes the upstream side and records; `last` goes out after that.
    fn end(&mut self, passing: Passing, ending: Ending, why: Option<String>, last: Option<Result<Bytes, ResponseBroken>>) {
        self.stage = Stage::Settling(passing.end(ending, why), last);
    }
}

/// Ends an answer when somebody stops it, whether or not its client takes what it is sent.
async fn watch(mut stop: StopSignal, shared: std::sync::Weak<Mutex<Shared>>) {
    let Some(StopCause { ending, words }) = stop.stopped().await else { return };
    let Some(shared) = shared.upgrade() else { return };
    let Some(passing) = shared.lock().passing.take() else { return };
    let last = match passing.stream {
        // Behind whatever came last, so that a broken event does not swallow it.
        Some(dialect) => {
            let event = dialect.render_error_event(dialect.error_status(DenialKind::Cancelled), DenialKind::Cancelled, &words);
            Ok(Bytes::from([b"\n\n".as_slice(), &event].concat()))
        }
        None => Err(ResponseBroken(words.clone())),
    };
    passing.end(ending, Some(words)).await;
    let mut shared = shared.lock();
    shared.last = Some(last);
    if let Some(waker) = shared.waker.take() {
        waker.wake();
    }
}

impl Passing {
    /// Closes the upstream side and settles.
    fn end(self, ending: Ending, why: Option<String>) -> BoxedFuture<'static, ()> {
        let Passing { mut flight, slot, source, .. } = self;
        drop((source, slot));
        (flight.outcome.ending, flight.outcome.why) = (ending, why);
        flight.settle()
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, String>>> {
        match &mut self.source {
            AnswerSource::Upstream(body) => Pin::new(&mut **body).poll_frame(cx).map(|next| match next {
                Some(Ok(frame)) => Some(Ok(frame.into_data().unwrap_or_default())),
                Some(Err(error)) => Some(Err(error.to_string())),
                None => None,
            }),
            AnswerSource::Played(played) => played.poll_next(cx),
        }
    }

    /// Meters, records and keeps a piece of the answer.
    fn see(&mut self, data: &Bytes) {
        let flight = &mut self.flight;
        flight.outcome.first_byte.get_or_insert_with(|| self.start.elapsed());
        flight.outcome.bytes += data.len() as u64;
        if let Some(meter) = &mut flight.meter {
            meter.feed(data);
        }
        if let Some(recording) = &mut flight.recording {
            recording.see(data);
        }
        if let Some(answer) = &mut flight.answer {
            if answer.len() + data.len() <= KEPT_BYTES_MAX {
                answer.extend_from_slice(data);
            } else {
                flight.answer = None;
            }
        }
    }
}

impl Body for Tee {
    type Data = Bytes;
    type Error = ResponseBroken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ResponseBroken>>> {
        let this = self.get_mut();
        loop {
            match &mut this.stage {
                Stage::Whole(bytes) => {
                    return Poll::Ready(bytes.take().filter(|bytes| !bytes.is_empty()).map(|bytes| Ok(Frame::data(bytes))));
                }
                Stage::Done => return Poll::Ready(None),
                Stage::Settling(work, last) => {
                    std::task::ready!(work.as_mut().poll(cx));
                    let last = last.take();
                    this.stage = Stage::Done;
                    if let Some(Err(broken)) = last {
                        // An error in the same look would take the head and what came before it away from the client.
                        this.stage = Stage::Breaking(broken);
                        cx.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    return Poll::Ready(last.map(|last| last.map(Frame::data)));
                }
                Stage::Breaking(broken) => {
                    let broken = broken.clone();
                    this.stage = Stage::Done;
                    return Poll::Ready(Some(Err(broken)));
                }
                Stage::Passing(shared) => {
                    let shared = shared.clone();
                    let mut state = shared.lock();
                    let Some(passing) = &mut state.passing else {
                        let Some(last) = state.last.take() else {
                            state.waker = Some(cx.waker().clone());
                            return Poll::Pending;
                        };
                        this.stage = Stage::Done;
                        return Poll::Ready(Some(last.map(Frame::data)));
                    };
                    let next = passing.poll_next(cx);
                    let end = match next {
                        Poll::Ready(Some(Ok(data))) => {
                            passing.see(&data);
                            this.alarm.as_mut().reset(tokio::time::Instant::now() + this.idle);
                            this.left = this.left.map(|left| left.saturating_sub(data.len() as u64));
                            if this.left != Some(0) {
                                return Poll::Ready(Some(Ok(Frame::data(data))));
                            }
                            // With a known length the client takes the last byte for the end, so it is told last.
                            (Ending::Complete, None, Some(Ok(data)))
                        }
                        Poll::Ready(Some(Err(error))) => (Ending::Broken, Some(error.clone()), Some(Err(ResponseBroken(error)))),
                        Poll::Ready(None) => (Ending::Complete, None, None),
                        Poll::Pending => {
                            state.waker = Some(cx.waker().clone());
                            std::task::ready!(this.alarm.as_mut().poll(cx));
                            let why = format!("nothing came for {} s", this.idle.as_secs_f64());
                            (Ending::Broken, Some(why.clone()), Some(Err(ResponseBroken(why))))
                        }
                    };
                    let Some(passing) = state.passing.take() else { continue };
                    drop(state);
                    this.end(passing, end.0, end.1, end.2);
                }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.stage, self.left) {
            (Stage::Whole(_) | Stage::Passing(_), Some(left)) => SizeHint::with_exact(left),
            (Stage::Settling(_, Some(Ok(last))), Some(0)) => SizeHint::with_exact(last.len() as u64),
            (Stage::Done, _) => SizeHint::with_exact(0),
            _ => SizeHint::default(),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.stage, Stage::Done | Stage::Whole(None))
    }
}
