//! What the kernel's refusals and faults are on the wire. `wire::ErrorCode` says which number and exit code each has.

use kernel::{Fault, FaultKind, Stop};
use wire::{ErrorCode, RpcError};

pub(crate) fn rpc_error(stop: Stop) -> RpcError {
    match stop {
        Stop::Refused(refusal) => RpcError::from(refusal),
        Stop::Failed(fault) => fault_error(fault),
    }
}

pub(crate) fn fault_error(fault: Fault) -> RpcError {
    let code = match fault.kind {
        FaultKind::DiskFull => ErrorCode::DiskFull,
        FaultKind::Brain => ErrorCode::BrainUnavailable,
        FaultKind::Room => ErrorCode::Unsupported,
        FaultKind::Stopping => ErrorCode::Unavailable,
        FaultKind::Settings => ErrorCode::BadConfig,
        FaultKind::Io | FaultKind::Bug => ErrorCode::Internal,
    };
    let mut error = RpcError::new(code, fault.what).why(fault.why);
    (error.data.hint, error.data.remedy) = (fault.fix, fault.remedy);
    error
}

/// What a kernel that does not start is for whoever waits for it: a mistake in its settings, or no kernel.
pub(crate) fn start_code(fault: &Fault) -> ErrorCode {
    match fault.kind {
        FaultKind::Settings => ErrorCode::BadConfig,
        FaultKind::DiskFull => ErrorCode::DiskFull,
        _ => ErrorCode::Unavailable,
    }
}

pub(crate) fn unwritable(error: serde_json::Error) -> RpcError {
    RpcError::new(ErrorCode::Internal, "the answer cannot be written").why(error.to_string())
}
