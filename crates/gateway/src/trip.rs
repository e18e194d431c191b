//! One admitted request to one provider and back: when, send, pass on.
//!
//! **Invariant.** No request reaches a provider without a [`Leave`], and nothing of an answer reaches a client before the admission is on
//! disk.

use crate::cassette::{Answer, Reel, Taking, Tape};
use crate::door::{Denial, Forbidden, Leave, Wish};
use crate::gateway::{Gateway, Session, no};
use crate::header;
use crate::limiter::{Entrant, Slot};
use crate::mask::{self, Masked};
use crate::provider::{Play, Road};
use crate::route::Target;
use crate::secret::Secret;
use crate::space::Space;
use crate::stop::Stopped;
use crate::tee::{Flow, Open, Played, Source, Tee};
use crate::upstream::Unanswered;
use dialect::{DenialKind, Dialect, Endpoint, ParsedRequest, RenderedAnswer, TimedChunk, provider_tools};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use world::Ending;

/// Longer than this in line is an overload, where another provider can be asked.
const IN_LINE: Duration = Duration::from_secs(10);
/// Bytes of a refusal that are read for how long it holds.
const REFUSAL_BYTES_MAX: usize = 256 * 1024;
/// Times one provider is asked again after it said to wait.
const TRIES_MAX: u32 = 8;

/// One request on its way to one provider.
pub(crate) struct Trip<'a> {
    pub gateway: &'a Gateway,
    pub session: &'a Session,
    pub ask: &'a ParsedRequest,
    pub target: &'a Target,
    pub head: &'a hyper::http::request::Parts,
    pub path: &'a str,
    pub body: &'a Bytes,
    pub space: &'a Option<Space>,
    pub start: Instant,
    /// There is another provider to ask when this one is overloaded.
    pub more: bool,
}

/// What is kept of an exchange.
struct Keep {
    record: bool,
    tape: Option<Arc<Tape>>,
}

pub(crate) enum Arrival {
    Answered(Response<Tee>),
    /// It never began to answer; the next may be asked.
    Overloaded(Denial),
}

