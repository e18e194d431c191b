//! Addresses, keys and lists of providers.

use super::*;

fn provider(yaml: &str) -> Result<Provider, BadSettings> {
    Provider::new("p", &yaml::from_str(yaml).unwrap())
}

#[test]
fn a_list_of_models_says_how_their_names_begin() {
    let has =
        |models: &str, beginning: &str| provider(&format!("{{url: 'https://h', dialect: chat{models}}}")).unwrap().may_have(beginning);
    for (models, is_so) in [
        ("", true),
        (", models: ['qwen*']", false),
        (", models: ['qwen*', 'claude-*']", true),
        (", models: ['cl*']", true),
        (", models: ['*']", true),
        (", models: ['{qwen,claude}-*']", true),
        (", models: [claude-opus-5-5]", true),
        (", models: ['my-claude*']", false),
    ] {
        assert_eq!(has(models, "claude"), is_so, "{models}");
    }
}

#[test]
fn a_request_goes_below_the_provider_s_url() {
    for (base, path, url) in [
        ("https://api.anthropic.com", "/v1/messages?beta=true", "https://api.anthropic.com/v1/messages?beta=true"),
        ("https://h/v1", "/v1/chat/completions", "https://h/v1/chat/completions"),
        ("https://h/api/v1/", "/v1/responses", "https://h/api/v1/responses"),
        ("https://h/api", "/v1/responses", "https://h/api/v1/responses"),
        ("https://h/v1", "/v1beta/models/m:generateContent", "https://h/v1/v1beta/models/m:generateContent"),
        ("http://127.0.0.1:11434", "/v1/chat/completions?key=ours&a=b", "http://127.0.0.1:11434/v1/chat/completions"),
        (
            "https://h",
            "/v1beta/models/m:streamGenerateContent?key=k&alt=sse&%6bey=k&access_token=t&fields=candidates&$fields=x&alt=proto",
            "https://h/v1beta/models/m:streamGenerateContent?alt=sse",
        ),
        ("https://h/openai", "/v1/responses?api-version=2026-01-01&API-KEY=k", "https://h/openai/v1/responses?api-version=2026-01-01"),
    ] {
        let provider = provider(&format!("{{url: '{base}', dialect: chat}}")).unwrap();
        assert_eq!(provider.url(path).unwrap().as_str(), url);
    }
}

#[test]
fn nothing_goes_out_in_the_clear_unless_somebody_said_so() {
    assert!(provider("{url: 'http://localhost:8000', dialect: [chat, responses]}").is_ok());
    assert!(provider("{url: 'http://[::1]:8000', dialect: chat}").is_ok());
    assert!(provider("{url: 'http://10.0.0.7:8000', dialect: chat, plain: true}").is_ok());
    for (bad, why) in [
        ("{url: 'http://10.0.0.7:8000', dialect: chat}", "unencrypted"),
        ("{url: 'https://me:pw@h', dialect: chat}", "holds a password"),
        ("{url: 'ftp://h', dialect: chat}", "neither http nor https"),
        ("{url: 'https://h', dialect: []}", "no dialect"),
        ("{url: 'https://h'}", "no dialect"),
        ("{url: 'https://h', dialect: chat, concurrency: 0}", "lets nothing through"),
        ("{url: 'https://h', dialect: chat, key: {env: A}, login: {client: codex}}", "mutually exclusive"),
    ] {
        let error = provider(bad).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
}
