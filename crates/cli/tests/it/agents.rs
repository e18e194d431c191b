//! The vendors' own clients inside rooms: each works through the door of its room, on a provider that wants its key, and that key is
//! nowhere but there.
//!
//! The clients come from npm, once, into the build's own folder, which the operator shows to rooms. They start from an empty home and
//! the environment that Skep gives to a job. Without npm or the registry these tests fail and say so.

use crate::common::Site;
use gateway::RenderedAnswer;
use gateway::script::ModelScript;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const PROMPT: &str = "Please write the greeting";
/// It looks like nothing; only who knows it can find it.
const SECRET: &str = "correct.horse.battery.4711";
/// Stands where a secret could, so that a search that finds nothing has shown that it can find.
const CONTROL: &str = "incorrect.donkey.cell.4712";
const VARIABLE: &str = "SKEP_TEST_UPSTREAM";

/// Runs rooms as containers.
const PODMAN: &str = "runtime: podman\n";

const CLAUDE: Agent = Agent {
    name: "claude",
    package: "@anthropic-ai/claude-code@2.1.197",
    line: "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \"$0\" -p \"$1\" --output-format stream-json --verbose --permission-mode acceptEdits",
    header: ("x-api-key", ""),
};

const CODEX: Agent = Agent {
    name: "codex",
    package: "@openai/codex@0.166.0",
    line: "\"$0\" exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -m gpt-5.5 \"$1\" < /dev/null",
    header: ("authorization", "Bearer "),
};

const OPENCODE: Agent = Agent {
    name: "opencode",
    package: "opencode-ai@1.18.33",
    line: "echo '{\"model\":\"x/m\",\"small_model\":\"x/m\",\"autoupdate\":false,\"share\":\"disabled\",\"permission\":\"allow\",\"provider\":{\"x\":{\
           \"npm\":\"@ai-sdk/openai-compatible\",\"name\":\"x\",\"options\":{\"baseURL\":\"{env:OPENAI_BASE_URL}\",\"apiKey\":\"{env:OPENAI_API_KEY}\"},\
           \"models\":{\"m\":{\"name\":\"m\"}}}}}' > $HOME/opencode.json; OPENCODE_CONFIG=$HOME/opencode.json OPENCODE_DISABLE_AUTOUPDATE=1 \
           OPENCODE_DISABLE_MODELS_FETCH=1 \"$0\" run --format json \"$1\"",
    header: ("authorization", "Bearer "),
};

const GEMINI: Agent = Agent {
    name: "gemini",
    package: "@google/gemini-cli@0.61.0",
    // It heeds /etc/gemini-cli only where that is of uid 0, which it is in containers alone.
    line: "mkdir -p $HOME/.gemini; echo '{\"security\":{\"auth\":{\"selectedType\":\"gemini-api-key\"}}}' > $HOME/.gemini/settings.json; \
           GEMINI_CLI_TRUST_WORKSPACE=true \"$0\" -p \"$1\" --output-format stream-json --approval-mode yolo",
    header: ("x-goog-api-key", ""),
};

struct Agent {
    name: &'static str,
    package: &'static str,
    /// Runs in the room, with the client as `$0` and the prompt as `$1`.
    line: &'static str,
    /// How its vendor is told who pays, and what stands before the key.
    header: (&'static str, &'static str),
}

/// Where the operator keeps the provider's key.
enum Kept {
    File,
    Environment,
}

#[test]
fn claude_works_in_a_room() {
    check(&CLAUDE, "", &Kept::Environment);
}

#[test]
fn codex_works_in_a_room() {
    check(&CODEX, "", &Kept::File);
}

#[test]
fn opencode_works_in_a_room() {
    check(&OPENCODE, "", &Kept::File);
}

#[test]
fn gemini_works_in_a_room() {
    check(&GEMINI, "", &Kept::Environment);
}

/// Codex, which starts the fastest; in `cargo xtask soak agents` all of them. What a container does for a client does not depend on which it is.
#[test]
fn codex_works_in_a_container() {
    check(&CODEX, PODMAN, &Kept::File);
    if std::env::var_os("SKEP_SOAK").is_some() {
        check(&CLAUDE, PODMAN, &Kept::Environment);
        check(&OPENCODE, PODMAN, &Kept::File);
        check(&GEMINI, PODMAN, &Kept::Environment);
    }
}

