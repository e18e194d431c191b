//! One request from a client to a provider and back.
//!
//! Who, what, where to, may it, when, send, pass on. **Invariant.** No request reaches a provider without a [`Leave`], and no answer of a
//! provider reaches a client unmetered.

use crate::cassette::{Answer, Chunk, Redact, Reel, Taking, Tape};
use crate::dialect::{Ask, Dialect, Endpoint, Reply, Trouble, elsewhere};
use crate::door::{Denial, Door, Leave, Wish};
use crate::header;
use crate::intake::{self, REQUEST_BYTES_MAX};
use crate::limiter::{Entrant, Slot};
use crate::mask::{self, Masked};
use crate::provider::{BadSettings, Play, Provider, Road};
use crate::route::{Routes, Target, Tier};
use crate::script::Rendered;
use crate::secret::Secret;
use crate::settings::{Client, Names, Settings};
use crate::space::{Space, Spaces};
use crate::tee::{Open, Played, Source, Tee};
use crate::upstream::{Unanswered, Upstream};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of the requests of one process that are held at once; more wait.
const REQUESTS_BYTES_MAX: usize = 8 * REQUEST_BYTES_MAX;
/// Vendors' clients give up after ten minutes; a request held longer than half of that is better told.
const HOLD: Duration = Duration::from_secs(300);
/// A client that takes nothing for so long has stopped, or wants to hold what others wait for.
const STALL: Duration = Duration::from_secs(300);
/// Longer than this in line is an overload, where another provider can be asked.
const IN_LINE: Duration = Duration::from_secs(10);
/// Bytes of a refusal that are read for how long it holds.
const REFUSAL_BYTES_MAX: usize = 256 * 1024;
/// Times one provider is asked again after it said to wait.
const TRIES_MAX: u32 = 8;

/// A process at its own listener.
pub struct Session {
    /// Whose turn it is among those that wait: the process.
    pub who: u64,
    /// The key that the kernel gave to that process and nobody else.
    pub key: Secret,
    /// The vendor's client it is, as the kernel knows it; what a request says of itself counts for nothing.
    pub client: Option<Client>,
    pub door: Arc<dyn Door>,
}

/// Is told of a credential, so that no text ever holds it.
pub type Learn = Arc<dyn Fn(&Secret) + Send + Sync>;

/// The road to every model. Shared by all processes.
pub struct Gateway {
    routes: Routes,
    upstream: Upstream,
    hold: Duration,
    stall: Duration,
    spaces: Spaces,
    redact: Redact,
    learn: Learn,
}

impl Gateway {
    /// `hold` is how long a request may wait before it is told to come again.
    pub fn new(settings: &Settings, upstream: Upstream, hold: Option<Duration>) -> Result<Gateway, BadSettings> {
        let mut routes = Routes { names: settings.models.clone(), ..Routes::default() };
        for (name, provider) in &settings.providers {
            let mut provider = Provider::new(name, provider)?;
            if let Some(other) = routes.providers.values().find(|other| other.shares_key(&provider)) {
                provider.share_limits(other);
            }
            routes.providers.insert(name.clone(), Arc::new(provider));
        }
        routes.check().map_err(|(name, none)| BadSettings { place: format!("models.{name}"), why: none.what, fix: Some(none.fix) })?;
        let (hold, redact, learn) = (hold.unwrap_or(HOLD), Arc::new(str::to_owned), Arc::new(|_: &Secret| {}));
        Ok(Gateway { routes, upstream, hold, stall: STALL, spaces: Spaces::new(REQUESTS_BYTES_MAX), redact, learn })
    }

    /// Hangs up on clients that take nothing of their answers for this long.
    pub fn stalling(self, stall: Duration) -> Gateway {
        Gateway { stall, ..self }
    }

    /// Gives the requests of one process this much memory together.
    pub fn spacious(self, bytes: usize) -> Gateway {
        Gateway { spaces: Spaces::new(bytes), ..self }
    }

    pub(crate) fn stall(&self) -> Duration {
        self.stall
    }

    /// Takes out of requests what cassettes have no secrets for: a cassette is found by what was written on it.
    pub fn redacting(self, redact: Redact) -> Gateway {
        Gateway { redact, ..self }
    }

