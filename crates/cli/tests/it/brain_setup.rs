//! Brains before they work: which there are, what keeps one from working, names for them, and a subscription that serves its own client.
//!
//! The real Claude Code where a client must answer; programs of a few lines in a folder of their own where one must only be there.

use crate::common::model_server::ModelServer;
use crate::common::screen::Screen;
use crate::common::{Site, path_without_clients, text};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const SCRIPT: &str = "on \"one word\"\n  say ready\non \"environment\"\n  call shell command=\"env; cat ~/.claude/.credentials.json\"\nthen\n  \
                      say I looked around.\non \"greeting\"\n  call write path=hello.txt content=\"hello\\n\"\nthen\n  say I wrote the greeting.\n";
/// The access token that the vendor gives for the refresh token.
const TOKEN: &str = "at-renewed-4711-never-shown";
const OLD_TOKENS: [&str; 2] = ["at-old-4711-never-shown", "rt-old-4711-never-shown"];

/// A home of its own, and a PATH on which these clients are: the real one of claude, and scripts that only say a version.
struct Machine {
    site: Site,
    path: String,
}

impl Machine {
    fn new() -> Machine {
        let site = Site::new(&[("a.txt", "a\n")]);
        fs::create_dir_all(site.home()).unwrap();
        let bin = site.folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let path = format!("{}:{}", bin.display(), path_without_clients());
        Machine { site, path }
    }

    fn with_claude(mut self) -> Machine {
        let program = crate::npm::installed("claude", "@anthropic-ai/claude-code@2.1.197");
        self.path = format!("{}:{}", program.parent().unwrap().display(), self.path);
        self
    }

    /// A program of this name that does this.
    fn program(&self, name: &str, shell: &str) {
        let file = self.site.folder.path().join("bin").join(name);
        fs::write(&file, format!("#!/bin/sh\n{shell}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn config(&self, text: &str) {
        fs::write(self.site.home().join("config.yml"), text).unwrap();
    }

    /// Models that follow a script, for everybody, and no tier.
    fn scripted(&self, more: &str) {
        let model = self.site.folder.path().join("model");
        fs::write(&model, SCRIPT).unwrap();
        self.config(&format!("providers:\n  s: {{url: 'script:{}', free: true}}\n{more}", model.display()));
    }

    /// The subscription that `claude` is logged in with, whose token ends then.
    fn log_in(&self, token: &str, ends_ms: i64) {
        let file = self.site.folder.path().join(".claude/.credentials.json");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let login = json!({"claudeAiOauth": {"accessToken": token, "refreshToken": OLD_TOKENS[1], "expiresAt": ends_ms, "scopes": ["x"]}});
        fs::write(&file, login.to_string()).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.site.bare_command(arguments);
        command.env("PATH", &self.path);
        command
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        succeeds(self.command(arguments))
    }

    #[track_caller]
    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}: {}", text(&output));
        text(&output)
    }

    #[track_caller]
    fn brains(&self) -> Vec<Value> {
        let output = self.command(&["brain", "list", "--json"]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output));
        let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
        listed["brains"].as_array().unwrap().clone()
    }

    #[track_caller]
    fn brain(&self, name: &str) -> Value {
        self.brains().into_iter().find(|brain| brain["name"] == name).unwrap_or_else(|| panic!("no {name}"))
    }
}

#[track_caller]
fn succeeds(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}\n{}", output.status, text(&output));
    text(&output)
}

fn code(brain: &Value) -> &str {
    brain["problem"]["code"].as_str().unwrap_or("ready")
}

/// No file below this folder holds one of these words.
fn holds_none(folder: &Path, words: &[&str]) -> Result<(), String> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                let bytes = fs::read(&path).unwrap();
                if let Some(word) = words.iter().find(|word| bytes.windows(word.len()).any(|window| window == word.as_bytes())) {
                    return Err(format!("{} holds {word}", path.display()));
                }
            }
        }
    }
    Ok(())
}

