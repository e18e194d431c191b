//! What the kernel's refusals and faults are on the wire. `wire::Code` says which number and exit code each has.

use kernel::{Fault, FaultKind, Stop};
use wire::{Code, RpcError};

pub(crate) fn rpc_error(stop: Stop) -> RpcError {
    match stop {
        Stop::Refused(refusal) => RpcError::from(refusal),
        Stop::Failed(fault) => fault_error(fault),
    }
}

pub(crate) fn fault_error(fault: Fault) -> RpcError {
    let code = match fault.kind {
        FaultKind::DiskFull => Code::DiskFull,
        FaultKind::Brain => Code::BrainUnavailable,
        FaultKind::Room => Code::Unsupported,
        FaultKind::Stopping => Code::Unavailable,
        FaultKind::Io | FaultKind::Bug => Code::Internal,
    };
    let error = RpcError::new(code, fault.what).why(fault.why);
    match fault.fix {
        Some(fix) => error.fix(fix),
        None => error,
    }
}

pub(crate) fn unwritable(error: serde_json::Error) -> RpcError {
    RpcError::new(Code::Internal, "the answer cannot be written").why(error.to_string())
}
