//! Issuing a capability token: a call of the kernel's own, through the gate like any other.

use crate::Kernel;
use crate::call;
use gate::{CallEnd, CallOutcome, ISSUE, Request, TokenRequest};
use policy::Peer;
use world::{Fault, FaultKind, Pid, Stop, ZoneId};

impl Kernel {
    /// Issues a token to the process behind `peer`, if policy lets `pid` have one.
    pub async fn issue_token(&self, pid: Pid, zone: ZoneId, wish: TokenRequest, peer: Peer) -> Result<(String, CallOutcome), Stop> {
        wish.check()?;
        let input = serde_json::to_value(&wish).map_err(|error| Fault::new(FaultKind::Bug, "a wish cannot be written", error))?;
        let request = Request::new(pid, None, zone, ISSUE, input);
        let text = parking_lot::Mutex::new(String::new());
        let outcome = call::run_syscall(self, &request, async {
            let (token, signed) = self.gate.issue_token(pid, &wish, peer).await?;
            *text.lock() = signed;
            Ok(serde_json::json!({"token": token.to_string(), "ops": wish.max_ops, "ttl_ms": wish.ttl_ms()}))
        })
        .await?;
        let text = text.into_inner();
        Ok((if matches!(outcome.end, CallEnd::Done { ok: true, .. }) { text } else { String::new() }, outcome))
    }
}
