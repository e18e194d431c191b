//! Paths that the vendors have and Skep does not: which dialect they belong to, and why they are refused.

use crate::Dialect;

/// The order in which dialects are tried; the last takes everything.
const GUESSES: [Dialect; 4] = [Dialect::Gemini, Dialect::Anthropic, Dialect::Responses, Dialect::Chat];

/// The dialect that a request for a path of no dialect most likely speaks.
pub fn likely_dialect(path: &str, has_header: &dyn Fn(&str) -> bool) -> Dialect {
    let path = path.split('?').next().unwrap_or(path);
    GUESSES.into_iter().find(|dialect| dialect.format().is_likely(path, has_header)).unwrap_or(Dialect::Chat)
}

/// Why there is no such path here, and what to do instead.
pub fn reason(method: &str, path: &str) -> String {
    let path = path.split('?').next().unwrap_or(path);
    let has = |words: &[&str]| path.split(['/', ':']).any(|part| words.contains(&part));
    let why = if has(&["batches", "batchGenerateContent", "batch"]) {
        "a batch is answered later, where nothing meters it; send its requests one by one"
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
    fn a_refused_path_has_its_dialect_and_a_reason() {
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
            assert_eq!(Dialect::detect(method, path), None, "{path}");
            assert_eq!(likely_dialect(path, &|name| name == header), dialect, "{path}");
            let said = reason(method, path);
            let bare = path.split('?').next().unwrap();
            assert!(said.starts_with(&format!("the gateway has no `{method} {bare}`: ")) && said.contains(why), "{said}");
        }
    }
}
