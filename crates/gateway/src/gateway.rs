//! One request of a client: checks its key, parses it, finds its providers. An [`UpstreamAttempt`] sends it to one of them.
//!
//! **Invariant.** Only a client with the key of its process is answered, and no answer of a provider reaches a client unmetered.

use crate::admission::{Admission, Denial};
use crate::attempt::{AttemptOutcome, UpstreamAttempt};
use crate::cassette::Redact;
use crate::header;
use crate::memory_quota::MemoryQuota;
use crate::provider::{BadSettings, Provider};
use crate::read_body::{self, REQUEST_BYTES_MAX};
use crate::route::{RouteTarget, Routes};
use crate::secret::Secret;
use crate::settings::{ModelNames, ModelSettings, VendorClient};
use crate::tee::Tee;
use crate::upstream::Upstream;
use dialect::{DenialKind, Dialect, Endpoint, ParsedRequest, PlainResponse, unsupported};
use hyper::body::{Body, Bytes};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use parking_lot::RwLock;
use std::sync::Arc;
use std::time::{Duration, Instant};
use world::Tier;

/// Bytes of the requests of one process that are held at once; more wait.
const REQUESTS_BYTES_MAX: usize = 8 * REQUEST_BYTES_MAX;
/// Vendors' clients give up after ten minutes; a request held longer than half of that is better told.
const HOLD: Duration = Duration::from_secs(300);
/// A client that takes nothing for so long has stopped, or wants to hold what others wait for.
const STALL: Duration = Duration::from_secs(300);

/// A process at its own listener.
pub struct ClientSession {
    /// The process; those that wait take turns by it.
    pub pid: u64,
    /// The key that the kernel gave to that process and nobody else.
    pub key: Secret,
    /// The vendor's client it is, as the kernel knows it; what a request says of itself counts for nothing.
    pub client: Option<VendorClient>,
    pub admission: Arc<dyn Admission>,
}

/// Called with each credential before it is used, so that redaction knows it.
pub type SecretObserver = Arc<dyn Fn(&Secret) + Send + Sync>;

/// What the operator's settings say: where names lead, and how long a request may wait.
struct InForce {
    settings: ModelSettings,
    routes: Routes,
    hold: Duration,
}

/// The only way to a model. Shared by all processes.
pub struct Gateway {
    in_force: RwLock<Arc<InForce>>,
    pub(crate) upstream: Upstream,
    stall: Duration,
    memory: MemoryQuota,
    pub(crate) redact: Redact,
    pub(crate) observe_secret: SecretObserver,
}

impl Gateway {
    /// `hold` is how long a request may wait before it is told to come again.
    pub fn new(settings: &ModelSettings, upstream: Upstream, hold: Option<Duration>) -> Result<Gateway, BadSettings> {
        let in_force = InForce { settings: settings.clone(), routes: routes(settings, None)?, hold: hold.unwrap_or(HOLD) };
        let (redact, observe_secret) = (Arc::new(str::to_owned), Arc::new(|_: &Secret| {}));
        let in_force = RwLock::new(Arc::new(in_force));
        Ok(Gateway { in_force, upstream, stall: STALL, memory: MemoryQuota::new(REQUESTS_BYTES_MAX), redact, observe_secret })
    }

    /// Takes other settings, from the next request on; those on their way end as they began. A provider whose settings are the same keeps its
    /// limits and its key. Settings that cannot be used change nothing.
    pub fn replace(&self, settings: &ModelSettings, hold: Option<Duration>) -> Result<(), BadSettings> {
        let now = self.in_force.read().clone();
        let routes = routes(settings, Some(&now))?;
        routes.providers.values().flat_map(|provider| provider.at_hand()).for_each(|secret| (self.observe_secret)(&secret));
        *self.in_force.write() = Arc::new(InForce { settings: settings.clone(), routes, hold: hold.unwrap_or(HOLD) });
        Ok(())
    }

    fn in_force(&self) -> Arc<InForce> {
        self.in_force.read().clone()
    }

    /// Hangs up on clients that take nothing of their answers for this long.
    pub fn with_stall_timeout(self, stall: Duration) -> Gateway {
        Gateway { stall, ..self }
    }

