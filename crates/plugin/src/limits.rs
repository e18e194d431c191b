//! Every limit of extension rules, with the reason for its figure.

use std::time::Duration;

/// Processor time of all rules together on one call, by the engine's own watch. The seeds' figure.
pub const EVALUATION: Duration = Duration::from_millis(100);
/// How much longer, on the clock, the kernel waits before it kills a child that did not stop by itself: with a quarter of a processor,
/// which the template gives, 100 ms of it take 400, and a busy machine is several times slower than that.
pub(crate) const GRACE: Duration = Duration::from_millis(1_900);
/// From an answer to the next stage: tearing down a full heap takes long, and nobody is waiting yet.
pub(crate) const SETTLE: Duration = Duration::from_secs(5);
/// From the start of a child to its loaded rules: exec, linking, stripping types, a first evaluation.
pub(crate) const START: Duration = Duration::from_secs(10);
/// Ending a killed tree takes milliseconds; what takes longer hangs.
pub(crate) const END: Duration = Duration::from_secs(5);

/// What one evaluation may allocate: enough below the template's 128 MiB for the whole child that the engine is the one who says no.
pub(crate) const ENGINE_BYTES: usize = 96 << 20;
/// Native stack of a rule. The child's main thread has 8 MiB.
pub(crate) const STACK_BYTES: usize = 1 << 20;

/// One message between kernel and child. A call or a set of rules beyond it is refused.
pub(crate) const FRAME_BYTES: usize = 1 << 20;
/// A rule's reason or hint, in UTF-16 units as the engine counts: a person reads it.
pub(crate) const TEXT_UNITS: usize = 2_000;
/// The same in bytes of UTF-8, where a unit is at most three.
pub(crate) const TEXT_BYTES: usize = 3 * TEXT_UNITS;
/// Files of rules, and rules in them.
pub(crate) const FILES: usize = 256;
pub(crate) const RULES: usize = 256;

/// Calls that wait for the child. More is a flood, and refused.
pub(crate) const WAITING: usize = 256;
/// Restarts in one [`RESTART_WINDOW`]; after them the child stays down.
pub(crate) const RESTARTS: usize = 5;
pub(crate) const RESTART_WINDOW: Duration = Duration::from_secs(60);
