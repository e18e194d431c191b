//! The operator's own calls, and what a person decides: answers, grants, bans, tokens.

use crate::rpc_error::rpc_error;
use crate::{peer, view};
use kernel::{CallOptions, Kernel, Reply, TokenRequest};
use std::path::Path;
use tool::RunMode;
use wire::method::Nothing;
use wire::method::call::{CallMode, CallRunParams, CallRunResult};
use wire::method::grant::{self, TokenIssueParams, TokenIssueResult};
use wire::method::review::{AnswerReach, AnswerTerms, ReviewAnswerParams, ReviewView};
use wire::{ErrorCode, Principal, RpcError};
use world::{Answer, Pid, Review, Scope, Terms, World};

/// Makes one call of the operator's own.
pub(crate) async fn call(kernel: &Kernel, params: CallRunParams, principal: &Principal) -> Result<CallRunResult, RpcError> {
    let run_mode = match params.mode.unwrap_or_default() {
        CallMode::Live => RunMode::Live,
        CallMode::DryRun => RunMode::DryRun,
        CallMode::Mock => RunMode::Mock,
    };
    let token = params.token.map(|token| peer::bearer(principal).map(|peer| (token, peer))).transpose()?;
    let ask = CallOptions { run_mode, token, ..CallOptions::default() };
    kernel.call(Path::new(&params.path), params.task, &params.tool, params.input, ask).await.map(view::call_result).map_err(rpc_error)
}

pub(crate) async fn answer(kernel: &Kernel, params: ReviewAnswerParams, by: &str) -> Result<ReviewView, RpcError> {
    let review = kernel.ledger.review(params.review).map_err(rpc_error)?;
    if params.answer == Answer::Changes {
        let is_plain = params.reach.is_none() && params.what.is_none() && params.terms.is_none() && params.alternative.is_none();
        if !is_plain {
            return Err(RpcError::new(ErrorCode::BadInput, "a wish for changes has a reason and nothing else"));
        }
        kernel.request_changes(params.review, params.reason, params.newer_base, by).await.map_err(rpc_error)?;
        return view::review(kernel, params.review, false).await;
    }
    let reply = reply(kernel, &review, &params)?;
    kernel.answer_shown(params.review, reply, by, params.reason, params.seen.as_deref()).await.map_err(rpc_error)?;
    view::review(kernel, params.review, false).await
}

fn reply(kernel: &Kernel, review: &Review, params: &ReviewAnswerParams) -> Result<Reply, RpcError> {
    let wrong = |what: &str| Err(RpcError::new(ErrorCode::BadInput, what.to_owned()));
    let scope = params.reach.map(|reach| kernel.ledger.look(|world| scope(world, review, reach))).transpose()?;
    if params.newer_base {
        return wrong("a newer base goes with a wish for changes");
    }
    match (params.answer, scope) {
        (Answer::Changes, _) => wrong("a wish for changes is no answer to a call"),
        (Answer::Allow, _) if params.alternative.is_some() => wrong("an alternative goes with a no"),
        (Answer::Deny, _) if params.terms.is_some() => wrong("terms go with a yes"),
        (_, None) if params.what.is_some() => wrong("`what` goes with `reach`: say for whom the answer holds"),
        (Answer::Allow, None) => Ok(Reply::Once { terms: terms(kernel, params.terms.as_ref()) }),
        (Answer::Allow, Some(scope)) => Ok(Reply::Wide { scope, what: params.what.clone(), terms: terms(kernel, params.terms.as_ref()) }),
        (Answer::Deny, None) => Ok(Reply::No { alternative: params.alternative.clone() }),
        (Answer::Deny, Some(scope)) => Ok(Reply::Never { scope, what: params.what.clone(), alternative: params.alternative.clone() }),
    }
}

