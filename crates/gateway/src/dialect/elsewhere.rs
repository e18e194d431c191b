//! Requests that the vendors take and the gateway does not: a refusal that their clients understand, and why.

use super::Dialect;
use hyper::header::HeaderMap;

/// What a request for a path of no dialect most likely speaks.
pub(crate) fn likely(path: &str, headers: &HeaderMap) -> Dialect {
    let path = path.split('?').next().unwrap_or(path);
    let version = path.split('/').nth(1).unwrap_or_default();
    if headers.contains_key("x-goog-api-key") || matches!(version, "v1beta" | "v1alpha" | "upload") {
        Dialect::Gemini
    } else if headers.contains_key("anthropic-version") || headers.contains_key("x-api-key") || path.starts_with("/v1/messages") {
        Dialect::Anthropic
    } else if path.contains("/responses") {
        Dialect::Responses
    } else {
        Dialect::Chat
    }
}

/// Why there is no such path here, and what to do instead.
pub(crate) fn why_not(method: &str, path: &str) -> String {
    let path = path.split('?').next().unwrap_or(path);
    let has = |words: &[&str]| path.split(['/', ':']).any(|part| words.contains(&part));
    let why = if has(&["batches", "batchGenerateContent", "batch"]) {
        "a batch is answered later, where nobody meters it; send its requests one by one"
    } else if has(&["files", "uploads", "upload", "cachedContents", "vector_stores", "containers", "conversations", "skills"]) {
        "what a provider keeps belongs to its key and not to this process; send the content with the request"
    } else if has(&["responses"]) {
        "answers are not fetched again, as the provider keeps them for its key and not for this process; stream this one, or wait for it"
    } else if has(&[
        "embeddings",
        "embedContent",
        "batchEmbedContents",
        "completions",
        "complete",
        "images",
        "audio",
        "realtime",
        "predict",
    ]) {
        "it meters Messages, Responses, Chat Completions and generateContent, and this is none of them"
    } else {
        "it has messages, messages/count_tokens, responses, chat/completions, models, and Gemini's generateContent and countTokens"
    };
    format!("the gateway has no `{method} {path}`: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_in_the_words_of_whoever_asks_and_says_why() {
        let headers = |name: &'static str| -> HeaderMap {
            [(hyper::header::HeaderName::from_static(name), hyper::header::HeaderValue::from_static("k"))].into_iter().collect()
        };
        for (method, path, header, dialect, why) in [
            ("POST", "/v1/messages/batches", "x-api-key", Dialect::Anthropic, "one by one"),
            ("GET", "/v1/files", "anthropic-version", Dialect::Anthropic, "send the content with the request"),
            ("GET", "/v1/files?limit=3", "authorization", Dialect::Chat, "send the content with the request"),
            ("GET", "/v1/responses/resp_1", "authorization", Dialect::Responses, "stream this one"),
            ("POST", "/v1/responses/resp_1/cancel", "authorization", Dialect::Responses, "stream this one"),
            ("GET", "/v1/responses", "authorization", Dialect::Responses, "stream this one"),
            ("POST", "/v1/embeddings", "authorization", Dialect::Chat, "none of them"),
            ("POST", "/v1/completions", "authorization", Dialect::Chat, "none of them"),
            ("POST", "/v1beta/models/m:embedContent", "x-goog-api-key", Dialect::Gemini, "none of them"),
            ("POST", "/v1beta/cachedContents?key=k", "accept", Dialect::Gemini, "send the content with the request"),
            ("POST", "/v1beta/models/m:batchGenerateContent", "accept", Dialect::Gemini, "one by one"),
            ("GET", "/hello", "accept", Dialect::Chat, "it has messages"),
        ] {
            assert_eq!(Dialect::of(method, path), None, "{path}");
            assert_eq!(likely(path, &headers(header)), dialect, "{path}");
            let said = why_not(method, path);
            let bare = path.split('?').next().unwrap();
            assert!(said.starts_with(&format!("the gateway has no `{method} {bare}`: ")) && said.contains(why), "{said}");
        }
    }
}
