//! Waits for something to be true of the world: by notification, never by looking again and again.

use crate::Tree;
use world::World;

impl Tree {
    /// Comes back with the first thing that `find` finds, now or after a later record.
    pub(crate) async fn until<T>(&self, find: impl Fn(&World) -> Option<T>) -> T {
        let mut records = self.ledger.journal().follow();
        loop {
            records.borrow_and_update();
            if let Some(found) = self.ledger.look(&find) {
                return found;
            }
            if records.changed().await.is_err() {
                // The journal is closed: nothing will be true any more.
                std::future::pending::<()>().await;
            }
        }
    }
}
