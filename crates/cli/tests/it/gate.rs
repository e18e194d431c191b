//! Answers with terms, bans, tokens, extensions and the policy's own commands, on a real kernel over its socket.

use crate::common::Site;
use serde_json::{Value, json};
use wire::method::Nothing;
use wire::method::call::{CallDecision, CallRunParams, CallRunResult};
use wire::method::grant::{GrantRevokeParams, TokenIssueParams};
use wire::method::policy::{PolicyExplainParams, PolicyLogParams, PolicyOutcome, PolicyTrialParams, RuleEffect};
use wire::method::review::{AnswerReach, AnswerTerms, ReviewAnswerParams};
use wire::method::task::TaskIdParams;
use wire::table::{
    CallRun, GrantList, GrantRevoke, PolicyExplain, PolicyLog, PolicySuggest, PolicyTrial, ReviewAnswer, TaskShow, TokenIssue,
};
use wire::{KernelClient, Method, ReviewId, TaskId};

/// A zone under a policy of our own, a parked task to work in, and one connection.
struct Gate {
    site: Site,
    runtime: tokio::runtime::Runtime,
    client: KernelClient,
    task: TaskId,
}

const POLICY: &str = "\
capabilities:
  - { name: reads, match: { syscall: fs.read }, action: allow }
  - { name: tokens, match: { syscall: token.issue }, action: allow }
  - { name: rooms, match: { syscall: shell.run, command: [sleep] }, action: require_review, reason: it takes time }
  - { name: asks, match: { syscall: fs.write, path_glob: '/src/**' }, action: require_review, reason: ask first }
  - { name: parks, match: { syscall: fs.list }, action: require_review, reason: park }
";

impl Gate {
    fn new(extra: &[(&str, &str)]) -> Gate {
        let files: Vec<(&str, &str)> =
            [("src/a.rs", "old\n"), (".skep/policy.yaml", POLICY)].into_iter().chain(extra.iter().copied()).collect();
        let site = Site::new(&files);
        site.trust();
        let brain = site.script("call fs.list path=.\ndone\n");
        let output = site.skep(&["act", "park", "--brain", &brain, "--await"]);
        assert_eq!(output.status.code(), Some(4), "{}", crate::common::text(&output));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(KernelClient::connect(&site.home())).unwrap();
        Gate { site, runtime, client, task: TaskId(1) }
    }

    fn ask<M: Method>(&mut self, params: &M::Params) -> M::Result {
        self.runtime.block_on(self.client.call::<M>(params)).unwrap_or_else(|error| panic!("{}: {error}", M::ID.name()))
    }

    fn path(&self) -> String {
        self.site.project().display().to_string()
    }

    fn call(&mut self, tool: &str, input: Value) -> CallRunResult {
        self.call_with(tool, input, None)
    }

    fn call_with(&mut self, tool: &str, input: Value, token: Option<String>) -> CallRunResult {
        let params = CallRunParams { tool: tool.into(), input, path: self.path(), task: Some(self.task), mode: None, token };
        self.ask::<CallRun>(&params)
    }

    fn write(&mut self, path: &str, content: &str) -> CallRunResult {
        self.call("fs.write", json!({"path": path, "content": content}))
    }

    /// Asks until a question is open, and answers it.
    fn answer(&mut self, asked: &CallRunResult, change: impl FnOnce(&mut ReviewAnswerParams)) {
        let review = review(asked);
        let mut params = ReviewAnswerParams {
            newer_base: false,
            review,
            answer: wire::Answer::Allow,
            reason: None,
            reach: None,
            what: None,
            terms: None,
            alternative: None,
            seen: None,
        };
        change(&mut params);
        self.ask::<ReviewAnswer>(&params);
    }
}

#[track_caller]
fn review(asked: &CallRunResult) -> ReviewId {
    assert_eq!(asked.decision, CallDecision::Pending, "{asked:?}");
    asked.refusal.as_ref().unwrap().review.unwrap()
}

