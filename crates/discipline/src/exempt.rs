//! Exemptions: leave to change some paths without tests, and the proof that they were no more than that.

use crate::{PhaseWork, TestFirst};
use serde_json::{Value, json};
use testing::{FileRole, TypeOnly, file_role, is_build_file, type_only_change};
use workflow::discipline::{ExemptionRequest, exemption_request, workflow_prompt};
use workspace::{FileTree, RoomSnapshot, State, text_at};
use world::event::{ExemptionGranted, ExemptionRefused, WorkflowEntered};
use world::{Exemption, ExemptionCategory, Stop, Task, Workflow, WorkflowState};

impl TestFirst<'_> {
    /// Answers a request. It is on record whatever comes of it.
    pub async fn request_exemption(&self, task: &Task, input: &Value) -> Result<Value, Stop> {
        let (pid, id) = (task.pid, Some(task.id));
        let trusted = self.gate.policies.in_force(task.zone)?;
        let request = exemption_request(input);
        let why = match &request {
            Err(refusal) => Some(refusal.reason.clone()),
            Ok(ExemptionRequest { category, paths, .. }) => match trusted.policy.test_rules.exemptions.get(category) {
                None => Some("the policy has no such category".to_owned()),
                Some(rule) => paths.iter().find_map(|path| match rule.covers(path) {
                    false => {
                        Some(format!("`{path}` is none of {}, so the tests come first: {}", category.as_str(), rule.patterns.join(", ")))
                    }
                    true => decides_what_runs(*category, path)
                        .then(|| format!("`{path}` decides how tests are built or run, so it is none of {}", category.as_str())),
                }),
            },
        };
        let request = match (request, why) {
            (Ok(request), None) => request,
            (request, why) => {
                let why = why.unwrap_or_default();
                let (category, paths, reason) = request.map_or_else(
                    |_| (input["category"].as_str().unwrap_or_default().chars().take(40).collect(), Vec::new(), String::new()),
                    |request| (request.category.as_str().to_owned(), request.paths, request.reason),
                );
                self.ledger.record(ExemptionRefused { pid, task: id, category, paths, reason, why: why.clone() }).await?;
                return Ok(json!({ "granted": false, "why": why }));
            }
        };
        let ExemptionRequest { category, paths, reason } = request;
        let exemption = Box::new(Exemption { category, paths, reason: self.ledger.redactor.text(&reason).into_owned() });
        let pending = self.ledger.commit(|world, _| {
            let Some(workflow) = world.tasks.get(&task.id).and_then(|task| task.workflow.as_deref()) else { return (Vec::new(), false) };
            let granted = ExemptionGranted { pid, task: id, exemption };
            let (mode, from, to, why) = (workflow.mode, workflow.state, WorkflowState::Exploring, "an exemption".to_owned());
            let entered = WorkflowEntered { pid, task: id, mode, from, to, why, snapshot: None };
            (vec![granted.into(), entered.into()], true)
        })?;
        let granted = pending.durable().await?;
        let now = self.ledger.task(task.id)?;
        let prompt = now.workflow.as_deref().map(workflow_prompt).unwrap_or_default();
        Ok(json!({ "granted": granted, "prompt": prompt }))
    }

    /// Why what was changed is more than the exemption is for, if it is.
    pub(crate) fn unproven(&self, work: &PhaseWork<'_>, workflow: &Workflow, files: &RoomSnapshot) -> Result<Option<String>, Stop> {
        let Some(exemption) = &workflow.exemption else { return Ok(None) };
        let trusted = self.gate.policies.in_force(work.task.zone)?;
        let Some(rule) = trusted.policy.test_rules.exemptions.get(&exemption.category) else {
            return Ok(Some("the policy has no such category any more".to_owned()));
        };
        let project = FileTree::at(work.opened.project.clone())?;
        for (path, state) in &files.paths {
            if !rule.covers(path) {
                return Ok(Some(format!("`{path}` is none of {}", exemption.category.as_str())));
            }
            if rule.type_only {
                let was = text_at(&project, path).unwrap_or_default();
                let is = match state {
                    State::File { blob, .. } => String::from_utf8(self.ledger.blob(blob)?).ok(),
                    State::Absent => Some(String::new()),
                    _ => None,
                };
                // A declaration file as well: programs that take types away run what is left of it.
                let is_proven = is.is_some_and(|is| type_only_change(path, &was, &is) == TypeOnly::Proven);
                if !is_proven {
                    return Ok(Some(format!("`{path}` changes more than types, or that cannot be shown: tests come first for it")));
                }
            }
        }
        Ok(None)
    }
}

/// A text may tell a runner what to run, whatever its name ends in. Settings are asked for as what they are.
fn decides_what_runs(category: ExemptionCategory, path: &str) -> bool {
    category != ExemptionCategory::ConfigChange && (file_role(path) == FileRole::RunnerConfig || is_build_file(path))
}
