//! `http.request` against servers of our own on 127.0.0.1, which only an explicit allowance reaches.

#![expect(clippy::unwrap_used, reason = "servers and helpers of tests, outside of test functions")]

use serde_json::{Value, json};
use std::future::Future;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tool::{AddressFilter, Context, NoSubcalls, Output, Redirect, Registry, RunMode, SubcallGate, ToolFault, ToolStop};
use world::{Code, Refusal};

/// A server that answers every request with what `answer` makes of it, and remembers them.
struct Server {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, heard) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let (answer, kept) = (Arc::new(answer), Arc::clone(&heard));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&answer), Arc::clone(&kept)));
            }
        });
        Server { address, heard }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, answer: Arc<impl Fn(&str) -> Vec<u8>>, heard: Arc<Mutex<Vec<String>>>) {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    let whole = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).to_lowercase();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
        (body.len() >= length).then_some(())
    };
    while whole(&bytes).is_none() {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(got) => bytes.extend_from_slice(&buffer[..got]),
        }
    }
    let request = String::from_utf8_lossy(&bytes).into_owned();
    heard.lock().unwrap().push(request.clone());
    let reply = answer(&request);
    if reply.is_empty() {
        std::future::pending::<()>().await;
    }
    let _ = stream.write_all(&reply).await;
    let _ = stream.shutdown().await;
}

fn ok(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nSet-Cookie: a=b\r\nX-Two: 1\r\nX-Two: 2\r\n\r\n{body}", body.len()).into_bytes()
}

fn redirect(status: u16, to: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Moved\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n").into_bytes()
}

struct Anywhere(Mutex<Vec<String>>);

impl SubcallGate for Anywhere {
    fn allow_redirect<'a>(&'a self, redirect: Redirect<'a>) -> Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send + 'a>> {
        self.0.lock().unwrap().push(format!("{} {} {}", redirect.number, redirect.to.method, redirect.to.url()));
        Box::pin(std::future::ready(Ok(())))
    }

    fn allow_change<'a>(&'a self, change: tool::PatchedFile<'a>) -> Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send + 'a>> {
        panic!("no request changes `{}`", change.path)
    }

    fn retried(&self, _: u32, _: &str) {}
}

async fn call_with(input: &Value, addresses: &AddressFilter, subcalls: &dyn SubcallGate) -> Result<Output, ToolStop> {
    let registry = Registry::builtin();
    let tool = registry.find("http.request")?;
    tool.check(input)?;
    let project = Path::new("/");
    let root = std::fs::File::open(project).unwrap();
    let context = Context {
        root: root.as_fd(),
        project,
        room: None,
        test_command: None,
        output_max: 100_000,
        visible: &|_: &str| true,
        mode: RunMode::Live,
        addresses,
        subcalls,
        environment: &[],
        job: Default::default(),
        secrets: &[],
    };
    tool.run(input, Vec::new(), &context).await
}

fn allowing(servers: &[&Server]) -> AddressFilter {
    AddressFilter { allow: servers.iter().map(|server| server.address).collect(), ..AddressFilter::default() }
}

async fn call(server: &Server, input: Value) -> Output {
    call_with(&input, &allowing(&[server]), &NoSubcalls).await.unwrap()
}

