//! The built-in brain: which model it asks, which tools it is told of, and how its requests reach the gateway.
//!
//! **Invariant.** It has no other way to a model than any process has: its requests are calls, paid from its budget. Where a person
//! must answer first, the task parks; where a budget must be raised, it says so and waits.

use crate::Models;
use crate::admission::{Denied, ProcessAdmission, cancellation};
use crate::wait::Waited;
use brain::model::{Model, ModelFault, ModelInfo, ModelResponse, ProviderName, Purpose, ResponseBody, RetryClass};
use brain::{Brain, Brief, Native, ProjectText, ToolSpec};
use gateway::{
    Admission, Admitted, BoxedFuture, ClientSession, Denial, Dialect, Gateway, GatewayRefusal, ModelNames, ModelRequest, NoRoute,
    RouteTarget,
};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use workflow::discipline::workflow_prompt;
use world::{Code, Fault, Mode, Pid, Refusal, Remedy, ReviewId, Stop, Task, ZoneId};

/// The tier that sums up.
const TIER_OF_SUMMARIES: &str = "operational";
/// Tools that are only for people.
const NOT_FOR_BRAINS: &[&str] = &[gate::SANDBOX_RUN, "brain.run", "brain.use"];

impl Models {
    /// Is there a model of this name for the zone, or for a folder that is none yet? The reason where there is none.
    pub fn model_card(&self, zone: Option<ZoneId>, model: &str) -> Result<ModelInfo, Refusal> {
        let names = self.names_of(zone);
        if self.gateway().providers().next().is_none() {
            return Err(Refusal::new(Code::NotFound, "no model is set up yet").remedy(Remedy::SetUpModel));
        }
        let no_model = |none: NoRoute| {
            let reason = format!("no model answers to `{model}`: {}", none.what);
            Refusal::new(Code::NotFound, reason).hint(none.fix).remedy(Remedy::SetUpModel)
        };
        self.gateway().check_name(&names, model).map_err(no_model)?;
        let (mut why, mut is_login) = (None, None);
        for (dialect, context_tokens) in CONTEXTS {
            match self.gateway().find(&names, model, dialect, None) {
                Ok(mut targets) => {
                    let client = targets.first().and_then(|target| target.provider.only_for());
                    targets.retain(|target| target.provider.only_for().is_none());
                    let Some(provider) = targets.first().map(|target| &target.provider) else {
                        is_login = is_login.or(client);
                        continue;
                    };
                    if let Err(why) = provider.check() {
                        return Err(Refusal::new(Code::BadInput, why).hint("mend the file; docs/models.md has the words of a script"));
                    }
                    // With a second place to ask, the request goes there.
                    if let Some(none) = provider.missing_key().filter(|_| targets.len() == 1) {
                        let reason = format!("`{}` has no key: {}", provider.name, none.what);
                        return Err(Refusal::new(Code::NotFound, reason).hint(none.fix).remedy(Remedy::SetUpModel));
                    }
                    let context_tokens = provider.context_tokens.unwrap_or(context_tokens);
                    let output_tokens_max = provider.output_tokens.unwrap_or(OUTPUT_TOKENS);
                    return Ok(ModelInfo { dialect, model: model.to_owned(), context_tokens, output_tokens_max });
                }
                Err(none) => drop(why.get_or_insert(none)),
            }
        }
        if let Some(client) = is_login {
            let reason =
                format!("`{model}` leads to the subscription login of {0}, which serves {0} itself and nobody else", client.name());
            let hint = format!("have {} do it, as the brain of the task; or set up a provider with a key", client.name());
            return Err(Refusal::new(Code::Denied, reason).hint(hint));
        }
        Err(no_model(why.unwrap_or_else(|| NoRoute { what: String::new(), fix: String::new() })))
    }

    /// Where a model leads, as `provider/model`, of which nobody here knows whether its provider has it: neither the provider's list, nor a
    /// tier, nor a table of prices names it.
    pub fn unlisted_model(&self, zone: Option<ZoneId>, model: &str) -> Option<String> {
        let (own, names) = (self.names_of(zone), self.gateway().names());
        if own.contains_key(model) || names.contains_key(model) {
            return None;
        }
        let found = CONTEXTS.iter().find_map(|(dialect, _)| self.gateway().find(&own, model, *dialect, None).ok());
        let RouteTarget { provider, model, .. } = found.into_iter().flatten().find(|target| target.provider.only_for().is_none())?;
        let target = format!("{}/{model}", provider.name);
        let is_named = own.values().chain(names.values()).flat_map(gateway::Targets::iter).any(|named| named == target);
        // A script answers to every name.
        let is_script = provider.address().is_none();
        let is_known = is_script || is_named || provider.lists(&model) == Some(true) || self.setup().prices.names(&provider.name, &model);
        (!is_known).then_some(target)
    }

