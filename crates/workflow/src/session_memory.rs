//! What a session remembers of its own steps: the last thousand of them, first in, first out.

use crate::relevance::{count_words, rank};
use crate::untrusted::clip;
use std::collections::VecDeque;
use world::{IterationRecord, StepFinding};

/// Steps that are remembered: seed 002 asks for 1,000.
pub const REMEMBERED_MAX: usize = 1_000;
/// Steps that a planner is told of again, and bytes of each.
const TOLD_MAX: usize = 5;
const TOLD_BYTES: usize = 600;

/// What the steps of a session gave, oldest first.
#[derive(Clone, Debug, Default)]
pub struct SessionMemory {
    items: VecDeque<(u32, StepFinding)>,
}

impl SessionMemory {
    pub fn add(&mut self, record: &IterationRecord) {
        for finding in &record.findings {
            if self.items.len() == REMEMBERED_MAX {
                self.items.pop_front();
            }
            self.items.push_back((record.iteration, finding.clone()));
        }
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// What steps of iterations up to `until` gave that fits a question, the best first.
    pub fn search(&self, question: &str, until: u32) -> Vec<String> {
        let old: Vec<&(u32, StepFinding)> = self.items.iter().filter(|(iteration, _)| *iteration <= until).collect();
        let texts: Vec<_> = old.iter().map(|(_, step)| count_words([step.title.as_str(), &step.tool, &step.summary])).collect();
        let told = |index: usize| {
            let (iteration, step) = old[index];
            let StepFinding { title, tool, status, summary, .. } = step;
            format!("iteration {iteration}, {title} ({tool}) {}: {}", status.as_str(), clip(summary, TOLD_BYTES))
        };
        rank(question, &texts).into_iter().take(TOLD_MAX).map(|found| told(found.index)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use world::StepStatus;

    fn record(iteration: u32, summaries: &[&str]) -> IterationRecord {
        let finding = |summary: &&str| StepFinding {
            step: "s".into(),
            title: "look".into(),
            tool: "fs.read".into(),
            status: StepStatus::Succeeded,
            summary: (*summary).to_owned(),
        };
        IterationRecord { iteration, findings: summaries.iter().map(finding).collect(), ..IterationRecord::default() }
    }

    #[test]
    fn the_oldest_step_goes_first() {
        let mut memory = SessionMemory::default();
        memory.add(&record(1, &["the port is 8080"]));
        assert_eq!(memory.search("which port", 1), ["iteration 1, look (fs.read) succeeded: the port is 8080"]);
        memory.add(&record(2, &vec!["nothing"; REMEMBERED_MAX - 1]));
        assert_eq!((memory.len(), memory.search("which port", 2).len()), (REMEMBERED_MAX, 1));
        memory.add(&record(3, &["one more"]));
        assert_eq!((memory.len(), memory.search("which port", 3).len()), (REMEMBERED_MAX, 0));
    }

    #[test]
    fn only_what_is_old_and_fits_is_told_again() {
        let mut memory = SessionMemory::default();
        memory.add(&record(1, &["the port is 8080", "unrelated"]));
        memory.add(&record(2, &["the port is taken"]));
        assert_eq!(memory.search("port", 1).len(), 1);
        assert_eq!(memory.search("port", 2).len(), 2);
        assert!(memory.search("port", 0).is_empty() && memory.search("kernel", 2).is_empty() && !memory.is_empty());
        let long = "port ".repeat(1000);
        memory.add(&record(3, &[&long]));
        assert!(memory.search("port", 3).iter().all(|told| told.len() < 700));
    }
}
