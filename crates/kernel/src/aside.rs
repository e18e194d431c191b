//! Work that waits for a disk, beside the async workers.
//!
//! **Invariant.** While files are read, written, hashed or synced, whatever else the workers have to do goes on: no command waits for
//! another's files.

use crate::Kernel;
use crate::fault::{Fault, FaultKind, Stop};
use std::sync::Arc;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, oneshot};

/// Works that have a thread of their own at once; the next ones wait for a place.
const ABREAST: usize = 8;
static PLACES: Semaphore = Semaphore::const_new(ABREAST);

/// Runs `work` on this thread after handing its other tasks on. Inside itself, and outside a runtime with workers, it only runs.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Runs a long work that waits for files and for others by turns on a thread of its own. It stops at its next wait when nobody waits for
/// it any more.
pub(crate) async fn apart<T, F>(kernel: &Kernel, work: impl FnOnce(Arc<Kernel>) -> F + Send + 'static) -> Result<T, Stop>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Stop>>,
{
    let gone = |why: &str| Fault::new(FaultKind::Stopping, "the kernel is stopping", why);
    let kernel = kernel.me.upgrade().ok_or_else(|| gone("it is gone"))?;
    let place = PLACES.acquire().await.map_err(|_| gone("nothing is begun any more"))?;
    let (answer, result) = oneshot::channel();
    let runtime = Handle::current();
    // A thread and not one of the runtime's own: what waits there may need those.
    let thread = std::thread::Builder::new().name("skep-files".into()).spawn(move || {
        runtime.block_on(async move {
            let mut answer = answer;
            tokio::select! {
                biased;
                () = answer.closed() => {}
                done = work(kernel) => drop(answer.send(done)),
            }
        });
        drop(place);
    });
    thread.map_err(|error| Fault::new(FaultKind::Io, "no thread could be started", error))?;
    result.await.map_err(|_| Fault::new(FaultKind::Bug, "a work with files did not end", "its thread is gone"))?
}
