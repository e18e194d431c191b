//! Which method does what: parse, ask the kernel, show.

use crate::{decide, model, rules, view};
use kernel::{Fault, FaultKind, Kernel, NewTask, Stop};
use policy::Peer;
use serde_json::value::RawValue;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wire::method::{
    Nothing, call, grant, journal as records, kernel as itself, merge, model as models, policy as rule, process, review, sandbox as room,
    task, zone,
};
use wire::{Code, Method, RpcError};
use world::{Mode, Refusal};

type Raw = Box<RawValue>;

/// Methods whose work ends with the connection that asked.
pub(crate) fn only_looks(name: &str) -> bool {
    let looks = [
        task::Await::NAME,
        records::Follow::NAME,
        records::Read::NAME,
        task::Diff::NAME,
        task::File::NAME,
        task::Try::NAME,
        models::Open::NAME,
    ];
    looks.contains(&name)
}

pub(crate) fn ends_kernel(name: &str) -> bool {
    name == itself::Stop::NAME
}

pub(crate) async fn dispatch(kernel: &Arc<Kernel>, peer: &Peer, name: &str, params: Option<&RawValue>) -> Result<Raw, RpcError> {
    match name {
        itself::Status::NAME => {
            parse::<itself::Status>(params)?;
            raw(&view::status(kernel))
        }
        itself::Stop::NAME => {
            parse::<itself::Stop>(params)?;
            raw(&Nothing {})
        }
        itself::Doctor::NAME => {
            parse::<itself::Doctor>(params)?;
            let checks = kernel
                .launcher
                .probe(&kernel.home.work())
                .await
                .map_err(|error| RpcError::new(Code::Internal, "this host could not be examined").why(error.to_string()))?;
            let checks = checks.into_iter().chain(kernel.check_engines().await);
            raw(&itself::DoctorResult { checks: checks.map(view::check).collect() })
        }
        zone::Init::NAME => {
            let params = parse::<zone::Init>(params)?;
            let proposal = kernel.init(Path::new(&params.path)).await.map_err(no)?;
            raw(&view::init(proposal))
        }
        zone::Trust::NAME => raw(&trust(kernel, parse::<zone::Trust>(params)?).await?),
        zone::Status::NAME => raw(&view::zones(kernel, parse::<zone::Status>(params)?.path.as_deref()).await?),
        process::List::NAME => {
            parse::<process::List>(params)?;
            raw(&process::ListResult { processes: view::processes(kernel) })
        }
        process::Cancel::NAME => {
            kernel.cancel_process(parse::<process::Cancel>(params)?.pid, "operator").await.map_err(no)?;
            raw(&Nothing {})
        }
        task::Add::NAME => raw(&add(kernel, parse::<task::Add>(params)?).await?),
        task::List::NAME => raw(&task::ListResult { tasks: view::tasks(kernel, parse::<task::List>(params)?.path.as_deref())? }),
        task::Show::NAME => raw(&view::task(kernel, parse::<task::Show>(params)?.task)?),
        task::Await::NAME => raw(&wait(kernel, parse::<task::Await>(params)?).await?),
        task::Cancel::NAME => {
            let params = parse::<task::Cancel>(params)?;
            kernel.cancel(params.task, "operator").await.map_err(no)?;
            raw(&view::task(kernel, params.task)?)
        }
        task::Diff::NAME => {
            let id = parse::<task::Diff>(params)?.task;
            let diff = kernel.diff(id).await.map_err(no)?;
            raw(&view::diff(kernel, id, diff)?)
        }
        task::File::NAME => raw(&view::file(kernel, &parse::<task::File>(params)?).await?),
        task::Merge::NAME => {
            let params = parse::<task::Merge>(params)?;
            let paths = kernel.merge(params.task, params.digest.as_deref(), params.sides, "operator").await.map_err(no)?;
            let (refused, applied): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.refused.is_some());
            raw(&task::MergeResult { applied: applied.into_iter().map(|path| path.path).collect(), refused })
        }
        task::Replay::NAME => {
            let params = parse::<task::Replay>(params)?;
            raw(&model::replayed(kernel.replay(params.task, params.timing).await.map_err(no)?))
        }
        task::Reject::NAME => {
            let params = parse::<task::Reject>(params)?;
            kernel.reject(params.task, "operator", params.reason).await.map_err(no)?;
            raw(&view::task(kernel, params.task)?)
        }
        merge::List::NAME => {
            parse::<merge::List>(params)?;
            raw(&view::merges(kernel)?)
        }
        merge::Undo::NAME => {
            let params = parse::<merge::Undo>(params)?;
            raw(&view::undone(kernel.undo(params.task, "operator", params.phrase.as_deref()).await.map_err(no)?))
        }
        call::ToolList::NAME => {
            parse::<call::ToolList>(params)?;
            raw(&view::tools(kernel))
        }
        call::Cancel::NAME => {
            kernel.cancel_call(parse::<call::Cancel>(params)?.call, "operator").await.map_err(no)?;
            raw(&Nothing {})
        }
        call::Run::NAME => {
            let params = parse::<call::Run>(params)?;
            let ask = decide::ask(&params, peer)?;
            let ran = kernel.call(Path::new(&params.path), params.task, &params.tool, params.input, ask).await.map_err(no)?;
            raw(&view::ran(ran))
        }
        review::List::NAME => raw(&view::reviews(kernel, parse::<review::List>(params)?.all)),
        review::Show::NAME => {
            let params = parse::<review::Show>(params)?;
            raw(&view::review(kernel, params.review, params.full).await?)
        }
        review::Answer::NAME => {
            let params = parse::<review::Answer>(params)?;
            let id = params.review;
            decide::answer(kernel, params).await?;
            raw(&view::review(kernel, id, false).await?)
        }
        grant::List::NAME => {
            parse::<grant::List>(params)?;
            raw(&decide::list(kernel))
        }
        grant::Revoke::NAME => {
            decide::revoke(kernel, &parse::<grant::Revoke>(params)?.id).await?;
            raw(&Nothing {})
        }
        grant::Issue::NAME => raw(&decide::issue(kernel, parse::<grant::Issue>(params)?, peer).await?),
        models::Cassettes::NAME => raw(&model::cassettes(kernel, parse::<models::Cassettes>(params)?.name.as_deref())?),
        models::Usage::NAME => raw(&model::usage(kernel, parse::<models::Usage>(params)?.by)),
        models::Budgets::NAME => {
            parse::<models::Budgets>(params)?;
            raw(&model::budgets(kernel))
        }
        models::Set::NAME => {
            model::set(kernel, parse::<models::Set>(params)?).await?;
            raw(&Nothing {})
        }
        models::Grant::NAME => {
            model::grant(kernel, parse::<models::Grant>(params)?).await?;
            raw(&Nothing {})
        }
        models::Reconcile::NAME => {
            model::reconcile(kernel, parse::<models::Reconcile>(params)?).await?;
            raw(&Nothing {})
        }
        rule::Check::NAME => raw(&rules::check(kernel, parse::<rule::Check>(params)?).await?),
        rule::Explain::NAME => raw(&rules::explain(kernel, parse::<rule::Explain>(params)?).await?),
        rule::Trial::NAME => raw(&rules::trial(kernel, &parse::<rule::Trial>(params)?).await?),
        rule::Log::NAME => raw(&rules::log(kernel, &parse::<rule::Log>(params)?.path)?),
        rule::Suggest::NAME => raw(&rules::suggest(kernel, &parse::<rule::Suggest>(params)?.path)?),
        room::Templates::NAME => raw(&view::templates(kernel, parse::<room::Templates>(params)?.path.as_deref())?),
        room::List::NAME => {
            parse::<room::List>(params)?;
            raw(&view::rooms(kernel))
        }
        room::Pause::NAME => {
            kernel.pause(parse::<room::Pause>(params)?.task, "operator").await.map_err(no)?;
            raw(&Nothing {})
        }
        room::Resume::NAME => {
            kernel.resume(parse::<room::Resume>(params)?.task, "operator").await.map_err(no)?;
            raw(&Nothing {})
        }
        records::Read::NAME => raw(&view::records(kernel, &parse::<records::Read>(params)?)?),
        records::Doubts::NAME => {
            parse::<records::Doubts>(params)?;
            raw(&view::doubts(kernel))
        }
        records::Acknowledge::NAME => {
            kernel.acknowledge(parse::<records::Acknowledge>(params)?.upto, "operator").await.map_err(no)?;
            raw(&view::doubts(kernel))
        }
        records::Forget::NAME => {
            let records::ForgetParams { blobs, records, reason } = parse::<records::Forget>(params)?;
            let reason = reason.unwrap_or_else(|| "asked for".to_owned());
            raw(&records::ForgetResult { forgotten: kernel.forget(&blobs, &records, &reason, "operator").await.map_err(no)? })
        }
        records::Verify::NAME => {
            parse::<records::Verify>(params)?;
            let kernel = kernel.clone();
            let report = tokio::task::spawn_blocking(move || kernel.ledger.journal().verify()).await;
            let report = report.map_err(|error| RpcError::new(Code::Internal, "verification did not end").why(error.to_string()))?;
            raw(&view::report(report.map_err(|error| RpcError::new(Code::Internal, "the journal cannot be read").why(error.to_string()))?))
        }
        other => Err(RpcError::new(Code::UnknownMethod, format!("there is no method `{other}`")).fix("use a skep of the kernel's version")),
    }
}

