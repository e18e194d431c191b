//! How full a planner's context is, and what to do about it.

use world::ContextVerdict;

/// Parts of the budget, in percent, from which on something is done.
pub const DELEGATE_PERCENT: u64 = 70;
pub const CHECKPOINT_PERCENT: u64 = 80;
pub const SUMMARIZE_PERCENT: u64 = 90;

/// What a session uses of its planner's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextUse {
    /// Tokens that the next request would have.
    pub used: u64,
    pub budget: u64,
    /// Whether a part of the work can be given away: it is no part itself, has something left to give, and has not given one away since it last had room.
    pub may_delegate: bool,
    /// Whether there are iterations that can still be told in one line each.
    pub may_keep: bool,
    /// Whether there is anything that a summary could stand for.
    pub may_summarize: bool,
}

/// What a context asks for. Where the milder act is not to be had any more, the next stronger one is taken, if its own part is reached.
pub fn assess_context(context: ContextUse) -> ContextVerdict {
    let reached = |percent: u64| u128::from(context.used) * 100 >= u128::from(context.budget) * u128::from(percent);
    if context.may_summarize && (reached(SUMMARIZE_PERCENT) || (reached(CHECKPOINT_PERCENT) && !context.may_keep)) {
        ContextVerdict::Summarize
    } else if context.may_keep && reached(CHECKPOINT_PERCENT) {
        ContextVerdict::Checkpoint
    } else if context.may_delegate && reached(DELEGATE_PERCENT) {
        ContextVerdict::Delegate
    } else {
        ContextVerdict::Ok
    }
}

/// What a part of the work may use of what is left: seed 002 gives it 30 %.
pub fn delegated_share(left: u64) -> u64 {
    (u128::from(left) * 30 / 100) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(used: u64, may: &str, expected: ContextVerdict) {
        let (may_delegate, may_keep, may_summarize) = (may.contains('d'), may.contains('k'), may.contains('s'));
        assert_eq!(assess_context(ContextUse { used, budget: 1000, may_delegate, may_keep, may_summarize }), expected);
    }

    #[test]
    fn a_context_is_judged_by_its_share() {
        check(0, "dks", ContextVerdict::Ok);
        check(699, "dks", ContextVerdict::Ok);
        check(700, "dks", ContextVerdict::Delegate);
        check(700, "ks", ContextVerdict::Ok);
        check(799, "dks", ContextVerdict::Delegate);
        check(800, "dks", ContextVerdict::Checkpoint);
        check(800, "ds", ContextVerdict::Summarize);
        check(800, "d", ContextVerdict::Delegate);
        check(899, "dks", ContextVerdict::Checkpoint);
        check(900, "dks", ContextVerdict::Summarize);
        check(5000, "dks", ContextVerdict::Summarize);
        check(5000, "dk", ContextVerdict::Checkpoint);
        check(5000, "", ContextVerdict::Ok);
    }

    proptest! {
        #[test]
        fn more_use_never_asks_for_less(budget in any::<u64>(), a in any::<u64>(), b in any::<u64>(), may in any::<(bool, bool, bool)>()) {
            let rank = |used| match assess_context(ContextUse { used, budget, may_delegate: may.0, may_keep: may.1, may_summarize: may.2 }) {
                ContextVerdict::Ok => 0,
                ContextVerdict::Delegate => 1,
                ContextVerdict::Checkpoint => 2,
                ContextVerdict::Summarize => 3,
            };
            prop_assert!(rank(a.min(b)) <= rank(a.max(b)));
        }

        #[test]
        fn parts_of_what_is_left_never_add_up_to_more(left in any::<u64>()) {
            let (mut given, mut rest) = (0_u64, left);
            for _ in 0..50 {
                let share = delegated_share(rest);
                given += share;
                rest -= share;
            }
            prop_assert!(given <= left);
        }
    }
}