/// Prints where in the room a text is that is given backwards: in the environment and the command line of every process, and in files.
const HUNT: &str = r#"
import glob, os, sys
needles = [text[::-1].encode() for text in sys.argv[1:]]
def look(where, data):
    for n, needle in enumerate(needles):
        if needle in data:
            print('HUNT', n, where)
look('environment', '\n'.join(f'{k}={v}' for k, v in os.environ.items()).encode())
places = glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline')
for top in ['.', '/tmp', '/run', '/etc', '/dev/shm']:
    places += [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names]
for place in places:
    try:
        if os.path.isfile(place) and not os.path.islink(place):
            look(place, open(place, 'rb').read())
    except OSError:
        pass
print('HUNT over', len(places) > 20)
"#;

/// A provider that knows its key, and everything that was sent to it.
struct Vendor {
    port: u16,
    heard: Arc<Mutex<Vec<crate::http::Request>>>,
}

impl Vendor {
    fn start((name, before): (&'static str, &'static str)) -> Vendor {
        let script = ModelScript::parse(include_str!("../../../gateway/tests/scripts/greet.script")).unwrap();
        let heard: Arc<Mutex<Vec<crate::http::Request>>> = Arc::default();
        let hears = heard.clone();
        let address = crate::http::serve(0, move |request| {
            hears.lock().unwrap().push(request.clone());
            let paid = request.headers.iter().any(|(key, value)| key == name && *value == format!("{before}{SECRET}"));
            if paid { crate::http::scripted(&script, request) } else { RenderedAnswer { status: 401, ..crate::http::absent() } }
        });
        Vendor { port: address.unwrap().port(), heard }
    }
}