    /// Tells of each credential before it is used, and of those that are at hand now.
    pub fn confiding(self, learn: Learn) -> Gateway {
        self.routes.providers.values().flat_map(|provider| provider.at_hand()).for_each(|secret| learn(&secret));
        Gateway { learn, ..self }
    }

    pub fn providers(&self) -> impl Iterator<Item = &Provider> {
        self.routes.providers.values().map(Arc::as_ref)
    }

    /// How long a request may wait.
    pub fn hold(&self) -> Duration {
        self.hold
    }

    /// Where a name leads, for whoever looks.
    pub fn find(&self, own: &Names, model: &str, dialect: Dialect) -> Result<Vec<Target>, crate::route::NoRoute> {
        self.routes.find(own, model, dialect)
    }

    /// Answers one request. What a client did wrong and what a provider failed at are answers too.
    pub async fn answer<B>(&self, session: &Session, request: Request<B>) -> Response<Tee>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let start = Instant::now();
        let (head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let known = match Dialect::of(head.method.as_str(), path) {
            Some((_, Endpoint::Models)) if head.headers.contains_key("anthropic-version") => Some((Dialect::Anthropic, Endpoint::Models)),
            known => known,
        };
        // Told apart by what they ask for even before we know who they are, so that every client understands its refusal.
        let dialect = known.map_or_else(|| elsewhere::likely(path, &head.headers), |(dialect, _)| dialect);
        if !header::carries(&head.headers, head.uri.query(), &session.key) {
            let message = "this key does not belong to this process's gateway; use the key and base url that skep gave it";
            return refuse(dialect, no(Trouble::Unauthorized, message));
        }
        let Some((dialect, endpoint)) = known else {
            return refuse(dialect, no(Trouble::NotFound, elsewhere::why_not(head.method.as_str(), head.uri.path())));
        };
        match self.carry(session, dialect, endpoint, &head, body, start).await {
            Ok(response) => response,
            Err(denial) => refuse(dialect, denial),
        }
    }

    async fn carry<B>(
        &self,
        session: &Session,
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
        let space = self.spaces.take(session.who, length.min(REQUEST_BYTES_MAX)).await;
        let body = intake::read(&head.headers, body).await?;
        let names = session.door.names();
        if endpoint == Endpoint::Models {
            return Ok(reply(dialect.models(&self.known(&names))));
        }
        let ask = dialect.read(path, &body).map_err(|error| no(Trouble::BadRequest, error.to_string()))?;
        let targets = self.targets(session, &names, &ask)?;
        let mut last = None;
        for (at, target) in targets.iter().enumerate() {
            let trip = Trip {
                gateway: self,
                session,
                ask: &ask,
                target,
                head,
                path,
                body: &body,
                space: &space,
                start,
                more: at + 1 < targets.len(),
            };
            match trip.go().await {
                Ok(Arrival::Answered(response)) => return Ok(response),
                Ok(Arrival::Overloaded(denial)) => last = Some(denial),
                Err(denial) => return Err(denial),
            }
        }
        Err(last.unwrap_or_else(|| no(Trouble::Overloaded, "no provider could be asked")))
    }

    /// Names that a client may ask for; a provider's own models are not listed here.
    fn known<'a>(&'a self, own: &'a Names) -> Vec<&'a str> {
        let names: std::collections::BTreeSet<&str> = own.keys().chain(self.routes.names.keys()).map(String::as_str).collect();
        names.into_iter().collect()
    }

    fn targets(&self, session: &Session, names: &Names, ask: &Ask) -> Result<Vec<Target>, Denial> {
        let found = self.routes.find(names, &ask.model, ask.dialect);
        if let Some(provider) = session.door.replay() {
            // As it was when it was recorded, for rules that ask for model and tier; the provider need not be set up any more.
            let (model, tier) = match found.ok().and_then(|found| found.into_iter().next()) {
                Some(target) => (target.model, target.tier),
                None => (ask.model.clone(), Tier::parse(&ask.model).unwrap_or_default()),
            };
            return Ok(vec![Target { provider, model, tier }]);
        }
        let found = found.map_err(|none| no(Trouble::NotFound, format!("{}; {}", none.what, none.fix)))?;
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
                Err(no(Trouble::Denied, message))
            }
            _ => Ok(mine),
        }
    }
}