    /// The names that a zone's own files give to models.
    pub fn names_of(&self, zone: Option<ZoneId>) -> ModelNames {
        let trusted = zone.and_then(|zone| self.gate.policies.trusted(zone).ok().flatten());
        trusted.map(|trusted| trusted.config.models.clone()).unwrap_or_default()
    }

    /// Opens the built-in brain for a task; of these tools it is told those that it may use, and of those of the process tree.
    pub fn open_native(
        self: &Arc<Self>,
        task: &Task,
        model: &str,
        tools: &tool::Registry,
        of_tree: Vec<ToolSpec>,
        project_texts: Vec<ProjectText>,
        role_text: String,
    ) -> Result<Box<dyn Brain>, Stop> {
        let work = self.model_card(Some(task.zone), model)?;
        let summary = self.model_card(Some(task.zone), TIER_OF_SUMMARIES).unwrap_or_else(|_| work.clone());
        let model = self.gateway_model(task.pid, task.zone, work, summary)?;
        let (role, pins) = (
            self.ledger.look(|world| world.processes.get(&task.pid).map(|process| process.role.clone())).unwrap_or_default(),
            self.gate.policies.trusted(task.zone)?.map(|trusted| trusted.config.pins.clone()).unwrap_or_default(),
        );
        let may_change = task.present_mode() != Mode::Ask;
        let workflow = task.workflow.as_deref().map(workflow_prompt);
        let workflow = Some(workflow.unwrap_or_else(|| "Workflow state: idle.".to_owned()));
        let mut tools = tools_for(tools, may_change);
        tools.retain(|tool| task.tool_lists.iter().all(|list| list.has(&tool.name)));
        tools.extend(of_tree);
        Ok(Box::new(Native::new(Arc::new(model), Brief { role, role_text, may_change, workflow, pins, project_texts, tools })))
    }

    /// The model of this name, for questions of a process: each is a call, paid from its budget.
    pub fn model_of(self: &Arc<Self>, pid: Pid, zone: ZoneId, model: &str) -> Result<Arc<dyn Model>, Stop> {
        let work = self.model_card(Some(zone), model)?;
        let summary = self.model_card(Some(zone), TIER_OF_SUMMARIES).unwrap_or_else(|_| work.clone());
        Ok(Arc::new(self.gateway_model(pid, zone, work, summary)?))
    }

    /// A process's models, asked through the gateway.
    pub(crate) fn gateway_model(
        self: &Arc<Self>,
        pid: Pid,
        zone: ZoneId,
        work: ModelInfo,
        summary: ModelInfo,
    ) -> Result<GatewayModel, Fault> {
        let door = Arc::new(DeferringAdmission { inner: ProcessAdmission::of(self, pid, zone), deferred: Mutex::default() });
        let session = self.session_with(pid, None, door.clone())?;
        Ok(GatewayModel { gateway: self.gateway().clone(), session, door, work, summary })
    }
}

/// The tools that a brain is told of.
fn tools_for(tools: &tool::Registry, may_change: bool) -> Vec<ToolSpec> {
    let manifests = tools.list().map(tool::RegisteredTool::manifest);
    let fit = manifests.filter(|manifest| !NOT_FOR_BRAINS.contains(&manifest.name.as_str()) && (may_change || manifest.read_only));
    let card = |manifest: &tool::Manifest| ToolSpec {
        name: manifest.name.clone(),
        description: manifest.description.clone(),
        input_schema: manifest.input_schema.clone(),
    };
    fit.map(card).collect()
}

/// What an answer may have when a provider does not say.
const OUTPUT_TOKENS: u64 = 8_192;

/// The dialects in the order in which they are tried, and the context that their vendors' models have today.
const CONTEXTS: [(Dialect, u64); 4] =
    [(Dialect::Anthropic, 200_000), (Dialect::Responses, 200_000), (Dialect::Chat, 128_000), (Dialect::Gemini, 1_000_000)];

