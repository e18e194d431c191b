//! A gateway with a door that notes everything, and a provider on a socket that does what it is told.
#![allow(dead_code, reason = "each test file uses its own part")]

mod caller;

pub use caller::{Answer, Caller};
use caller::{find, read_answer};
use gateway::{
    Admission, Admitted, BoxedFuture, ClientSession, Denial, DenialKind, ExchangeOutcome, Gateway, GatewayRefusal, GatewaySettings,
    ModelNames, ModelRequest, ModelSettings, ProviderSettings, Secret, Settlement, Targets, Upstream, VendorClient as Vendor,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_rustls::rustls::pki_types::CertificateDer;

pub const KEY: &str = "key-of-this-process";
const LONG: Duration = Duration::from_secs(60);

/// What the provider does for one request.
#[derive(Clone, Debug)]
pub enum Said {
    Text(String),
    /// One chunk of a chunked body.
    Chunk(String),
    /// The same in chunks of one byte.
    Crumbs(String),
    Bytes(usize),
    /// Nothing more, until the other side hangs up.
    UntilGone,
    Close,
}

pub fn head(status: u16, headers: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nrequest-id: r-1\r\nset-cookie: a=b\r\n{headers}\r\n\r\n")
}

/// A short answer in Anthropic's stream format.
pub fn sse(words: usize) -> Vec<String> {
    let event = |kind: &str, rest: &str| format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{rest}}}\n\n");
    let mut all = vec![event("message_start", r#","message":{"model":"claude-x","usage":{"input_tokens":11,"output_tokens":1}}"#)];
    all.extend((0..words).map(|n| event("content_block_delta", &format!(r#","index":0,"delta":{{"type":"text_delta","text":"w{n} "}}"#))));
    all.push(event("message_delta", r#","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}"#));
    all.push(event("message_stop", ""));
    all
}

fn usual() -> Vec<Said> {
    let mut said = vec![Said::Text(head(200, "content-type: text/event-stream\r\ntransfer-encoding: chunked"))];
    said.extend(sse(3).into_iter().map(Said::Chunk));
    said.push(Said::Text("0\r\n\r\n".into()));
    said
}

#[derive(Default)]
struct Provider {
    plan: Mutex<VecDeque<Vec<Said>>>,
    heard: Mutex<Vec<String>>,
    changed: Notify,
    gone: Notify,
    written: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
}

struct Notes {
    asked: Mutex<Vec<String>>,
    refused: Mutex<Vec<String>>,
    refuse: AtomicBool,
    stoppers: Mutex<Vec<gateway::StopHandle>>,
    ended: mpsc::UnboundedSender<ExchangeOutcome>,
}

impl Admission for Notes {
    fn replay(&self) -> Option<Arc<gateway::Provider>> {
        None
    }

    fn names(&self) -> Arc<ModelNames> {
        Arc::default()
    }

    fn admit<'a>(&'a self, request: &'a ModelRequest<'a>) -> BoxedFuture<'a, Result<Admitted, Denial>> {
        Box::pin(async move {
            self.asked.lock().unwrap().push(format!("{} {} {}", request.provider, request.model, request.tier.as_str()));
            if self.refuse.swap(false, Ordering::SeqCst) {
                return Err(Denial::new(DenialKind::Denied, "not today"));
            }
            let (stopper, stop) = gateway::StopSignal::new();
            self.stoppers.lock().unwrap().push(stopper);
            Ok(Admitted { output_max: None, record: false, cassette: None, stop, settlement: Box::new(Note(self.ended.clone())) })
        })
    }

    fn record_refusal<'a>(&'a self, request: &'a ModelRequest<'a>, refusal: &'a GatewayRefusal) -> BoxedFuture<'a, ()> {
        let runs = request.parsed.provider_tools.iter().map(String::as_str).collect::<Vec<_>>().join("+");
        self.refused.lock().unwrap().push(format!("{} {} [{runs}]: {}", request.provider, request.model, refusal.reason));
        Box::pin(std::future::ready(()))
    }
}

struct Note(mpsc::UnboundedSender<ExchangeOutcome>);

impl Settlement for Note {
    fn note_sent(&mut self) -> BoxedFuture<'_, Result<(), Denial>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn recorded(&mut self) -> BoxedFuture<'_, Result<(), Denial>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn settle(self: Box<Self>, outcome: ExchangeOutcome) -> BoxedFuture<'static, ()> {
        Box::pin(async move { drop(self.0.send(outcome)) })
    }
}

pub struct Bed {
    provider: Arc<Provider>,
    upstream: Mutex<Option<JoinHandle<()>>>,
    notes: Arc<Notes>,
    ended: tokio::sync::Mutex<mpsc::UnboundedReceiver<ExchangeOutcome>>,
    gateway: Arc<Gateway>,
    pub address: std::net::SocketAddr,
    server: JoinHandle<()>,
    doors: Mutex<tokio::task::JoinSet<()>>,
    _dir: tempfile::TempDir,
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Bed {
    /// `more` are further settings of the provider `anthropic`, in YAML.
    pub async fn new(more: &str) -> Bed {
        Bed::with(more, None, |_, _| {}).await
    }

    pub async fn with(more: &str, client: Option<Vendor>, change: impl FnOnce(&mut ModelSettings, u16)) -> Bed {
        Bed::believing(&[], more, client, change).await
    }

    /// `roots` vouch for providers beside those whom the host believes.
    pub async fn believing(
        roots: &[CertificateDer<'static>],
        more: &str,
        client: Option<Vendor>,
        change: impl FnOnce(&mut ModelSettings, u16),
    ) -> Bed {
        Bed::made(roots, more, client, change, |gateway| gateway).await
    }

    /// A gateway that hangs up on clients who take nothing for this long.
    pub async fn with_stall_timeout(stall: Duration, more: &str) -> Bed {
        Bed::made(&[], more, None, |_, _| {}, |gateway| gateway.with_stall_timeout(stall)).await
    }

    /// A gateway with this much memory for the requests of a process.
    pub async fn with_memory_limit(bytes: usize) -> Bed {
        Bed::made(&[], "", None, |_, _| {}, |gateway| gateway.with_memory_limit(bytes)).await
    }

    async fn made(
        roots: &[CertificateDer<'static>],
        more: &str,
        client: Option<Vendor>,
        change: impl FnOnce(&mut ModelSettings, u16),
        make: impl FnOnce(Gateway) -> Gateway,
    ) -> Bed {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        std::fs::write(&key, "sk-upstream\n").unwrap();
        std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let provider = Arc::new(Provider::default());
        let upstream = tokio::spawn(accept(listener, provider.clone()));
        let yaml = format!("url: http://127.0.0.1:{port}\ndialect: anthropic\nkey: {{file: {}}}\n", key.display());
        let parse = |yaml: &str| yaml::from_str::<ProviderSettings>(yaml).unwrap();
        let providers = BTreeMap::from([
            ("anthropic".to_owned(), parse(&format!("{yaml}{more}\n"))),
            ("spare".to_owned(), parse(&format!("{yaml}models: [none]\n"))),
        ]);
        let tactical = Targets(vec!["anthropic/first".into(), "spare/second".into()]);
        let mut settings =
            ModelSettings { providers, models: BTreeMap::from([("tactical".to_owned(), tactical)]), gateway: GatewaySettings::default() };
        change(&mut settings, port);
        let gateway = Arc::new(make(Gateway::new(&settings, Upstream::new(roots), Some(Duration::from_secs(5))).unwrap()));
        let (sender, ended) = mpsc::unbounded_channel();
        let notes = Arc::new(Notes {
            asked: Mutex::default(),
            refused: Mutex::default(),
            refuse: AtomicBool::new(false),
            stoppers: Mutex::default(),
            ended: sender,
        });
        let session = Arc::new(ClientSession { pid: 7, key: Secret::new(KEY), client, admission: notes.clone() });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(gateway::listen(gateway.clone(), session, listener, tokio::sync::watch::channel(false).1));
        let upstream = Mutex::new(Some(upstream));
        Bed {
            provider,
            upstream,
            notes,
            ended: tokio::sync::Mutex::new(ended),
            gateway,
            address,
            server,
            doors: Mutex::default(),
            _dir: dir,
        }
    }

    /// Another process at a listener of its own, with the same key.
    pub async fn door(&self, pid: u64) -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let session = Arc::new(ClientSession { pid, key: Secret::new(KEY), client: None, admission: self.notes.clone() });
        self.doors.lock().unwrap().spawn(gateway::listen(self.gateway.clone(), session, listener, tokio::sync::watch::channel(false).1));
        address
    }

    pub fn will(&self, said: Vec<Said>) {
        self.provider.plan.lock().unwrap().push_back(said);
    }

    /// Stops every request there was, as an operator who cancels does.
    pub fn stop(&self, words: &str) {
        let why = gateway::StopCause { ending: world::Ending::Cancelled, words: words.to_owned() };
        self.notes.stoppers.lock().unwrap().iter().for_each(|stopper| stopper.stop(why.clone()));
    }

    pub fn refuse_next(&self) {
        self.notes.refuse.store(true, Ordering::SeqCst);
    }

    pub fn heard(&self) -> Vec<String> {
        self.provider.heard.lock().unwrap().clone()
    }

    pub fn asked(&self) -> Vec<String> {
        self.notes.asked.lock().unwrap().clone()
    }

    /// What the gateway refused by itself.
    pub fn refused(&self) -> Vec<String> {
        self.notes.refused.lock().unwrap().clone()
    }

    pub fn most_at_once(&self) -> usize {
        self.provider.most.load(Ordering::SeqCst)
    }

    pub async fn wait_heard(&self, count: usize) {
        let wait = async {
            while self.heard().len() < count {
                self.provider.changed.notified().await;
            }
        };
        tokio::time::timeout(LONG, wait).await.expect("the provider heard nothing");
    }

    pub async fn ended(&self) -> ExchangeOutcome {
        tokio::time::timeout(LONG, self.ended.lock().await.recv()).await.expect("a request was not settled").unwrap()
    }

    pub async fn upstream_gone(&self) {
        tokio::time::timeout(LONG, self.provider.gone.notified()).await.expect("the upstream was not cancelled");
    }

    pub async fn close_upstream(&self) {
        let upstream = self.upstream.lock().unwrap().take().unwrap();
        upstream.abort();
        drop(upstream.await);
    }

    /// How much the provider has written when it can write no more.
    pub async fn written_at_rest(&self) -> usize {
        let mut before = usize::MAX;
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let now = self.provider.written.load(Ordering::SeqCst);
            if now == before && now > 0 {
                return now;
            }
            before = now;
        }
    }

    /// So many wait for a slot.
    pub async fn in_line(&self, count: usize) {
        let wait = async {
            while self.gateway.providers().map(|provider| provider.load().1).max() != Some(count) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, wait).await.expect("the line is not as long as that");
    }

    /// No slot is held and nobody waits.
    pub async fn rest(&self) {
        let all_free = || self.gateway.providers().all(|provider| provider.load() == (0, 0));
        let wait = async {
            while !all_free() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, wait).await.expect("a slot was not given back");
    }

    pub async fn post(&self, path: &str, body: &str) -> Answer {
        self.open(path, body).await.answer().await
    }

    pub async fn send(&self, raw: &str) -> Answer {
        let (mut reader, mut writer) = TcpStream::connect(self.address).await.unwrap().into_split();
        let raw = raw.to_owned();
        // The gateway may answer and hang up before it has read everything.
        let writing = tokio::spawn(async move {
            let _ = writer.write_all(raw.as_bytes()).await;
            writer
        });
        let answer = read_answer(&mut reader, &mut Vec::new()).await;
        writing.abort();
        answer
    }

    /// Sends this much and no more.
    pub async fn begin(&self, raw: &str) -> Caller {
        let mut caller = Caller { stream: TcpStream::connect(self.address).await.unwrap(), buffer: Vec::new() };
        caller.stream.write_all(raw.as_bytes()).await.unwrap();
        caller
    }

    pub async fn open(&self, path: &str, body: &str) -> Caller {
        let mut caller = Caller { stream: TcpStream::connect(self.address).await.unwrap(), buffer: Vec::new() };
        caller.ask(path, body).await;
        caller
    }
}

async fn accept(listener: TcpListener, provider: Arc<Provider>) {
    let mut open = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        open.spawn(talk(stream, provider.clone()));
    }
}

async fn talk(mut stream: TcpStream, provider: Arc<Provider>) {
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = find(&buffer, b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                return;
            }
        };
        let head = String::from_utf8_lossy(&buffer[..end]).to_string();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse::<usize>().unwrap());
        while buffer.len() < end + length {
            assert!(stream.read_buf(&mut buffer).await.unwrap() > 0);
        }
        let request: Vec<u8> = buffer.drain(..end + length).collect();
        provider.heard.lock().unwrap().push(String::from_utf8(request).unwrap());
        provider.changed.notify_one();
        let at_once = provider.now.fetch_add(1, Ordering::SeqCst) + 1;
        provider.most.fetch_max(at_once, Ordering::SeqCst);
        let said = provider.plan.lock().unwrap().pop_front().unwrap_or_else(usual);
        let goes_on = act(&mut stream, &provider, said).await;
        provider.now.fetch_sub(1, Ordering::SeqCst);
        if !goes_on {
            return;
        }
    }
}

/// Says if the connection goes on.
async fn act(stream: &mut TcpStream, provider: &Provider, said: Vec<Said>) -> bool {
    for said in said {
        let written = match said {
            Said::Text(text) => stream.write_all(text.as_bytes()).await,
            Said::Chunk(text) => stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await,
            Said::Crumbs(text) => {
                let mut written = Ok(());
                for byte in text.bytes() {
                    written = written.and(stream.write_all(&[b'1', b'\r', b'\n', byte, b'\r', b'\n']).await);
                }
                written
            }
            Said::Bytes(mut left) => {
                let piece = vec![b'x'; 64 * 1024];
                while left > 0 {
                    let Ok(n) = stream.write(&piece[..left.min(piece.len())]).await else { return false };
                    provider.written.fetch_add(n, Ordering::SeqCst);
                    left -= n;
                }
                Ok(())
            }
            Said::UntilGone => {
                let mut sink = [0; 64];
                while stream.read(&mut sink).await.unwrap_or(0) > 0 {}
                provider.gone.notify_one();
                return false;
            }
            Said::Close => return false,
        };
        if written.is_err() {
            return false;
        }
    }
    true
}