#[test]
fn each_problem_of_a_client_is_told_with_its_exact_fix() {
    let machine = Machine::new();
    machine.program("claude", "echo '2.1.200 (Claude Code)'");
    let claude = machine.brain("claude");
    assert_eq!((code(&claude), &claude["mode"], &claude["auth"]), ("NOT_AUTHENTICATED", &json!("cli"), &json!("cli-login")));
    assert_eq!((&claude["version"], code(&machine.brain("gemini"))), (&json!("2.1.200"), "NOT_INSTALLED"));
    let told = machine.fails(&["brain", "check", "claude"]);
    assert!(
        told.contains("NOT_AUTHENTICATED") && told.contains("log in with /login, or set ANTHROPIC_API_KEY") && told.contains("skep setup"),
        "{told}"
    );
    let told = machine.fails(&["brain", "check", "gemini"]);
    assert!(told.contains("NOT_INSTALLED") && told.contains("npm install -g @google/gemini-cli"), "{told}");
    let told = machine.fails(&["act", "work", "--brain", "claude"]);
    assert!(told.contains("nobody pays for the models of `claude`") && told.contains("skep setup"), "refused at once: {told}");
    let native = machine.brain("native");
    assert_eq!((&native["mode"], code(&native)), (&json!("sdk"), "NOT_AUTHENTICATED"));

    // With somebody who pays, a version that nobody tried is a warning, and one that it does not say is a problem.
    machine.scripted("models: {tactical: s/any}\n");
    let claude = machine.brain("claude");
    assert_eq!((code(&claude), &claude["auth"], &claude["providers"]), ("ready", &json!("none"), &json!(["s"])));
    assert_eq!((code(&machine.brain("native")), machine.brain("native")["is_default"].as_bool()), ("ready", Some(true)));
    machine.program("claude", "echo '9.0.1 (Claude Code)'");
    assert_eq!(code(&machine.brain("claude")), "VERSION_MISMATCH");
    let told = machine.ok(&["brain", "check", "claude", "--no-trial"]);
    assert!(told.contains("VERSION_MISMATCH: claude 9.0.1 was not tried here; 2.1.197 to 2.1.325 was"), "{told}");
    machine.program("claude", "exit 3");
    let told = machine.fails(&["brain", "check", "claude"]);
    assert!(told.contains("UNKNOWN") && told.contains("--version` gives no version"), "{told}");

    let doctor = text(&machine.command(&["doctor"]).output().unwrap());
    assert!(doctor.contains("gives no version") && doctor.contains("npm install -g opencode-ai"), "{doctor}");
    let listed = machine.ok(&["brain"]);
    assert!(listed.contains("native (default)") && listed.contains("NOT_INSTALLED"), "{listed}");
    let unknown = machine.fails(&["brain", "check", "clod"]);
    assert!(unknown.contains("there is no brain `clod`") && unknown.contains("there are claude, codex"), "{unknown}");
    assert_eq!(machine.site.count("task.queued"), 0, "nothing was tried");
}

