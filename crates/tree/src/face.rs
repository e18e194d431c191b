//! The kernel's own service, as the tree knows it: somebody else answers, on listeners that the tree opens.

use crate::Tree;
use hive::{GrpcListener, ServerHandle};
use std::sync::Arc;

/// Whoever answers `CoreService`.
pub trait CoreFace: Send + Sync {
    /// Serves a listener that one process alone can reach, until the handle is dropped.
    fn serve(&self, listener: GrpcListener) -> ServerHandle;

    /// Where a program outside rooms reaches the kernel, `unix:///PATH` or `HOST:PORT`; `None` where nobody listens.
    fn address(&self) -> Option<String>;
}

impl Tree {
    /// From here on programs can be started: what they ask of the kernel is answered.
    pub fn set_face(&self, face: Arc<dyn CoreFace>) {
        self.face.send_replace(Some(face));
    }
}
