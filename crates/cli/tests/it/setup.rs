//! From a machine without a model to work that is merged: `skep setup`, what is said while something is missing, and settings that change
//! while the kernel runs.

use crate::common::model_server::ModelServer;
use crate::common::screen::Screen;
use crate::common::{MODEL_VARIABLES, Site, text};
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

const KEY: &str = "sk-ant-setup-4711-never-shown";
const WRITER: &str = "on \"one word\"\n  say ready\n\
    on \"greeting\"\n  call write path=hello.txt content=\"hello\\n\"\nthen\n  say I wrote the greeting.\n";

/// With a key and a server to use it at.
fn keyed(site: &Site, server: &ModelServer, arguments: &[&str]) -> Command {
    let mut command = site.bare_command(arguments);
    command.env("ANTHROPIC_API_KEY", KEY).env("ANTHROPIC_BASE_URL", server.url());
    command
}

#[track_caller]
fn ok(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}\n{}", output.status, text(&output));
    text(&output)
}

/// No file below this folder but the key's own holds the key.
fn has_no_key(folder: &Path) -> bool {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if entry.file_type().unwrap().is_file() && !path.ends_with("keys/providers/anthropic") {
                let bytes = std::fs::read(&path).unwrap();
                if bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()) {
                    return false;
                }
            }
        }
    }
    true
}

#[test]
fn from_an_empty_home_to_a_merged_change_in_three_commands_and_one_answer() {
    let server = ModelServer::start(WRITER, Some(KEY));
    let site = Site::new(&[("a.txt", "a\n")]);
    // The first command, on a terminal, with the one answer.
    let prefix = format!(
        "env {} HOME={} ANTHROPIC_API_KEY={KEY} ANTHROPIC_BASE_URL={}",
        MODEL_VARIABLES.map(|name| format!("-u {name}")).join(" "),
        site.folder.path().display(),
        server.url()
    );
    let screen = Screen::open_with(&site, "xterm-256color", &prefix, "setup --only anthropic");
    let shown = screen.shows(&["would be added to", "tactical: anthropic/claude-sonnet-5-5", "write this? [y/N]"]);
    assert!(!shown.contains(KEY) && shown.contains("ANTHROPIC_API_KEY"), "{shown}");
    assert!(!site.home().join("config.yml").exists(), "it asks first");
    screen.press(&["y", "Enter"]);
    let shown = screen.shows(&["left with 0"]);
    assert!(shown.contains("answered in") && shown.contains("tokens for $0."), "it says what the trial cost: {shown}");
    // The second and the third.
    let done = ok(site.bare_command(&["act", "write the greeting", "--await"]));
    assert!(done.contains("I wrote the greeting."), "{done}");
    ok(site.bare_command(&["merge", "task-1", "--yes"]));
    assert_eq!(site.read("hello.txt"), "hello\n");
    // The trial is a request like any other: decided, metered, on record.
    let requests: Vec<Value> =
        site.records(&["--kind", "call.admitted"]).into_iter().filter(|record| record["payload"]["tool"] == "model.request").collect();
    assert_eq!((requests.len(), requests[0]["payload"]["pid"].as_u64()), (3, Some(2)), "one of the operator's, two of the task");
    let used = site.records(&["--kind", "model.used"]);
    assert!(used[0]["payload"]["figures"]["micros"].as_u64() > Some(0), "{}", used[0]);
    // The key is in its own file, its owner's alone, and nowhere else.
    let file = site.home().join("keys/providers/anthropic");
    assert_eq!((std::fs::read_to_string(&file).unwrap().as_str(), file.metadata().unwrap().mode() & 0o777), (KEY, 0o600));
    assert_eq!(site.home().join("config.yml").metadata().unwrap().mode() & 0o777, 0o600);
    site.ok(&["kernel", "stop"]);
    assert!(has_no_key(&site.home()), "the key is in another file of the home");
}