#[test]
fn a_session_answer_covers_its_kind_until_it_is_revoked() {
    let mut gate = Gate::new(&[]);
    let asked = gate.write("src/a.rs", "one\n");
    gate.answer(&asked, |params| params.reach = Some(AnswerReach::Session));
    assert_eq!(gate.write("src/a.rs", "two\n").decision, CallDecision::Allowed);
    assert_eq!(gate.write("src/b.rs", "three\n").decision, CallDecision::Pending, "another file is another question");
    let given = gate.ask::<GrantList>(&Nothing {}).grants;
    assert_eq!(given.len(), 1);
    gate.ask::<GrantRevoke>(&GrantRevokeParams { id: given[0].grant.to_string() });
    assert_eq!(gate.write("src/a.rs", "four\n").decision, CallDecision::Pending, "revocation is immediate");
}

#[test]
fn constraints_stay_with_a_grant_for_its_whole_life() {
    let mut gate = Gate::new(&[]);
    let asked = gate.write("src/a.rs", "one\n");
    let constraints = world::Constraints {
        writable_paths: vec!["/src/**".into()],
        readonly_paths: vec!["/src/gen/**".into()],
        input_overrides: json!({"content": "as a person wants it\n"}).as_object().unwrap().clone(),
        output_redact_fields: vec!["path".into()],
        ..world::Constraints::default()
    };
    let what = world::CallPattern::Like {
        tool: "fs.write".into(),
        paths: vec![],
        command: None,
        whole: false,
        host: None,
        port: None,
        method: None,
    };
    gate.answer(&asked, |params| {
        params.reach = Some(AnswerReach::All);
        params.what = Some(what);
        params.terms = Some(AnswerTerms { constraints: Some(constraints), ..AnswerTerms::default() });
    });
    for _ in 0..2 {
        let done = gate.write("src/a.rs", "as the brain wants it\n");
        assert_eq!((done.decision, &done.output["path"]), (CallDecision::Allowed, &json!("[redacted]")), "{done:?}");
        let read = gate.call("fs.read", json!({"path": "src/a.rs"}));
        assert_eq!(read.output["content"], "as a person wants it\n");
    }
    assert_eq!(gate.write("src/gen/x.rs", "x").decision, CallDecision::Pending, "read-only paths are not covered");
}

#[test]
fn rates_numbers_and_ends_run_out() {
    let mut gate = Gate::new(&[]);
    let asked = gate.write("src/a.rs", "one\n");
    let rate = world::Rate { max: 2, per_ms: 3_600_000 };
    gate.answer(&asked, |params| {
        params.reach = Some(AnswerReach::Session);
        params.terms = Some(AnswerTerms { rate: Some(rate), ..AnswerTerms::default() });
    });
    let allowed = (0..4).filter(|n| gate.write("src/a.rs", &n.to_string()).decision == CallDecision::Allowed).count();
    assert_eq!(allowed, 2);
    let asked = gate.write("src/c.rs", "one\n");
    gate.answer(&asked, |params| {
        params.reach = Some(AnswerReach::Session);
        params.terms = Some(AnswerTerms { ttl_ms: Some(1), ..AnswerTerms::default() });
    });
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(gate.write("src/c.rs", "two\n").decision, CallDecision::Pending, "its time is over");
    let asked = gate.write("src/d.rs", "one\n");
    gate.answer(&asked, |params| {
        params.reach = Some(AnswerReach::Session);
        params.terms = Some(AnswerTerms { ttl_ms: Some(3_600_000), uses: Some(1), ..AnswerTerms::default() });
    });
    assert_eq!(gate.write("src/d.rs", "two\n").decision, CallDecision::Allowed, "the control: inside its time");
    assert_eq!(gate.write("src/d.rs", "three\n").decision, CallDecision::Pending, "its one use is gone");
}