/// A client whose model nobody has is not ready, wherever one looks, and a task for it is refused in the same words before anything is written.
#[test]
fn a_client_whose_model_nobody_has_is_told_with_its_exact_fix() {
    let machine = Machine::new();
    machine.program("opencode", "echo 1.18.33");
    machine.program("claude", "echo '2.1.200 (Claude Code)'");
    machine.program("codex", "echo codex-cli 0.166.0");
    machine.program("gemini", "echo 0.61.0");
    machine.scripted("");
    let states = |machine: &Machine| ["claude", "codex", "opencode", "gemini"].map(|name| code(&machine.brain(name)).to_owned());
    assert_eq!(states(&machine), ["ready", "ready", "NOT_AUTHENTICATED", "ready"], "only opencode asks for a tier");

    let why = "no model answers to `tactical`, which `opencode` asks for: tier `tactical` has no model";
    let fix = "write `models: {tactical: PROVIDER/MODEL}` into $SKEP_HOME/config.yml or skep.yml; there are `s`; or name the brain with another \
               model: `opencode:PROVIDER/MODEL`; `skep setup` finds keys";
    let flat = |told: String| told.split_whitespace().collect::<Vec<_>>().join(" ");
    for arguments in [
        &["brain", "check", "opencode"][..],
        &["act", "Please write the greeting", "--brain", "opencode"],
        &["ask", "Please write the greeting", "--brain", "opencode"],
        &["act", "Please write the greeting", "--who", "worker@opencode"],
    ] {
        let told = flat(machine.fails(arguments));
        assert!(told.contains(why) && told.contains(fix), "{arguments:?}: {told}");
    }
    let doctor = flat(text(&machine.command(&["doctor"]).output().unwrap()));
    assert!(doctor.contains(why), "{doctor}");
    let talk = Screen::shell(&machine.site, &talk(&["--brain", "opencode"]), (200, 40), |tmux| {
        tmux.env("SKEP_HOME", machine.site.home()).env("PATH", &machine.path);
    });
    talk.shows(&[why, "left with"]);
    let is_empty = || machine.site.count("task.queued") == 0 && !machine.site.project().join("skep.yml").exists();
    assert!(is_empty() && !machine.site.project().join(".skep").exists(), "nothing was queued and nothing written");
    // With a model of its own it is as ready as the others.
    machine.ok(&["brain", "check", "opencode:s/any", "--no-trial"]);

    // A project's own names count there, once they are trusted, and nowhere else.
    machine.ok(&["init"]);
    let own = machine.site.read("skep.yml");
    machine.site.write("skep.yml", &format!("{own}\nmodels: {{tactical: s/any}}\n"));
    assert_eq!(code(&machine.brain("opencode")), "NOT_AUTHENTICATED", "the control: not yet");
    machine.ok(&["trust", "--yes"]);
    assert_eq!(code(&machine.brain("opencode")), "ready");
    let mut elsewhere = machine.command(&["brain", "check", "opencode", "--no-trial"]);
    let elsewhere = text(&elsewhere.current_dir(machine.site.folder.path()).output().unwrap());
    assert!(elsewhere.contains("NOT_AUTHENTICATED"), "{elsewhere}");
    // Who brings such a file and was not trusted yet is told that first.
    let fresh = Machine::new();
    fresh.program("opencode", "echo 1.18.33");
    fresh.scripted("");
    fresh.site.write("skep.yml", "models: {tactical: s/any}\n");
    let told = fresh.fails(&["act", "Please write the greeting", "--brain", "opencode"]);
    assert!(told.contains("you have not looked at them yet"), "{told}");
}

/// Where all providers list their models, a client whose vendor's are not among them is not ready; one that is given a listed model is.
#[test]
fn a_client_whose_vendor_nobody_lists_is_not_ready() {
    let machine = Machine::new();
    machine.program("claude", "echo '2.1.200 (Claude Code)'");
    machine.program("codex", "echo codex-cli 0.166.0");
    machine.program("opencode", "echo 1.18.33");
    machine.program("gemini", "echo 0.61.0");
    let model = machine.site.folder.path().join("model");
    fs::write(&model, SCRIPT).unwrap();
    let provider = |more: &str| format!("providers:\n  s: {{url: 'script:{}', {more}}}\n", model.display());
    machine.config(&format!("{}models: {{tactical: s/qwen3}}\n", provider("models: ['qwen*']")));
    for (client, begins, ready) in
        [("claude", "claude", false), ("codex", "gpt", false), ("gemini", "gemini", false), ("opencode", "", true)]
    {
        let brain = machine.brain(client);
        assert_eq!(code(&brain) == "ready", ready, "{brain}");
        if !ready {
            let told = machine.fails(&["act", "Please write the greeting", "--brain", client]);
            let why = format!("no model answers to the names that `{client}` asks for, which begin with `{begins}`: `s` list others");
            assert!(told.contains(&why) && brain["problem"]["why"] == why.as_str(), "{told}\n{brain}");
        }
        let named = format!("{client}:qwen3");
        machine.ok(&["brain", "check", &named, "--no-trial"]);
        let unlisted = machine.fails(&["act", "Please write the greeting", "--brain", &format!("{client}:gpt-oss")]);
        assert!(unlisted.contains(&format!("no model answers to `gpt-oss`, which `{client}` asks for")), "{unlisted}");
    }
    // A name in `models` leads there too.
    machine.config(&format!("{}models: {{claude-opus-5-5: s/qwen3, tactical: s/qwen3}}\n", provider("models: ['qwen*']")));
    assert_eq!([code(&machine.brain("claude")), code(&machine.brain("codex"))], ["ready", "NOT_AUTHENTICATED"]);
    // Not where it leads to who does not speak its language: opencode speaks that of Chat Completions alone.
    machine.config(&format!("{}models: {{tactical: s/any}}\n", provider("dialect: [anthropic, responses, gemini]")));
    let told = machine.fails(&["brain", "check", "opencode"]);
    assert!(told.contains("nobody pays for the models of `opencode`") && told.contains("OPENROUTER_API_KEY"), "{told}");
    machine.config("providers:\n  a: {url: 'script:/nonexistent', dialect: anthropic}\n  c: {url: 'http://127.0.0.1:9', dialect: chat}\nmodels: {tactical: a/any}\n");
    let told = machine.fails(&["brain", "check", "opencode"]);
    assert!(told.contains("none of the 1 places for `tactical` speaks chat"), "{told}");
    let told = machine.fails(&["brain", "check", "claude"]);
    assert!(told.contains("the script `/nonexistent` cannot be played"), "{told}");
    assert_eq!(machine.site.count("task.queued"), 0);
}

