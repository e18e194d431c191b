//! Makes tests short. Only ever a dev-dependency.

pub mod bed;
pub mod harness;
pub mod scenario;
pub mod stage;
pub mod vfs;
