//! What a policy says to people, where that needs a room: a check of the project's rules, and who would speak about a call.

use crate::add_session::check_session_terms;
use crate::{Kernel, call};
use gate::{Bundle, Checked, Request, locate, read_bundle};
use policy::Explanation;
use serde_json::Value;
use session::CheckedPlan;
use std::path::Path;
use world::{Pid, SessionTerms, Stop, TaskId};

impl Kernel {
    /// Parses a candidate, or the project's own file, and puts nothing in force.
    pub async fn check_policy(&self, path: &Path, text: Option<&str>) -> Result<Checked, Stop> {
        let top = locate(path).await?;
        let (bundle, _) = read_bundle(&top).await?;
        let mut checked = self.gate.check_policy(&bundle, text).await?;
        if checked.error.is_none() {
            let policy = text.map_or_else(|| bundle.policy.clone(), str::to_owned);
            checked.warnings.extend(self.throwaways.warnings(&top, &Bundle { policy, ..bundle }).await?);
        }
        Ok(checked)
    }

    /// Says who would speak about a call of the operator's, and why. Nothing is recorded and nothing runs.
    pub async fn explain(&self, path: &Path, task: Option<TaskId>, tool: &str, input: Value, candidate: bool) -> Result<Explanation, Stop> {
        let top = locate(path).await?;
        let zone = self.gate.policies.zone(&top)?.id;
        let pid = task.map(|task| self.ledger.task(task)).transpose()?.map_or(Pid::OPERATOR, |task| task.pid);
        let request = Request::new(pid, task, zone, tool, input);
        let candidate = if candidate { Some(self.gate.candidate(zone, &read_bundle(&top).await?.0)?) } else { None };
        call::explain(self, &request, candidate.as_ref(), None).await
    }

    /// Says what critics and the policy in force have against each plan of a file. Terms under which no session could begin are refused as there.
    pub async fn check_plans(&self, path: &Path, text: &str, terms: &SessionTerms) -> Result<Vec<CheckedPlan>, Stop> {
        check_session_terms(terms)?;
        let zone = self.gate.policies.zone(&locate(path).await?)?.id;
        session::check_plans(self, zone, text, terms).await
    }
}
