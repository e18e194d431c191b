//! What a request that does not come to its end costs: what is known is spent, what may be beyond that is held or released.

use crate::common::Site;
use crate::common::provider::{Open, Provider, account, eventually};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;

/// What every answer begins with: its input is reported, and a few words have come.
const BEGUN: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude-sonnet-4-5\",\"usage\":{\"input_tokens\":500,\"output_tokens\":1}}}\n\n\
    event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
    event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"The quick brown fox jumps over the lazy dog.\"}}\n\n";

/// The event of [`BEGUN`] that begins a block. The built-in brain takes no words of a block that has not begun.
const BLOCK: &str = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n";

impl Provider {
    fn asked(&self) -> usize {
        self.heard.load(Ordering::SeqCst)
    }

    /// Nothing that was sent waits in the kernel's sockets any more.
    fn is_read(&self) -> bool {
        let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let to_us = format!("0100007F:{:04X}", self.port);
        let mut open =
            sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).filter(|columns| columns.get(2) == Some(&&*to_us));
        open.all(|columns| columns[4].ends_with(":00000000"))
    }

    /// The answer that hangs, with its beginning sent.
    fn begin(&self) -> TcpStream {
        self.begins_with(BEGUN)
    }

    fn begins_with(&self, begun: &str) -> TcpStream {
        eventually("the provider is asked", || !self.hung.lock().unwrap().is_empty());
        let mut stream = self.hung.lock().unwrap().pop().unwrap();
        // The provider has sent the word `event` already.
        let rest = begun.strip_prefix("event").unwrap();
        stream.write_all(format!("{:x}\r\n{rest}\r\n", rest.len()).as_bytes()).unwrap();
        stream
    }
}

