//! Tiers of models: what budgets in tokens are kept for.

use serde::{Deserialize, Serialize};

/// How dear a model is. Budgets in tokens are kept for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Also what nobody placed: in doubt a model is of the dearest tier.
    #[default]
    Strategic,
    Tactical,
    Operational,
}

impl Tier {
    pub const ALL: [Tier; 3] = [Tier::Strategic, Tier::Tactical, Tier::Operational];

    pub fn as_str(self) -> &'static str {
        match self {
            Tier::Strategic => "strategic",
            Tier::Tactical => "tactical",
            Tier::Operational => "operational",
        }
    }

    /// Is it no dearer than this one?
    pub fn is_at_most(self, other: Tier) -> bool {
        // INVARIANT: the order of the list is from the dearest down.
        self >= other
    }

    pub fn parse(name: &str) -> Option<Tier> {
        Tier::ALL.into_iter().find(|tier| tier.as_str() == name)
    }
}
