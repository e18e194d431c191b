//! Who sends a request.

use std::fmt;
use world::{Pid, TokenId};

/// Who sends a request, as the listener of its connection found out.
///
/// **Invariant.** A listener makes it from what the operating system or a signature proves; no field of a request changes it. Today the
/// control socket makes [`Principal::Operator`]; the listeners of the process tree make that and [`Principal::Process`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// The user who runs the kernel, in a program outside every room.
    Operator {
        /// The program that connected, by its number and its start: together they name one process for good. Both are 0 where only the user
        /// is known.
        os_pid: u32,
        /// When that program started, in the clock ticks of `/proc/PID/stat`.
        started_ticks: i64,
    },
    /// A process of the tree, through its own door, by its credentials or by its secret.
    Process { pid: Pid },
    /// Whoever carries this token.
    Token { token: TokenId },
}

impl Principal {
    pub fn kind(&self) -> PrincipalKind {
        match self {
            Principal::Operator { .. } => PrincipalKind::Operator,
            Principal::Process { .. } => PrincipalKind::Process,
            Principal::Token { .. } => PrincipalKind::Token,
        }
    }
}

/// As records name who did something (`by`).
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Principal::Operator { .. } => f.write_str("operator"),
            Principal::Process { pid } => write!(f, "process {pid}"),
            Principal::Token { token } => write!(f, "token {token}"),
        }
    }
}

/// What a row of the method table can say about its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PrincipalKind {
    Operator,
    Process,
    Token,
}

impl fmt::Display for PrincipalKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PrincipalKind::Operator => "the operator",
            PrincipalKind::Process => "a process of the tree",
            PrincipalKind::Token => "the holder of a token",
        })
    }
}
