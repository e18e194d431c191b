//! The promise that a batch is durable.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::sync::oneshot;

use crate::error::JournalError;
use crate::writer::LateWrite;

/// Where a durable batch lies in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    pub first_seq: u64,
    pub last_seq: u64,
}

/// Waits for one batch. Dropping it does not undo the batch.
#[must_use = "nothing may happen outside before the ticket is durable"]
#[derive(Debug)]
pub struct Ticket(State);

#[derive(Debug)]
enum State {
    Known(Result<Receipt, JournalError>),
    Waiting {
        place: Receipt,
        answer: oneshot::Receiver<Result<(), JournalError>>,
        /// Who waits for it writes it.
        late: Option<LateWrite>,
    },
}

impl Ticket {
    pub(crate) fn known(result: Result<Receipt, JournalError>) -> Self {
        Self(State::Known(result))
    }

    pub(crate) fn waiting(place: Receipt, answer: oneshot::Receiver<Result<(), JournalError>>) -> Self {
        Self(State::Waiting { place, answer, late: None })
    }

    pub(crate) fn late(place: Receipt, answer: oneshot::Receiver<Result<(), JournalError>>, late: LateWrite) -> Self {
        Self(State::Waiting { place, answer, late: Some(late) })
    }

    /// The place the batch was given when it was appended; it counts only once durable.
    pub fn place(&self) -> Option<Receipt> {
        match &self.0 {
            State::Known(result) => result.as_ref().ok().copied(),
            State::Waiting { place, .. } => Some(*place),
        }
    }

    /// Resolves when the batch is fsynced, or written if it may be late, or when it is certain that this journal won't say so.
    pub async fn durable(self) -> Result<Receipt, JournalError> {
        match self.0 {
            State::Known(result) => result,
            State::Waiting { place, answer, late } => {
                if let Some(late) = late {
                    late.write();
                }
                match answer.await {
                    Ok(Ok(())) => Ok(place),
                    Ok(Err(error)) => Err(error),
                    Err(_) => Err(JournalError::Closed),
                }
            }
        }
    }

    /// As `durable`, blocking this thread.
    pub fn wait(self) -> Result<Receipt, JournalError> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut durable = pin!(self.durable());
        loop {
            match durable.as_mut().poll(&mut context) {
                Poll::Ready(result) => return result,
                Poll::Pending => thread::park(),
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
