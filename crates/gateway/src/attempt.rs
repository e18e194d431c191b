//! One request to one provider and back: admit, wait for a slot, send, pass the answer on.
//!
//! **Invariant.** No request reaches a provider that was not admitted, and nothing of an answer reaches a client before the admission is on
//! disk.

use crate::admission::{Denial, GatewayRefusal, ModelRequest};
use crate::cassette::{CassetteUpstream, ExchangeRecording, RecordedResponse};
use crate::gateway::{ClientSession, Gateway};
use crate::header;
use crate::limiter::{Slot, SlotRequest};
use crate::mask::{self, Masked};
use crate::memory_quota::MemoryLease;
use crate::provider::{ScriptFile, Transport};
use crate::route::RouteTarget;
use crate::secret::Secret;
use crate::stop_signal::StopCause;
use crate::tee::{AnswerSource, InFlight, Passing, Played, Tee};
use crate::upstream::Unanswered;
use dialect::{DenialKind, Dialect, Endpoint, ParsedRequest, RenderedAnswer, TimedChunk, provider_tools};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use std::time::{Duration, Instant};
use world::Ending;

/// Longer than this in line is an overload, where another provider can be asked.
const IN_LINE: Duration = Duration::from_secs(10);
/// Bytes of a refusal that are read for how long it holds.
const REFUSAL_BYTES_MAX: usize = 256 * 1024;
/// What is answered in this process needs no timeout between two pieces.
const NO_TIMEOUT: Duration = Duration::from_secs(86_400);
/// Times one provider is asked again after it said to wait.
const TRIES_MAX: u32 = 8;

/// One request on its way to one provider.
pub(crate) struct UpstreamAttempt<'a> {
    pub gateway: &'a Gateway,
    pub session: &'a ClientSession,
    pub parsed: &'a ParsedRequest,
    pub target: &'a RouteTarget,
    pub head: &'a hyper::http::request::Parts,
    pub path: &'a str,
    pub body: &'a Bytes,
    pub memory: &'a Option<MemoryLease>,
    pub start: Instant,
    /// There is another provider to ask when this one is overloaded.
    pub has_fallback: bool,
}

/// Who gave an answer, for whoever asks from inside this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedProvider {
    pub name: String,
    /// Where its key is, in words.
    pub key_place: Option<String>,
}

pub(crate) enum AttemptOutcome {
    Answered(Response<Tee>),
    /// It never began to answer; the next may be asked.
    Overloaded(Denial),
}