impl Trip<'_> {
    pub async fn go(&self) -> Result<Arrival, Denial> {
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
        if let Some(forbidden) = self.forbidden() {
            self.session.door.refused(&wish, &forbidden).await;
            return Err(no(DenialKind::Denied, format!("{}; {}", forbidden.reason, forbidden.hint)));
        }
        let leave = self.session.door.admit(&wish).await?;
        let renamed = (*model != self.ask.model).then_some(model.as_str());
        let Leave { output_max, record, tape, stop, pass } = leave;
        let open = Open::new(pass, stop, self.space.clone());
        if let Some(why) = tape.as_ref().and_then(|tape| tape.broken()) {
            return self.fail(open, no(DenialKind::Upstream, why)).await;
        }
        let keep = Keep { record, tape };
        let (path, body) = match self.ask.dialect.rewrite_request(self.path, self.body, renamed, output_max) {
            Ok(rewritten) => rewritten,
            Err(error) => return self.fail(open, no(DenialKind::BadRequest, error.to_string())).await,
        };
        let mut stop = open.stop();
        let asked = async {
            match &provider.road {
                Road::Http(_) => self.ask_http(open, keep, &path, body.into()).await,
                Road::Script(play) => self.ask_script(open, keep, play, &path, &body).await,
                Road::Cassette(reel) => self.ask_cassette(open, keep, reel).await,
            }
        };
        tokio::select! {
            biased;
            arrival = asked => arrival,
            // What is dropped here settles itself as stopped.
            Some(Stopped { words, .. }) = stop.stopped() => Err(no(DenialKind::Cancelled, words)),
        }
    }

    /// What the provider would run by itself, where nobody allowed that: a room without network would have one there.
    fn forbidden(&self) -> Option<Forbidden> {
        let Target { provider, model, .. } = self.target;
        let names = provider.may_not_run(self.ask, model);
        let all = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        names.first()?;
        let flags: Vec<(&str, &str)> = names.iter().filter_map(|name| self.ask.dialect.client_flag_without(name)).collect();
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
        let reason = format!("`{}` would run {all} for `{model}` by itself, out of sight and reach of any room", provider.name);
        let list = names.join(", ");
        let hint = format!(
            "{instead}; the operator can allow it by `runs: [{list}]` under `providers.{}` in $SKEP_HOME/config.yml",
            provider.name
        );
        Some(Forbidden { reason, hint })
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
                    return self.overloaded(open, Denial { retry_after: busy.retry_after, ..no(DenialKind::RateLimited, message) }).await;
                }
            };
            let (request, secret) = match self.request(path, body.clone()).await {
                Ok(made) => made,
                Err(denial) => return self.fail(open, denial).await,
            };
            if let Err(denial) = open.leaves().await {
                return self.fail(open, denial).await;
            }
            let response = match self.gateway.upstream.send(request, provider.answer).await {
                Ok(response) => mask::masked(response, secret.as_ref()),
                Err(Unanswered { why, unseen }) => {
                    open.end.sent = !unseen;
                    let kind = if unseen { DenialKind::Overloaded } else { DenialKind::Upstream };
                    let denial = no(kind, format!("`{}`: {why}", provider.name));
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
                return self.fail(open, no(DenialKind::Upstream, message)).await;
            }
            if response.status().is_redirection() {
                let message =
                    format!("`{}` sends requests elsewhere ({status}), and its key goes nowhere else; mend its `url`", provider.name);
                return self.fail(open, no(DenialKind::Misconfigured, message)).await;
            }
            // Asked for uncompressed. What cannot be looked through could carry the key that it was asked with.
            if secret.is_some() && !is_plain(response.headers()) {
                let message = format!("`{}` answered compressed, which nobody asked for, and it cannot be looked through", provider.name);
                return self.fail(open, no(DenialKind::Upstream, message)).await;
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
                    return self
                        .fail(open, no(DenialKind::Overloaded, format!("`{}` is overloaded ({status}): {why}", provider.name)))
                        .await;
                }
            };
            let told = || self.ask.dialect.retry_delay(&refusal).inspect(|wait| provider.limiter.close(&self.target.model, *wait));
            let wait = wait.or_else(told);
            if self.more {
                let message = format!("`{}` is overloaded ({status})", provider.name);
                return self.overloaded(open, no(DenialKind::Overloaded, message)).await;
            }
            // Worth waiting for where the provider says until when, and that is soon enough for the client.
            if wait.and_then(|wait| Instant::now().checked_add(wait)).is_none_or(|until| until >= deadline) {
                let whole = TimedChunk { after_ms: 0, bytes: refusal.to_vec() };
                return self.play(open, keep, status, header::to_client(&head.headers), vec![whole], false).await;
            }
        }
        let message = format!("`{}` said to wait, {TRIES_MAX} times", provider.name);
        self.overloaded(open, no(DenialKind::RateLimited, message)).await
    }

    /// Answers out of a file, as a provider would: metered, and at the pace that the script has.
    async fn ask_script(&self, mut open: Open, keep: Keep, play: &Play, path: &str, body: &[u8]) -> Result<Arrival, Denial> {
        let script = match play.script() {
            Ok(script) => script,
            // Asking again is of no use before somebody has mended the file.
            Err(why) => return self.fail(open, no(DenialKind::BadRequest, why)).await,
        };
        let RenderedAnswer { status, content_type, headers, chunks, is_cut } =
            script.respond(self.ask.dialect, self.ask.endpoint, path, body);
        if let Err(denial) = open.leaves().await {
            return self.fail(open, denial).await;
        }
        open.end.status = Some(status);
        if matches!(status, 429 | 503 | 529) && self.more {
            let message = format!("`{}` is overloaded ({status})", self.target.provider.name);
            return self.overloaded(open, no(DenialKind::Overloaded, message)).await;
        }
        let named = |(name, value): (&'static str, String)| Some((HeaderName::from_static(name), HeaderValue::from_str(&value).ok()?));
        let mut own: HeaderMap = headers.into_iter().filter_map(named).collect();
        own.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.play(open, keep, status, own, chunks, is_cut).await
    }

    /// Answers with what was recorded, or with the difference to it.
    async fn ask_cassette(&self, mut open: Open, keep: Keep, reel: &Reel) -> Result<Arrival, Denial> {
        let played = reel.play(self.session.who, self.ask.dialect, self.path, self.body, &self.gateway.redact);
        let Answer { status, headers, chunks, complete } = match played {
            Ok(answer) => answer,
            Err(why) => return self.fail(open, no(DenialKind::BadRequest, why)).await,
        };
        if let Err(denial) = open.leaves().await {
            return self.fail(open, denial).await;
        }
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
        chunks: Vec<TimedChunk>,
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
        let events = self.events(&headers);
        let idle = Duration::from_secs(86_400);
        let mut response =
            Response::new(Tee::passing(Flow { source, open, record: keep.record, slot: None, start: self.start, idle, events }));
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
        let bug = |what: &str| no(DenialKind::Upstream, format!("the request to `{}` cannot be made: {what}", provider.name));
        let uri =
            provider.url(&self.ask.dialect.upstream_path(path)).and_then(|url| url.as_str().parse().ok()).ok_or_else(|| bug("its url"))?;
        let mut headers = header::to_provider(&self.head.headers);
        let secret = provider.credential(&self.gateway.upstream).await;
        // A login may have failed to be renewed for a moment; a key that is not there comes back by nobody's waiting.
        let kind = if provider.only_for().is_some() { DenialKind::Upstream } else { DenialKind::Misconfigured };
        let secret = secret.map_err(|none| no(kind, format!("`{}` has no key: {}; {}", provider.name, none.what, none.fix)))?;
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
            let meter = self.ask.meter();
            open.meter = Some(if is_plain(&head.headers) { meter } else { meter.packed() });
        }
        self.take_down(&mut open, &keep, &head.headers);
        let (events, idle) = (self.events(&head.headers), self.target.provider.idle);
        let flow =
            Flow { source: Source::Upstream(Box::new(body)), open, record: keep.record, slot: Some(slot), start: self.start, idle, events };
        let mut passed = Response::new(Tee::passing(flow));
        *passed.status_mut() = head.status;
        *passed.headers_mut() = header::to_client(&head.headers);
        Ok(Arrival::Answered(passed))
    }

    /// The wire format, where these are the headers of a stream of events.
    fn events(&self, headers: &HeaderMap) -> Option<Dialect> {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        kind.is_some_and(|kind| kind.starts_with("text/event-stream")).then_some(self.ask.dialect)
    }

    async fn overloaded(&self, mut open: Open, denial: Denial) -> Result<Arrival, Denial> {
        open.end.ending = Ending::Broken;
        open.end.why = Some(denial.message.clone());
        open.settle().await;
        Ok(Arrival::Overloaded(denial))
    }

    async fn fail(&self, mut open: Open, denial: Denial) -> Result<Arrival, Denial> {
        open.end.ending = Ending::Broken;
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

fn is_plain(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).iter().all(|encoding| encoding == "identity")
}
