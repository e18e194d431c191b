//! The gate's parts, joined.

use crate::approval::RecordedApprovals;
use crate::policies::Policies;
use crate::sight::Masks;
use ledger::{Clock, Ledger};
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use world::{BootTime, TaskId};

pub struct Gate {
    pub ledger: Arc<Ledger>,
    /// Zones, and the policy in force in each.
    pub policies: Policies,
    /// The tools that there are: what they take, and which rooms they need.
    pub(crate) tools: Arc<tool::Registry>,
    /// Where each project keeps what no room shows.
    pub masks: Arc<Masks>,
    /// The operating-system user that the kernel acts for.
    pub user: String,
    clock: Clock,
    /// Bytes of outputs that are kept for one task.
    pub(crate) task_blob_bytes_max: u64,
    /// Where each provider of models is asked, for trials of a policy on requests of the past.
    provider_hosts: RwLock<BTreeMap<String, String>>,
    /// What was said yes to in tasks that are being replayed.
    pub(crate) approvals: Mutex<HashMap<TaskId, Arc<RecordedApprovals>>>,
}

impl Gate {
    pub fn new(policies: Policies, tools: Arc<tool::Registry>, clock: Clock, user: String, task_blob_bytes_max: u64) -> Gate {
        Gate {
            ledger: policies.ledger.clone(),
            policies,
            tools,
            masks: Arc::default(),
            user,
            clock,
            task_blob_bytes_max,
            provider_hosts: RwLock::default(),
            approvals: Mutex::default(),
        }
    }

    /// Now, as grants measure it; read once for a whole decision.
    pub fn moment(&self) -> BootTime {
        self.clock.now()
    }

    /// The end of a grant that lasts `ms` from now.
    pub fn until(&self, ms: u64) -> world::Deadline {
        self.clock.after(ms)
    }

    /// Says where each provider is asked: when the gateway is open, and when its settings change.
    pub fn know_providers(&self, hosts: impl Iterator<Item = (String, String)>) {
        *self.provider_hosts.write() = hosts.collect();
    }

    pub(crate) fn host_of_provider(&self, name: &str) -> Option<String> {
        self.provider_hosts.read().get(name).cloned()
    }

    /// The tool of a name.
    pub fn tool(&self, name: &str) -> Result<&tool::RegisteredTool, world::Refusal> {
        self.tools.find(name)
    }

    /// The template that a tool's manifest names.
    pub fn template_named_by(&self, tool: &str) -> Option<String> {
        self.tools.find(tool).ok().and_then(|tool| tool.manifest().template.clone())
    }
}
