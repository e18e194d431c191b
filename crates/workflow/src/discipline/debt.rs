//! Coverage debt: what a change of coverage means for the mode that made it, and what becomes of the baseline.
//!
//! Debt is what is missing up to the baseline. **Invariant.** Work in which tests do not come first never moves the baseline; strict work pays
//! debt back or leaves it as it is, and never writes it off: where strict work itself loses something, the baseline falls by just that.
//! Everything is in hundredths of a percent.

use world::{CoverageVerdict, Discipline};

/// How far coverage may fall below its baseline, as negative numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebtLimits {
    /// Below this it is warned.
    pub warning: i64,
    /// Below this explore mode is locked.
    pub lockout: i64,
    /// Is it? Else it is warned as well.
    pub locks: bool,
}

/// What is known of a project before a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoverageStanding {
    pub baseline: u64,
    /// After its last measured merge.
    pub now: u64,
    pub is_locked: bool,
}

impl CoverageStanding {
    /// A project of which nothing was merged yet: it owes nothing.
    pub fn fresh(measured: u64) -> CoverageStanding {
        CoverageStanding { baseline: measured, now: measured, is_locked: false }
    }
}

/// What comes of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebtJudgement {
    pub verdict: CoverageVerdict,
    /// How far it is from the baseline before the merge.
    pub delta: i64,
    pub after: CoverageStanding,
}

