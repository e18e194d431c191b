//! What refusals and faults are as a gRPC status, for answers that have no error field.

use crate::rpc_error::rpc_error;
use hive::tonic::{Code, Status};
use tree::contract::error_text;
use world::{Pid, Refusal, Stop};

pub(crate) fn status(stop: Stop) -> Status {
    let text = error_text(&stop);
    Status::new(Code::from(rpc_error(stop).data.code.grpc()), text)
}

pub(crate) fn refused(refusal: Refusal) -> Status {
    status(refusal.into())
}

/// The same for whoever asks about a process, in the contract's words.
pub(crate) fn of_process(pid: Pid) -> impl Fn(Stop) -> Status {
    move |stop| match &stop {
        Stop::Refused(refusal) if refusal.code == world::Code::NotFound => Status::not_found(format!("process {pid} not found")),
        _ => status(stop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::{Fault, FaultKind};

    #[test]
    fn a_no_keeps_its_kind() {
        let of = |code| status(Refusal::new(code, "why").into()).code();
        assert_eq!(of(world::Code::Denied), Code::PermissionDenied);
        assert_eq!(of(world::Code::NotFound), Code::NotFound);
        assert_eq!(of(world::Code::Exhausted), Code::ResourceExhausted);
        assert_eq!(of(world::Code::BadInput), Code::InvalidArgument);
        assert_eq!(of(world::Code::WrongState), Code::FailedPrecondition);
        assert_eq!(of(world::Code::Unsupported), Code::Unimplemented);
        assert_eq!(status(Fault::new(FaultKind::Stopping, "a", "b").into()).code(), Code::Unavailable);
        assert_eq!(status(Fault::new(FaultKind::Io, "a", "b").into()).message(), "a: b");
        let missing = of_process(Pid(9_999))(Refusal::new(world::Code::NotFound, "there is no process 9999").into());
        assert_eq!((missing.code(), missing.message()), (Code::NotFound, "process 9999 not found"));
    }
}
