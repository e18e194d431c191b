//! The vendors' own clients, driven by a script: each writes a file, reads it back and says so; then the same run again from a cassette.
//!
//! The clients come from npm, once, into the build's own folder, and start from an empty home and environment. Without npm or the
//! registry these tests fail and say so.

use crate::http::Request;
use gateway::RenderedAnswer;
use gateway::cassette::{Exchange, Player, RecordedResponse, Recorder, Redact};
use gateway::script::ModelScript;
use gateway::{Dialect, TimedChunk, UsageSource};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const CLAUDE: &str = "@anthropic-ai/claude-code@2.1.197";
const CODEX: &str = "@openai/codex@0.166.0";
const OPENCODE: &str = "opencode-ai@1.18.33";
const GEMINI: &str = "@google/gemini-cli@0.61.0";
const PROMPT: &str = "Please write the greeting";
const SAID: &str = "All done: the file says hello.";
/// A client takes some seconds; a busy machine may take ten times that, and this only ends what hangs.
const RUN_MAX: Duration = Duration::from_secs(240);

fn claude(base: &str, _: &Path, command: &mut Command) {
    command.env("ANTHROPIC_BASE_URL", base).env("ANTHROPIC_API_KEY", "test").env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    command.args(["-p", PROMPT, "--output-format", "stream-json", "--verbose", "--permission-mode", "acceptEdits"]);
}

fn codex(base: &str, home: &Path, command: &mut Command) {
    codex_with(&["-m", "gpt-5.5"], base, home, command);
}

