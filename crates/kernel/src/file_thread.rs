//! Long work with files, on threads of its own.

use crate::Kernel;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use world::{Fault, FaultKind, Stop};

/// How many works have a thread of their own at once; the next ones wait for a place.
const ABREAST: usize = 8;
static PLACES: Semaphore = Semaphore::const_new(ABREAST);

/// Runs a long work that waits for files and for others by turns on a thread of its own. It stops at its next wait when nobody waits for
/// it any more.
pub(crate) async fn on_own_thread<T, F>(kernel: &Kernel, work: impl FnOnce(Arc<Kernel>) -> F + Send + 'static) -> Result<T, Stop>
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
