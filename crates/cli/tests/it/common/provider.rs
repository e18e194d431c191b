//! A provider of models on loopback, and a program that asks through the gateway.

use super::Site;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub const KEY: &str = "sk-upstream-4711-never-seen";
/// What the provider says of each answer.
pub const USED: u64 = 18;

/// A provider that answers every request with the same message, or begins to and stops.
pub struct Provider {
    pub port: u16,
    pub heard: Arc<AtomicUsize>,
    /// Connections whose answers never end.
    pub hung: Arc<Mutex<Vec<TcpStream>>>,
}

impl Provider {
    pub fn start(hangs: bool) -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (heard, hung) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let provider = Provider { port, heard: heard.clone(), hung: hung.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (heard, hung) = (heard.clone(), hung.clone());
                std::thread::spawn(move || answer(stream.unwrap(), hangs, &heard, &hung));
            }
        });
        provider
    }

    pub fn site(&self, more: &str) -> Site {
        let site = Site::new(&[("a.txt", "a\n")]);
        let key = site.folder.path().join("key");
        std::fs::write(&key, KEY).unwrap();
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::create_dir(site.home()).unwrap();
        let config = format!(
            "providers:\n  anthropic: {{url: 'http://127.0.0.1:{}', dialect: anthropic, key: {{file: {}}}}}\n\
             models: {{tactical: anthropic/claude-sonnet-4-5}}\ngateway: {{loopback: true, hold: 30s{more}}}\n",
            self.port,
            key.display()
        );
        std::fs::write(site.home().join("config.yml"), config).unwrap();
        site
    }
}

fn answer(mut stream: TcpStream, hangs: bool, heard: &AtomicUsize, hung: &Mutex<Vec<TcpStream>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let (mut length, mut line) = (0, String::new());
        loop {
            line.clear();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(n) = line.strip_prefix("content-length: ") {
                length = n.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length]).unwrap();
        heard.fetch_add(1, Ordering::SeqCst);
        if hangs {
            let begun = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\nevent\r\n";
            stream.write_all(begun.as_bytes()).unwrap();
            hung.lock().unwrap().push(stream);
            return;
        }
        let body = r#"{"type":"message","role":"assistant","model":"claude-sonnet-4-5","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":11,"output_tokens":7}}"#;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        if stream.write_all((head + body).as_bytes()).is_err() {
            return;
        }
    }
}

/// `skep gateway open`, until it is dropped.
pub struct Open {
    child: Child,
    pub address: String,
    pub key: String,
}

impl Open {
    pub fn new(site: &Site) -> Open {
        let mut child = site.command(&["gateway", "open", "--json"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let opened: Value = serde_json::Deserializer::from_reader(stdout).into_iter().next().unwrap().unwrap();
        let address = opened["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
        Open { child, address, key: opened["key"].as_str().unwrap().to_owned() }
    }

    /// Status and body of one request, which may reserve about 190 tokens.
    pub fn ask(&self) -> (u16, String) {
        ask(&self.address, &self.key)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub fn ask(address: &str, key: &str) -> (u16, String) {
    let body = r#"{"model":"tactical","max_tokens":100,"messages":[{"role":"user","content":"hi"}]}"#;
    let mut stream = TcpStream::connect(address).unwrap();
    let head =
        format!("POST /v1/messages HTTP/1.1\r\nhost: h\r\nx-api-key: {key}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + body).as_bytes()).unwrap();
    let mut text = String::new();
    // A kernel that dies under us ends the stream.
    drop(stream.read_to_string(&mut text));
    let status = text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    (status, text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        // Only what hangs takes as long.
        assert!(begun.elapsed() < Duration::from_secs(240), "{what}");
        // Most looks start a program: who waits long looks seldom, and leaves the processor to what it waits for.
        std::thread::sleep((begun.elapsed() / 10).clamp(Duration::from_millis(20), Duration::from_millis(300)));
    }
}

pub fn account(site: &Site, pid: u64) -> Value {
    let budgets = site.json(&["budget", "show"]);
    budgets["accounts"].as_array().unwrap().iter().find(|account| account["pid"] == pid).cloned().unwrap_or_default()
}