fn codex_with(model: &[&str], base: &str, _: &Path, command: &mut Command) {
    let provider = format!(r#"model_providers.x={{name="x",base_url="{base}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}}"#);
    command.env("OPENAI_API_KEY", "test");
    command.args(["exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]).args(model);
    command.args(["-c", "model_provider=x", "-c", &provider, PROMPT]);
}

fn opencode(base: &str, home: &Path, command: &mut Command) {
    let provider = serde_json::json!({"x": {
        "npm": "@ai-sdk/openai-compatible", "name": "x", "options": {"baseURL": format!("{base}/v1"), "apiKey": "test"}, "models": {"m": {"name": "m"}},
    }});
    let config = serde_json::json!({"model": "x/m", "small_model": "x/m", "autoupdate": false, "share": "disabled", "permission": "allow", "provider": provider});
    let file = home.join("opencode.json");
    fs::write(&file, config.to_string()).unwrap();
    command.env("OPENCODE_CONFIG", file).env("OPENCODE_DISABLE_AUTOUPDATE", "1").env("OPENCODE_DISABLE_MODELS_FETCH", "1");
    command.args(["run", "--format", "json", PROMPT]);
}

fn gemini(base: &str, home: &Path, command: &mut Command) {
    fs::create_dir(home.join(".gemini")).unwrap();
    let settings = serde_json::json!({"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}, "general": {"enableAutoUpdate": false}});
    fs::write(home.join(".gemini/settings.json"), settings.to_string()).unwrap();
    command.env("GOOGLE_GEMINI_BASE_URL", base).env("GEMINI_API_KEY", "test").env("GEMINI_CLI_TRUST_WORKSPACE", "true");
    command.args(["-p", PROMPT, "--output-format", "stream-json", "--approval-mode", "yolo"]);
}

type Prepare = fn(&str, &Path, &mut Command);

#[test]
fn claude_completes_a_scripted_task() {
    check("claude", CLAUDE, Dialect::Anthropic, claude);
}

/// Of two clients in the tests. The other two take half a minute of processor each: they are in `cargo xtask soak clients`, and what they do with a
/// script is in the tests of rooms too (`crates/cli/tests/it/agents.rs`).
#[test]
fn codex_completes_a_scripted_task() {
    check("codex", CODEX, Dialect::Responses, codex);
    if std::env::var_os("SKEP_SOAK").is_some() {
        check("opencode", OPENCODE, Dialect::Chat, opencode);
        check("gemini", GEMINI, Dialect::Gemini, gemini);
    }
}

/// Codex with the model that it takes by itself, whose tools come within the conversation.
fn codex_by_default(base: &str, home: &Path, command: &mut Command) {
    codex_with(&[], base, home, command);
}

#[test]
fn codex_completes_a_scripted_task_with_its_default_model() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run-codex-default");
    let script = ModelScript::parse(include_str!("../scripts/greet.script")).unwrap();
    run(&crate::npm::installed("codex", CODEX), &folder, codex_by_default, move |request| crate::http::scripted(&script, request));
    let _ = fs::remove_dir_all(&folder);
}

/// What the operator must read, as the door words it.
const AT_CAP: &str = "the budget of kernel does not hold it; the operator can give more: `skep budget grant 1 --money 0.05`";

/// At a cap a client shows our words at once and does not try again. Some ask twice by themselves: for a title or a route, and for the
/// task.
fn shows_our_words_at_a_cap(name: &str, package: &str, prepare: Prepare, requests: usize) {
    let program = crate::npm::installed(name, package);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cap-{name}"));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    let (_, told) = ended(&program, &folder, prepare, move |request| {
        let Some((dialect, _)) = Dialect::detect(&request.method, &request.path) else { return crate::http::absent() };
        heard.lock().unwrap().push(request.path.clone());
        let kind = gateway::DenialKind::Budget;
        let reply = dialect.render_error(dialect.error_status(kind), kind, AT_CAP);
        let chunks = vec![TimedChunk { after_ms: 0, bytes: reply.body }];
        RenderedAnswer { status: reply.status, content_type: reply.content_type, headers: reply.headers, chunks, is_cut: false }
    });
    assert!(told.contains(AT_CAP), "{name}: {told}");
    assert_eq!(asked.lock().unwrap().len(), requests, "{name} asked for {:?}\n{told}", asked.lock().unwrap());
    let _ = fs::remove_dir_all(&folder);
}

#[test]
fn claude_shows_our_words_at_a_cap() {
    shows_our_words_at_a_cap("claude", CLAUDE, claude, 1);
}

#[test]
fn codex_shows_our_words_at_a_cap() {
    shows_our_words_at_a_cap("codex", CODEX, codex_by_default, 1);
}

#[test]
fn opencode_shows_our_words_at_a_cap() {
    shows_our_words_at_a_cap("opencode", OPENCODE, opencode, 2);
}

#[test]
fn gemini_shows_our_words_at_a_cap() {
    shows_our_words_at_a_cap("gemini", GEMINI, gemini, 2);
}

fn check(name: &str, package: &str, dialect: Dialect, prepare: Prepare) {
    let program = crate::npm::installed(name, package);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("run-{name}"));
    let cassette = folder.with_extension("cassette");
    let _ = fs::remove_file(&cassette);

    let tape = Arc::new(Mutex::new(Recorder::open(&cassette, keep()).unwrap()));
    let script = ModelScript::parse(include_str!("../scripts/greet.script")).unwrap();
    run(&program, &folder, prepare, move |request| {
        let rendered = crate::http::scripted(&script, request);
        if let Some((dialect, _)) = Dialect::detect(&request.method, &request.path) {
            metered(dialect, request, &rendered);
            tape.lock().unwrap().record(&exchange(dialect, request, &rendered)).unwrap();
        }
        rendered
    });

    let text = fs::read_to_string(&cassette).unwrap();
    let player = Arc::new(Mutex::new(Player::read(&text, keep()).unwrap()));
    assert!(player.lock().unwrap().count().0 >= 3, "{name} asked its model for three answers");
    assert!(text.contains(&format!("\"dialect\":\"{}\"", dialect.name())));
    let (playing, missed) = (Arc::clone(&player), Arc::new(Mutex::new(Vec::new())));
    let misses = Arc::clone(&missed);
    run(&program, &folder, prepare, move |request| match Dialect::detect(&request.method, &request.path) {
        None => crate::http::absent(),
        Some((dialect, _)) => match playing.lock().unwrap().play(dialect, &request.path, &request.body) {
            Ok(answer) => replayed(answer),
            Err(mismatch) => {
                misses.lock().unwrap().push(mismatch.to_string());
                crate::http::absent()
            }
        },
    });
    assert_eq!(*missed.lock().unwrap(), Vec::<String>::new(), "{name} asks the same again");
    assert_eq!(player.lock().unwrap().count().1, 0, "every answer was asked for again");
    let _ = fs::remove_dir_all(&folder);
}

fn keep() -> Redact {
    Arc::new(str::to_owned)
}

/// One run from an empty home, with what must come of it.
fn run(program: &Path, folder: &Path, prepare: Prepare, answer: impl Fn(&Request) -> RenderedAnswer + Send + Sync + 'static) {
    let (status, told) = ended(program, folder, prepare, answer);
    assert!(status.success(), "{status}\n{told}");
    assert_eq!(fs::read_to_string(folder.join("work/hello.txt")).expect(&told), "hello from the script\n");
    // A client that shows text as it comes shows it in pieces.
    assert!(told.contains(SAID) || (told.contains("All done: the file says") && told.contains(" hello.")), "{told}");
}

/// One run from an empty home: how it ended, and all that it said.
fn ended(
    program: &Path,
    folder: &Path,
    prepare: Prepare,
    answer: impl Fn(&Request) -> RenderedAnswer + Send + Sync + 'static,
) -> (std::process::ExitStatus, String) {
    let _ = fs::remove_dir_all(folder);
    let (home, work) = (folder.join("home"), folder.join("work"));
    fs::create_dir_all(&home).unwrap();
    fs::create_dir_all(&work).unwrap();
    let address = crate::http::serve(0, answer).unwrap();
    let (out, err) = (folder.join("out"), folder.join("err"));
    let mut command = Command::new(program);
    command.env_clear().env("HOME", &home).env("PATH", std::env::var_os("PATH").unwrap_or_default()).current_dir(&work);
    command.stdin(Stdio::null()).stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
    prepare(&format!("http://{address}"), &home, &mut command);
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > RUN_MAX {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{} ran longer than {RUN_MAX:?}\n{}", program.display(), told(&out, &err));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    (status, told(&out, &err))
}

fn told(out: &Path, err: &Path) -> String {
    format!("{}\n{}", fs::read_to_string(out).unwrap_or_default(), fs::read_to_string(err).unwrap_or_default())
}

fn metered(dialect: Dialect, request: &Request, rendered: &RenderedAnswer) {
    let mut meter = dialect.parse_request(&request.path, &request.body).unwrap().meter();
    rendered.chunks.iter().for_each(|chunk| meter.feed(&chunk.bytes));
    let metered = meter.finish();
    assert_eq!((metered.usage.source, metered.complete), (UsageSource::Reported, true), "{:?}", metered.notes);
}

fn exchange(dialect: Dialect, request: &Request, rendered: &RenderedAnswer) -> Exchange {
    let headers = vec![("content-type".to_owned(), rendered.content_type.to_owned())];
    let answer = RecordedResponse { status: rendered.status, headers, chunks: rendered.chunks.clone(), complete: true };
    Exchange {
        dialect,
        method: request.method.clone(),
        path: request.path.clone(),
        headers: request.headers.clone(),
        body: request.body.clone(),
        answer,
    }
}

fn replayed(answer: RecordedResponse) -> RenderedAnswer {
    let stream = answer.headers.iter().any(|(_, value)| value == "text/event-stream");
    let chunks: Vec<TimedChunk> = answer.chunks;
    let content_type = if stream { "text/event-stream" } else { "application/json" };
    RenderedAnswer { status: answer.status, content_type, headers: Vec::new(), chunks, is_cut: !answer.complete }
}
