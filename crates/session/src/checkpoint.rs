//! What is known of an iteration when its plan is over: what planners are told of it, and what its use is judged by.

use crate::work::SessionWork;
use serde_json::{Value, json};
use std::collections::HashMap;
use workflow::{Plan, PlanStep, clip_output};
use world::{IterationRecord, StepFinding, StepStatus, Stop};

/// Bytes of all that one iteration's record tells of its steps: a few outputs of an agentic plan, or the beginnings of a long one.
const FINDINGS_BYTES_MAX: usize = 16 * 1024;

/// Characters of the digest that says what a plan is.
const SHAPE_CHARS: usize = 32;

/// Counts the ends of steps and keeps the beginnings of what they gave.
pub(crate) struct PlanTally {
    succeeded: u32,
    failed: u32,
    skipped: u32,
    findings: HashMap<String, StepFinding>,
    bytes: usize,
    /// Of one step, so that the last ones have their place too.
    bytes_each: usize,
}

impl PlanTally {
    pub fn new(plan: &Plan) -> PlanTally {
        let bytes_each = FINDINGS_BYTES_MAX / plan.steps.len().max(1);
        PlanTally { succeeded: 0, failed: 0, skipped: 0, findings: HashMap::new(), bytes: 0, bytes_each }
    }

    pub fn note_output(&mut self, step: &PlanStep, value: &Value) {
        self.note(step, StepStatus::Succeeded, &value.to_string());
    }

    pub fn note(&mut self, step: &PlanStep, status: StepStatus, text: &str) {
        match status {
            StepStatus::Succeeded => self.succeeded += 1,
            StepStatus::Failed => self.failed += 1,
            StepStatus::Skipped => self.skipped += 1,
            StepStatus::Running => return,
        }
        let mut summary = clip_output(text);
        // A failure is what the next plan is about.
        if status != StepStatus::Failed {
            summary.truncate(summary.floor_char_boundary(self.bytes_each));
        }
        let bytes = summary.len() + step.step_id.len() + step.title.len() + step.tool_ref.name.len() + 64;
        if self.bytes + bytes > FINDINGS_BYTES_MAX && status != StepStatus::Failed {
            return;
        }
        self.bytes += bytes;
        let (id, title, tool) = (step.step_id.clone(), step.title.clone(), step.tool_ref.name.clone());
        self.findings.insert(id.clone(), StepFinding { step: id, title, tool, status, summary });
    }

    /// Why a step failed.
    pub fn failure_of(&self, step: &str) -> &str {
        self.findings.get(step).map_or("", |finding| finding.summary.as_str())
    }

    pub fn record(&self, work: &SessionWork, plan: &Plan) -> Result<IterationRecord, Stop> {
        let (tokens, micros) = work.spent();
        let (iteration, before_tokens, before_micros) = work.look(|_, session| {
            let sum = |of: fn(&IterationRecord) -> u64| session.iterations.iter().map(of).sum::<u64>();
            (session.iteration, sum(|record| record.tokens), sum(|record| record.micros))
        })?;
        let findings = plan.steps.iter().filter_map(|step| self.findings.get(&step.step_id).cloned());
        Ok(IterationRecord {
            iteration,
            goal: plan.goal.clone(),
            succeeded: self.succeeded,
            failed: self.failed,
            skipped: self.skipped,
            findings: findings.collect(),
            shape: shape(work, plan),
            tokens: tokens.saturating_sub(before_tokens),
            micros: micros.saturating_sub(before_micros),
        })
    }
}

/// Digest of what the steps are: tools and inputs. Keyed, so that nobody can guess by it a secret that stood in one.
fn shape(work: &SessionWork, plan: &Plan) -> String {
    let mut told = String::new();
    for step in &plan.steps {
        let from: Vec<String> = step.input_from.iter().map(|(field, from)| format!("{field}={}", from)).collect();
        told.push_str(&json!([step.tool_ref.name, step.input, from]).to_string());
    }
    let mut digest = work.host.ledger().journal().vault().digest(told.as_bytes());
    digest.truncate(SHAPE_CHARS);
    digest
}
