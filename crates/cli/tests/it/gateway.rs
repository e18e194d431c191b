//! Models through the real kernel: budgets that hold, whoever races, waits or dies; and a key that nobody sees.

use crate::common::provider::{KEY, Open, Provider, USED, account, ask, eventually};
use crate::common::{Site, text};
use serde_json::Value;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering;

/// Follows the journal: what is spent, reserved and leased together never passes the cap. Gives what is spent in the end.
fn audit(site: &Site, cap: u64) -> u64 {
    let mut spent = 0;
    // What is left of each lease, and what each request holds and drew it from.
    let mut leases = HashMap::<String, u64>::new();
    let mut held = HashMap::<String, (u64, Option<String>)>::new();
    // What requests may have cost beyond what is spent.
    let mut doubt = HashMap::<String, u64>::new();
    for record in site.records(&[]) {
        let payload = &record["payload"];
        let call = payload["call"].as_str().unwrap_or_default().to_owned();
        let lease = payload["lease"].as_str().map(str::to_owned);
        let tokens = payload["tokens"].as_u64().unwrap_or(0);
        match record["type"].as_str().unwrap() {
            "budget.leased" => *leases.entry(lease.unwrap()).or_default() += tokens,
            "budget.returned" => assert_eq!(leases.remove(&lease.unwrap()), Some(tokens)),
            "model.reserved" => {
                if let Some(lease) = &lease {
                    *leases.get_mut(lease).unwrap() -= tokens;
                }
                held.insert(call, (tokens, lease));
            }
            "model.used" => {
                let charged = payload["charged_tokens"].as_u64().unwrap();
                let (tokens, lease) = held.remove(&call).unwrap();
                let in_doubt = payload["held_tokens"].as_u64().unwrap_or(0);
                // What it did not cost goes back to where it came from, if that is still there.
                if let Some(left) = lease.and_then(|lease| leases.get_mut(&lease)) {
                    *left += tokens - charged - in_doubt;
                }
                spent += charged;
                doubt.insert(call, in_doubt);
            }
            "model.held" => {
                match &lease {
                    Some(lease) => *leases.get_mut(lease).unwrap() -= tokens,
                    None => assert_eq!(held.remove(&call).unwrap().0, tokens),
                }
                assert_eq!(doubt.insert(call, tokens), None);
            }
            "model.released" => {
                let from = held.remove(&call).map(|(tokens, _)| tokens).or_else(|| doubt.remove(&call));
                assert_eq!(from, Some(tokens));
            }
            "call.lost" => assert!(!held.contains_key(&call), "it was settled before"),
            _ => {}
        }
        let reserved: u64 = held.values().map(|(tokens, _)| tokens).sum();
        assert!(
            spent + reserved + leases.values().sum::<u64>() + doubt.values().sum::<u64>() <= cap,
            "the cap is passed at record {}",
            record["seq"]
        );
    }
    assert!(held.is_empty(), "a reservation was never settled");
    spent
}

#[test]
fn a_hundred_racing_requests_spend_what_there_is_and_no_more() {
    race(1_000, false);
}

/// Enough that leases are carved, drawn from and called back.
#[test]
fn a_hundred_racing_requests_with_leases_spend_what_there_is_and_no_more() {
    race(4_000, true);
}