fn check(agent: &Agent, more: &str, kept: &Kept) {
    let program = crate::npm::installed(agent.name, agent.package);
    let vendor = Vendor::start(agent.header);
    let site = Site::new(&[("a.txt", "a\n"), ("control.txt", CONTROL)]);
    fs::create_dir_all(site.home()).unwrap();
    let key = site.folder.path().join("key");
    fs::write(&key, SECRET).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let key = match kept {
        Kept::File => format!("file: {}", key.display()),
        Kept::Environment => format!("env: {VARIABLE}"),
    };
    let shown = program.ancestors().find(|folder| folder.join("node_modules").is_dir()).unwrap();
    let config = format!(
        "providers:\n  v: {{url: 'http://127.0.0.1:{}', dialect: [anthropic, responses, chat, gemini], key: {{{key}}}}}\n\
         models: {{tactical: v/any}}\ngateway: {{record: true}}\n\
         sandbox: {{show: ['{}'], templates: {{agent: {{from: default, models: true}}}}, tools: {{shell.run: agent}}}}\n{more}",
        vendor.port,
        shown.display()
    );
    fs::write(site.home().join("config.yml"), config).unwrap();

    let backwards = |text: &str| text.chars().rev().collect::<String>();
    let line = format!("cat control.txt; {} || exit 1; exec python3 -c \"$2\" {} {}", agent.line, backwards(SECRET), backwards(CONTROL));
    let command = json!(["sh", "-c", line, program, PROMPT, HUNT]);
    let brain = site.script(&format!("call shell.run command={command}\ndone\n"));
    let mut act = site.command(&["act", "greet", "--brain", &brain, "--await", "--json"]);
    let output = act.env(VARIABLE, SECRET).output().unwrap();
    let records = site.records(&[]);
    let of = |kind: &str| records.iter().filter(|record| record["type"] == kind).map(|record| &record["payload"]).collect::<Vec<_>>();
    let finished: String = of("call.finished").iter().map(|payload| payload.to_string()).collect();
    assert!(output.status.success(), "{}\n{finished}", crate::common::text(&output));

    // It did its work there, and found nothing but what it may see.
    let task = serde_json::from_slice::<Value>(&output.stdout).unwrap()["task"].as_str().unwrap().to_owned();
    assert!(!site.project().join("hello.txt").exists(), "its work is not merged yet");
    site.ok(&["merge", &task, "--yes"]);
    assert_eq!(site.read("hello.txt"), "hello from the script\n", "{finished}");
    assert!(finished.contains("HUNT over True") && finished.contains("HUNT 1 ./control.txt"), "{finished}");
    assert!(!finished.contains("HUNT 0"), "{finished}");

    // The provider was paid with its own key, and heard of no other.
    let heard = vendor.heard.lock().unwrap().clone();
    let asked: Vec<&crate::http::Request> = heard.iter().filter(|request| request.method == "POST").collect();
    assert!(asked.len() >= 3, "{} asked its model for three answers", agent.name);
    for request in &heard {
        let (name, before) = agent.header;
        let told: Vec<_> = request
            .headers
            .iter()
            .filter(|(key, _)| ["authorization", "x-api-key", "x-goog-api-key", "cookie"].contains(&key.as_str()))
            .collect();
        assert_eq!(told, [&(name.to_owned(), format!("{before}{SECRET}"))], "{}", request.path);
        assert!(!format!("{}{:?}", request.path, request.headers).contains("sk-skep-"), "{request:?}");
    }

    // Metered, and on record as parts of the call that ran the client, by the process whose call it is.
    let shell = of("call.admitted").into_iter().find(|payload| payload["tool"] == "shell.run").unwrap();
    let parts: Vec<&Value> = of("call.admitted").into_iter().filter(|payload| payload["tool"] == "model.request").collect();
    assert_eq!(parts.len(), asked.len());
    assert!(
        parts.iter().all(|part| part["of"] == shell["call"] && part["pid"] == shell["pid"] && part["task"] == shell["task"]),
        "{parts:?}"
    );
    let used = of("model.used");
    assert_eq!((used.len(), of("model.reserved").len()), (asked.len(), asked.len()));
    assert!(used.iter().all(|used| used["pid"] == shell["pid"] && used["charged_tokens"].as_u64() > Some(0)), "{used:?}");
    assert!(used.iter().all(|used| used["asked"].is_string() && used["answered"].is_string()), "recorded as blobs: {used:?}");

    let cassette = fs::read_to_string(site.home().join(format!("cassettes/{task}.jsonl"))).unwrap();
    assert!(cassette.contains("hello from the script"), "{cassette}");
    assert_eq!(site.json(&["journal", "verify"])["findings"], json!([]));
    assert_eq!(site.leftovers(), Vec::<String>::new());
    let texts = written(&site.home());
    let places = |what: &str| texts.iter().filter(|(_, text)| holds(text, what)).map(|(path, _)| path.clone()).collect::<Vec<_>>();
    assert!(places(CONTROL).iter().any(|path| path.to_string_lossy().contains("journal.db")), "the search finds what the job printed");
    assert!(places("hello from the script").iter().any(|path| path.is_relative()), "and what is in blobs");
    assert_eq!(places(SECRET), Vec::<PathBuf>::new(), "the provider's key was written");
}

fn holds(text: &[u8], what: &str) -> bool {
    text.windows(what.len()).any(|window| window == what.as_bytes())
}

/// Everything that a kernel has written: each file of its home as it is, and each blob in the clear.
fn written(home: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let (mut files, mut folders) = (Vec::new(), vec![home.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap() {
                kind if kind.is_dir() => folders.push(entry.path()),
                kind if kind.is_file() => files.push((entry.path(), fs::read(entry.path()).unwrap())),
                _ => {}
            }
        }
    }
    let (journal, _) = journal::Journal::open(home, journal::Options::default()).unwrap();
    let kept = files.iter().filter_map(|(path, _)| path.strip_prefix(home.join("blobs")).ok());
    let names: Vec<String> = kept.map(|path| path.to_string_lossy().replace('/', "")).collect();
    assert!(names.len() >= 6, "requests and answers are kept: {names:?}");
    files.extend(names.iter().map(|name| (PathBuf::from(name), journal.blobs().get(name).unwrap())));
    files
}
