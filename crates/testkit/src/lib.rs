//! Makes tests short. Only ever a dev-dependency.

pub mod bed;
pub mod harness;
pub mod scenario;
#[expect(unsafe_code, reason = "a SQLite VFS is a table of C functions")]
pub mod vfs;
