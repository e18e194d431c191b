//! What a person decides: answers, grants, bans, tokens.

use crate::method::no;
use crate::view;
use kernel::{Ask, Kernel, Reply, TokenWish};
use policy::Peer;
use std::path::Path;
use tool::RunMode;
use wire::method::review::{AnswerParams, AnswerTerms, Reach};
use wire::method::{call, grant};
use wire::{Code, RpcError};
use world::{Answer, Pid, Review, Scope, Terms, World};

/// How a call is to be made, from its parameters.
pub(crate) fn ask(params: &call::RunParams, peer: &Peer) -> Result<Ask, RpcError> {
    let mode = params.mode.as_deref().unwrap_or("live");
    let run_mode = RunMode::parse(mode)
        .ok_or_else(|| RpcError::new(Code::BadInput, format!("there is no mode `{mode}`")).fix("use live, dry_run or mock"))?;
    Ok(Ask { run_mode, token: params.token.clone().map(|token| (token, peer.clone())), ..Ask::default() })
}

pub(crate) async fn answer(kernel: &Kernel, params: AnswerParams) -> Result<(), RpcError> {
    let review = kernel.review(params.review).map_err(no)?;
    let reply = reply(kernel, &review, &params)?;
    kernel.answer_shown(params.review, reply, "operator", params.reason, params.seen.as_deref()).await.map_err(no)?;
    Ok(())
}

fn reply(kernel: &Kernel, review: &Review, params: &AnswerParams) -> Result<Reply, RpcError> {
    let wrong = |what: &str| Err(RpcError::new(Code::BadInput, what.to_owned()));
    let scope = params.reach.map(|reach| kernel.ledger.look(|world| scope(world, review, reach))).transpose()?;
    match (params.answer, scope) {
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
fn scope(world: &World, review: &Review, reach: Reach) -> Result<Scope, RpcError> {
    let pid = review.pid;
    let process = world.processes.get(&pid);
    let none = |what: &str| {
        let name = process.map_or("the process that asks", |process| process.name.as_str());
        RpcError::new(Code::BadInput, format!("{name} belongs to no {what}")).fix("use --for process, session or all")
    };
    Ok(match reach {
        Reach::Process => Scope::Process { pid },
        Reach::Session => Scope::Session { session: world.session(pid) },
        Reach::Zone => Scope::Zone { zone: review.zone.or(process.and_then(|process| process.zone)).ok_or_else(|| none("zone"))? },
        Reach::User => Scope::User { user: process.map(|process| process.user.clone()).ok_or_else(|| none("user"))? },
        Reach::All => Scope::All,
    })
}

fn terms(kernel: &Kernel, wanted: Option<&AnswerTerms>) -> Terms {
    let Some(AnswerTerms { uses, ttl_ms, rate, constraints, observe }) = wanted.cloned() else { return Terms::default() };
    Terms { uses_left: uses, until: ttl_ms.map(|ms| kernel.until(ms)), rate, constraints, observe }
}

pub(crate) fn list(kernel: &Kernel) -> grant::ListResult {
    let now = kernel.moment();
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
        grant::ListResult { grants: grants.collect(), bans: bans.collect(), tokens: tokens.collect() }
    })
}

pub(crate) async fn revoke(kernel: &Kernel, id: &str) -> Result<(), RpcError> {
    let by = "operator";
    if let Ok(grant) = id.parse() {
        return kernel.revoke_grant(grant, by).await.map_err(no);
    }
    if let Ok(ban) = id.parse() {
        return kernel.lift_ban(ban, by).await.map_err(no);
    }
    if let Ok(token) = id.parse() {
        return kernel.revoke_token(token, by).await.map_err(no);
    }
    Err(RpcError::new(Code::BadInput, format!("`{id}` is neither a grant, a ban nor a token"))
        .fix("ids look like g-1, b-1, t-1: see `skep grant list`"))
}

pub(crate) async fn issue(kernel: &Kernel, params: grant::IssueParams, peer: &Peer) -> Result<grant::IssueResult, RpcError> {
    let top = kernel::locate(Path::new(&params.path)).map_err(no)?;
    let zone = kernel.zone(&top).map_err(no)?.id;
    let wish = TokenWish { tool: params.tool, paths: params.paths, max_ops: params.max_ops.unwrap_or(1), ttl_ms: params.ttl_ms };
    let (token, outcome) = kernel.issue_token(Pid::OPERATOR, zone, wish, peer.clone()).await.map_err(no)?;
    let call = view::ran(kernel::Called { outcome, task: None, dropped: Vec::new() });
    let review = call.refusal.as_ref().and_then(|refusal| refusal.review);
    Ok(grant::IssueResult { token: (!token.is_empty()).then_some(token), call, review })
}
