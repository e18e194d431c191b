//! Is the work going well? Judges plans before they run, orders their steps, and says when going on is of no use.
//!
//! Pure: no IO, no clock, no thread. **Invariant.** Whatever a planner wrote becomes a plan that can be carried out, or findings that say where it is wrong.
//! Does not know how a step runs, who may do what, or where plans come from.
#![forbid(unsafe_code)]
