//! Merges as lists show them: counted by what became of each path, where that is known.

use super::Frozen;
use crate::Kernel;
use world::{Event, Merge, MergeId, MergePath, MergeState, Stop, TaskId};

/// Why the operator's no rejected a proposal; the others are the kernel's and the policy's.
pub(super) const REFUSED: &str = "refused in review";
pub(super) const ALL_LEFT_OUT: &str = "every change is left out";
pub(crate) const DROPPED: &str = "dropped";

/// One merge.
#[derive(Debug, Clone)]
pub struct MergeLine {
    pub merge: MergeId,
    pub task: TaskId,
    pub state: MergeState,
    /// Nobody refused it: its task went on, or it was proposed anew because the project or the policy had changed.
    pub is_replaced: bool,
    pub digest: String,
    pub summary: String,
    /// Paths that go or went in, or were taken back, and those that stay as they are.
    pub files: usize,
    pub left: usize,
}

impl Kernel {
    /// Every merge that is remembered, oldest first.
    pub fn merges(&self) -> Result<Vec<MergeLine>, Stop> {
        let found: Vec<Merge> = self.ledger.look(|world| world.merges.values().cloned().collect());
        found.into_iter().map(|merge| self.merge_line(merge)).collect()
    }

    fn merge_line(&self, merge: Merge) -> Result<MergeLine, Stop> {
        let mut frozen = Frozen::parse(&self.ledger.blob(&merge.frozen)?)?;
        frozen.choose(&merge.only);
        frozen.resolve(&merge.sides);
        let became = match merge.state {
            MergeState::Applied | MergeState::Undoing | MergeState::Undone => self.became(&merge)?,
            MergeState::Proposed | MergeState::Applying | MergeState::Rejected => None,
        };
        let paths = became.unwrap_or_else(|| frozen.paths());
        let left = paths.iter().filter(|path| path.refused.is_some()).count();
        Ok(MergeLine {
            merge: merge.id,
            task: merge.task,
            state: merge.state,
            is_replaced: merge.state == MergeState::Rejected && self.is_replaced(&merge)?,
            digest: merge.digest,
            summary: frozen.summary,
            files: paths.len() - left,
            left,
        })
    }

    /// What became of each path, by the newest record of it. A second undo is about what the first had left.
    fn became(&self, merge: &Merge) -> Result<Option<Vec<MergePath>>, Stop> {
        let (mut became, mut undone): (Option<Vec<MergePath>>, _) = (None, false);
        for event in self.ledger.events(merge.task, &["merge.finished", "merge.undone"])? {
            match event {
                Event::MergeFinished(e) if e.merge == merge.id => became = Some(e.paths),
                Event::MergeUndone(e) if e.merge == merge.id => {
                    let before = became.take().filter(|_| undone).unwrap_or_default();
                    became = Some(before.into_iter().filter(|path| path.refused.is_none()).chain(e.paths).collect());
                    undone = true;
                }
                _ => {}
            }
        }
        Ok(became)
    }

    fn is_replaced(&self, merge: &Merge) -> Result<bool, Stop> {
        let rejected = self.ledger.events(merge.task, &["merge.rejected"])?;
        Ok(rejected.into_iter().any(|event| match event {
            Event::MergeRejected(e) if e.merge == merge.id => {
                e.by != "policy" && ![REFUSED, ALL_LEFT_OUT, DROPPED].contains(&e.reason.as_str())
            }
            _ => false,
        }))
    }
}
