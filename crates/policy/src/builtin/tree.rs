//! Rules of the process tree: who may spawn, direct, send, store and read.
//!
//! They deny beside what a policy file says, and where nobody says anything about a call of the tree, they allow it: a tree runs without a
//! policy of its own. **Invariant.** A call of the tree whose facts nobody made is denied, and every rule and opinion outweighs their yes.

use crate::facts::Facts;
use crate::tree_facts::{SpawnShortage, TreeFacts};
use world::{ProcessRole, TargetRelation, Tier};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TreeRule {
    /// Nobody said whom it concerns.
    Facts,
    /// There is one kernel.
    SpawnKernel,
    /// Who sets a task must be able to judge its result.
    SpawnTier,
    /// A user is inherited.
    SpawnUser,
    /// A task is no strategist.
    TaskTier,
    /// A task has no children.
    TaskSpawns,
    /// A worker has tasks as children and nothing else.
    WorkerSpawns,
    /// An architect has no children and sends nothing.
    Architect,
    /// Some tools are not for every role.
    RoleTools,
    /// A child has no tool that its parent has not.
    SpawnTools,
    /// A child sees nothing that its parent does not see.
    SpawnImage,
    /// Nobody is called by the name of another.
    SpawnName,
    /// Who is of a tier asks for no dearer model.
    ModelTier,
    Children,
    SpawnBudget,
    SpawnLimits,
    /// Who is directed is below the one who directs.
    OwnBranch,
    /// In its own stream a process directs its children.
    OwnChildren,
    MessageRoute,
    /// A task hands its result to its parent and stores nothing.
    TaskStores,
    ArtifactOwner,
    ArtifactReader,
    /// A stream leads from a parent to its child.
    StreamEnds,
}

/// Calls that need [`TreeFacts`].
const TREE_CALLS: [&str; 15] = [
    SPAWN,
    "proc.kill",
    "proc.signal",
    "proc.wait",
    "proc.execute",
    "proc.nice",
    SEND,
    READ_MESSAGES,
    STORE,
    "artifact.remove",
    READ_ARTIFACT,
    OPEN_STREAM,
    "cron.add",
    "cron.remove",
    "cron.run",
];
/// Further calls of the tree, which concern the caller alone.
const OWN_CALLS: [&str; 7] =
    ["proc.info", "message.answer", "escalation.raise", "escalation.answer", "resource.request", "log.write", "metric.report"];
const SPAWN: &str = "proc.spawn";
const SEND: &str = "message.send";
const READ_MESSAGES: &str = "message.read";
const STORE: &str = "artifact.store";
const READ_ARTIFACT: &str = "artifact.read";
const OPEN_STREAM: &str = "stream.open";
/// No call of the tree, and still bounded by who asks.
const MODEL_REQUEST: &str = "model.request";

/// Tools that run whatever they are given, as tools are called here and in HiveKernel.
const SHELLS: [&str; 6] = ["shell_exec", "shell", "bash", "exec", "shell.run", "shell.*"];