impl UpstreamAttempt<'_> {
    pub async fn run(&self) -> Result<AttemptOutcome, Denial> {
        let RouteTarget { provider, model, tier } = self.target;
        let request = ModelRequest {
            parsed: self.parsed,
            provider: &provider.name,
            host: provider.host(),
            model,
            tier: *tier,
            is_free: provider.free,
            body: self.body,
        };
        if let Some(refusal) = self.refusal() {
            self.session.admission.record_refusal(&request, &refusal).await;
            return Err(Denial::new(DenialKind::Denied, format!("{}; {}", refusal.reason, refusal.hint)));
        }
        let admitted = self.session.admission.admit(&request).await?;
        let output_max = admitted.output_max;
        let flight = InFlight::new(admitted, self.memory.clone());
        if let Some(why) = flight.cassette_fault() {
            return self.fail(flight, Denial::new(DenialKind::Upstream, why)).await;
        }
        let new_model = (*model != self.parsed.model).then_some(model.as_str());
        let (path, body) = match self.parsed.dialect.rewrite_request(self.path, self.body, new_model, output_max) {
            Ok(rewritten) => rewritten,
            Err(error) => return self.fail(flight, Denial::new(DenialKind::BadRequest, error.to_string())).await,
        };
        let mut stop = flight.stop();
        let asked = async {
            match &provider.transport {
                Transport::Http(_) => self.ask_http(flight, &path, body.into()).await,
                Transport::Script(file) => self.ask_script(flight, file, &path, &body).await,
                Transport::Cassette(cassette) => self.ask_cassette(flight, cassette).await,
            }
        };
        tokio::select! {
            biased;
            arrival = asked => arrival,
            // What is dropped here settles itself as stopped.
            Some(StopCause { words, .. }) = stop.stopped() => Err(Denial::new(DenialKind::Cancelled, words)),
        }
    }

    /// Why the request is refused here: the provider would run tools by itself that the operator did not allow. A room without network would
    /// have one there.
    fn refusal(&self) -> Option<GatewayRefusal> {
        let RouteTarget { provider, model, .. } = self.target;
        let names = provider.may_not_run(self.parsed, model);
        let all = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        names.first()?;
        let flags: Vec<(&str, &str)> = names.iter().filter_map(|name| self.parsed.dialect.client_flag_without(name)).collect();
        let instead = match flags.first() {
            _ if names.iter().any(|name| name == provider_tools::WEB_FETCH) => {
                "send pictures and files themselves, and leave out tools that fetch".to_owned()
            }
            Some((client, _)) => {
                let flags: Vec<&str> = flags.iter().map(|(_, flag)| *flag).collect();
                format!("leave it out ({client}: `{}`)", flags.join(" "))
            }
            None => "leave it out".to_owned(),
        };
        let reason = format!("`{}` would run {all} for `{model}` by itself, out of sight and reach of any sandbox", provider.name);
        let list = names.join(", ");
        let hint = format!(
            "{instead}; the operator can allow it by `runs: [{list}]` under `providers.{}` in $SKEP_HOME/config.yml",
            provider.name
        );
        Some(GatewayRefusal { reason, hint })
    }

    async fn ask_http(&self, mut flight: InFlight, path: &str, body: Bytes) -> Result<AttemptOutcome, Denial> {
        let provider = &self.target.provider;
        let deadline = Instant::now() + self.gateway.hold();
        for _ in 0..TRIES_MAX {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = if self.has_fallback { left.min(IN_LINE) } else { left };
            let entrant = SlotRequest { pid: self.session.pid, model: &self.target.model, wait: left, has_fallback: self.has_fallback };
            let slot = match provider.limiter.enter(entrant).await {
                Ok(slot) => slot,
                Err(busy) => {
                    let message = format!("`{}` is busy with other requests and its limits", provider.name);
                    return self
                        .overloaded(flight, Denial { retry_after: busy.retry_after, ..Denial::new(DenialKind::RateLimited, message) })
                        .await;
                }
            };
            let (request, secret) = match self.request(path, body.clone()).await {
                Ok(made) => made,
                Err(denial) => return self.fail(flight, denial).await,
            };
            if let Err(denial) = flight.note_sent().await {
                return self.fail(flight, denial).await;
            }
            let response = match self.gateway.upstream.send(request, provider.answer).await {
                Ok(response) => mask::masked(response, secret.as_ref()),
                Err(Unanswered { why, unseen }) => {
                    flight.outcome.sent = !unseen;
                    let kind = if unseen { DenialKind::Overloaded } else { DenialKind::Upstream };
                    if unseen {
                        let at = provider.address().map(|(host, port)| format!(" at {host}:{port}")).unwrap_or_default();
                        let message = format!("`{}` cannot be reached{at}: {why}", provider.name);
                        return self.overloaded(flight, Denial { is_unreachable: true, ..Denial::new(kind, message) }).await;
                    }
                    let denial = Denial::new(kind, format!("`{}`: {why}", provider.name));
                    return self.fail(flight, denial).await;
                }
            };
            let status = response.status().as_u16();
            let wait = provider.limiter.heed(&self.target.model, status, response.headers());
            flight.outcome.status = Some(status);
            if response.status().is_informational() {
                let message = format!("`{}` answered with {status}, which nobody asked for", provider.name);
                return self.fail(flight, Denial::new(DenialKind::Upstream, message)).await;
            }
            if response.status().is_redirection() {
                let message =
                    format!("`{}` redirects requests ({status}), and its key is sent to no other host; correct its `url`", provider.name);
                return self.fail(flight, Denial::new(DenialKind::Misconfigured, message)).await;
            }
            // Asked for uncompressed. What cannot be looked through could carry the key that it was asked with.
            if secret.is_some() && !is_plain(response.headers()) {
                let message = format!("`{}` answered compressed, which nobody asked for, and it cannot be looked through", provider.name);
                return self.fail(flight, Denial::new(DenialKind::Upstream, message)).await;
            }
            if status == 401 {
                provider.forget().await;
            }
            if !matches!(status, 429 | 503 | 529) {
                return self.pass_on(flight, response, slot).await;
            }
            let (head, refusal) = match small(response, provider.idle).await {
                Ok(refusal) => refusal,
                Err(why) => {
                    return self
                        .fail(flight, Denial::new(DenialKind::Overloaded, format!("`{}` is overloaded ({status}): {why}", provider.name)))
                        .await;
                }
            };
            let told = || self.parsed.dialect.retry_delay(&refusal).inspect(|wait| provider.limiter.close(&self.target.model, *wait));
            let wait = wait.or_else(told);
            if self.has_fallback {
                let message = format!("`{}` is overloaded ({status})", provider.name);
                return self.overloaded(flight, Denial::new(DenialKind::Overloaded, message)).await;
            }
            // Worth waiting for where the provider says until when, and that is soon enough for the client.
            if wait.and_then(|wait| Instant::now().checked_add(wait)).is_none_or(|until| until >= deadline) {
                let whole = TimedChunk { after_ms: 0, bytes: refusal.to_vec() };
                return self.play(flight, status, header::to_client(&head.headers), vec![whole], false).await;
            }
        }
        let message = format!("`{}` said to wait, {TRIES_MAX} times", provider.name);
        self.overloaded(flight, Denial::new(DenialKind::RateLimited, message)).await
    }

    /// Answers out of a file, as a provider would: metered, and at the pace that the script has.
    async fn ask_script(&self, mut flight: InFlight, file: &ScriptFile, path: &str, body: &[u8]) -> Result<AttemptOutcome, Denial> {
        let script = match file.script() {
            Ok(script) => script,
            // Asking again is of no use before somebody has mended the file.
            Err(why) => return self.fail(flight, Denial::new(DenialKind::BadRequest, why)).await,
        };
        let RenderedAnswer { status, content_type, headers, chunks, is_cut } =
            script.respond(self.parsed.dialect, self.parsed.endpoint, path, body);
        if let Err(denial) = flight.note_sent().await {
            return self.fail(flight, denial).await;
        }
        flight.outcome.status = Some(status);
        if matches!(status, 429 | 503 | 529) && self.has_fallback {
            let message = format!("`{}` is overloaded ({status})", self.target.provider.name);
            return self.overloaded(flight, Denial::new(DenialKind::Overloaded, message)).await;
        }
        let named = |(name, value): (&'static str, String)| Some((HeaderName::from_static(name), HeaderValue::from_str(&value).ok()?));
        let mut own: HeaderMap = headers.into_iter().filter_map(named).collect();
        own.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.play(flight, status, own, chunks, is_cut).await
    }

    /// Answers with what was recorded, or with the difference to it.
    async fn ask_cassette(&self, mut flight: InFlight, cassette: &CassetteUpstream) -> Result<AttemptOutcome, Denial> {
        let played = cassette.play(self.session.pid, self.parsed.dialect, self.path, self.body, &self.gateway.redact);
        let RecordedResponse { status, headers, chunks, complete } = match played {
            Ok(answer) => answer,
            Err(why) => return self.fail(flight, Denial::new(DenialKind::BadRequest, why)).await,
        };
        if let Err(denial) = flight.note_sent().await {
            return self.fail(flight, denial).await;
        }
        flight.outcome.status = Some(status);
        let named = |(name, value): (String, String)| Some((name.parse::<HeaderName>().ok()?, HeaderValue::from_str(&value).ok()?));
        let headers: HeaderMap = headers.into_iter().filter_map(named).collect();
        self.play(flight, status, headers, chunks, !complete).await
    }

    /// An answer made in this process, at the pace that it has.
    async fn play(
        &self,
        mut flight: InFlight,
        status: u16,
        headers: HeaderMap,
        chunks: Vec<TimedChunk>,
        cut: bool,
    ) -> Result<AttemptOutcome, Denial> {
        if let Err(denial) = flight.recorded().await {
            return self.fail(flight, denial).await;
        }
        if (200..300).contains(&status) && self.parsed.endpoint == Endpoint::Generate {
            flight.meter = Some(self.parsed.meter());
        }
        self.start_recording(&mut flight, &headers);
        let pieces = chunks.into_iter().map(|chunk| (Duration::from_millis(chunk.after_ms), Bytes::from(chunk.bytes))).collect();
        let source = AnswerSource::Played(Played::new(pieces, cut));
        let stream = self.stream_dialect(&headers);
        let passing = Passing { source, flight, start: self.start, stream, slot: None };
        let mut response = Response::new(Tee::passing(passing, NO_TIMEOUT));
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        *response.headers_mut() = headers;
        Ok(AttemptOutcome::Answered(response))
    }

    /// Starts to record the exchange as the client sees it, names and limits as it wrote them.
    fn start_recording(&self, flight: &mut InFlight, answer: &HeaderMap) {
        let (method, headers) = (self.head.method.as_str(), &self.head.headers);
        flight.start_recording(|cassette| {
            ExchangeRecording::new(cassette, self.parsed.dialect, method, self.path, headers, self.body, answer)
        });
    }

    /// The request as the provider gets it, and the credential in it.
    async fn request(&self, path: &str, body: Bytes) -> Result<(Request<Full<Bytes>>, Option<Secret>), Denial> {
        let provider = &self.target.provider;
        let bug = |what: &str| Denial::new(DenialKind::Upstream, format!("the request to `{}` cannot be made: {what}", provider.name));
        let uri = provider
            .url(&self.parsed.dialect.upstream_path(path))
            .and_then(|url| url.as_str().parse().ok())
            .ok_or_else(|| bug("its url"))?;
        let mut headers = header::to_provider(&self.head.headers);
        let secret = provider.credential(&self.gateway.upstream).await;
        // A login may have failed to be renewed for a moment; a key that is not there comes back by nobody's waiting.
        let kind = if provider.only_for().is_some() { DenialKind::Upstream } else { DenialKind::Misconfigured };
        let secret = secret.map_err(|none| Denial::new(kind, format!("`{}` has no key: {}; {}", provider.name, none.what, none.fix)))?;
        if let Some(secret) = &secret {
            provider.new_secrets(secret).iter().for_each(|secret| (self.gateway.observe_secret)(secret));
            provider.sign(self.parsed.dialect, secret, &mut headers).map_err(|none| bug(&none.what))?;
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok((request, secret))
    }

    /// The provider's answer, byte for byte, on its way to the client.
    async fn pass_on(&self, mut flight: InFlight, response: Response<Masked>, slot: Slot) -> Result<AttemptOutcome, Denial> {
        if let Err(denial) = flight.recorded().await {
            return self.fail(flight, denial).await;
        }
        let (head, body) = response.into_parts();
        flight.outcome.status = Some(head.status.as_u16());
        if head.status.is_success() && self.parsed.endpoint == Endpoint::Generate {
            // Asked for uncompressed; an answer that is not cannot be read along, and counts as one without usage.
            let meter = self.parsed.meter();
            flight.meter = Some(if is_plain(&head.headers) { meter } else { meter.packed() });
        }
        self.start_recording(&mut flight, &head.headers);
        let source = AnswerSource::Upstream(Box::new(body));
        let stream = self.stream_dialect(&head.headers);
        let passing = Passing { source, flight, start: self.start, stream, slot: Some(slot) };
        let mut passed = Response::new(Tee::passing(passing, self.target.provider.idle));
        *passed.status_mut() = head.status;
        *passed.headers_mut() = header::to_client(&head.headers);
        let provider = &self.target.provider;
        // Never leaves this process.
        passed.extensions_mut().insert(AskedProvider { name: provider.name.clone(), key_place: provider.key_place() });
        Ok(AttemptOutcome::Answered(passed))
    }

    /// The wire format, where these are the headers of a stream of events.
    fn stream_dialect(&self, headers: &HeaderMap) -> Option<Dialect> {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        kind.is_some_and(|kind| kind.starts_with("text/event-stream")).then_some(self.parsed.dialect)
    }

    async fn overloaded(&self, mut flight: InFlight, denial: Denial) -> Result<AttemptOutcome, Denial> {
        flight.outcome.ending = Ending::Broken;
        flight.outcome.why = Some(denial.message.clone());
        flight.settle().await;
        Ok(AttemptOutcome::Overloaded(denial))
    }

    async fn fail(&self, mut flight: InFlight, denial: Denial) -> Result<AttemptOutcome, Denial> {
        flight.outcome.ending = Ending::Broken;
        flight.outcome.why = Some(denial.message.clone());
        flight.settle().await;
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

fn is_plain(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).iter().all(|encoding| encoding == "identity")
}
