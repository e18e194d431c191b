//! What a call turns out to do while it runs: a redirect to another host, a file of a patch. Each is a call of its own.
//!
//! **Invariant.** A part passes the same gate as any call, with the rights of whoever made the whole, and has its own records that
//! name the call it is part of. A part never uses the token or the grant of its whole.

use super::consider;
use crate::Kernel;
use gate::{GateDecision, Request, TimedOutput};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tool::{GateAnswer, Output, PatchedFile, Redirect, SubcallGate};
use world::event::CallRetried;
use world::{CallId, Code, Refusal};
use world::{Fault, Stop};

/// The parts of one running call.
pub(super) struct Subcalls<'a> {
    pub kernel: &'a Kernel,
    pub request: &'a Request,
    pub call: CallId,
}

impl Subcalls<'_> {
    async fn ask(&self, tool: &str, input: Value) -> Result<(), Refusal> {
        let Request { pid, task, zone, run_mode, .. } = *self.request;
        let request = Request { run_mode, of: Some(self.call), ..Request::new(pid, task, zone, tool, input) };
        self.decide(&request).await.map_err(|stop| match stop {
            Stop::Refused(refusal) => refusal,
            Stop::Failed(fault) => Refusal::new(Code::WrongState, fault.to_string()),
        })
    }

    async fn decide(&self, request: &Request) -> Result<(), Stop> {
        let start = Instant::now();
        let refuse = async |refusal: Refusal| -> Result<(), Stop> {
            self.kernel.gate.refuse(request, refusal.clone(), start).await?;
            Err(refusal.into())
        };
        let tool = match self.kernel.tools.find(request) {
            Ok(tool) => tool,
            Err(refusal) => return refuse(refusal).await,
        };
        let considered = match consider(self.kernel, request, tool).await {
            Ok(considered) => considered,
            Err(Stop::Refused(refusal)) => return refuse(refusal).await,
            Err(failed) => return Err(failed),
        };
        match considered.admission {
            GateDecision::Refused { refusal, .. } | GateDecision::Pending { refusal, .. } => Err(refusal.into()),
            GateDecision::Admitted { permit, .. } => {
                let same = considered.request.input == request.input;
                let whole = json!({ "part_of": self.call });
                let output = Output { ok: same, value: whole, retries: 0 };
                let ran = TimedOutput { output: Ok(output), took: Duration::ZERO };
                self.kernel.gate.finish(None, &considered.request, &permit, ran).await?;
                if same {
                    return Ok(());
                }
                Err(Refusal::new(Code::Denied, format!("the grant for `{}` demands another input", request.tool)).into())
            }
        }
    }

    fn retry(&self, attempt: u32, why: &str) -> Result<(), Fault> {
        let why = self.kernel.ledger.redactor.text(why).into_owned();
        let event = CallRetried { pid: self.request.pid, task: self.request.task, call: self.call, attempt, why };
        // Ordered now, on disk with what the call itself records next.
        self.kernel.ledger.commit(|_, _| (vec![event.into()], ())).map(drop)
    }
}

impl SubcallGate for Subcalls<'_> {
    fn allow_redirect<'a>(&'a self, redirect: Redirect<'a>) -> GateAnswer<'a> {
        Box::pin(async move {
            let Redirect { from, to, .. } = redirect;
            if let Some(manifest) = &self.request.done_for {
                manifest.may_ask(to.url())?;
            }
            // What was decided for a server holds there.
            if (&from.host, from.port, &from.method) == (&to.host, to.port, &to.method) {
                return Ok(());
            }
            let asked = self.ask("http.request", json!({ "url": to.url(), "method": to.method })).await;
            asked.map_err(|refusal| {
                let reason = format!("`{}` sends the call on to `{}`: {}", from.host, to.host, refusal.reason);
                match refusal.code {
                    Code::Pending => Refusal { reason, ..refusal },
                    _ => {
                        let remedy = world::Remedy::AddRule { tool: "http.request".into(), host: Some(to.host.clone()) };
                        Refusal { reason, hint: None, ..refusal }.remedy(remedy)
                    }
                }
            })
        })
    }

    fn allow_change<'a>(&'a self, change: PatchedFile<'a>) -> GateAnswer<'a> {
        Box::pin(async move {
            let asked = match change.content {
                Some(content) => self.ask("fs.write", json!({ "path": change.path, "content": content })).await,
                None => self.ask("fs.delete", json!({ "path": change.path })).await,
            };
            asked.map_err(|refusal| Refusal { reason: format!("nothing of the patch was applied: {}", refusal.reason), ..refusal })
        })
    }

    fn retried(&self, attempt: u32, why: &str) {
        if let Err(fault) = self.retry(attempt, why) {
            // The call's own end meets the same fault and reports it.
            world::log!("skep: a second try is not on record: {fault}");
        }
    }
}
