//! What models cost, as people see it; and settings of models that cannot be used.

use crate::common::provider::{Open, Provider, account};
use crate::common::text;

#[test]
fn usage_is_summed_in_every_way() {
    let provider = Provider::start(false);
    let site = provider.site("");
    let empty = site.ok(&["usage"]);
    assert!(empty.starts_with("no model was asked yet\n") && empty.contains("skep gateway run"), "{empty}");
    let open = Open::new(&site);
    (0..2).for_each(|_| assert_eq!(open.ask().0, 200));
    let shown = site.ok(&["usage"]);
    assert_eq!(
        shown.lines().take(2).map(str::trim_end).collect::<Vec<_>>(),
        [
            "                             requests  input  cache read  cache write  output       cost",
            "anthropic/claude-sonnet-4-5         2     22           0            0      14  $0.000276",
        ]
    );
    for (by, names) in [
        ("process", vec!["client.1"]),
        ("tree", vec!["kernel", "operator", "client.1"]),
        ("user", vec![""]),
        ("zone", vec!["project"]),
        ("model", vec!["anthropic/claude-sonnet-4-5"]),
        ("tier", vec!["tactical"]),
        ("day", vec!["20"]),
        ("task", vec!["no task"]),
    ] {
        let usage = site.json(&["usage", "--by", by]);
        let rows = usage["rows"].as_array().unwrap();
        assert_eq!(rows.len(), names.len(), "{by}: {usage}");
        for (row, name) in rows.iter().zip(names) {
            assert!(row["name"].as_str().unwrap().contains(name), "{by}: {row}");
            assert_eq!((&row["requests"], &row["input"], &row["output"], &row["micros"]), (&2.into(), &22.into(), &14.into(), &276.into()));
        }
        assert_eq!((&usage["total"]["micros"], usage["unpriced"].as_array().unwrap().len()), (&276.into(), 0), "{by}");
    }
    // The budget and the journal say the same.
    assert_eq!(account(&site, 1)["spent"], serde_json::json!({"micros": 276, "tokens": {"tactical": 36}}));
    let used = site.records(&["--kind", "model.used"]);
    let sum = |field: &str| used.iter().map(|record| record["payload"][field].as_u64().unwrap()).sum::<u64>();
    assert_eq!((sum("charged_micros"), sum("charged_tokens")), (276, 36));
}

/// Nobody knows what a provider costs that no table names, and nobody makes that up.
#[test]
fn a_price_that_nobody_knows_is_told_and_a_user_can_name_it() {
    let provider = Provider::start(false);
    let site = provider.site("");
    let config = std::fs::read_to_string(site.home().join("config.yml")).unwrap();
    std::fs::write(site.home().join("config.yml"), config.replace("anthropic: {", "mine: {").replace("anthropic/claude", "mine/claude"))
        .unwrap();
    assert_eq!(Open::new(&site).ask().0, 200);
    let before = site.json(&["usage"]);
    assert_eq!(before["unpriced"], serde_json::json!(["mine/claude-sonnet-4-5"]));
    assert_eq!((&before["total"]["micros"], &before["total"]["unpriced"], &before["total"]["input"]), (&0.into(), &1.into(), &11.into()));
    let shown = site.ok(&["usage", "--by", "day"]);
    assert!(shown.contains("the price of mine/claude-sonnet-4-5 is not known") && shown.contains("  unknown"), "{shown}");
    site.ok(&["kernel", "stop"]);
    let own = "as_of: 2026-11-16\nproviders: {mine: {any: {input: 1, output: 1}}}\n";
    std::fs::write(site.home().join("prices.yaml"), own).unwrap();
    assert_eq!(Open::new(&site).ask().0, 200);
    let after = site.json(&["usage"]);
    assert_eq!(after["total"]["micros"].as_u64().unwrap() - before["total"]["micros"].as_u64().unwrap(), 18);
    assert!(site.ok(&["usage", "--by", "tier"]).contains("$0.000018 + unknown"), "what was not known then is not known now");
}

#[test]
fn settings_that_cannot_be_used_say_what_and_why_and_show_no_key() {
    let site = Provider::start(false).site("");
    for (config, why, fix) in [
        ("models: {tactical: antropic/x}", "`models.tactical`: `tactical` leads to `antropic/x`", "add `antropic` under `providers`"),
        ("x: [", "config.yml", "mend config.yml"),
        ("models: {a: b, b: a}", "`a` leads to itself: a → b → a", "lead to `provider/model`"),
        ("models: {a: {b: c}}", "`provider/model`, or a list of them", "mend config.yml"),
        ("providers: {p: {url: 'https://h', dialect: claude}}", "expected one of anthropic, responses, chat, gemini", "mend config.yml"),
        ("providers: {p: {url: 'https://h', dialect: chat, key: sk-4711}}", "its key is written there", "{env: NAME}"),
        ("providers: {p: {url: 'https://h', dialect: chat, key: {envv: A}}}", "unknown field `envv`", "mend config.yml"),
        ("providers: {p: {url: 'http://10.1.1.1', dialect: chat}}", "`http://` would send requests unencrypted", "mend it in"),
        ("providers: {p: {url: 'https://h', dialect: chat, concurrency: 0}}", "a limit of 0 lets nothing through", "mend it in"),
    ] {
        std::fs::write(site.home().join("config.yml"), config).unwrap();
        let output = site.skep(&["usage"]);
        let said = text(&output);
        assert!(output.status.code() == Some(14) && said.contains("the kernel's own settings cannot be used"), "{config}: {said}");
        assert!(said.contains(why) && said.contains(fix) && !said.contains("sk-4711"), "{config}: {said}");
    }
}

/// A project may only choose among what the operator set up.
#[test]
fn a_project_that_names_what_is_not_there_is_told_when_it_asks() {
    let provider = Provider::start(false);
    let site = provider.site("");
    site.ok(&["init"]);
    let ask = |names: &str| {
        let settings = site.read("skep.yml");
        let before = settings.split("# names of models").next().unwrap();
        site.write("skep.yml", &format!("{before}# names of models\n{names}\n"));
        site.trust();
        Open::new(&site).ask()
    };
    assert_eq!(ask("models: {tactical: fine, fine: anthropic/claude-haiku-4-5}").0, 200);
    for (names, said) in [
        ("models: {tactical: nowhere/m}", "there is no provider `nowhere`"),
        ("models: {tactical: mine, mine: tactical}", "`tactical` leads to itself: tactical → mine → tactical"),
    ] {
        let (status, body) = ask(names);
        assert!(status == 404 && body.contains("not_found_error") && body.contains(said), "{names}: {status} {body}");
    }
    let (status, body) = ask("providers: [openai]");
    assert!(status == 403 && body.contains("this project does not use `anthropic`"), "{status} {body}");
}
