//! The kernel as a session knows it.

use crate::{Kernel, call};
use agent::CallDoor;
use gate::{CallOutcome, Gate, PERSON_ASK, Request};
use ledger::Ledger;
use models::Models;
use policy::Action;
use room::OpenWorkspace;
use serde_json::Value;
use session::{Foreseen, HostFuture, NewSession, PREEMPTED, RoomSlots, SessionHost};
use std::os::fd::AsFd;
use std::sync::Arc;
use tool::{Access, NamedPath, Real, ResolvedPath};
use world::{CallId, Code, Fault, Refusal, SessionTerms, StepIncrement, Stop, Task, TaskId};

impl SessionHost for Kernel {
    fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    fn models(&self) -> &Arc<Models> {
        &self.models
    }

    fn tools(&self) -> &Arc<tool::Registry> {
        &self.tools.registry
    }

    fn slots(&self) -> &Arc<RoomSlots> {
        &self.slots
    }

    fn steps_abreast(&self) -> usize {
        self.instance.settings.in_force().sessions.steps.unwrap_or(session::STEPS_ABREAST)
    }

    fn call<'a>(&'a self, request: &'a Request) -> HostFuture<'a, Result<CallOutcome, Fault>> {
        call::run(self, request)
    }

    fn foresee<'a>(&'a self, request: &'a Request, terms: Option<&'a SessionTerms>) -> HostFuture<'a, Result<Foreseen, Stop>> {
        Box::pin(async move {
            let explained = match call::explain(self, request, None, terms).await {
                Ok(explained) => explained,
                Err(Stop::Refused(refusal)) => return Ok(Foreseen::Denied(refusal)),
                Err(failed) => return Err(failed),
            };
            Ok(match explained.verdict {
                Action::Allow => Foreseen::Allowed,
                Action::RequireReview => Foreseen::Reviewed(explained.reasons),
                // Where nobody speaks, the answer is no.
                Action::Deny | Action::Pass => {
                    let refusal = Refusal::new(explained.code.unwrap_or(Code::Denied), explained.reasons.join("; "));
                    Foreseen::Denied(Refusal { hint: explained.hint, remedy: explained.remedy, ..refusal })
                }
            })
        })
    }

    fn cancel_call<'a>(&'a self, call: CallId, why: &'a str) -> HostFuture<'a, Result<(), Stop>> {
        Box::pin(async move { Ok(self.tasks.works.end(why, |part| part.call == Some(call)).await?) })
    }

    fn pause_room(&self, task: TaskId) -> HostFuture<'_, Result<(), Stop>> {
        Box::pin(self.workspaces.pause(task, PREEMPTED))
    }

    fn resume_room(&self, task: TaskId) -> HostFuture<'_, Result<(), Stop>> {
        Box::pin(self.workspaces.resume(task, PREEMPTED))
    }

    fn open_workspace(&self, task: TaskId) -> HostFuture<'_, Result<(), Stop>> {
        Box::pin(async move { self.workspace_of(task).await.map(drop) })
    }

    fn real_paths(&self, task: TaskId, names: Vec<String>) -> HostFuture<'_, Result<Vec<Vec<String>>, Stop>> {
        Box::pin(async move {
            let opened = self.workspace_of(task).await?;
            Ok(workspace::aside(|| names.iter().map(|name| led_to(&opened, name)).collect()))
        })
    }

    fn keep_increment(&self, task: TaskId, only: Option<Vec<String>>) -> HostFuture<'_, Result<StepIncrement, Stop>> {
        Box::pin(Kernel::keep_increment(self, task, only))
    }

    fn ask_person<'a>(&'a self, task: &'a Task, question: Value) -> HostFuture<'a, Result<CallOutcome, Stop>> {
        Box::pin(async move {
            let request = Request::new(task.pid, Some(task.id), task.zone, PERSON_ASK, question);
            CallDoor::ask_person(self, &request).await
        })
    }

    fn ask_brain<'a>(&'a self, task: &'a Task, brain: &'a str, question: String) -> HostFuture<'a, Result<String, Stop>> {
        Box::pin(crate::hook::ask_once(self, task, brain, question))
    }

    fn start_session(&self, new: NewSession) -> HostFuture<'_, Result<TaskId, Stop>> {
        Box::pin(async move { self.add_session(new).await.map(|added| added.task) })
    }

    fn settled(&self, task: TaskId) -> HostFuture<'_, Result<Task, Stop>> {
        Box::pin(self.tasks.settled(task))
    }

    fn cancel_task<'a>(&'a self, task: TaskId, by: &'a str) -> HostFuture<'a, Result<(), Stop>> {
        Box::pin(self.cancel(task, by))
    }

    fn is_stopping(&self) -> bool {
        self.instance.stopping()
    }
}

/// The paths that a name leads to, beside itself: what it names with links on the way followed, and what that is if it is a link.
fn led_to(opened: &OpenWorkspace, name: &str) -> Vec<String> {
    let found = |access: Access| {
        let target = NamedPath { path: name.to_owned(), access };
        match ResolvedPath::open(opened.room.bare().as_fd(), &opened.project, &target).map(|resolved| resolved.real) {
            Ok(Real::Inside(path)) if path != name => Some(path),
            // Nothing of this project is there.
            _ => None,
        }
    };
    let Some(real) = found(Access::Write) else { return Vec::new() };
    std::iter::once(real).chain(found(Access::Name)).collect()
}
