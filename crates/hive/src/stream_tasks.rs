//! The tasks of one connection, which end with it.
//!
//! hyper starts a task for each stream. Left to themselves, they would end when they next look at their connection; here they end when it does,
//! so that whoever stops a server waits for nobody.

use hyper::rt::Executor;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::task::JoinSet;

#[derive(Clone, Debug, Default)]
pub(crate) struct StreamTasks {
    tasks: Arc<Mutex<JoinSet<()>>>,
}

impl StreamTasks {
    /// What ends them all when it is dropped. It outlives whatever starts them.
    pub(crate) fn guard(&self) -> StreamTasksGuard {
        StreamTasksGuard(self.clone())
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamTasks {
    fn execute(&self, future: F) {
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(future);
    }
}

/// Dropped, it ends the tasks of its connection.
#[derive(Debug)]
pub(crate) struct StreamTasksGuard(StreamTasks);

impl Drop for StreamTasksGuard {
    fn drop(&mut self) {
        self.0.tasks.lock().abort_all();
    }
}
