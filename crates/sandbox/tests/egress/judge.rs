//! A judge that allows one host, and remembers everything.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use sandbox::egress::{
    self, ConnectionMeter, Destination, EgressDenial, EgressPermit, EgressPolicy, EgressVerdict, Swap, Tally, Timeouts, To,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};

pub struct Fake {
    pub host: &'static str,
    pub to: To,
    pub tls: bool,
    pub swaps: Vec<Swap>,
    pub heard: Sender<Heard>,
}

#[derive(Debug, PartialEq)]
pub enum Heard {
    Asked(Destination),
    Malformed(String),
    Ended(Tally),
}

struct Told(Sender<Heard>);

impl ConnectionMeter for Told {
    fn end(self: Box<Self>, tally: Tally) {
        // The test may be over.
        let _ = self.0.send(Heard::Ended(tally));
    }
}

impl EgressPolicy for Fake {
    fn judge<'a>(&'a self, ask: &'a Destination) -> Pin<Box<dyn Future<Output = EgressVerdict> + Send + 'a>> {
        self.heard.send(Heard::Asked(ask.clone())).unwrap();
        let no = |reason: &str| EgressDenial { reason: reason.to_owned(), hint: Some("ask a person".to_owned()) };
        let ruling = match ask.host.as_str() {
            host if host == self.host => EgressVerdict::Allow(EgressPermit {
                to: self.to,
                tls: self.tls,
                swaps: self.swaps.clone(),
                meter: Box::new(Told(self.heard.clone())),
            }),
            "later.test" => EgressVerdict::Pending(no("review-3 waits for a person")),
            _ => EgressVerdict::Deny(no("no rule allows it\u{202e}")),
        };
        Box::pin(std::future::ready(ruling))
    }

    fn malformed<'a>(&'a self, why: &'a str) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.heard.send(Heard::Malformed(why.to_owned())).unwrap();
        Box::pin(std::future::ready(()))
    }
}

/// A judge whose host leads to a port of this machine.
pub fn leading_to(host: &'static str, port: u16) -> (Fake, Receiver<Heard>) {
    let (heard, told) = channel();
    (Fake { host, to: To::Loopback(port), tls: true, swaps: Vec::new(), heard }, told)
}

/// The client's end of a connection to the proxy.
pub fn client(judge: Fake) -> DuplexStream {
    patient_client(judge, Timeouts::default())
}

pub fn patient_client(judge: Fake, timeouts: Timeouts) -> DuplexStream {
    let (client, proxy) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move { egress::serve_client(proxy, &judge, timeouts).await });
    client
}

/// Short where a test waits for the end of it.
pub fn impatient() -> Timeouts {
    Timeouts { head: Duration::from_millis(30), ..Timeouts::default() }
}

/// Says something to the proxy and reads all it answers.
pub async fn say(judge: Fake, text: impl AsRef<[u8]>) -> String {
    let mut client = client(judge);
    let _ = client.write_all(text.as_ref()).await;
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

pub async fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// A server for one connection: hears until `until`, answers, closes. Gives what it heard.
pub fn server(listener: TcpListener, until: &'static [u8], answer: &'static str) -> tokio::task::JoinHandle<String> {
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut heard = Vec::new();
        while !heard.ends_with(until) {
            assert_ne!(stream.read_buf(&mut heard).await.unwrap(), 0, "{}", String::from_utf8_lossy(&heard));
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        String::from_utf8(heard).unwrap()
    })
}

/// Nobody has come and nobody waits at this listener.
pub async fn unvisited(listener: &TcpListener) -> bool {
    let probe = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (_, peer) = listener.accept().await.unwrap();
    peer == probe.local_addr().unwrap()
}

pub fn ended(told: &Receiver<Heard>) -> Tally {
    loop {
        if let Heard::Ended(tally) = told.recv_timeout(Duration::from_secs(60)).expect("an end") {
            return tally;
        }
    }
}

pub fn shared(judge: Fake) -> Arc<dyn EgressPolicy> {
    Arc::new(judge)
}
