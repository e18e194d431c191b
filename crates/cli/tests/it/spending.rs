//! Caps as the person who set them meets them: who waits is seen, what is wrong is told, and a replay is free.

use crate::common::Site;
use crate::common::provider::{Open, Provider, account, eventually};
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

/// A site whose brain thinks with a script.
fn scripted(answers: &str) -> Site {
    let site = Site::new(&[("a.txt", "one\n")]);
    std::fs::create_dir(site.home()).unwrap();
    let file = site.folder.path().join("answers.txt");
    std::fs::write(&file, answers).unwrap();
    let config = format!("providers: {{p: {{url: 'script:{}', dialect: anthropic}}}}\nmodels: {{tactical: p/m}}\n", file.display());
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    site.ok(&["init"]);
    site
}

const FOREMAN: &str = "3";

#[test]
fn a_task_that_waits_for_its_budget_is_seen_wherever_one_looks_and_goes_on_with_the_command_that_is_told() {
    let site = scripted("say hello\n");
    site.ok(&["budget", "set", FOREMAN, "--tokens", "tactical=50", "--ask"]);
    site.ok(&["ask", "what is this", "--brain", "native"]);
    eventually("somebody is asked", || site.count("budget.asked") == 1);
    let task = site.json(&["list", "tasks"])["tasks"][0].clone();
    let remedy = &task["waits"]["remedy"];
    assert_eq!((&remedy["do"], &remedy["pid"], &remedy["what"]), (&"grant_budget".into(), &3.into(), &"tactical tokens".into()), "{task}");
    let fix = format!("skep budget grant 3 --tokens tactical={}", remedy["missing"]);
    for (looked, said) in [
        (site.ok(&["list", "tasks"]), "waits for tactical tokens"),
        (site.ok(&["status"]), "waits for tactical tokens"),
        (site.ok(&["status"]), &*fix),
        (site.ok(&["status", "task-1"]), &*fix),
        (site.ok(&["log", "task-1"]), &*format!("◍ waits for tactical tokens: `{fix}`")),
        (site.ok(&["budget"]), &*format!("a request of process 3 waits for tactical tokens: `{fix}`")),
        (crate::common::text(&site.skep(&["review"])), &*fix),
        (site.ok(&["journal", "log", "--kind", "budget.asked"]), &*fix),
    ] {
        assert!(looked.contains(said), "no `{said}` in:\n{looked}");
    }
    site.ok(&fix.split(' ').skip(1).collect::<Vec<_>>());
    eventually("the task goes on", || site.json(&["list", "tasks"])["tasks"][0]["state"] == "done");
    assert!(!site.ok(&["budget"]).contains("waits for tactical") && account(&site, 3).get("waits").is_none());
}

