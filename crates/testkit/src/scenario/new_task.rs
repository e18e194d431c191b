//! The task of a scenario, as somebody asks for it.

use super::Scenario;
use super::step::Story;
use kernel::{NewTask, Stop};
use std::path::Path;
use world::{Code, Mode};

impl Story<'_> {
    /// Asks for the task. Where a person must answer first there is none yet, and it is asked for again after that.
    pub async fn add(&mut self, scenario: &Scenario, script: &Path) -> Result<(), Stop> {
        let mode = if scenario.ask { Mode::Ask } else { Mode::Act };
        let brain = match (scenario.model.is_empty(), scenario.client.is_empty()) {
            (_, false) => "claude".into(),
            (false, true) => "native".into(),
            (true, true) => format!("script:{}", script.display()),
        };
        let new = NewTask {
            calls_max: scenario.limit,
            record: scenario.record,
            tags: scenario.tags.clone(),
            shape: scenario.shape.clone(),
            ..NewTask::new(self.project().await?, mode, "play the scenario".into(), Some(brain))
        };
        match self.kernel()?.add(new).await {
            Err(Stop::Refused(no)) if no.code == Code::Pending => self.note("task", Err(no.into()))?,
            added => self.set_task(added?.task),
        }
        Ok(())
    }
}
