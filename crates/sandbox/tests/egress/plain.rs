//! Plain HTTP.

use sandbox::egress::{Destination, End, Swap};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::judge::{Heard, client, ended, leading_to, listen, say, server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_written_anew() {
    let (listener, port) = listen().await;
    let served = server(listener, b"hello", "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok");
    let (judge, told) = leading_to("good.test", port);
    let request = "POST http://Good.Test.:8080/a?b=c HTTP/1.1\r\nHOST: good.test:8080\r\nUser-Agent: t\u{e9}st\r\n\
                   Proxy-Authorization: Basic x\r\nConnection: keep-alive, X-Own\r\nX-Own: 1\r\nUpgrade: h2c\r\nTE: trailers\r\n\
                   Content-Length: 5\r\n\r\nhello";
    let answer = say(judge, request).await;
    assert_eq!(answer, "HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok");
    let sent = served.await.unwrap();
    assert_eq!(
        sent,
        "POST /a?b=c HTTP/1.1\r\nhost: good.test:8080\r\nuser-agent: t\u{e9}st\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"
    );
    let ask = Destination { method: Some("POST".into()), host: "good.test".into(), port: 8080 };
    assert_eq!(told.recv().unwrap(), Heard::Asked(ask));
    let tally = ended(&told);
    // The server read a char of two bytes as it was sent, byte for byte.
    assert_eq!((tally.up, tally.down, tally.end), (sent.len() as u64, answer.len() as u64, End::Done));
}

/// What follows a request on its connection is never passed on, so nothing is smuggled past the judge.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_request_on_the_same_connection_is_not_sent() {
    let (listener, port) = listen().await;
    let (judge, told) = leading_to("good.test", port);
    let second = "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    let mut client = client(judge);
    let first = "POST http://good.test/ HTTP/1.1\r\nHost: good.test\r\nContent-Length: 3\r\n\r\nabc";
    client.write_all(format!("{first}{second}").as_bytes()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let mut heard = vec![0; 4096];
    let mut length = 0;
    while !heard[..length].ends_with(b"abc") {
        length += server.read(&mut heard[length..]).await.unwrap();
    }
    client.write_all(second.as_bytes()).await.unwrap();
    server.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    server.shutdown().await.unwrap();
    assert_eq!(server.read(&mut heard).await.unwrap(), 0, "nothing came after the body");
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "HTTP/1.1 200 OK\r\n\r\n");
    ended(&told);
    assert!(told.try_iter().next().is_none(), "it was not judged either");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_is_put_in_for_its_header_and_taken_out_of_the_answer() {
    let swap =
        |header: Option<&str>| Swap { sentinel: "skep-secret-KEY-1".into(), secret: "hunter2".into(), header: header.map(str::to_owned) };
    let request = "GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\nAuthorization: Bearer skep-secret-KEY-1\r\n\
                   X-Other: skep-secret-KEY-1\r\nAccept-Encoding: gzip\r\n\r\n";
    let (listener, port) = listen().await;
    let served = server(listener, b"\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\nkey is hunter2");
    let (mut judge, _told) = leading_to("good.test", port);
    judge.swaps = vec![swap(Some("authorization"))];
    assert_eq!(say(judge, request).await, "HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\nkey is *******");
    assert_eq!(
        served.await.unwrap(),
        "GET / HTTP/1.1\r\nhost: good.test\r\nauthorization: Bearer hunter2\r\nx-other: skep-secret-KEY-1\r\n\
         accept-encoding: identity\r\nconnection: close\r\n\r\n"
    );
    // To a host that it is not for, the sentinel goes as it is.
    let (listener, port) = listen().await;
    let served = server(listener, b"\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n");
    let (judge, _told) = leading_to("good.test", port);
    say(judge, request).await;
    assert!(!served.await.unwrap().contains("hunter2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_not_there_is_told() {
    let (listener, port) = listen().await;
    drop(listener);
    let (judge, told) = leading_to("good.test", port);
    let answer = say(judge, "GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 502 `good.test:80` cannot be reached: Connection refused"), "{answer}");
    assert!(matches!(ended(&told).end, End::Failed(_)));
}
