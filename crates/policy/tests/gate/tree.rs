//! Rules of the process tree: each denies by its name, and what it is about passes when it is put right.

use crate::{check, facts};
use policy::{Facts, SpawnShortage, TreeFacts};
use world::{ProcessRole, TargetRelation, Tier};

const ALL: &str = "name: all, match: { syscall: '*' }, action: allow";

fn on(tool: &str, tree: &TreeFacts, expected: &str) {
    check(ALL, &Facts { tool, paths: &[], tree: Some(tree), ..facts() }, expected);
}

fn denied(tool: &str, tree: &TreeFacts, rule: &str, reason: &str) {
    on(tool, tree, &format!("deny: `{tool}` is denied by `builtin:{rule}`: {reason} [builtin:{rule}]"));
}

const YES: &str = "allow [all]";

/// A tactical lead spawns a worker of its own.
fn spawn() -> TreeFacts {
    TreeFacts {
        role: Some(ProcessRole::Lead),
        tier: Some(Tier::Tactical),
        relation: Some(TargetRelation::Itself),
        target_role: Some(ProcessRole::Worker),
        target_tier: Some(Tier::Tactical),
        ..TreeFacts::default()
    }
}

#[test]
fn a_spawn_is_judged_by_who_asks_for_it() {
    on("proc.spawn", &spawn(), YES);
    let deny = |tree: TreeFacts, rule, reason| denied("proc.spawn", &tree, rule, reason);
    let with = |role, target_role, target_tier| TreeFacts {
        role: Some(role),
        target_role: Some(target_role),
        target_tier: Some(target_tier),
        ..spawn()
    };
    use ProcessRole::*;
    deny(with(Lead, Kernel, Tier::Operational), "spawn-kernel", "there is one kernel, and nobody spawns another");
    deny(with(Lead, Worker, Tier::Strategic), "spawn-tier", "a process spawns none of a higher tier than its own");
    deny(with(Task, Task, Tier::Operational), "task-spawns", "a task has no children");
    deny(with(Architect, Task, Tier::Operational), "architect", "an architect neither spawns nor sends; it stores what it designs");
    deny(with(Worker, Worker, Tier::Operational), "worker-spawns", "a worker spawns only tasks");
    on("proc.spawn", &with(Worker, Task, Tier::Operational), YES);
    let king =
        TreeFacts { is_top: true, role: Some(Kernel), tier: Some(Tier::Strategic), relation: Some(TargetRelation::Child), ..spawn() };
    on("proc.spawn", &TreeFacts { target_role: Some(Agent), target_tier: Some(Tier::Strategic), ..king.clone() }, YES);
    deny(TreeFacts { target_role: Some(Kernel), ..king.clone() }, "spawn-kernel", "there is one kernel, and nobody spawns another");
    deny(TreeFacts { target_role: Some(Task), target_tier: Some(Tier::Strategic), ..king }, "task-tier", "a task is never strategic");
    deny(
        TreeFacts { relation: Some(TargetRelation::Sibling), ..spawn() },
        "own-branch",
        "a process directs only itself and those below it",
    );
    deny(TreeFacts { relation: None, ..spawn() }, "own-branch", "a process directs only itself and those below it");
    deny(TreeFacts { tier: None, ..spawn() }, "spawn-tier", "a process spawns none of a higher tier than its own");
}

#[test]
fn what_is_spawned_fits_below_its_parent() {
    let deny = |tree: TreeFacts, rule, reason| denied("proc.spawn", &tree, rule, reason);
    let short = |what| TreeFacts { shortage: Some(what), ..spawn() };
    deny(short(SpawnShortage::Children), "children-max", "the parent has as many living children as it may have");
    deny(short(SpawnShortage::Budget), "spawn-budget", "the parent's budget does not hold the child's");
    deny(short(SpawnShortage::Limits), "spawn-limits", "a limit of the child goes beyond its parent's");
    on("proc.spawn", &TreeFacts { target_user: Some("ada".into()), ..spawn() }, YES);
    deny(TreeFacts { target_user: Some("eve".into()), ..spawn() }, "spawn-user", "a child acts for its parent's user");
    let task = |tool: &str| TreeFacts { target_role: Some(ProcessRole::Task), tools: vec!["fs.read".into(), tool.into()], ..spawn() };
    on("proc.spawn", &task("fs.list"), YES);
    for shell in ["shell_exec", "shell.run", "Bash"] {
        deny(task(shell), "role-tools", "a task has no shell");
    }
    on("proc.spawn", &TreeFacts { tools: vec!["shell_exec".into()], ..spawn() }, YES);
}

