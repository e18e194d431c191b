//! Coverage debt: what a change of coverage means for the mode that made it.

use world::Discipline;

/// Coverage before and after, in hundredths of a percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoverageChange {
    pub baseline: i64,
    pub now: i64,
    /// Below these falls it is warned, or explore is locked.
    pub warning: i64,
    pub lockout: i64,
    pub locks: bool,
    /// Explore is locked since an earlier merge.
    pub is_locked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DebtVerdict {
    Fine,
    Warning,
    /// What was explored does not go in, and explore is locked.
    Locked,
    /// A strict change brought coverage back: explore is free again.
    Recovered,
}

/// What becomes of a change in this mode. Strict changes pay debt back and are never held up by it.
pub fn judge_debt(mode: Discipline, is_exempt: bool, change: &CoverageChange) -> DebtVerdict {
    let delta = change.now - change.baseline;
    // An exemption uses nothing of the budget.
    if is_exempt {
        return DebtVerdict::Fine;
    }
    if mode == Discipline::Strict {
        return if change.is_locked && delta > 0 { DebtVerdict::Recovered } else { DebtVerdict::Fine };
    }
    if change.is_locked || (change.locks && delta < change.lockout) {
        return DebtVerdict::Locked;
    }
    if delta < change.warning { DebtVerdict::Warning } else { DebtVerdict::Fine }
}
