//! Redirects and second tries, against servers of our own on loopback.

use super::{Setup, done, play};
use kernel::Tuning;
use serde_json::json;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use world::Event;

/// Serves each connection one answer; the answer may be nothing at all. Keeps what was asked.
struct Server {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
}

/// Ports on loopback, and a kernel that may reach exactly those. Bound before the launcher forks, served after.
fn listeners(ips: &[&str]) -> Result<(Vec<TcpListener>, Tuning), String> {
    let mut tuning = Tuning::default();
    let mut listeners = Vec::new();
    for ip in ips {
        let listener = TcpListener::bind((*ip, 0)).map_err(|error| error.to_string())?;
        tuning.reach.allow.push(listener.local_addr().map_err(|error| error.to_string())?);
        listeners.push(listener);
    }
    Ok((listeners, tuning))
}

fn serve(listener: Option<TcpListener>, answers: Vec<String>) -> Result<Server, String> {
    let listener = listener.ok_or("no listener is left")?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let keep = heard.clone();
    std::thread::spawn(move || {
        for answer in answers {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let mut head = String::new();
            for line in BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty()) {
                head.push_str(&line);
                head.push('\n');
            }
            keep.lock().unwrap_or_else(|poison| poison.into_inner()).push(head);
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    Ok(Server { address, heard })
}

impl Server {
    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap_or_else(|poison| poison.into_inner()).clone()
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn moved(to: &str) -> String {
    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n")
}

const HOSTS: &str = "  - { name: first, match: { syscall: http.request, host: [127.0.0.1, 127.0.0.2] }, action: allow }\n  - \
    { name: third, match: { syscall: http.request, host: 127.0.0.3 }, action: require_review, reason: a new host }\n";

pub fn redirects() -> Result<(), String> {
    let (listeners, tuning) = listeners(&["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"])?;
    play(Setup { policy: HOSTS, tools: &[], tuning }, async |door| {
        let mut listeners = listeners.into_iter();
        let own = listeners.next();
        let second = serve(listeners.next(), vec![ok("arrived")])?;
        let third = serve(listeners.next(), vec![ok("arrived too")])?;
        let fourth = serve(listeners.next(), vec![ok("never")])?;
        let to = |server: &Server| moved(&format!("http://{}/there", server.address));
        let first = serve(own, vec![to(&second), to(&third), to(&third), to(&fourth)])?;
        let ask = json!({ "url": format!("http://{}/", first.address), "headers": { "x-key": "for the first server" } });

        let outcome = door.call("http.request", ask.clone()).await?;
        assert_eq!(done(&outcome)?.1["body"], "arrived", "{outcome:?}");
        assert!(first.heard()[0].contains("x-key"), "the control: the first server got the header");
        assert!(!second.heard()[0].contains("x-key"), "what was for the first server: {}", second.heard()[0]);
        let of = |n: usize| -> Result<Option<world::CallId>, String> {
            let parts = door.events()?.into_iter().filter_map(|event| if let Event::CallAdmitted(e) = event { e.of } else { None });
            Ok(parts.collect::<Vec<_>>().get(n).copied())
        };
        assert_eq!(of(0)?, outcome.call, "the hop is a call of its own, part of this one");

        let outcome = door.call("http.request", ask.clone()).await?;
        let (good, value) = done(&outcome)?;
        let said = value["reason"].as_str().unwrap_or_default().to_owned();
        assert!(!good && said.contains("`127.0.0.1` sends the call on to `127.0.0.3`") && said.contains("r-2 waits"), "{value}");
        assert!(third.heard().is_empty(), "nobody was asked before a person answered");
        door.answer("r-2".parse().map_err(|_| "no id")?, kernel::Reply::yes()).await?;
        let outcome = door.call("http.request", ask.clone()).await?;
        assert_eq!(done(&outcome)?.1["body"], "arrived too", "{outcome:?}");

        let outcome = door.call("http.request", ask).await?;
        let (good, value) = done(&outcome)?;
        assert!(!good && value["reason"].as_str().is_some_and(|why| why.contains("sends the call on to `127.0.0.4`")), "{value}");
        assert_eq!(
            value["hint"],
            "only the operator can add a rule with `syscall: http.request`, `host: 127.0.0.4` and `action: allow` to .skep/policy.yaml and trust it"
        );
        assert!(fourth.heard().is_empty());
        let refused = door.events()?.into_iter().any(|event| matches!(event, Event::CallRefused(e) if e.of == outcome.call));
        assert!(refused, "the refused hop is on record");
        Ok(())
    })
}

/// A tool of the operator's that may ask one host alone.
const ONE_HOST: &str = "{ name: one, version: 1.0.0, description: d, runner: http, permissions: ['network:request:127.0.0.1'], \
    input_schema: {type: object, properties: {url: {type: string}, method: {type: string}}}, output_schema: {}, timeout_ms: 30000 }";

/// What a tool's manifest does not name, no server leads it to, whatever the policy lets others ask.
pub fn permitted() -> Result<(), String> {
    let (listeners, tuning) = listeners(&["127.0.0.1", "127.0.0.2"])?;
    play(Setup { policy: HOSTS, tools: &[ONE_HOST], tuning }, async |door| {
        let mut listeners = listeners.into_iter();
        let own = listeners.next();
        let second = serve(listeners.next(), vec![ok("arrived")])?;
        let there = moved(&format!("http://{}/there", second.address));
        let first = serve(own, vec![moved("/here"), ok("here"), there.clone(), there])?;
        let ask = json!({ "url": format!("http://{}/", first.address), "method": "GET" });
        assert_eq!(done(&door.call("one", ask.clone()).await?)?.1["body"], "here", "the control: a hop on the host that it names");
        let outcome = door.call("one", ask.clone()).await?;
        let (good, value) = done(&outcome)?;
        let why = value["reason"].as_str().unwrap_or_default();
        assert!(!good && why.contains("its permissions say `network:request:127.0.0.1`"), "{value}");
        assert!(second.heard().is_empty(), "nothing came to the other host");
        assert_eq!(done(&door.call("http.request", ask).await?)?.1["body"], "arrived", "the control: the policy allows that hop");
        Ok(())
    })
}

/// A request whose answer never comes ends when its call is cancelled, and its connection with it.
pub fn cancelled() -> Result<(), String> {
    let (mut listeners, tuning) = listeners(&["127.0.0.1"])?;
    play(Setup { policy: HOSTS, tools: &[], tuning }, async |door| {
        let listener = listeners.pop().ok_or("no listener is left")?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let heard = Arc::new(AtomicBool::new(false));
        let hears = heard.clone();
        let silent = std::thread::spawn(move || {
            let (stream, _) = listener.accept()?;
            let mut reader = BufReader::new(stream);
            let asked = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty()).count();
            hears.store(true, Ordering::SeqCst);
            // Nothing is answered; the read comes back when the other side hangs up.
            let left = reader.read(&mut [0])?;
            Ok::<_, std::io::Error>((asked, left))
        });
        let ask = json!({ "url": format!("http://{address}/") });
        let cancel = async {
            loop {
                let open = door.kernel.ledger.look(|world| world.calls.keys().next().copied());
                if let Some(call) = open.filter(|_| heard.load(Ordering::SeqCst))
                    && door.kernel.cancel_call(call, "human").await.is_ok()
                {
                    return call;
                }
                tokio::task::yield_now().await;
            }
        };
        let (outcome, call) = tokio::join!(door.call("http.request", ask), cancel);
        let outcome = outcome?;
        let (good, value) = done(&outcome)?;
        assert_eq!((good, value["reason"].as_str()), (false, Some(format!("{call} was cancelled by human").as_str())), "{value}");
        let (asked, left) = silent.join().map_err(|_| "the server panicked")?.map_err(|error| error.to_string())?;
        assert!(asked > 0, "the control: it was on its way");
        assert_eq!(left, 0, "the connection is closed");
        assert!(door.kernel.cancel_call(call, "human").await.is_err(), "it is over");
        Ok(())
    })
}

pub fn retried() -> Result<(), String> {
    let (mut listeners, tuning) = listeners(&["127.0.0.1"])?;
    play(Setup { policy: HOSTS, tools: &[], tuning }, async |door| {
        // The first connection is closed without an answer.
        let server = serve(listeners.pop(), vec![String::new(), ok("at last"), String::new()])?;
        let ask = |method: &str| json!({ "url": format!("http://{}/", server.address), "method": method });
        let outcome = door.call("http.request", ask("GET")).await?;
        assert_eq!(done(&outcome)?.1["body"], "at last");
        let tries = || -> Result<Vec<_>, String> {
            let tried = door.events()?.into_iter().filter_map(|event| if let Event::CallRetried(e) = event { Some(e) } else { None });
            Ok(tried.collect())
        };
        let tried = tries()?;
        assert_eq!(tried.len(), 1);
        assert_eq!((Some(tried[0].call), tried[0].attempt), (outcome.call, 1));
        assert!(tried[0].why.contains("127.0.0.1"), "{}", tried[0].why);
        assert!(!done(&door.call("http.request", ask("POST")).await?)?.0, "a write has no second try");
        assert_eq!(tries()?.len(), 1);
        Ok(())
    })
}