/// A request on its way, as a client streams it.
fn stream(open: &Open, more: &str) -> TcpStream {
    let body = format!(r#"{{"model":"tactical","max_tokens":4000,"stream":true{more},"messages":[{{"role":"user","content":"hi"}}]}}"#);
    let mut stream = TcpStream::connect(&open.address).unwrap();
    let head = format!("POST /v1/messages HTTP/1.1\r\nhost: h\r\nx-api-key: {}\r\ncontent-length: {}\r\n\r\n", open.key, body.len());
    stream.write_all((head + &body).as_bytes()).unwrap();
    stream
}

/// Reads until these words have come.
fn hears(stream: &mut TcpStream, words: &str) -> String {
    let (mut text, mut some) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&text).contains(words) {
        let count = stream.read(&mut some).unwrap();
        assert!(count > 0, "no `{words}` in: {}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&some[..count]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn used(site: &Site) -> Value {
    eventually("it is settled", || site.count("model.used") == 1);
    site.records(&["--kind", "model.used"])[0]["payload"].clone()
}

fn is_closed(mut upstream: TcpStream) -> bool {
    upstream.read(&mut [0]).unwrap_or(0) == 0
}

/// 500 tokens of input at 3 dollars for a million, and what had come at 15.
fn is_what_had_come(used: &Value) -> bool {
    let (input, output) = (used["figures"]["input"].as_u64().unwrap(), used["figures"]["output"].as_u64().unwrap());
    input == 500
        && (8..=14).contains(&output)
        && used["charged_micros"].as_u64() == Some(1_500 + 15 * output)
        && used["figures"]["estimated"] == 1
}

fn money(site: &Site, part: &str) -> u64 {
    account(site, 1)[part]["micros"].as_u64().unwrap_or(0)
}

#[test]
fn what_the_operator_cancels_costs_what_had_come_and_the_rest_is_released() {
    let provider = Provider::start(true);
    let site = provider.site("");
    site.ok(&["init"]);
    site.ok(&["budget", "set", "1", "--money", "5"]);
    site.ok(&["ask", "what is this", "--brain", "native"]);
    let upstream = provider.begin();
    eventually("it is reserved", || money(&site, "reserved") > 10_000);
    eventually("what had come was read", || provider.is_read());
    site.ok(&["cancel", "task-1"]);
    let used = used(&site);
    assert!(is_what_had_come(&used) && used["ended"] == "cancelled", "{used}");
    assert!(used.get("held_tokens").is_none() && used.get("held_micros").is_none(), "{used}");
    assert_eq!((money(&site, "reserved"), money(&site, "held"), money(&site, "leased")), (0, 0, 0));
    assert_eq!(money(&site, "spent"), used["charged_micros"].as_u64().unwrap());
    assert!(is_closed(upstream), "its provider goes on");
    assert_eq!(site.json(&["list", "tasks"])["tasks"][0]["state"], "cancelled");
    assert_eq!(provider.asked(), 1, "and nobody asked again");
}

/// Whoever opened the gateway hangs up as soon as it hears of the cancel; the client's last event must not be lost over that.
#[test]
fn a_client_of_an_open_gateway_hears_why_its_stream_ends() {
    let provider = Provider::start(true);
    let site = provider.site("");
    for nth in 1..=5 {
        let open = Open::new(&site);
        let mut client = stream(&open, "");
        let upstream = provider.begin();
        hears(&mut client, "lazy dog");
        site.ok(&["cancel", &format!("client.{nth}")]);
        let mut rest = String::new();
        client.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("event: error") && rest.contains("was cancelled by operator"), "{nth}: {rest:?}");
        assert!(is_closed(upstream));
    }
    let all = site.records(&["--kind", "model.used"]);
    assert_eq!(all.len(), 5);
    assert!(all.iter().all(|used| used["payload"]["ended"] == "cancelled" && used["payload"].get("held_micros").is_none()), "{all:?}");
}

/// A request that waits for a person has not been admitted; its client is told all the same.
#[test]
fn a_client_that_waits_at_the_cap_hears_of_the_cancel() {
    let provider = Provider::start(false);
    let site = provider.site("");
    site.ok(&["budget", "set", "1", "--tokens", "tactical=50", "--ask"]);
    let open = Open::new(&site);
    let mut client = stream(&open, "");
    eventually("somebody is asked", || site.count("budget.asked") == 1);
    site.ok(&["cancel", "client.1"]);
    let mut said = String::new();
    client.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 4") && said.contains("was cancelled") && !said.contains("is not alive"), "{said:?}");
    assert_eq!((provider.asked(), site.count("model.used")), (0, 0));
}

#[test]
fn what_a_client_hangs_up_on_is_held_until_it_is_reconciled() {
    let provider = Provider::start(true);
    let site = provider.site("");
    site.ok(&["budget", "set", "1", "--money", "0.10"]);
    let open = Open::new(&site);
    let mut client = stream(&open, "");
    let upstream = provider.begin();
    hears(&mut client, "lazy dog");
    let reserved = money(&site, "reserved");
    drop(client);
    let used = used(&site);
    assert!(is_what_had_come(&used) && used["ended"] == "hung_up", "{used}");
    assert!(is_closed(upstream));
    let held = used["held_micros"].as_u64().unwrap();
    assert_eq!(used["charged_micros"].as_u64().unwrap() + held, reserved, "what is not spent of it is held");
    assert_eq!((money(&site, "spent") + money(&site, "held"), money(&site, "reserved")), (reserved, 0));

    // It counts against the cap, and is shown apart from what is spent.
    let pid = used["pid"].to_string();
    let shown = site.ok(&["budget"]);
    assert!(
        shown.contains("held") && shown.contains(&format!("`skep budget reconcile {pid} …` says what the estimates and what is held")),
        "{shown}"
    );
    let usage = site.ok(&["usage"]);
    assert!(usage.contains("1 estimated: $0.0") && usage.contains(" held") && usage.contains("`skep budget reconcile PID …`"), "{usage}");
    assert_eq!(site.json(&["usage"])["held"]["micros"], held);
    assert_eq!(site.json(&["usage"])["total"]["micros"], used["charged_micros"]);
    let mut refused = stream(&open, "");
    let said = hears(&mut refused, "the operator can grant ");
    assert!(said.contains("402") && said.contains("spent, reserved or held"), "{said}");
    assert_eq!(provider.asked(), 1);

    // Whoever has the bill puts its word in the place of both.
    site.ok(&["budget", "reconcile", &pid, "--money", "0.002"]);
    assert_eq!((money(&site, "spent"), money(&site, "held")), (2_000, 0));
    let released = site.records(&["--kind", "model.released"]);
    assert_eq!((released.len(), released[0]["payload"]["micros"].as_u64()), (1, Some(held)));
    assert_eq!(site.records(&["--kind", "budget.reconciled"])[0]["payload"]["micros"].as_u64(), Some(2_000));
    let _client = stream(&open, "");
    eventually("there is room again", || provider.asked() == 2);
}

/// What a model thinks in secret is billed and not streamed: nobody can count it.
#[test]
fn a_stopped_kernel_releases_what_is_left_but_for_models_that_think_in_secret() {
    let asked = r#","thinking":{"type":"adaptive"}"#;
    for (thinking, block, holds) in [("", "", false), (asked, "", true), (asked, "text", false), ("", "redacted_thinking", true)] {
        let provider = Provider::start(true);
        let site = provider.site("");
        let open = Open::new(&site);
        let mut client = stream(&open, thinking);
        // An answer that begins with a block of text hides no thought, so here no block has begun.
        let mut upstream = provider.begins_with(&BEGUN.replace(BLOCK, ""));
        hears(&mut client, "lazy dog");
        if !block.is_empty() {
            let event = format!(
                "event: content_block_start\ndata: {{\"type\":\"content_block_start\",\"content_block\":{{\"type\":\"{block}\"}}}}\n\n"
            );
            upstream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).unwrap();
            hears(&mut client, block);
        }
        site.ok(&["kernel", "stop"]);
        let heard = hears(&mut client, "the kernel was stopped");
        assert!(heard.contains("event: error") && heard.contains("permission_error"), "{heard}");
        let used = used(&site);
        assert!(is_what_had_come(&used) && used["ended"] == "stopped", "{used}");
        assert_eq!(used["held_micros"].as_u64().is_some_and(|held| held > 10_000), holds, "{used}");
        let kinds: Vec<String> = site.records(&[]).iter().map(|record| record["type"].as_str().unwrap().to_owned()).collect();
        let at = |kind: &str| kinds.iter().position(|one| one == kind).unwrap();
        assert!(at("model.used") < at("kernel.stopped"), "{kinds:?}");
    }
}