#[test]
fn a_grant_can_stop_the_work_and_have_it_written_down() {
    let mut gate = Gate::new(&[]);
    let sleep = json!({"command": ["sleep", "600"]});
    let asked = gate.call("shell.run", sleep.clone());
    let constraints = world::Constraints { max_duration_ms: Some(200), ..world::Constraints::default() };
    let terms = AnswerTerms { constraints: Some(constraints), observe: Some(world::Observe::Detailed), ..AnswerTerms::default() };
    gate.answer(&asked, |params| params.terms = Some(terms));
    let done = gate.call("shell.run", sleep);
    assert_eq!((done.decision, done.ok), (CallDecision::Allowed, false));
    assert!(done.output["reason"].as_str().unwrap().contains("200 ms"), "{done:?}");
    assert_eq!(gate.site.count("call.observed"), 1);
}

#[test]
fn a_no_can_name_an_alternative_and_last() {
    let mut gate = Gate::new(&[]);
    let asked = gate.write("src/a.rs", "one\n");
    let alternative = Some(wire::Alternative { tool: "fs.read".into(), input: json!({"path": "src/a.rs"}) });
    gate.answer(&asked, |params| {
        params.answer = wire::Answer::Deny;
        params.reach = Some(AnswerReach::All);
        params.reason = Some("not this file".into());
        params.alternative = alternative;
    });
    let refused = gate.write("src/a.rs", "two\n");
    let refusal = refused.refusal.unwrap();
    assert_eq!(refused.decision, CallDecision::Refused);
    assert!(refusal.reason.contains("not this file") && refusal.hint.unwrap().contains("use `fs.read`"), "{}", refusal.reason);
    let ban = gate.ask::<GrantList>(&Nothing {}).bans[0].ban.to_string();
    gate.ask::<GrantRevoke>(&GrantRevokeParams { id: ban });
    assert_eq!(gate.write("src/a.rs", "three\n").decision, CallDecision::Pending, "a lifted ban leaves the question");
}

/// A token for writes below `src`, and its parameters.
fn token(gate: &mut Gate, max_ops: u32, ttl_ms: u64) -> String {
    let params = TokenIssueParams {
        path: gate.path(),
        tool: "fs.write".into(),
        paths: vec!["/src/**".into()],
        max_ops: Some(max_ops),
        ttl_ms: Some(ttl_ms),
    };
    gate.ask::<TokenIssue>(&params).token.unwrap()
}

fn write_with(gate: &mut Gate, path: &str, token: &str) -> CallDecision {
    let input = json!({"path": path, "content": "x"});
    gate.call_with("fs.write", input, Some(token.to_owned())).decision
}

/// What else a token can and cannot do is told by the scenarios of cases 7 to 9 and 21 to 23.
#[test]
fn a_token_is_bound_to_its_process_and_its_text() {
    let mut gate = Gate::new(&[]);
    let token = token(&mut gate, 9, 60_000);
    let mut forged = token.clone();
    forged.replace_range(token.len() - 1.., if token.ends_with('0') { "1" } else { "0" });
    assert_eq!(write_with(&mut gate, "src/a.rs", &forged), CallDecision::Pending, "a forged one is none");
    assert_eq!(elsewhere(&gate, &token), "pending", "another process has stolen it");
    assert_eq!(write_with(&mut gate, "src/a.rs", &token), CallDecision::Allowed, "the control");
    let held = gate.ask::<GrantList>(&Nothing {}).tokens[0].token.to_string();
    gate.ask::<GrantRevoke>(&GrantRevokeParams { id: held });
    assert_eq!(write_with(&mut gate, "src/a.rs", &token), CallDecision::Pending, "revoked");
}

/// The same call with the same token, from a process of its own.
fn elsewhere(gate: &Gate, token: &str) -> String {
    let task = gate.task.to_string();
    let arguments = ["call", "fs.write", "path=src/stolen.rs", "content=x", "--task", &task, "--token", token, "--json"];
    let output = gate.site.skep(&arguments);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", crate::common::text(&output)));
    said["decision"].as_str().unwrap().to_owned()
}