/// One request on its way to one provider.
struct Trip<'a> {
    gateway: &'a Gateway,
    session: &'a Session,
    ask: &'a Ask,
    target: &'a Target,
    head: &'a hyper::http::request::Parts,
    path: &'a str,
    body: &'a Bytes,
    space: &'a Option<Space>,
    start: Instant,
    /// There is another provider to ask when this one is overloaded.
    more: bool,
}

/// What is kept of an exchange.
struct Keep {
    record: bool,
    tape: Option<Arc<Tape>>,
}

enum Arrival {
    Answered(Response<Tee>),
    /// It never began to answer; the next may be asked.
    Overloaded(Denial),
}

impl Trip<'_> {
    async fn go(&self) -> Result<Arrival, Denial> {
        let Target { provider, model, tier } = self.target;
        let wish = Wish {
            ask: self.ask,
            provider: &provider.name,
            host: provider.host(),
            model,
            tier: *tier,
            free: provider.free,
            body: self.body,
        };
        let leave = self.session.door.admit(&wish).await?;
        let renamed = (*model != self.ask.model).then_some(model.as_str());
        let Leave { output_max, record, tape, pass } = leave;
        let open = Open::new(pass, self.space.clone());
        if let Some(why) = tape.as_ref().and_then(|tape| tape.broken()) {
            return self.fail(open, no(Trouble::Upstream, why)).await;
        }
        let keep = Keep { record, tape };
        let (path, body) = match self.ask.dialect.rewrite(self.path, self.body, renamed, output_max) {
            Ok(rewritten) => rewritten,
            Err(error) => return self.fail(open, no(Trouble::BadRequest, error.to_string())).await,
        };
        match &provider.road {
            Road::Http(_) => self.ask_http(open, keep, &path, body.into()).await,
            Road::Script(play) => self.ask_script(open, keep, play, &path, &body).await,
            Road::Cassette(reel) => self.ask_cassette(open, keep, reel).await,
        }
    }

    async fn ask_http(&self, mut open: Open, keep: Keep, path: &str, body: Bytes) -> Result<Arrival, Denial> {
        let provider = &self.target.provider;
        let deadline = Instant::now() + self.gateway.hold;
        for _ in 0..TRIES_MAX {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = if self.more { left.min(IN_LINE) } else { left };
            let entrant = Entrant { who: self.session.who, model: &self.target.model, wait: left, elsewhere: self.more };
            let slot = match provider.limiter.enter(entrant).await {
                Ok(slot) => slot,
                Err(busy) => {
                    let message = format!("`{}` is busy with other requests and its limits", provider.name);
                    return self.overloaded(open, Denial { retry_after: busy.retry_after, ..no(Trouble::RateLimited, message) }).await;
                }
            };
            let (request, secret) = match self.request(path, body.clone()).await {
                Ok(made) => made,
                Err(denial) => return self.fail(open, denial).await,
            };
            open.end.sent = true;
            let response = match self.gateway.upstream.send(request, provider.answer).await {
                Ok(response) => mask::masked(response, secret.as_ref()),
                Err(Unanswered { why, unseen }) => {
                    open.end.sent = !unseen;
                    let trouble = if unseen { Trouble::Overloaded } else { Trouble::Upstream };
                    let denial = no(trouble, format!("`{}`: {why}", provider.name));
                    if unseen {
                        return self.overloaded(open, denial).await;
                    }
                    return self.fail(open, denial).await;
                }
            };
            let status = response.status().as_u16();
            let wait = provider.limiter.heed(&self.target.model, status, response.headers());
            open.end.status = Some(status);
            if response.status().is_informational() {
                let message = format!("`{}` answered with {status}, which nobody asked for", provider.name);
                return self.fail(open, no(Trouble::Upstream, message)).await;
            }
            if response.status().is_redirection() {
                let message =
                    format!("`{}` sends requests elsewhere ({status}), and its key goes nowhere else; mend its `url`", provider.name);
                return self.fail(open, no(Trouble::Upstream, message)).await;
            }
            if status == 401 {
                provider.forget().await;
            }
            if !matches!(status, 429 | 503 | 529) {
                return self.pass_on(open, keep, response, slot).await;
            }
            let (head, refusal) = match small(response, provider.idle).await {
                Ok(refusal) => refusal,
                Err(why) => {
                    return self.fail(open, no(Trouble::Overloaded, format!("`{}` is overloaded ({status}): {why}", provider.name))).await;
                }
            };
            let told = || self.ask.dialect.wait_in(&refusal).inspect(|wait| provider.limiter.close(&self.target.model, *wait));
            let wait = wait.or_else(told);
            if self.more {
                let message = format!("`{}` is overloaded ({status})", provider.name);
                return self.overloaded(open, no(Trouble::Overloaded, message)).await;
            }
            // Worth waiting for where the provider says until when, and that is soon enough for the client.
            if wait.is_none_or(|wait| Instant::now() + wait >= deadline) {
                let whole = Chunk { after_ms: 0, bytes: refusal.to_vec() };
                return self.play(open, keep, status, header::to_client(&head.headers), vec![whole], false).await;
            }
        }
        let message = format!("`{}` said to wait, {TRIES_MAX} times", provider.name);
        self.overloaded(open, no(Trouble::RateLimited, message)).await
    }

    /// Answers out of a file, as a provider would: metered, and at the pace that the script has.
    async fn ask_script(&self, mut open: Open, keep: Keep, play: &Play, path: &str, body: &[u8]) -> Result<Arrival, Denial> {
        let script = match play.script() {
            Ok(script) => script,
            // Asking again is of no use before somebody has mended the file.
            Err(why) => return self.fail(open, no(Trouble::BadRequest, why)).await,
        };
        let Rendered { status, content_type, headers, chunks, cut } = script.respond(self.ask.dialect, self.ask.endpoint, path, body);
        open.end.sent = true;
        open.end.status = Some(status);
        if matches!(status, 429 | 503 | 529) && self.more {
            let message = format!("`{}` is overloaded ({status})", self.target.provider.name);
            return self.overloaded(open, no(Trouble::Overloaded, message)).await;
        }
        let named = |(name, value): (&'static str, String)| Some((HeaderName::from_static(name), HeaderValue::from_str(&value).ok()?));
        let mut own: HeaderMap = headers.into_iter().filter_map(named).collect();
        own.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.play(open, keep, status, own, chunks, cut).await
    }

    /// Answers with what was recorded, or with the difference to it.
    async fn ask_cassette(&self, mut open: Open, keep: Keep, reel: &Reel) -> Result<Arrival, Denial> {
        let played = reel.play(self.session.who, self.ask.dialect, self.path, self.body, &self.gateway.redact);
        let Answer { status, headers, chunks, complete } = match played {
            Ok(answer) => answer,
            Err(why) => return self.fail(open, no(Trouble::BadRequest, why)).await,
        };
        open.end.sent = true;
        open.end.status = Some(status);
        let named = |(name, value): (String, String)| Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_str(&value).ok()?));
        let headers: HeaderMap = headers.into_iter().filter_map(named).collect();
        self.play(open, keep, status, headers, chunks, !complete).await
    }

    /// An answer made in this process, at the pace that it has.
    async fn play(
        &self,
        mut open: Open,
        keep: Keep,
        status: u16,
        headers: HeaderMap,
        chunks: Vec<Chunk>,
        cut: bool,
    ) -> Result<Arrival, Denial> {
        if let Err(denial) = open.recorded().await {
            return self.fail(open, denial).await;
        }
        if (200..300).contains(&status) && self.ask.endpoint == Endpoint::Generate {
            open.meter = Some(self.ask.meter());
        }
        self.take_down(&mut open, &keep, &headers);
        let pieces = chunks.into_iter().map(|chunk| (Duration::from_millis(chunk.after_ms), Bytes::from(chunk.bytes))).collect();
        let source = Source::Played(Played::new(pieces, cut));
        let mut response = Response::new(Tee::passing(source, keep.record, open, None, self.start, Duration::from_secs(86_400)));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        *response.headers_mut() = headers;
        Ok(Arrival::Answered(response))
    }

    /// The exchange as the client saw it, names and limits as it wrote them.
    fn take_down(&self, open: &mut Open, keep: &Keep, answer: &HeaderMap) {
        let begin = |tape| Taking::new(tape, self.ask.dialect, self.head.method.as_str(), self.path, &self.head.headers, self.body, answer);
        open.taking = keep.tape.clone().map(begin);
    }

    /// The request as the provider gets it, and the credential in it.
    async fn request(&self, path: &str, body: Bytes) -> Result<(Request<Full<Bytes>>, Option<Secret>), Denial> {
        let provider = &self.target.provider;
        let bug = |what: &str| no(Trouble::Upstream, format!("the request to `{}` cannot be made: {what}", provider.name));
        // A client may leave the version out of its paths; a provider wants it.
        let whole = match self.ask.dialect {
            Dialect::Gemini => path.to_owned(),
            _ if path.starts_with("/v1/") => path.to_owned(),
            _ => format!("/v1{path}"),
        };
        let uri = provider.url(&whole).and_then(|url| url.as_str().parse().ok()).ok_or_else(|| bug("its url"))?;
        let mut headers = header::to_provider(&self.head.headers);
        let secret = provider.credential(&self.gateway.upstream).await;
        let secret =
            secret.map_err(|none| no(Trouble::Upstream, format!("`{}` has no key: {}; {}", provider.name, none.what, none.fix)))?;
        if let Some(secret) = &secret {
            provider.news(secret).iter().for_each(|secret| (self.gateway.learn)(secret));
            provider.sign(self.ask.dialect, secret, &mut headers).map_err(|none| bug(&none.what))?;
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok((request, secret))
    }

    /// The provider's answer, byte for byte, on its way to the client.
    async fn pass_on(&self, mut open: Open, keep: Keep, response: Response<Masked>, slot: Slot) -> Result<Arrival, Denial> {
        if let Err(denial) = open.recorded().await {
            return self.fail(open, denial).await;
        }
        let (head, body) = response.into_parts();
        open.end.status = Some(head.status.as_u16());
        if head.status.is_success() && self.ask.endpoint == Endpoint::Generate {
            // Asked for uncompressed; an answer that is not cannot be read along, and counts as one without usage.
            let readable = head.headers.get(CONTENT_ENCODING).is_none_or(|encoding| encoding == "identity");
            let meter = self.ask.meter();
            open.meter = Some(if readable { meter } else { meter.packed() });
        }
        self.take_down(&mut open, &keep, &head.headers);
        let tee = Tee::passing(Source::Upstream(body), keep.record, open, Some(slot), self.start, self.target.provider.idle);
        let mut passed = Response::new(tee);
        *passed.status_mut() = head.status;
        *passed.headers_mut() = header::to_client(&head.headers);
        Ok(Arrival::Answered(passed))
    }

    async fn overloaded(&self, mut open: Open, denial: Denial) -> Result<Arrival, Denial> {
        open.end.why = Some(denial.message.clone());
        open.settle().await;
        Ok(Arrival::Overloaded(denial))
    }

    async fn fail(&self, mut open: Open, denial: Denial) -> Result<Arrival, Denial> {
        open.end.why = Some(denial.message.clone());
        open.settle().await;
        Err(denial)
    }
}