fn race(cap: u64, leases: bool) {
    let provider = Provider::start(false);
    let site = provider.site("");
    site.ok(&["budget", "set", "1", "--tokens", &format!("all={cap}"), "--money", "100"]);
    let open = Open::new(&site);
    let answers: Vec<(u16, String)> = std::thread::scope(|scope| {
        let racing: Vec<_> = (0..100).map(|_| scope.spawn(|| open.ask())).collect();
        racing.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let passed = answers.iter().filter(|(status, _)| *status == 200).count();
    assert!(passed >= 5, "the first five fit at once: {passed}");
    let refused: Vec<_> = answers.iter().filter(|(status, _)| *status != 200).collect();
    assert!(refused.iter().all(|(status, _)| matches!(status, 402 | 429)), "{refused:?}");
    assert!(refused.iter().any(|(_, body)| body.contains("the operator can grant ") && body.contains(" to process 1")), "{refused:?}");
    assert_eq!(provider.heard.load(Ordering::SeqCst), passed);
    assert_eq!(audit(&site, cap), passed as u64 * USED);
    // One by one, until nothing fits: then the budget is nearly used, and said so once.
    while open.ask().0 == 200 {}
    let spent = audit(&site, cap);
    let drawn =
        site.records(&[]).iter().filter(|record| record["payload"]["lease"].is_string() && record["type"] == "model.reserved").count();
    assert_eq!((drawn > 0, site.count("budget.returned") > 0), (leases, leases), "{drawn}");
    assert!(spent > cap * 8 / 10 && site.count("budget.warned") == 1, "{spent}");
    assert_eq!(account(&site, 1)["spent"]["tokens"]["tactical"], spent);
    let usage = site.json(&["usage", "--by", "tier"]);
    assert_eq!((usage["rows"][0]["name"].as_str(), usage["rows"][0]["estimated"].as_u64()), (Some("tactical"), Some(0)));
    // 11 tokens in and 7 out, at 3 and 15 dollars for a million.
    let requests = usage["total"]["requests"].as_u64().unwrap();
    assert_eq!(usage["total"]["micros"].as_u64(), Some(requests * 138));
}

#[test]
fn a_kernel_that_dies_in_the_middle_of_an_answer_holds_what_was_reserved_and_no_lease() {
    let provider = Provider::start(true);
    let site = provider.site("");
    let mut kernel = site.kernel(None);
    site.ok(&["budget", "set", "1", "--tokens", "all=10000"]);
    let open = Open::new(&site);
    let (address, key) = (open.address.clone(), open.key.clone());
    let client = std::thread::spawn(move || ask(&address, &key));
    eventually("the provider is asked", || provider.heard.load(Ordering::SeqCst) == 1);
    assert!(site.count("budget.leased") == 1, "something was set aside beside it");
    eventually("it is reserved", || account(&site, 1)["reserved"]["tokens"]["tactical"].as_u64().is_some_and(|n| n > 100));
    let reserved = account(&site, 1)["reserved"]["tokens"]["tactical"].clone();
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    client.join().unwrap();
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
    let after = account(&site, 1);
    assert_eq!((&after["held"]["tokens"]["tactical"], &after["reserved"]["tokens"]["tactical"]), (&reserved, &Value::from(0)));
    assert_eq!((&after["leased"]["tokens"]["tactical"], after["spent"]["tokens"]["tactical"].as_u64().unwrap_or(0)), (&Value::from(0), 0));
    assert_eq!(site.json(&["usage"])["held"]["tokens"]["tactical"], reserved);
    assert_eq!(audit(&site, 10_000), 0);
    // The key died with the process, and the process with its kernel.
    assert!(TcpStream::connect(&open.address).is_err());
    let processes = site.json(&["ps"]);
    let client = processes["processes"].as_array().unwrap().iter().find(|process| process["role"] == "client").unwrap();
    assert_eq!(client["state"], "dead");
}

#[test]
fn a_client_that_goes_away_has_spent_its_input_and_the_rest_is_held() {
    let provider = Provider::start(true);
    let site = provider.site("");
    let open = Open::new(&site);
    let (address, key) = (open.address.clone(), open.key.clone());
    drop(std::thread::spawn(move || ask(&address, &key)));
    eventually("the provider is asked", || provider.heard.load(Ordering::SeqCst) == 1);
    // With the program that opened it, everything goes.
    drop(open);
    eventually("it is settled", || site.count("model.used") == 1);
    let mut gone = [0];
    let upstream = provider.hung.lock().unwrap().pop().unwrap();
    assert_eq!((&upstream).read(&mut gone).unwrap_or(0), 0, "the upstream is cancelled");
    let used = site.records(&[]).into_iter().find(|record| record["type"] == "model.used").unwrap();
    let reserved = site.records(&[]).into_iter().find(|record| record["type"] == "model.reserved").unwrap();
    let of = |field: &str| used["payload"][field].as_u64().unwrap();
    assert_eq!(of("charged_tokens") + of("held_tokens"), reserved["payload"]["tokens"].as_u64().unwrap());
    assert!(of("charged_tokens") > 0 && of("held_tokens") > 100, "{used}");
    assert_eq!((&used["payload"]["figures"]["estimated"], &used["payload"]["ended"]), (&1.into(), &"hung_up".into()));
}

#[test]
fn a_request_at_the_cap_waits_for_a_person() {
    let provider = Provider::start(false);
    let site = provider.site("");
    site.ok(&["budget", "set", "1", "--tokens", "tactical=50", "--ask"]);
    let open = Open::new(&site);
    let (address, key) = (open.address.clone(), open.key.clone());
    let client = std::thread::spawn(move || ask(&address, &key));
    eventually("somebody is asked", || site.count("budget.asked") == 1);
    assert!(site.ok(&["budget"]).contains("waits for tactical tokens: `skep budget grant 1 --tokens tactical="));
    assert_eq!(provider.heard.load(Ordering::SeqCst), 0);
    site.ok(&["budget", "grant", "1", "--tokens", "tactical=1000"]);
    assert_eq!(client.join().unwrap().0, 200);
    // More than there is to grant is refused, and so is a cap that does not exist.
    assert!(site.fails(2, &["budget", "grant", "1", "--money", "5"]).contains("does not cap money"));
}

#[test]
fn the_provider_s_key_is_nowhere_and_the_process_s_own_is_good_for_one_listener() {
    let provider = Provider::start(false);
    let site = provider.site(", record: true");
    let (one, two) = (Open::new(&site), Open::new(&site));
    assert_eq!((one.ask().0, ask(&two.address, &one.key).0, two.ask().0), (200, 401, 200));
    let environment = site.ok(&["gateway", "run", "--", "env"]);
    assert!(environment.contains("ANTHROPIC_BASE_URL=http://127.0.0.1:") && environment.contains("OPENAI_API_KEY=sk-skep-"));
    assert!(!environment.contains(KEY));
    assert!(site.records(&[]).iter().all(|record| !record.to_string().contains(KEY) && !record.to_string().contains(&one.key)));
    let used = site.records(&[]).into_iter().find(|record| record["type"] == "model.used").unwrap();
    assert!(used["payload"]["asked"].is_string() && used["payload"]["answered"].is_string(), "recorded as blobs: {used}");
    let address = one.address.clone();
    drop(one);
    eventually("the listener is gone with its program", || TcpStream::connect(&address).is_err());
}

#[test]
fn programs_outside_rooms_are_let_in_only_where_the_operator_says_so() {
    let site = Site::new(&[("a.txt", "a\n")]);
    let said = site.skep(&["gateway", "run", "--", "true"]);
    assert!(!said.status.success());
    assert!(crate::common::text(&said).contains("the gateway is closed to programs outside sandboxes"), "{}", crate::common::text(&said));
}

#[test]
fn policy_decides_about_tiers_and_models() {
    let provider = Provider::start(false);
    let site = provider.site("");
    site.ok(&["init"]);
    let policy = site.read(".skep/policy.yaml");
    let no = "\n  - name: no-tactical\n    match: { syscall: model.request, tier: tactical, command: [[anthropic, claude-sonnet-4-5]] }\n    action: deny\n    reason: too dear\n";
    let open = Open::new(&site);
    assert_eq!(open.ask().0, 200);
    site.write("new.yaml", &(policy + no));
    site.ok(&["policy", "update", "new.yaml", "--yes"]);
    let (status, body) = open.ask();
    assert_eq!(status, 403, "{body}");
    assert!(body.contains("too dear") && body.contains("permission_error"), "{body}");
    assert_eq!(provider.heard.load(Ordering::SeqCst), 1);
}

#[test]
fn a_budget_at_its_cap_reaches_the_notifier() {
    let provider = Provider::start(false);
    let site = provider.site("");
    let told = site.folder.path().join("told");
    let config = std::fs::read_to_string(site.home().join("config.yml")).unwrap();
    let notify = format!("review: {{notify: [sh, -c, 'cat >> {}']}}\n", told.display());
    std::fs::write(site.home().join("config.yml"), config + &notify).unwrap();
    site.ok(&["budget", "set", "1", "--tokens", "tactical=50", "--ask"]);
    let open = Open::new(&site);
    let (address, key) = (open.address.clone(), open.key.clone());
    let client = std::thread::spawn(move || ask(&address, &key));
    let text = || std::fs::read_to_string(&told).unwrap_or_default();
    eventually("the notifier is told", || text().contains(" more tactical tokens to process 1"));
    assert!(text().contains("asks for more of its budget: a request waits for tactical tokens of process"), "{}", text());
    site.ok(&["budget", "grant", "1", "--tokens", "tactical=1000"]);
    assert_eq!(client.join().unwrap().0, 200);
    assert_eq!(text().lines().count(), 1, "{}", text());
}

#[test]
fn a_key_that_a_brain_prints_is_not_in_the_record() {
    // It looks like nothing; only who knows it can find it. The one beside it nobody knows.
    let (secret, other) = ("correct.horse.battery.4711", "correct.horse.battery.4712");
    let provider = Provider::start(false);
    let site = provider.site("");
    std::fs::write(site.folder.path().join("key"), secret).unwrap();
    site.write("notes.txt", &format!("{secret} {other}\n"));
    let brain = site.script(&format!(
        "say the key is {secret} or {other}\ncall fs.read path=notes.txt\ncall search.grep pattern=\"{secret}|{other}\" path=.\ndone it is {secret} or {other}\n"
    ));
    site.ok(&["ask", "tell", "--brain", &brain, "--await"]);
    let records = site.records(&[]);
    let text: String = records.iter().map(ToString::to_string).collect();
    for kind in ["brain.said", "call.admitted", "call.finished", "task.finished"] {
        assert!(records.iter().any(|record| record["type"] == kind && record.to_string().contains(other)), "{kind} is no control: {text}");
    }
    assert!(!text.contains(secret), "{text}");
    // One that is changed while the kernel runs is known before it is first used.
    let later = "purple.monkey.dishwasher.99";
    std::fs::write(site.folder.path().join("key"), later).unwrap();
    assert_eq!(Open::new(&site).ask().0, 200);
    let brain = site.script(&format!("done it is {later}\n"));
    site.ok(&["ask", "tell", "--brain", &brain, "--await"]);
    assert!(site.records(&[]).iter().all(|record| !record.to_string().contains(later)));
    let log = std::fs::read_dir(site.home()).unwrap().flatten().filter(|entry| entry.file_name().to_string_lossy().ends_with("log"));
    assert!(log.map(|entry| std::fs::read_to_string(entry.path()).unwrap()).all(|text| !text.contains(secret) && !text.contains(later)));
}

/// A provider that says one thing to everybody, or nothing.
fn saying(text: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut heard = [0; 4096];
            drop(stream.read(&mut heard));
            drop(stream.write_all(text.as_bytes()));
        }
    });
    port
}

