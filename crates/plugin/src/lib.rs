//! Foreign programs that add to the kernel. Today they add one thing: opinions, by rules in TypeScript.
//!
//! The rules run in a child, the same binary once more, in a room of its own. What the kernel's process does is in `opinion`; what
//! the child does is in `child` and `engine`; what they say to each other is in `frame`.
//!
//! **Invariant.** No rule is parsed or run in the kernel's process. **Invariant.** Doubt is a deny: a rule that throws, hangs, eats
//! memory or answers nonsense, and a child that is not there, all speak against the call. **Invariant.** A rule sees nothing but
//! the call: no file, clock, chance or earlier call.
//!
//! It does not know what a call is: the kernel describes it, and `skep.d.ts` tells authors of rules how.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

mod child;
mod engine;
mod fault;
mod frame;
mod limits;
mod opinion;

pub use child::child_main;
pub use fault::{PluginError, RuleFlaw};
pub use limits::EVALUATION;
pub use opinion::{EngineState, Extensions, Status};

/// The declarations that authors of rules put beside them, for `skep policy types`.
pub fn types() -> &'static str {
    include_str!("../skep.d.ts")
}

/// For this crate's own tests: closes the process as the child does after loading, so that they can look from inside.
#[doc(hidden)]
pub fn lock() -> std::io::Result<()> {
    sandbox::lock(sandbox::Sockets::None)
}