#[test]
fn issuing_a_token_is_itself_decided() {
    let mut gate = Gate::new(&[]);
    let strict = POLICY.replace(
        "{ name: tokens, match: { syscall: token.issue }, action: allow }",
        "{ name: tokens, match: { syscall: token.issue }, action: require_review, reason: ask }",
    );
    gate.site.write(".skep/policy.yaml", &strict);
    gate.site.trust();
    let params = TokenIssueParams { path: gate.path(), tool: "*".into(), paths: vec![], max_ops: None, ttl_ms: None };
    let issued = gate.ask::<TokenIssue>(&params);
    assert_eq!((issued.token, issued.call.decision), (None, CallDecision::Pending));
    let asked = issued.call;
    gate.answer(&asked, |_| ());
    assert!(gate.ask::<TokenIssue>(&params).token.is_some());
}

#[test]
fn a_deadline_refuses_and_a_notifier_is_told() {
    let site = Site::new(&[("src/a.rs", "old\n"), (".skep/policy.yaml", POLICY)]);
    let heard = site.folder.path().join("heard");
    std::fs::create_dir_all(site.home()).unwrap();
    let config = format!("review:\n  deadline: 300ms\n  notify: [sh, -c, 'cat >> {}']\n", heard.display());
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    site.trust();
    let brain = site.script("call fs.write path=src/a.rs content=\"x\"\ndone it went on\n");
    let task = site.json(&["act", "wait", "--brain", &brain])["task"].as_str().unwrap().to_owned();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while site.json(&["list", "tasks"])["tasks"][0]["state"] != "done" {
        assert!(std::time::Instant::now() < end, "{}", site.ok(&["log", &task]));
    }
    let refused = site.records(&["--kind", "call.refused"]);
    assert!(refused[0]["payload"]["reason"].as_str().unwrap().contains("nobody answered in time"));
    // The notifier is a process of its own, and nobody waits for it.
    while !std::fs::read_to_string(&heard).is_ok_and(|told| told.contains("r-1 asks: fs.write (ask first)")) {
        assert!(std::time::Instant::now() < end, "nobody was told: {:?}", std::fs::read_to_string(&heard));
    }
}

#[test]
fn the_policy_explains_itself_and_is_tried_before_it_changes() {
    let mut gate = Gate::new(&[]);
    gate.call("fs.read", json!({"path": "src/a.rs"}));
    let asked = gate.write("src/a.rs", "one\n");
    gate.answer(&asked, |_| ());
    gate.write("src/a.rs", "one\n");
    let params =
        PolicyExplainParams { path: gate.path(), tool: "fs.read".into(), input: json!({"path": "src/a.rs"}), task: None, candidate: false };
    let told = gate.ask::<PolicyExplain>(&params);
    assert_eq!(told.outcome, PolicyOutcome::Allow);
    assert!(told.rules.iter().any(|rule| rule.rule.starts_with("reads") && rule.said == RuleEffect::Allow), "{told:?}");
    let candidate = POLICY.replace("syscall: fs.read }, action: allow", "syscall: fs.read }, action: deny");
    let params = PolicyTrialParams { path: gate.path(), last: None, after_seq: None, before_seq: None, text: Some(candidate) };
    let trial = gate.ask::<PolicyTrial>(&params);
    // What may not be read is masked, so the writes that a person was asked about would be refused too.
    assert_eq!((trial.breaking, trial.changes.len()), (1, 3), "{trial:?}");
    assert!(trial.changes[1..].iter().all(|change| change.tool == "fs.write" && change.why.contains("is masked")), "{trial:?}");
    assert_eq!((trial.changes[0].tool.as_str(), trial.changes[0].after.as_str()), ("fs.read", "deny"));
    let path = PolicyLogParams { path: gate.path(), home: false };
    assert_eq!(gate.ask::<PolicyLog>(&path).versions.len(), 1);
    let suggested = gate.ask::<PolicySuggest>(&path);
    assert_eq!((suggested.questions, suggested.let_through), (1, 0), "{suggested:?}");
    let parked = gate.task;
    assert!(!gate.ask::<TaskShow>(&TaskIdParams { task: parked }).state.ended());
}