/// The line of a shell that talks and says how it was left.
fn talk(arguments: &[&str]) -> String {
    format!("{} talk {}; echo \"left with $?\"; sleep 600", env!("CARGO_BIN_EXE_skep"), arguments.join(" "))
}

#[test]
fn a_program_and_a_name_are_added_to_the_file_after_a_question() {
    let machine = Machine::new();
    let kept = "# mine\nreview: {deadline: 5m}   # soon\n";
    machine.config(kept);
    machine.program("goose", "echo goose 1.2.3");
    let goose = machine.site.folder.path().join("bin/goose").display().to_string();
    let told = machine.fails(&["brain", "add", "goose", "--", &goose, "acp"]);
    assert!(told.contains("--yes") && fs::read_to_string(machine.site.home().join("config.yml")).unwrap() == kept, "it asks first: {told}");
    let shown: Value = serde_json::from_str(&machine.ok(&["brain", "add", "goose", "--json", "--", &goose, "acp"])).unwrap();
    assert_eq!((&shown["written"], shown["adds"].as_str().unwrap().contains("goose:")), (&json!(false), true));
    machine.ok(&["brain", "add", "goose", "--yes", "--", &goose, "acp"]);
    machine.ok(&["brain", "add", "opus", "--yes", "--alias", "claude@anthropic/claude/code/opus/v4.5"]);
    let text = fs::read_to_string(machine.site.home().join("config.yml")).unwrap();
    assert!(text.starts_with(kept), "{text}");
    assert_eq!(
        (&machine.brain("acp:goose")["version"], &machine.brain("opus")["alias_of"]),
        (&json!("1.2.3"), &json!("claude:claude-opus-4-5"))
    );
    // What the kernel would not take leaves the file as it was; what stands there is not written over.
    let told = machine.fails(&["brain", "add", "kimi", "--yes", "--alias", "kimi@moonshot/k2"]);
    assert!(told.contains("`kimi` is no client"), "{told}");
    let told = machine.fails(&["brain", "add", "opus", "--yes", "--alias", "codex"]);
    assert!(told.contains("already"), "{told}");
    for (arguments, why) in [
        (&["", "--", "sh"][..], "the brain has no name"),
        (&["mine", "--", ""], "`mine`: its program has no name"),
        (&["native", "--alias", "codex"], "`native` is a brain itself, and stands for no other"),
        (&["yolo", "--alias", "gemini:--yolo"], "`--yolo` names no model"),
    ] {
        let told = machine.fails(&[&["brain", "add", "--yes"], arguments].concat());
        assert!(told.contains(why), "{arguments:?}: {told}");
    }
    assert_eq!(fs::read_to_string(machine.site.home().join("config.yml")).unwrap(), text);
    let told = machine.fails(&["act", "work", "--brain", "opsu"]);
    assert!(told.contains("there is no brain `opsu`") && told.contains("names of your own: opus"), "{told}");
}