#[track_caller]
fn refused(result: Result<Output, ToolStop>) -> Refusal {
    match result {
        Err(ToolStop::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_request_is_made_and_answered() {
    let server = Server::start(|_| ok("hello")).await;
    let url = server.url("/path?q=1#part");
    let output = call(&server, json!({ "url": url, "method": "POST", "headers": { "X-Key": "k" }, "body": "data" })).await;
    assert!(output.ok);
    let expect = json!({
        "url": server.url("/path?q=1"),
        "status": 200,
        "headers": { "content-length": "5", "x-two": "1, 2" },
        "body": "hello",
        "encoding": "utf-8",
        "bytes": 5,
        "truncated": false,
        "redirects": 0,
    });
    assert_eq!(output.value, expect, "cookies are not shown");
    let heard = server.heard().concat();
    assert!(heard.starts_with("POST /path?q=1 HTTP/1.1\r\n") && heard.ends_with("\r\n\r\ndata"), "{heard}");
    assert!(heard.contains("x-key: k") && heard.contains(&format!("host: {}", server.address)), "{heard}");
}

#[tokio::test]
async fn loopback_is_closed_unless_it_is_named_by_any_notation() {
    let server = Server::start(|_| ok("secret")).await;
    let port = server.address.port();
    for host in ["127.0.0.1", "localhost", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]", "[::1]", "0"] {
        let input = json!({ "url": format!("http://{host}:{port}/") });
        let closed = AddressFilter { ports: vec![port], ..AddressFilter::default() };
        assert_eq!(refused(call_with(&input, &closed, &NoSubcalls).await).code, Code::Denied, "{host}");
    }
    assert!(server.heard().is_empty());
    // The control: the same server answers where it is named, and by a name that leads there.
    for host in ["127.0.0.1", "localhost", "0x7f.1"] {
        let output = call(&server, json!({ "url": format!("http://{host}:{port}/") })).await;
        assert_eq!(output.value["body"], "secret", "{host}");
    }
}

#[tokio::test]
async fn a_redirect_is_judged_again() {
    let inner = Server::start(|_| ok("secret")).await;
    let target = inner.url("/");
    let outer = Server::start(move |_| redirect(302, &target)).await;
    let input = json!({ "url": outer.url("/") });
    let anywhere = Anywhere(Mutex::default());
    let refusal = refused(call_with(&input, &allowing(&[&outer]), &anywhere).await);
    assert!(refusal.reason.contains("port") || refusal.reason.contains("loopback"), "{refusal:?}");
    assert!(inner.heard().is_empty() && anywhere.0.lock().unwrap().is_empty());
    // The control: with both named it arrives.
    let output = call_with(&input, &allowing(&[&outer, &inner]), &anywhere).await.unwrap();
    assert_eq!((&output.value["body"], &output.value["redirects"]), (&json!("secret"), &json!(1)));
    assert_eq!(*anywhere.0.lock().unwrap(), [format!("1 GET {}", inner.url("/"))]);
    // And where nobody lets it go to another server, it does not.
    let refusal = refused(call_with(&input, &allowing(&[&outer, &inner]), &NoSubcalls).await);
    assert_eq!((refusal.code, refusal.reason.as_str()), (Code::Denied, "`127.0.0.1` sends the call on to `127.0.0.1`"));
    assert_eq!(inner.heard().len(), 1);
}

#[tokio::test]
async fn the_callers_headers_and_body_stay_with_the_first_server() {
    let inner = Server::start(|_| ok("")).await;
    let target = inner.url("/");
    let outer = Server::start(move |request| match request.split(' ').nth(1) {
        Some("/keep") => redirect(307, &target),
        Some("/see") => redirect(303, &target),
        Some("/again") => redirect(307, "/end"),
        _ => ok("end"),
    })
    .await;
    let both = allowing(&[&outer, &inner]);
    let ask = |path: &str| json!({ "url": outer.url(path), "method": "POST", "headers": { "Authorization": "Bearer t" }, "body": "b" });
    let anywhere = Anywhere(Mutex::default());
    let refusal = refused(call_with(&ask("/keep"), &both, &anywhere).await);
    assert_eq!(refusal.reason, "`127.0.0.1` redirects the body on to another server, 127.0.0.1");
    call_with(&ask("/see"), &both, &anywhere).await.unwrap();
    let heard = inner.heard().concat();
    assert!(heard.starts_with("GET / ") && !heard.contains("Bearer") && !heard.contains("authorization"), "{heard}");
    // The control: on the same server both go along.
    call_with(&ask("/again"), &both, &NoSubcalls).await.unwrap();
    let last = outer.heard().pop().unwrap();
    assert!(last.starts_with("POST /end ") && last.contains("Bearer t") && last.ends_with('b'), "{last}");
}

#[tokio::test]
async fn redirects_come_to_an_end() {
    let server = Server::start(|_| redirect(302, "/again")).await;
    let refusal = refused(call_with(&json!({ "url": server.url("/") }), &allowing(&[&server]), &NoSubcalls).await);
    assert_eq!(refusal.reason, "`127.0.0.1` redirects more than 5 times");
    assert_eq!(server.heard().len(), 6);
    let server = Server::start(|_| redirect(302, "file:///etc/passwd")).await;
    let refusal = refused(call_with(&json!({ "url": server.url("/") }), &allowing(&[&server]), &NoSubcalls).await);
    assert_eq!(refusal.reason, "`file` is not a scheme that may be used");
}

#[tokio::test]
async fn bodies_and_heads_are_capped() {
    let server = Server::start(|request| match request.split(' ').nth(1) {
        Some("/endless") => format!("HTTP/1.1 200 OK\r\n\r\n{}", "é".repeat(200_000)).into_bytes(),
        Some("/binary") => b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n\xff\xfe\x00".to_vec(),
        Some("/head") => format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "h".repeat(200_000)).into_bytes(),
        _ => format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(500)).into_bytes(),
    })
    .await;
    let value = call(&server, json!({ "url": server.url("/endless"), "max_bytes": 1001 })).await.value;
    assert_eq!((&value["truncated"], value["body"].as_str().map(str::len)), (&json!(true), Some(1000)));
    let value = call(&server, json!({ "url": server.url("/endless"), "max_bytes": 1_000_000 })).await.value;
    assert_eq!(value["bytes"], 100_000, "no more than the call may hold");
    let value = call(&server, json!({ "url": server.url("/binary") })).await.value;
    assert_eq!((&value["encoding"], &value["body"]), (&json!("base64"), &json!("//4A")));
    for path in ["/head", "/many"] {
        match call_with(&json!({ "url": server.url(path) }), &allowing(&[&server]), &NoSubcalls).await {
            Err(ToolStop::Failed(ToolFault::Net { .. })) => {}
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn time_is_kept_and_the_connection_ends_with_it() {
    let server = Server::start(|_| Vec::new()).await;
    match call_with(&json!({ "url": server.url("/"), "timeout_ms": 4000 }), &allowing(&[&server]), &NoSubcalls).await {
        Err(ToolStop::Failed(ToolFault::TimedOut { ms: 4000 })) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(server.heard().len(), 1, "a call that used up its time is not made twice");
}

#[tokio::test]
async fn headers_of_the_connection_are_not_the_callers() {
    let server = Server::start(|_| ok("")).await;
    for (name, value) in [
        ("Host", "x"),
        ("content-length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("Proxy-Authorization", "x"),
        ("a b", "x"),
        ("x", "a\r\nb: c"),
    ] {
        let input = json!({ "url": server.url("/"), "headers": { name: value } });
        assert_eq!(refused(call_with(&input, &allowing(&[&server]), &NoSubcalls).await).code, Code::BadInput, "{name}");
    }
    let input = json!({ "url": server.url("/"), "headers": { "x": "y".repeat(20_000) } });
    assert_eq!(refused(call_with(&input, &allowing(&[&server]), &NoSubcalls).await).code, Code::TooLarge);
    assert!(server.heard().is_empty());
}

#[tokio::test]
async fn a_reset_get_is_tried_once_more_and_a_post_is_not() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            *counted.lock().unwrap() += 1;
            let mut buffer = [0; 1024];
            let _ = stream.read(&mut buffer).await;
            if *counted.lock().unwrap() % 2 == 0 {
                let _ = stream.write_all(&ok("second")).await;
            }
        }
    });
    let filter = AddressFilter { allow: vec![address], ..AddressFilter::default() };
    let output = call_with(&json!({ "url": format!("http://{address}/") }), &filter, &NoSubcalls).await.unwrap();
    assert_eq!((&output.value["body"], output.retries, *count.lock().unwrap()), (&json!("second"), 1, 2));
    let result = call_with(&json!({ "url": format!("http://{address}/"), "method": "POST" }), &filter, &NoSubcalls).await;
    let Err(stop) = result else { panic!("{result:?}") };
    assert!(stop.is_retryable());
    assert_eq!(*count.lock().unwrap(), 3);
}

#[tokio::test]
async fn nothing_of_the_environment_is_a_proxy() {
    // A proxy would be asked with the whole url; nextest gives each test a process of its own, but nothing here reads one anyway.
    let server = Server::start(|_| ok("direct")).await;
    let output = call(&server, json!({ "url": server.url("/x") })).await;
    assert_eq!(output.value["body"], "direct");
    assert!(server.heard().concat().starts_with("GET /x HTTP/1.1"));
}