const RULES: &str = "export default rule(\"no-secrets-in-names\", (call) => call.paths.some((path: string) => path.includes(\"forbidden\")) ? deny(\"not this name\", \"choose another\") : pass());\n";

#[test]
fn extension_rules_speak_last_and_a_flaw_is_not_put_in_force() {
    let mut gate = Gate::new(&[("forbidden.txt", "x\n"), (".skep/rules/names.ts", RULES)]);
    let refused = gate.call("fs.read", json!({"path": "forbidden.txt"}));
    assert_eq!(refused.decision, CallDecision::Refused, "{refused:?}");
    assert!(refused.refusal.unwrap().reason.contains("not this name"));
    assert_eq!(gate.call("fs.read", json!({"path": "src/a.rs"})).decision, CallDecision::Allowed, "the control");
    gate.site.write(".skep/rules/names.ts", "export default rule(;\n");
    let said = gate.site.fails(2, &["trust", "--yes"]);
    assert!(said.contains(".skep/rules/names.ts:1:"), "{said}");
    assert_eq!(gate.call("fs.read", json!({"path": "forbidden.txt"})).decision, CallDecision::Refused, "the trusted version holds");
}

#[test]
fn a_masked_file_is_explained_and_not_refused() {
    let mut gate = Gate::new(&[]);
    gate.site.write(".env", "KEY=1\n");
    let input = json!({"path": ".env"});
    let params = PolicyExplainParams { path: gate.path(), tool: "fs.read".into(), input: input.clone(), task: None, candidate: false };
    let told = gate.ask::<PolicyExplain>(&params);
    assert_eq!((told.outcome.as_str(), told.reason.as_str()), ("deny", "`.env` is masked: no brain may see it"));
    assert!(told.rules.iter().any(|rule| rule.rule.starts_with("reads")), "what rules would say is shown too: {told:?}");
    assert_eq!(gate.call("fs.read", input).refusal.unwrap().reason, told.reason, "the same as the call itself");
}

#[test]
fn an_answer_for_a_zone_holds_where_the_call_was_to_be_made() {
    let mut gate = Gate::new(&[]);
    let asked = gate.write("src/a.rs", "one\n");
    let review = review(&asked);
    let mut params = ReviewAnswerParams {
        newer_base: false,
        review,
        answer: wire::Answer::Allow,
        reason: None,
        reach: Some(AnswerReach::Zone),
        what: None,
        terms: None,
        alternative: None,
        seen: None,
    };
    gate.ask::<ReviewAnswer>(&params);
    params.review = ReviewId(1);
    gate.ask::<ReviewAnswer>(&params);
    let given = gate.ask::<GrantList>(&Nothing {}).grants;
    let zones: Vec<_> = given.iter().map(|grant| &grant.scope).collect();
    assert!(matches!(zones[..], [world::Scope::Zone { .. }, world::Scope::Zone { .. }]), "{given:?}");
    assert_eq!(zones[0], zones[1], "the operator's own call was made in the same project as the brain's");
}

#[test]
fn only_named_variables_of_the_kernels_environment_reach_a_room() {
    let site = Site::new(&[("a.txt", "one\n")]);
    std::fs::create_dir_all(site.home()).unwrap();
    std::fs::write(site.home().join("config.yml"), "environment:\n  pass: [COLOUR]\n  set: { GREETING: hello }\n").unwrap();
    let started = site.command(&["kernel", "start"]).env("COLOUR", "blue").env("NPM_TOKEN", "hidden-1").env("UNNAMED", "hidden-2").output();
    assert!(started.unwrap().status.success());
    site.ok(&["init"]);
    let said = site.json(&["call", "shell.run", "command=[\"env\"]"]);
    let found = said["output"]["stdout"].as_str().unwrap_or_else(|| panic!("{said}"));
    assert!(found.contains("COLOUR=blue\n") && found.contains("GREETING=hello\n"), "{found}");
    assert!(!found.contains("hidden") && !found.contains("SKEP_HOME"), "{found}");
    site.ok(&["kernel", "stop"]);
    std::fs::write(site.home().join("config.yml"), "environment: { pass: [NPM_TOKEN] }\n").unwrap();
    let said = crate::common::text(&site.skep(&["ps"]));
    assert!(said.contains("`NPM_TOKEN` may hold a credential"), "{said}");
}

