//! What the process tree asks of the kernel for brains among its processes.

use crate::Kernel;
use std::sync::{Arc, Weak};
use tree::{BrainHost, TreeFuture};
use world::{BrainSpec, Code, Discipline, Fault, FaultKind, Pid, Process, ProgramRuntime, Refusal, Stop, TaskId, Tier, ZoneId};

pub(crate) struct KernelBrains(Weak<Kernel>);

impl KernelBrains {
    pub fn of(kernel: &Arc<Kernel>) -> Arc<KernelBrains> {
        Arc::new(KernelBrains(Arc::downgrade(kernel)))
    }

    fn kernel(&self) -> Result<Arc<Kernel>, Fault> {
        self.0.upgrade().ok_or_else(|| Fault::new(FaultKind::Stopping, "the kernel is stopping", "its last user has gone"))
    }
}

impl BrainHost for KernelBrains {
    fn resolve(&self, zone: ZoneId, name: &str, tier: Tier, model: &str) -> Result<String, Stop> {
        let kernel = self.kernel()?;
        let trusted = kernel.gate.policies.trusted(zone)?;
        let with = |model: &str| format!("{name}:{model}");
        let names = match model {
            _ if name.contains(':') => vec![name.to_owned()],
            "" if name == "native" => vec![with(tier.as_str())],
            // It thinks with a model of its process's tier, where one answers to that; else with what the client asks for by itself.
            "" => vec![with(tier.as_str()), name.to_owned()],
            named => vec![with(named)],
        };
        let mut refused = Refusal::new(Code::NotFound, format!("there is no brain `{name}`"));
        for named in names {
            let found = kernel.brains.find(&named, trusted.as_ref().map(|trusted| &trusted.config));
            match found.and_then(|spec| works(&spec).and_then(|()| kernel.check_mind(Some(zone), &spec)).map(|()| spec)) {
                Ok(spec) => return Ok(spec.to_string()),
                Err(refusal) => refused = refusal,
            }
        }
        Err(refused.into())
    }

    fn discipline(&self, zone: ZoneId) -> TreeFuture<'_, Result<Option<(Discipline, String)>, Stop>> {
        Box::pin(async move {
            let chosen = self.kernel()?.discipline_of_new(zone, None, true).await?;
            Ok(chosen.map(|chosen| (chosen.mode, chosen.reason)))
        })
    }

    fn wake(&self) {
        if let Ok(kernel) = self.kernel() {
            kernel.tasks.wake();
        }
    }

    fn decider(&self, name: &str) -> Option<String> {
        self.kernel().ok()?.instance.settings.in_force().decider(name)
    }

    fn decide<'a>(&'a self, pid: Pid, model: &'a str, system: &'a str, question: &'a str) -> TreeFuture<'a, Result<String, Stop>> {
        Box::pin(async move { self.kernel()?.models.ask_for(pid, model, system, question).await })
    }

    fn cancel<'a>(&'a self, task: TaskId, by: &'a str) -> TreeFuture<'a, Result<(), Stop>> {
        Box::pin(async move { self.kernel()?.cancel(task, by).await })
    }
}

/// Is what a process works on the kernel's to have done? A worker's tasks are, and those of a brain of the tree.
pub(crate) fn has_tasks(process: &Process) -> bool {
    process.program.as_ref().is_none_or(|program| program.runtime == ProgramRuntime::Brain)
}

/// Refuses what only repeats what a file says.
fn works(spec: &BrainSpec) -> Result<(), Refusal> {
    match spec {
        BrainSpec::Script(_) => Err(Refusal::new(Code::Unsupported, "a script decides nothing").hint("name `native`, `claude` or `codex`")),
        _ => Ok(()),
    }
}
