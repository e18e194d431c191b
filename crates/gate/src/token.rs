//! Capability tokens: a signed grant that its caller carries.
//!
//! A token is bound to one process of one sandbox by pid and start time, to a syscall and globs, to a number of uses and an end. It
//! skips YAML and extensions and never a built-in; issuing one is a gated call like any other. **Invariant.** What a token may do is only what
//! stands under its signature; how much of it is left is world state, so a copy of the text is worth nothing more.

use crate::Gate;
use ledger::Ledger;
use policy::{Globs, Peer, TokenFacts};
use serde::{Deserialize, Serialize};
use workspace::hash;
use world::event::TokenIssued;
use world::{BootTime, Code, Deadline, Pid, Refusal, TokenId, World};
use world::{Fault, FaultKind};

const PREFIX: &str = "skt1";
/// Seed 003's default.
const TTL_MS_DEFAULT: u64 = 30_000;
const TTL_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// What somebody wants to be allowed to carry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    pub tool: String,
    #[serde(default)]
    pub paths: Vec<String>,
    #[serde(default = "one")]
    pub max_ops: u32,
    #[serde(default)]
    pub ttl_ms: Option<u64>,
}

impl TokenRequest {
    /// Refuses a token that would speak for no call, never, or for too long.
    pub fn check(&self) -> Result<(), Refusal> {
        let ttl_ms = self.ttl_ms();
        if self.max_ops == 0 || ttl_ms == 0 || ttl_ms > TTL_MS_MAX {
            let reason = format!("a token has at least one use and lives 1 to {TTL_MS_MAX} ms");
            return Err(Refusal::new(Code::BadInput, reason).hint("give it more uses, or another lifetime"));
        }
        if !policy::is_syscall(&self.tool) {
            let reason = format!("`{}` names no call, so a token for it would speak for none", self.tool);
            return Err(Refusal::new(Code::BadInput, reason).hint("write a name such as `fs.read`, a family such as `fs.*`, or `*`"));
        }
        Globs::parse(&self.paths).map(drop).map_err(|bad| Refusal::new(Code::BadInput, bad.to_string()))
    }

    /// How long it lives.
    pub fn ttl_ms(&self) -> u64 {
        self.ttl_ms.unwrap_or(TTL_MS_DEFAULT)
    }
}

fn one() -> u32 {
    1
}

/// What stands under the signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    /// Also the nonce: never given out twice.
    token: TokenId,
    tool: String,
    paths: Vec<String>,
    /// When it was issued, in the measure of `until`.
    #[serde(default)]
    issued_ms: u64,
    until: Deadline,
    sandbox: String,
    pid: u32,
    started_ms: i64,
}

/// A token that somebody presents: signature checked, life not yet weighed.
#[derive(Clone)]
pub(crate) struct Presented {
    claims: Claims,
    by: Peer,
}

impl Gate {
    /// Records a token for the process behind `peer`, and signs it. Whether `pid` may have it was decided before.
    pub async fn issue_token(&self, pid: Pid, wish: &TokenRequest, peer: Peer) -> Result<(TokenId, String), Fault> {
        let (issued_ms, until) = (self.moment().boottime_ms, self.until(wish.ttl_ms()));
        let (tool, paths) = (wish.tool.clone(), wish.paths.clone());
        let pending = self.ledger.commit(|world, _| {
            let token = world.next_token();
            let Peer { sandbox, pid: peer, started_ms } = peer;
            let claims = Claims { token, tool, paths, issued_ms, until: until.clone(), sandbox, pid: peer, started_ms };
            let shown = serde_json::to_value(&claims).unwrap_or_default();
            (vec![TokenIssued { pid, task: None, token, claims: shown, ops: wish.max_ops, until }.into()], claims)
        })?;
        let claims = pending.durable().await?;
        Ok((claims.token, sign(&self.ledger, &claims)?))
    }
}

fn sign(ledger: &Ledger, claims: &Claims) -> Result<String, Fault> {
    let body = serde_json::to_vec(claims).map_err(|error| Fault::new(FaultKind::Bug, "claims cannot be written", error))?;
    let body = hash::hex(&body);
    let mac = ledger.journal().vault().digest(format!("{PREFIX}.{body}").as_bytes());
    Ok(format!("{PREFIX}.{body}.{mac}"))
}

/// Checks a token's signature. An invalid one is no refusal: the call is weighed as if it carried none.
pub(crate) fn presented(ledger: &Ledger, text: &str, by: Peer) -> Option<Presented> {
    let (signed, mac) = text.rsplit_once('.')?;
    let expected = ledger.journal().vault().digest(signed.as_bytes());
    let body = signed.strip_prefix(PREFIX)?.strip_prefix('.')?;
    if !same(expected.as_bytes(), mac.as_bytes()) {
        return None;
    }
    Some(Presented { claims: serde_json::from_slice(&unhex(body)?).ok()?, by })
}

/// The syscall that issuing one is.
pub const ISSUE: &str = "token.issue";

impl Presented {
    pub fn id(&self) -> TokenId {
        self.claims.token
    }

    /// The token in the policy's words, with what the world knows is left of it.
    pub fn facts(&self, world: &World, now: &BootTime) -> Option<TokenFacts> {
        let left = world.tokens.get(&self.claims.token)?;
        let Claims { token, tool, paths, until, sandbox, pid, started_ms, .. } = &self.claims;
        let globs = if paths.is_empty() { None } else { Some(Globs::parse(paths).ok()?) };
        Some(TokenFacts {
            id: token.to_string(),
            syscall: tool.clone(),
            paths: globs,
            ops_left: u64::from(left.ops_left),
            // Another boot's clock says nothing: such a token is over.
            expires_ms: if until.boot == now.boot { i64::try_from(until.boottime_ms).unwrap_or(i64::MAX) } else { i64::MIN },
            now_ms: i64::try_from(now.boottime_ms).unwrap_or(i64::MAX),
            bound_to: Peer { sandbox: sandbox.clone(), pid: *pid, started_ms: *started_ms },
            presented_by: self.by.clone(),
        })
    }
}

/// Compares without telling by its time where the difference is.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_reads_back_and_nothing_else_does() {
        assert_eq!(unhex(&hash::hex(b"\x00\xffskep")), Some(b"\x00\xffskep".to_vec()));
        assert_eq!((unhex("0"), unhex("zz"), unhex("é")), (None, None, None));
        assert!(same(b"ab", b"ab") && !same(b"ab", b"ac") && !same(b"ab", b"abc"));
    }
}
