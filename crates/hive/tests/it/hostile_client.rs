//! Clients that send too much, too slowly, or something else.

use crate::bed::{EchoDoor, FLOOD_BYTES, until};
use hive::generated::agent::StoreArtifactRequest;
use hive::generated::core::{ProcessInfoRequest, SubscribeRequest};
use hive::tonic::codegen::{Service, http};
use hive::tonic::{self, Code};
use hive::{GrpcChannel, LinkLimits, ServeLimits};
use hyper::body::{Body, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

fn artifact(bytes: usize) -> StoreArtifactRequest {
    StoreArtifactRequest { key: "k".into(), content: vec![7; bytes], ..Default::default() }
}

/// Whether the door still serves others.
async fn serves(door: &EchoDoor) {
    door.client().await.get_process_info(ProcessInfoRequest { pid: 1 }).await.unwrap();
}

#[tokio::test]
async fn a_message_over_its_bound_is_refused_and_one_within_it_is_not() {
    let limits = ServeLimits { message_bytes_max: 10_000, ..Default::default() };
    let door = EchoDoor::open(limits).await;
    let mut client = door.client().await;
    // The echo returns the request in headers, so the control is small.
    client.store_artifact(artifact(5_000)).await.unwrap();
    let status = client.store_artifact(artifact(10_001)).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    assert!(status.message().contains("10000"), "{status:?}");
    serves(&door).await;
}

#[tokio::test]
async fn bytes_of_unfinished_requests_are_bounded_for_all_together() {
    let limits = ServeLimits { pending_bytes_max: 20_000, ..Default::default() };
    let door = EchoDoor::open(limits).await;
    let mut client = door.client().await;
    client.store_artifact(artifact(5_000)).await.unwrap();
    let status = client.store_artifact(artifact(20_001)).await.unwrap_err();
    let told = (status.code(), status.message());
    assert_eq!(told, (Code::ResourceExhausted, "too many bytes of unfinished requests are waiting here"));
    // What was held is given back: many small ones in a row pass.
    for _ in 0..20 {
        client.store_artifact(artifact(5_000)).await.unwrap();
    }
}

#[tokio::test]
async fn one_connection_too_many_is_closed() {
    let door = EchoDoor::open(ServeLimits { connections_max: 2, ..Default::default() }).await;
    let (mut first, second) = (door.client().await, door.connect().await);
    first.get_process_info(ProcessInfoRequest { pid: 1 }).await.unwrap();
    let mut third = door.connect().await;
    assert_eq!(third.read(&mut [0; 1]).await.unwrap_or(0), 0, "the third connection is closed");
    assert_eq!(door.handle.counts(), hive::ServeCounts { accepted: 2, over_limit: 1, accept_faults: 0 });
    first.get_process_info(ProcessInfoRequest { pid: 1 }).await.unwrap();
    // Once one is gone there is room again.
    drop(second);
    let mut served = false;
    for _ in 0..200 {
        served = served || door.client().await.get_process_info(ProcessInfoRequest { pid: 1 }).await.is_ok();
        if served {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(served);
}

/// Reads until the other end closes.
async fn closed(stream: &mut TcpStream) {
    let mut read = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut read)).await;
    assert!(ended.is_ok(), "the connection is still open");
}

#[tokio::test]
async fn who_does_not_greet_is_cut_off_and_who_does_is_not() {
    let door = EchoDoor::open(ServeLimits { greeting_timeout: Duration::from_millis(100), ..Default::default() }).await;
    let mut client = door.client().await;
    client.get_process_info(ProcessInfoRequest { pid: 1 }).await.unwrap();
    let (mut silent, mut slow) = (door.connect().await, door.connect().await);
    slow.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    closed(&mut silent).await;
    closed(&mut slow).await;
    client.get_process_info(ProcessInfoRequest { pid: 1 }).await.unwrap();
}

#[tokio::test]
async fn who_does_not_speak_http_2_is_cut_off() {
    let door = EchoDoor::open(ServeLimits::default()).await;
    for words in [b"GET / HTTP/1.1\r\nhost: a\r\n\r\n----".to_vec(), vec![0; 4096], vec![0xff; 4096]] {
        let mut stream = door.connect().await;
        stream.write_all(&words).await.unwrap();
        closed(&mut stream).await;
    }
    serves(&door).await;
}

/// What every client of HTTP/2 says first, and settings that change nothing.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[tokio::test]
async fn a_frame_over_its_bound_ends_the_connection() {
    let door = EchoDoor::open(ServeLimits::default()).await;
    let mut stream = door.connect().await;
    stream.write_all(GREETING).await.unwrap();
    // A frame of data that says it has 16 MiB.
    stream.write_all(&[0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1]).await.unwrap();
    closed(&mut stream).await;
    serves(&door).await;
}

#[tokio::test]
async fn headers_over_their_bound_are_refused() {
    let door = EchoDoor::open(ServeLimits::default()).await;
    let mut client = door.client().await;
    let long = |length: usize| {
        let mut request = hive::tonic::Request::new(ProcessInfoRequest { pid: 1 });
        request.metadata_mut().insert("x-long", "a".repeat(length).parse().unwrap());
        request
    };
    client.get_process_info(long(8 * 1024)).await.unwrap();
    assert!(client.get_process_info(long(32 * 1024)).await.is_err());
    serves(&door).await;
}

/// A message that says it has ten bytes, brings one, and never more.
struct Unfinished(bool);

impl Body for Unfinished {
    type Data = bytes::Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<bytes::Bytes>, Infallible>>> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(bytes::Bytes::from_static(&[0, 0, 0, 0, 10, 8])))))
    }
}