async fn trust(kernel: &Kernel, params: zone::TrustParams) -> Result<zone::TrustResult, RpcError> {
    let path = Path::new(&params.path);
    let known = match kernel::locate(path) {
        Ok(top) => kernel.proposal(&top).await,
        Err(stop) => Err(stop),
    };
    let before = match known {
        Ok(proposal) => proposal,
        Err(_) => kernel.init(path).await.map_err(no)?,
    };
    let changed = !before.diff.is_empty();
    match params.hash {
        None => {
            let trial = match kernel.try_proposal(path).await {
                Ok(trial) if changed => trial,
                // A file with errors cannot be put in force either; the difference is shown all the same.
                Ok(_) | Err(Stop::Refused(_)) => policy::Trial::default(),
                Err(stop) => return Err(no(stop)),
            };
            let (breaking, phrase) = (trial.breaking as u64, trial.phrase());
            Ok(zone::TrustResult { hash: before.hash, diff: before.diff, changed, version: before.version, breaking, phrase })
        }
        Some(hash) => {
            let after = kernel.trust(path, &hash, params.phrase.as_deref()).await.map_err(no)?;
            let changed = after.version != before.version;
            Ok(zone::TrustResult { hash, diff: before.diff, changed, version: after.version, breaking: 0, phrase: None })
        }
    }
}

