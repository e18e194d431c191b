//! CONNECT.

use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use sandbox::egress::{self, Behind, Destination, End, Tally, Timeouts};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::judge::{Fake, Heard, client, ended, leading_to, listen, shared};

/// A TLS server for `good.test` and `evil.test`, and a client that believes it.
fn tls() -> (TlsAcceptor, TlsConnector) {
    let names = vec!["good.test".to_owned(), "evil.test".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(default_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
    let server = server.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let client = client.with_root_certificates(roots).with_no_client_auth();
    (TlsAcceptor::from(Arc::new(server)), TlsConnector::from(Arc::new(client)))
}

/// Opens a tunnel and gives its inside.
async fn tunnel(judge: Fake, to: &str) -> DuplexStream {
    let mut client = client(judge);
    client.write_all(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = vec![0; 39];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 200 Connection established\r\n\r\n");
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_to_the_judged_name_passes_untouched() {
    let (acceptor, connector) = tls();
    let (listener, port) = listen().await;
    let (judge, told) = leading_to("good.test", port);
    let served = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        let mut heard = vec![0; 4];
        stream.read_exact(&mut heard).await.unwrap();
        stream.write_all(b"pong").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
    });
    let inside = tunnel(judge, "GOOD.test:443").await;
    // The client verifies the server's own certificate: nobody sits between them.
    let mut stream = connector.connect(ServerName::try_from("good.test").unwrap(), inside).await.unwrap();
    stream.write_all(b"ping").await.unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "pong");
    stream.shutdown().await.unwrap();
    served.await.unwrap();
    drop(stream);
    assert_eq!(told.recv().unwrap(), Heard::Asked(Destination { method: None, host: "good.test".into(), port: 443 }));
    let Tally { up, down, end, .. } = ended(&told);
    assert_eq!(end, End::Done);
    assert!(up > 200 && down > 400, "{up} {down}");
}

/// What the server heard of a tunnel whose inside begins with `bytes`, and how it ended.
async fn begun_with(bytes: &[u8]) -> (Vec<u8>, End) {
    let (listener, port) = listen().await;
    let (judge, told) = leading_to("good.test", port);
    let served = tokio::spawn(heard_by(listener));
    let mut inside = tunnel(judge, "good.test:443").await;
    let _ = inside.write_all(bytes).await;
    let _ = inside.shutdown().await;
    let mut rest = Vec::new();
    let _ = inside.read_to_end(&mut rest).await;
    (served.await.unwrap(), ended(&told).end)
}

async fn heard_by(listener: TcpListener) -> Vec<u8> {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut heard = Vec::new();
    stream.read_to_end(&mut heard).await.unwrap();
    heard
}

/// A real first message that asks for `name`.
async fn hello_for(name: &'static str) -> Vec<u8> {
    let (_, connector) = tls();
    let (client, mut server) = tokio::io::duplex(64 * 1024);
    let name = ServerName::try_from(name).unwrap();
    let asking = tokio::spawn(async move { connector.connect(name, client).await.map(drop) });
    let mut hello = vec![0; 5];
    server.read_exact(&mut hello).await.unwrap();
    let mut body = vec![0; usize::from(u16::from_be_bytes([hello[3], hello[4]]))];
    server.read_exact(&mut body).await.unwrap();
    asking.abort();
    hello.extend(body);
    hello
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_to_another_name_is_cut() {
    let good = hello_for("good.test").await;
    assert_eq!(begun_with(&good).await, (good.clone(), End::Done), "the control passes, byte for byte");
    let (heard, end) = begun_with(&hello_for("evil.test").await).await;
    assert_eq!((heard.len(), end), (0, End::Refused("TLS asks for `evil.test`, and the tunnel is for `good.test`".into())));
    // Towards an address, a client names nobody.
    let (heard, end) = begun_with(&hello_for("10.0.0.1").await).await;
    assert_eq!((heard.len(), end), (0, End::Refused("TLS names no server, and the tunnel is for `good.test`".into())));
    for other in [&b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"[..], b"SSH-2.0-OpenSSH\r\n"] {
        let (heard, end) = begun_with(other).await;
        assert_eq!((heard.len(), end), (0, End::Refused("what came is not TLS".into())));
    }
    let (heard, end) = begun_with(&good[..good.len() - 1]).await;
    assert_eq!((heard.len(), end), (0, End::Refused("the tunnel ended before its first TLS message".into())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_message_in_many_records_is_still_read() {
    let hello = hello_for("good.test").await;
    let evil = hello_for("evil.test").await;
    let split =
        |hello: &[u8]| -> Vec<u8> { hello[5..].chunks(7).flat_map(|part| [&[22, 3, 1, 0, part.len() as u8][..], part].concat()).collect() };
    assert_eq!(begun_with(&split(&hello)).await, (split(&hello), End::Done));
    let (heard, end) = begun_with(&split(&evil)).await;
    assert_eq!((heard.len(), end), (0, End::Refused("TLS asks for `evil.test`, and the tunnel is for `good.test`".into())));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_side_may_end_before_the_other() {
    let (listener, port) = listen().await;
    let (mut judge, told) = leading_to("db.test", port);
    judge.tls = false;
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).await.unwrap();
        stream.write_all(&heard.repeat(100_000)).await.unwrap();
        stream.shutdown().await.unwrap();
    });
    let mut inside = tunnel(judge, "db.test:5432").await;
    inside.write_all(b"0123456789").await.unwrap();
    inside.shutdown().await.unwrap();
    let mut heard = Vec::new();
    inside.read_to_end(&mut heard).await.unwrap();
    served.await.unwrap();
    assert_eq!(heard.len(), 1_000_000);
    let Tally { up, down, end, .. } = ended(&told);
    assert_eq!((up, down, end), (10, 1_000_000, End::Done));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_drops_a_door_cuts_what_came_through_it() {
    let (listener, port) = listen().await;
    let (mut judge, told) = leading_to("db.test", port);
    judge.tls = false;
    let (door, at) = listen().await;
    let behind = Behind::Place(Destination { method: None, host: "db.test".into(), port: 5432 });
    let attending = tokio::spawn(egress::serve(door, behind, shared(judge), Timeouts::default(), std::future::pending()));
    let mut inside = TcpStream::connect(("127.0.0.1", at)).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    inside.write_all(b"abc").await.unwrap();
    let mut heard = [0; 3];
    server.read_exact(&mut heard).await.unwrap();
    attending.abort();
    assert_eq!(inside.read(&mut heard).await.unwrap_or(0), 0);
    let Tally { up, down, end, .. } = ended(&told);
    assert_eq!((up, down, end), (3, 0, End::Failed("it was cut off".into())));
    assert!(told.try_iter().next().is_none(), "told once");
}
