//! The kernel's surfaces: the control socket, and the gRPC service of the process tree.
//!
//! A listener finds out who connects, the method table (`wire::table`) says what they may call, and handlers map methods to the kernel
//! and the world to views. Which calls may happen is decided in the kernel, by policy. **Invariant.** No bytes from a peer end the kernel.
#![forbid(unsafe_code)]

mod answers;
mod artifact;
mod brain_output;
mod connection;
mod discipline;
mod dispatch;
mod doctor;
mod gateway_open;
mod grpc;
mod idle_memory;
mod memory;
mod outbox;
mod peer;
mod plan;
mod policy_view;
mod process_tree;
mod queue;
mod records;
mod responder;
mod review_view;
mod rpc_error;
mod run;
mod sandbox_run;
mod session;
mod session_dispatch;
mod spending;
mod talk;
mod task;
mod task_try;
mod transcripts;
mod tree_dispatch;
mod view;
mod watch;
mod zone;

pub use journal::OWN_KEY;
pub use kernel::BrainSpec;
pub use kernel::{is_unseen, readable, unified};
pub use run::{RunOptions, check_grpc, check_settings, run, run_until_eof};

/// The typed API of extension rules, for `skep policy types`.
pub fn extension_types() -> &'static str {
    plugin::types()
}

/// The main of the child that runs extension rules; it expects to be in a room.
pub fn extension_child() -> std::process::ExitCode {
    plugin::child_main()
}

/// Does a text have the form of a secret?
pub fn looks_secret(text: &str) -> bool {
    journal::Redactor::new().text(text) != text
}

/// Verifies a journal's files without a kernel.
pub fn verify_offline(home: &std::path::Path) -> Result<wire::method::journal::JournalVerifyResult, String> {
    journal::verify_with(home, kernel::blob_names).map(records::report_view).map_err(|error| error.to_string())
}

/// Holds a commit against a journal's files without a kernel. Contents are not decrypted.
pub fn verify_commit_offline(home: &std::path::Path, facts: &wire::CommitFacts) -> Result<wire::CommitReport, String> {
    kernel::verify_commit_offline(home, facts).map_err(|fault| fault.to_string())
}

/// Reads a file of a project as the kernel does: beneath it, through no link, an ordinary file of at most so many bytes. `None` for one
/// that is not there.
pub fn read_project_file(project: &std::path::Path, name: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, String> {
    kernel::read_project_file(project, name, bytes_max)
}

/// Becomes pid 1 of a container, if this program was started as one, and gives its exit code.
pub fn guest() -> Option<u8> {
    let mut arguments = std::env::args_os().skip(1);
    let wanted = arguments.next()? == sandbox::oci::GUEST && arguments.next().is_none();
    wanted.then(|| u8::try_from(sandbox::oci::guest()).unwrap_or(1))
}