#[tokio::test]
async fn a_request_that_does_not_end_is_ended() {
    let door = EchoDoor::open(ServeLimits { request_timeout: Some(Duration::from_millis(100)), ..Default::default() }).await;
    let mut channel = GrpcChannel::open(door.connect().await, &LinkLimits::default()).await.unwrap();
    let request = http::Request::post("http://localhost/hivekernel.core.CoreService/GetProcessInfo");
    let request = request.header("content-type", "application/grpc").body(tonic::body::Body::new(Unfinished(false))).unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(10), channel.call(request)).await.expect("no answer").unwrap();
    let status = tonic::Status::from_header_map(answer.headers()).unwrap();
    assert_eq!((status.code(), status.message()), (Code::DeadlineExceeded, "the request did not arrive within 100ms"));
    serves(&door).await;
}

/// A method that is none, a service that is none, and requests that are none of gRPC.
#[tokio::test]
async fn what_is_no_method_is_unimplemented() {
    let door = EchoDoor::open(ServeLimits::default()).await;
    let mut channel = GrpcChannel::open(door.connect().await, &LinkLimits::default()).await.unwrap();
    for path in ["/hivekernel.core.CoreService/Nothing", "/hivekernel.agent.CoreService/Log", "/", "/a/b/c"] {
        let request = http::Request::post(format!("http://localhost{path}")).header("content-type", "application/grpc");
        let answer = channel.call(request.body(tonic::body::Body::empty()).unwrap()).await.unwrap();
        let status = tonic::Status::from_header_map(answer.headers()).unwrap();
        assert_eq!(status.code(), Code::Unimplemented, "{path}");
    }
    serves(&door).await;
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_not_fed() {
    let door = EchoDoor::open(ServeLimits::default()).await;
    let mut slow = door.client().await;
    let flood = SubscribeRequest { queue: "flood".into(), ..Default::default() };
    let mut stream = slow.subscribe(flood).await.unwrap().into_inner();
    until("the flood has begun", || door.flooded.load(Ordering::SeqCst) > 0).await;
    // Others are served meanwhile, many times over.
    let mut client = door.client().await;
    for _ in 0..500 {
        client.get_process_info(ProcessInfoRequest { pid: 1 }).await.unwrap();
    }
    // The client's window of one stream, what the stream may hold besides, and what tonic gathers before it sends.
    let held = door.flooded.load(Ordering::SeqCst) * FLOOD_BYTES;
    assert!(held < 1024 * 1024, "{held} bytes were made for nobody");
    // Once it reads, more is made.
    for _ in 0..500 {
        assert_eq!(stream.message().await.unwrap().unwrap().payload.len(), FLOOD_BYTES);
    }
    assert!(door.flooded.load(Ordering::SeqCst) >= 500);
}

#[tokio::test]
async fn more_streams_than_allowed_wait() {
    let door = EchoDoor::open(ServeLimits { streams_max: 4, ..Default::default() }).await;
    let client = door.client().await;
    client.clone().get_process_info(ProcessInfoRequest { pid: 1 }).await.unwrap();
    let mut open = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let mut client = client.clone();
        open.spawn(async move { client.subscribe(SubscribeRequest { queue: "forever".into(), ..Default::default() }).await });
    }
    until("as many as allowed are open", || door.streams.load(Ordering::SeqCst) == 4).await;
    // Another connection has streams of its own, and no fifth of the first has come meanwhile.
    serves(&door).await;
    assert_eq!(door.streams.load(Ordering::SeqCst), 4);
    let first = open.join_next().await.unwrap().unwrap().unwrap();
    drop(first);
    let second = open.join_next().await.unwrap().unwrap().unwrap();
    until("the next takes the free place", || door.streams.load(Ordering::SeqCst) == 4).await;
    drop(second);
}

#[tokio::test]
async fn who_does_not_answer_pings_is_cut_off_and_who_does_is_not() {
    let keepalive = Duration::from_millis(300);
    let door = EchoDoor::open(ServeLimits { keepalive_interval: keepalive, keepalive_timeout: keepalive, ..Default::default() }).await;
    let mut client = door.client().await;
    client.get_process_info(ProcessInfoRequest { pid: 1 }).await.unwrap();
    let mut dead = door.connect().await;
    dead.write_all(GREETING).await.unwrap();
    closed(&mut dead).await;
    client.get_process_info(ProcessInfoRequest { pid: 1 }).await.unwrap();
}