/// What a merge of work in this mode means that was measured to reach so much.
pub fn judge_debt(mode: Discipline, limits: &DebtLimits, before: &CoverageStanding, measured: u64) -> DebtJudgement {
    let signed = |figure: u64| i64::try_from(figure).unwrap_or(i64::MAX);
    let delta = signed(measured) - signed(before.baseline);
    if mode != Discipline::Strict {
        let is_too_far = delta < limits.lockout;
        let verdict = match () {
            () if before.is_locked || (limits.locks && is_too_far) => CoverageVerdict::Locked,
            () if is_too_far || delta < limits.warning => CoverageVerdict::Warning,
            () => CoverageVerdict::Fine,
        };
        let after = CoverageStanding { now: measured, is_locked: verdict == CoverageVerdict::Locked, ..*before };
        return DebtJudgement { verdict, delta, after };
    }
    let lost = before.now.saturating_sub(measured);
    let baseline = if measured >= before.baseline { measured } else { before.baseline.saturating_sub(lost).max(measured) };
    let is_gain = measured > before.now;
    let is_near = signed(measured) - signed(baseline) >= limits.lockout;
    let recovers = before.is_locked && is_gain && is_near;
    let after = CoverageStanding { baseline, now: measured, is_locked: before.is_locked && !recovers };
    DebtJudgement { verdict: if recovers { CoverageVerdict::Recovered } else { CoverageVerdict::Fine }, delta, after }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: DebtLimits = DebtLimits { warning: -200, lockout: -500, locks: true };

    fn standing(baseline: u64, now: u64, is_locked: bool) -> CoverageStanding {
        CoverageStanding { baseline, now, is_locked }
    }

    #[test]
    fn falls_are_warned_and_locked_and_paid_back() {
        use CoverageVerdict::{Fine, Locked, Recovered, Warning};
        use Discipline::{Debug, Explore, Strict};
        let open = standing(8_000, 8_000, false);
        let in_debt = standing(8_000, 7_700, false);
        let locked = standing(8_000, 7_000, true);
        let table = [
            (Explore, open, 8_000, Fine, standing(8_000, 8_000, false)),
            (Explore, open, 9_000, Fine, standing(8_000, 9_000, false)),
            (Explore, open, 7_800, Fine, standing(8_000, 7_800, false)),
            (Explore, open, 7_799, Warning, standing(8_000, 7_799, false)),
            (Explore, open, 7_500, Warning, standing(8_000, 7_500, false)),
            (Debug, open, 7_499, Locked, standing(8_000, 7_499, true)),
            // Several small falls are one large one.
            (Explore, in_debt, 7_480, Locked, standing(8_000, 7_480, true)),
            // Explore does not pay its own debt.
            (Explore, locked, 9_000, Locked, standing(8_000, 9_000, true)),
            // Without debt the baseline is what the last strict merge reached.
            (Strict, open, 8_300, Fine, standing(8_300, 8_300, false)),
            (Strict, open, 7_000, Fine, standing(7_000, 7_000, false)),
            // Strict work that changes nothing, or loses something itself, writes no debt off.
            (Strict, in_debt, 7_700, Fine, standing(8_000, 7_700, false)),
            (Strict, in_debt, 7_600, Fine, standing(7_900, 7_600, false)),
            (Strict, in_debt, 8_100, Fine, standing(8_100, 8_100, false)),
            (Strict, locked, 7_000, Fine, standing(8_000, 7_000, true)),
            (Strict, locked, 7_499, Fine, standing(8_000, 7_499, true)),
            (Strict, locked, 7_500, Recovered, standing(8_000, 7_500, false)),
            (Strict, locked, 8_200, Recovered, standing(8_200, 8_200, false)),
        ];
        for (mode, before, measured, verdict, after) in table {
            let judged = judge_debt(mode, &LIMITS, &before, measured);
            assert_eq!((judged.verdict, judged.after), (verdict, after), "{mode} {before:?} {measured}");
        }
    }

    #[test]
    fn a_policy_that_only_warns_locks_nothing() {
        let limits = DebtLimits { locks: false, ..LIMITS };
        let judged = judge_debt(Discipline::Explore, &limits, &standing(8_000, 8_000, false), 1_000);
        assert_eq!((judged.verdict, judged.delta, judged.after.is_locked), (CoverageVerdict::Warning, -7_000, false));
    }

    fn modes() -> impl Strategy<Value = Discipline> {
        prop_oneof![Just(Discipline::Strict), Just(Discipline::Explore), Just(Discipline::Debug)]
    }

    fn debt(of: &CoverageStanding) -> i64 {
        of.baseline as i64 - of.now as i64
    }

    proptest! {
        /// Whatever the merges are: strict work alone moves the baseline and lifts the lock, and no debt goes but by a gain.
        #[test]
        fn debt_is_paid_and_never_written_off(merges in prop::collection::vec((modes(), 0_u64..=10_000), 1..40), start in 0_u64..=10_000) {
            let mut at = CoverageStanding::fresh(start);
            for (mode, measured) in merges {
                let judged = judge_debt(mode, &LIMITS, &at, measured);
                let is_gain = measured > at.now;
                prop_assert_eq!(judged.after.now, measured);
                if mode != Discipline::Strict {
                    prop_assert_eq!(judged.after.baseline, at.baseline);
                    prop_assert!(judged.after.is_locked || !at.is_locked);
                    prop_assert!(judged.after.is_locked || debt(&judged.after) <= 500);
                } else {
                    prop_assert!(judged.after.is_locked <= at.is_locked, "strict work locks nothing");
                    prop_assert!(debt(&judged.after) <= debt(&at).max(0), "nor does it make debt");
                    if debt(&judged.after) < debt(&at) {
                        prop_assert!(is_gain, "{at:?} {measured}");
                    }
                    prop_assert_eq!(at.is_locked && !judged.after.is_locked, judged.verdict == CoverageVerdict::Recovered);
                    if judged.verdict == CoverageVerdict::Recovered {
                        prop_assert!(is_gain && debt(&judged.after) <= 500);
                    }
                }
                at = judged.after;
            }
        }

        /// More coverage is never judged worse.
        #[test]
        fn more_is_never_worse(mode in modes(), baseline in 0_u64..=10_000, now in 0_u64..=10_000, less in 0_u64..=10_000, more in 0_u64..=10_000) {
            let (less, more) = (less.min(more), less.max(more));
            let rank = |verdict| match verdict {
                CoverageVerdict::Locked => 0,
                CoverageVerdict::Warning => 1,
                CoverageVerdict::Fine => 2,
                CoverageVerdict::Recovered => 3,
            };
            let before = standing(baseline, now, mode == Discipline::Strict);
            let judge = |measured| rank(judge_debt(mode, &LIMITS, &before, measured).verdict);
            prop_assert!(judge(less) <= judge(more));
        }
    }
}
