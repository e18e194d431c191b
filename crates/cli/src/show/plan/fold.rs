//! Which rows are drawn where not all fit.

use super::StepPhase;

/// A line of a folded drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fold {
    /// This row.
    Row(usize),
    /// So many that are not drawn, by their phases.
    Left(Vec<(StepPhase, u64)>),
}

/// Rows by how much they are wanted: what asks, fails or runs; what may begin; what ended last and comes next.
fn wanted(phases: &[StepPhase]) -> Vec<usize> {
    let is_active = |phase: &StepPhase| {
        matches!(phase, StepPhase::Asks | StepPhase::Failed | StepPhase::Running | StepPhase::Frozen | StepPhase::CutOff)
    };
    let front = phases
        .iter()
        .rposition(|phase| matches!(phase, StepPhase::Running | StepPhase::Frozen | StepPhase::Asks | StepPhase::Succeeded))
        .unwrap_or(0);
    let rank = |place: usize| match &phases[place] {
        StepPhase::Asks => 0,
        phase if is_active(phase) => 1,
        StepPhase::Ready => 2,
        _ => 3,
    };
    let mut order: Vec<usize> = (0..phases.len()).collect();
    order.sort_by_key(|place| (rank(*place), place.abs_diff(front), *place));
    order
}

/// At most `max` lines for all rows. What is not drawn is counted in its place.
pub fn fold(phases: &[StepPhase], max: usize) -> Vec<Fold> {
    if phases.len() <= max {
        return (0..phases.len()).map(Fold::Row).collect();
    }
    let mut is_shown = vec![false; phases.len()];
    // One line that counts what is left out; each row may split one in two.
    let mut lines = 1;
    for place in wanted(phases) {
        let is_left = |at: Option<usize>| at.and_then(|at| is_shown.get(at)).is_some_and(|shown| !shown);
        let gaps_around = usize::from(is_left(place.checked_sub(1))) + usize::from(is_left(place.checked_add(1)));
        // It splits a gap in two, shortens one, or closes one.
        let grows = match gaps_around {
            2 => lines + 2,
            1 => lines + 1,
            _ => lines,
        };
        if grows > max {
            if lines >= max {
                break;
            }
            continue;
        }
        is_shown[place] = true;
        lines = grows;
    }
    let mut folded: Vec<Fold> = Vec::new();
    for (place, phase) in phases.iter().enumerate() {
        if is_shown[place] {
            folded.push(Fold::Row(place));
            continue;
        }
        if !matches!(folded.last(), Some(Fold::Left(_))) {
            folded.push(Fold::Left(Vec::new()));
        }
        if let Some(Fold::Left(left)) = folded.last_mut() {
            match left.iter_mut().find(|(other, _)| other == phase) {
                Some((_, n)) => *n += 1,
                None => left.push((*phase, 1)),
            }
        }
    }
    folded
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn phase() -> impl Strategy<Value = StepPhase> {
        prop_oneof![
            Just(StepPhase::Waits),
            Just(StepPhase::Ready),
            Just(StepPhase::Running),
            Just(StepPhase::Succeeded),
            Just(StepPhase::Failed),
            Just(StepPhase::Skipped)
        ]
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_it_fits(phases in prop::collection::vec(phase(), 0..200), max in 1_usize..40) {
            let folded = fold(&phases, max);
            prop_assert!(folded.len() <= max, "{} lines of {max}", folded.len());
            let told: u64 = folded.iter().map(|line| match line {
                Fold::Row(_) => 1,
                Fold::Left(left) => left.iter().map(|(_, n)| n).sum(),
            }).sum();
            prop_assert_eq!(told, phases.len() as u64);
        }
    }

    #[test]
    fn what_runs_is_drawn_before_what_is_done() {
        let mut phases = vec![StepPhase::Succeeded; 50];
        phases.extend([StepPhase::Running, StepPhase::Ready]);
        phases.extend(vec![StepPhase::Waits; 50]);
        let folded = fold(&phases, 5);
        assert!(folded.contains(&Fold::Row(50)) && folded.contains(&Fold::Row(51)), "{folded:?}");
        assert_eq!(folded[0], Fold::Left(vec![(StepPhase::Succeeded, 49)]), "{folded:?}");
    }
}
