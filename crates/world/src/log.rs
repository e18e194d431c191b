//! The kernel's log: one line for whoever looks after it.

/// Writes one line to stderr, which is `run/kernel.log` for a kernel in the background.
///
/// **Invariant.** A log that can't be written stops nothing: `eprintln!` panics on a full disk or a closed pipe, and the task that wanted to
/// say something would never go on.
#[macro_export]
macro_rules! log {
    ($($line:tt)*) => {{
        use std::io::Write as _;
        drop(writeln!(std::io::stderr(), $($line)*));
    }};
}