#[test]
fn fluffy_09_a_token_is_on_record_before_it_is_told() {
    let site = Site::new(&[("a.txt", "one\n"), (".skep/policy.yaml", POLICY)]);
    let mut kernel = site.kernel(None);
    site.trust();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut client = runtime.block_on(KernelClient::connect(&site.home())).unwrap();
    let path = site.project().display().to_string();
    let params = TokenIssueParams { path, tool: "fs.read".into(), paths: vec![], max_ops: None, ttl_ms: None };
    assert!(runtime.block_on(client.call::<TokenIssue>(&params)).unwrap().token.is_some());
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    assert_eq!(site.count("token.issued"), 1);
    assert_eq!(site.json(&["journal", "verify"])["findings"], json!([]));
}

/// What is merged is what somebody looked at: without the digest of a diff, nothing is.
#[test]
fn a_merge_over_the_wire_names_what_was_shown() {
    use wire::method::task::{TaskIdParams, TaskMergeParams};
    use wire::table::{TaskDiff, TaskMerge};
    let open = "capabilities:\n- {name: all, match: {syscall: '*'}, action: allow, reason: a test}\n";
    let site = Site::new(&[("a.txt", "one\n"), (".skep/policy.yaml", open)]);
    site.trust();
    let brain = site.script("call fs.write path=b.txt content=two\ndone\n");
    site.skep(&["act", "write", "--brain", &brain, "--await"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut client = runtime.block_on(KernelClient::connect(&site.home())).unwrap();
    let shown = runtime.block_on(client.call::<TaskDiff>(&TaskIdParams { task: TaskId(1) })).unwrap();
    let mut merge = |digest: Option<String>| {
        let params = TaskMergeParams { task: TaskId(1), digest, sides: Default::default(), only: Vec::new(), commit: None };
        runtime.block_on(client.call::<TaskMerge>(&params)).map_err(|error| error.to_string())
    };
    let why = merge(None).unwrap_err();
    assert!(why.contains("nobody says what was looked at"), "{why}");
    assert!(merge(Some("0".repeat(64))).unwrap_err().contains("not the ones you looked at"));
    assert!(!site.project().join("b.txt").exists() && site.count("merge.started") == 0);
    assert_eq!(merge(shown.digest).unwrap().applied, ["b.txt"], "the control");
    assert_eq!(site.read("b.txt"), "two");
}

#[test]
fn karnevil9_21_the_kernel_listens_on_no_network() {
    let site = Site::new(&[]);
    let mut kernel = site.kernel(None);
    site.ok(&["ps"]);
    let proc = std::path::PathBuf::from(format!("/proc/{}", kernel.id()));
    let links = std::fs::read_dir(proc.join("fd")).unwrap().flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
    let sockets: Vec<String> =
        links.filter_map(|link| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']').map(str::to_owned)).collect();
    assert!(!sockets.is_empty(), "the control: it listens on its own socket");
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let table = std::fs::read_to_string(proc.join("net").join(table)).unwrap_or_default();
        let inodes: Vec<&str> = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(9)).collect();
        assert!(sockets.iter().all(|socket| !inodes.contains(&socket.as_str())), "{table}");
    }
    kernel.kill().unwrap();
    kernel.wait().unwrap();
}

#[test]
fn no_flag_switches_the_gate_off() {
    let site = Site::new(&[]);
    for flag in ["--insecure", "--yolo", "--dangerously-skip-permissions", "--no-sandbox", "--allow-all"] {
        let said = site.fails(2, &["act", "anything", flag]);
        assert!(said.contains(flag), "{said}");
    }
}
