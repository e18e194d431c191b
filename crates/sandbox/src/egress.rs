//! The way out of a room with a restricted network: a proxy for HTTP, at a door of the room.
//!
//! It speaks CONNECT and plain HTTP/1.1 to whatever stream it is given, asks a [`EgressPolicy`] about each request, resolves the name
//! itself, and connects to public addresses only. It never looks into TLS; but the name that a client's first message asks for
//! must be the one that was judged.
//!
//! **Invariant.** Nothing leaves before the judge has said yes to this host and port, and what leaves is counted and told to the
//! [`ConnectionMeter`] of that yes exactly once, however the connection ends. It does not know policy, the journal, or who is in the room.

mod address;
mod answer;
mod dial;
mod head;
mod hello;
mod mask;
mod relay;

pub use address::{closed, closed_name};
pub use head::{HEAD_BYTES_MAX, Malformed, Read as HeadRead, RequestHead, host as host_name, read as read_head};
pub use hello::{HELLO_BYTES_MAX, Hello, read as read_hello};
pub use mask::Swap;

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use answer::ProxyAnswer;
use dial::Unreached;
use relay::{Counts, Flow};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Connections of one door at a time; more wait.
const CONNECTIONS_MAX: usize = 64;

/// What a room wants to reach.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination {
    /// Of a plain request; a tunnel's cannot be seen.
    pub method: Option<String>,
    /// Lower-case, without a final dot; never an address.
    pub host: String,
    pub port: u16,
}

/// Who says what may be reached.
pub trait EgressPolicy: Send + Sync {
    fn judge<'a>(&'a self, ask: &'a Destination) -> Pin<Box<dyn Future<Output = EgressVerdict> + Send + 'a>>;

    /// Hears of a request that was not understood, and so not judged.
    fn malformed<'a>(&'a self, why: &'a str) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
}

pub enum EgressVerdict {
    Allow(EgressPermit),
    Deny(EgressDenial),
    /// Somebody has to answer first; the client may try again then.
    Pending(EgressDenial),
}

/// A no in a client's hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EgressDenial {
    pub reason: String,
    pub hint: Option<String>,
}

/// A yes to one connection.
pub struct EgressPermit {
    pub to: To,
    /// Must a tunnel begin with TLS that asks for this very host?
    pub tls: bool,
    /// What stands for what in the headers of a plain request.
    pub swaps: Vec<Swap>,
    pub meter: Box<dyn ConnectionMeter>,
}

/// Where a yes leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum To {
    /// To the public addresses of its name.
    Name,
    /// To a port of this machine, which a trusted configuration names.
    Loopback(u16),
}

/// Told once what became of a connection.
pub trait ConnectionMeter: Send {
    fn end(self: Box<Self>, tally: Tally);
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    /// Bytes out of the room, and into it.
    pub up: u64,
    pub down: u64,
    pub duration: Duration,
    pub end: End,
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Done,
    /// The proxy stopped it.
    Refused(String),
    /// The network, or a side that went away.
    Failed(String),
}

/// How long something may take.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// A whole head, or a whole first TLS message.
    pub head: Duration,
    /// Resolving a name, and each try to connect.
    pub connect: Duration,
    /// Without a byte in either direction.
    pub idle: Duration,
    /// What is left of a connection when its job has ended.
    pub over: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            head: Duration::from_secs(15),
            connect: Duration::from_secs(15),
            idle: Duration::from_secs(300),
            over: Duration::from_millis(250),
        }
    }
}

/// What is behind a door.
#[derive(Debug, Clone)]
pub enum Behind {
    /// The proxy.
    Proxy,
    /// One place, for programs that know no proxy.
    Place(Destination),
}

/// Serves a door until the job is over, and then sees every connection to its end: those that do not end by themselves are cut.
/// Dropped, it cuts them at once.
pub async fn serve(door: TcpListener, behind: Behind, judge: Arc<dyn EgressPolicy>, timeouts: Timeouts, over: impl Future<Output = ()>) {
    let mut running = JoinSet::new();
    tokio::select! {
        () = accept(&door, &behind, &judge, timeouts, &mut running) => {}
        () = over => {}
    }
    drop(door);
    let left = async { while running.join_next().await.is_some() {} };
    if tokio::time::timeout(timeouts.over, left).await.is_err() {
        running.shutdown().await;
    }
}

