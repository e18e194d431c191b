//! What a provider would run by itself is refused on the road, in every dialect, unless the operator allowed it by name.

use crate::bed::Bed;
use gateway::{Gateway, ModelSettings, ProviderSettings, Runs, Upstream};
use serde_json::Value;

async fn bed(dialect: &str, runs: &[&str]) -> Bed {
    let runs = Runs(runs.iter().map(|name| (*name).to_owned()).collect());
    Bed::with("", None, |settings, _| {
        for provider in settings.providers.values_mut() {
            provider.dialect = yaml::from_str(dialect).unwrap();
            provider.runs = runs.clone();
        }
    })
    .await
}

const ASKED: &[(&str, &str, &str, &str)] = &[
    ("anthropic", "/v1/messages", r#"{"model":"m","tools":[{"name":"a","input_schema":{}},{"type":"web_fetch_20250910"}]}"#, "web_fetch"),
    ("anthropic", "/v1/messages/count_tokens", r#"{"model":"m","mcp_servers":[{"type":"url","url":"https://x"}]}"#, "mcp"),
    ("anthropic", "/v1/messages", r#"{"model":"m","tools":[{"type":"code_execution_20250825"}]}"#, "code_execution"),
    (
        "anthropic",
        "/v1/messages",
        r#"{"model":"m","messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://x"}}]}]}"#,
        "web_fetch",
    ),
    ("anthropic", "/v1/messages", r#"{"model":"m","tools":[{"type":"tomorrow_20270101"}]}"#, "tomorrow"),
    ("responses", "/v1/responses", r#"{"model":"m","tools":[{"type":"web_search","external_web_access":true}]}"#, "web_search"),
    ("responses", "/v1/responses/compact", r#"{"model":"m","tools":[{"type":"mcp","connector_id":"c"}]}"#, "mcp"),
    ("chat", "/v1/chat/completions", r#"{"model":"m","web_search_options":{}}"#, "web_search"),
    ("chat", "/v1/chat/completions", r#"{"model":"gpt-5-search-api"}"#, "web_search"),
    ("gemini", "/v1beta/models/m:generateContent", r#"{"tools":[{"urlContext":{}}]}"#, "web_fetch"),
    ("gemini", "/v1beta/models/m:streamGenerateContent?alt=sse", r#"{"tools":[{"googleSearch":{}}]}"#, "web_search"),
];

#[tokio::test]
async fn it_is_refused_unless_it_is_allowed_by_name() {
    for (dialect, path, body, name) in ASKED {
        // One of the others is not this one.
        let refusing = bed(dialect, &["maps", "image_generation"]).await;
        let answer = refusing.post(path, body).await;
        let said: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(answer.status(), 403, "{body}: {said}");
        assert!(answer.head.contains("x-should-retry: false"), "{}", answer.head);
        let word = match *dialect {
            "anthropic" => &said["error"]["type"],
            "gemini" => &said["error"]["status"],
            _ => &said["error"]["code"],
        };
        let expected = ["permission_error", "permission_denied", "PERMISSION_DENIED"];
        assert!(expected.contains(&word.as_str().unwrap()), "{said}");
        let message = said["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("`anthropic` would run `{name}` for `")), "{message}");
        let fix = format!("the operator can allow it by `runs: [{name}]` under `providers.anthropic` in $SKEP_HOME/config.yml");
        assert!(message.ends_with(&fix), "{message}");
        assert!(refusing.heard().is_empty() && refusing.asked().is_empty(), "nobody was asked");
        let recorded = refusing.refused();
        assert!(recorded.len() == 1 && message.starts_with(recorded[0].split_once(": ").unwrap().1), "{recorded:?}");
        refusing.rest().await;

        let allowing = bed(dialect, &[name]).await;
        assert_eq!(allowing.post(path, body).await.status(), 200, "{body}");
        let heard = allowing.heard();
        assert!(heard.len() == 1 && heard[0].ends_with(body), "it passes as it is: {heard:?}");
        assert!(allowing.refused().is_empty());
    }
}

#[tokio::test]
async fn every_name_that_is_missing_is_told_at_once() {
    let bed = bed("responses", &["web_search"]).await;
    let body = r#"{"model":"m","tools":[{"type":"web_search"},{"type":"mcp"},{"type":"code_interpreter"}]}"#;
    let said = String::from_utf8(bed.post("/v1/responses", body).await.body).unwrap();
    assert!(said.contains("`code_execution`, `mcp`") && said.contains("runs: [code_execution, mcp]"), "{said}");
    let body = r#"{"model":"m","tools":[{"type":"web_search"},{"type":"image_generation"}]}"#;
    let said = String::from_utf8(bed.post("/v1/responses", body).await.body).unwrap();
    assert!(said.contains("; leave it out (codex: `-c features.image_generation=false`); "), "{said}");
    assert!(bed.refused()[0].starts_with("anthropic m [code_execution+mcp+web_search]: "), "{:?}", bed.refused());
}

/// A name that leads to several does not lead around a no.
#[tokio::test]
async fn the_next_in_line_is_not_asked_instead() {
    let bed = Bed::with("", None, |settings, _| settings.providers.get_mut("spare").unwrap().runs = Runs(vec!["mcp".into()])).await;
    let body = r#"{"model":"tactical","tools":[{"type":"mcp_toolset"}]}"#;
    assert_eq!(bed.post("/v1/messages", body).await.status(), 403);
    assert!(bed.heard().is_empty());
}

#[test]
fn a_name_that_is_mistyped_is_told_with_the_one_that_was_meant() {
    let made = |runs: &str| {
        let yaml = format!("{{url: 'https://h', dialect: anthropic, runs: {runs}}}");
        let provider: ProviderSettings = yaml::from_str(&yaml).map_err(|error| error.to_string())?;
        let settings = ModelSettings { providers: [("p".to_owned(), provider)].into(), ..ModelSettings::default() };
        let made = Gateway::new(&settings, Upstream::new(&[]), None);
        made.map(drop).map_err(|bad| format!("{bad}; {}", bad.fix.clone().unwrap_or_default()))
    };
    for fine in ["web_search", "[web_search, web_fetch, mcp]", "[advisor, x_search, openrouter:web]", "[]"] {
        assert_eq!(made(fine), Ok(()), "{fine}");
    }
    for (bad, says) in [
        ("web_serch", "`providers.p`: `runs`: there is no `web_serch`; did you mean `web_search`? there are code_execution, "),
        ("[mcq]", "did you mean `mcp`?"),
        ("web_search_20250305", "there is no `web_search_20250305`; did you mean `web_search`?"),
        ("['*']", "`runs`: `*` is no name of what a provider runs; there are "),
        ("['']", "`` is no name"),
        ("{web_search: true}", "a name such as web_search, or a list of names"),
        ("true", "a name such as web_search"),
    ] {
        let said = made(bad).unwrap_err();
        assert!(said.contains(says), "{said}");
    }
}
