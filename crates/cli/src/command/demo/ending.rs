//! How the demo ends: by itself, by a key, by a signal, or because nobody reads it any more.
//!
//! **Invariant.** No way out leaves the demo's kernel running, or its folder unless that is to be kept: after SIGKILL the kernel, which
//! holds the other end of a pipe, sees to both.

use crate::command_error::CommandError;
use crate::show::before_end;
use crate::start::{self, KernelLife};
use std::path::{Path, PathBuf};
use tokio::signal::unix::{Signal, SignalKind, signal};
use wire::ErrorCode;

/// What a person, a script or a closing terminal may send.
pub struct EndSignals([Signal; 4]);

impl EndSignals {
    pub fn open() -> Result<EndSignals, CommandError> {
        let [interrupt, terminate, hang_up, quit] =
            [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup(), SignalKind::quit()].map(signal);
        let opened = || Ok(EndSignals([interrupt?, terminate?, hang_up?, quit?]));
        opened().map_err(|error: std::io::Error| CommandError::new(ErrorCode::Internal, "the demo cannot listen to signals").why(error))
    }

    /// Comes back when it is time to end.
    pub async fn next(&mut self) {
        let [interrupt, terminate, hang_up, quit] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hang_up.recv() => {}
            _ = quit.recv() => {}
        }
    }
}

/// The folder that the demo works in, with the home of its kernel. Dropped, it stops that kernel and removes the folder.
pub struct DemoFolder {
    path: PathBuf,
    is_kept: bool,
}

impl DemoFolder {
    pub fn make(is_kept: bool) -> Result<DemoFolder, CommandError> {
        let made = tempfile::Builder::new().prefix("skep-demo-").tempdir().map_err(|error| {
            CommandError::new(ErrorCode::Unavailable, "the demo cannot make a folder to work in")
                .why(error)
                .fix("set $TMPDIR to a folder you can write to")
        })?;
        let path = made.keep();
        let gone = path.clone();
        // `skep demo | head` ends the process where it prints, and nothing is dropped.
        before_end(move || end(&gone, is_kept));
        Ok(DemoFolder { path, is_kept })
    }

    pub fn home(&self) -> PathBuf {
        home(&self.path)
    }

    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// How long the demo's kernel lives: no longer than the demo.
    pub fn kernel_life(&self) -> KernelLife<'_> {
        KernelLife::OfThisCommand { removes: (!self.is_kept).then_some(&self.path) }
    }

    pub fn project(&self) -> PathBuf {
        self.path.join("project")
    }
}

impl Drop for DemoFolder {
    fn drop(&mut self) {
        end(&self.path, self.is_kept);
    }
}

fn home(folder: &Path) -> PathBuf {
    folder.join("home")
}

/// Works where nothing can be awaited any more, so it has a thread and a runtime of its own.
fn end(folder: &Path, is_kept: bool) {
    let home = home(folder);
    let stopped = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map(|runtime| runtime.block_on(stop(&home)))
    });
    // Nobody is there to be told of a failure.
    drop(stopped.join());
    if !is_kept {
        drop(std::fs::remove_dir_all(folder));
    }
}

async fn stop(home: &Path) {
    if let Ok(Some(mut kernel)) = start::running(home).await {
        // A kernel that does not stop has said so in its log, and the demo is over either way.
        let _ = start::stop(&mut kernel).await;
    }
}