/// An answer that is short, as refusals are.
async fn small(response: Response<Masked>, wait: Duration) -> Result<(hyper::http::response::Parts, Bytes), String> {
    let (head, body) = response.into_parts();
    match tokio::time::timeout(wait, Limited::new(body, REFUSAL_BYTES_MAX).collect()).await {
        Ok(Ok(body)) => Ok((head, body.to_bytes())),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("nothing came for {} s", wait.as_secs_f64())),
    }
}

fn no(trouble: Trouble, message: impl Into<String>) -> Denial {
    Denial { trouble, message: message.into(), retry_after: None }
}

/// A refusal as the provider's own client expects it.
fn refuse(dialect: Dialect, denial: Denial) -> Response<Tee> {
    let mut response = reply(dialect.refusal(dialect.status(denial.trouble), denial.trouble, &denial.message));
    if let Some(wait) = denial.retry_after {
        response.headers_mut().insert(HeaderName::from_static("retry-after"), HeaderValue::from(wait.as_secs().max(1)));
    }
    response
}

fn reply(reply: Reply) -> Response<Tee> {
    let mut response = Response::new(Tee::whole(Bytes::from(reply.body)));
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    for (name, value) in reply.headers {
        headers.extend(HeaderValue::from_str(&value).ok().map(|value| (HeaderName::from_static(name), value)));
    }
    response
}
