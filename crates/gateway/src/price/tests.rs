//! What tokens cost, by the table that comes with the program and by a user's own.

use super::*;
use crate::Dialect;

fn usage(input: u64, output: u64) -> TokenUsage {
    TokenUsage { input, output, ..TokenUsage::default() }
}

fn ask(body: &str) -> ParsedRequest {
    Dialect::Anthropic.parse_request("/v1/messages", body.as_bytes()).unwrap()
}

#[test]
fn the_built_in_table_is_read_and_dated() {
    let prices = Prices::built_in().unwrap();
    assert!(prices.as_of.len() == 10 && prices.as_of.starts_with("20"));
    for (provider, model) in [("anthropic", "claude-opus-4-8"), ("openai", "gpt-5.5"), ("google", "gemini-3.8-flash")] {
        assert!(prices.price(provider, model).is_some(), "{model}");
    }
}

#[test]
fn each_kind_of_token_has_its_price() {
    let prices = Prices::built_in().unwrap();
    let cost = |provider: &str, model: &str, usage: TokenUsage| prices.price(provider, model).map(|price| price.micros(&usage));
    let known = |micros: u64| Some(micros);
    assert_eq!(cost("anthropic", "claude-opus-4-8", usage(1_000_000, 1_000_000)), known(30_000_000));
    let cached =
        TokenUsage { cache_read: 1_000_000, cache_write: 2_000_000, cache_write_1h: 1_000_000, searches: 3, ..TokenUsage::default() };
    assert_eq!(cost("anthropic", "claude-opus-4-8", cached), known(500_000 + 6_250_000 + 10_000_000 + 30_000));
    assert_eq!(cost("anthropic", "claude-haiku-4-5-20251001", usage(1_000_000, 0)), known(1_000_000), "a snapshot");
    assert_eq!(cost("openai", "gpt-5.4-2026-03-05", usage(200_000, 0)), known(500_000), "another snapshot");
    assert_eq!(cost("openai", "gpt-5.4", usage(300_000, 0)), known(1_500_000), "a long one");
    // A part of a millionth is a millionth.
    assert_eq!(cost("openai", "gpt-5-nano", usage(1, 0)), known(1));
    assert_eq!(cost("openai", "gpt-5-nano", usage(0, 0)), known(0));
    assert_eq!(cost("openai", "gpt-5-nano", usage(u64::MAX, u64::MAX)), known(u64::MAX / 100 * 45 + 7));
}

#[test]
fn an_unknown_model_has_no_price() {
    let text = "as_of: 2026-01-01\nproviders:\n  p:\n    models:\n      dear: { input: 5, output: 9, cache_read: 0.5 }\n";
    let prices = Prices::parse(text).unwrap();
    assert!(prices.price("p", "dear").is_some());
    assert_eq!((prices.price("p", "dear-pro"), prices.price("q", "dear")), (None, None));
}

#[test]
fn a_users_own_table_goes_first() {
    let own = "as_of: 2026-02-02\nproviders:\n  anthropic:\n    models:\n      claude-opus-4-8: { input: 1, output: 1 }\n  ollama:\n    any: { input: 0, output: 0 }\n";
    let prices = Prices::built_in().unwrap().with(Prices::parse(own).unwrap());
    let million = usage(1_000_000, 1_000_000);
    assert_eq!(prices.price("anthropic", "claude-opus-4-8").unwrap().micros(&million), 2_000_000);
    assert_eq!(prices.price("anthropic", "claude-opus-4-7").unwrap().micros(&million), 30_000_000);
    assert_eq!(prices.price("ollama", "anything").unwrap().micros(&million), 0);
}

#[test]
fn a_reservation_is_never_less_than_the_bill() {
    let prices = Prices::built_in().unwrap();
    let ask = ask("{\"model\":\"m\"}");
    for (provider, model) in
        [("anthropic", "claude-opus-4-8"), ("anthropic", "claude-haiku-5-5"), ("openai", "gpt-5.6"), ("google", "gemini-2.5-pro")]
    {
        let price = prices.price(provider, model).unwrap();
        for (input, read, write, hour) in [(1000, 0, 0, 0), (0, 1000, 0, 0), (1, 2, 997, 500), (400_000, 1, 0, 0), (0, 0, 300_000, 300_000)]
        {
            let usage =
                TokenUsage { input, cache_read: read, cache_write: write, cache_write_1h: hour, output: 77, ..TokenUsage::default() };
            assert!(price.micros_max(&ask, input + read + write, 77) >= price.micros(&usage), "{model} {usage:?}");
        }
    }
}

#[test]
fn a_bad_table_is_refused() {
    for (text, why) in [
        ("providers: {}", "as_of"),
        ("as_of: x\nproviders: { p: { models: { m: { input: -1, output: 1 } } } }", "`-1` is not a price for `m`"),
        ("as_of: x\nproviders: { p: { models: { m: { input: 1, output: 1, cached: 1 } } } }", "cached"),
        ("as_of: x\nproviders: { p: { modes: { fast: -2 } } }", "`-2` times the price of `p` is not a price"),
        ("as_of: x\nproviders: { p: { modes: { slow: 2 } } }", "slow"),
    ] {
        let error = Prices::parse(text).unwrap_err().to_string();
        assert!(error.starts_with("the prices cannot be read: ") && error.contains(why), "{error}");
    }
}