#[test]
fn a_child_has_the_tools_the_sight_and_the_names_that_its_parent_may_give() {
    let deny = |tree: TreeFacts, rule, reason| denied("proc.spawn", &tree, rule, reason);
    let list = |tools: &[&str]| tools.iter().map(|tool| (*tool).to_owned()).collect::<Vec<_>>();
    let with = |own: &[&str], child: &[&str]| TreeFacts { parent_tools: list(own), tools: list(child), ..spawn() };
    let more = "a child has no tool that its parent has not";
    deny(with(&["read", "web"], &["shell_exec"]), "spawn-tools", more);
    deny(with(&["read", "web"], &["read", "shell_exec"]), "spawn-tools", more);
    deny(with(&["fs.*"], &["fsx.read"]), "spawn-tools", more);
    deny(with(&["fs*"], &["fs.read"]), "spawn-tools", more);
    on("proc.spawn", &with(&["read", "web"], &["web"]), YES);
    on("proc.spawn", &with(&["fs.*", "web"], &["fs.read", "web"]), YES);
    on("proc.spawn", &with(&["*"], &["shell_exec"]), YES);
    on("proc.spawn", &with(&[], &["web"]), YES);
    on("proc.spawn", &TreeFacts { is_top: true, ..with(&["read"], &["web"]) }, YES);
    let hidden = TreeFacts { is_image_hidden: true, ..spawn() };
    deny(hidden.clone(), "spawn-image", "its program lies where the parent sees nothing");
    on("proc.spawn", &TreeFacts { is_top: true, ..hidden }, YES);
    let taken = TreeFacts { is_name_taken: true, ..spawn() };
    deny(taken.clone(), "spawn-name", "its name means somebody else");
    on("proc.spawn", &TreeFacts { is_top: true, ..taken }, YES);
}

#[test]
fn a_tier_bounds_the_models_that_are_asked_for() {
    let ask = |tier: Option<Tier>, model: &str, expected: &str| {
        let tree = TreeFacts { tier, ..TreeFacts::default() };
        check(ALL, &Facts { tool: "model.request", paths: &[], tier: model, tree: Some(&tree), ..facts() }, expected);
    };
    let why = "the model is of a higher tier than the process that asks for it";
    let no = format!("deny: `model.request` is denied by `builtin:model-tier`: {why} [builtin:model-tier]");
    ask(Some(Tier::Operational), "operational", YES);
    ask(Some(Tier::Operational), "tactical", &no);
    ask(Some(Tier::Tactical), "strategic", &no);
    ask(Some(Tier::Tactical), "tactical", YES);
    ask(Some(Tier::Strategic), "strategic", YES);
    ask(Some(Tier::Tactical), "nobody knows", &no);
    ask(None, "strategic", YES);
    check(ALL, &Facts { tool: "model.request", paths: &[], tier: "strategic", ..facts() }, YES);
}

#[test]
fn one_directs_those_below_and_no_others() {
    let to = |relation| TreeFacts { role: Some(ProcessRole::Agent), relation: Some(relation), ..TreeFacts::default() };
    for tool in ["proc.kill", "proc.signal", "proc.wait", "proc.execute"] {
        on(tool, &to(TargetRelation::Child), YES);
        on(tool, &to(TargetRelation::Descendant), YES);
        for relation in [TargetRelation::Parent, TargetRelation::Ancestor, TargetRelation::Sibling, TargetRelation::Other] {
            denied(tool, &to(relation), "own-branch", "a process directs only itself and those below it");
        }
        denied(tool, &TreeFacts { relation: None, ..to(TargetRelation::Child) }, "tree-facts", "nobody said which process it concerns");
        on(tool, &TreeFacts { is_top: true, ..to(TargetRelation::Other) }, YES);
        let in_stream = |relation| TreeFacts { only_children: true, ..to(relation) };
        on(tool, &in_stream(TargetRelation::Child), YES);
        denied(tool, &in_stream(TargetRelation::Descendant), "own-children", "a process can do this to its own children only");
    }
    on("message.read", &to(TargetRelation::Itself), YES);
    denied("message.read", &to(TargetRelation::Sibling), "own-branch", "a process directs only itself and those below it");
}

#[test]
fn messages_and_artifacts_have_their_bounds() {
    let of = |role| TreeFacts { role: Some(role), relation: Some(TargetRelation::Sibling), ..TreeFacts::default() };
    on("message.send", &of(ProcessRole::Lead), YES);
    denied("message.send", &of(ProcessRole::Architect), "architect", "an architect neither spawns nor sends; it stores what it designs");
    let lost = TreeFacts { is_unroutable: true, ..of(ProcessRole::Lead) };
    denied("message.send", &lost, "message-route", "there is no way from the sender to this receiver");
    on("artifact.store", &of(ProcessRole::Architect), YES);
    denied("artifact.store", &of(ProcessRole::Task), "task-stores", "a task stores nothing; its result goes to its parent");
    let foreign = TreeFacts { is_foreign: true, ..of(ProcessRole::Lead) };
    denied("artifact.store", &foreign, "artifact-owner", "the key belongs to another process");
    denied("artifact.read", &foreign, "artifact-reader", "the artifact is not visible to this process");
    on("artifact.read", &of(ProcessRole::Task), YES);
}

/// A call of the tree without facts is denied; the rules speak once, of the caller and not of those above it; and no rule of a file, no token
/// and no grant loosens them.
#[test]
fn doubt_is_deny_and_ancestors_are_not_judged_by_the_callers_place() {
    let call = Facts { tool: "proc.kill", paths: &[], ..facts() };
    check(ALL, &call, "deny: `proc.kill` is denied by `builtin:tree-facts`: nobody said which process it concerns [builtin:tree-facts]");
    check(ALL, &Facts { tool: "proc.info", paths: &[], ..facts() }, YES);
    let tree = TreeFacts { role: Some(ProcessRole::Task), ..spawn() };
    let call = Facts { tool: "proc.spawn", paths: &[], tree: Some(&tree), ..facts() };
    let tags = ["agent".to_owned()];
    check(ALL, &call.by("queen", "daemon", "ada", &tags), YES);
    check("", &call.by("queen", "daemon", "ada", &tags), "allow [builtin:tree]");
}
