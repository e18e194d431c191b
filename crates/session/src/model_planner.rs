//! Planners that ask a model through the gateway: of all tools, or of those of the task's domain.

use crate::asking::ask_model;
use crate::planner::PlannerFault;
use crate::router::{Domain, route};
use crate::work::SessionWork;
use crate::{HostFuture, Planner};
use brain::model::{Model, Purpose};
use brain::{SingleAnswer, SingleQuestion, ToolSpec};
use serde_json::Value;
use std::sync::Arc;
use workflow::{PLAN_TOOL, PlannerPrompt, PlanningRequest, RESPONSE_BYTES_MAX, plan_tool_schema, planner_prompt};
use world::{BrainSpec, Stop};

/// Tokens that a plan may need: 64 steps of a hundred.
const PLAN_TOKENS: u64 = 6_000;

pub(crate) struct ModelPlanner {
    work: SessionWork,
    model: Arc<dyn Model>,
    /// Only the tools of the task's domain are told.
    is_router: bool,
}

impl ModelPlanner {
    pub fn open(work: &SessionWork, model: Option<&str>, is_router: bool) -> Result<ModelPlanner, Stop> {
        Ok(ModelPlanner { work: work.clone(), model: open_model(work, model)?, is_router })
    }

    /// What is told: all of it, or with the tools of its domain. Where that did not do, all tools are told.
    fn routed(&self, request: &PlanningRequest) -> (Domain, PlanningRequest) {
        let is_first = request.round == 0 && request.failure.is_none();
        let domain = if self.is_router && is_first { route(&request.text) } else { Domain::General };
        let tools = request.tools.iter().filter(|tool| domain.has(tool)).cloned().collect();
        (domain, PlanningRequest { tools, ..request.clone() })
    }

    fn told(&self, request: &PlanningRequest) -> PlannerPrompt {
        let mut prompt = planner_prompt(&self.routed(request).1);
        prompt.system.push_str(&format!("\nHand the plan in by a call of `{PLAN_TOOL}`; where you cannot, answer with the JSON."));
        prompt
    }
}

/// The model of this name, or the default one.
pub(crate) fn open_model(work: &SessionWork, model: Option<&str>) -> Result<Arc<dyn Model>, Stop> {
    work.host.models().model_of(work.pid, work.zone, model.unwrap_or(BrainSpec::DEFAULT_MODEL))
}

impl Planner for ModelPlanner {
    fn prompt(&self, request: &PlanningRequest) -> Option<String> {
        Some(self.told(request).text())
    }

    fn label(&self, request: &PlanningRequest) -> Option<String> {
        let model = self.model.info(Purpose::Work).model;
        Some(match self.is_router {
            true => format!("router:{}:{model}", self.routed(request).0.as_str()),
            false => format!("model:{model}"),
        })
    }

    fn context_tokens(&self) -> Option<u64> {
        let info = self.model.info(Purpose::Work);
        Some(info.context_tokens.saturating_sub(info.output_tokens_max.min(info.context_tokens / 8)))
    }

    fn plan<'a>(&'a self, request: &'a PlanningRequest) -> HostFuture<'a, Result<String, PlannerFault>> {
        Box::pin(async move {
            let PlannerPrompt { system, user } = self.told(request);
            let description = "Hands in the plan.".to_owned();
            let tools = [ToolSpec { name: PLAN_TOOL.to_owned(), description, input_schema: plan_tool_schema() }];
            let question = SingleQuestion {
                purpose: Purpose::Work,
                system: &system,
                user: &user,
                tools: &tools,
                output_tokens: PLAN_TOKENS,
                answer_bytes_max: RESPONSE_BYTES_MAX,
            };
            Ok(plan_text(ask_model(&self.work, &*self.model, &question).await?))
        })
    }
}

/// What is to be read as the plan: what was handed in, or else what was said. Two plans are two documents, and are refused as that.
fn plan_text(answer: SingleAnswer) -> String {
    if answer.calls.is_empty() {
        return answer.text;
    }
    let text = |input: Value| match input {
        // Arguments that are no JSON, as the model wrote them.
        Value::String(text) => text,
        input => input.to_string(),
    };
    answer.calls.into_iter().map(|call| text(call.input)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use brain::ToolCall;
    use serde_json::json;

    #[test]
    fn a_plan_is_what_was_handed_in_or_else_what_was_said() {
        let call = |input| ToolCall { tool: PLAN_TOOL.into(), input };
        let text = |text: &str, calls| plan_text(SingleAnswer { text: text.into(), calls });
        assert_eq!(text("{}", vec![]), "{}");
        assert_eq!(text("here it is", vec![call(json!({"goal": "x"}))]), r#"{"goal":"x"}"#);
        assert_eq!(text("", vec![call(json!("{broken"))]), "{broken");
        let two = text("", vec![call(json!({})), call(json!({}))]);
        assert!(workflow::read_response(&two).is_err());
    }
}