#[test]
fn a_crash_holds_what_had_left_and_releases_what_had_not() {
    let provider = Provider::start(true);
    let site = provider.site("");
    let config = std::fs::read_to_string(site.home().join("config.yml")).unwrap();
    std::fs::write(site.home().join("config.yml"), config.replace("dialect: anthropic,", "dialect: anthropic, concurrency: 1,")).unwrap();
    let mut kernel = site.kernel(None);
    site.ok(&["budget", "set", "1", "--money", "50"]);
    let open = Open::new(&site);
    let mut first = stream(&open, "");
    let _upstream = provider.begin();
    hears(&mut first, "lazy dog");
    // In line behind the first: reserved and not sent.
    let _second = stream(&open, "");
    eventually("the second is reserved", || site.count("model.reserved") == 2);
    let reserved: Vec<u64> =
        site.records(&["--kind", "model.reserved"]).iter().map(|record| record["payload"]["micros"].as_u64().unwrap()).collect();
    assert!(money(&site, "leased") > 0 || site.count("budget.leased") > 0, "there is a lease to be lost");
    kernel.kill().unwrap();
    kernel.wait().unwrap();

    assert_eq!((money(&site, "spent"), money(&site, "held")), (0, reserved[0]), "one had left");
    assert_eq!((money(&site, "reserved"), money(&site, "leased")), (0, 0));
    assert_eq!((site.count("model.held"), site.count("model.released"), site.count("call.lost")), (1, 1, 2));
    assert_eq!(provider.asked(), 1);
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
    let held = site.records(&["--kind", "model.held"])[0]["payload"].clone();
    assert!(held["why"].as_str().unwrap().contains("the kernel died"), "{held}");
    // A kernel that comes and goes again holds it once.
    site.ok(&["kernel", "stop"]);
    assert_eq!((money(&site, "held"), site.count("model.held")), (reserved[0], 1));
}

