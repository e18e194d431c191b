//! What the gateway costs: the real `skep` between a client and a provider on this machine, beside the same client without it.
//!
//! `bench-gateway SKEP SOAK_SECONDS` prints one JSON object. Every request passes the door: it is decided, reserved and on disk before it
//! goes out.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a measurement that cannot go on ends")]

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SAMPLES: usize = 500;
const CHUNKS: usize = 50_000;
/// After a load, until a kernel is as small as it gets.
const REST: Duration = Duration::from_secs(10);
/// Who makes calls over the kernel's socket while others ask models.
const CALLERS: usize = 4;
/// Between two requests of one of eight clients.
const PAUSE: Duration = Duration::from_millis(90);
/// How long the provider thinks before its first byte: not at all, and as briefly as none does.
const THINKS_MS: [u64; 2] = [0, 20];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let skep = arguments.next().expect("the path of skep");
    let soak_s: u64 = arguments.next().map_or(0, |text| text.parse().expect("seconds"));
    let port = upstream();
    let folder = tempfile::tempdir().unwrap();
    let bed = Bed::new(&skep, folder.path(), port);
    std::thread::sleep(REST / 2);
    let idle_kib = bed.resident_kib();
    let first_bytes: Vec<Value> = THINKS_MS.iter().map(|thinks_ms| first_bytes(&bed, port, *thinks_ms)).collect();
    let (chunks_per_s, chunks_per_core_s) = chunks(&bed);
    let soak = soak(&bed, Duration::from_secs(soak_s));
    std::thread::sleep(REST);
    let memory = json!({"idle_kib": idle_kib, "rested_kib": bed.resident_kib()});
    println!(
        "{}",
        json!({"first_bytes": first_bytes, "chunks_per_s": chunks_per_s, "chunks_per_core_s": chunks_per_core_s, "soak": soak, "memory": memory})
    );
}

/// A kernel with a gateway, until it is dropped.
struct Bed {
    skep: String,
    home: std::path::PathBuf,
    project: std::path::PathBuf,
    open: Child,
    address: String,
    key: String,
    os_pid: u64,
}

impl Bed {
    fn new(skep: &str, folder: &Path, port: u16) -> Bed {
        let (home, project) = (folder.join("home"), folder.join("project"));
        std::fs::create_dir_all(&home).unwrap();
        std::fs::create_dir_all(&project).unwrap();
        assert!(Command::new("git").args(["init", "-q"]).arg(&project).status().unwrap().success());
        let config =
            format!("providers:\n  a: {{url: 'http://127.0.0.1:{port}', dialect: anthropic, free: true}}\ngateway: {{loopback: true}}\n");
        std::fs::write(home.join("config.yml"), config).unwrap();
        let command = |arguments: &[&str]| {
            let mut command = Command::new(skep);
            command.args(arguments).current_dir(&project).env("SKEP_HOME", &home).stdin(Stdio::null()).stderr(Stdio::null());
            command
        };
        let status = command(&["kernel", "start", "--json"]).output().unwrap();
        assert!(status.status.success(), "no kernel");
        std::fs::write(project.join("README.md"), "A file to read.\n").unwrap();
        assert!(command(&["init"]).stdout(Stdio::null()).status().unwrap().success(), "no repository");
        let status: Value = serde_json::from_slice(&command(&["kernel", "status", "--json"]).output().unwrap().stdout).unwrap();
        let mut open = command(&["gateway", "open", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
        let opened: Value = serde_json::Deserializer::from_reader(open.stdout.take().unwrap()).into_iter().next().unwrap().unwrap();
        let address = opened["url"].as_str().unwrap().trim_start_matches("http://").to_owned();
        let key = opened["key"].as_str().unwrap().to_owned();
        Bed { skep: skep.to_owned(), home, project, open, address, key, os_pid: status["os_pid"].as_u64().unwrap() }
    }

    /// Processor time of the kernel so far.
    fn busy(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.os_pid)).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 10)
    }

    /// Open files of the kernel: a connection or a slot that was forgotten shows here.
    fn files(&self) -> u64 {
        std::fs::read_dir(format!("/proc/{}/fd", self.os_pid)).unwrap().count() as u64
    }

    fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.os_pid)).unwrap();
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap().trim().trim_end_matches(" kB").parse().unwrap()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        drop(self.open.kill());
        drop(self.open.wait());
        drop(Command::new(&self.skep).args(["kernel", "stop"]).env("SKEP_HOME", &self.home).output());
    }
}