impl TreeRule {
    pub fn name(self) -> &'static str {
        match self {
            TreeRule::Facts => "builtin:tree-facts",
            TreeRule::SpawnKernel => "builtin:spawn-kernel",
            TreeRule::SpawnTier => "builtin:spawn-tier",
            TreeRule::SpawnUser => "builtin:spawn-user",
            TreeRule::TaskTier => "builtin:task-tier",
            TreeRule::TaskSpawns => "builtin:task-spawns",
            TreeRule::WorkerSpawns => "builtin:worker-spawns",
            TreeRule::Architect => "builtin:architect",
            TreeRule::RoleTools => "builtin:role-tools",
            TreeRule::SpawnTools => "builtin:spawn-tools",
            TreeRule::SpawnImage => "builtin:spawn-image",
            TreeRule::SpawnName => "builtin:spawn-name",
            TreeRule::ModelTier => "builtin:model-tier",
            TreeRule::Children => "builtin:children-max",
            TreeRule::SpawnBudget => "builtin:spawn-budget",
            TreeRule::SpawnLimits => "builtin:spawn-limits",
            TreeRule::OwnBranch => "builtin:own-branch",
            TreeRule::OwnChildren => "builtin:own-children",
            TreeRule::MessageRoute => "builtin:message-route",
            TreeRule::TaskStores => "builtin:task-stores",
            TreeRule::ArtifactOwner => "builtin:artifact-owner",
            TreeRule::ArtifactReader => "builtin:artifact-reader",
            TreeRule::StreamEnds => "builtin:stream-ends",
        }
    }

    pub(crate) fn reason(self) -> &'static str {
        match self {
            TreeRule::Facts => "nobody said which process it concerns",
            TreeRule::SpawnKernel => "there is one kernel, and nobody spawns another",
            TreeRule::SpawnTier => "a process spawns none of a higher tier than its own",
            TreeRule::SpawnUser => "a child acts for its parent's user",
            TreeRule::TaskTier => "a task is never strategic",
            TreeRule::TaskSpawns => "a task has no children",
            TreeRule::WorkerSpawns => "a worker spawns only tasks",
            TreeRule::Architect => "an architect neither spawns nor sends; it stores what it designs",
            TreeRule::RoleTools => "a task has no shell",
            TreeRule::SpawnTools => "a child has no tool that its parent has not",
            TreeRule::SpawnImage => "its program lies where the parent sees nothing",
            TreeRule::SpawnName => "its name means somebody else",
            TreeRule::ModelTier => "the model is of a higher tier than the process that asks for it",
            TreeRule::Children => "the parent has as many living children as it may have",
            TreeRule::SpawnBudget => "the parent's budget does not hold the child's",
            TreeRule::SpawnLimits => "a limit of the child goes beyond its parent's",
            TreeRule::OwnBranch => "a process directs only itself and those below it",
            TreeRule::OwnChildren => "a process can do this to its own children only",
            TreeRule::MessageRoute => "there is no way from the sender to this receiver",
            TreeRule::TaskStores => "a task stores nothing; its result goes to its parent",
            TreeRule::ArtifactOwner => "the key belongs to another process",
            TreeRule::ArtifactReader => "the artifact is not visible to this process",
            TreeRule::StreamEnds => "a stream of bytes leads from a parent to its child",
        }
    }

    pub(crate) fn hint(self) -> &'static str {
        match self {
            TreeRule::Facts => "name a process that is there",
            TreeRule::SpawnKernel => "spawn a daemon or an agent",
            TreeRule::SpawnTier => "ask for a lower tier, or escalate to one above who may",
            TreeRule::SpawnUser => "leave the user out",
            TreeRule::TaskTier => "spawn an agent, a lead or a worker for it",
            TreeRule::TaskSpawns | TreeRule::TaskStores => "return it with the result, and leave it to the parent",
            TreeRule::WorkerSpawns => "spawn a task, or ask the parent for another worker",
            TreeRule::Architect => "store it as an artifact, or escalate it",
            TreeRule::RoleTools => "leave the tool out, or spawn a worker",
            TreeRule::SpawnTools => "name tools of the parent, or none to have its own",
            TreeRule::SpawnImage => "name a program below a folder that the operator shows",
            TreeRule::SpawnName => "choose another name",
            TreeRule::ModelTier => "ask for a model of its own tier, or list this one under that tier in `models`",
            TreeRule::Children => "wait for one to end, or end one",
            TreeRule::SpawnBudget => "ask for less, or request more of the parent",
            TreeRule::SpawnLimits => "ask for no more than the parent has",
            TreeRule::OwnBranch | TreeRule::OwnChildren => "send it a message, or ask one above it",
            TreeRule::MessageRoute => "send it to the parent or a sibling, or escalate it",
            TreeRule::ArtifactOwner => "use another key",
            TreeRule::ArtifactReader => "ask the one who stored it to make it visible",
            TreeRule::StreamEnds => "store an artifact that the other may read, or send a message",
        }
    }
}

/// Who allows a call of the tree that no rule denies and nobody else speaks about.
pub(crate) const ALLOWS: &str = "builtin:tree";

/// Every call of the tree, by name.
pub fn tree_calls() -> impl Iterator<Item = &'static str> {
    TREE_CALLS.into_iter().chain(OWN_CALLS)
}

/// Is it a call of the tree, which is allowed where nobody says anything?
pub(crate) fn is_tree_call(tool: &str) -> bool {
    TREE_CALLS.contains(&tool) || OWN_CALLS.contains(&tool)
}

/// The first rule of the tree that denies a call.
pub(crate) fn weigh(facts: &Facts<'_>) -> Option<TreeRule> {
    // What is said of the caller is said once, and not again of each one above it.
    if facts.of_ancestor {
        return None;
    }
    if facts.tool == MODEL_REQUEST {
        return first(&[(facts.tree.is_some_and(|tree| is_too_dear(facts.tier, tree)), TreeRule::ModelTier)]);
    }
    if !TREE_CALLS.contains(&facts.tool) {
        return None;
    }
    let Some(tree) = facts.tree else { return Some(TreeRule::Facts) };
    match facts.tool {
        SPAWN => spawn(facts, tree),
        SEND => {
            let broken = [(tree.role == Some(ProcessRole::Architect), TreeRule::Architect), (tree.is_unroutable, TreeRule::MessageRoute)];
            first(&broken)
        }
        STORE => first(&[(tree.role == Some(ProcessRole::Task), TreeRule::TaskStores), (tree.is_foreign, TreeRule::ArtifactOwner)]),
        "artifact.remove" => first(&[(tree.is_foreign, TreeRule::ArtifactOwner)]),
        READ_ARTIFACT => first(&[(tree.is_foreign, TreeRule::ArtifactReader)]),
        OPEN_STREAM => {
            let is_near = matches!(tree.relation, Some(TargetRelation::Parent | TargetRelation::Child));
            first(&[(tree.role == Some(ProcessRole::Architect), TreeRule::Architect), (!is_near, TreeRule::StreamEnds)])
        }
        _ => direct(facts.tool, tree),
    }
}

