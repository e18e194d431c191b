//! The built-in brain: which model it asks, which tools it is told of, and how its requests reach the gateway.
//!
//! **Invariant.** It has no other way to a model than any process has: its requests are calls, paid from its budget. Where a person
//! must answer first, the task parks; where a budget must be raised, it says so and waits.

use crate::Models;
use crate::admission::{Denied, ProcessAdmission, cancellation};
use crate::wait::Waited;
use brain::model::{Model, ModelFault, ModelInfo, ModelResponse, Purpose, ResponseBody, RetryClass};
use brain::{Brain, Brief, Native, ToolSpec};
use gateway::{Admission, Admitted, BoxedFuture, Denial, Dialect, Gateway, GatewayRefusal, ModelNames, ModelRequest, Session};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use world::Stop;
use world::{Code, Mode, Refusal, ReviewId, Task, ZoneId};

/// The tier that sums up.
const TIER_OF_SUMMARIES: &str = "operational";
/// Tools that are only for people.
const NOT_FOR_BRAINS: &[&str] = &[gate::SANDBOX_RUN];

impl Models {
    /// Is there a model of this name for the zone? The reason where there is none.
    pub fn model_card(&self, zone: ZoneId, model: &str) -> Result<ModelInfo, Refusal> {
        let names = self.gate.policies.trusted(zone).ok().flatten().map(|trusted| trusted.config.models.clone()).unwrap_or_default();
        let mut why = None;
        for (dialect, context_tokens) in CONTEXTS {
            match self.gateway().find(&names, model, dialect) {
                Ok(targets) => {
                    let provider = targets.first().map(|target| &target.provider);
                    if let Some(Err(why)) = provider.map(|provider| provider.check()) {
                        return Err(Refusal::new(Code::BadInput, why).hint("mend the file; docs/models.md has the words of a script"));
                    }
                    let context_tokens = provider.and_then(|provider| provider.context_tokens).unwrap_or(context_tokens);
                    let output_tokens_max = provider.and_then(|provider| provider.output_tokens).unwrap_or(OUTPUT_TOKENS);
                    return Ok(ModelInfo { dialect, model: model.to_owned(), context_tokens, output_tokens_max });
                }
                Err(none) => drop(why.get_or_insert(none)),
            }
        }
        let reason = why.map_or_else(String::new, |none| format!(": {}", none.what));
        Err(Refusal::new(Code::NotFound, format!("no model answers to `{model}`{reason}")).hint(
            "set one up in $SKEP_HOME/config.yml: `providers: {anthropic: {url: https://api.anthropic.com, dialect: anthropic, key: \
             {env: ANTHROPIC_API_KEY}}}` and `models: {tactical: anthropic/MODEL}`; docs/models.md says more",
        ))
    }

    /// Opens the built-in brain for a task; of these tools it is told those that it may use.
    pub fn open_native(self: &Arc<Self>, task: &Task, model: &str, tools: &tool::Registry) -> Result<Box<dyn Brain>, Stop> {
        let work = self.model_card(task.zone, model)?;
        let summary = self.model_card(task.zone, TIER_OF_SUMMARIES).unwrap_or_else(|_| work.clone());
        let door = Arc::new(DeferringAdmission { inner: ProcessAdmission::of(self, task.pid, task.zone), deferred: Mutex::default() });
        let session = self.session_with(task.pid, None, door.clone())?;
        let model = GatewayModel { gateway: self.gateway().clone(), session, door, work, summary };
        let (role, pins) = (
            self.ledger.look(|world| world.processes.get(&task.pid).map(|process| process.role.clone())).unwrap_or_default(),
            self.gate.policies.trusted(task.zone)?.map(|trusted| trusted.config.pins.clone()).unwrap_or_default(),
        );
        let may_change = task.mode != Mode::Ask;
        let workflow = Some("Workflow state: idle.".to_owned());
        Ok(Box::new(Native::new(Arc::new(model), Brief { role, may_change, workflow, pins, tools: tools_for(tools, may_change) })))
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
struct GatewayModel {
    gateway: Arc<Gateway>,
    session: Session,
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
                    let gateway::InProcessResponse { status, retry_after, settled, .. } = answer;
                    Ok(ModelResponse { status, retry_after, is_final: settled, body: Box::new(Pieces(answer)) })
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