/// A cap on money cannot hold what has no price; the budget that is proposed can.
#[test]
fn a_model_without_a_price_is_refused_under_a_cap_on_money_until_tokens_are_capped_too() {
    let provider = Provider::start(false);
    let site = provider.site("");
    let config = std::fs::read_to_string(site.home().join("config.yml")).unwrap();
    std::fs::write(site.home().join("config.yml"), config.replace("claude-sonnet-4-5", "claude-of-tomorrow")).unwrap();
    let open = Open::new(&site);
    assert_eq!(open.ask().0, 200, "without a cap on money nobody needs a price");
    assert_eq!((money(&site, "spent"), account(&site, 1)["spent"]["tokens"]["tactical"].as_u64()), (0, Some(18)));
    assert!(site.ok(&["usage"]).contains("  unknown"), "{}", site.ok(&["usage"]));

    site.ok(&["budget", "set", "1", "--money", "20.5", "--requests-per-minute", "900", "--ask"]);
    let (status, body) = open.ask();
    assert_eq!(status, 402, "{body}");
    assert!(body.contains("`anthropic/claude-of-tomorrow` has no price, and the money that kernel may spend is capped"), "{body}");
    assert!(body.contains("billing_error") && provider.asked() == 1, "{body}");
    assert!(body.contains("the operator can cap the tokens of process 1 too"), "{body}");
    let budget = json!({"tokens": {"all": 2_000_018}, "micros": 20_500_000, "requests_per_minute": 900, "at_cap": "ask"});
    let remedy = site.records(&["--kind", "call.refused"])[0]["payload"]["remedy"].clone();
    assert_eq!(remedy, json!({"do": "cap_tokens", "pid": 1, "budget": budget}));
    // A cap on another tier's tokens bounds nothing here.
    site.ok(&["budget", "set", "1", "--money", "20.5", "--tokens", "strategic=1000"]);
    assert_eq!(open.ask().0, 402);
    site.ok(&["budget", "set", "1", "--money", "20.5", "--tokens", "all=2000018", "--requests-per-minute", "900", "--ask"]);
    assert_eq!(open.ask().0, 200);
    assert_eq!((money(&site, "spent"), account(&site, 1)["spent"]["tokens"]["tactical"].as_u64()), (0, Some(36)));
    // With a price it needs no second cap.
    site.ok(&["kernel", "stop"]);
    let own = "as_of: 2026-11-16\nproviders: {anthropic: {models: {claude-of-tomorrow: {input: 1, output: 1}}}}\n";
    std::fs::write(site.home().join("prices.yaml"), own).unwrap();
    site.ok(&["budget", "set", "1", "--money", "20"]);
    assert_eq!(Open::new(&site).ask().0, 200);
    assert_eq!(money(&site, "spent"), 18);
}

/// An answer that says nothing of its usage costs what is counted of it, and that is marked.
#[test]
fn an_answer_without_usage_is_counted() {
    let provider = Provider::start(true);
    let site = provider.site("");
    let open = Open::new(&site);
    let mut client = stream(&open, "");
    eventually("the provider is asked", || !provider.hung.lock().unwrap().is_empty());
    let mut upstream = provider.hung.lock().unwrap().pop().unwrap();
    let rest = ": content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"The quick brown fox.\"}}\n\n\
        event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    upstream.write_all(format!("{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len()).as_bytes()).unwrap();
    hears(&mut client, "message_stop");
    let used = used(&site);
    let figure = |name: &str| used["figures"][name].as_u64().unwrap();
    assert!((20..60).contains(&figure("input")) && (3..9).contains(&figure("output")), "{used}");
    assert_eq!(used["charged_micros"].as_u64(), Some(3 * figure("input") + 15 * figure("output")));
    assert_eq!((figure("estimated"), used.get("held_micros"), &used["ended"]), (1, None, &"complete".into()), "{used}");
    assert!(site.ok(&["usage"]).contains("1 estimated"));
}

/// A dialect's request, with the beginning of its answer.
struct Case {
    dialect: &'static str,
    path: &'static str,
    limit: &'static str,
    prompt: &'static str,
    begun: &'static str,
}

