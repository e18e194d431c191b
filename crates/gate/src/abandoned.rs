//! Admitted calls whose caller went away while the admission was written.
//!
//! What a job asks for, and requests to models, end with whoever asked: a client that hangs up drops its request. **Invariant.** Such a
//! call that is on disk has somebody who settles it: whoever asked, or this file. Nothing of it has happened yet, so it cost nothing.

use crate::{Gate, MODEL_REQUEST, Request};
use ledger::{Ledger, Unrecorded};
use serde_json::json;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use world::event::{CallFinished, ModelReleased};
use world::{CallId, Event, Fault, FaultKind, World};

/// Does this call end with whoever asked? Others are a task's own, which goes on with them after a restart.
pub(crate) fn ends_with_caller(request: &Request) -> bool {
    request.of.is_some() || request.tool == MODEL_REQUEST
}

impl Gate {
    /// Waits for the disk in a task of its own. If whoever waits here is dropped meanwhile, the call is settled as soon as it is recorded.
    pub(crate) async fn recorded_or_abandoned(&self, call: CallId, unrecorded: Unrecorded) -> Result<(), Fault> {
        let (told, heard) = oneshot::channel();
        let ledger = self.ledger.clone();
        tokio::spawn(async move {
            let recorded = ledger.recorded(unrecorded).await;
            // Nobody takes what is sent to whoever is gone: then it is dropped, and settles the call.
            drop(told.send(recorded.map(|()| Unclaimed { ledger, call, is_claimed: false })));
        });
        let gone = |_| Fault::new(FaultKind::Stopping, "the kernel is stopping", "an admission was not written");
        heard.await.map_err(gone)??.claim();
        Ok(())
    }
}

/// A call that is on disk and that nobody has taken up yet.
struct Unclaimed {
    ledger: Arc<Ledger>,
    call: CallId,
    is_claimed: bool,
}

impl Unclaimed {
    fn claim(mut self) {
        self.is_claimed = true;
    }
}

impl Drop for Unclaimed {
    fn drop(&mut self) {
        let Some(runtime) = Handle::try_current().ok().filter(|_| !self.is_claimed) else { return };
        let (ledger, call) = (self.ledger.clone(), self.call);
        runtime.spawn(async move {
            let settled = match ledger.commit(|world, _| (events(world, call), ())) {
                Ok(pending) => pending.durable().await,
                Err(fault) => Err(fault),
            };
            if let Err(fault) = settled {
                // It stays open; the next kernel settles it.
                world::log!("skep: the end of {call} could not be recorded: {fault}");
            }
        });
    }
}

fn events(world: &World, call: CallId) -> Vec<Event> {
    let Some(open) = world.calls.get(&call) else { return Vec::new() };
    let (pid, task) = (open.pid, open.task);
    let why = "whoever asked went away before it left".to_owned();
    let output = json!({"error": "abandoned", "reason": why});
    let reserved = world.books.reserved.get(&call);
    let released = reserved.map(|of| ModelReleased { pid, task, call, tokens: of.tokens, micros: of.micros, why }.into());
    let finished = CallFinished { pid, task, call, ok: false, output, blob: None, blob_bytes: 0, ms: 0 };
    released.into_iter().chain([finished.into()]).collect()
}
