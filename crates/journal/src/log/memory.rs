//! What the journal has in memory of its files, given back while nothing is recorded.

use super::Journal;
use crate::writer::WriterOrder;

impl Journal {
    /// Frees cached pages of the databases. Connections that are in use keep theirs; what is used again is read again.
    pub fn release_memory(&self) {
        self.0.readers.release_memory();
        self.0.shared.index.release_memory();
        let mut appending = self.0.shared.appending.lock();
        // Without a writer nobody takes orders.
        if appending.stopped.is_none() {
            self.0.shared.order(&mut appending, WriterOrder::ReleaseMemory);
        }
    }
}
