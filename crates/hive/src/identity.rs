//! Who calls: what the connection proves, and what the headers may add to it. Pure.
//!
//! **Invariant.** What a connection proves, no header changes. A method is reached only by a caller that is known, or by one of the kernel's
//! own user where the operator trusts the header.

use crate::metadata::{PID_HEADER, SECRET_HEADER, claimed_pid, secret};
use crate::secret::ProcessSecrets;
use hyper::header::HeaderMap;
use std::sync::Arc;
use tonic::Status;

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerIdentity {
    /// The person who runs the kernel.
    Operator,
    /// A process of the tree, by its pid there.
    Process(u64),
    /// Nobody that we know.
    Unknown,
}

/// What a connection proves before anything is sent on it.
#[derive(Clone, Debug)]
pub enum CallerOrigin {
    /// The listener or the peer's credentials say who it is.
    Known(PeerIdentity),
    /// Each call says it with a secret; or with the bare header, if the operator trusts that and the socket is of the kernel's own user.
    Tcp { secrets: Arc<ProcessSecrets>, is_header_trusted: bool },
}

/// Who makes one call. A handler finds it with [`RpcCaller::of`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcCaller {
    pub identity: PeerIdentity,
    /// Only a header said it. Such a caller may not answer reviews or change policies, grants, budgets and merges.
    pub trusted_header: bool,
    /// The pid that the header names.
    claimed: Option<u64>,
}

/// Methods that the contract lets be called without a pid; for the last two the request may name one.
const WITHOUT_PID: [&str; 9] = [
    "/hivekernel.core.CoreService/ExecuteTask",
    "/hivekernel.core.CoreService/AddCron",
    "/hivekernel.core.CoreService/RemoveCron",
    "/hivekernel.core.CoreService/ListCron",
    "/hivekernel.core.CoreService/SubscribeEvents",
    "/hivekernel.core.CoreService/Log",
    "/hivekernel.core.CoreService/ReportMetric",
    "/hivekernel.core.CoreService/GetProcessInfo",
    "/hivekernel.core.CoreService/ListInbox",
];

/// Whether a method, by its path, may be called without a pid.
pub fn may_lack_pid(path: &str) -> bool {
    WITHOUT_PID.contains(&path)
}

impl RpcCaller {
    /// The caller of a request that [`crate::serve`] handed on. Elsewhere there is none.
    pub fn of<T>(request: &tonic::Request<T>) -> Result<RpcCaller, Status> {
        request.extensions().get().copied().ok_or_else(|| Status::unauthenticated("the caller is not known"))
    }

    /// The process on whose behalf the call is made: the caller itself, or the one that the operator names.
    pub fn pid(&self) -> Result<u64, Status> {
        match self.identity {
            PeerIdentity::Process(pid) => Ok(pid),
            PeerIdentity::Operator | PeerIdentity::Unknown => self.claimed.ok_or_else(missing_pid),
        }
    }
}

impl CallerOrigin {
    /// The caller of one request, or the refusal that it is answered with.
    pub fn caller(&self, path: &str, headers: &HeaderMap) -> Result<RpcCaller, Status> {
        let claimed = claimed_pid(headers)?;
        let caller = match self {
            CallerOrigin::Known(PeerIdentity::Unknown) => return Err(Status::unauthenticated("this socket does not serve you")),
            CallerOrigin::Known(identity) => RpcCaller { identity: *identity, trusted_header: false, claimed },
            CallerOrigin::Tcp { secrets, is_header_trusted } => match (secret(headers)?, claimed) {
                (Some(said), _) => {
                    let owner = secrets.owner(said).ok_or_else(|| Status::unauthenticated(format!("wrong {SECRET_HEADER}")))?;
                    RpcCaller { identity: PeerIdentity::Process(owner), trusted_header: false, claimed }
                }
                (None, Some(pid)) if *is_header_trusted => {
                    RpcCaller { identity: PeerIdentity::Process(pid), trusted_header: true, claimed }
                }
                (None, None) if *is_header_trusted => RpcCaller { identity: PeerIdentity::Unknown, trusted_header: true, claimed },
                (None, Some(_)) => {
                    return Err(Status::unauthenticated(format!("{PID_HEADER} alone proves nothing here: send {SECRET_HEADER}")));
                }
                (None, None) if may_lack_pid(path) => return Err(Status::unauthenticated(format!("missing {SECRET_HEADER}"))),
                (None, None) => return Err(missing_pid()),
            },
        };
        if let (PeerIdentity::Process(pid), Some(said)) = (caller.identity, claimed)
            && pid != said
        {
            return Err(Status::permission_denied(format!("you are process {pid}, and {PID_HEADER} says {said}")));
        }
        if !may_lack_pid(path) {
            caller.pid()?;
        }
        Ok(caller)
    }
}

