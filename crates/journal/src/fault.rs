//! Faults on purpose, for crash tests. The kernel decides whether to set one; nothing here reads the environment.

/// Where the writer can be made to die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Before anything of the commit is written.
    BeforeWrite,
    /// Records inserted, COMMIT not yet asked for.
    BeforeSync,
    /// Committed (and sealed, if asked), tickets not yet answered.
    BeforeAck,
}

/// Faults for tests; the default has none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Faults {
    /// Kill this process with SIGKILL at the nth commit (from 1) that reaches the point.
    pub kill_at: Option<(Point, u64)>,
    /// From the nth commit (from 1) on, the database may not grow while the reserve is held: a full disk.
    pub full_at: Option<u64>,
    /// The nth commit (from 1) fails with an IO error, once.
    pub fail_at: Option<u64>,
}

impl Faults {
    pub(crate) fn pass(&self, point: Point, nth_commit: u64) {
        if self.kill_at == Some((point, nth_commit)) {
            // The result does not matter: either this process is gone or the crash test sees that it is not.
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }
}