async fn accept(door: &TcpListener, behind: &Behind, judge: &Arc<dyn EgressPolicy>, timeouts: Timeouts, running: &mut JoinSet<()>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        while running.try_join_next().is_some() {}
        let Ok((stream, _)) = door.accept().await else {
            // Out of descriptors, most likely; what runs will give some back.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (judge, behind) = (Arc::clone(judge), behind.clone());
        running.spawn(async move {
            let _place = place;
            match behind {
                Behind::Proxy => serve_client(stream, &*judge, timeouts).await,
                Behind::Place(ask) => forward(stream, ask, &*judge, timeouts).await,
            }
        });
    }
}

/// Serves one connection to the proxy, over any kind of stream.
pub async fn serve_client(mut client: impl AsyncRead + AsyncWrite + Unpin + Send, judge: &dyn EgressPolicy, timeouts: Timeouts) {
    let mut early = Vec::new();
    let (head, length) = match tokio::time::timeout(timeouts.head, receive_head(&mut client, &mut early)).await {
        Ok(Ok(Some(found))) => found,
        Ok(Ok(None) | Err(HeadError::Lost)) => return,
        Ok(Err(HeadError::Malformed(malformed))) => {
            judge.malformed(&malformed.why).await;
            return ProxyAnswer::malformed(&malformed).send(&mut client, timeouts.idle).await;
        }
        Err(_) => {
            judge.malformed("the head did not come in time").await;
            return ProxyAnswer::late().send(&mut client, timeouts.idle).await;
        }
    };
    early.drain(..length);
    let tunnel = head.path.is_none();
    let ask = Destination { method: (!tunnel).then(|| head.method.clone()), host: head.host.clone(), port: head.port };
    let leave = match judge.judge(&ask).await {
        EgressVerdict::Allow(leave) => leave,
        EgressVerdict::Deny(no) => return ProxyAnswer::denied(&no).send(&mut client, timeouts.idle).await,
        EgressVerdict::Pending(no) => return ProxyAnswer::pending(&no).send(&mut client, timeouts.idle).await,
    };
    let EgressPermit { to, tls, swaps, meter } = leave;
    let mut trip = ConnectionRun::begin(meter);
    let server = match dial::dial(&ask, to, timeouts.connect).await {
        Ok(server) => server,
        Err(unreached) => {
            let answer = match &unreached {
                Unreached::Closed(why) => ProxyAnswer::denied(&EgressDenial { reason: why.clone(), hint: None }),
                Unreached::Failed(why) => ProxyAnswer::unreached(why),
            };
            trip.end = match unreached {
                Unreached::Closed(why) => End::Refused(why),
                Unreached::Failed(why) => End::Failed(why),
            };
            drop(trip);
            return answer.send(&mut client, timeouts.idle).await;
        }
    };
    if !tunnel {
        return request(client, server, &head, &early, &swaps, trip, timeouts).await;
    }
    if client.write_all(answer::ESTABLISHED).await.is_err() {
        trip.end = End::Failed("the client went away".to_owned());
        return;
    }
    if tls && let Err(why) = same_name(&mut client, &mut early, &ask.host, timeouts.head).await {
        trip.end = End::Refused(why);
        return;
    }
    both_ways(client, server, &early, trip, timeouts).await;
}

/// Serves one connection to a place.
async fn forward(client: TcpStream, ask: Destination, judge: &dyn EgressPolicy, timeouts: Timeouts) {
    // There is nobody to tell why: the other end speaks some protocol of its own. The judge has it on record.
    let EgressVerdict::Allow(EgressPermit { to, meter, .. }) = judge.judge(&ask).await else { return };
    let mut trip = ConnectionRun::begin(meter);
    match dial::dial(&ask, to, timeouts.connect).await {
        Ok(server) => both_ways(client, server, &[], trip, timeouts).await,
        Err(Unreached::Closed(why)) => trip.end = End::Refused(why),
        Err(Unreached::Failed(why)) => trip.end = End::Failed(why),
    }
}

/// Why no head came.
enum HeadError {
    Lost,
    Malformed(Malformed),
}

/// Reads until there is a whole head; `None` from a client that says nothing and goes.
async fn receive_head(client: &mut (impl AsyncRead + Unpin), bytes: &mut Vec<u8>) -> Result<Option<(RequestHead, usize)>, HeadError> {
    loop {
        match head::read(bytes) {
            head::Read::Whole(head, length) => return Ok(Some((head, length))),
            head::Read::Bad(malformed) => return Err(HeadError::Malformed(malformed)),
            head::Read::More => {}
        }
        match client.read_buf(bytes).await {
            Ok(0) if bytes.is_empty() => return Ok(None),
            Ok(0) => return Err(HeadError::Malformed(Malformed { status: 400, why: "the head ends in the middle".to_owned() })),
            Ok(_) => {}
            Err(_) => return Err(HeadError::Lost),
        }
    }
}

