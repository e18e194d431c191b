//! Whether output may be billed that is not streamed: what a model thinks and its provider keeps to itself.
//!
//! When an answer breaks off, nobody can count hidden thoughts. So where it is in doubt, the output counts as hidden.

use crate::request::ParsedRequest;
use serde_json::Value;

/// What an object such as `{"type": "disabled"}` or `{"effort": "high"}` says of thinking.
pub(crate) fn said_by_object(value: &Value) -> Option<bool> {
    let off = value.get("type").is_some_and(|kind| kind == "disabled") || value.get("enabled") == Some(&Value::Bool(false));
    let effort = value.get("effort").map_or(Some(true), said_by_word);
    if off { Some(false) } else { value.as_object().and(effort) }
}

/// What an effort such as `none` or `high` says of thinking.
pub(crate) fn said_by_word(value: &Value) -> Option<bool> {
    value.as_str().map(|word| word != "none")
}

impl ParsedRequest {
    /// Whether this model may bill output that it does not stream.
    pub fn may_hide_output(&self, model: &str) -> bool {
        let name = model.rsplit('/').next().unwrap_or(model);
        self.thinking.unwrap_or_else(|| self.dialect.format().hides_thoughts(name))
    }
}

#[cfg(test)]
mod tests {
    use crate::Dialect;

    #[test]
    fn request_and_model_tell_whether_thoughts_are_hidden() {
        let messages = "/v1/messages";
        let (responses, chat) = ("/v1/responses", "/v1/chat/completions");
        let gemini = "/v1beta/models/m:streamGenerateContent";
        for (path, more, model, hides) in [
            (messages, "", "claude-opus-5-5", false),
            (messages, r#","thinking":{"type":"enabled","budget_tokens":9}"#, "claude-opus-5-5", true),
            (messages, r#","thinking":{"type":"adaptive"}"#, "claude-opus-5-5", true),
            (messages, r#","thinking":{"type":"disabled"}"#, "claude-opus-5-5", false),
            (responses, "", "gpt-6.1-sol", true),
            (responses, "", "gpt-4.1-mini", false),
            (responses, r#","reasoning":{"effort":"none"}"#, "gpt-5.5", false),
            (responses, r#","reasoning":{"effort":"high","summary":"auto"}"#, "gpt-4.1", true),
            (responses, r#","reasoning":{"summary":"auto"}"#, "gpt-5.5", true),
            (chat, "", "qwen3", false),
            (chat, "", "gpt-oss", false),
            (chat, "", "openai/gpt-5.5", true),
            (chat, "", "o4-mini", true),
            (chat, "", "gpt-4o", false),
            (chat, r#","reasoning_effort":"none""#, "gpt-5.5", false),
            (chat, r#","reasoning_effort":"low""#, "qwen3", true),
            (chat, r#","enable_thinking":true"#, "qwen3", true),
            (gemini, "", "gemini-3.8-flash", true),
            (gemini, "", "gemini-2.0-flash", false),
            (gemini, r#","generationConfig":{"thinkingConfig":{"thinkingBudget":0}}"#, "gemini-2.5-flash", false),
            (gemini, r#","generation_config":{"thinking_config":{"thinking_level":"high"}}"#, "gemini-2.0-flash", true),
        ] {
            let dialect = Dialect::detect("POST", path).unwrap().0;
            let member = if dialect == Dialect::Gemini { r#""contents":[]"# } else { r#""model":"m""# };
            let request = dialect.parse_request(path, format!("{{{member}{more}}}").as_bytes()).unwrap();
            assert_eq!(request.may_hide_output(model), hides, "{path} {more} {model}");
        }
    }
}