#[test]
fn the_only_client_that_works_is_the_brain_where_nobody_names_one() {
    let machine = Machine::new().with_claude();
    let none = machine.fails(&["act", "Please write the greeting"]);
    assert!(none.contains("no model is set up yet: run `skep setup`"), "{none}");
    machine.scripted("");
    // A trial passes the client, its room and its model, and is on the bill.
    let checked = machine.ok(&["brain", "check", "claude"]);
    assert!(checked.contains("✓ claude answered in") && checked.contains("tokens for $0"), "{checked}");
    let done = machine.ok(&["act", "Please write the greeting", "--await"]);
    assert!(done.contains("I wrote the greeting."), "{done}");
    let brains: Vec<Value> =
        machine.site.records(&["--kind", "task.queued"]).iter().map(|record| record["payload"]["brain"].clone()).collect();
    assert_eq!(brains, ["claude", "claude"]);
    // What cannot be replayed is refused at once, and those are named that can.
    machine.ok(&["merge", "task-2", "--yes"]);
    let told = machine.fails(&["replay", "task-2"]);
    assert!(told.contains("`claude` cannot be run again") && told.contains("these can: native, script"), "{told}");
    // With a model, the built-in brain is the default; with a name in config.yml or the project's file, that one is.
    machine.scripted("models: {tactical: s/any}\n");
    assert_eq!(machine.brain("native")["is_default"], json!(true));
    machine.scripted("models: {tactical: s/any}\nbrain: opus\nbrains: {opus: {alias: 'claude@anthropic/claude/code/opus/v4.5'}}\n");
    assert_eq!(machine.brain("opus")["is_default"], json!(true));
    machine.ok(&["ask", "Say one word", "--await"]);
    let asked = machine.site.records(&["--kind", "model.reserved"]);
    assert_eq!(asked.last().unwrap()["payload"]["model"], "claude-opus-4-5", "the name stands for client and model");
    let config = machine.site.project().join("skep.yml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}\nbrain: fast\ncrew: {{brains: {{fast: 'claude@anthropic/claude/haiku/v4.5'}}}}\n")).unwrap();
    machine.ok(&["trust", "--yes"]);
    assert_eq!(machine.brain("fast")["is_default"], json!(true));
    machine.ok(&["ask", "Say one word", "--await"]);
    let queued = machine.site.records(&["--kind", "task.queued"]);
    assert_eq!(queued.last().unwrap()["payload"]["brain"], "claude:claude-haiku-4-5");
    assert_eq!(machine.site.leftovers(), Vec::<String>::new());
}

#[test]
fn a_subscription_serves_its_own_client_in_its_room_and_nobody_else() {
    let server = ModelServer::start(SCRIPT, Some(TOKEN));
    let machine = Machine::new().with_claude();
    machine.program("codex", "echo codex-cli 0.166.0");
    machine.log_in(OLD_TOKENS[0], 1);
    machine.config(&format!(
        "providers:\n  sub: {{url: '{0}', dialect: [anthropic, responses, chat], login: {{client: claude, token_url: '{0}/oauth/token'}}}}\n\
         models: {{tactical: sub/claude-sonnet-5-5}}\nsandbox: {{templates: {{agent: {{from: default, models: true}}}}}}\n",
        server.url()
    ));
    let said = machine.ok(&["act", "Show me your environment", "--brain", "claude", "--await"]);
    assert!(said.contains("I looked around."), "{said}\n{}", machine.ok(&["log"]));
    // Renewed once, out here, and kept for the client's next use.
    let renewed = server.renewed();
    assert!(renewed.len() == 1 && renewed[0].contains(OLD_TOKENS[1]), "{renewed:?}");
    let kept: Value = serde_json::from_slice(&fs::read(machine.site.folder.path().join(".claude/.credentials.json")).unwrap()).unwrap();
    let login = &kept["claudeAiOauth"];
    assert_eq!((&login["accessToken"], &login["refreshToken"], &login["scopes"]), (&json!(TOKEN), &json!("rt-renewed"), &json!(["x"])));
    // What the room showed the client is in what it told its model: the gateway's address, and no token.
    let heard = server.asked().join("\n");
    assert!(heard.contains("ANTHROPIC_BASE_URL=http://127.0.0.1:"), "the control: {heard}");
    for token in [TOKEN, OLD_TOKENS[0], OLD_TOKENS[1], "rt-renewed"] {
        assert!(!heard.contains(token), "{token} was seen in the room");
    }
    let claude = machine.brain("claude");
    assert_eq!((code(&claude), &claude["auth"], &claude["providers"]), ("ready", &json!("cli-login"), &json!(["sub"])));

    // The built-in brain is refused before anything is queued, and so is the client of another vendor.
    let queued = machine.site.count("task.queued");
    for brain in ["native", "native:sub/claude-sonnet-5-5", "native:claude-sonnet-5-5"] {
        let told = machine.fails(&["act", "Please write the greeting", "--brain", brain]);
        assert!(told.contains("the subscription login of claude, which serves claude itself and nobody else"), "{told}");
    }
    assert_eq!(machine.site.count("task.queued"), queued);
    // Nor does a program in a room that has a way to models, or one that only says that it is that client.
    let curl = "curl -s -H \"x-api-key: $ANTHROPIC_API_KEY\" -d '{\"model\":\"claude-x\",\"max_tokens\":9,\"messages\":[]}' $ANTHROPIC_BASE_URL/v1/messages";
    let told = text(&machine.command(&["sandbox", "run", "--template", "agent", "--", "sh", "-c", curl]).output().unwrap());
    assert!(told.contains("it works for its vendor's own client, and this process is not that"), "{told}");
    let told = machine.fails(&["call", "brain.run", "brain=claude", &format!("command={}", json!(["sh", "-c", curl]))]);
    assert!(told.contains("a brain is started by its task"), "{told}");
    assert_eq!(server.renewed().len(), 1);
    let codex = machine.brain("codex");
    assert!(code(&codex) != "ready" && codex["providers"].is_null(), "{codex}");
    assert_eq!(machine.site.leftovers(), Vec::<String>::new());
    holds_none(&machine.site.home(), &[TOKEN, OLD_TOKENS[0], OLD_TOKENS[1], "rt-renewed"]).unwrap();
}

