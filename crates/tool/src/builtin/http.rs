//! `http.request`: from the kernel's process, to public addresses only.

use super::{bytes_in, number, text, time_asked};
use crate::context::{Context, Secret};
use crate::fault::{ToolFault, ToolStop};
use crate::manifest::Manifest;
use crate::net::{self, Aim, Answer, Question};
use crate::place::{Place, Target};
use crate::tool::{Output, Tool, ToolFuture};
use base64::prelude::{BASE64_STANDARD, Engine};
use hyper::body::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use std::time::Duration;
use world::{Code, Refusal};

const TIMEOUT_MS_DEFAULT: u64 = 30_000;
const BODY_BYTES_DEFAULT: u64 = 256 * 1024;
/// All of the caller's headers together.
const HEADERS_BYTES_MAX: usize = 16 * 1024;
/// Headers that belong to the connection, not to the caller.
const RESERVED: &[&str] =
    &["host", "connection", "content-length", "transfer-encoding", "upgrade", "te", "trailer", "expect", "keep-alive"];

#[derive(Debug)]
pub(super) struct HttpRequest(pub(super) Manifest);

impl Tool for HttpRequest {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn touches(&self, _input: &Value) -> Vec<Target> {
        Vec::new()
    }

    fn aim(&self, input: &Value) -> Result<Option<Aim>, Refusal> {
        aim(input).map(Some)
    }

    fn size(&self, input: &Value, _paths: &[Place]) -> Option<u64> {
        bytes_in(input, "body")
    }

    fn reads_only(&self, input: &Value) -> bool {
        matches!(text(input, "method").unwrap_or("GET"), "GET" | "HEAD")
    }

    fn time_limit(&self, input: &Value) -> Result<Duration, Refusal> {
        time_asked(&self.0, input)
    }

    fn dry_run(&self, input: &Value, _paths: &[Place], context: &Context<'_>) -> Result<String, ToolStop> {
        let aim = aim(input)?;
        context.reach.check(&aim)?;
        let bytes = text(input, "body").unwrap_or_default().len();
        Ok(format!("send {} to {} with {bytes} bytes", aim.method, aim.url()))
    }

    fn execute<'a>(&'a self, input: &'a Value, _paths: Vec<Place>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(run(input, context))
    }
}

fn aim(input: &Value) -> Result<Aim, Refusal> {
    Aim::parse(text(input, "url").unwrap_or_default(), text(input, "method").unwrap_or("GET"))
}

async fn run(input: &Value, context: &Context<'_>) -> Result<Output, ToolStop> {
    let body_max = number(input, "max_bytes")?.unwrap_or(BODY_BYTES_DEFAULT);
    let aim = aim(input)?;
    let secrets: Vec<&Secret> = context.secrets.iter().filter(|secret| secret.hosts.contains(&aim.host)).collect();
    let question = Question {
        headers: with_secrets(headers(input)?, &secrets)?,
        aim,
        body: Bytes::from(text(input, "body").unwrap_or_default().as_bytes().to_vec()),
        body_max: usize::try_from(body_max).unwrap_or(usize::MAX).min(context.output_max),
    };
    let ms = number(input, "timeout_ms")?.unwrap_or(TIMEOUT_MS_DEFAULT);
    let work = net::fetch(question, context.reach, context.leave);
    match tokio::time::timeout(Duration::from_millis(ms), work).await {
        Ok(answer) => {
            let mut output = output(answer?);
            hide(&mut output.value, &secrets);
            Ok(output)
        }
        Err(_) => Err(ToolFault::TimedOut { ms }.into()),
    }
}

fn headers(input: &Value) -> Result<HeaderMap, Refusal> {
    let mut headers = HeaderMap::new();
    let mut bytes = 0;
    for (name, value) in input.get("headers").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        bytes += name.len() + value.len();
        let lower = name.to_ascii_lowercase();
        if RESERVED.contains(&lower.as_str()) || lower.starts_with("proxy-") {
            return Err(Refusal::new(Code::BadInput, format!("the header `{name}` is not the caller's to set")).hint("leave it out"));
        }
        let bad = || Refusal::new(Code::BadInput, format!("`{name}` is not a header")).hint("use letters, digits and `-`, on one line");
        let name = HeaderName::from_bytes(lower.as_bytes()).map_err(|_| bad())?;
        headers.insert(name, HeaderValue::from_str(value).map_err(|_| bad())?);
    }
    if bytes > HEADERS_BYTES_MAX {
        return Err(Refusal::new(Code::TooLarge, format!("the headers have {bytes} bytes; {HEADERS_BYTES_MAX} are allowed"))
            .hint("send long data as `body`"));
    }
    Ok(headers)
}

/// Puts secrets in for their sentinels. The caller's input, and so the record of the call, has never held one.
fn with_secrets(mut headers: HeaderMap, secrets: &[&Secret]) -> Result<HeaderMap, Refusal> {
    for (name, value) in &mut headers {
        for secret in secrets.iter().filter(|secret| secret.header.as_deref().is_none_or(|own| own == name.as_str())) {
            let Some(text) = value.to_str().ok().filter(|text| text.contains(&secret.sentinel)) else { continue };
            let bad = |_| Refusal::new(Code::WrongState, "a secret holds what no header can").hint("mend `secrets` in config.yml");
            *value = HeaderValue::from_str(&text.replace(&secret.sentinel, &secret.value)).map_err(bad)?;
            value.set_sensitive(true);
        }
    }
    Ok(headers)
}

/// A server may send back what it was sent.
fn hide(value: &mut Value, secrets: &[&Secret]) {
    match value {
        Value::String(text) => {
            for secret in secrets {
                *text = text.replace(&secret.value, &secret.sentinel);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, secrets)),
        Value::Object(fields) => fields.values_mut().for_each(|field| hide(field, secrets)),
        _ => {}
    }
}

fn output(answer: Answer) -> Output {
    let mut headers: Map<String, Value> = Map::new();
    // Cookies are kept by nobody, so nobody is shown one.
    for (name, value) in answer.headers.iter().filter(|(name, _)| *name != "set-cookie") {
        let value = String::from_utf8_lossy(value.as_bytes());
        match headers.get_mut(name.as_str()).and_then(|held| held.as_str().map(|held| format!("{held}, {value}"))) {
            Some(joined) => headers.insert(name.to_string(), joined.into()),
            None => headers.insert(name.to_string(), value.into()),
        };
    }
    let (body, encoding) = match whole(&answer.body, answer.truncated) {
        Some(text) => (text.to_owned(), "utf-8"),
        None => (BASE64_STANDARD.encode(&answer.body), "base64"),
    };
    let value = json!({
        "url": answer.url,
        "status": answer.status,
        "headers": headers,
        "body": body,
        "encoding": encoding,
        "bytes": answer.body.len(),
        "truncated": answer.truncated,
        "redirects": answer.redirects,
    });
    Output::new(answer.status < 400, value)
}

/// The body as text; a cut may go through its last character.
fn whole(body: &[u8], truncated: bool) -> Option<&str> {
    match std::str::from_utf8(body) {
        Ok(text) => Some(text),
        Err(error) if truncated && error.error_len().is_none() => std::str::from_utf8(&body[..error.valid_up_to()]).ok(),
        Err(_) => None,
    }
}