/// The brain's way to the gateway.
pub(crate) struct GatewayModel {
    gateway: Arc<Gateway>,
    session: ClientSession,
    door: Arc<DeferringAdmission>,
    work: ModelInfo,
    summary: ModelInfo,
}

/// Why a request was put off.
enum Deferred {
    Review(ReviewId),
    Budget,
}

/// A door that does not hold a request while a person thinks, but says that it should come again.
struct DeferringAdmission {
    inner: ProcessAdmission,
    deferred: Mutex<Option<Deferred>>,
}

impl Admission for DeferringAdmission {
    fn names(&self) -> Arc<ModelNames> {
        self.inner.names()
    }

    fn replay(&self) -> Option<Arc<gateway::Provider>> {
        self.inner.replay()
    }

    fn admit<'a>(&'a self, model_request: &'a ModelRequest<'a>) -> BoxedFuture<'a, Result<Admitted, Denial>> {
        Box::pin(async move {
            let models = self.inner.models()?;
            let asker = self.inner.asker(&models);
            loop {
                match self.inner.ask(&models, model_request).await {
                    Ok(leave) => return Ok(leave),
                    // A limit of ours that passes by itself: it waits here, and nothing is taken for a failure of its model.
                    Err(Denied::Final(Denial { retry_after: Some(after), .. })) if cancellation(&models, asker).is_none() => {
                        tokio::time::sleep(after).await;
                    }
                    Err(Denied::Final(denial)) => return Err(cancellation(&models, asker).unwrap_or(denial)),
                    Err(Denied::Waits { denial, what: Waited::Review(review) }) => {
                        *self.deferred.lock() = Some(Deferred::Review(review));
                        return Err(denial);
                    }
                    Err(Denied::Waits { denial, what }) => {
                        if !what.over(&models, asker, Instant::now() + models.gateway().hold()).await {
                            *self.deferred.lock() = Some(Deferred::Budget);
                            return Err(denial);
                        }
                        if let Some(cancelled) = cancellation(&models, asker) {
                            return Err(cancelled);
                        }
                    }
                }
            }
        })
    }

    fn record_refusal<'a>(&'a self, model_request: &'a ModelRequest<'a>, refusal: &'a GatewayRefusal) -> BoxedFuture<'a, ()> {
        self.inner.record_refusal(model_request, refusal)
    }
}

impl Model for GatewayModel {
    fn info(&self, purpose: Purpose) -> ModelInfo {
        match purpose {
            Purpose::Work => self.work.clone(),
            Purpose::Summary => self.summary.clone(),
        }
    }

    fn send(
        &self,
        _: Purpose,
        path: String,
        body: Vec<u8>,
    ) -> Pin<Box<dyn Future<Output = Result<ModelResponse, ModelFault>> + Send + '_>> {
        Box::pin(async move {
            let answer = self.gateway.ask(&self.session, &path, body).await;
            let mut answer =
                answer.map_err(|unheard| ModelFault { what: unheard.to_string(), retry: RetryClass::Transient, hint: None })?;
            let deferred = self.door.deferred.lock().take();
            match deferred {
                None => {
                    let gateway::InProcessResponse { status, retry_after, settled, is_own, is_unreachable, .. } = answer;
                    let provider = answer.asked.take().map(|asked| ProviderName { name: asked.name, key_place: asked.key_place });
                    let (is_final, is_refusal, body) = (settled, is_own, Box::new(Pieces(answer)));
                    Ok(ModelResponse { status, retry_after, is_final, is_refusal, is_unreachable, provider, body })
                }
                Some(Deferred::Review(review)) => {
                    Err(ModelFault { what: format!("{review} must be answered first"), retry: RetryClass::NeedsReview(review), hint: None })
                }
                Some(Deferred::Budget) => {
                    let mut said = Vec::new();
                    while let Ok(Some(piece)) = answer.piece().await {
                        said.extend_from_slice(&piece);
                    }
                    Err(ModelFault { what: brain::model::error_message(&said), retry: RetryClass::Waiting, hint: None })
                }
            }
        })
    }
}

struct Pieces(gateway::InProcessResponse);

impl ResponseBody for Pieces {
    fn chunk(&mut self) -> Pin<Box<dyn Future<Output = Result<Option<bytes::Bytes>, ModelFault>> + Send + '_>> {
        Box::pin(async move {
            let piece = self.0.piece().await;
            piece.map_err(|unheard| ModelFault { what: unheard.to_string(), retry: RetryClass::Transient, hint: None })
        })
    }
}
