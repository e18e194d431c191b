//! What the process tree asks of the kernel for brains among its processes.

use crate::Kernel;
use std::sync::{Arc, Weak};
use tree::{BrainHost, TreeFuture};
use world::{BrainSpec, Code, Fault, FaultKind, Pid, Refusal, Stop, TaskId, Tier, ZoneId};

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
        // The built-in brain thinks with a model of its process's tier.
        let named = match (name, model) {
            ("native", "") => format!("{name}:{}", tier.as_str()),
            (_, "") => name.to_owned(),
            _ if name.contains(':') => name.to_owned(),
            _ => format!("{name}:{model}"),
        };
        let spec = kernel.brains.find(&named, trusted.as_ref().map(|trusted| &trusted.config))?;
        if matches!(spec, BrainSpec::Script(_)) {
            let why = Refusal::new(Code::Unsupported, format!("`{name}` is a script, which decides nothing"));
            return Err(why.hint("name a brain: `native`, `claude`, `codex`").into());
        }
        kernel.check_mind(Some(zone), &spec)?;
        Ok(spec.to_string())
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
