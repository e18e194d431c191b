//! Models from inside a closed room, and in every dialect: metered, capped, and with a key that is good at one door.

use crate::common::provider::Provider;
use crate::common::{Site, text};
use serde_json::Value;
use std::process::{Child, Stdio};

const ANSWERS: &str = "otherwise\n  say hello from the script\n  usage in=3 out=5\n";

/// A site with a scripted model and a template that reaches it and nothing else.
fn site(more: &str) -> Site {
    let site = Site::new(&[("a.txt", "one\n")]);
    std::fs::create_dir(site.home()).unwrap();
    let answers = site.folder.path().join("answers.txt");
    std::fs::write(&answers, ANSWERS).unwrap();
    let config = format!(
        "providers: {{p: {{url: 'script:{}'}}}}\nmodels: {{tactical: p/m}}\n\
         sandbox: {{templates: {{agent: {{from: default, models: true}}}}}}\n{more}",
        answers.display()
    );
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    site.ok(&["init"]);
    site
}

/// Asks in each dialect, whole and streamed, as the vendors' clients find their way; prints dialect, status and answer.
const CLIENT: &str = r#"
import json, os, sys, urllib.request, urllib.error
def ask(dialect, url, body, headers):
    request = urllib.request.Request(url, json.dumps(body).encode(), {**headers, 'content-type': 'application/json'})
    try:
        answer = urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        answer = error
    print(dialect, answer.status, answer.read().decode().replace('\n', '|'))
env = os.environ
key = sys.argv[1] if len(sys.argv) > 1 else env['ANTHROPIC_API_KEY']
say = [{'role': 'user', 'content': 'hi'}]
ask('anthropic', env['ANTHROPIC_BASE_URL'] + '/v1/messages', {'model': 'tactical', 'max_tokens': 9, 'messages': say}, {'x-api-key': key})
ask('chat', env['OPENAI_BASE_URL'] + '/chat/completions', {'model': 'tactical', 'max_tokens': 9, 'messages': say}, {'authorization': 'Bearer ' + key})
ask('responses', env['OPENAI_BASE_URL'] + '/responses', {'model': 'tactical', 'max_output_tokens': 9, 'stream': True, 'input': say}, {'authorization': 'Bearer ' + key})
ask('gemini', env['GOOGLE_GEMINI_BASE_URL'] + '/v1beta/models/tactical:streamGenerateContent?alt=sse', {'generationConfig': {'maxOutputTokens': 9}, 'contents': [{'role': 'user', 'parts': [{'text': 'hi'}]}]}, {'x-goog-api-key': key})
"#;

/// Who can be reached: the gateway's door, the proxy's, the world.
const REACH: &str = r#"
import os, socket
for name, place in [('gateway', ('127.0.0.1', 61129)), ('proxy', ('127.0.0.1', 61128)), ('world', ('192.0.2.1', 80))]:
    try:
        socket.create_connection(place, 5).close()
        print(name, 'reached')
    except OSError:
        print(name, 'closed')
print('key', 'ANTHROPIC_API_KEY' in os.environ)
"#;

/// The process that stood for the last command: the operator's child.
fn job_process(site: &Site) -> Value {
    let spawned = site.records(&["--kind", "proc.spawned"]);
    let job = spawned.into_iter().rfind(|record| record["payload"]["role"] == "job").unwrap();
    assert_eq!(job["payload"]["parent"], 2);
    job["payload"]["pid"].clone()
}

fn run(site: &Site, template: &str, program: &[&str]) -> String {
    site.ok(&[&["sandbox", "run", "--discard", "-t", template, "--", "python3", "-c"], program].concat())
}

/// Dialect, status and body of each answer.
fn answers(printed: &str) -> Vec<(&str, u16, &str)> {
    let parts = printed.lines().map(|line| line.splitn(3, ' ').collect::<Vec<_>>());
    parts.map(|parts| (parts[0], parts[1].parse().unwrap(), parts[2])).collect()
}

