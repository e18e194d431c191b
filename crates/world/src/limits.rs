//! Every limit of the kernel, with the reason for its figure.

/// Tasks waiting in one process's queue. Seed 000 asks for 100; a person who queues more has a loop.
pub const QUEUE_MAX: usize = 100;
/// Workers of one project, unless its `skep.yml` says otherwise: seed 000 asks for 10.
pub const WORKERS_DEFAULT: usize = 10;
/// The most that a `skep.yml` may ask for: each has a room, a brain and a conversation.
pub const WORKERS_MAX: usize = 32;
/// Tasks of one worker that are open at once because those before them wait for more of a budget.
pub const TASKS_WAITING_MAX: usize = 8;
/// Tools of one list that narrows a task: more than there are.
pub const TOOL_LIST_MAX: usize = 64;
/// Bytes of one artifact of a task. Seed 000 asks for 1 MB.
pub const ARTIFACT_BYTES_MAX: usize = 1_000_000;
/// Bytes of an artifact that its record holds; a longer one is whole in a blob.
pub const ARTIFACT_INLINE_MAX: usize = 4 * 1024;
/// What is asked for at a task's end: each costs a turn of its brain.
pub const HOOKS_MAX: usize = 10;
/// How long one of these may take, unless `skep.yml` says otherwise.
pub const HOOK_MS_DEFAULT: u64 = 60_000;
/// The longest that a `skep.yml` may let it take.
pub const HOOK_MS_MAX: u64 = 3_600_000;
/// Bytes of one file of a role. It is read by a brain before each task.
pub const ROLE_FILE_BYTES_MAX: u64 = 64 * 1024;
/// Files of all roles of a project.
pub const ROLE_FILES_MAX: usize = 256;
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
/// How long before that a person is told that a task's kept work will be gone.
pub const RETENTION_TOLD_MS: u64 = 3 * 24 * 3600 * 1000;
/// Bytes of one task's changes that are kept after its end. A task that wrote more wrote data and not work: what is beyond it is named
/// and left out.
pub const KEPT_BYTES_MAX: u64 = 1024 * 1024 * 1024;
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
/// The longest that one program of a vendor's runs: a month, which no task takes.
pub const BRAIN_MS_MAX: u64 = 30 * 24 * 3_600_000;
/// Bytes of one client's output that are kept, and that wait to be: a long day's work, and a moment of it.
pub const TRANSCRIPT_BYTES_MAX: u64 = 64 << 20;
pub const TRANSCRIPT_HELD_MAX: usize = 4 << 20;
/// Transcripts of ended tasks that are kept of one repository and branch: more than anybody looks back.
pub const TRANSCRIPTS_MAX: usize = 100;
/// Watchers of one worker: more people than stand around one screen.
pub const WATCHERS_MAX: usize = 10;
/// How often watchers are looked after, and how long one may be silent; each says twice as often that it is there.
pub const WATCH_SWEEP_MS: u64 = 30_000;
pub const WATCH_SILENT_MS_MAX: u64 = 60_000;
/// How long a vendor's client that has nothing to do stays for its worker's next task, unless the operator says otherwise: a person who comes
/// back within half an hour finds it there.
pub const CLIENT_IDLE_MS: u64 = 30 * 60_000;
/// Clients that wait at a time: one for each worker that a work tree may have. Where memory is short they go before that.
pub const CLIENTS_IDLE_MAX: usize = WORKERS_MAX;
/// How often a brain that crashes is started again before its task stops.
pub const BRAIN_RESTARTS_MAX: u32 = 3;
/// Texts that a worker has pinned, and bytes of one: each of its prompts carries all of them.
pub const PINS_MAX: usize = 20;
pub const PIN_BYTES_MAX: usize = 2_000;
/// A brain that makes no move for this long is failed by the watchdog.
pub const NO_PROGRESS_MS: u64 = 900_000;
/// Records between two snapshots of the world, at least; a boot folds not many more.
pub const SNAPSHOT_EVERY: u64 = 10_000;
/// Masks of one room: each is a mount that every job's start copies.
pub const MASKS_MAX: usize = 10_000;
/// Bytes that jobs of a process may leave in its layer over shared caches for the next task; more begins anew. A few hundred crates or packages.
pub const CACHE_LAYER_BYTES_MAX: u64 = 2 << 30;
/// Files in such a layer: measuring it takes a second at most.
pub const CACHE_LAYER_FILES_MAX: u64 = 200_000;
/// Such layers that are kept at a time; the oldest goes.
pub const CACHE_LAYERS_MAX: usize = 16;
/// Bytes of builds that the kernel keeps of one zone for its own runs of the tests; more begins anew. A debug build of a large workspace.
pub const BUILD_LAYER_BYTES_MAX: u64 = 4 << 30;
/// Files of them: each gets a second name when something is added.
pub const BUILD_LAYER_FILES_MAX: u64 = 200_000;
/// Zones of which builds are kept; those that were used longest ago go.
pub const BUILD_ZONES_MAX: usize = 8;
/// How old builds get before they are made from nothing again, in milliseconds: a week. Whatever got into them is gone with them.
pub const BUILD_AGE_MS_MAX: i64 = 7 * 24 * 60 * 60 * 1000;
/// Time a clean stop may take before what is left is killed: agents have five seconds of it to hand over what they want back.
pub const STOP_MS_MAX: u64 = 10_000;
/// Ended tasks that stay in memory for `skep list`; older ones are in the journal only.
pub const TASKS_REMEMBERED: usize = 1_000;
/// How long what a request may have cost beyond what is known counts against the caps, unless somebody reconciles it before. A provider's
/// own usage page shows a request within a day.
pub const HELD_MS: i64 = 24 * 60 * 60 * 1_000;
/// Children of the kernel in the tree, and of others whose limits nobody said.
pub const KERNEL_CHILDREN_MAX: u64 = 10_000;
/// Messages that wait in one mailbox or queue. A receiver that is so far behind does not catch up.
pub const MAILBOX_MAX: usize = 100_000;
/// Queues with something in them, and bytes of a queue's name.
pub const QUEUES_MAX: usize = 10_000;
pub const QUEUE_NAME_MAX: usize = 256;
/// Dead letters that can be read; older ones are in the journal only.
pub const DEAD_LETTERS_MAX: usize = 1_000;
/// How long a copy of others' traffic waits to be seen.
pub const COPY_TTL_MS: i64 = 5 * 60_000;
/// Messages in the mailbox of one who sees others' traffic beyond which he gets no more copies: more than anybody reads.
pub const COPIES_MAX: usize = 1_000;
/// Bytes of a message's kind and of its `reply_to`: words, not texts.
pub const MESSAGE_KIND_MAX: usize = 256;
/// Bytes of a message's body: what a gRPC message holds by default.
pub const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long an agent may take to answer a message when its limits say nothing.
pub const HANDLER_MS_DEFAULT: u64 = 300_000;
/// Bytes of a message's body that stands beside its record; a longer one is a blob.
pub const MESSAGE_INLINE_MAX: usize = 4 * 1024;
/// Versions of an artifact that are kept, the latest ones.
pub const ARTIFACT_VERSIONS_MAX: usize = 10;
/// Artifacts of one user, all versions counted, their bytes, and bytes of a key.
pub const ARTIFACTS_MAX: usize = 10_000;
pub const ARTIFACT_QUOTA_BYTES: u64 = 1024 * 1024 * 1024;
pub const ARTIFACT_KEY_MAX: usize = 1024;
/// Bytes of one version of an artifact.
pub const STORED_ARTIFACT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of a log line, fields of one, and bytes of a field: what a person reads of it.
pub const LOG_LINE_MAX: usize = 8 * 1024;
pub const LOG_FIELDS_MAX: usize = 32;
pub const LOG_FIELD_MAX: usize = 1024;
/// Bytes of an escalation: its issue and the context of it.
pub const ESCALATION_BYTES_MAX: usize = 16 * 1024;
/// Escalations that were dealt with and can be looked at.
pub const ESCALATIONS_REMEMBERED: usize = 1_000;
/// Bytes of what an entry of cron says, and the longest jitter: a day.
pub const CRON_BYTES_MAX: usize = 16 * 1024;
pub const CRON_JITTER_MS_MAX: u64 = 86_400_000;
/// Streams of bytes that one process has open at once, and bytes of what it calls one.
pub const STREAMS_OPEN_MAX: usize = 64;
pub const STREAM_NAME_MAX: usize = 128;
/// Bytes of one piece of a stream, and pieces that wait for its reader: what a stream makes the kernel hold in one direction.
pub const STREAM_CHUNK_MAX: usize = 64 * 1024;
pub const STREAM_CHUNKS_WAITING: usize = 4;
/// Entries of cron.
pub const CRONS_MAX: usize = 10_000;
/// Lessons that are kept for later sessions, and bytes of the summary of one: seed 002 asks for both.
pub const LESSONS_MAX: usize = 100;
pub const LESSON_SUMMARY_MAX: usize = 200;
/// Iterations of a session that its planner is told of; older ones are in the summary and the journal.
pub const ITERATIONS_REMEMBERED: usize = 64;
/// Bytes of a plan that somebody wrote, or that is kept: ten thousand steps have half of that. What a planner answers with is shorter.
pub const PLAN_BYTES_MAX: usize = 4_000_000;
/// Tokens that a planner's context must hold at least: its instructions and one tool take nearly as many, and below that every look at it says that it is full.
pub const PLANNER_CONTEXT_MIN: u64 = 500;
/// Steps of a plan.
pub const PLAN_STEPS_MAX: usize = 10_000;
/// How deeply lists and maps of a plan may be nested: as deep as those of every file that people write.
pub const PLAN_DEPTH_MAX: usize = 64;
/// Characters of a plan's goal or of a description, and of a title: what a person reads of them.
pub const PLAN_TEXT_MAX: usize = 4_000;
pub const PLAN_TITLE_MAX: usize = 200;
/// Assumptions and artifacts of a plan, and criteria of a step.
pub const PLAN_LIST_MAX: usize = 100;
/// Crashes of a program that its supervisor looks back on.
pub const CRASHES_REMEMBERED: usize = 16;