#[test]
fn without_a_model_nothing_is_written_and_nothing_queued() {
    let site = Site::new(&[("a.txt", "a\n")]);
    let said = site.fails(5, &["act", "write the greeting"]);
    assert!(said.contains("no model is set up yet: run `skep setup`"), "{said}");
    let json: Value = serde_json::from_slice(&site.skep(&["act", "write the greeting", "--json"]).stderr).unwrap();
    assert_eq!(json["error"]["code"], "not_found", "{json}");
    let entries: Vec<_> = std::fs::read_dir(site.project()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(entries.len(), 2, "only .git and a.txt: {entries:?}");
    assert_eq!((site.count("task.queued"), site.count("zone.opened")), (0, 0));
    // A brain that needs no model is not held up.
    let brain = site.script("done fine\n");
    site.ok(&["ask", "anything", "--brain", &brain, "--await"]);
}

#[test]
fn a_missing_key_an_unreachable_host_and_a_wrong_key_are_told_apart_and_once() {
    let server = ModelServer::start(WRITER, Some(KEY));
    let site = Site::new(&[("a.txt", "a\n")]);
    let key = site.folder.path().join("key");
    std::fs::write(&key, "sk-ant-wrong").unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let closed = { std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port() };
    std::fs::create_dir_all(site.home()).unwrap();
    let config = |url: String, key: String| {
        let text =
            format!("providers:\n  p: {{url: '{url}', dialect: anthropic, key: {key}}}\nmodels: {{tactical: p/claude-sonnet-5-5}}\n");
        std::fs::write(site.home().join("config.yml"), text).unwrap();
    };
    let requests =
        || site.records(&["--kind", "call.admitted"]).iter().filter(|record| record["payload"]["tool"] == "model.request").count();
    config(server.url(), "{env: NO_SUCH_VARIABLE_HERE}".into());
    let missing = site.fails(5, &["act", "write the greeting", "--await"]);
    assert!(missing.contains("`p` has no key: the kernel's environment has no `NO_SUCH_VARIABLE_HERE`"), "{missing}");
    assert_eq!((site.count("task.queued"), requests()), (0, 0));
    config(server.url(), format!("{{file: {}}}", key.display()));
    let wrong = site.fails(1, &["act", "write the greeting", "--await"]);
    assert!(
        wrong.contains("`p` does not accept its key (401): invalid x-api-key") && wrong.contains(&key.display().to_string()),
        "{wrong}"
    );
    assert_eq!(requests(), 1, "asked once");
    config(format!("http://127.0.0.1:{closed}"), format!("{{file: {}}}", key.display()));
    let gone = site.fails(1, &["act", "write the greeting", "--await"]);
    assert!(gone.contains(&format!("`p` cannot be reached at 127.0.0.1:{closed}")), "{gone}");
    assert_eq!(requests(), 2, "asked once");
    for said in [missing, wrong, gone] {
        assert!(!said.contains("the model answered"), "{said}");
    }
}

#[test]
fn setup_keeps_what_is_there_and_adds_what_is_new() {
    let server = ModelServer::start("on \"one word\"\n  say ready\n", None);
    let site = Site::new(&[]);
    std::fs::create_dir_all(site.home()).unwrap();
    let own = "# mine\nreview: {deadline: 1h}\nproviders:\n  mine: {url: 'http://127.0.0.1:1', dialect: chat, free: true}\nmodels:\n  tactical: mine/x\n";
    std::fs::write(site.home().join("config.yml"), own).unwrap();
    let url = server.url();
    let name = format!("local-{}", server.port);
    let arguments = ["setup", "--server", url.as_str(), "--only", name.as_str()];
    // With --json and no --yes it only says what it would do.
    let plan: Value = serde_json::from_slice(&site.bare_command(&[&arguments[..], &["--json"]].concat()).output().unwrap().stdout).unwrap();
    assert_eq!((&plan["written"], &plan["found"][0]["provider"]), (&false.into(), &name.as_str().into()), "{plan}");
    assert_eq!(std::fs::read_to_string(site.home().join("config.yml")).unwrap(), own);
    // Nobody can say yes without a terminal.
    let refused = site.bare_command(&arguments).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    let done = ok(site.bare_command(&[&arguments[..], &["--yes"]].concat()));
    assert!(done.contains(&format!("{name}/tiny-1 answered in")) && done.contains("for $0.00"), "{done}");
    let written = std::fs::read_to_string(site.home().join("config.yml")).unwrap();
    for line in own.lines() {
        assert!(written.lines().any(|own| own == line), "{line} is gone:\n{written}");
    }
    // A second time there is nothing new.
    let again = ok(site.bare_command(&[&arguments[..], &["--yes"]].concat()));
    assert!(again.contains("set up already") && again.contains("nothing new"), "{again}");
    assert_eq!(std::fs::read_to_string(site.home().join("config.yml")).unwrap(), written);
    // What stands in one line is its owner's to change.
    let flow = "providers: {mine: {url: 'http://127.0.0.1:1', dialect: chat}}\n";
    std::fs::write(site.home().join("config.yml"), flow).unwrap();
    let by_hand = site.bare_command(&[&arguments[..], &["--yes"]].concat()).output().unwrap();
    assert!(!by_hand.status.success() && text(&by_hand).contains("add the lines above by hand"), "{}", text(&by_hand));
    assert_eq!(std::fs::read_to_string(site.home().join("config.yml")).unwrap(), flow);
}

#[test]
fn a_key_that_does_not_work_is_told_and_the_file_stays() {
    let server = ModelServer::start(WRITER, Some("another key"));
    let site = Site::new(&[]);
    let output = keyed(&site, &server, &["setup", "--only", "anthropic", "--yes"]).output().unwrap();
    let said = text(&output);
    assert!(!output.status.success() && said.contains("does not accept its key (401)") && said.contains("is written"), "{said}");
    assert!(!said.contains(KEY), "{said}");
    let found = ok(keyed(&site, &server, &["setup", "--only", "anthropic", "--yes", "--no-trial"]));
    assert!(found.contains("set up already"), "{found}");
    // Another one is not there either where something is set up, and nothing is asked instead.
    let other = site.bare_command(&["setup", "--only", "gemini"]).output().unwrap();
    assert!(other.status.code() == Some(5) && text(&other).contains("nothing was found for `gemini`"), "{}", text(&other));
    let nothing = site.bare_command(&["setup", "--only", "gemini"]).env("SKEP_HOME", site.folder.path().join("other")).output().unwrap();
    assert!(text(&nothing).contains("nothing was found for `gemini`"), "{}", text(&nothing));
    drop(site.bare_command(&["kernel", "stop"]).env("SKEP_HOME", site.folder.path().join("other")).output());
}

#[test]
fn settings_that_change_are_in_force_at_once_and_broken_ones_leave_the_last_good_ones() {
    let (first, second) =
        (ModelServer::start("on \"who\"\n  say the first\n", None), ModelServer::start("on \"who\"\n  say the second\n", None));
    let site = Site::new(&[("a.txt", "a\n")]);
    std::fs::create_dir_all(site.home()).unwrap();
    let file = site.home().join("config.yml");
    let config = |server: &ModelServer| {
        format!("providers: {{p: {{url: '{}', dialect: chat, free: true}}}}\nmodels: {{tactical: p/m}}\n", server.url())
    };
    std::fs::write(&file, config(&first)).unwrap();
    let ask = || site.json(&["ask", "who are you", "--await"])["summary"].as_str().unwrap().to_owned();
    assert_eq!(ask(), "the first");
    let kernel = || site.json(&["kernel", "status"])["os_pid"].clone();
    let before = kernel();
    std::fs::write(&file, config(&second)).unwrap();
    let said = text(&site.skep(&["usage"]));
    assert!(said.contains("config.yml was changed and is in force: providers"), "{said}");
    assert!(!text(&site.skep(&["usage"])).contains("was changed"), "told once");
    assert_eq!(ask(), "the second");
    // Broken: the last good ones stay, and every command says so.
    std::fs::write(&file, "providers: {p: {url: x}}\nmodles: {}\n").unwrap();
    for command in [&["usage"][..], &["ps"], &["list", "tasks"]] {
        let said = text(&site.skep(command));
        assert!(said.contains("those of before stay in force") && said.contains("modles"), "{said}");
    }
    assert_eq!(ask(), "the second");
    assert!(site.ok(&["kernel", "status"]).contains("modles"));
    // A wrong price table too; and what cannot be told by its form but by what it leads to.
    std::fs::write(&file, config(&second).replace("p/m", "nobody/m")).unwrap();
    assert!(text(&site.skep(&["usage"])).contains("there is no provider `nobody`"));
    std::fs::write(&file, config(&first)).unwrap();
    assert_eq!(ask(), "the first");
    let kinds: Vec<String> = site.records(&["--kind", "config"]).iter().map(|record| record["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(kinds, ["config.loaded", "config.rejected", "config.rejected", "config.loaded"]);
    assert_eq!(kernel(), before, "the same kernel all the time");
    // Also without any command: the kernel looks by itself. Whoever follows has connected once its first line came.
    let mut follow = site.command(&["journal", "follow", "--json"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(follow.stdout.take().unwrap()));
    let (heard, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        while let Some(Ok(line)) = lines.next() {
            if heard.send(line).is_err() {
                return;
            }
        }
    });
    while told.recv_timeout(std::time::Duration::from_millis(500)).is_err() {
        assert_eq!(ask(), "the first");
    }
    std::fs::write(&file, config(&second)).unwrap();
    let limit = std::time::Duration::from_secs(60);
    while !told.recv_timeout(limit).expect("the kernel looks at its files by itself").contains("config.loaded") {}
    follow.kill().unwrap();
    follow.wait().unwrap();
}

/// Whatever stands where the settings should be: nobody waits for it, and the last good ones stay in force.
#[test]
fn settings_that_are_no_file_hold_up_nobody() {
    let site = Site::new(&[("a.txt", "a\n")]);
    let file = site.home().join("config.yml");
    let put = |kind: &str| {
        drop(std::fs::remove_file(&file));
        match kind {
            "pipe" => assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success()),
            "device" => std::os::unix::fs::symlink("/dev/zero", &file).unwrap(),
            "large" => std::fs::File::create(&file).unwrap().set_len(1 << 40).unwrap(),
            _ => std::fs::write(&file, "brain: native\n").unwrap(),
        }
    };
    std::fs::create_dir_all(site.home()).unwrap();
    for (kind, why) in [("pipe", "not a regular file"), ("device", "not a regular file"), ("large", "more than 16 MiB")] {
        put("good");
        site.ok(&["kernel", "start"]);
        put(kind);
        let said = text(&site.skep(&["ps"]));
        assert!(said.contains("those of before stay in force") && said.contains(why), "{kind}: {said}");
        site.ok(&["ps"]);
        site.ok(&["kernel", "stop"]);
        // Where there is nothing of before, no kernel starts, and it is said why.
        let said = site.skep(&["ps"]);
        assert!(!said.status.success() && text(&said).contains(why) && text(&said).contains("mend config.yml"), "{kind}: {}", text(&said));
        assert!(site.ok(&["__complete", "act", "--brain", "nativ"]).contains("native"), "{kind}");
    }
    // The control: a link to a file is as good as the file.
    let other = site.folder.path().join("other.yml");
    std::fs::write(&other, "brain: native\n").unwrap();
    drop(std::fs::remove_file(&file));
    std::os::unix::fs::symlink(&other, &file).unwrap();
    site.ok(&["ps"]);
}

#[test]
fn a_doctor_looks_at_models_keys_and_brains() {
    let server = ModelServer::start(WRITER, None);
    let site = Site::new(&[]);
    let programs = site.folder.path().join("bin");
    std::fs::create_dir_all(&programs).unwrap();
    std::fs::write(programs.join("claude"), "#!/bin/sh\necho '2.1.200 (Claude Code)'\n").unwrap();
    std::fs::set_permissions(programs.join("claude"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let doctor = || -> Vec<Value> {
        let output = site.command(&["doctor", "--json"]).env("PATH", format!("{}:/usr/bin:/bin", programs.display())).output().unwrap();
        let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output)));
        result["checks"].as_array().unwrap().clone()
    };
    let find = |checks: &[Value], section: &str, name: &str| {
        checks.iter().find(|check| check["section"] == section && check["name"] == name).cloned().unwrap_or_default()
    };
    let checks = doctor();
    assert_eq!(find(&checks, "models", "providers")["detail"], "no model is set up yet");
    let claude = find(&checks, "brains", "claude");
    let detail = claude["detail"].as_str().unwrap();
    assert!(detail.starts_with("2.1.200, ") && detail.contains("nobody pays for the models of `claude`"), "{claude}");
    let gemini = find(&checks, "brains", "gemini");
    for check in [&claude, &gemini] {
        assert_eq!((&check["ok"], &check["optional"]), (&false.into(), &true.into()), "none is needed: {check}");
    }
    assert!(gemini["fix"].as_str().unwrap().contains("npm install -g @google/gemini-cli"), "{gemini}");
    let config = format!(
        "providers:\n  here: {{url: '{}', dialect: [chat, anthropic], free: true}}\n  gone: {{url: 'http://127.0.0.1:1', dialect: chat}}\n  keyless: {{url: '{}', dialect: chat, key: {{file: /no/such/key}}}}\nmodels: {{tactical: here/m}}\n",
        server.url(),
        server.url()
    );
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    let checks = doctor();
    assert_eq!((&find(&checks, "models", "here")["ok"], &find(&checks, "brains", "claude")["ok"]), (&true.into(), &true.into()));
    assert!(find(&checks, "models", "gone")["detail"].as_str().unwrap().contains("cannot be reached"));
    assert!(find(&checks, "models", "keyless")["detail"].as_str().unwrap().contains("has no key: cannot open the key file `/no/such/key`"));
    assert_eq!(find(&checks, "models", "tactical")["detail"], "here/m");
    let output = site.skep(&["doctor"]);
    let shown = text(&output);
    assert!(!output.status.success() && shown.contains("\nmodels\n") && shown.contains("\nbrains\n"), "{shown}");
}

#[test]
fn a_default_brain_and_model_hold_for_every_project_that_names_none() {
    let server = ModelServer::start("on \"who\"\n  say it is me\n", None);
    let site = Site::new(&[("a.txt", "a\n"), ("own.txt", "done from a script\n")]);
    std::fs::create_dir_all(site.home()).unwrap();
    let provider = format!("providers: {{p: {{url: '{}', dialect: chat, free: true}}}}\n", server.url());
    std::fs::write(site.home().join("config.yml"), format!("{provider}model: p/special-7\n")).unwrap();
    site.ok(&["ask", "who are you", "--await"]);
    let task = |at: usize| site.json(&["list", "tasks"])["tasks"][at]["brain"].clone();
    assert_eq!(task(0), "native:p/special-7");
    // A name on the command line comes first.
    site.ok(&["ask", "who are you", "--await", "--model", "p/other"]);
    assert_eq!(task(1), "native:p/other");
    let script = site.script("done by the default\n");
    std::fs::write(site.home().join("config.yml"), format!("{provider}brain: {script}\n")).unwrap();
    let told = site.json(&["ask", "who are you", "--await"]);
    assert_eq!(told["summary"], "by the default", "{told}");
    std::fs::write(site.home().join("config.yml"), format!("{provider}brain: clod\n")).unwrap();
    assert!(text(&site.skep(&["usage"])).contains("there is no brain `clod`"));
}

#[test]
fn what_a_project_says_to_agents_reaches_the_built_in_brain_as_the_projects_words() {
    let server = ModelServer::start("on \"look\"\n  say seen\n", None);
    let site = Site::new(&[("AGENTS.md", "Use tabs, never spaces.\n"), ("CLAUDE.md", "Run make check.\n"), ("a.txt", "a\n")]);
    std::fs::create_dir_all(site.home()).unwrap();
    let config = format!("providers: {{p: {{url: '{}', dialect: chat, free: true}}}}\nmodels: {{tactical: p/m}}\n", server.url());
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    site.ok(&["ask", "look around", "--await"]);
    let asked = server.asked();
    let first: Value = serde_json::from_str(&asked[0]).unwrap();
    let said = first["messages"].as_array().unwrap().iter().find(|message| message["role"] == "user").unwrap()["content"].to_string();
    assert!(said.contains("look around") && said.contains("| Use tabs, never spaces.") && said.contains("| Run make check."), "{said}");
    assert!(said.contains("[AGENTS.md: a file of the project"), "marked as what it is: {said}");
    let system = first["messages"][0].to_string();
    assert!(!system.contains("Use tabs"), "not among the words of ours: {system}");
    // What a mask hides is hidden here too, and a link is not followed.
    site.write("skep.yml", "mask: [AGENTS.md]\n");
    site.trust();
    std::fs::remove_file(site.project().join("CLAUDE.md")).unwrap();
    std::fs::write(site.folder.path().join("outside"), "from outside\n").unwrap();
    std::os::unix::fs::symlink(site.folder.path().join("outside"), site.project().join("CLAUDE.md")).unwrap();
    site.ok(&["ask", "look again", "--await"]);
    let last = server.asked().pop().unwrap();
    assert!(last.contains("look again") && !last.contains("Use tabs") && !last.contains("from outside"), "{last}");
}