#[test]
fn a_job_in_a_closed_room_asks_models_and_reaches_nothing_else() {
    let site = site("");
    assert_eq!(run(&site, "agent", &[REACH]), "gateway reached\nproxy closed\nworld closed\nkey True\n");
    assert_eq!(run(&site, "default", &[REACH]), "gateway closed\nproxy closed\nworld closed\nkey False\n");
    let printed = run(&site, "agent", &[CLIENT]);
    let said = answers(&printed);
    assert_eq!(
        said.iter().map(|(dialect, status, _)| (*dialect, *status)).collect::<Vec<_>>(),
        [("anthropic", 200), ("chat", 200), ("responses", 200), ("gemini", 200)]
    );
    assert!(said.iter().all(|(_, _, body)| body.contains("hello from the script")), "{printed}");
    assert!(said[2].2.contains("response.completed") && said[3].2.contains("usageMetadata"), "{printed}");

    // Metered, and on record as parts of the call that runs the job.
    let usage = site.json(&["usage"]);
    assert_eq!((&usage["total"]["requests"], &usage["total"]["output"], &usage["total"]["estimated"]), (&4.into(), &20.into(), &0.into()));
    let records = site.records(&["--kind", "call.admitted"]);
    let (jobs, asked): (Vec<&Value>, Vec<&Value>) = records.iter().partition(|record| record["payload"]["tool"] == "sandbox.run");
    let dialects: Vec<_> = asked.iter().map(|record| record["payload"]["input"]["dialect"].as_str().unwrap()).collect();
    assert_eq!(dialects, ["anthropic", "chat", "responses", "gemini"]);
    let job = &jobs.last().unwrap()["payload"]["call"];
    let process = job_process(&site);
    assert!(asked.iter().all(|record| record["payload"]["of"] == *job && record["payload"]["pid"] == process), "{asked:?}");

    // At the cap each is refused in its own provider's words, and told whom to ask.
    site.ok(&["budget", "set", "2", "--tokens", "all=30"]);
    let printed = run(&site, "agent", &[CLIENT]);
    let said = answers(&printed);
    let body = |at: usize| serde_json::from_str::<Value>(said[at].2).unwrap();
    assert_eq!(said.iter().map(|(_, status, _)| *status).collect::<Vec<_>>(), [402, 402, 400, 402], "{printed}");
    assert!(
        said.iter().all(|(_, _, body)| body.contains("the operator can grant ") && body.contains(" more tokens to process 2")),
        "{printed}"
    );
    assert_eq!((&body(0)["type"], &body(0)["error"]["type"]), (&"error".into(), &"billing_error".into()), "{printed}");
    assert_eq!(body(1)["error"]["code"], "insufficient_quota", "{printed}");
    assert_eq!(body(2)["error"]["code"], "insufficient_quota", "{printed}");
    assert_eq!(body(3)["error"]["status"], "RESOURCE_EXHAUSTED", "{printed}");
    assert_eq!(site.json(&["usage"])["total"]["requests"], 4, "nothing more was asked");
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// Asks once for each tool that it is given, and once by the address of a picture; prints what it got.
const TOOLS: &str = r#"
import json, os, sys, urllib.request, urllib.error
picture = {'type': 'image', 'source': {'type': 'url', 'url': 'https://evil.test/?what-the-room-holds'}}
asked = [(json.dumps([json.loads(tool)]), 'hi') for tool in sys.argv[1:]] + [('[]', [picture])]
for tools, content in asked:
    body = {'model': 'tactical', 'max_tokens': 9, 'tools': json.loads(tools), 'messages': [{'role': 'user', 'content': content}]}
    headers = {'x-api-key': os.environ['ANTHROPIC_API_KEY'], 'content-type': 'application/json'}
    request = urllib.request.Request(os.environ['ANTHROPIC_BASE_URL'] + '/v1/messages', json.dumps(body).encode(), headers)
    try:
        answer = urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        answer = error
    print('anthropic', answer.status, answer.read().decode().replace('\n', '|'))
"#;

#[test]
fn a_provider_is_no_way_out_of_a_closed_room_unless_the_operator_says_so() {
    let provider = Provider::start(false);
    let site = provider.site("");
    let config = site.home().join("config.yml");
    let room = "sandbox: {templates: {agent: {from: default, models: true}}}\n";
    let closed = std::fs::read_to_string(&config).unwrap() + room;
    std::fs::write(&config, &closed).unwrap();
    site.ok(&["init"]);
    let (own, fetch) = (r#"{"type":"bash_20250124","name":"bash"}"#, r#"{"type":"web_fetch_20250910","name":"web_fetch"}"#);
    let printed = run(&site, "agent", &[TOOLS, own, fetch]);
    let said = answers(&printed);
    assert_eq!(said.iter().map(|(_, status, _)| *status).collect::<Vec<_>>(), [200, 403, 403], "{printed}");
    let no = serde_json::from_str::<Value>(said[1].2).unwrap();
    assert_eq!(no["error"]["type"], "permission_error");
    let reason = "`anthropic` would run `web_fetch` for `claude-sonnet-4-5` by itself, out of sight and reach of any sandbox";
    let hint = "send pictures and files themselves, and leave out tools that fetch; \
                the operator can allow it by `runs: [web_fetch]` under `providers.anthropic` in $SKEP_HOME/config.yml";
    assert_eq!(no["error"]["message"], format!("{reason}; {hint}"));
    assert_eq!(provider.heard.load(std::sync::atomic::Ordering::SeqCst), 1, "what was refused never left");

    // On record as any refusal is, as a part of the call that runs the job, and nothing was set aside for it.
    let refused = site.records(&["--kind", "call.refused"]);
    assert_eq!(refused.len(), 2, "{refused:?}");
    for record in &refused {
        let payload = &record["payload"];
        assert_eq!((&payload["tool"], &payload["code"]), (&"model.request".into(), &"denied".into()), "{payload}");
        assert_eq!(
            (&payload["reason"], &payload["hint"], &payload["input"]["runs"]),
            (&reason.into(), &hint.into(), &serde_json::json!(["web_fetch"]))
        );
        assert!(payload["of"].is_string(), "{payload}");
    }
    assert_eq!(site.count("model.reserved"), 1);

    // Allowed by name it passes, and the record says what was run.
    site.ok(&["kernel", "stop"]);
    std::fs::write(&config, closed.replace("dialect: anthropic,", "dialect: anthropic, runs: web_fetch,")).unwrap();
    let printed = run(&site, "agent", &[TOOLS, own, fetch, r#"{"type":"mcp_toolset"}"#]);
    assert_eq!(answers(&printed).iter().map(|(_, status, _)| *status).collect::<Vec<_>>(), [200, 200, 403, 200], "{printed}");
    let ran: Vec<Value> =
        site.records(&["--kind", "call.admitted"]).iter().map(|record| record["payload"]["input"]["runs"].clone()).collect();
    assert_eq!(ran.iter().filter(|runs| runs.is_array()).collect::<Vec<_>>(), [&serde_json::json!(["web_fetch"]); 2], "{ran:?}");

    // A typo is told with its place, and nothing runs.
    site.ok(&["kernel", "stop"]);
    std::fs::write(&config, closed.replace("dialect: anthropic,", "dialect: anthropic, runs: web_fech,")).unwrap();
    let told = text(&site.skep(&["sandbox", "run", "--", "true"]));
    assert!(told.contains("`providers.anthropic`: `runs`: there is no `web_fech`") && told.contains("did you mean `web_fetch`?"), "{told}");
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn a_key_is_good_at_its_own_door_alone() {
    let site = site("gateway: {loopback: true}\n");
    let mut command = site.command(&["gateway", "open", "--json"]);
    let mut other: Child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let opened: Value = serde_json::Deserializer::from_reader(other.stdout.take().unwrap()).into_iter().next().unwrap().unwrap();
    let key = opened["key"].as_str().unwrap();
    let printed = run(&site, "agent", &[CLIENT, key]);
    unauthorized(&printed);
    assert_eq!(site.count("model.reserved"), 0);
    // Its own is, as long as its job runs; the next job has another, and a brain that prints it tells nobody.
    let keep = "import os; open('key', 'w').write(os.environ['ANTHROPIC_API_KEY']); print(os.environ['ANTHROPIC_API_KEY'])";
    let printed = site.skep(&["sandbox", "run", "-t", "agent", "--", "python3", "-c", keep]);
    assert!(printed.status.success(), "{}", text(&printed));
    site.ok(&["merge", "task-2", "--yes"]);
    let old = site.read("key");
    assert!(old.starts_with("sk-skep-"), "{old}");
    let printed = run(&site, "agent", &[CLIENT, &old]);
    unauthorized(&printed);
    assert!(answers(&run(&site, "agent", &[CLIENT])).iter().all(|(_, status, _)| *status == 200));
    assert!(site.records(&[]).iter().all(|record| !record.to_string().contains(&old) && !record.to_string().contains(key)));
    other.kill().unwrap();
    other.wait().unwrap();
}

/// What each dialect says to a key that is not good here.
fn unauthorized(printed: &str) {
    let said = answers(printed);
    assert_eq!(said.iter().map(|(_, status, _)| *status).collect::<Vec<_>>(), [401; 4], "{printed}");
    let body = |at: usize| serde_json::from_str::<Value>(said[at].2).unwrap();
    assert_eq!((&body(0)["type"], &body(0)["error"]["type"]), (&"error".into(), &"authentication_error".into()), "{printed}");
    assert_eq!((&body(1)["error"]["code"], &body(2)["error"]["code"]), (&"invalid_api_key".into(), &"invalid_api_key".into()), "{printed}");
    assert_eq!(body(3)["error"]["status"], "UNAUTHENTICATED", "{printed}");
    assert!(said.iter().all(|(_, _, body)| body.contains("this key does not belong to this process's gateway")), "{printed}");
}

#[test]
fn a_container_has_a_door_of_its_own() {
    let site = site("runtime: podman\n");
    let contained = "import os; assert os.path.exists('/.skep')\n".to_owned();
    assert_eq!(run(&site, "agent", &[&(contained.clone() + REACH)]), "gateway reached\nproxy closed\nworld closed\nkey True\n");
    assert_eq!(run(&site, "default", &[&(contained.clone() + REACH)]), "gateway closed\nproxy closed\nworld closed\nkey False\n");

    // Answered, metered and on record for the process that stands for the job.
    let printed = run(&site, "agent", &[&(contained + CLIENT)]);
    let said = answers(&printed);
    assert!(said.iter().all(|(_, status, body)| *status == 200 && body.contains("hello from the script")), "{printed}");
    let usage = site.json(&["usage"]);
    assert_eq!((&usage["total"]["requests"], &usage["total"]["output"], &usage["total"]["estimated"]), (&4.into(), &20.into(), &0.into()));
    let records = site.records(&["--kind", "call.admitted"]);
    let (jobs, asked): (Vec<&Value>, Vec<&Value>) = records.iter().partition(|record| record["payload"]["tool"] == "sandbox.run");
    let job = &jobs.last().unwrap()["payload"];
    assert_eq!(asked.len(), 4);
    let process = job_process(&site);
    assert!(asked.iter().all(|record| record["payload"]["of"] == job["call"] && record["payload"]["pid"] == process), "{asked:?}");

    unauthorized(&run(&site, "agent", &[CLIENT, "sk-skep-of-nobody"]));
    // The key of a job that runs beside is no good here, nor is its door in reach; when it is over, its key is good nowhere.
    let show = "import os, sys; print(os.environ['ANTHROPIC_API_KEY'], flush=True); sys.stdin.read()";
    let mut command = site.command(&["sandbox", "run", "--discard", "-t", "agent", "--", "python3", "-c", show]);
    let mut other: Child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut key = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(other.stdout.take().unwrap()), &mut key).unwrap();
    assert!(key.starts_with("sk-skep-"), "{key}");
    unauthorized(&run(&site, "agent", &[CLIENT, key.trim()]));
    assert!(std::net::TcpStream::connect("127.0.0.1:61129").is_err(), "nobody outside a room finds a door");
    drop(other.stdin.take());
    assert!(other.wait().unwrap().success());
    unauthorized(&run(&site, "agent", &[CLIENT, key.trim()]));
    assert_eq!(site.json(&["usage"])["total"]["requests"], 4, "nothing more was asked");
    assert!(site.records(&[]).iter().all(|record| !record.to_string().contains(key.trim())));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// Opens more connections than its door has places for, says so, and holds them.
const STORM: &str = r#"
import socket, sys
held = []
for n in range(1000):
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(('127.0.0.1', 61129))
    held.append(one)
print('stormed', flush=True)
sys.stdin.read()
"#;

#[test]
fn a_stormed_door_is_one_room_s_own_trouble() {
    let site = site("");
    // Few enough that one door alone would use them up.
    let few = format!("ulimit -Sn 100 && exec {} kernel start", env!("CARGO_BIN_EXE_skep"));
    let started = std::process::Command::new("sh").args(["-c", &few]).env("SKEP_HOME", site.home()).output().unwrap();
    assert!(started.status.success(), "{}", text(&started));
    let mut command = site.command(&["sandbox", "run", "--discard", "-t", "agent", "--", "python3", "-c", STORM]);
    let mut storm: Child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(storm.stdout.take().unwrap()), &mut said).unwrap();
    assert_eq!(said, "stormed\n");
    let printed = run(&site, "agent", &[CLIENT]);
    assert!(answers(&printed).iter().all(|(_, status, _)| *status == 200), "{printed}");
    drop(storm.stdin.take());
    assert!(storm.wait().unwrap().success());
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn a_template_without_sockets_has_no_use_for_a_door() {
    let site = Site::new(&[("a.txt", "one\n")]);
    std::fs::create_dir(site.home()).unwrap();
    std::fs::write(site.home().join("config.yml"), "sandbox: {templates: {agent: {from: code-executor, models: true}}}\n").unwrap();
    let no = site.skep(&["kernel", "start"]);
    assert!(!no.status.success() && text(&no).contains("say `profile: standard-net`"), "{}", text(&no));
    // A project widens nothing.
    std::fs::write(site.home().join("config.yml"), "").unwrap();
    site.write("skep.yml", "sandbox: {templates: {default: {models: true}}}\n");
    let no = site.skep(&["trust", "--yes"]);
    let no = if no.status.success() { site.skep(&["sandbox", "run", "--", "true"]) } else { no };
    assert!(!no.status.success() && text(&no).contains("may only narrow"), "{}", text(&no));
}

#[test]
fn requests_of_a_minute_and_the_size_of_a_request_are_capped() {
    let site = site("");
    site.ok(&["budget", "set", "2", "--requests-per-minute", "2"]);
    // Eight requests touch two minutes at most.
    let printed = run(&site, "agent", &[&CLIENT.repeat(2)]);
    let said = answers(&printed);
    let refused: Vec<_> = said.iter().filter(|(_, status, _)| *status == 429).collect();
    assert!(refused.len() >= 4 && refused.len() <= 6, "{printed}");
    assert!(refused.iter().all(|(_, _, body)| body.contains("made its 2 requests of this minute")), "{printed}");
    let mut minutes = std::collections::BTreeMap::new();
    for record in site.records(&["--kind", "model.reserved"]) {
        let at = record["timestamp"].as_str().unwrap()[..16].to_owned();
        *minutes.entry(at).or_insert(0) += 1;
    }
    assert!(minutes.values().all(|count| *count <= 2), "{minutes:?}");

    site.ok(&["budget", "set", "2", "--context", "20"]);
    let printed = run(&site, "agent", &[CLIENT]);
    assert!(
        answers(&printed).iter().all(|(_, status, body)| *status != 200 && body.contains("and operator may send 20; shorten")),
        "{printed}"
    );
    site.ok(&["budget", "set", "2", "--context", "2000"]);
    let printed = run(&site, "agent", &[CLIENT]);
    assert!(answers(&printed).iter().all(|(_, status, _)| *status == 200), "{printed}");
}