#[test]
fn a_provider_s_words_beside_the_status_bring_the_key_to_nobody() {
    let provider = Provider::start(false);
    let site = provider.site("");
    let config = std::fs::read_to_string(site.home().join("config.yml")).unwrap();
    let said =
        "HTTP/1.1 401 bad key sk-upstream-4711-never-seen\r\nanthropic-note: kept\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno";
    assert!(said.contains(KEY));
    let config = config.replace(&format!(":{}'", provider.port), &format!(":{}'", saying(said)));
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    site.ok(&["init"]);
    let open = Open::new(&site);
    let mut stream = TcpStream::connect(&open.address).unwrap();
    let body = r#"{"model":"tactical","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}"#;
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: h\r\nx-api-key: {}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        open.key,
        body.len()
    );
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).unwrap();
    assert!(heard.starts_with("HTTP/1.1 401 ") && heard.contains("anthropic-note: kept") && !heard.contains(KEY), "{heard}");
    // The built-in brain tells its task what the provider said.
    let acted = text(&site.skep(&["act", "work", "--brain", "native", "--await"]));
    assert!(acted.contains("401") && !acted.contains(KEY), "{acted}");
    eventually("all is settled", || site.count("model.used") > 1);
    let told = site.records(&[]).iter().map(Value::to_string).collect::<String>();
    assert!(told.contains("model.used") && !told.contains(KEY), "{told}");
}

#[test]
fn whatever_a_provider_does_nothing_stays_reserved() {
    let provider = Provider::start(false);
    let site = provider.site("");
    let config = std::fs::read_to_string(site.home().join("config.yml")).unwrap();
    let ways = [
        ("500", "HTTP/1.1 500 X\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno", 500),
        ("429", "HTTP/1.1 429 X\r\nretry-after: 3600\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno", 429),
        ("garbage", "what?\r\n\r\n", 502),
        ("closed", "", 502),
        ("half", "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{", 200),
        ("stream", "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\ndata: {oops\n\n", 200),
    ];
    for (name, text, status) in ways {
        site.ok(&["kernel", "stop"]);
        let config = config.replace(&format!(":{}'", provider.port), &format!(":{}'", saying(text)));
        std::fs::write(site.home().join("config.yml"), config).unwrap();
        site.ok(&["budget", "set", "1", "--tokens", "all=100000"]);
        let open = Open::new(&site);
        for _ in 0..3 {
            let (got, body) = open.ask();
            assert_eq!(got, status, "{name}: {body}");
        }
        eventually("all is settled", || account(&site, 1)["reserved"]["tokens"]["tactical"] == 0);
        audit(&site, 100_000);
    }
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
}
