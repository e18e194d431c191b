//! Every limit of the kernel, with the reason for its figure.

/// Tasks waiting in one process's queue. Seed 000 asks for 100; a person who queues more has a loop.
pub const QUEUE_MAX: usize = 100;
/// Bytes of a caller's tag, and tags of one task: words of a rule, not a text.
pub const TAG_BYTES_MAX: usize = 64;
pub const TAGS_MAX: usize = 16;
/// Open reviews of one process before it pauses: more than a screenful is not read any more.
pub const REVIEWS_OPEN_MAX: usize = 20;
/// Bytes of a tool's output that a record holds; a longer one is kept as a blob and shortened in the record.
pub const OUTPUT_INLINE_MAX: usize = 16 * 1024;
/// Bytes of output that are kept at all for one call.
pub const OUTPUT_KEPT_MAX: usize = 1024 * 1024;
/// Bytes of outputs that are kept as blobs for one task. A brain that fills a disk with output fills its own share.
pub const TASK_BLOB_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// How long ended work can be looked at, replayed and merged again before its contents are collected.
pub const RETENTION_MS: u64 = 30 * 24 * 3600 * 1000;
/// Bytes of all blobs; beyond it the contents of what ended first are collected sooner.
pub const BLOB_BYTES_MAX: u64 = 10 * 1024 * 1024 * 1024;
/// A blob that was kept this lately may be named by a record that is on its way.
pub const BLOB_GRACE_MS: u64 = 60_000;
/// Bytes of one file that `fs.read` will open. A larger one wants `offset` and `limit`, or grep.
pub const READ_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Bytes of one changed file that a merge will carry. Beyond it a person should move the file by hand.
pub const MERGE_FILE_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of a prompt or of a call's input. A frame holds 16 MiB; the journal should not.
pub const INPUT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Progress records of one process in one window; more are dropped and counted.
pub const PROGRESS_BURST_MAX: u64 = 200;
/// The window of [`PROGRESS_BURST_MAX`].
pub const PROGRESS_WINDOW_MS: i64 = 1_000;
/// Refusals of one process, and of the connections of its jobs, that have a record each in one window; more are counted. Whoever is
/// refused so often learns nothing from the next record, and a person reads none of them.
pub const REFUSALS_BURST_MAX: u64 = 100;
/// The window of [`REFUSALS_BURST_MAX`] and [`RECORDS_BURST_MAX`].
pub const RECORDS_WINDOW_MS: i64 = 60_000;
/// Records of one process in one window, the operator's excepted: some hundred calls a second. A process that makes more is refused
/// until the window is over.
pub const RECORDS_BURST_MAX: u64 = 30_000;
/// How often a full disk is asked for the reserve again.
pub const RESERVE_RETRY_MS: u64 = 1_000;
/// Records of connections that one job makes; more are counted with their call.
pub const NET_RECORDS_MAX: u64 = 2_000;
/// Calls of one task that are on their way at once.
pub const CALLS_OPEN_MAX: usize = 64;
/// Wall-clock limit of a job in a room when its caller names none.
pub const JOB_MS_DEFAULT: u64 = 300_000;
/// A brain that makes no move for this long is failed by the watchdog.
pub const NO_PROGRESS_MS: u64 = 900_000;
/// Records between two snapshots of the world: a boot folds at most this many.
pub const SNAPSHOT_EVERY: u64 = 10_000;
/// Masks of one room: each is a mount that every job's start copies.
pub const MASKS_MAX: usize = 10_000;
/// Time a clean stop may take before what is left is killed.
pub const STOP_MS_MAX: u64 = 2_000;
/// Ended tasks that stay in memory for `skep list`; older ones are in the journal only.
pub const TASKS_REMEMBERED: usize = 1_000;
/// How long what a request may have cost beyond what is known counts against the caps, unless somebody reconciles it before. A provider's
/// own usage page shows a request within a day.
pub const HELD_MS: i64 = 24 * 60 * 60 * 1_000;