    /// Gives the requests of one process this much memory together.
    pub fn with_memory_limit(self, bytes: usize) -> Gateway {
        Gateway { memory: MemoryQuota::new(bytes), ..self }
    }

    pub(crate) fn stall(&self) -> Duration {
        self.stall
    }

    /// Redacts requests before the cassette lookup: a cassette holds redacted requests.
    pub fn with_redactor(self, redact: Redact) -> Gateway {
        Gateway { redact, ..self }
    }

    /// Calls the observer with each credential before it is used, and now with those that are at hand.
    pub fn with_secret_observer(self, observe_secret: SecretObserver) -> Gateway {
        self.in_force().routes.providers.values().flat_map(|provider| provider.at_hand()).for_each(|secret| observe_secret(&secret));
        Gateway { observe_secret, ..self }
    }

    pub fn providers(&self) -> impl Iterator<Item = Arc<Provider>> + use<> {
        self.in_force().routes.providers.values().cloned().collect::<Vec<_>>().into_iter()
    }

    /// The names of the operator's own: tiers and aliases.
    pub fn names(&self) -> ModelNames {
        self.in_force().routes.names.clone()
    }

    /// How long a request may wait.
    pub fn hold(&self) -> Duration {
        self.in_force.read().hold
    }

    /// Where a name leads, for whoever looks.
    pub fn find(
        &self,
        own: &ModelNames,
        model: &str,
        dialect: Dialect,
        client: Option<VendorClient>,
    ) -> Result<Vec<RouteTarget>, crate::route::NoRoute> {
        self.in_force().routes.find(own, model, dialect, client)
    }

    /// Refuses a name that a person gave, and that names a provider that there is not.
    pub fn check_name(&self, own: &ModelNames, model: &str) -> Result<(), crate::route::NoRoute> {
        self.in_force().routes.check_name(own, model)
    }

    /// Answers one request. What a client did wrong and what a provider failed at are answers too.
    pub async fn answer<B>(&self, session: &ClientSession, request: Request<B>) -> Response<Tee>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let start = Instant::now();
        let (head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        // Even before the key is checked, so that every client understands its refusal.
        let (dialect, endpoint) = Dialect::detect_request(head.method.as_str(), path, &|name| head.headers.contains_key(name));
        if !header::carries(&head.headers, head.uri.query(), &session.key) {
            let message = "this key does not belong to this process's gateway; use the key and base url that skep gave it";
            return refuse(dialect, Denial::new(DenialKind::Unauthorized, message));
        }
        let Some(endpoint) = endpoint else {
            return refuse(dialect, Denial::new(DenialKind::NotFound, unsupported::reason(head.method.as_str(), head.uri.path())));
        };
        match self.try_targets(session, dialect, endpoint, &head, body, start).await {
            Ok(response) => response,
            Err(denial) => refuse(dialect, denial),
        }
    }

