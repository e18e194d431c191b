//! Requests that leave before they are on disk: what they may cost is there already, and nothing of their answers is told before.
//!
//! The test holds the lock of the journal's database, so the kernel's writer waits as it does for a disk that does not answer.

use crate::common::Site;
use crate::common::provider::{Open, Provider, USED, account, ask, eventually};
use rusqlite::Connection;
use serde_json::Value;
use std::process::Child;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Nothing is written to the journal until this is dropped, or for five seconds: then the kernel takes its disk for broken.
struct Stuck {
    journal: Connection,
    since: Instant,
}

impl Stuck {
    fn new(site: &Site) -> Stuck {
        let journal = Connection::open(site.home().join("journal.db")).unwrap();
        journal.busy_timeout(Duration::from_secs(30)).unwrap();
        journal.execute_batch("BEGIN IMMEDIATE").unwrap();
        Stuck { journal, since: Instant::now() }
    }

    /// On a slow machine the five seconds may be over before the test has come to what it wants to see. Then it saw nothing, and begins again.
    fn is_late(&self) -> bool {
        self.since.elapsed() > Duration::from_secs(4)
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        self.journal.execute_batch("ROLLBACK").unwrap();
    }
}

impl Provider {
    fn count(&self) -> usize {
        self.heard.load(Ordering::SeqCst)
    }
}

/// A request that left, and whose record is stuck; one like it came before.
struct Ahead {
    provider: Provider,
    site: Site,
    kernel: Child,
    open: Open,
    /// What is set aside on disk.
    leased: u64,
    stuck: Stuck,
    client: JoinHandle<(u16, String)>,
}

impl Ahead {
    fn new() -> Ahead {
        loop {
            let ahead = Ahead::begin();
            if !ahead.stuck.is_late() {
                return ahead;
            }
            // Before its kernel is stopped, which writes.
            drop(ahead.stuck);
        }
    }

    fn begin() -> Ahead {
        let provider = Provider::start(false);
        let site = provider.site("");
        let kernel = site.kernel(None);
        site.ok(&["budget", "set", "1", "--tokens", "all=100000"]);
        let open = Open::new(&site);
        assert_eq!(open.ask().0, 200);
        let leased = sum(&records(&site, "budget.leased"));
        let stuck = Stuck::new(&site);
        let client = asking(&open);
        eventually("the request left", || provider.count() == 2);
        Ahead { provider, site, kernel, open, leased, stuck, client }
    }
}

fn asking(open: &Open) -> JoinHandle<(u16, String)> {
    let (address, key) = (open.address.clone(), open.key.clone());
    std::thread::spawn(move || ask(&address, &key))
}

fn records(site: &Site, kind: &str) -> Vec<Value> {
    site.records(&[]).into_iter().filter(|record| record["type"] == kind).map(|record| record["payload"].clone()).collect()
}

fn sum(records: &[Value]) -> u64 {
    records.iter().map(|payload| payload["tokens"].as_u64().unwrap()).sum()
}

#[test]
fn a_leased_request_leaves_before_its_record_and_is_answered_after() {
    while !leased_request_leaves_first() {}
}

/// False if the machine was too slow to see anything.
fn leased_request_leaves_first() -> bool {
    let provider = Provider::start(false);
    let site = provider.site("");
    site.ok(&["budget", "set", "1", "--tokens", "all=100000"]);
    let (open, other) = (Open::new(&site), Open::new(&site));
    assert_eq!(open.ask().0, 200);
    let leased = records(&site, "budget.leased");
    assert_eq!((leased.len(), records(&site, "model.reserved")[0]["lease"].is_null()), (1, true));
    assert_eq!(account(&site, 1)["leased"]["tokens"]["tactical"], leased[0]["tokens"]);

    let stuck = Stuck::new(&site);
    let unleased = asking(&other);
    let client = asking(&open);
    eventually("the request left", || provider.count() == 2);
    std::thread::sleep(Duration::from_millis(300));
    let (told, unleased_told, asked) = (client.is_finished(), unleased.is_finished(), provider.count());
    if stuck.is_late() {
        return false;
    }
    drop(stuck);
    assert!(!told, "its answer is told though nothing says that it was asked");
    assert!(!unleased_told);
    assert_eq!(asked, 2, "a process without a lease waits for the disk before it asks");

    assert_eq!((client.join().unwrap().0, unleased.join().unwrap().0), (200, 200));
    let reserved = records(&site, "model.reserved");
    assert_eq!(reserved.iter().filter(|payload| payload["lease"] == leased[0]["lease"]).count(), 1);
    assert_eq!((provider.count(), account(&site, 1)["spent"]["tokens"]["tactical"].as_u64()), (3, Some(3 * USED)));

    // What was only set aside is given back when the kernel comes to rest.
    site.ok(&["kernel", "stop"]);
    assert_eq!(account(&site, 1)["leased"]["tokens"]["tactical"], 0);
    assert_eq!(account(&site, 1)["spent"]["tokens"]["tactical"].as_u64(), Some(3 * USED));
    assert_eq!(site.count("budget.lost"), 0);
    true
}

