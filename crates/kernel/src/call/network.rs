//! The doors of a job: to the world, to models, to the kernel's own tools, and for the hooks of a client.
//!
//! **Invariant.** What the doors let out is settled after they are closed, and before the call that runs the job is.

use crate::Kernel;
use agent::{BRAIN_RUN, RoomTools, TalkHook};
use gate::{Request, used_room};
use models::RoomModels;
use parking_lot::Mutex;
use room::{EgressGate, WorkKey};
use sandbox::{Door, HOOK_PORT, MODELS_PORT, TOOLS_PORT, Template};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tool::JobNetwork;
use world::{CallId, Fault};

/// A job's way out, from before it starts until what it let out is on record.
pub(super) struct RoomNetwork {
    kernel: Arc<Kernel>,
    egress: Arc<EgressGate>,
    models: Option<RoomModels>,
    /// The kernel's own tools, for a vendor's client.
    tools: Option<Arc<RoomTools>>,
    /// Who answers the hooks of a client that a person talks with.
    hook: Option<Arc<TalkHook>>,
    running: Mutex<Vec<JoinHandle<()>>>,
    over: watch::Sender<bool>,
}

impl RoomNetwork {
    /// `call` is the one that runs the job.
    pub fn open(kernel: Arc<Kernel>, request: &Request, call: CallId, template: Template) -> Result<RoomNetwork, Fault> {
        let client = kernel.brains.vendor_client(request);
        let kept = request.live.as_ref().and_then(|follower| follower.kept());
        let key = kept.and_then(|job| job.key());
        let models =
            template.models.then(|| RoomModels::open(&kernel.models, request, call, used_room(&template), client, key)).transpose()?;
        if let (Some(job), Some(models)) = (kept, &models) {
            job.keep_key(models.key());
        }
        let tools = (request.tool == BRAIN_RUN).then(|| Arc::new(RoomTools::new(kernel.clone(), request, call)));
        let hook = kernel.talks.hook_of(request);
        let egress = Arc::new(EgressGate::new(kernel.gate.clone(), kernel.rooms.clone(), request.clone(), call, template));
        Ok(RoomNetwork { kernel, egress, models, tools, hook, running: Mutex::new(Vec::new()), over: watch::channel(false).0 })
    }

    /// Closes the doors, waits until nothing passes through them any more, and settles what was let out.
    pub async fn close(self) -> Result<(), Fault> {
        let (egress, running) = (Arc::clone(&self.egress), std::mem::take(&mut *self.running.lock()));
        self.over.send_replace(true);
        close(egress, running).await
    }
}

/// A call that is cancelled has let something out all the same.
impl Drop for RoomNetwork {
    fn drop(&mut self) {
        let running = std::mem::take(&mut *self.running.lock());
        if running.is_empty() {
            return;
        }
        self.over.send_replace(true);
        let egress = Arc::clone(&self.egress);
        let hold = self.kernel.tasks.works.begin(WorkKey::default());
        tokio::spawn(async move {
            if let Err(fault) = close(egress, running).await {
                world::log!("skep: what a job did on the network is not on record: {fault}");
            }
            drop(hold);
        });
    }
}

async fn close(egress: Arc<EgressGate>, running: Vec<JoinHandle<()>>) -> Result<(), Fault> {
    for attending in running {
        // One that panicked has no more to tell.
        let _ = attending.await;
    }
    egress.settle().await
}

impl JobNetwork for RoomNetwork {
    fn doors(&self) -> Vec<Door> {
        let models = self.models.iter().map(|_| MODELS_PORT);
        let (tools, hook) = (self.tools.iter().map(|_| TOOLS_PORT), self.hook.iter().map(|_| HOOK_PORT));
        let own = models.chain(tools).chain(hook);
        self.egress.doors().into_iter().map(|(port, _)| port).chain(own).map(|port| Door { port }).collect()
    }

    fn environment(&self) -> Vec<(String, String)> {
        let models = self.models.as_ref().map(|models| models.environment(MODELS_PORT)).unwrap_or_default();
        self.egress.environment().into_iter().chain(models).collect()
    }

    fn serve_doors(&self, doors: Vec<TcpListener>) {
        let mut running = self.running.lock();
        let mut doors = doors.into_iter();
        let over = || {
            let mut over = self.over.subscribe();
            async move { drop(over.wait_for(|over| *over).await) }
        };
        for ((_, behind), door) in self.egress.doors().into_iter().zip(doors.by_ref()) {
            running.push(tokio::spawn(Arc::clone(&self.egress).serve(door, behind, over())));
        }
        // In this order, so that a door which is not there takes nothing from the next.
        if let Some((models, door)) = self.models.as_ref().and_then(|models| Some((models, doors.next()?))) {
            running.push(tokio::spawn(models.serve(door, over())));
        }
        if let Some((tools, door)) = self.tools.as_ref().and_then(|tools| Some((tools, doors.next()?))) {
            running.push(tokio::spawn(tools.serve(door, over())));
        }
        if let Some((hook, door)) = self.hook.as_ref().and_then(|hook| Some((hook, doors.next()?))) {
            let (hook, kernel, over) = (hook.clone(), self.kernel.clone(), over());
            running.push(tokio::spawn(async move {
                tokio::select! {
                    () = hook.serve(kernel, door) => {}
                    () = over => {}
                }
            }));
        }
    }
}