/// A provider that answers when it has thought as long as `thinks_ms` says, as a stream of as many events as `max_tokens` says.
fn upstream() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || provide(stream));
        }
    });
    port
}

fn provide(mut stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(body) = read_message(&mut reader) {
        let asked: Value = serde_json::from_slice(&body).unwrap();
        std::thread::sleep(Duration::from_millis(asked["metadata"]["thinks_ms"].as_u64().unwrap()));
        let mut head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
        head += &chunk(
            "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n",
        );
        if stream.write_all(head.as_bytes()).is_err() {
            return;
        }
        let event = chunk(
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"word \"}}\n\n",
        );
        for _ in 0..asked["max_tokens"].as_u64().unwrap() {
            if stream.write_all(event.as_bytes()).is_err() {
                return;
            }
        }
        let end = chunk("event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":7}}\n\n")
            + &chunk("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
            + "0\r\n\r\n";
        if stream.write_all(end.as_bytes()).is_err() {
            return;
        }
    }
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn read_message(reader: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let lower = line.to_ascii_lowercase();
        if let Some(n) = lower.strip_prefix("content-length: ") {
            length = n.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(body)
}

/// A client's connection, used for one request after the other.
struct Line {
    stream: TcpStream,
    reader: BufReader<TcpStream>,
    key: String,
}

impl Line {
    fn open(address: &str, key: &str) -> Line {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Line { reader: BufReader::new(stream.try_clone().unwrap()), stream, key: key.to_owned() }
    }

    /// Asks, and gives the time to the first byte of the answer's body and the number of chunks.
    fn ask(&mut self, words: usize, thinks_ms: u64) -> Option<(Duration, usize)> {
        let body = body(words, thinks_ms);
        let head = format!("POST /v1/messages HTTP/1.1\r\nhost: h\r\nx-api-key: {}\r\ncontent-length: {}\r\n\r\n", self.key, body.len());
        let start = Instant::now();
        self.stream.write_all((head + &body).as_bytes()).ok()?;
        let mut line = String::new();
        self.reader.read_line(&mut line).ok()?;
        if !line.contains(" 200 ") {
            return None;
        }
        while line != "\r\n" {
            line.clear();
            self.reader.read_line(&mut line).ok()?;
        }
        let (mut first, mut count) = (None, 0);
        loop {
            line.clear();
            self.reader.read_line(&mut line).ok()?;
            first.get_or_insert_with(|| start.elapsed());
            let size = usize::from_str_radix(line.trim(), 16).ok()?;
            let mut piece = vec![0; size + 2];
            self.reader.read_exact(&mut piece).ok()?;
            if size == 0 {
                return Some((first?, count));
            }
            count += 1;
        }
    }
}

fn body(words: usize, thinks_ms: u64) -> String {
    json!({"model": "m", "max_tokens": words, "stream": true, "metadata": {"thinks_ms": thinks_ms}, "messages": [{"role": "user", "content": "hi"}]})
        .to_string()
}

/// Microseconds to the first byte, with and without the gateway, by turns: what else the machine does meets both.
fn first_bytes(bed: &Bed, port: u16, thinks_ms: u64) -> Value {
    let mut direct = Line::open(&format!("127.0.0.1:{port}"), "none");
    let mut through = Line::open(&bed.address, &bed.key);
    let mut times = (Vec::new(), Vec::new());
    for at in 0..SAMPLES + 50 {
        let (one, other) = (direct.ask(3, thinks_ms).unwrap().0, through.ask(3, thinks_ms).unwrap().0);
        // The first are for what is set up once.
        if at >= 50 {
            times.0.push(one.as_secs_f64() * 1e6);
            times.1.push(other.as_secs_f64() * 1e6);
        }
    }
    let at = |times: &mut Vec<f64>, part: f64| {
        times.sort_by(f64::total_cmp);
        times[((times.len() - 1) as f64 * part) as usize]
    };
    let (direct_p50, gateway_p50) = (at(&mut times.0, 0.5), at(&mut times.1, 0.5));
    json!({"thinks_ms": thinks_ms, "direct_p50_us": direct_p50, "gateway_p50_us": gateway_p50, "added_us": gateway_p50 - direct_p50,
        "direct_p99_us": at(&mut times.0, 0.99), "gateway_p99_us": at(&mut times.1, 0.99)})
}

/// Events of one long answer a second, by the clock and by the kernel's processor time.
fn chunks(bed: &Bed) -> (f64, f64) {
    let mut line = Line::open(&bed.address, &bed.key);
    let (busy, start) = (bed.busy(), Instant::now());
    line.ask(CHUNKS, 0).unwrap();
    let (took, worked) = (start.elapsed(), bed.busy().saturating_sub(busy).max(Duration::from_millis(10)));
    (CHUNKS as f64 / took.as_secs_f64(), CHUNKS as f64 / worked.as_secs_f64())
}

/// Makes one call after the other over the kernel's socket.
fn call_until(bed: &Bed, end: Instant) {
    let mut stream = std::os::unix::net::UnixStream::connect(bed.home.join("kernel.sock")).unwrap();
    let params = json!({"tool": "fs.read", "input": {"path": "README.md"}, "path": bed.project});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "call.run", "params": params}).to_string();
    let mut frame = u32::try_from(request.len()).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(request.as_bytes());
    while Instant::now() < end {
        stream.write_all(&frame).unwrap();
        let mut length = [0; 4];
        stream.read_exact(&mut length).unwrap();
        let mut answer = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut answer).unwrap();
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["result"]["ok"], true, "{answer}");
        // Some hundreds a second, so that the journal of the run stays small.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Eight clients at once for a while: how many requests, how many failed, and how much larger the kernel is afterwards.
