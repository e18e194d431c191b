//! A server that is stopped is gone, whoever is connected.

use crate::bed::{EchoDoor, until};
use hive::ServeLimits;
use hive::generated::core::{ProcessInfoRequest, SubscribeRequest};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_stream_holds_nobody_up() {
    let door = EchoDoor::open(ServeLimits::default()).await;
    let mut client = door.client().await;
    let endless = SubscribeRequest { queue: "forever".into(), ..Default::default() };
    let mut stream = client.subscribe(endless).await.unwrap().into_inner();
    assert_eq!(door.streams.load(Ordering::SeqCst), 1);

    let (streams, began) = (door.streams.clone(), Instant::now());
    door.handle.stop(Duration::from_millis(200)).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    // Its handler is gone with it, and the client hears of it.
    until("the stream is dropped", || streams.load(Ordering::SeqCst) == 0).await;
    assert!(stream.message().await.is_err());
    assert!(client.get_process_info(ProcessInfoRequest { pid: 1 }).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_clients_are_let_go_at_once() {
    let door = EchoDoor::open(ServeLimits::default()).await;
    let mut client = door.client().await;
    client.get_process_info(ProcessInfoRequest { pid: 1 }).await.unwrap();
    // One that never says a word.
    let silent = door.connect().await;
    let began = Instant::now();
    door.handle.stop(Duration::from_secs(60)).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    drop(silent);
}

#[tokio::test]
async fn a_dropped_handle_cuts_everything() {
    let door = EchoDoor::open(ServeLimits::default()).await;
    let mut client = door.client().await;
    let endless = SubscribeRequest { queue: "forever".into(), ..Default::default() };
    let mut stream = client.subscribe(endless).await.unwrap().into_inner();
    let streams = door.streams.clone();
    drop(door.handle);
    assert!(stream.message().await.is_err());
    until("the stream is dropped", || streams.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn a_client_that_goes_takes_its_stream_along() {
    let door = EchoDoor::open(ServeLimits::default()).await;
    let mut client = door.client().await;
    let endless = SubscribeRequest { queue: "forever".into(), ..Default::default() };
    let stream = client.subscribe(endless).await.unwrap();
    assert_eq!(door.streams.load(Ordering::SeqCst), 1);
    drop(stream);
    until("the stream is dropped", || door.streams.load(Ordering::SeqCst) == 0).await;
    client.get_process_info(ProcessInfoRequest { pid: 1 }).await.unwrap();
}
