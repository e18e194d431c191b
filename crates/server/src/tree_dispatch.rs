//! Which handler answers which method of the process tree.

use crate::dispatch::{Caller, done};
use crate::process_tree as handle;
use crate::responder::Responder;
use wire::method::Nothing;
use wire::table::{self, MethodCall};

/// Answers a request about the process tree that the table lets through.
pub(crate) async fn dispatch(call: MethodCall, caller: &Caller, to: Responder) {
    let (kernel, tree) = (&caller.kernel, &*caller.kernel.tree);
    let by = match handle::speaker(&caller.principal) {
        Ok(by) => by,
        Err(error) => return to.refuse(error).await,
    };
    match call {
        MethodCall::ProcSpawn(params) => to.answer::<table::ProcSpawn>(handle::spawn(tree, by, params).await).await,
        MethodCall::ProcKill(params) => to.answer::<table::ProcKill>(handle::kill(tree, by, params).await).await,
        MethodCall::ProcSignal(params) => {
            to.answer::<table::ProcSignal>(done(tree.signal(by, params.pid, params.signal, &params.reason).await)).await;
        }
        MethodCall::ProcWait(params) => to.answer::<table::ProcWait>(handle::wait(tree, by, params).await).await,
        MethodCall::ProcExecute(params) => to.answer::<table::ProcExecute>(handle::execute(tree, by, params).await).await,
        MethodCall::ProcInfo(params) => to.answer::<table::ProcInfo>(handle::info(kernel, by, params.pid)).await,
        MethodCall::ProcChildren(params) => to.answer::<table::ProcChildren>(handle::children(kernel, by, params)).await,
        MethodCall::ProcSiblings(params) => to.answer::<table::ProcSiblings>(handle::siblings(kernel, by, params.pid)).await,
        MethodCall::ProcNice(params) => to.answer::<table::ProcNice>(done(tree.nice(by, params.pid, params.priority).await)).await,
        MethodCall::MessageSend(params) => to.answer::<table::MessageSend>(handle::send(tree, by, params).await).await,
        MethodCall::MessageSubscribe(params) => handle::subscribe(caller, params, to).await,
        MethodCall::MessageList(params) => to.answer::<table::MessageList>(handle::inbox(tree, by, params).await).await,
        MethodCall::MessageDead(params) => to.answer::<table::MessageDead>(handle::dead(tree, by, params).await).await,
        MethodCall::ArtifactStore(params) => to.answer::<table::ArtifactStore>(handle::store(tree, by, params).await).await,
        MethodCall::ArtifactRead(params) => to.answer::<table::ArtifactRead>(handle::artifact(tree, by, params).await).await,
        MethodCall::ArtifactList(params) => to.answer::<table::ArtifactList>(handle::artifacts(tree, by, params).await).await,
        MethodCall::ArtifactRemove(params) => {
            to.answer::<table::ArtifactRemove>(done(tree.remove_artifact(by, params.artifact).await)).await;
        }
        MethodCall::EscalationRaise(params) => to.answer::<table::EscalationRaise>(handle::escalate(tree, by, params).await).await,
        MethodCall::ResourceUsage(params) => to.answer::<table::ResourceUsage>(handle::usage(tree, by, params)).await,
        MethodCall::ResourceRequest(params) => to.answer::<table::ResourceRequest>(handle::request(tree, by, params).await).await,
        MethodCall::LogWrite(params) => to.answer::<table::LogWrite>(done(handle::log(tree, by, params).await)).await,
        MethodCall::MetricReport(params) => {
            to.answer::<table::MetricReport>(done(tree.metric(by, &params.name, params.value).await)).await;
        }
        MethodCall::EventFollow(params) => handle::follow(caller, by, params, to).await,
        MethodCall::StreamOpen(_) => to.refuse(only_over_grpc()).await,
        MethodCall::CronAdd(params) => to.answer::<table::CronAdd>(handle::cron_add(tree, by, params).await).await,
        MethodCall::CronRemove(params) => to.answer::<table::CronRemove>(done(tree.cron_remove(by, params.cron).await)).await,
        MethodCall::CronList(Nothing {}) => to.answer::<table::CronList>(Ok(handle::cron_list(tree))).await,
        MethodCall::CronRun(params) => to.answer::<table::CronRun>(done(tree.cron_run(by, params.cron).await)).await,
        MethodCall::CronNext(params) => to.answer::<table::CronNext>(handle::cron_next(&params)).await,
        // `dispatch::dispatch` and `session_dispatch::dispatch` have all others.
        other => to.refuse(not_here(&other)).await,
    }
}

fn only_over_grpc() -> wire::RpcError {
    wire::RpcError::new(wire::ErrorCode::BadInput, "a stream of bytes is opened over gRPC").why("frames of this socket carry no bytes")
}

fn not_here(call: &MethodCall) -> wire::RpcError {
    wire::RpcError::new(wire::ErrorCode::Internal, "a method was handed to the process tree that is none of it").why(format!("{call:?}"))
}

#[cfg(test)]
mod tests {
    use wire::table::ROWS;

    /// A row without a handler would end in the last arm.
    #[test]
    fn every_row_of_the_table_has_one_handler() {
        let sources = [include_str!("dispatch.rs"), include_str!("session_dispatch.rs"), include_str!("tree_dispatch.rs")];
        for row in ROWS {
            let arm = format!("MethodCall::{:?}(", row.id);
            let found: usize = sources.iter().map(|source| source.matches(&arm).count()).sum();
            assert_eq!(found, 1, "{}", row.name);
        }
    }
}
