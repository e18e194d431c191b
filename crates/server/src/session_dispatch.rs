//! Which handler answers which method of sessions, plans and what they taught, and what is pinned to workers.

use crate::dispatch::Caller;
use crate::responder::Responder;
use crate::{discipline, memory, plan, queue, session, tree_dispatch};
use wire::method::Nothing;
use wire::table::{self, MethodCall};

/// Answers a request about sessions that the table lets through.
pub(crate) async fn dispatch(call: MethodCall, caller: &Caller, to: Responder) {
    let kernel = &caller.kernel;
    let by = &caller.principal.to_string();
    match call {
        MethodCall::WorkerPin(params) => to.answer::<table::WorkerPin>(queue::pin(kernel, params, by).await).await,
        MethodCall::SessionStart(params) => to.answer::<table::SessionStart>(session::start(kernel, params).await).await,
        MethodCall::SessionList(params) => to.answer::<table::SessionList>(session::list(kernel, &params).await).await,
        MethodCall::SessionShow(params) => to.answer::<table::SessionShow>(session::show(kernel, &params)).await,
        MethodCall::SessionWatch(params) => session::watch(kernel, params, to).await,
        MethodCall::SessionAbort(params) => to.answer::<table::SessionAbort>(session::abort(kernel, params.task, by).await).await,
        MethodCall::SessionResume(params) => to.answer::<table::SessionResume>(session::resume(kernel, params.task, by).await).await,
        MethodCall::SessionReplay(params) => to.answer::<table::SessionReplay>(session::replay(kernel, &params).await).await,
        MethodCall::SessionFork(params) => to.answer::<table::SessionFork>(session::fork(kernel, &params).await).await,
        MethodCall::DisciplineShow(params) => to.answer::<table::DisciplineShow>(discipline::show(kernel, params.task)).await,
        MethodCall::DisciplineSwitch(params) => {
            to.answer::<table::DisciplineSwitch>(discipline::switch(kernel, params, by).await).await;
        }
        MethodCall::PlanMake(params) => to.answer::<table::PlanMake>(plan::make(kernel, params).await).await,
        MethodCall::PlanCheck(params) => to.answer::<table::PlanCheck>(plan::check(kernel, params).await).await,
        MethodCall::MemoryList(Nothing {}) => to.answer::<table::MemoryList>(Ok(memory::list(kernel))).await,
        MethodCall::MemoryShow(params) => to.answer::<table::MemoryShow>(memory::show(kernel, params.lesson)).await,
        MethodCall::MemoryForget(params) => to.answer::<table::MemoryForget>(memory::forget(kernel, params, by).await).await,
        MethodCall::MemoryWhy(params) => to.answer::<table::MemoryWhy>(Ok(memory::why(kernel, &params.text))).await,
        // INVARIANT: the rest is of the process tree; a test holds all three files against the table.
        call => tree_dispatch::dispatch(call, caller, to).await,
    }
}
