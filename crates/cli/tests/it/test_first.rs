//! Tests first, end to end: seed 003's scenario "Add error handling to parseConfig" by the built-in brain and by vendors' own clients, each on a
//! scripted model. `docs/discipline.md` says which of its 35 steps is which assertion here.

use crate::brains::{CLAUDE, CODEX, Client, GEMINI, OPENCODE};
use crate::common::model_server::ModelServer;
use crate::common::provider::eventually;
use crate::common::{Site, text};
use serde_json::{Value, json};
use std::process::Command;

const SOURCE: &str = "export function parseConfig(text) {\n  const pairs = text.split(\"\\n\").map((line) => line.split(\"=\"));\n  return Object.fromEntries(pairs);\n}\n";
const FIXED: &str = "export function parseConfig(text) {\n  const pairs = text.split(\"\\n\").map((line) => line.split(\"=\"));\n  \
    if (pairs.some((pair) => pair.length !== 2)) throw new Error(\"invalid line\");\n  return Object.fromEntries(pairs);\n}\n";
const SMOKE: &str = "import test from \"node:test\";\nimport assert from \"node:assert/strict\";\nimport { parseConfig } from \"../src/utils.mjs\";\n\
    test(\"parseConfig reads pairs\", () => assert.equal(parseConfig(\"a=1\").a, \"1\"));\n";
const TEST: &str = "import test from \"node:test\";\nimport assert from \"node:assert/strict\";\nimport { parseConfig } from \"../src/utils.mjs\";\n\
    test(\"parseConfig throws on invalid input\", () => {\n  assert.throws(() => parseConfig(\"no pair\"), /invalid line/);\n});\n";
const POLICY: &str = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow, reason: a test}\n\
    - {name: merge, match: {syscall: merge.apply}, action: require_review, reason: merges wait for a person}\n";
const TASK: &str = "Add error handling to parseConfig";
const DONE: &str = "Done. Added error handling to parseConfig with tests.";