#[test]
fn whoever_is_served_otherwise_pays_otherwise() {
    let prices = Prices::built_in().unwrap();
    let served = |pace: Pace, us: bool| TokenUsage { input: 100_000, mode: ServiceMode { pace, us }, ..TokenUsage::default() };
    let micros = |provider: &str, model: &str, usage: TokenUsage| prices.price(provider, model).unwrap().micros(&usage);
    assert_eq!(micros("anthropic", "claude-opus-4-6", served(Pace::Fast, false)), 3_000_000);
    assert_eq!(micros("anthropic", "claude-opus-4-8", served(Pace::Fast, true)), 1_100_000);
    assert_eq!(micros("openai", "gpt-5.5", served(Pace::Priority, false)), 1_250_000);
    assert_eq!(micros("openai", "gpt-5.4-mini", served(Pace::Priority, false)), 150_000);
    assert_eq!(
        micros("openai", "gpt-5.4", TokenUsage { input: 300_000, ..served(Pace::Flex, false) }),
        750_000,
        "a long one, at half of it"
    );
    // In a table of one's own, what is not said there stays as it was.
    let own = Prices::parse("as_of: x\nproviders: { openai: { models: { gpt-5.5: { input: 1, output: 1 } } } }").unwrap();
    let mine = prices.clone().with(own);
    assert_eq!(mine.price("openai", "gpt-5.5").unwrap().micros(&served(Pace::Priority, false)), 200_000);
    assert_eq!(mine.price("openai", "gpt-5.5").unwrap().micros(&TokenUsage { searches: 5, ..TokenUsage::default() }), 50_000);
}

#[test]
fn a_reservation_holds_what_was_asked_for() {
    let price = Prices::built_in().unwrap().price("anthropic", "claude-opus-4-8").unwrap();
    let most = |body: &str| price.micros_max(&ask(body), 1_000_000, 0);
    let plain = most(r#"{"model":"m"}"#);
    assert_eq!(most(r#"{"model":"m","speed":"fast"}"#), plain * 2);
    assert_eq!(most(r#"{"model":"m","inference_geo":"us"}"#), plain / 10 * 11);
    // Paid for beforehand.
    assert_eq!(most(r#"{"model":"m","service_tier":"priority"}"#), plain);
    assert_eq!(most(r#"{"model":"m","tools":[{"type":"web_search_20250305","max_uses":3}]}"#), plain + 30_000);
    assert_eq!(most(r#"{"model":"m","tools":[{"type":"web_search_20250305"},{"name":"web_search","input_schema":{}}]}"#), plain + 100_000);
    // Who asks for less haste may get the usual.
    let price = Prices::built_in().unwrap().price("openai", "gpt-5.5").unwrap();
    let flex = Dialect::Chat.parse_request("/v1/chat/completions", br#"{"model":"m","service_tier":"flex"}"#).unwrap();
    assert_eq!(price.micros_max(&flex, 1_000, 0), 5_000);
}

#[test]
fn a_provider_of_any_name_is_known_by_its_host() {
    let mut prices = Prices::built_in().unwrap();
    let million = usage(1_000_000, 0);
    assert_eq!(prices.price("work", "claude-opus-4-8"), None);
    prices.known_by("work", "api.anthropic.com");
    prices.known_by("gemini", "generativelanguage.googleapis.com");
    prices.known_by("elsewhere", "models.example");
    // A name that is in the table keeps its own.
    prices.known_by("openai", "api.anthropic.com");
    assert_eq!(prices.price("work", "claude-opus-4-8").unwrap().micros(&million), 5_000_000);
    assert_eq!(prices.price("gemini", "gemini-2.5-pro").unwrap().micros(&usage(1_000, 0)), 1_250);
    assert_eq!(prices.price("elsewhere", "claude-opus-4-8"), None);
    assert_eq!(prices.price("openai", "gpt-5.5").unwrap().micros(&usage(1_000, 0)), 5_000);
}

/// A request without a named model must not be one without a price. The table's head says which these are.
#[test]
fn what_each_client_asks_for_by_default_has_a_price() {
    let prices = Prices::built_in().unwrap();
    for (provider, model) in [
        ("anthropic", "claude-opus-4-8"),
        ("openai", "gpt-6.1-sol"),
        ("google", "gemini-3.1-pro-preview"),
        ("google", "gemini-3.5-flash-lite"),
    ] {
        assert!(prices.price(provider, model).is_some(), "{provider}/{model}");
    }
    // Codex sends 38 kB; with all that it may be answered that was reserved at $18.20.
    let most = prices.price("openai", "gpt-6.1-sol").unwrap().micros(&usage(40_000, 128_000));
    assert!(most < 2_000_000, "{most}");
    assert!(prices.price("openai", "gpt-of-tomorrow").is_none(), "control: nobody makes a price up");
}
