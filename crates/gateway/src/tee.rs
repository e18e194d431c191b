//! The body of an answer on its way to the client, read along by the meter.
//!
//! Nothing is held back: a piece is passed on as it came, and the next is asked for only when the client took the last. Dropping the
//! body is how a client that went away cancels its upstream. **Invariant.** Every admitted request is settled exactly once, and a client
//! that has seen the end of its answer knows that the usage is on disk.

use crate::cassette::Taking;
use crate::dialect::{Meter, Source as Counted};
use crate::door::{Denial, Ended, Pass, Work};
use crate::limiter::Slot;
use crate::mask::Masked;
use crate::space::Space;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::time::Sleep;

/// Bytes of one answer that are kept where recording is on.
const KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// An admitted request. Settles itself as abandoned when it is dropped.
pub(crate) struct Open {
    pass: Option<Box<dyn Pass>>,
    pub end: Ended,
    /// Reads the answer along, once there is one.
    pub meter: Option<Meter>,
    /// Takes it down, once there is an answer.
    pub taking: Option<Taking>,
    /// What was answered so far, where it is kept.
    record: Option<Vec<u8>>,
    /// What the request takes of its process's memory; what is recorded holds it until the end.
    _space: Option<Space>,
}

impl Open {
    pub fn new(pass: Box<dyn Pass>, space: Option<Space>) -> Open {
        Open { pass: Some(pass), end: Ended::default(), meter: None, taking: None, record: None, _space: space }
    }

    /// Waits until the admission is on disk.
    pub async fn recorded(&mut self) -> Result<(), Denial> {
        match &mut self.pass {
            Some(pass) => pass.recorded().await,
            None => Ok(()),
        }
    }

    /// Says what came of it, with what was metered so far.
    pub fn settle(mut self) -> Work<'static, ()> {
        self.close().unwrap_or_else(|| Box::pin(std::future::ready(())))
    }

    fn close(&mut self) -> Option<Work<'static, ()>> {
        let pass = self.pass.take()?;
        self.end.metered = self.meter.take().map(Meter::finish);
        // Codex hangs up at the last event, before the end of the answer itself: it has heard everything, and what it cost is known.
        if self.end.metered.as_ref().is_some_and(|metered| metered.complete && metered.usage.source == Counted::Reported) {
            (self.end.complete, self.end.why) = (true, None);
        }
        self.end.answer = self.record.take();
        if let Some(taking) = self.taking.take()
            && let Err(why) = taking.end(self.end.status.unwrap_or_default(), self.end.complete)
        {
            self.end.why.get_or_insert(why);
        }
        Some(pass.settle(std::mem::take(&mut self.end)))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.end.why.get_or_insert_with(|| "the client went away".to_owned());
        // Without a runtime the kernel is going down: the call stays open and counts as lost at the next boot.
        if let Ok(runtime) = tokio::runtime::Handle::try_current()
            && let Some(work) = self.close()
        {
            runtime.spawn(work);
        }
    }
}

/// Where an answer comes from.
pub(crate) enum Source {
    Upstream(Masked),
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
#[derive(Debug, thiserror::Error)]
#[error("the answer broke off: {0}")]
pub struct Broken(String);

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
    Passing(Box<Passing>),
    /// The end is known and being recorded; then this last piece, or error, goes out.
    Settling(Work<'static, ()>, Option<Result<Bytes, Broken>>),
    Done,
}

struct Passing {
    source: Source,
    open: Open,
    start: Instant,
    _slot: Option<Slot>,
}

impl Tee {
    pub(crate) fn whole(bytes: Bytes) -> Tee {
        let left = Some(bytes.len() as u64);
        Tee { stage: Stage::Whole(Some(bytes)), idle: Duration::MAX, alarm: Box::pin(tokio::time::sleep(Duration::ZERO)), left }
    }

    pub(crate) fn passing(source: Source, record: bool, mut open: Open, slot: Option<Slot>, start: Instant, idle: Duration) -> Tee {
        let left = match &source {
            Source::Upstream(body) => body.size_hint().exact(),
            Source::Played(_) => None,
        };
        open.record = record.then(Vec::new);
        let passing = Box::new(Passing { source, open, start, _slot: slot });
        Tee { stage: Stage::Passing(passing), idle, alarm: Box::pin(tokio::time::sleep(idle)), left }
    }

    /// Closes the upstream side and records; `last` goes out after that.
    fn end(&mut self, complete: bool, why: Option<String>, last: Option<Result<Bytes, Broken>>) {
        let Stage::Passing(passing) = std::mem::replace(&mut self.stage, Stage::Done) else { return };
        let Passing { mut open, _slot, source, .. } = *passing;
        drop((source, _slot));
        open.end.complete = complete;
        open.end.why = why;
        self.stage = Stage::Settling(open.settle(), last);
    }
}

impl Passing {
    fn see(&mut self, data: &Bytes) {
        self.open.end.first_byte.get_or_insert_with(|| self.start.elapsed());
        self.open.end.bytes += data.len() as u64;
        if let Some(meter) = &mut self.open.meter {
            meter.feed(data);
        }
        if let Some(taking) = &mut self.open.taking {
            taking.see(data);
        }
        if let Some(record) = &mut self.open.record {
            if record.len() + data.len() <= KEPT_BYTES_MAX {
                record.extend_from_slice(data);
            } else {
                self.open.record = None;
            }
        }
    }
}

impl Body for Tee {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
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
                    return Poll::Ready(last.map(|last| last.map(Frame::data)));
                }
                Stage::Passing(passing) => {
                    let next = match &mut passing.source {
                        Source::Upstream(body) => Pin::new(body).poll_frame(cx).map(|next| match next {
                            Some(Ok(frame)) => Some(Ok(frame.into_data().unwrap_or_default())),
                            Some(Err(error)) => Some(Err(error.to_string())),
                            None => None,
                        }),
                        Source::Played(played) => played.poll_next(cx),
                    };
                    match next {
                        Poll::Ready(Some(Ok(data))) => {
                            passing.see(&data);
                            this.alarm.as_mut().reset(tokio::time::Instant::now() + this.idle);
                            this.left = this.left.map(|left| left.saturating_sub(data.len() as u64));
                            if this.left != Some(0) {
                                return Poll::Ready(Some(Ok(Frame::data(data))));
                            }
                            // With a known length the client takes the last byte for the end, so it is told last.
                            this.end(true, None, Some(Ok(data)));
                        }
                        Poll::Ready(Some(Err(error))) => this.end(false, Some(error.clone()), Some(Err(Broken(error)))),
                        Poll::Ready(None) => this.end(true, None, None),
                        Poll::Pending => {
                            std::task::ready!(this.alarm.as_mut().poll(cx));
                            let why = format!("nothing came for {} s", this.idle.as_secs_f64());
                            this.end(false, Some(why.clone()), Some(Err(Broken(why))));
                        }
                    }
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