#[test]
fn a_request_that_left_no_record_is_paid_from_its_lease() {
    let Ahead { provider: _provider, site, mut kernel, open: _open, leased, stuck, client } = Ahead::new();
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    drop(stuck);
    assert_ne!(client.join().unwrap().0, 200);

    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
    assert_eq!(records(&site, "model.reserved").len(), 1, "nothing says that the second was asked");
    let held = sum(&records(&site, "model.held"));
    assert!(held > USED && held < leased, "what it drew from its lease is held, and nothing else of that: {held} of {leased}");
    assert_eq!((records(&site, "model.held").len(), site.count("budget.lost")), (1, 0));
    let after = account(&site, 1);
    assert_eq!((after["spent"]["tokens"]["tactical"].as_u64(), after["held"]["tokens"]["tactical"].as_u64()), (Some(USED), Some(held)));
    assert_eq!((&after["leased"]["tokens"]["tactical"], &after["reserved"]["tokens"]["tactical"]), (&Value::from(0), &Value::from(0)));
    let usage = site.json(&["usage", "--by", "model"]);
    let row = usage["rows"].as_array().unwrap().iter().find(|row| row["name"] == "anthropic/claude-sonnet-4-5").unwrap();
    assert_eq!((row["requests"].as_u64(), row["held"]["tokens"]["tactical"].as_u64()), (Some(1), Some(held)));

    // Whoever has the bill says what it was.
    let pid = site.records(&[]).iter().find(|record| record["type"] == "model.held").unwrap()["payload"]["pid"].to_string();
    assert!(site.ok(&["budget"]).contains(&format!("`skep budget reconcile {pid} …`")));
    assert!(
        site.fails(9, &["budget", "reconcile", "1", "--money", "0"])
            .contains("no money that process 1 has spent is an estimate, and none is held")
    );
    assert!(site.fails(9, &["budget", "reconcile", &pid, "--tokens", "strategic=1"]).contains("no `strategic` tokens"));
    site.ok(&["budget", "reconcile", &pid, "--tokens", "tactical=18", "--money", "0.000138"]);
    assert_eq!(account(&site, 1)["spent"]["tokens"]["tactical"].as_u64(), Some(2 * USED));
    assert_eq!(account(&site, 1)["spent"]["micros"].as_u64(), Some(2 * 138));
    let usage = site.json(&["usage"]);
    assert_eq!(usage["held"]["micros"], 0, "{usage}");
    assert_eq!(account(&site, 1)["held"]["tokens"]["tactical"], 0);
    let total = usage["total"].clone();
    assert_eq!((total["estimated"].as_u64(), total["micros"].as_u64()), (Some(0), Some(2 * 138)));
    assert!(!site.ok(&["budget"]).contains("reconcile"));
}

