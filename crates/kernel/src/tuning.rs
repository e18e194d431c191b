//! What a kernel is given from outside and a test gives differently: its clock, the addresses it may reach, its shares,
//! what its file system can do.

use ledger::Clock;
use report::WorkHold;
use std::sync::Arc;
use world::limits;

#[derive(Clone, Debug)]
pub struct Tuning {
    pub clock: Clock,
    /// Which addresses http.request may connect to.
    pub reach: tool::AddressFilter,
    /// The variables of whoever started the kernel; `environment.pass` of its settings names those that rooms get.
    pub variables: Vec<(String, String)>,
    /// Bytes of outputs that are kept for one task.
    pub task_blob_bytes_max: u64,
    /// False as on a file system that cannot exchange two files in one step.
    pub exchanges_files: bool,
    /// How long a blob is left alone after it was kept: a record that names it may be on its way.
    pub blob_grace_ms: u64,
    /// How long ended work is kept, and how much of it.
    pub retention_ms: u64,
    pub blob_bytes_max: u64,
    /// Bytes of one task's changes that are kept.
    pub kept_bytes_max: u64,
    /// Where long work waits for whoever looks at it.
    pub hold: Option<Arc<WorkHold>>,
    /// Agents that the process tree begins with.
    pub startup: Option<tree::Startup>,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            clock: Clock::default(),
            reach: tool::AddressFilter::default(),
            variables: Vec::new(),
            task_blob_bytes_max: limits::TASK_BLOB_BYTES_MAX,
            exchanges_files: true,
            blob_grace_ms: limits::BLOB_GRACE_MS,
            retention_ms: limits::RETENTION_MS,
            blob_bytes_max: limits::BLOB_BYTES_MAX,
            kept_bytes_max: limits::KEPT_BYTES_MAX,
            hold: None,
            startup: None,
        }
    }
}