#[test]
fn setup_finds_a_login_and_then_a_task_needs_nothing_else() {
    let server = ModelServer::start(SCRIPT, Some(TOKEN));
    let machine = Machine::new().with_claude();
    let setup = |arguments: &[&str]| {
        let mut command = machine.command(arguments);
        command.env("ANTHROPIC_BASE_URL", server.url());
        command
    };
    let none = text(&setup(&["setup"]).output().unwrap());
    assert!(
        none.contains("found claude") && none.contains("log in with /login, or set ANTHROPIC_API_KEY; then run `skep setup` again"),
        "{none}"
    );
    machine.log_in(TOKEN, 4_000_000_000_000);
    let plan: Value = serde_json::from_slice(&setup(&["setup", "--json"]).output().unwrap().stdout).unwrap();
    let adds = plan["adds"].as_str().unwrap();
    assert!(adds.contains("claude-login:") && adds.contains("login: { client: claude }") && adds.contains("brain: claude"), "{adds}");
    assert!(!adds.contains("tactical") && plan["written"] == json!(false) && !plan.to_string().contains(TOKEN), "{plan}");
    let done = succeeds(setup(&["setup", "--yes"]));
    assert!(done.contains("✓ claude answered in") && done.contains("not installed: codex, opencode, gemini"), "{done}");
    let said = machine.ok(&["act", "Please write the greeting", "--await"]);
    assert!(said.contains("I wrote the greeting."), "{said}");
    machine.ok(&["merge", "task-2", "--yes"]);
    assert_eq!(machine.site.read("hello.txt"), "hello\n");
    // A client on the PATH of this shell alone is written down with its place.
    machine.program("gemini", "echo 0.61.0");
    let other = machine.site.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::rename(machine.site.folder.path().join("bin/gemini"), other.join("gemini")).unwrap();
    let mut shell = setup(&["setup", "--json"]);
    shell.env("PATH", format!("{}:{}", other.display(), machine.path));
    let plan: Value = serde_json::from_slice(&shell.output().unwrap().stdout).unwrap();
    assert!(plan["adds"].as_str().unwrap().contains(&format!("command: [{}]", other.join("gemini").display())), "{plan}");
    let again = succeeds(setup(&["setup", "--yes", "--no-trial"]));
    assert!(again.contains("set up already") && again.contains("nothing new"), "{again}");
    assert_eq!(machine.site.leftovers(), Vec::<String>::new());
}
