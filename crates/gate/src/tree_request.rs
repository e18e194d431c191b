//! What a call of the process tree wants, and what the world says of that.
//!
//! Pure. Whoever makes such a call says what it concerns; [`crate::CallFacts`] asks here for what rules can know of it.

use policy::{SpawnShortage, TreeFacts};
use world::{Budget, Pid, Process, ProcessRole, ProgramLimits, Recipient, Tier, Visibility, World, route};

/// Whom or what a call of the process tree concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeRequest {
    /// A child for `parent`.
    Spawn {
        parent: Pid,
        role: ProcessRole,
        tier: Tier,
        user: Option<String>,
        tools: Vec<String>,
        name: String,
        /// Its program lies where the parent sees nothing.
        is_image_hidden: bool,
        limits: Box<ProgramLimits>,
        budget: Option<Box<Budget>>,
    },
    /// Something is done to a process, or of it: kill, signal, wait, execute, its mailbox, its entries of cron.
    Direct {
        target: Pid,
        /// It was asked in the stream of the caller's own task.
        only_children: bool,
    },
    Send {
        to: Recipient,
    },
    /// A stream of bytes to another process.
    Stream {
        peer: Pid,
    },
    /// The caller alone.
    Own,
    Store {
        key: String,
        visibility: Visibility,
    },
    /// An artifact by its number: to be read, or removed.
    Read {
        artifact: world::ArtifactId,
    },
    Remove {
        artifact: world::ArtifactId,
    },
}

impl TreeRequest {
    pub(crate) fn facts(&self, world: &World, caller: &Process) -> TreeFacts {
        let pid = caller.pid;
        let plain = TreeFacts {
            is_top: pid == Pid::KERNEL || pid == Pid::OPERATOR,
            role: caller.tree_role(),
            tier: caller.tree_tier(),
            ..TreeFacts::default()
        };
        match self {
            TreeRequest::Spawn { parent, role, tier, user, tools, name, is_image_hidden, limits, budget } => TreeFacts {
                relation: world.relation(pid, *parent),
                // A worker of a project thinks with models of this tier where nobody says otherwise.
                tier: plain.tier.or(caller.zone.map(|_| Tier::Tactical)),
                target_role: Some(*role),
                target_tier: Some(*tier),
                target_user: user.clone(),
                tools: tools.clone(),
                parent_tools: world
                    .processes
                    .get(parent)
                    .and_then(|of| of.program.as_deref())
                    .map(|of| of.tools.clone())
                    .unwrap_or_default(),
                is_image_hidden: *is_image_hidden,
                is_name_taken: world.is_name_taken(name),
                shortage: shortage(world, *parent, limits, budget.as_deref()),
                ..plain
            },
            TreeRequest::Direct { target, only_children } => {
                TreeFacts { only_children: *only_children, ..of_target(world, pid, *target, plain) }
            }
            TreeRequest::Send { to: Recipient::Process(to) } => {
                TreeFacts { is_unroutable: route(world, pid, *to).is_err(), ..of_target(world, pid, *to, plain) }
            }
            TreeRequest::Stream { peer } => of_target(world, pid, *peer, plain),
            // A queue is read by those alone who may hear the sender.
            TreeRequest::Send { to: Recipient::Queue(_) } | TreeRequest::Own => plain,
            TreeRequest::Store { key, visibility } => {
                let before = world.artifact_at(pid, key, *visibility);
                TreeFacts { is_foreign: before.is_some_and(|before| !world.owns_artifact(pid, before)), ..plain }
            }
            TreeRequest::Remove { artifact } => {
                let is_own = world.artifacts.get(artifact).is_some_and(|artifact| world.owns_artifact(pid, artifact));
                TreeFacts { is_foreign: !is_own, ..plain }
            }
            TreeRequest::Read { artifact } => {
                let may_read = world.artifacts.get(artifact).is_some_and(|artifact| world::readable(world, pid, artifact));
                TreeFacts { is_foreign: !may_read, ..plain }
            }
        }
    }
}

fn of_target(world: &World, caller: Pid, target: Pid, plain: TreeFacts) -> TreeFacts {
    let other = world.processes.get(&target);
    TreeFacts {
        relation: world.relation(caller, target),
        target_role: other.and_then(Process::tree_role),
        target_tier: other.and_then(Process::tree_tier),
        target_user: other.map(|process| process.user.clone()),
        ..plain
    }
}

fn shortage(world: &World, parent: Pid, limits: &ProgramLimits, budget: Option<&Budget>) -> Option<SpawnShortage> {
    let above = world.processes.get(&parent)?;
    if world.has_all_children(parent) {
        return Some(SpawnShortage::Children);
    }
    if above.limits().is_some_and(|bound| limits.beyond(bound).is_some()) {
        return Some(SpawnShortage::Limits);
    }
    // Who lives on nothing has nothing to share.
    let is_used_up = || world.used_up(parent).filter(|_| above.program.is_some());
    let short = budget.and_then(|budget| world.allotment_short(parent, budget, world.now_ms)).or_else(is_used_up);
    short.map(|_| SpawnShortage::Budget)
}