fn missing_pid() -> Status {
    Status::unauthenticated(format!("missing {PID_HEADER}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    const SPAWN: &str = "/hivekernel.core.CoreService/SpawnChild";
    const CRON: &str = "/hivekernel.core.CoreService/ListCron";

    type Found = Result<(PeerIdentity, bool, Option<u64>), (Code, String)>;

    fn found(origin: &CallerOrigin, path: &str, pid: &str, secret: &str) -> Found {
        let mut headers = HeaderMap::new();
        for (name, value) in [(PID_HEADER, pid), (SECRET_HEADER, secret)] {
            if !value.is_empty() {
                headers.insert(name, value.parse().unwrap());
            }
        }
        let caller = origin.caller(path, &headers);
        caller.map(|caller| (caller.identity, caller.trusted_header, caller.pid().ok())).map_err(|no| (no.code(), no.message().to_owned()))
    }

    fn no(code: Code, message: &str) -> Found {
        Err((code, message.to_owned()))
    }

    #[test]
    fn on_a_door_of_a_process_the_header_must_be_its_pid() {
        let door = CallerOrigin::Known(PeerIdentity::Process(7));
        let seven = Ok((PeerIdentity::Process(7), false, Some(7)));
        assert_eq!(found(&door, SPAWN, "", ""), seven);
        assert_eq!(found(&door, SPAWN, "7", ""), seven);
        assert_eq!(found(&door, SPAWN, "8", ""), no(Code::PermissionDenied, "you are process 7, and x-hivekernel-pid says 8"));
        assert_eq!(found(&door, CRON, "1", ""), no(Code::PermissionDenied, "you are process 7, and x-hivekernel-pid says 1"));
        assert_eq!(found(&door, CRON, "abc", ""), no(Code::InvalidArgument, "invalid pid: abc"));
    }

    #[test]
    fn the_operator_names_the_process_that_is_meant() {
        let socket = CallerOrigin::Known(PeerIdentity::Operator);
        assert_eq!(found(&socket, SPAWN, "1", ""), Ok((PeerIdentity::Operator, false, Some(1))));
        assert_eq!(found(&socket, CRON, "", ""), Ok((PeerIdentity::Operator, false, None)));
        assert_eq!(found(&socket, SPAWN, "", ""), no(Code::Unauthenticated, "missing x-hivekernel-pid"));
        assert_eq!(found(&socket, SPAWN, "abc", ""), no(Code::InvalidArgument, "invalid pid: abc"));
        let stranger = CallerOrigin::Known(PeerIdentity::Unknown);
        for path in [SPAWN, CRON] {
            assert_eq!(found(&stranger, path, "1", ""), no(Code::Unauthenticated, "this socket does not serve you"));
        }
    }

    #[test]
    fn on_tcp_a_secret_proves_who_calls() {
        let secrets = Arc::new(ProcessSecrets::default());
        let secret = secrets.issue(7).unwrap();
        for is_header_trusted in [false, true] {
            let tcp = CallerOrigin::Tcp { secrets: Arc::clone(&secrets), is_header_trusted };
            let seven = Ok((PeerIdentity::Process(7), false, Some(7)));
            assert_eq!(found(&tcp, SPAWN, "7", &secret), seven);
            assert_eq!(found(&tcp, SPAWN, "", &secret), seven);
            assert_eq!(found(&tcp, SPAWN, "8", &secret), no(Code::PermissionDenied, "you are process 7, and x-hivekernel-pid says 8"));
            // A wrong secret is worse than none, also where none is needed.
            assert_eq!(found(&tcp, SPAWN, "7", "7.00"), no(Code::Unauthenticated, "wrong x-skep-secret"));
            assert_eq!(found(&tcp, SPAWN, "", ""), no(Code::Unauthenticated, "missing x-hivekernel-pid"));
            assert_eq!(found(&tcp, SPAWN, "abc", ""), no(Code::InvalidArgument, "invalid pid: abc"));
        }
    }

    #[test]
    fn the_bare_header_counts_only_where_it_is_trusted_and_leaves_its_mark() {
        let tcp = |is_header_trusted| CallerOrigin::Tcp { secrets: Arc::default(), is_header_trusted };
        assert_eq!(found(&tcp(true), SPAWN, "7", ""), Ok((PeerIdentity::Process(7), true, Some(7))));
        assert_eq!(found(&tcp(true), CRON, "", ""), Ok((PeerIdentity::Unknown, true, None)));
        let refused = no(Code::Unauthenticated, "x-hivekernel-pid alone proves nothing here: send x-skep-secret");
        assert_eq!(found(&tcp(false), SPAWN, "7", ""), refused);
        assert_eq!(found(&tcp(false), CRON, "7", ""), refused);
        assert_eq!(found(&tcp(false), CRON, "", ""), no(Code::Unauthenticated, "missing x-skep-secret"));
    }
}