    /// Reads a request and tries the providers that its model leads to, in turn.
    async fn try_targets<B>(
        &self,
        session: &ClientSession,
        dialect: Dialect,
        endpoint: Endpoint,
        head: &hyper::http::request::Parts,
        body: B,
        start: Instant,
    ) -> Result<Response<Tee>, Denial>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let length = body.size_hint().exact().map_or(REQUEST_BYTES_MAX, |length| usize::try_from(length).unwrap_or(usize::MAX));
        let memory = self.memory.take(session.pid, length.min(REQUEST_BYTES_MAX)).await;
        let body = read_body::read(&head.headers, body).await?;
        let names = session.admission.names();
        if endpoint == Endpoint::Models {
            let known = self.known(&names);
            return Ok(reply(dialect.render_models(&known.iter().map(String::as_str).collect::<Vec<_>>())));
        }
        let parsed = dialect.parse_request(path, &body).map_err(|error| Denial::new(DenialKind::BadRequest, error.to_string()))?;
        let targets = self.targets(session, &names, &parsed)?;
        let mut last = None;
        for (at, target) in targets.iter().enumerate() {
            let attempt = UpstreamAttempt {
                gateway: self,
                session,
                parsed: &parsed,
                target,
                head,
                path,
                body: &body,
                memory: &memory,
                start,
                has_fallback: at + 1 < targets.len(),
            };
            match attempt.run().await {
                Ok(AttemptOutcome::Answered(response)) => return Ok(response),
                Ok(AttemptOutcome::Overloaded(denial)) => last = Some(denial),
                Err(denial) => return Err(denial),
            }
        }
        Err(last.unwrap_or_else(|| Denial::new(DenialKind::Overloaded, "no provider could be asked")))
    }

    /// Names that a client may ask for; a provider's own models are not listed here.
    fn known(&self, own: &ModelNames) -> Vec<String> {
        let names: std::collections::BTreeSet<String> = own.keys().cloned().chain(self.in_force().routes.names.keys().cloned()).collect();
        names.into_iter().collect()
    }

    fn targets(&self, session: &ClientSession, names: &ModelNames, parsed: &ParsedRequest) -> Result<Vec<RouteTarget>, Denial> {
        let found = self.in_force().routes.find(names, &parsed.model, parsed.dialect, session.client);
        if let Some(provider) = session.admission.replay() {
            // As it was when it was recorded, for rules that ask for model and tier; the provider need not be set up any more.
            let (model, tier) = match found.ok().and_then(|found| found.into_iter().next()) {
                Some(target) => (target.model, target.tier),
                None => {
                    let tier = Tier::parse(&parsed.model).unwrap_or_default();
                    world::log!(
                        "skep: a replay asks for `{}`, which leads nowhere today; rules see the tier {}",
                        parsed.model,
                        tier.as_str()
                    );
                    (parsed.model.clone(), tier)
                }
            };
            return Ok(vec![RouteTarget { provider, model, tier }]);
        }
        let found = found.map_err(|none| Denial::new(DenialKind::NotFound, format!("{}; {}", none.what, none.fix)))?;
        let (mine, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|target| match target.provider.only_for() {
            None => true,
            Some(client) => session.client == Some(client),
        });
        match (mine.is_empty(), others.first()) {
            (true, Some(other)) => {
                let message = format!(
                    "`{}` is a subscription login: it works for its vendor's own client, and this process is not that; add a provider with an API key",
                    other.provider.name
                );
                Err(Denial::new(DenialKind::Denied, message))
            }
            _ => Ok(mine),
        }
    }
}

/// Where names lead by these settings. Of the ones `before`, providers that are set up in the same way go on as they are.
fn routes(settings: &ModelSettings, before: Option<&InForce>) -> Result<Routes, BadSettings> {
    let mut routes = Routes { names: settings.models.clone(), ..Routes::default() };
    let same = |before: &&InForce, name: &String, wanted| before.settings.providers.get(name) == Some(wanted);
    for (name, wanted) in &settings.providers {
        let kept = before.filter(|before| same(before, name, wanted)).and_then(|before| before.routes.providers.get(name));
        routes.providers.extend(kept.map(|kept| (name.clone(), kept.clone())));
    }
    for (name, wanted) in &settings.providers {
        if routes.providers.contains_key(name) {
            continue;
        }
        let mut provider = Provider::new(name, wanted)?;
        if let Some(other) = routes.providers.values().find(|other| other.shares_key(&provider)) {
            provider.share_limits(other);
        }
        routes.providers.insert(name.clone(), Arc::new(provider));
    }
    routes.check().map_err(|(name, none)| BadSettings { place: format!("models.{name}"), why: none.what, fix: Some(none.fix) })?;
    Ok(routes)
}

/// A refusal as the provider's own client expects it.
fn refuse(dialect: Dialect, denial: Denial) -> Response<Tee> {
    let mut response = reply(dialect.render_error(dialect.error_status(denial.kind), denial.kind, &denial.message));
    if let Some(wait) = denial.retry_after {
        response.headers_mut().insert(HeaderName::from_static("retry-after"), HeaderValue::from(wait.as_secs().max(1)));
    }
    // Never leaves this process: no header says so.
    response.extensions_mut().insert(OwnRefusal { is_unreachable: denial.is_unreachable });
    response
}

/// Marks an answer that no provider gave, for whoever asks from inside this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnRefusal {
    /// The provider's host took no connection.
    pub is_unreachable: bool,
}

fn reply(reply: PlainResponse) -> Response<Tee> {
    let mut response = Response::new(Tee::whole(Bytes::from(reply.body)));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    for (name, value) in reply.headers {
        headers.extend(HeaderValue::from_str(&value).ok().map(|value| (HeaderName::from_static(name), value)));
    }
    response
}
