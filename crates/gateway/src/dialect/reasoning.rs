//! Whether output may be billed that is not streamed: what a model thinks, and its provider keeps to itself.
//!
//! Of an answer that broke off, nobody can count that. So what is in doubt is taken to be hidden.

use super::{Ask, Dialect, body::Members, body::tree, gemini};
use serde_json::Value;

/// What a request says of thinking: that it is wanted, that it is not, or nothing.
pub(super) fn asked(dialect: Dialect, body: &str, members: &Members<'_>) -> Result<Option<bool>, String> {
    let read = |name: &str| members.one(&[name])?.map(|(value, _)| tree(value)).transpose().map(Option::unwrap_or_default);
    let said = match dialect {
        Dialect::Anthropic => vec![of_object(&read("thinking")?)],
        Dialect::Responses => vec![of_object(&read("reasoning")?)],
        Dialect::Chat => {
            let [effort, reasoning, thinking, enabled] =
                [read("reasoning_effort")?, read("reasoning")?, read("thinking")?, read("enable_thinking")?];
            vec![of_word(&effort), of_object(&reasoning), of_object(&thinking), enabled.as_bool()]
        }
        Dialect::Gemini => {
            let config = dialect.config(body, members)?;
            let thinking = config.map(|(config, _)| config.one(gemini::THINKING)).transpose()?.flatten();
            let thinking = thinking.map(|(value, _)| tree(value)).transpose()?.unwrap_or_default();
            let budget = thinking.get("thinkingBudget").or(thinking.get("thinking_budget")).and_then(Value::as_i64);
            vec![thinking.is_object().then_some(budget != Some(0))]
        }
    };
    // Who says both means that it is wanted.
    Ok(said.into_iter().flatten().reduce(|one, other| one || other))
}

fn of_object(value: &Value) -> Option<bool> {
    let off = value.get("type").is_some_and(|kind| kind == "disabled") || value.get("enabled") == Some(&Value::Bool(false));
    let effort = value.get("effort").map_or(Some(true), of_word);
    if off { Some(false) } else { value.as_object().and(effort) }
}

fn of_word(value: &Value) -> Option<bool> {
    value.as_str().map(|word| word != "none")
}

impl Ask {
    /// May this model bill output that it does not stream?
    pub fn may_hide_output(&self, model: &str) -> bool {
        self.thinking.unwrap_or_else(|| {
            let name = model.rsplit('/').next().unwrap_or(model);
            let is = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
            match self.dialect {
                // Without the member Claude thinks aloud or not at all.
                Dialect::Anthropic => false,
                Dialect::Responses => !is(&["gpt-3", "gpt-4", "chatgpt-4"]),
                Dialect::Chat => {
                    let numbered = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
                    let gpt = name.strip_prefix("gpt-").is_some_and(numbered) && !is(&["gpt-3", "gpt-4"]);
                    let o = name.strip_prefix('o').is_some_and(numbered);
                    let gemini = is(&["gemini-"]) && !is(&["gemini-1", "gemini-2.0"]);
                    gpt || o || gemini || is(&["grok-"])
                }
                Dialect::Gemini => !is(&["gemini-1", "gemini-2.0", "gemma"]),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_thought_in_secret_is_known_by_the_request_and_the_model() {
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
            let dialect = Dialect::of("POST", path).unwrap().0;
            let member = if dialect == Dialect::Gemini { r#""contents":[]"# } else { r#""model":"m""# };
            let ask = dialect.read(path, format!("{{{member}{more}}}").as_bytes()).unwrap();
            assert_eq!(ask.may_hide_output(model), hides, "{path} {more} {model}");
        }
    }
}