/// What a request holds is more than it costs. The next one waits for the difference, not for a person.
#[test]
fn a_request_goes_on_when_another_one_gives_back_what_it_held() {
    let provider = Provider::start(true);
    let site = provider.site("");
    site.ok(&["budget", "set", "1", "--tokens", "tactical=350", "--ask"]);
    let open = Open::new(&site);
    let ask = || {
        let body = r#"{"model":"tactical","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
        let mut stream = TcpStream::connect(&open.address).unwrap();
        let head = format!("POST /v1/messages HTTP/1.1\r\nhost: h\r\nx-api-key: {}\r\ncontent-length: {}\r\n\r\n", open.key, body.len());
        stream.write_all((head + body).as_bytes()).unwrap();
        stream
    };
    let _first = ask();
    eventually("the provider is asked", || provider.hung.lock().unwrap().len() == 1);
    let _second = ask();
    eventually("the second one waits", || account(&site, 1)["waits"].as_array().is_some_and(|waits| waits.len() == 1));
    assert_eq!(site.count("model.reserved"), 1);
    let mut answer = provider.hung.lock().unwrap().pop().unwrap();
    let rest = ": message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":11,\"output_tokens\":1}}}\n\n\
        event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":7}}\n\n\
        event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    answer.write_all(format!("{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len()).as_bytes()).unwrap();
    eventually("the second one goes on", || site.count("model.reserved") == 2);
    assert_eq!(site.count("budget.granted"), 0);
    assert!(account(&site, 1).get("waits").is_none());
}

#[test]
fn most_of_a_budget_is_told_in_the_task_and_beside_the_budget() {
    let site = scripted("say hello\nusage in=90 out=0\n");
    site.ok(&["budget", "set", FOREMAN, "--tokens", "tactical=40000"]);
    site.ok(&["ask", "what is this", "--brain", "native", "--await"]);
    let told = |site: &Site| site.ok(&["log", "task-1"]).contains("tactical tokens are spent");
    assert!(!told(&site), "90 of 40,000 are no reason");
    // The next one brings it over the line: what it may cost still fits, and it reports more.
    std::fs::write(site.folder.path().join("answers.txt"), "say hello\nusage in=36000 out=0\n").unwrap();
    site.ok(&["ask", "what is this", "--brain", "native", "--await"]);
    let log = site.ok(&["log", "task-2"]);
    assert!(log.contains(" of 40,000 tactical tokens are spent of process 3"), "{log}");
    assert!(site.ok(&["budget"]).contains("90 %, nearly used up"), "{}", site.ok(&["budget"]));
}

#[test]
fn a_provider_without_a_key_is_told_at_once_and_with_its_remedy() {
    let site = Provider::start(false).site("");
    std::fs::set_permissions(site.folder.path().join("key"), PermissionsExt::from_mode(0o644)).unwrap();
    let said = site.fails(5, &["ask", "what is this", "--brain", "native", "--await"]);
    assert!(said.contains("can be read by others") && said.contains("chmod 600"), "{said}");
    assert_eq!((site.count("task.queued"), site.count("call.admitted")), (0, 0), "nothing is asked before it is mended");
}

/// An answer of 90 tokens of input and 10 of output, behind the word `event`.
const HELLO: &str = ": message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":90,\"output_tokens\":1}}}\n\n\
    event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
    event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hello\"}}\n\n\
    event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
    event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":10}}\n\n\
    event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";

/// Ends every answer that the provider began, as long as the test runs.
fn answer_each(provider: &Provider) {
    let hung = provider.hung.clone();
    std::thread::spawn(move || {
        loop {
            let next = hung.lock().unwrap().pop();
            match next {
                Some(mut stream) => stream.write_all(format!("{:x}\r\n{HELLO}\r\n0\r\n\r\n", HELLO.len()).as_bytes()).unwrap(),
                None => std::thread::sleep(std::time::Duration::from_millis(5)),
            }
        }
    });
}

/// What a task cost is told wherever one looks at it, and its own budget holds it.
#[test]
fn a_task_has_a_cost_and_a_budget_of_its_own() {
    let provider = Provider::start(true);
    answer_each(&provider);
    let site = provider.site("");
    let config = std::fs::read_to_string(site.home().join("config.yml")).unwrap();
    std::fs::write(site.home().join("config.yml"), config.replace("claude-sonnet-4-5", "claude-of-tomorrow")).unwrap();
    site.ok(&["init"]);
    // Without a price a cap on money holds nothing, whoever has it.
    let said = site.fails(8, &["ask", "what is this", "--brain", "native", "--budget", "2", "--await"]);
    assert!(said.contains("`anthropic/claude-of-tomorrow` has no price, and the money that task-1 may spend is capped"), "{said}");
    assert!(site.ok(&["ask", "what is this", "--brain", "native", "--await"]).contains("hello"));
    assert!(site.ok(&["list", "tasks"]).contains("unknown cost, 100 tokens"), "{}", site.ok(&["list", "tasks"]));
    site.ok(&["kernel", "stop"]);
    std::fs::write(site.home().join("config.yml"), config).unwrap();

    let said = site.fails(8, &["ask", "what is this", "--brain", "native", "--budget", "0.01", "--await"]);
    assert!(said.contains("the budget of task-3 does not hold it: $0.000000 of $0.010000 are spent"), "{said}");
    assert!(!said.contains("the model answered"), "{said}");
    assert!(said.contains("↳ next skep retry task-3 --budget 1\n"), "{said}");
    assert!(site.ok(&["ask", "what is this", "--brain", "native", "--budget", "$2", "--await"]).contains("hello"));
    // The figures of one prompt alone; where nobody knows the price the cost is null, and the rest is told.
    let output = |task: &str| site.json(&["status", task])["outputs"][0].clone();
    let (unknown, known) = (output("task-2"), output("task-4"));
    let size = serde_json::json!({
        "tokens": {"input": 90, "output": 10, "cache": {"get": 0, "set": 0}},
        "chars": {"input": 12, "output": 5, "cache": {"get": 0, "set": 0}},
    });
    assert_eq!((&unknown["metrics"]["size"], &known["metrics"]["size"]), (&size, &size), "{unknown} {known}");
    assert_eq!(unknown["metrics"]["cost"].as_object().unwrap().get("cash"), Some(&serde_json::Value::Null), "{unknown}");
    let cash = serde_json::json!({"total": "$0.00042", "deets": {"input": "$0.00027", "output": "$0.00015", "cache": "$0.00"}});
    assert_eq!((&known["metrics"]["cost"]["cash"], &known["output"], &known["episode"]), (&cash, &"hello".into(), &"task-4/1".into()));
    let time = known["metrics"]["cost"]["time"].as_str().unwrap();
    assert!(time.starts_with("PT") && time.ends_with('S') && known["series"].is_null(), "{known}");
    assert_eq!(site.json(&["log", "task-4", "--cost"])[0]["outputs"][0], known, "`log` says the same");
    let cost = "$0.00042, 100 tokens";
    for (looked, said) in [
        (site.ok(&["list", "tasks"]), cost.to_owned()),
        (site.ok(&["status"]), cost.to_owned()),
        (site.ok(&["status", "task-4"]), format!("{cost} of $2.00")),
        (site.ok(&["log", "task-4"]), format!("↳ cost {cost}")),
        (site.ok(&["usage", "--by", "task"]), "task-4".to_owned()),
    ] {
        assert!(looked.contains(&said), "no `{said}` in:\n{looked}");
    }
    let usage = site.json(&["usage", "--by", "task"]);
    let rows: Vec<_> =
        usage["rows"].as_array().unwrap().iter().map(|row| (row["name"].as_str().unwrap(), row["micros"].as_u64())).collect();
    assert_eq!(rows, [("task-2", Some(0)), ("task-4", Some(420))], "a refused request has used nothing");
    // What is told goes on with it: more than it was given, and enough.
    let bad = site.fails(2, &["retry", "task-3", "--budget", "-1"]);
    assert!(bad.contains("--budget"), "{bad}");
    assert!(site.ok(&["retry", "task-3", "--budget", "1", "--await"]).contains("hello"));
    assert_eq!(usage["total"]["micros"], 420);
    assert_eq!(site.json(&["list", "tasks"])["tasks"][3]["budget"]["micros"], 2_000_000);
    // Also where one request needs more than a dollar.
    let config = std::fs::read_to_string(site.home().join("config.yml")).unwrap();
    std::fs::write(site.home().join("config.yml"), config.replace("claude-sonnet-4-5", "claude-opus-4-1")).unwrap();
    let said = site.fails(8, &["ask", "what is this", "--brain", "native", "--budget", "0.01", "--await"]);
    let enough = said.split("↳ next skep retry task-5 --budget ").nth(1).unwrap_or_else(|| panic!("{said}")).trim();
    assert!(enough.parse::<f64>().unwrap() > 1.0, "{said}");
    assert!(site.ok(&["log", "task-5"]).contains(&format!("skep retry task-5 --budget {enough}")), "{}", site.ok(&["log", "task-5"]));
    assert!(site.ok(&["retry", "task-5", "--budget", enough, "--await"]).contains("hello"));
    // What a shell makes of `$2` is told.
    assert!(site.fails(2, &["ask", "what is this", "--budget", ""]).contains("write 2"));
}

#[test]
fn a_figure_that_makes_no_sense_is_refused_with_its_reason() {
    let site = scripted("say hello\n");
    site.ok(&["budget", "set", FOREMAN, "--money", "1"]);
    for (code, arguments, why) in [
        (2, "set 3", "required"),
        (2, "set 3 --ask", "required"),
        (2, "set 3 --money -5", "is not an amount of dollars"),
        (2, "set 3 --money 99999999999999", "is more than can be counted"),
        (2, "set 3 --requests-per-minute 0", "0 is not in 1"),
        (2, "set 3 --tokens all=5 --tokens all=7", "`all` is given twice: 5 and 7"),
        (2, "set foreman --money 1", "`foreman` is not a pid, such as 3"),
        (5, "set 99 --money 1", "there is no process 99"),
        (2, "grant 3 --money 0", "that grants nothing"),
        (2, "grant 3 --tokens tactical=5", "does not cap tactical tokens"),
        (2, "grant 3 --tokens-per-day all=5", "does not cap tokens a day"),
        (2, "grant 3", "required"),
        (5, "grant 99 --money 1", "there is no process 99"),
        (5, "reconcile 99 --money 1", "there is no process 99"),
        (2, "reconcile 3 --tokens all=5", "`all` cannot be reconciled"),
        (9, "reconcile 3 --money 0", "no money that process 3 has spent is an estimate, and none is held"),
    ] {
        let said = site.fails(code, &[&["budget"], &*arguments.split(' ').collect::<Vec<_>>()].concat());
        assert!(said.contains(why), "budget {arguments}: {said}");
    }
    assert_eq!(account(&site, 3)["budget"]["micros"], 1_000_000, "and nothing came of any of it");
    assert_eq!((site.count("budget.set"), site.count("budget.granted")), (1, 0));
}

/// A worker at a cap of an hour or a day is refused until it passes; what the cap holds is let through, and everybody who looks sees it.
#[test]
fn caps_of_an_hour_and_a_day_hold_for_a_worker() {
    let site = scripted("say hello\n");
    let ask = ["ask", "what is this", "--brain", "native", "--await"];
    for (flag, cap, what, until) in [
        ("--tokens-per-hour", "tactical=50", "tactical tokens an hour", "it goes on in the next hour"),
        ("--tokens-per-day", "all=50", "tokens a day", "it goes on tomorrow, by UTC"),
    ] {
        site.ok(&["budget", "set", FOREMAN, flag, cap]);
        let said = site.fails(8, &ask);
        assert!(said.contains(&format!("0 of 50 {what} are spent")), "{said}");
        let refused = site.records(&["--kind", "call.refused"]).pop().unwrap().to_string();
        assert!(refused.contains(until), "{refused}");
    }
    assert_eq!(site.count("model.reserved"), 0);
    site.ok(&["budget", "set", FOREMAN, "--tokens-per-hour", "tactical=40000", "--tokens-per-day", "all=90000"]);
    assert!(site.ok(&ask).contains("hello"), "the control: it fits");
    let shown = site.ok(&["budget"]);
    assert!(shown.contains("tactical tokens an hour") && shown.contains("of 40,000") && shown.contains("all tokens a day"), "{shown}");
    let info = site.ok(&["info", FOREMAN]);
    assert!(info.contains("tactical tokens an hour") && info.contains("of 90,000"), "{info}");
    let caps = site.json(&["info", FOREMAN])["caps"].clone();
    let used = |at: usize| caps[at]["used"].as_u64().unwrap();
    assert!(used(0) > 0 && used(0) == used(1), "both count the same request: {caps}");
    assert!(site.ok(&["ps"]).contains("of 40k/h"), "{}", site.ok(&["ps"]));
    assert!(site.fails(2, &["budget", "set", FOREMAN, "--none", "--money-per-day", "5"]).contains("cannot be used with"));
}

#[test]
fn a_cap_on_the_money_of_a_day_holds() {
    let provider = Provider::start(true);
    answer_each(&provider);
    let site = provider.site("");
    site.ok(&["init"]);
    let ask = ["ask", "what is this", "--brain", "native", "--await"];
    site.ok(&["budget", "set", FOREMAN, "--money-per-day", "0.01"]);
    let said = site.fails(8, &ask);
    assert!(said.contains("the budget of worker.1 does not hold it: $0.000000 of $0.010000 a day are spent"), "{said}");
    site.ok(&["budget", "set", FOREMAN, "--money-per-day", "2"]);
    assert!(site.ok(&ask).contains("hello"), "the control: it fits");
    let shown = site.ok(&["budget"]);
    assert!(shown.contains("money a day  $0.00042 of $2.00"), "{shown}");
    let info = site.ok(&["info", FOREMAN]);
    assert!(info.contains("money a day") && info.contains("$0.00042 of $2.00"), "{info}");
}

#[test]
fn a_replay_takes_nothing_from_budgets() {
    let site = scripted("on \"greeting\"\n  call write path=hello.txt content=\"hi\\n\"\nthen\n  say done\n");
    site.ok(&["act", "the greeting", "--brain", "native", "--record", "--await"]);
    let used = site.json(&["usage"])["total"].clone();
    assert!(used["input"].as_u64() > Some(0), "{used}");
    site.ok(&["budget", "set", FOREMAN, "--tokens", "all=1"]);
    assert!(site.ok(&["replay", "task-1"]).contains("1 call, 2 requests, changes identical"));
    let after = site.json(&["usage"])["total"].clone();
    assert_eq!((&after["input"], &after["output"], &after["micros"]), (&used["input"], &used["output"], &used["micros"]));
    assert!(site.ok(&["list", "tasks"]).contains("replay of task-1"));
    // The brain itself is at its cap.
    let said = site.fails(8, &["act", "the greeting", "--brain", "native", "--await"]);
    assert!(said.contains("the budget of worker.1 does not hold it"), "{said}");
}
