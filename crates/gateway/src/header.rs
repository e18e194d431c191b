//! Which headers cross the gateway, in each direction. What is not on a list does not.

use crate::secret::Secret;
use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderValue};

/// From a client to a provider, by name or by the beginning of a name. Credentials, cookies and hop-by-hop headers are not here.
const TO_PROVIDER: &[&str] = &[
    "accept",
    "content-type",
    "user-agent",
    "anthropic-*",
    "openai-beta",
    "x-app",
    "x-claude-code-*",
    "x-stainless-*",
    "x-goog-api-client",
    "x-gemini-*",
    "x-client-request-id",
    "idempotency-key",
    "originator",
    "session_id",
    "session-id",
    "conversation_id",
    "thread-id",
    "x-codex-*",
    "version",
    "http-referer",
    "x-title",
];

/// From a provider to a client.
const TO_CLIENT: &[&str] = &[
    "content-type",
    "content-length",
    "content-encoding",
    "cache-control",
    "date",
    "request-id",
    "x-request-id",
    "retry-after",
    "retry-after-ms",
    "x-should-retry",
    "anthropic-*",
    "openai-processing-ms",
    "openai-version",
    "openai-model",
    "x-ratelimit-*",
    "x-codex-*",
    "x-goog-*",
    "x-gemini-*",
    "x-reasoning-included",
    "x-models-etag",
];

fn listed(list: &[&str], name: &str) -> bool {
    list.iter().any(|entry| match entry.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == *entry,
    })
}

fn keep(headers: &HeaderMap, list: &[&str]) -> HeaderMap {
    headers.iter().filter(|(name, _)| listed(list, name.as_str())).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// A client's headers as a provider gets them. The answer is asked for uncompressed, so that it can be metered as it passes.
pub(crate) fn to_provider(headers: &HeaderMap) -> HeaderMap {
    let mut kept = keep(headers, TO_PROVIDER);
    kept.remove("x-goog-api-key");
    kept.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    kept
}

/// A provider's headers as a client gets them.
pub(crate) fn to_client(headers: &HeaderMap) -> HeaderMap {
    keep(headers, TO_CLIENT)
}

/// Does a request carry this key, in any of the ways in which clients send one?
pub(crate) fn carries(headers: &HeaderMap, query: Option<&str>, key: &Secret) -> bool {
    let plain = ["x-api-key", "x-goog-api-key"].iter().filter_map(|name| headers.get(*name)?.to_str().ok());
    let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|text| text.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let query = query.into_iter().flat_map(|query| query.split('&')).filter_map(|pair| pair.strip_prefix("key="));
    // Every one is compared: how long it takes says nothing about which.
    plain.chain(bearer.map(|(_, key)| key.trim())).chain(query).fold(false, |found, given| key.same(given) | found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderName;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_key_is_found_where_clients_put_it_and_only_whole() {
        let key = Secret::new("k-1");
        for found in [("x-api-key", "k-1"), ("authorization", "Bearer k-1"), ("authorization", "bearer k-1"), ("x-goog-api-key", "k-1")] {
            assert!(carries(&headers(&[found]), None, &key), "{found:?}");
        }
        assert!(carries(&HeaderMap::new(), Some("alt=sse&key=k-1"), &key));
        assert!(carries(&headers(&[("x-api-key", "other"), ("authorization", "Bearer k-1")]), None, &key));
        for missing in [("x-api-key", "k-12"), ("authorization", "k-1"), ("authorization", "Basic k-1"), ("cookie", "k-1")] {
            assert!(!carries(&headers(&[missing]), Some("monkey=k-1"), &key), "{missing:?}");
        }
    }

    #[test]
    fn nothing_crosses_that_is_not_listed() {
        let sent = headers(&[
            ("x-api-key", "ours"),
            ("authorization", "Bearer ours"),
            ("x-goog-api-key", "ours"),
            ("cookie", "c"),
            ("connection", "keep-alive"),
            ("host", "127.0.0.1"),
            ("accept-encoding", "gzip, br"),
            ("x-forwarded-for", "10.0.0.1"),
            ("anthropic-version", "2023-06-01"),
            ("x-stainless-os", "Linux"),
            // Who pays is not the client's to say.
            ("openai-organization", "o"),
            ("openai-project", "p"),
            ("chatgpt-account-id", "a"),
            ("x-goog-user-project", "p"),
        ]);
        let kept = to_provider(&sent);
        let mut names: Vec<_> = kept.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        names.sort();
        assert_eq!(names, ["accept-encoding: identity", "anthropic-version: 2023-06-01", "x-stainless-os: Linux"]);
        let answered = headers(&[("set-cookie", "c"), ("transfer-encoding", "chunked"), ("request-id", "r"), ("server", "x")]);
        assert_eq!(to_client(&answered), headers(&[("request-id", "r")]));
    }

    /// As the vendors' own clients sent them, and as their providers answer; ids left out.
    #[test]
    fn what_clients_and_providers_tell_each_other_gets_there() {
        for name in [
            "accept",
            "content-type",
            "user-agent",
            "anthropic-version",
            "anthropic-beta",
            "anthropic-dangerous-direct-browser-access",
            "x-app",
            "x-claude-code-session-id",
            "x-stainless-retry-count",
            "x-stainless-timeout",
            "originator",
            "session-id",
            "thread-id",
            "x-client-request-id",
            "x-codex-beta-features",
            "x-codex-turn-metadata",
            "x-codex-window-id",
            "x-goog-api-client",
            "x-gemini-api-privileged-user-id",
            "idempotency-key",
        ] {
            assert!(to_provider(&headers(&[(name, "v")])).get(name).is_some_and(|value| value == "v"), "{name}");
        }
        for name in [
            "content-type",
            "content-encoding",
            "request-id",
            "x-request-id",
            "retry-after",
            "retry-after-ms",
            "x-should-retry",
            "anthropic-organization-id",
            "anthropic-ratelimit-requests-remaining",
            "anthropic-ratelimit-unified-reset",
            "anthropic-fast-input-tokens-limit",
            "x-ratelimit-reset-tokens",
            "openai-processing-ms",
            "x-codex-primary-used-percent",
            "x-gemini-service-tier",
        ] {
            assert!(to_client(&headers(&[(name, "v")])).contains_key(name), "{name}");
        }
    }
}