/// Waits for the first TLS message and compares the name in it.
async fn same_name(client: &mut (impl AsyncRead + Unpin), early: &mut Vec<u8>, host: &str, timeouts: Duration) -> Result<(), String> {
    let read = async {
        loop {
            match hello::read(early) {
                Hello::More => {}
                Hello::Named(name) if name == host => return Ok(()),
                Hello::Named(name) => return Err(format!("TLS asks for `{name}`, and the tunnel is for `{host}`")),
                Hello::Nameless => return Err(format!("TLS names no server, and the tunnel is for `{host}`")),
                Hello::Bad(why) => return Err(why.to_owned()),
            }
            match client.read_buf(early).await {
                Ok(0) | Err(_) => return Err("the tunnel ended before its first TLS message".to_owned()),
                Ok(_) => {}
            }
        }
    };
    tokio::time::timeout(timeouts, read).await.unwrap_or_else(|_| Err("the first TLS message did not come in time".to_owned()))
}

/// One plain request and its answer.
async fn request(
    client: impl AsyncRead + AsyncWrite + Unpin,
    server: TcpStream,
    head: &RequestHead,
    early: &[u8],
    swaps: &[Swap],
    mut trip: ConnectionRun,
    timeouts: Timeouts,
) {
    let (onward, swapped) = head.onward(swaps);
    let (from_client, to_client) = tokio::io::split(client);
    let (from_server, mut to_server) = server.into_split();
    // What a client sends after its body is a second request, which this connection does not carry.
    let early = &early[..early.len().min(usize::try_from(head.body).unwrap_or(usize::MAX))];
    let result = {
        let (counts, idle) = (&trip.counts, timeouts.idle);
        let up = async {
            to_server.write_all(&onward).await?;
            counts.up.fetch_add(onward.len() as u64, Ordering::Relaxed);
            // This direction stays open: some servers take its end for the client's going away. Unless the client went away.
            let flow = Flow { counts, counter: &counts.up, idle, close: false, mask: None };
            match flow.run(early.chain(from_client), &mut to_server, head.body).await? {
                0 => Ok(()),
                _ => to_server.shutdown().await,
            }
        };
        let mask = swapped.then(|| mask::Mask::new(swaps));
        let down = Flow { counts, counter: &counts.down, idle, close: true, mask }.run(from_server, to_client, u64::MAX);
        let (mut up, mut down) = (std::pin::pin!(up), std::pin::pin!(down));
        // The answer ends the exchange. A server may give one without having taken the whole body.
        tokio::select! {
            result = &mut down => result.map(drop),
            _ = &mut up => down.await.map(drop),
        }
    };
    trip.end = end(result);
}

/// A tunnel: each side's end is told to the other.
async fn both_ways(
    client: impl AsyncRead + AsyncWrite + Unpin,
    server: TcpStream,
    early: &[u8],
    mut trip: ConnectionRun,
    timeouts: Timeouts,
) {
    let (from_client, to_client) = tokio::io::split(client);
    let (from_server, to_server) = server.into_split();
    let (counts, idle) = (&trip.counts, timeouts.idle);
    let up = Flow { counts, counter: &counts.up, idle, close: true, mask: None }.run(early.chain(from_client), to_server, u64::MAX);
    let down = Flow { counts, counter: &counts.down, idle, close: true, mask: None }.run(from_server, to_client, u64::MAX);
    let result = tokio::try_join!(up, down).map(drop);
    trip.end = end(result);
}

fn end(result: io::Result<()>) -> End {
    match result {
        Ok(()) => End::Done,
        Err(error) => End::Failed(error.to_string()),
    }
}

/// A connection that was let out; its end is told even when it is dropped.
struct ConnectionRun {
    meter: Option<Box<dyn ConnectionMeter>>,
    counts: Counts,
    began: Instant,
    end: End,
}

impl ConnectionRun {
    fn begin(meter: Box<dyn ConnectionMeter>) -> ConnectionRun {
        ConnectionRun {
            meter: Some(meter),
            counts: Counts::default(),
            began: Instant::now(),
            end: End::Failed("it was cut off".to_owned()),
        }
    }
}

impl Drop for ConnectionRun {
    fn drop(&mut self) {
        if let Some(meter) = self.meter.take() {
            let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
            let (up, down) = (count(&self.counts.up), count(&self.counts.down));
            meter.end(Tally { up, down, duration: self.began.elapsed(), end: self.end.clone() });
        }
    }
}
