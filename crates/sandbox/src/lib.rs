//! Run a job in a closed sandbox and bring out its changes.
//!
//! Three kinds of process, each single-threaded and forked from the one above it:
//! - the **launcher**, forked from the kernel before it has a second thread; it only forks holders;
//! - a **holder** per workspace, which owns the user and mount namespace with the overlay and the room's file tree;
//! - a **job**, which is pid 1 of its own pid, network, ipc, uts, cgroup and mount namespace, and one command beneath it.
//!
//! **Invariant.** A job runs in a room that is closed on every side, or it does not run: every step that fails is an error
//! with its name, and nothing falls back to less. **Invariant.** A tree dies with its owner, however the owner dies: each
//! process asks for SIGKILL when its parent ends, and the end of a pid 1 ends its namespace.
//!
//! It does not know policy, the journal, or what a job is for.

#![expect(unsafe_code, reason = "system calls without a safe wrapper: fork, clone3, mount_setattr, seccomp, posix_spawn, madvise")]
#![cfg(target_os = "linux")]

mod cgroup;
mod changes;
mod code;
mod disk;
mod door;
mod dying;
pub mod egress;
mod epoll;
mod fault;
mod figures;
mod holder;
mod host_program;
mod inlet;
mod inotify;
mod job;
mod landlock;
mod launcher;
mod layer;
mod lease;
mod link;
mod memory;
mod mount;
mod namespace;
pub mod oci;
mod order;
mod orphan;
mod output;
mod packet;
mod priority;
mod probe;
mod process;
mod resolver;
mod seccomp;
mod share;
mod spec;
mod steward;
mod sys;
mod template;
mod terminal;
mod workspace;

pub use cgroup::{JobBranch, SharedLimits};
pub use changes::{Change, ChangeKind, Changes, FileKind, Refused, changes};
pub use code::{release_code, release_heap, share_heaps};
pub use disk::{DiskUse, Overfull, measure};
pub use fault::{SandboxError, SandboxFuture, Step};
pub use figures::{JobControl, JobFigures};
pub use host_program::{HostProgram, HostStart};
pub use inlet::{Inlet, Inlets};
pub use launcher::Launcher;
pub use layer::is_repository;
pub use lease::{NoLease, WriteLease};
pub use mount::unmount as release;
pub use namespace::{job_owner, owners_are_mapped};
pub use orphan::{Swept, remove, sweep};
pub use output::OutputTail;
pub use priority::yield_to_all;
pub use probe::{Check, HostFix};
pub use seccomp::{Sockets, lock};
pub use spec::{Act, Bind, Door, Enforcement, Exit, HostShare, JobSpec, Limits, Outcome, Profile, Stdio, Usage, Window, WorkspaceSpec};
pub use spec::{CORE_PORT, HOOK_PORT, MODELS_PORT, OWN_PORTS, PROXY_PORT, TOOLS_PORT};
pub use sys::peer_pidfd;
pub use template::{Network, REGISTRIES, Template};
pub use workspace::{Job, JobEnd, Workspace};
