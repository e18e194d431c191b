//! Who may send to whom, and who sees it.
//!
//! Pure. **Invariant.** What passes between two branches is seen by the nearest process above both, and a task speaks with its parent alone.

use crate::{Pid, ProcessRole, SenderRelation, World};

/// The way of a message that may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub relation: SenderRelation,
    /// Who gets a copy.
    pub seen_by: Option<Pid>,
}

/// Why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteRefusal {
    #[error("there is no process {0}")]
    Unknown(Pid),
    #[error("process {0} has ended")]
    Ended(Pid),
    #[error("a process does not send to itself")]
    Itself,
    #[error("a task sends to its parent alone, which is process {0}")]
    TaskOnlyToParent(Pid),
    #[error("it is of another user's processes")]
    OtherUser,
    #[error("process {to} is below the sibling {sibling}: send to that one")]
    BelowSibling { to: Pid, sibling: Pid },
}

/// The way from one process to another.
pub fn route(world: &World, from: Pid, to: Pid) -> Result<Route, RouteRefusal> {
    let find = |pid: Pid| world.processes.get(&pid).ok_or(RouteRefusal::Unknown(pid));
    let (sender, receiver) = (find(from)?, find(to)?);
    for process in [sender, receiver] {
        if !process.state.alive() {
            return Err(RouteRefusal::Ended(process.pid));
        }
    }
    if from == to {
        return Err(RouteRefusal::Itself);
    }
    if from == Pid::KERNEL || from == Pid::OPERATOR {
        return Ok(Route { relation: SenderRelation::Kernel, seen_by: None });
    }
    if sender.parent == Some(to) {
        return Ok(Route { relation: SenderRelation::Child, seen_by: None });
    }
    if sender.tree_role() == Some(ProcessRole::Task) {
        return Err(RouteRefusal::TaskOnlyToParent(sender.parent.unwrap_or(Pid::KERNEL)));
    }
    if receiver.parent == Some(from) {
        return Ok(Route { relation: SenderRelation::Parent, seen_by: None });
    }
    let above = |pid: Pid| world.ancestry(pid).map(|process| process.pid).collect::<Vec<_>>();
    let (over_sender, over_receiver) = (above(from), above(to));
    // Over a generation or more: who stands between sees it.
    if over_receiver.contains(&from) {
        return Ok(Route { relation: SenderRelation::Parent, seen_by: receiver.parent });
    }
    if over_sender.contains(&to) {
        return Ok(Route { relation: SenderRelation::Child, seen_by: sender.parent });
    }
    // INVARIANT: every process is below the kernel, so two of them always meet.
    let meeting = over_sender.iter().copied().find(|pid| over_receiver.contains(pid)).unwrap_or(Pid::KERNEL);
    if sender.parent != Some(meeting) {
        return Ok(Route { relation: SenderRelation::Branch, seen_by: Some(meeting) });
    }
    if receiver.parent == Some(meeting) {
        return Ok(Route { relation: SenderRelation::Sibling, seen_by: Some(meeting) });
    }
    let sibling = over_receiver.iter().copied().take_while(|pid| *pid != meeting).last().unwrap_or(to);
    Err(RouteRefusal::BelowSibling { to, sibling })
}

/// What another process is to one who wants something of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetRelation {
    Itself,
    Child,
    /// Below a child.
    Descendant,
    Parent,
    /// Above the parent.
    Ancestor,
    Sibling,
    Other,
}

impl TargetRelation {
    pub fn as_str(self) -> &'static str {
        match self {
            TargetRelation::Itself => "itself",
            TargetRelation::Child => "child",
            TargetRelation::Descendant => "descendant",
            TargetRelation::Parent => "parent",
            TargetRelation::Ancestor => "ancestor",
            TargetRelation::Sibling => "sibling",
            TargetRelation::Other => "other",
        }
    }
}

impl World {
    /// What `target` is to `caller`; `None` where one of them is not in the table.
    pub fn relation(&self, caller: Pid, target: Pid) -> Option<TargetRelation> {
        let (own, other) = (self.processes.get(&caller)?, self.processes.get(&target)?);
        if caller == target {
            return Some(TargetRelation::Itself);
        }
        let is_above = |above: Pid, below: Pid| self.ancestry(below).skip(1).any(|process| process.pid == above);
        Some(match () {
            () if other.parent == Some(caller) => TargetRelation::Child,
            () if own.parent == Some(target) => TargetRelation::Parent,
            () if is_above(caller, target) => TargetRelation::Descendant,
            () if is_above(target, caller) => TargetRelation::Ancestor,
            () if own.parent == other.parent => TargetRelation::Sibling,
            () => TargetRelation::Other,
        })
    }
}