fn first(rules: &[(bool, TreeRule)]) -> Option<TreeRule> {
    rules.iter().find(|(is_broken, _)| *is_broken).map(|(_, rule)| *rule)
}

/// Is a model of this tier dearer than what the one who asks may have? Workers outside the tree have no tier, and a model of no tier is dear.
fn is_too_dear(tier: &str, tree: &TreeFacts) -> bool {
    let asked = Tier::parse(tier).unwrap_or(Tier::Strategic);
    !tree.is_top && tree.tier.is_some_and(|own| !asked.is_at_most(own))
}

/// Does one list of tools hold this one? `shell.*` holds all that begin so.
fn has_tool(list: &[String], tool: &str) -> bool {
    list.iter()
        .any(|own| own == tool || own == "*" || own.strip_suffix('*').is_some_and(|start| start.ends_with('.') && tool.starts_with(start)))
}

fn spawn(facts: &Facts<'_>, tree: &TreeFacts) -> Option<TreeRule> {
    let (Some(role), Some(tier)) = (tree.target_role, tree.target_tier) else { return Some(TreeRule::Facts) };
    // Who has no tier has the lowest.
    let own_tier = if tree.is_top { Tier::Strategic } else { tree.tier.unwrap_or(Tier::Operational) };
    let is_shell = |tool: &String| SHELLS.contains(&tool.to_ascii_lowercase().as_str());
    let is_below = |relation| matches!(relation, TargetRelation::Itself | TargetRelation::Child | TargetRelation::Descendant);
    let has_more_tools = !tree.parent_tools.is_empty() && !tree.tools.iter().all(|tool| has_tool(&tree.parent_tools, tool));
    let short = |what: SpawnShortage| tree.shortage == Some(what);
    first(&[
        (role == ProcessRole::Kernel, TreeRule::SpawnKernel),
        (tree.role == Some(ProcessRole::Task), TreeRule::TaskSpawns),
        (tree.role == Some(ProcessRole::Architect), TreeRule::Architect),
        (tree.role == Some(ProcessRole::Worker) && role != ProcessRole::Task, TreeRule::WorkerSpawns),
        (!tree.is_top && !tree.relation.is_some_and(is_below), TreeRule::OwnBranch),
        (role == ProcessRole::Task && tier == Tier::Strategic, TreeRule::TaskTier),
        (!tier.is_at_most(own_tier), TreeRule::SpawnTier),
        (!tree.is_top && tree.target_user.as_deref().is_some_and(|user| user != facts.user), TreeRule::SpawnUser),
        (role == ProcessRole::Task && tree.tools.iter().any(is_shell), TreeRule::RoleTools),
        (!tree.is_top && has_more_tools, TreeRule::SpawnTools),
        (!tree.is_top && tree.is_image_hidden, TreeRule::SpawnImage),
        (!tree.is_top && tree.is_name_taken, TreeRule::SpawnName),
        (short(SpawnShortage::Children), TreeRule::Children),
        (short(SpawnShortage::Limits), TreeRule::SpawnLimits),
        (short(SpawnShortage::Budget), TreeRule::SpawnBudget),
    ])
}

fn direct(tool: &str, tree: &TreeFacts) -> Option<TreeRule> {
    let Some(relation) = tree.relation else { return Some(TreeRule::Facts) };
    if tree.is_top {
        return None;
    }
    // What one does to oneself is no direction, but the end of a process is its parent's to wait for.
    let to_itself = relation == TargetRelation::Itself
        && matches!(tool, READ_MESSAGES | "cron.add" | "cron.remove" | "cron.run" | "proc.kill" | "proc.signal");
    if tree.only_children {
        return first(&[(relation != TargetRelation::Child, TreeRule::OwnChildren)]);
    }
    let is_below = matches!(relation, TargetRelation::Child | TargetRelation::Descendant);
    first(&[(!is_below && !to_itself, TreeRule::OwnBranch)])
}