/// Who does it, and how its model calls the tools of the kernel.
struct Hand {
    brain: &'static str,
    client: Option<&'static Client>,
    tools: KernelTools,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum KernelTools {
    /// By their names, with this in front.
    Offered(&'static str),
    /// The same, after a search for them.
    Searched,
    /// It starts no server here: the end of its turn says the same.
    Absent,
}

const NATIVE: Hand = Hand { brain: "native", client: None, tools: KernelTools::Offered("") };
const OF_CLAUDE: Hand = Hand { brain: CLAUDE.brain, client: Some(&CLAUDE), tools: KernelTools::Offered("") };
const OF_CODEX: Hand = Hand { brain: CODEX.brain, client: Some(&CODEX), tools: KernelTools::Searched };
const OF_OPENCODE: Hand = Hand { brain: OPENCODE.brain, client: Some(&OPENCODE), tools: KernelTools::Offered("skep_") };
/// With a model of its own: without one it asks a model which model to ask.
const OF_GEMINI: Hand = Hand { brain: "gemini:gemini-3.8-flash", client: Some(&GEMINI), tools: KernelTools::Absent };

impl Hand {
    /// Lines of a script that call a tool of the kernel's.
    fn call(&self, tool: &str, input: &Value) -> String {
        let input = if input.is_null() { String::new() } else { format!(" {input}") };
        match self.tools {
            KernelTools::Offered(prefix) => format!("  call {prefix}{tool}{input}\nthen\n"),
            KernelTools::Searched => format!("  call tool_search query={tool}\nthen\n  call {tool}{input}\nthen\n"),
            KernelTools::Absent => String::new(),
        }
    }
}

/// A repository with a function and its test, and a home whose models follow `script`. `more` stands below the policy.
pub fn site(client: Option<&Client>, script: &str, more: &str) -> (Site, ModelServer) {
    let policy = format!("{POLICY}{more}");
    let site = Site::new(&[
        ("src/utils.mjs", SOURCE),
        ("tests/smoke.test.mjs", SMOKE),
        ("README.md", "# Utils\n"),
        ("skep.yml", "test: {command: [node, --test]}\n"),
        (".skep/policy.yaml", &policy),
    ]);
    site.git(&["config", "user.name", "Ann"]);
    site.git(&["config", "user.email", "ann@x.y"]);
    let server = ModelServer::start(script, None);
    let program = client.map(|client| (client.name, crate::npm::installed(client.name, client.package)));
    let brains = program.map_or_else(String::new, |(name, path)| format!("brains: {{{name}: {{command: ['{}']}}}}\n", path.display()));
    std::fs::create_dir_all(site.home()).unwrap();
    let config = format!(
        "providers:\n  s: {{url: '{}', dialect: [anthropic, responses, chat, gemini], free: true}}\nmodels: {{tactical: s/any, operational: s/any}}\n{brains}",
        server.url()
    );
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    site.trust();
    (site, server)
}

fn write(path: &str, content: &str) -> String {
    format!("  call write path={path} content={}\nthen\n", json!(content))
}

/// What a shell does behind everybody's back.
fn shell(path: &str, content: &str) -> String {
    format!("  call shell command={}\nthen\n", json!(format!("printf %s '{}' > {path}", content.replace('\'', ""))))
}

/// The end of a turn. Some clients are told the reason of a refusal after it, and answer once more.
fn says(text: &str) -> String {
    format!("  say {text}\n{}", format!("then\n  say {text}\n").repeat(3))
}

/// The whole work of a brain whose calls the kernel makes, in one turn.
pub fn script_of_native() -> String {
    let complete = "  call plan.complete\nthen\n";
    format!(
        "on \"{TASK}\"\n  call read path=src/utils.mjs\nthen\n{complete}{}{}  call test.run\nthen\n{complete}{}{}{complete}  say {DONE}\n",
        write("src/utils.mjs", FIXED),
        write("tests/utils.test.mjs", TEST),
        write("tests/utils.test.mjs", "// nothing\n"),
        write("src/utils.mjs", FIXED),
    )
}

/// The same of a client with hands of its own: each phase after the plan is a turn that the kernel prompts, and its shell cheats in each.
fn script_of_client(hand: &Hand) -> String {
    let (read, none) = ("  call read path=src/utils.mjs\nthen\n", Value::Null);
    let plan = match hand.tools {
        KernelTools::Absent => "  say I know what to do.\non \"Workflow state: test_writing\"\n".to_owned(),
        _ => hand.call("plan_complete", &none),
    };
    let code = [
        write("tests/utils.test.mjs", "// nothing\n"),
        shell("tests/smoke.test.mjs", "// nothing"),
        read.to_owned(),
        write("src/utils.mjs", FIXED),
        hand.call("workflow_state", &none),
    ];
    let tests = [
        write("src/utils.mjs", FIXED),
        write("tests/utils.test.mjs", TEST),
        shell("src/utils.mjs", "export const parseConfig = 0;"),
        hand.call("test_run", &none),
        hand.call("plan_complete", &none),
    ];
    format!(
        "on \"Workflow state: code_writing\"\n{}{}on \"{TASK}\"\n{read}{plan}{}{}",
        code.concat(),
        says(DONE),
        tests.concat(),
        says("The tests are written."),
    )
}

/// A site's records in their order: each step is looked for behind the one before it.
struct Story {
    records: Vec<Value>,
    at: usize,
}

impl Story {
    fn of(site: &Site) -> Story {
        Story { records: site.records(&[]), at: 0 }
    }

    /// The next record of this kind of which this holds.
    #[track_caller]
    fn step(&mut self, number: &str, kind: &str, is_meant: impl Fn(&Value) -> bool) -> Value {
        let found = self.records[self.at..].iter().position(|record| record["type"] == kind && is_meant(&record["payload"]));
        let Some(found) = found else {
            let rest: Vec<String> =
                self.records[self.at..].iter().map(|record| format!("{} {}", record["type"], record["payload"])).collect();
            panic!("step {number}: no {kind} in\n{}", rest.join("\n"));
        };
        self.at += found + 1;
        self.records[self.at - 1]["payload"].clone()
    }

    #[track_caller]
    fn enters(&mut self, number: &str, from: &str, to: &str) {
        self.step(number, "workflow.entered", |e| e["mode"] == "strict" && e["from"] == from && e["to"] == to);
    }

    /// A call of the brain that was let pass in this state.
    #[track_caller]
    fn call(&mut self, number: &str, tool: &str, path: Option<&str>, state: &str) -> Value {
        let mark = json!({ "mode": "strict", "state": state });
        let is_meant = |call: &Value| call["tool"] == tool || (tool == "fs.write" && call["tool"] == "fs.edit");
        self.step(number, "call.admitted", |call| {
            is_meant(call) && call["workflow"] == mark && path.is_none_or(|path| call["paths"] == json!([path]))
        })
    }

    /// A write, which some clients call an edit where the file is there, that the state did not allow; with the tools that there are.
    #[track_caller]
    fn refused(&mut self, number: &str, path: &str, state: &str) {
        let is_write = |tool: &Value| tool == "fs.write" || tool == "fs.edit";
        let no = self.step(number, "call.refused", |no| is_write(&no["tool"]) && no["paths"] == json!([path]));
        assert_eq!((&no["detail"]["error"], &no["detail"]["current_state"]), (&json!("tool_unavailable"), &json!(state)), "{no}");
        assert!(no["detail"]["available_tools"].as_array().is_some_and(|tools| tools.contains(&json!("fs.read"))), "{no}");
    }

    #[track_caller]
    fn ends(&mut self, number: &str, call: &Value) -> Value {
        self.step(number, "call.finished", |end| end["call"] == call["call"])
    }
}

#[track_caller]
fn is_sent(server: &ModelServer, step: &str, parts: &[&str]) {
    let asked = server.asked();
    // As they stand in JSON.
    let parts: Vec<String> = parts.iter().map(|part| json!(part).to_string().trim_matches('"').to_owned()).collect();
    let has = |body: &String| parts.iter().all(|part| body.contains(part.as_str()));
    assert!(asked.iter().any(has), "step {step}: no request has {parts:?}: {:#?}", asked.last());
}

fn git(site: &Site, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(site.project()).args(arguments).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", text(&output));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// Steps 1 to 29: what is on record when the changes wait for a person.
fn up_to_the_review(site: &Site, server: &ModelServer, hand: &Hand) -> Story {
    let has_hands = hand.client.is_some();
    let mut story = Story::of(site);
    story.step("1", "task.queued", |e| e["prompt"] == TASK);
    story.step("2", "discipline.switched", |e| e["mode"] == "strict");
    story.enters("3", "idle", "planning");
    is_sent(server, "4-6", &[TASK, "Workflow state: planning. All reading tools available. Nothing is written yet."]);
    assert!(story.records.iter().any(|record| record["payload"]["tool"] == "model.request"), "step 6: through the gateway");
    let read = story.call("7-8", "fs.read", Some("src/utils.mjs"), "planning");
    assert_eq!((&read["rules"], &read["hands"]), (&json!(["all"]), &json!(if has_hands { "caller" } else { "kernel" })), "step 9");
    story.ends("10", &read);
    is_sent(server, "10", &["return Object.fromEntries(pairs)"]);
    let has_tools = hand.tools != KernelTools::Absent;
    if has_tools {
        story.call("11", "plan.complete", None, "planning");
    }
    story.enters("11", "planning", "test_writing");
    is_sent(server, "12", &["Workflow state: test_writing. Writable: tests only."]);
    story.refused("12", "src/utils.mjs", "test_writing");
    is_sent(server, "12", &["tests must be written first; `src/utils.mjs` is no test", "available now: fs.read"]);
    let wrote = story.call("13-14", "fs.write", Some("tests/utils.test.mjs"), "test_writing");
    if !has_hands {
        assert!(wrote["rooms"].as_array().is_some_and(|rooms| rooms.len() == 1), "steps 15-16: {wrote}");
    }
    assert_eq!(story.ends("17", &wrote)["ok"], true);
    if has_tools {
        let ran = story.call("18", "test.run", None, "test_writing");
        assert_eq!(ran["hands"], "kernel");
        assert!(story.ends("19", &ran)["output"].to_string().contains("parseConfig throws on invalid input"));
        story.call("19", "plan.complete", None, "test_writing");
    }
    if has_hands {
        let back = story.step("20", "files.put_back", |_| true);
        assert_eq!((&back["state"], &back["paths"]), (&json!("test_writing"), &json!(["src/utils.mjs"])));
        is_sent(server, "20", &["[PUT BACK] This phase does not allow changes of src/utils.mjs"]);
    }
    story.step("20", "tests.ran", |e| e["run"]["purpose"] == "base" && e["run"]["outcome"] == "passed");
    let red = story.step("20", "tests.ran", |e| e["run"]["purpose"] == "red");
    assert_eq!((&red["run"]["outcome"], &red["run"]["failed"], &red["run"]["passed"]), (&json!("failed"), &json!(1), &json!(1)), "{red}");
    story.enters("20", "test_writing", "code_writing");
    is_sent(
        server,
        "21",
        &["[RED] 1 of 2 tests fail", "Workflow state: code_writing. Writable: everything but tests, which are read-only."],
    );
    story.refused("21", "tests/utils.test.mjs", "code_writing");
    is_sent(server, "21", &["tests are read-only while code is written; `tests/utils.test.mjs` is a test"]);
    let wrote = story.call("22-24", "fs.write", Some("src/utils.mjs"), "code_writing");
    story.ends("24", &wrote);
    if has_hands {
        if has_tools {
            story.call("24", "workflow.state", None, "code_writing");
        }
        let back = story.step("25", "files.put_back", |e| e["state"] == "code_writing");
        assert_eq!(back["paths"], json!(["tests/smoke.test.mjs"]));
    }
    story.enters("25", "code_writing", "validating");
    let green = story.step("26", "tests.ran", |e| e["run"]["purpose"] == "green");
    assert_eq!((&green["run"]["outcome"], &green["run"]["passed"]), (&json!("passed"), &json!(2)), "{green}");
    story.enters("27", "validating", "reviewing");
    let proposed = story.step("28", "merge.proposed", |_| true);
    let paths: Vec<&str> = proposed["paths"].as_array().unwrap().iter().map(|path| path["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["src/utils.mjs", "tests/utils.test.mjs"]);
    let asked = story.step("29", "review.asked", |e| e["tool"] == "merge.apply");
    for fact in ["red: 1 of 2 tests fail", "green: 2 tests pass"] {
        assert!(asked["reasons"].as_array().unwrap().iter().any(|reason| reason.as_str().unwrap().contains(fact)), "{fact}: {asked}");
    }
    story
}

/// Steps 30 to 35: the yes, the commit, and what it says of itself.
fn from_the_review_on(site: &Site, mut story: Story) {
    let seen: Vec<Value> = site.records(&["--kind", "tests.ran"]).into_iter().map(|record| record["payload"]["run"].clone()).collect();
    let tree = |purpose: &str| seen.iter().find(|run| run["purpose"] == purpose).unwrap()["tree"].as_str().unwrap().to_owned();
    let (red, green) = (tree("red"), tree("green"));
    story.records = site.records(&[]);
    story.step("30", "merge.started", |_| true);
    story.enters("32", "reviewing", "committing");
    story.step("30", "merge.finished", |_| true);
    story.enters("34", "committing", "idle");
    let end = story.step("35", "task.finished", |_| true);
    assert!(end["summary"].as_str().unwrap().starts_with(DONE), "{end}");
    assert_eq!(
        (site.read("src/utils.mjs"), site.read("tests/utils.test.mjs"), site.read("tests/smoke.test.mjs")),
        (FIXED.into(), TEST.into(), SMOKE.into())
    );
    assert_eq!(site.json(&["journal", "verify"])["findings"], json!([]), "step 31");
    let message = git(site, &["log", "-1", "--format=%B"]);
    let started = site.records(&["--kind", "merge.started"])[0]["seq"].as_u64().unwrap();
    for line in ["Skep-Session: task-1\n".to_owned(), format!("Skep-Journal: {started}:"), format!("Skep-Tests: red@{red} green@{green}")] {
        assert!(message.contains(&line), "step 33: no `{line}` in\n{message}");
    }
    let told = site.ok(&["verify", "HEAD"]);
    let kept = format!("the kernel saw red@{} green@{}", &red[..12], &green[..12]);
    for line in ["is the commit that the kernel made of task-1", &kept, "✓ tested    what went in is exactly what they passed on", "○ rest"]
    {
        assert!(told.contains(line), "no `{line}` in\n{told}");
    }
}

/// HEAD with another message, and nothing else.
fn reworded(site: &Site, from: &str, to: &str) -> String {
    let message = git(site, &["log", "-1", "--format=%B"]).replace(from, to);
    git(site, &["commit-tree", "HEAD^{tree}", "-p", "HEAD~1", "-m", &message])
}

/// Each claim about tests that the journal does not have is found; and what cannot be looked at is said.
#[test]
fn forged_test_runs_are_found_and_others_changes_are_told() {
    let (site, _server) = site(None, &script_of_native(), "");
    site.ok(&["act", TASK, "--brain", "native", "--discipline", "strict", "--await"]);
    site.ok(&["merge", "task-1", "--yes", "--commit"]);
    let tests = git(&site, &["log", "-1", "--format=%(trailers:key=Skep-Tests,valueonly)"]);
    let (red, green) = tests.trim().strip_prefix("red@").and_then(|rest| rest.split_once(" green@")).unwrap();
    let (other, at, swapped) = ("0".repeat(64), |name: &str, tree: &str| format!("{name}@{tree}"), format!("green@{}", red));
    for (from, to, told) in [
        (at("red", red), at("red", &other), "✗ tests     no record is a red run on 000000000000"),
        (at("green", green), at("green", &other), "✗ tests     no record is a green run on 000000000000"),
        (at("green", green), swapped, "✗ tests     no record is a green run on"),
    ] {
        let shown = site.fails(1, &["verify", &reworded(&site, &from, &to), "--allow-rewritten"]);
        assert!(shown.contains(told), "no `{told}` in\n{shown}");
    }
    // The control: nothing but the title.
    site.ok(&["verify", &reworded(&site, "Add error", "Add some error"), "--allow-rewritten"]);
    // Without a kernel nobody compares contents.
    let shown = site.ok(&["verify", "HEAD", "--offline"]);
    assert!(shown.contains("✓ tests ") && shown.contains("○ tested    not checked: without a kernel"), "{shown}");
}

/// Who takes a part takes what no tests ran on alone, and the commit's check says so.
#[test]
fn a_part_of_what_was_tested_is_told_as_such() {
    let (site, _server) = site(None, &script_of_native(), "");
    site.ok(&["act", TASK, "--brain", "native", "--discipline", "strict", "--await"]);
    site.ok(&["merge", "task-1", "--only", "src/utils.mjs", "--yes", "--commit"]);
    let shown = site.ok(&["verify"]);
    let told = "○ tested    not checked: `tests/utils.test.mjs` was there when the tests ran, and stayed out of the merge";
    assert!(shown.contains("✓ tests ") && shown.contains(told), "{shown}");
}

fn walks(hand: &Hand) {
    let script = if hand.client.is_some() { script_of_client(hand) } else { script_of_native() };
    let (site, server) = site(hand.client, &script, "");
    let said = site.ok(&["act", TASK, "--brain", hand.brain, "--discipline", "strict", "--await"]);
    assert!(said.contains(DONE), "{said}\n{}", site.ok(&["log"]));
    let story = up_to_the_review(&site, &server, hand);
    assert_eq!(site.read("src/utils.mjs"), SOURCE, "nothing is merged before the answer");
    assert!(!site.project().join("tests/utils.test.mjs").exists());
    site.ok(&["merge", "task-1", "--yes", "--commit"]);
    from_the_review_on(&site, story);
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

#[test]
fn the_built_in_brain_walks_the_35_steps() {
    walks(&NATIVE);
}

#[test]
fn claude_walks_the_35_steps() {
    walks(&OF_CLAUDE);
}

#[test]
fn codex_walks_the_35_steps() {
    walks(&OF_CODEX);
}

#[test]
fn opencode_walks_the_35_steps() {
    walks(&OF_OPENCODE);
}

/// Without the tools of the kernel, whose server it does not start: the end of its turn says that its plan is complete.
#[test]
fn gemini_walks_the_35_steps() {
    walks(&OF_GEMINI);
}

/// Asked for source it is refused, and for a document granted; then the document alone can be written, whatever hands try it.
fn is_exempt(hand: &Hand) {
    let ask = |path: &str| {
        hand.call("workflow_request_exemption", &json!({ "category": "documentation", "paths": [path], "reason": "only words" }))
    };
    let work = [
        "  call read path=src/utils.mjs\nthen\n".to_owned(),
        ask("src/utils.mjs"),
        ask("README.md"),
        write("src/utils.mjs", FIXED),
        "  call read path=README.md\nthen\n".to_owned(),
        write("README.md", "# Utils\n\nparseConfig reads pairs.\n"),
        shell("src/utils.mjs", "export const parseConfig = 0;"),
    ];
    let script = format!("on \"Describe parseConfig\"\n{}{}", work.concat(), says("Described it."));
    let (site, server) = site(hand.client, &script, "");
    let said = site.ok(&["act", "Describe parseConfig", "--brain", hand.brain, "--discipline", "strict", "--await"]);
    assert!(said.contains("Described it."), "{said}\n{}", site.ok(&["log"]));
    let mut story = Story::of(&site);
    let no = story.step("refused", "exemption.refused", |_| true);
    assert_eq!((&no["category"], &no["paths"]), (&json!("documentation"), &json!(["src/utils.mjs"])));
    is_sent(&server, "refused", &["`src/utils.mjs` is none of documentation, so the tests come first"]);
    let yes = story.step("granted", "exemption.granted", |_| true);
    assert_eq!(yes["exemption"]["paths"], json!(["README.md"]));
    story.enters("granted", "planning", "exploring");
    is_sent(&server, "granted", &["Workflow state: exploring. Exempt from tests: only the paths of your exemption are writable."]);
    story.refused("source", "src/utils.mjs", "exploring");
    is_sent(&server, "source", &["the exemption is for other paths than `src/utils.mjs`"]);
    story.call("document", "fs.write", Some("README.md"), "exploring");
    let back = story.step("shell", "files.put_back", |_| true);
    assert_eq!((&back["state"], &back["paths"]), (&json!("exploring"), &json!(["src/utils.mjs"])));
    story.step("green", "tests.ran", |e| e["run"]["purpose"] == "green" && e["run"]["outcome"] == "passed");
    story.enters("green", "validating", "reviewing");
    let asked = story.step("review", "review.asked", |e| e["tool"] == "merge.apply");
    assert!(asked["reasons"].to_string().contains("exempt from tests as documentation: README.md (only words)"), "{asked}");
    site.ok(&["merge", "task-1", "--yes", "--commit"]);
    assert_eq!((site.read("src/utils.mjs"), site.read("README.md")), (SOURCE.into(), "# Utils\n\nparseConfig reads pairs.\n".into()));
    let tests = git(&site, &["log", "-1", "--format=%(trailers:key=Skep-Tests,valueonly)"]);
    assert!(tests.starts_with("green@") && !tests.contains("red@"), "{tests}");
    assert!(site.ok(&["verify"]).contains("is the commit that the kernel made of task-1"));
    assert_eq!(site.leftovers(), Vec::<String>::new());
}

/// Whoever says that its plan is complete has still asked for no file: one that it writes unasked stops it.
#[test]
fn a_client_that_calls_its_plan_complete_asks_before_it_writes_all_the_same() {
    let complete = "import re, urllib.request\n\
        call = {'jsonrpc': '2.0', 'id': 1, 'method': 'tools/call', 'params': {'name': 'plan_complete', 'arguments': {}}}\n\
        door = re.search(r'http://127[^\"]*', ' '.join(sys.argv)).group(0)\n\
        urllib.request.urlopen(urllib.request.Request(door, json.dumps(call).encode(), {'content-type': 'application/json'})).read()\n";
    let writes = "os.makedirs('tests', exist_ok=True)\nopen('tests/a.py', 'w').write('pass')\ndone('written')\nsys.stdin.read()\n";
    let asks = "ask('Write', file_path=os.path.abspath('tests/a.py'), content='pass')\n";
    for is_asked in [false, true] {
        let body = format!("{complete}{}{writes}", if is_asked { asks } else { "" });
        let site = crate::misbehaving::misbehaving(&body);
        site.ok(&["act", "write it", "--brain", "claude", "--discipline", "strict"]);
        let is_ungated = |record: &Value| record["payload"]["reason"].as_str().is_some_and(|why| why.starts_with("ungated"));
        eventually("its turn is over", || site.count("workflow.stalled") + site.count("task.stopped") > 0);
        assert_eq!(site.records(&["--kind", "call.refused"]).iter().any(is_ungated), !is_asked, "{}", site.ok(&["log"]));
        drop(site.skep(&["cancel", "task-1"]));
    }
}

/// A turn that a person prompts tells the state as well, once: the client writes down what it hears.
#[test]
fn a_client_is_told_its_state_when_a_person_says_something() {
    let body = "def turn(prompt):\n    if 'go on' in prompt:\n        ask('Write', file_path=os.path.abspath('heard.txt'), content='x')\n        \
        open('heard.txt', 'w').write(prompt)\n        \
        say(type='user', message={'content': [{'type': 'tool_result', 'tool_use_id': 'Write', 'content': 'ok'}]})\n    done('turn')\n\
        turn(prompt)\nfor line in sys.stdin:\n    heard = json.loads(line)\n    if heard.get('type') == 'user':\n        \
        say(**heard, isReplay=True)\n        turn(heard['message']['content'][0]['text'])\n";
    let site = crate::misbehaving::misbehaving(body);
    site.ok(&["act", "look", "--brain", "claude", "--discipline", "explore"]);
    eventually("it gets nowhere", || site.count("task.stopped") == 1);
    site.ok(&["say", "task-1", "please go on"]);
    eventually("its changes wait", || site.count("merge.proposed") == 1);
    let heard = site.ok(&["diff", "task-1"]);
    assert!(heard.contains("please go on") && heard.contains("[WORKFLOW] Workflow state: exploring. Writable: all files"), "{heard}");
    assert_eq!(heard.matches("Workflow state:").count(), 1, "{heard}");
    drop(site.skep(&["cancel", "task-1"]));
}

#[test]
fn the_built_in_brain_is_exempt_for_documents_only() {
    is_exempt(&NATIVE);
}

#[test]
fn claude_is_exempt_for_documents_only() {
    is_exempt(&OF_CLAUDE);
}

#[test]
fn codex_is_exempt_for_documents_only() {
    is_exempt(&OF_CODEX);
}

#[test]
fn opencode_is_exempt_for_documents_only() {
    is_exempt(&OF_OPENCODE);
}
