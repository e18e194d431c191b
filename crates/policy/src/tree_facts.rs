//! What rules know of a call that concerns another process of the tree.

use serde::{Deserialize, Serialize};
use world::{ProcessRole, TargetRelation, Tier};

/// Whoever asks, and whom or what it concerns. Made from the world when the call is described.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TreeFacts {
    /// The kernel or the operator asks.
    pub is_top: bool,
    /// Of the one who asks; `None` for a worker outside the tree.
    pub role: Option<ProcessRole>,
    pub tier: Option<Tier>,
    /// What the other is to the one who asks; of a spawn, the parent of what is spawned. `None` where there is no such process.
    pub relation: Option<TargetRelation>,
    /// Only a child will do: the caller asked in the stream of its own task.
    pub only_children: bool,
    /// Of the other, or of what is to be spawned.
    pub target_role: Option<ProcessRole>,
    pub target_tier: Option<Tier>,
    pub target_user: Option<String>,
    /// What is to be spawned may use these.
    pub tools: Vec<String>,
    /// What its parent may use; nothing where nobody said so.
    pub parent_tools: Vec<String>,
    /// Its program lies where the parent sees nothing.
    pub is_image_hidden: bool,
    /// Its name means somebody else: the kernel, the operator, or a process at the top of the tree.
    pub is_name_taken: bool,
    /// What there is too little of for it.
    pub shortage: Option<SpawnShortage>,
    /// The message has no way to its receiver.
    pub is_unroutable: bool,
    /// The artifact is somebody else's, or not to be seen by the one who asks.
    pub is_foreign: bool,
}

/// What a parent has too little of for one more child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpawnShortage {
    Children,
    Budget,
    /// A limit of the child would go beyond its parent's.
    Limits,
}
