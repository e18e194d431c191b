//! The kernel's faces: today the control socket.
//!
//! Maps methods to the kernel and the world to views. Decides nothing: who may do what is the door's business, and who is who the
//! listener's. **Invariant.** No bytes from a peer end the kernel.
#![forbid(unsafe_code)]

mod connection;
mod decide;
mod follow;
mod method;
mod peer;
mod run;
mod view;

pub use run::run;