async fn add(kernel: &Kernel, params: task::AddParams) -> Result<task::AddResult, RpcError> {
    if params.mode == Mode::Call {
        return Err(RpcError::new(Code::BadInput, "a task is `ask` or `act`").fix("use `call.run` for one call"));
    }
    let new = NewTask {
        path: params.path.into(),
        mode: params.mode,
        prompt: params.prompt,
        brain: params.brain,
        priority: params.priority.unwrap_or(0),
        calls_max: params.calls_max,
        record: params.record,
        tags: params.tags,
    };
    let added = kernel.add(new).await.map_err(no)?;
    Ok(task::AddResult { task: added.task, process: added.process, branch: added.branch, initialised: added.initialised })
}

async fn wait(kernel: &Kernel, params: task::AwaitParams) -> Result<task::TaskView, RpcError> {
    let settled = kernel.settled(params.task);
    let task = match params.timeout_ms {
        None => settled.await,
        Some(ms) => tokio::time::timeout(Duration::from_millis(ms), settled).await.map_err(|_| {
            RpcError::new(Code::Timeout, format!("{} did not end in {ms} ms", params.task)).fix("wait longer, or `skep watch` it")
        })?,
    };
    view::task(kernel, task.map_err(no)?.id)
}

/// Reads a method's parameters; none at all is `{}`.
pub(crate) fn parse<M: Method>(params: Option<&RawValue>) -> Result<M::Params, RpcError> {
    let text = params.map_or("{}", RawValue::get);
    serde_json::from_str(text)
        .map_err(|error| RpcError::new(Code::BadInput, format!("the parameters of `{}` are wrong", M::NAME)).why(error.to_string()))
}

pub(crate) fn raw<T: serde::Serialize>(value: &T) -> Result<Raw, RpcError> {
    serde_json::value::to_raw_value(value)
        .map_err(|error| RpcError::new(Code::Internal, "the answer cannot be written").why(error.to_string()))
}

pub(crate) fn no(stop: Stop) -> RpcError {
    match stop {
        Stop::Refused(refusal) => refused(refusal),
        Stop::Failed(error) => fault(error),
    }
}

/// Some refusals have a number of their own since khlone.
fn refused(refusal: Refusal) -> RpcError {
    let named = |text: &str| refusal.code == world::Code::NotFound && refusal.reason.starts_with(text);
    let code = if named("there is no task") {
        Code::TaskNotFound
    } else if refusal.reason.ends_with("is not a zone") || refusal.reason.ends_with("is not in a git repository") {
        Code::ZoneNotFound
    } else {
        return RpcError::from(refusal);
    };
    let error = RpcError::new(code, refusal.reason);
    match refusal.hint {
        Some(hint) => error.fix(hint),
        None => error,
    }
}

pub(crate) fn fault(fault: Fault) -> RpcError {
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
