//! What is wrong with the journal is noticed by every start, told by every command, and forgotten by nobody but the operator.

use crate::common::Site;
use journal::{Class, Draft, Journal, Options};
use rusqlite::Connection;
use sha2::{Digest, Sha256};
use std::fs;
use std::time::Duration;

fn database(site: &Site) -> Connection {
    Connection::open(site.home().join("journal.db")).unwrap()
}

/// Starts a kernel and waits until it has looked at the whole chain.
fn verified(site: &Site) -> (String, Vec<String>) {
    site.ok(&["kernel", "start"]);
    loop {
        let status = site.json(&["kernel", "status"]);
        let state = status["verification"].as_str().unwrap().to_owned();
        if state != "running" {
            return (state, status["doubts"].as_array().unwrap().iter().map(|doubt| doubt.as_str().unwrap().to_owned()).collect());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn stderr(site: &Site, arguments: &[&str]) -> String {
    String::from_utf8(site.skep(arguments).stderr).unwrap()
}

fn rename_the_operator(site: &Site, name: &str) {
    let sql = "UPDATE record SET line = substr(line, 1, instr(line, '\"name\":\"') + 7) || ?1 || substr(line, instr(line, '\"name\":\"') + 16) WHERE seq = 1";
    assert_eq!(database(site).execute(sql, [name]).unwrap(), 1);
}

#[test]
fn a_changed_record_is_told_by_every_command_until_somebody_has_looked() {
    let site = Site::new(&[]);
    site.ok(&["init"]);
    site.ok(&["kernel", "stop"]);
    assert_eq!(verified(&site), ("whole".to_owned(), vec![]), "control");
    assert_eq!(stderr(&site, &["ps"]), "");
    site.ok(&["kernel", "stop"]);

    rename_the_operator(&site, "operatix");
    let (state, doubts) = verified(&site);
    assert_eq!((state.as_str(), doubts.len()), ("doubted", 1), "{doubts:?}");
    assert!(doubts[0].starts_with("chain broken: record 2: record 1 is not the line"), "{doubts:?}");
    for command in [&["ps"][..], &["list", "tasks"], &["review"], &["kernel", "stop"], &["ps"], &["doctor"]] {
        let said = stderr(&site, command);
        assert!(said.contains("the journal is in doubt: chain broken"), "{command:?}: {said}");
    }
    let said: serde_json::Value = serde_json::from_str(&stderr(&site, &["ps", "--json"])).unwrap();
    assert_eq!(said["doubts"][0]["what"], "chain broken");
    assert!(site.ok(&["status"]).contains("the journal is in doubt"));
    assert_eq!(site.json(&["status"])["doubts"][0], doubts[0].as_str());
    assert!(site.ok(&["kernel", "status"]).contains("chain broken"));
    drop(verified(&site));
    assert_eq!(site.count("journal.doubted"), 1, "a second start finds the same, and records it once");

    assert!(site.ok(&["journal", "doubts"]).contains("chain broken"));
    assert!(stderr(&site, &["ps"]).contains("in doubt"), "to be shown is not to be looked at");
    assert!(site.ok(&["journal", "doubts", "--seen"]).contains("by operator"));
    assert_eq!((stderr(&site, &["ps"]), site.count("journal.acknowledged")), (String::new(), 1));
    site.ok(&["kernel", "stop"]);
    assert_eq!(verified(&site), ("doubted".to_owned(), vec![]), "what was seen is not told again");
    site.ok(&["kernel", "stop"]);

    rename_the_operator(&site, "operatux");
    let (_, doubts) = verified(&site);
    assert_eq!(doubts.len(), 1, "another change is another doubt");
    assert!(stderr(&site, &["ps"]).contains("in doubt"));
}

/// Adds records of a kind that changes nothing.
fn fill(site: &Site, records: u64) {
    let (journal, _) = Journal::open(&site.home(), Options::default()).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
    for n in 0..records {
        let payload = serde_json::json!({"pid": 2, "text": format!("{n} {}", "x".repeat(200))});
        let payload = serde_json::value::to_raw_value(&payload).unwrap();
        let at_ms = i64::try_from(now).unwrap();
        let draft = Draft { kind: "brain.said", session: "s-2".into(), pid: Some(2), task: None, payload, at_ms, class: Class::Fact };
        drop(journal.append(vec![draft]));
    }
    journal.close();
}

#[test]
fn a_destroyed_page_is_noticed_by_the_next_start() {
    let site = Site::new(&[]);
    site.ok(&["init"]);
    site.ok(&["kernel", "stop"]);
    fill(&site, 2_000);
    assert_eq!(verified(&site).0, "whole", "control");
    site.ok(&["kernel", "stop"]);
    database(&site).execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let path = site.home().join("journal.db");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() / 8192 / 2 * 8192;
    bytes[at..at + 8192].fill(0);
    fs::write(&path, bytes).unwrap();
    let (state, doubts) = verified(&site);
    assert_eq!(state, "doubted");
    assert!(doubts.iter().any(|doubt| doubt.starts_with("file damaged: record ")), "{doubts:?}");
}

/// Appends a record as somebody would who can write the file but has no key: the chain is right.
fn forge(site: &Site, kind: &str, payload: &str) {
    let db = database(site);
    let (seq, last): (i64, String) =
        db.query_row("SELECT seq, line FROM record ORDER BY seq DESC LIMIT 1", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let nonce: Vec<u8> = db.query_row("SELECT value FROM meta WHERE key = 'nonce'", [], |row| row.get(0)).unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let seq = seq + 1;
    let mut id: [u8; 32] = Sha256::new().chain_update(&nonce).chain_update(seq.to_be_bytes()).finalize().into();
    (id[6], id[8]) = (id[6] & 0x0f | 0x80, id[8] & 0x3f | 0x80);
    let id = hex(&id[..16]);
    let id = format!("{}-{}-{}-{}-{}", &id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]);
    let line = format!(
        r#"{{"event_id":"{id}","timestamp":"2026-11-06T21:40:00.000Z","session_id":"s-2","type":"{kind}","payload":{payload},"hash_prev":"{}","seq":{seq},"v":1}}"#,
        hex(&Sha256::digest(last.as_bytes()))
    );
    db.execute("INSERT INTO record VALUES (?1, ?2, 1794001200000, 's-2', 2, NULL, ?3)", (seq, kind, line)).unwrap();
}

#[test]
fn rows_that_were_added_after_a_stop_are_kept_aside_and_never_applied() {
    let state = |site: &Site| {
        let processes = site.json(&["ps"])["processes"].clone();
        processes.as_array().unwrap().iter().find(|process| process["pid"] == 2).unwrap()["state"].as_str().unwrap().to_owned()
    };
    let site = Site::new(&[]);
    site.ok(&["init"]);
    site.ok(&["kernel", "stop"]);
    forge(&site, "proc.paused", r#"{"pid":2,"reason":"a stranger says so"}"#);
    let (_, doubts) = verified(&site);
    assert_eq!(doubts.len(), 1);
    assert!(doubts[0].starts_with("rows after the stop: record"), "{doubts:?}");
    assert_eq!((state(&site).as_str(), site.count("proc.paused")), ("idle", 0));
    let kept: Vec<_> = fs::read_dir(site.home().join("evidence")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(kept.len(), 1);
    assert!(fs::read_to_string(&kept[0]).unwrap().contains("a stranger says so"));
    site.ok(&["kernel", "stop"]);
    assert_eq!(verified(&site).1.len(), 1, "told once, until somebody looks");

    // Control: after a crash the same row is a record that was not sealed yet, and counts.
    let site = Site::new(&[]);
    let mut kernel = site.kernel(None);
    site.ok(&["init"]);
    while site.json(&["journal", "verify"])["unsealed"] != 0 {}
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    forge(&site, "proc.paused", r#"{"pid":2,"reason":"a stranger says so"}"#);
    assert_eq!(state(&site), "paused");
    assert_eq!(site.count("journal.resealed"), 1, "it is told that it was not sealed");
}

#[test]
fn blobs_are_verified_and_forgotten() {
    let site = Site::new(&[("big.txt", &"0123456789abcdef\n".repeat(3_000))]);
    site.ok(&["init"]);
    site.ok(&["call", "fs.read", "path=big.txt"]);
    let record = site.records(&["--kind", "call.finished"]).pop().unwrap();
    let (seq, blob) = (record["seq"].to_string(), record["payload"]["blob"].as_str().unwrap().to_owned());
    let file = site.home().join("blobs").join(&blob[..2]).join(&blob[2..]);
    let whole = fs::read(&file).unwrap();
    site.ok(&["journal", "verify"]);
    site.ok(&["journal", "verify", "--offline"]);

    let mut changed = whole.clone();
    changed[100] ^= 1;
    fs::write(&file, changed).unwrap();
    assert!(site.fails(1, &["journal", "verify"]).contains("blob changed"));
    assert!(site.fails(1, &["journal", "verify", "--offline"]).contains("blob changed"));
    fs::remove_file(&file).unwrap();
    assert!(site.fails(1, &["journal", "verify"]).contains("blob missing"));
    site.ok(&["kernel", "stop"]);
    assert!(site.fails(1, &["journal", "verify", "--offline"]).contains("blob missing"));
    let (_, doubts) = verified(&site);
    assert!(doubts.iter().any(|doubt| doubt.starts_with("blob missing: ") && doubt.contains(&blob)), "{doubts:?}");
    fs::write(&file, &whole).unwrap();
    site.ok(&["journal", "verify"]);

    assert!(site.fails(2, &["journal", "forget", &seq]).contains("--yes"));
    assert!(site.fails(2, &["journal", "forget", "x", "--yes"]).contains("neither a blob nor a record"));
    assert!(site.skep(&["journal", "forget", "0", "--yes"]).stderr.windows(13).any(|part| part == b"names no blob"));
    let policy = site.records(&["--kind", "policy.updated"])[0]["payload"]["blob"].as_str().unwrap().to_owned();
    let refused = site.skep(&["journal", "forget", &policy, "--yes"]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("the policy of zone-1 needs blob"));
    let forgotten = site.json(&["journal", "forget", &seq, "--yes", "--reason", "it was private"]);
    assert_eq!(forgotten["forgotten"][0], blob.as_str());
    assert!(!file.exists());
    // A copy of the file is of no use: the key is gone.
    fs::write(&file, &whole).unwrap();
    site.ok(&["journal", "verify"]);
    site.ok(&["journal", "verify", "--offline"]);
    let record = site.records(&["--kind", "blob.forgotten"]).pop().unwrap();
    assert_eq!((record["payload"]["reason"].as_str(), record["payload"]["by"].as_str()), (Some("it was private"), Some("operator")));
    assert_eq!(site.records(&["--kind", "call.finished"]).pop().unwrap()["payload"]["blob"], blob.as_str(), "the record stays");
    let again = site.skep(&["journal", "forget", &blob, "--yes"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("there is no blob"));
}
