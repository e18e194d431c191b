//! A real kernel with one task that waits for an answer, so that a test can make calls in it.

use crate::bed::Bed;
use kernel::{CallOutcome, Kernel, Reply, Request, Stop, Tuning};
use sandbox::Launcher;
use serde_json::Value;
use std::sync::Arc;
use world::{Event, Pid, ReviewId, TaskId, ZoneId};

pub struct Stage {
    pub kernel: Arc<Kernel>,
    pub bed: Bed,
    pub zone: ZoneId,
    pub task: TaskId,
}

#[derive(Default)]
pub struct Setup {
    /// Rules beside the one that parks the task.
    pub policy: String,
    /// Of the project, and of `$SKEP_HOME`.
    pub files: Vec<(String, String)>,
    pub home: Vec<(String, String)>,
    pub tuning: Tuning,
    /// Async workers; two, as the kernel has, unless it says otherwise.
    pub workers: Option<usize>,
}

/// Plays a test. The launcher is forked before there are threads.
pub fn play<F: Future<Output = Result<(), String>>>(setup: Setup, test: impl FnOnce(Arc<Stage>) -> F) -> Result<(), String> {
    let launcher = Launcher::start().map_err(|error| error.to_string())?;
    let parks = "  - { name: parks, match: { syscall: fs.list }, action: require_review, reason: park }\n";
    let mut files = setup.files;
    files.push((".skep/policy.yaml".into(), format!("capabilities:\n{parks}{}", setup.policy)));
    let bed = Bed::new(&files)?;
    for (path, text) in &setup.home {
        bed.write_home(path, text)?;
    }
    let script = bed.home().with_extension("script");
    std::fs::write(&script, "call fs.list path=.\ndone\n").map_err(|error| error.to_string())?;
    let workers = setup.workers.unwrap_or(2);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let kernel = bed.boot_tuned(launcher, setup.tuning).await.map_err(|fault| fault.to_string())?;
        let opened = async {
            let proposal = kernel.gate.init(&bed.project()).await?;
            let zone = crate::trust(&kernel, &bed.project(), &proposal.hash).await?.zone;
            let new = bed.task("park", &script);
            let task = kernel.add(new).await?.task;
            kernel.tasks.settled(task).await?;
            Ok((zone, task))
        };
        let (zone, task) = opened.await.map_err(|stop: Stop| stop.to_string())?;
        test(Arc::new(Stage { kernel, bed, zone, task })).await
    })
}

impl Stage {
    pub async fn call(&self, tool: &str, input: Value) -> Result<CallOutcome, String> {
        let request = Request::new(Pid(3), Some(self.task), self.zone, tool, input);
        self.kernel.call_as(&request).await.map_err(|fault| fault.to_string())
    }

    pub fn events(&self) -> Result<Vec<Event>, String> {
        let records = self.kernel.ledger.read(&journal::Filter::default()).map_err(|fault| fault.to_string())?;
        records.iter().map(|record| serde_json::from_str(&record.line).map_err(|error| error.to_string())).collect()
    }

    pub async fn answer(&self, review: ReviewId, reply: Reply) -> Result<(), String> {
        self.kernel.answer(review, reply, "human", None).await.map(drop).map_err(|stop| stop.to_string())
    }
}