/// Whom an answer holds for, seen from the process that asked.
fn scope(world: &World, review: &Review, reach: AnswerReach) -> Result<Scope, RpcError> {
    let pid = review.pid;
    let process = world.processes.get(&pid);
    let none = |what: &str| {
        let name = process.map_or("the process that asks", |process| process.name.as_str());
        RpcError::new(ErrorCode::BadInput, format!("{name} belongs to no {what}")).fix("use --for process, session or all")
    };
    Ok(match reach {
        AnswerReach::Process => Scope::Process { pid },
        AnswerReach::Session => Scope::Session { session: world.session(pid) },
        AnswerReach::Zone => Scope::Zone { zone: review.zone.or(process.and_then(|process| process.zone)).ok_or_else(|| none("zone"))? },
        AnswerReach::User => Scope::User { user: process.map(|process| process.user.clone()).ok_or_else(|| none("user"))? },
        AnswerReach::All => Scope::All,
    })
}

fn terms(kernel: &Kernel, wanted: Option<&AnswerTerms>) -> Terms {
    let Some(AnswerTerms { uses, ttl_ms, rate, constraints, observe }) = wanted.cloned() else { return Terms::default() };
    Terms { uses_left: uses, until: ttl_ms.map(|ms| kernel.gate.until(ms)), rate, constraints, observe }
}

pub(crate) fn list(kernel: &Kernel) -> grant::GrantListResult {
    let now = kernel.gate.moment();
    kernel.ledger.look(|world| {
        let name = |pid| view::name_of(world, pid);
        let grants = world.grants.values().map(|given| grant::GrantView {
            grant: given.id,
            pid: given.pid,
            process: name(given.pid),
            task: given.task,
            scope: given.scope.clone(),
            what: given.what.clone(),
            terms: given.terms.clone(),
            live: given.is_live(&now, world.now_ms),
        });
        let bans = world.bans.values().map(|ban| grant::BanView {
            ban: ban.id,
            pid: ban.pid,
            process: name(ban.pid),
            scope: ban.scope.clone(),
            what: ban.what.clone(),
            reason: ban.reason.clone(),
            alternative: ban.alternative.clone(),
        });
        let tokens = world.tokens.values().map(|token| grant::TokenView {
            token: token.id,
            pid: token.pid,
            ops_left: token.ops_left,
            live: token.ops_left > 0 && !token.until.is_over(&now),
        });
        grant::GrantListResult { grants: grants.collect(), bans: bans.collect(), tokens: tokens.collect() }
    })
}

/// Revokes a grant or token, or lifts a ban: the id says which.
pub(crate) async fn revoke(kernel: &Kernel, id: &str, by: &str) -> Result<Nothing, RpcError> {
    let revoked = if let Ok(grant) = id.parse() {
        kernel.ledger.revoke_grant(grant, by).await
    } else if let Ok(ban) = id.parse() {
        kernel.ledger.lift_ban(ban, by).await
    } else if let Ok(token) = id.parse() {
        kernel.ledger.revoke_token(token, by).await
    } else {
        return Err(RpcError::new(ErrorCode::BadInput, format!("`{id}` is neither a grant, a ban nor a token"))
            .fix("ids look like g-1, b-1, t-1: see `skep grant list`"));
    };
    revoked.map(|()| Nothing {}).map_err(rpc_error)
}

pub(crate) async fn issue(kernel: &Kernel, params: TokenIssueParams, principal: &Principal) -> Result<TokenIssueResult, RpcError> {
    let top = kernel::locate(Path::new(&params.path)).await.map_err(rpc_error)?;
    let zone = kernel.gate.policies.zone(&top).map_err(rpc_error)?.id;
    let wish = TokenRequest { tool: params.tool, paths: params.paths, max_ops: params.max_ops.unwrap_or(1), ttl_ms: params.ttl_ms };
    let (token, outcome) = kernel.issue_token(Pid::OPERATOR, zone, wish, peer::bearer(principal)?).await.map_err(rpc_error)?;
    let call = view::call_result(kernel::CallReport { outcome, task: None, dropped: Vec::new() });
    let review = call.refusal.as_ref().and_then(|refusal| refusal.review);
    Ok(TokenIssueResult { token: (!token.is_empty()).then_some(token), call, review })
}