const CASES: [Case; 4] = [
    Case {
        dialect: "anthropic",
        path: "/v1/messages",
        limit: r#""model":"m-1","max_tokens":4000,"stream":true"#,
        prompt: r#""messages":[{"role":"user","content":"hi"}]"#,
        begun: BEGUN,
    },
    Case {
        dialect: "responses",
        path: "/v1/responses",
        limit: r#""model":"m-1","max_output_tokens":4000,"stream":true"#,
        prompt: r#""input":"hi""#,
        begun: "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"model\":\"m-1\"}}\n\n\
            event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"i\",\"output_index\":0,\
            \"content_index\":0,\"delta\":\"The quick brown fox jumps over the lazy dog.\"}\n\n",
    },
    Case {
        dialect: "chat",
        path: "/v1/chat/completions",
        limit: r#""model":"m-1","max_tokens":4000,"stream":true"#,
        prompt: r#""messages":[{"role":"user","content":"hi"}]"#,
        begun: "event: chunk\ndata: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"m-1\",\"choices\":[{\"index\":0,\
            \"delta\":{\"role\":\"assistant\",\"content\":\"The quick brown fox jumps over the lazy dog.\"}}]}\n\n",
    },
    Case {
        dialect: "gemini",
        path: "/v1beta/models/m-1:streamGenerateContent?alt=sse",
        limit: r#""generationConfig":{"maxOutputTokens":4000}"#,
        prompt: r#""contents":[{"role":"user","parts":[{"text":"hi"}]}]"#,
        begun: "event: chunk\ndata: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"The quick brown fox jumps \
            over the lazy dog.\"}]},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":500,\"candidatesTokenCount\":3}}\n\n",
    },
];

impl Case {
    /// A request whose answer has begun and hangs: its client, its provider's end, and what is reserved for it.
    fn begin(&self, provider: &Provider, site: &Site) -> (Open, TcpStream, TcpStream, u64) {
        let open = Open::new(site);
        let body = format!("{{{},{}}}", self.limit, self.prompt);
        let mut client = TcpStream::connect(&open.address).unwrap();
        let head = format!(
            "POST {} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {key}\r\nx-goog-api-key: {key}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.path,
            body.len(),
            key = open.key,
        );
        client.write_all((head + &body).as_bytes()).unwrap();
        let upstream = provider.begins_with(self.begun);
        hears(&mut client, "lazy dog");
        let reserved = site.records(&["--kind", "model.reserved"])[0]["payload"]["micros"].as_u64().unwrap();
        (open, client, upstream, reserved)
    }

    fn site(&self, provider: &Provider) -> Site {
        let site = provider.site("");
        let config = std::fs::read_to_string(site.home().join("config.yml")).unwrap();
        let config = config.replace("dialect: anthropic", &format!("dialect: {}", self.dialect));
        std::fs::write(site.home().join("config.yml"), config).unwrap();
        let prices = "as_of: 2026-11-16\nproviders: {anthropic: {any: {input: 3, output: 15}}}\n";
        std::fs::write(site.home().join("prices.yaml"), prices).unwrap();
        site
    }
}

/// In every dialect: what a crash may have cost is held once, with no lease beside it; what a client hangs up on is held beyond what had come.
#[test]
fn in_every_dialect_a_crash_and_a_client_that_leaves_hold_what_may_have_been_spent() {
    for case in CASES {
        let provider = Provider::start(true);
        let site = case.site(&provider);
        let mut kernel = site.kernel(None);
        site.ok(&["budget", "set", "1", "--money", "50"]);
        let (_open, _client, _upstream, reserved) = case.begin(&provider, &site);
        kernel.kill().unwrap();
        kernel.wait().unwrap();
        let now = ["spent", "held", "reserved", "leased"].map(|part| money(&site, part));
        assert_eq!(now, [0, reserved, 0, 0], "{}: after a crash", case.dialect);
        assert!(reserved > 60_000, "{}: control: its output is reserved", case.dialect);

        let provider = Provider::start(true);
        let site = case.site(&provider);
        site.ok(&["budget", "set", "1", "--money", "50"]);
        let (_open, client, _upstream, reserved) = case.begin(&provider, &site);
        drop(client);
        let used = used(&site);
        let charged = used["charged_micros"].as_u64().unwrap();
        assert!(used["ended"] == "hung_up" && (100..3_000).contains(&charged), "{}: {used}", case.dialect);
        let now = ["spent", "held", "reserved"].map(|part| money(&site, part));
        assert_eq!(now, [charged, reserved - charged, 0], "{}: after it hung up", case.dialect);
    }
}
