//! What can be called, and the ordinary tools.
//!
//! A [`Tool`] is a manifest, a check of its input and a body. It knows neither policy nor journal: the door decides, and hands the
//! body the very files that were decided on as [`Place`]s. **Invariant.** A body in the kernel's process only reads, and only
//! through the workspace's root descriptor; whatever changes something runs in a room.
#![forbid(unsafe_code)]

mod builtin;
mod fault;
mod manifest;
mod place;
mod registry;
mod schema;
mod tool;
mod walk;

pub use fault::{ToolFault, ToolStop};
pub use manifest::{Manifest, ManifestError, Room, Runner, Supports};
pub use place::{Access, Found, Place, Real, Target};
pub use registry::Registry;
pub use tool::{Context, Output, Tool};