#[test]
fn a_disk_that_fails_takes_the_answer_back_and_the_lease_with_it() {
    let Ahead { provider: _provider, site, mut kernel, open, leased, stuck, client } = Ahead::new();
    let (status, body) = client.join().unwrap();
    assert!(status >= 500 && body.contains("journal") && body.contains(r#""type":"error""#), "{status} {body}");
    drop(stuck);

    // The kernel goes on, with what it knows: one request left, and what it cost nobody knows.
    assert_eq!(open.ask().0, 200);
    let held = sum(&records(&site, "model.held"));
    assert!(held > USED && held < leased, "{held} of {leased}");
    let after = account(&site, 1);
    assert_eq!((after["spent"]["tokens"]["tactical"].as_u64(), after["held"]["tokens"]["tactical"].as_u64()), (Some(2 * USED), Some(held)));
    assert_eq!(records(&site, "model.used").len(), 2);
    assert_eq!(site.json(&["journal", "verify"])["findings"], Value::Array(Vec::new()));
    site.ok(&["kernel", "stop"]);
    kernel.wait().unwrap();
}

/// A grant that was used is used on disk, whoever pays.
#[test]
fn a_request_by_a_grant_waits_for_the_disk() {
    let provider = Provider::start(false);
    let site = provider.site("");
    site.ok(&["init"]);
    let rule = "\n  - name: ask-me\n    match: { syscall: model.request }\n    action: require_review\n    reason: it costs money\n";
    site.write("new.yaml", &(site.read(".skep/policy.yaml") + rule));
    site.ok(&["policy", "update", "new.yaml", "--yes"]);
    let open = Open::new(&site);
    let client = asking(&open);
    eventually("somebody is asked", || site.count("review.asked") == 1);
    site.ok(&["review", "allow", "r-1", "--for", "process", "--uses", "2"]);
    assert_eq!(client.join().unwrap().0, 200);
    assert_eq!(site.count("budget.leased"), 1);

    let stuck = Stuck::new(&site);
    let client = asking(&open);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(provider.count(), 1);
    drop(stuck);
    assert_eq!(client.join().unwrap().0, 200);
    assert_eq!(provider.count(), 2);
}

#[test]
fn a_lower_cap_holds_at_once() {
    let provider = Provider::start(false);
    let site = provider.site("");
    site.ok(&["budget", "set", "1", "--tokens", "all=100000"]);
    let open = Open::new(&site);
    assert_eq!(open.ask().0, 200);
    site.ok(&["budget", "set", "1", "--tokens", "all=20"]);
    let (status, body) = open.ask();
    assert!(matches!(status, 402 | 429) && body.contains("18 of 20 tokens"), "{status} {body}");
    assert_eq!(provider.count(), 1);
}

#[test]
fn who_hangs_up_before_the_admission_is_written_leaves_nothing_reserved() {
    while !hangs_up_before_the_admission_is_written() {}
}

/// False if the machine was too slow to see anything.
fn hangs_up_before_the_admission_is_written() -> bool {
    let provider = Provider::start(false);
    let site = provider.site("");
    site.ok(&["budget", "set", "1", "--tokens", "all=100000"]);
    let open = Open::new(&site);
    let reserved = || account(&site, 1)["reserved"]["tokens"]["tactical"].as_u64().unwrap_or(0);
    let stuck = Stuck::new(&site);
    // The first of its process: nothing is leased, so it waits for the disk.
    let mut client = std::net::TcpStream::connect(&open.address).unwrap();
    let body = r#"{"model":"tactical","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}"#;
    let head = format!("POST /v1/messages HTTP/1.1\r\nhost: h\r\nx-api-key: {}\r\ncontent-length: {}\r\n\r\n", open.key, body.len());
    std::io::Write::write_all(&mut client, (head + body).as_bytes()).unwrap();
    eventually("it is reserved", || reserved() > 0 || stuck.is_late());
    drop(client);
    // Long enough for the kernel to hear of it: what it holds of the connection goes.
    let port = open.address.rsplit(':').next().unwrap().parse::<u16>().unwrap();
    eventually("the kernel closes its end", || !has_connection(port) || stuck.is_late());
    if stuck.is_late() {
        return false;
    }
    drop(stuck);
    eventually("it is released", || reserved() == 0);
    assert_eq!((provider.count(), records(&site, "model.released").len(), records(&site, "call.finished").len()), (0, 1, 1));
    let after = account(&site, 1);
    assert_eq!((&after["spent"]["micros"], after["held"]["micros"].as_u64().unwrap_or(0)), (&0.into(), 0), "{after}");
    assert_eq!(open.ask().0, 200, "control: one that waits is answered");
    true
}

/// Does anybody have a connection to this port of the loopback open?
fn has_connection(port: u16) -> bool {
    const ESTABLISHED: &str = "01";
    const CLOSE_WAIT: &str = "08";
    let here = format!("0100007F:{port:04X}");
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let mut open = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    open.any(|columns| columns.get(1) == Some(&&*here) && [ESTABLISHED, CLOSE_WAIT].contains(&columns[3]))
}