fn soak(bed: &Bed, time: Duration) -> Value {
    if time.is_zero() {
        return Value::Null;
    }
    // A first round, so that what is set up once is not counted as growth.
    let mut line = Line::open(&bed.address, &bed.key);
    for _ in 0..200 {
        line.ask(20, 0).unwrap();
    }
    let (before, files) = (bed.resident_kib(), bed.files());
    let end = Instant::now() + time;
    let counts: Vec<(u64, u64)> = std::thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| call_until(bed, end));
        }
        let clients: Vec<_> = (0..8)
            .map(|nth: u64| {
                scope.spawn(move || {
                    let (mut done, mut failed) = (0, 0);
                    let mut line = Line::open(&bed.address, &bed.key);
                    while Instant::now() < end {
                        match line.ask(20, 0) {
                            Some(_) => done += 1,
                            None => failed += 1,
                        }
                        // Below the records that one process may make in a minute.
                        std::thread::sleep(PAUSE);
                        // Every now and then a client hangs up in the middle of an answer.
                        if (done + nth).is_multiple_of(50) {
                            let mut gone = Line::open(&bed.address, &bed.key);
                            let body = body(500_000, 0);
                            let head = format!(
                                "POST /v1/messages HTTP/1.1\r\nhost: h\r\nx-api-key: {}\r\ncontent-length: {}\r\n\r\n",
                                bed.key,
                                body.len()
                            );
                            gone.stream.write_all((head + &body).as_bytes()).unwrap();
                            gone.reader.read_line(&mut String::new()).unwrap();
                        }
                    }
                    (done, failed)
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let (done, failed) = counts.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    // Who hung up is let go a moment later.
    std::thread::sleep(Duration::from_secs(2));
    let (grown_kib, more_files) = (bed.resident_kib().saturating_sub(before), bed.files().saturating_sub(files));
    json!({"seconds": time.as_secs(), "requests": done, "failed": failed, "grown_kib": grown_kib, "resident_kib": bed.resident_kib(), "more_files": more_files})
}
