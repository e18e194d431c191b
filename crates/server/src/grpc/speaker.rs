//! Who speaks in one gRPC call: the operator, or a process of the tree. Pure.
//!
//! **Invariant.** A process is whom its listener, its credentials or its secret prove. The operator speaks for the kernel (pid 1) and for himself (pid 2);
//! for another process only where `grpc.trust_pid_header` is set, and then with the mark of a header that nobody proved.

use hive::tonic::{Request, Status};
use hive::{PeerIdentity, RpcCaller};
use wire::Principal;
use wire::table::{self, MethodId};
use world::Pid;

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GrpcSpeaker {
    /// Who acts, as records and the policy name him.
    pub by: Pid,
    /// Which process `me` is: whose children, whose mailbox. `None` where the caller named none and need not.
    me: Option<Pid>,
    /// Only a header said it. Such a speaker changes no budget.
    pub is_unproven: bool,
}

impl GrpcSpeaker {
    /// The speaker of a request, if the method table lets him call this method.
    pub(crate) fn of<T>(request: &Request<T>, method: MethodId, trusts_header: bool) -> Result<GrpcSpeaker, Status> {
        let caller = RpcCaller::of(request)?;
        let speaker = GrpcSpeaker::known(caller.identity, caller.pid().ok().map(Pid), caller.trusted_header, trusts_header)?;
        speaker.may(method)?;
        Ok(speaker)
    }

    fn known(identity: PeerIdentity, named: Option<Pid>, is_unproven: bool, trusts_header: bool) -> Result<GrpcSpeaker, Status> {
        match (identity, named) {
            (PeerIdentity::Process(_), Some(pid)) if !is_unproven => Ok(GrpcSpeaker { by: pid, me: Some(pid), is_unproven: false }),
            (_, None) => Ok(GrpcSpeaker { by: Pid::OPERATOR, me: None, is_unproven }),
            (_, Some(pid)) if pid == Pid::KERNEL || pid == Pid::OPERATOR => {
                Ok(GrpcSpeaker { by: Pid::OPERATOR, me: Some(pid), is_unproven })
            }
            (_, Some(pid)) if is_unproven || trusts_header => Ok(GrpcSpeaker { by: pid, me: Some(pid), is_unproven: true }),
            (_, Some(pid)) => Err(Status::permission_denied(format!(
                "you are the operator, and x-hivekernel-pid says {pid}: say 1, or set `grpc: {{trust_pid_header: true}}` in config.yml"
            ))),
        }
    }

    fn may(&self, method: MethodId) -> Result<(), Status> {
        let principal = match self.by {
            Pid::OPERATOR => Principal::Operator { os_pid: 0, started_ticks: 0 },
            pid => Principal::Process { pid },
        };
        table::allows(&principal, method).map_err(|refusal| Status::permission_denied(refusal.reason))?;
        if self.is_unproven && CHANGES_BUDGETS.contains(&method) {
            let why = format!("`{}` changes a budget, and a bare x-hivekernel-pid proves nobody: send x-skep-secret", method.name());
            return Err(Status::permission_denied(why));
        }
        Ok(())
    }

    /// The process that `me` is.
    pub(crate) fn me(&self) -> Result<Pid, Status> {
        self.me.ok_or_else(|| Status::unauthenticated("missing x-hivekernel-pid"))
    }

    /// The one that a request names, or else the speaker himself.
    pub(crate) fn or_me(&self, pid: u64) -> Result<Pid, Status> {
        if pid == 0 { self.me() } else { Ok(Pid(pid)) }
    }

    pub(crate) fn is_operator(&self) -> bool {
        self.by == Pid::OPERATOR
    }
}

/// Not for a speaker whom nobody proved. Reviews, policies, grants and merges have no gRPC method at all.
const CHANGES_BUDGETS: [MethodId; 1] = [MethodId::ResourceRequest];

#[cfg(test)]
mod tests {
    use super::*;
    use hive::tonic::Code;

    fn speaks(
        identity: PeerIdentity,
        named: Option<u64>,
        is_unproven: bool,
        trusts_header: bool,
    ) -> Result<(u64, Option<u64>, bool), Code> {
        let speaker = GrpcSpeaker::known(identity, named.map(Pid), is_unproven, trusts_header);
        speaker.map(|speaker| (speaker.by.0, speaker.me.map(|pid| pid.0), speaker.is_unproven)).map_err(|status| status.code())
    }

    #[test]
    fn a_proven_process_is_itself_whatever_its_number() {
        for pid in [1, 2, 7] {
            assert_eq!(speaks(PeerIdentity::Process(pid), Some(pid), false, false), Ok((pid, Some(pid), false)));
        }
    }

    #[test]
    fn the_operator_speaks_for_the_kernel_and_for_another_only_where_the_header_is_trusted() {
        let operator = PeerIdentity::Operator;
        assert_eq!(speaks(operator, Some(1), false, false), Ok((2, Some(1), false)));
        assert_eq!(speaks(operator, None, false, false), Ok((2, None, false)));
        assert_eq!(speaks(operator, Some(7), false, false), Err(Code::PermissionDenied));
        assert_eq!(speaks(operator, Some(7), false, true), Ok((7, Some(7), true)));
        assert_eq!(speaks(PeerIdentity::Unknown, None, true, true), Ok((2, None, true)));
        assert_eq!(speaks(PeerIdentity::Process(1), Some(1), true, true), Ok((2, Some(1), true)));
    }

    #[test]
    fn a_bare_header_asks_for_no_budget() {
        let proven = GrpcSpeaker { by: Pid(7), me: Some(Pid(7)), is_unproven: false };
        let bare = GrpcSpeaker { is_unproven: true, ..proven };
        assert!(proven.may(MethodId::ResourceRequest).is_ok() && bare.may(MethodId::MessageSend).is_ok());
        let refused = bare.may(MethodId::ResourceRequest).unwrap_err();
        assert_eq!((refused.code(), refused.message().contains("proves nobody")), (Code::PermissionDenied, true));
        // The table says no to what is the operator's alone.
        let refused = proven.may(MethodId::ReviewAnswer).unwrap_err();
        assert_eq!(refused.message(), "process 7 may not call `review.answer`: only the operator may");
    }
}
