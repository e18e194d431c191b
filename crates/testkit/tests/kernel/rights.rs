//! A child's rights are a subset of its parent's, and a grant to a parent is not lost on its children.

use kernel::{CallEnd, Kernel, NewTask, Reply, Request, Stop, TokenRequest, UndoOutcome};
use policy::Peer;
use sandbox::Launcher;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::task::Poll;
use testkit::bed::Bed;
use testkit::harness::Test;
use world::event::{ProcSpawned, ReviewAsked, TaskQueued};
use world::{CallPattern, Deadline, Event, Pid, Rate, Scope, TaskState, Terms, ZoneId};

const POLICY: &str = "\
capabilities:
  - { name: reads, match: { syscall: fs.read }, action: allow }
  - { name: not-for-foremen, match: { syscall: fs.read, caller: worker.1, path_glob: secret.txt }, action: deny, reason: not yours }
  - { name: not-for-tagged, match: { syscall: fs.read, caller_tag: foreman, path_glob: tagged.txt }, action: deny, reason: not yours }
  - { name: not-by-night, match: { syscall: fs.read, caller_tag: night, path_glob: day.txt }, action: deny, reason: not yours }
  - { name: asks, match: { syscall: fs.list }, action: require_review, reason: ask }
  - { name: tokens, match: { syscall: token.issue }, action: allow }
  - { name: runs, match: { syscall: [shell.run, fs.write, merge.apply] }, action: allow }
  - { name: not-for-parents, match: { syscall: fs.write, caller: worker.1, path_glob: parent.txt }, action: deny, reason: not yours }
";

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("what_is_denied_to_a_parent_is_denied_to_its_child", || play(denied)),
        Test::new("what_is_denied_to_a_tag_of_a_parked_parent_is_denied_to_its_child", || play(tagged)),
        Test::new("a_grant_to_a_parent_holds_for_its_child_until_it_is_revoked", || play(granted)),
        Test::new("a_ban_holds_for_whom_it_was_given", || play(banned)),
        Test::new("what_is_denied_to_a_parent_is_not_merged_for_its_child", || play(merged)),
        Test::new("a_yes_to_a_merge_that_is_over_merges_nothing", || play(over)),
        Test::new("a_trial_says_of_masked_and_lost_calls_what_explain_says", || play(tried)),
        Test::new("every_call_is_judged_by_the_policy_that_was_in_force", || play(raced)),
        Test::new("an_undo_is_judged_by_the_policy_of_its_commit", || play(undone)),
        Test::new("calls_at_once_use_a_token_and_a_rate_no_more_than_they_may", || play(counted)),
    ]
}

/// A kernel with a foreman (3), a worker (4) below it, and another user's foreman (5) beside them.
struct Ground {
    kernel: Arc<Kernel>,
    zone: ZoneId,
    project: PathBuf,
}

/// Runs a test on such a kernel.
fn play<F: Future<Output = Result<(), Stop>>>(test: fn(Ground) -> F) -> Result<(), String> {
    let texts = ["a.txt", "parent.txt", "secret.txt", "tagged.txt", "day.txt"].map(|path| (path, &path[..1]));
    let files: Vec<(String, String)> = texts.iter().map(|(path, text)| ((*path).to_owned(), format!("{text}\n"))).collect();
    let files = [files, vec![(".skep/policy.yaml".to_owned(), POLICY.to_owned())]].concat();
    let bed = Bed::new(&files)?;
    let launcher = Launcher::start().map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let kernel = bed.boot(launcher).await.map_err(|fault| fault.to_string())?;
        let played = async {
            let proposal = kernel.gate.init(&bed.project()).await?;
            let zone = testkit::trust(&kernel, &bed.project(), &proposal.hash).await?.zone;
            let worker = ProcSpawned {
                pid: Pid(4),
                task: None,
                parent: Some(Pid(3)),
                name: "helper.1".into(),
                role: "helper".into(),
                zone: Some(zone),
                user: "u".into(),
                program: None,
            };
            kernel.ledger.record(worker).await?;
            let other = ProcSpawned {
                pid: Pid(5),
                task: None,
                parent: Some(Pid::KERNEL),
                name: "worker.2".into(),
                role: "foreman".into(),
                zone: Some(zone),
                user: "v".into(),
                program: None,
            };
            kernel.ledger.record(other).await?;
            test(Ground { kernel: kernel.clone(), zone, project: bed.project() }).await
        };
        played.await.map_err(|stop: Stop| stop.to_string())
    })
}

async fn ask(kernel: &Kernel, pid: u64, zone: ZoneId, tool: &str, path: &str) -> Result<CallEnd, Stop> {
    let request = Request::new(Pid(pid), None, zone, tool, serde_json::json!({"path": path}));
    Ok(kernel.call_as(&request).await?.end)
}

async fn denied(Ground { kernel, zone, .. }: Ground) -> Result<(), Stop> {
    let tagged = ask(&kernel, 4, zone, "fs.read", "tagged.txt").await?;
    assert!(matches!(&tagged, CallEnd::Refused(no) if no.reason.contains("its parent worker.1 may not")), "by its tag: {tagged:?}");
    let refused = ask(&kernel, 4, zone, "fs.read", "secret.txt").await?;
    assert!(matches!(&refused, CallEnd::Refused(no) if no.reason.contains("its parent worker.1 may not")), "{refused:?}");
    let allowed = ask(&kernel, 4, zone, "fs.read", "a.txt").await?;
    assert!(matches!(allowed, CallEnd::Done { ok: true, .. }), "the control: {allowed:?}");
    let operator = ask(&kernel, 2, zone, "fs.read", "secret.txt").await?;
    assert!(matches!(operator, CallEnd::Done { ok: true, .. }), "the rule is about foremen alone: {operator:?}");
    Ok(())
}

/// A task of the zone's own process, for the brain that this script is.
fn task(project: &Path, mode: world::Mode, lines: &str) -> NewTask {
    let script = project.with_extension("script");
    std::fs::write(&script, lines).unwrap_or_else(|error| panic!("{error}"));
    NewTask::new(project.to_owned(), mode, "work".into(), Some(format!("script:{}", script.display())))
}

/// A foreman that waits for a person is still what the operator called it: its worker gets nothing that is denied to that tag.
async fn tagged(Ground { kernel, zone, project }: Ground) -> Result<(), Stop> {
    let read = async || ask(&kernel, 4, zone, "fs.read", "day.txt").await;
    assert!(matches!(read().await?, CallEnd::Done { ok: true, .. }), "the control: nobody is tagged yet");
    let night = NewTask { tags: vec!["night".into()], ..task(&project, world::Mode::Act, "call fs.list path=.\ndone\n") };
    let parked = kernel.add(night).await?.task;
    let state = kernel.tasks.settled(parked).await?.state;
    assert!(matches!(state, TaskState::Parked { .. }), "{state:?}");
    let refused = read().await?;
    assert!(matches!(&refused, CallEnd::Refused(no) if no.reason.contains("its parent worker.1 may not")), "{refused:?}");
    let other = ask(&kernel, 4, zone, "fs.read", "a.txt").await?;
    assert!(matches!(other, CallEnd::Done { ok: true, .. }), "the control: the rule names one file: {other:?}");
    kernel.cancel(parked, "human").await?;
    assert!(matches!(read().await?, CallEnd::Done { ok: true, .. }), "the control: the tag ends with its task");
    Ok(())
}

async fn granted(Ground { kernel, zone, .. }: Ground) -> Result<(), Stop> {
    let CallEnd::Pending(refusal) = ask(&kernel, 3, zone, "fs.list", ".").await? else { panic!("no question") };
    let review = refusal.review.unwrap_or_else(|| panic!("no review"));
    let reply = Reply::Wide { scope: Scope::Process { pid: Pid(3) }, what: None, terms: Terms::default() };
    kernel.answer(review, reply, "human", None).await?;
    assert!(matches!(ask(&kernel, 4, zone, "fs.list", ".").await?, CallEnd::Done { .. }), "a child of the grant's process");
    assert!(matches!(ask(&kernel, 2, zone, "fs.list", ".").await?, CallEnd::Pending(_)), "not a child of it");
    let grant = kernel.ledger.look(|world| world.grants.keys().last().copied()).unwrap_or_else(|| panic!("no grant"));
    kernel.ledger.revoke_grant(grant, "human").await?;
    assert!(matches!(ask(&kernel, 4, zone, "fs.list", ".").await?, CallEnd::Pending(_)), "revoked for the child too");
    Ok(())
}

/// A worker's program writes what its foreman may not: it stays out, and the other file is offered.
/// Without a test command a rule does not let a merge pass, so a person is asked.
async fn over(Ground { kernel, project, .. }: Ground) -> Result<(), Stop> {
    let wrote = "call shell.run command=[\"sh\",\"-c\",\"echo new > a.txt\"]\ndone\n";
    let read = || std::fs::read_to_string(project.join("a.txt")).unwrap_or_default();
    let new = task(&project, world::Mode::Act, wrote);
    let task = kernel.add(new).await?.task;
    let TaskState::Parked { review } = kernel.tasks.settled(task).await?.state else { panic!("nobody is asked") };
    let until = Some(Deadline { boot: "an earlier one".into(), boottime_ms: 0 });
    kernel.answer(review, Reply::Once { terms: Terms { until, ..Terms::default() } }, "human", None).await?;
    let TaskState::Parked { review: again } = kernel.tasks.settled(task).await?.state else { panic!("it went in by a yes that was over") };
    assert!(again != review && read() == "a\n", "{again} {}", read());
    kernel.answer(again, Reply::yes(), "human", None).await?;
    assert_eq!((kernel.tasks.settled(task).await?.state, read().as_str()), (TaskState::Done, "new\n"), "the control");
    Ok(())
}

async fn merged(Ground { kernel, zone, project }: Ground) -> Result<(), Stop> {
    let wrote = "call shell.run command=[\"sh\",\"-c\",\"echo new > parent.txt; echo new > a.txt\"]\ndone\n";
    let new = task(&project, world::Mode::Ask, wrote);
    let first = kernel.add(new.clone()).await?.task;
    let brain = kernel.tasks.settled(first).await?.brain;
    let task = kernel.ledger.look(world::World::next_task);
    let (mode, prompt) = (world::Mode::Act, "work".to_owned());
    kernel
        .ledger
        .record(TaskQueued {
            pid: Pid(4),
            task: Some(task),
            zone,
            mode,
            prompt,
            brain,
            priority: 0,
            calls_max: None,
            original: None,
            discard: false,
            order: None,
        })
        .await?;
    // Another task wakes the queue.
    kernel.add(new).await?;
    let settled = tokio::time::timeout(std::time::Duration::from_secs(60), kernel.tasks.settled(task)).await;
    settled.unwrap_or_else(|_| panic!("the worker's task was never done"))?;
    let filter = journal::Filter { task: Some(task.to_string()), kinds: vec!["merge.proposed".into()], ..journal::Filter::default() };
    let records = kernel.ledger.read(&filter)?;
    let Some(Ok(Event::MergeProposed(proposed))) = records.last().map(|record| serde_json::from_str(&record.line)) else {
        panic!("nothing was proposed")
    };
    let refused = proposed.paths.iter().find(|known| known.path == "parent.txt").and_then(|known| known.refused.as_deref());
    assert!(refused.is_some_and(|why| why.contains("its parent worker.1 may not")), "{:?}", proposed.paths);
    assert!(proposed.paths.iter().any(|known| known.path == "a.txt" && known.refused.is_none()), "the control: {:?}", proposed.paths);
    Ok(())
}

/// A candidate that allows everything loosens neither a mask nor the question about a call that a crash interrupted.
async fn tried(Ground { kernel, project, .. }: Ground) -> Result<(), Stop> {
    let candidate = "capabilities:\n  - { name: all, match: { syscall: '*' }, action: allow }\n";
    let told = kernel.explain(&project, None, "fs.read", serde_json::json!({"path": ".env"}), false).await?;
    assert_eq!((told.verdict, told.rules), (policy::Action::Deny, vec!["mask".to_owned()]));
    let masked = kernel.call(&project, None, "fs.read", serde_json::json!({"path": ".env"}), kernel::CallOptions::default()).await?;
    assert!(matches!(&masked.outcome.end, CallEnd::Refused(no) if no.reason.contains("is masked")), "{:?}", masked.outcome.end);
    let denied = kernel.call(&project, None, "fs.exists", serde_json::json!({"path": "a.txt"}), kernel::CallOptions::default()).await?;
    assert!(matches!(denied.outcome.end, CallEnd::Refused(_)), "the control: {:?}", denied.outcome.end);
    let asked = |bind: &str, rule: &str| ReviewAsked {
        pid: Pid(3),
        task: None,
        review: kernel.ledger.look(world::World::next_review),
        tool: "fs.read".into(),
        input: serde_json::json!({"path": "a.txt"}),
        bind: bind.into(),
        like: CallPattern::Exact { tool: "fs.read".into(), bind: bind.into() },
        reasons: vec!["why".into()],
        rules: vec![rule.into()],
        paths: vec!["a.txt".into()],
        size: None,
        zone: None,
        whole: None,
        room: None,
    };
    kernel.ledger.record(asked("one", "lost-call")).await?;
    kernel.ledger.record(asked("two", "asks")).await?;
    let trial = kernel.gate.try_policy(&project, Some(candidate), &kernel::CallRange::default()).await?;
    let changed: Vec<(&str, policy::VerdictChangeKind)> = trial.changes.iter().map(|change| (change.tool.as_str(), change.kind)).collect();
    assert_eq!(changed, [("fs.exists", policy::VerdictChangeKind::Looser), ("fs.read", policy::VerdictChangeKind::Looser)], "{trial:?}");
    assert_eq!(trial.cases, 4, "{trial:?}");
    Ok(())
}

/// Each scope of a ban: who is refused, and who is only asked.
async fn banned(Ground { kernel, zone, .. }: Ground) -> Result<(), Stop> {
    let session = kernel.ledger.look(|world| world.session(Pid(3)));
    let table = [
        (Scope::Process { pid: Pid(4) }, &[4][..]),
        (Scope::Process { pid: Pid(3) }, &[3, 4]),
        (Scope::Session { session }, &[3, 4]),
        (Scope::User { user: "v".into() }, &[5]),
        (Scope::Zone { zone }, &[2, 3, 4, 5]),
        (Scope::All, &[2, 3, 4, 5]),
    ];
    for (round, (scope, refused)) in table.into_iter().enumerate() {
        // The same folder in other words: an answer to one exact call says nothing about the next.
        let (asked, alike) = ("./".repeat(round + 1), format!("{}.", "./".repeat(round + 1)));
        let CallEnd::Pending(refusal) = ask(&kernel, 3, zone, "fs.list", &asked).await? else { panic!("no question") };
        let review = refusal.review.unwrap_or_else(|| panic!("no review"));
        let shown = format!("{scope:?}");
        kernel.answer(review, Reply::Never { scope, what: None, alternative: None }, "human", Some("no".into())).await?;
        let ban = kernel.ledger.look(|world| world.bans.keys().last().copied()).unwrap_or_else(|| panic!("no ban"));
        for pid in [2, 3, 4, 5] {
            let end = ask(&kernel, pid, zone, "fs.list", &alike).await?;
            let by_ban = matches!(&end, CallEnd::Refused(no) if no.reason.starts_with(&format!("{ban} refuses it")));
            assert_eq!(by_ban, refused.contains(&pid), "{shown} for {pid}: {end:?}");
            assert!(by_ban || matches!(end, CallEnd::Pending(_)), "who is not banned is asked: {end:?}");
        }
        kernel.ledger.lift_ban(ban, "human").await?;
        let after = ask(&kernel, 3, zone, "fs.list", &alike).await?;
        assert!(matches!(after, CallEnd::Pending(_)), "lifted, it asks again: {after:?}");
    }
    Ok(())
}

/// Calls race with changes of the policy: by the order of the journal, each has the verdict of the version before it.
async fn raced(Ground { kernel, zone, project }: Ground) -> Result<(), Stop> {
    let policy = |action: &str| format!("capabilities:\n  - {{ name: {action}-it, match: {{ syscall: fs.read }}, action: {action} }}\n");
    let from = kernel.ledger.journal().head().seq;
    let mut callers = Vec::new();
    let (made, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    for _ in 0..4 {
        let (kernel, made, over) = (Arc::clone(&kernel), Arc::clone(&made), Arc::clone(&over));
        callers.push(tokio::spawn(async move {
            while !over.load(Relaxed) {
                ask(&kernel, 3, zone, "fs.read", "a.txt").await?;
                made.fetch_add(1, Relaxed);
            }
            Ok::<(), Stop>(())
        }));
    }
    let rounds = if std::env::var_os("SKEP_SOAK").is_some() { 24 } else { 4 };
    for round in 0..rounds {
        // Every version has calls of its own, besides those that race with the change.
        let before = made.load(Relaxed);
        while made.load(Relaxed) < before + 8 {
            tokio::task::yield_now().await;
        }
        let text = policy(if round % 2 == 0 { "deny" } else { "allow" });
        std::fs::write(project.join(".skep/policy.yaml"), text).unwrap_or_else(|error| panic!("{error}"));
        let proposal = kernel.gate.init(&project).await?;
        // More than five breaking changes want a phrase, and their number changes while the callers call.
        loop {
            let phrase = kernel.gate.try_proposal(&project).await?.phrase();
            match kernel.gate.trust(&project, &proposal.hash, phrase.as_deref()).await {
                Err(Stop::Refused(_)) => {}
                done => break drop(done?),
            }
        }
    }
    over.store(true, Relaxed);
    for caller in callers {
        caller.await.unwrap_or_else(|error| panic!("{error}"))?;
    }
    let records = kernel.ledger.read(&journal::Filter { after_seq: Some(from), ..journal::Filter::default() })?;
    let (mut allows, mut versions, mut judged) = (true, 0, [0, 0]);
    for record in records {
        match serde_json::from_str::<Event>(&record.line).unwrap_or_else(|error| panic!("{error}")) {
            Event::PolicyUpdated(_) => (allows, versions) = (versions % 2 == 1, versions + 1),
            Event::CallAdmitted(e) => {
                let rule = if versions == 0 { "reads" } else { "allow-it" };
                assert!(allows && e.rules == [rule], "admitted by {:?} under version {versions}", e.rules);
                judged[0] += 1;
            }
            Event::CallRefused(e) if e.reason.contains("changed while") => {}
            Event::CallRefused(e) => {
                assert!(!allows && e.rules == ["deny-it"], "refused by {:?} under version {versions}: {}", e.rules, e.reason);
                judged[1] += 1;
            }
            _ => {}
        }
    }
    // Equal refusals are counted, not repeated, so that their number says little.
    assert!(versions == rounds && judged.iter().all(|count| *count > 0), "{versions} versions, {judged:?} yes and no");
    Ok(())
}

/// A rule in TypeScript that has nothing against anything, after a while of thinking, so that whoever asks surely waits.
const THINKS: &str = "export default rule(\"none\", () => { let n = 0; for (let i = 0; i < 300000; i++) n += i; return pass(); });\n";

/// Puts this policy in force, with that rule beside it.
async fn put_in_force(kernel: &Kernel, project: &Path, policy: &str) -> Result<(), Stop> {
    for (path, text) in [(".skep/policy.yaml", policy), (".skep/rules/none.ts", THINKS)] {
        let path = project.join(path);
        std::fs::create_dir_all(path.parent().unwrap_or(project)).unwrap_or_else(|error| panic!("{error}"));
        std::fs::write(path, text).unwrap_or_else(|error| panic!("{error}"));
    }
    let proposal = kernel.gate.init(project).await?;
    testkit::trust(kernel, project, &proposal.hash).await.map(drop)
}

/// While an undo waits for the word of an extension, another policy comes in force, and then the operator's own: each denies it.
async fn undone(Ground { kernel, project, .. }: Ground) -> Result<(), Stop> {
    put_in_force(&kernel, &project, POLICY).await?;
    let read = || std::fs::read_to_string(project.join("a.txt")).unwrap_or_default();
    let wrote = kernel.add(task(&project, world::Mode::Act, "call fs.write path=a.txt content=new\ndone\n")).await?.task;
    let TaskState::Parked { review } = kernel.tasks.settled(wrote).await?.state else { panic!("nobody is asked") };
    kernel.answer(review, Reply::yes(), "human", None).await?;
    assert_eq!((kernel.tasks.settled(wrote).await?.state, read().as_str()), (TaskState::Done, "new"));

    let denies =
        |name: &str| format!("  - {{ name: {name}, match: {{ syscall: fs.write, caller: operator }}, action: deny, reason: not back }}\n");
    let mut undo = Box::pin(kernel.undo(wrote, "human", None));
    let waits = std::future::poll_fn(|cx| Poll::Ready(undo.as_mut().poll(cx).is_pending())).await;
    assert!(waits, "it was described, and is not decided yet");
    put_in_force(&kernel, &project, &format!("{POLICY}{}", denies("after"))).await?;
    let outcome = undo.await?;
    assert!(matches!(&outcome, UndoOutcome::Denied { reasons, .. } if reasons[0].contains("denied by `after`")), "{outcome:?}");
    assert_eq!(read(), "new");

    put_in_force(&kernel, &project, POLICY).await?;
    let mut undo = Box::pin(kernel.undo(wrote, "human", None));
    assert!(std::future::poll_fn(|cx| Poll::Ready(undo.as_mut().poll(cx).is_pending())).await);
    let home = |rules: &str| {
        let file = project.with_file_name("home").join("policy.yaml");
        std::fs::write(file, format!("capabilities:\n{rules}")).unwrap_or_else(|error| panic!("{error}"));
        kernel.gate.policies.home_proposal()
    };
    kernel.gate.trust_home(&home(&denies("above"))?.hash, None).await?;
    let outcome = undo.await?;
    assert!(matches!(&outcome, UndoOutcome::Denied { reasons, .. } if reasons[0].contains("above")), "{outcome:?}");

    // The control: one that has nothing against it takes the merge back.
    kernel.gate.trust_home(&home(&denies("other").replace("fs.write", "fs.delete"))?.hash, None).await?;
    let outcome = kernel.undo(wrote, "human", None).await?;
    assert!(matches!(outcome, UndoOutcome::Paths { .. }), "{outcome:?}");
    assert_eq!(read(), "a\n");
    Ok(())
}

/// Sixteen calls at once against four operations, and against a rate of four.
async fn counted(Ground { kernel, zone, .. }: Ground) -> Result<(), Stop> {
    let own = Peer { sandbox: "host".into(), pid: 4242, started_ms: 1 };
    let wish = |tool: &str| TokenRequest { tool: tool.into(), paths: vec!["**".into()], max_ops: 4, ttl_ms: None };
    let bad = kernel.issue_token(Pid::OPERATOR, zone, wish("fs.re*"), own.clone()).await;
    assert!(matches!(&bad, Err(Stop::Refused(no)) if no.reason.contains("names no call")), "{bad:?}");
    let (text, _) = kernel.issue_token(Pid::OPERATOR, zone, wish("fs.list"), own.clone()).await?;
    let thief = Peer { pid: 4243, ..own.clone() };
    assert_eq!(at_once(&kernel, zone, Some((text.clone(), thief))).await?, 0, "it was issued to another process");
    assert_eq!(at_once(&kernel, zone, Some((text.clone(), own.clone()))).await?, 4);
    assert_eq!(at_once(&kernel, zone, Some((text, own))).await?, 0, "used up");

    let review = kernel.ledger.look(|world| world.reviews.keys().last().copied()).unwrap_or_else(|| panic!("no question"));
    let terms = Terms { rate: Some(Rate { max: 4, per_ms: 3_600_000 }), ..Terms::default() };
    let what = Some(CallPattern::Like {
        tool: "fs.list".into(),
        paths: vec![],
        command: None,
        whole: false,
        host: None,
        port: None,
        method: None,
    });
    kernel.answer(review, Reply::Wide { scope: Scope::All, what, terms }, "human", None).await?;
    assert_eq!(at_once(&kernel, zone, None).await?, 4);
    assert_eq!(at_once(&kernel, zone, None).await?, 0);
    Ok(())
}

/// How many of sixteen calls at once are made.
async fn at_once(kernel: &Arc<Kernel>, zone: ZoneId, token: Option<(String, Peer)>) -> Result<usize, Stop> {
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (kernel, token) = (Arc::clone(kernel), token.clone());
        let request = Request { token, ..Request::new(Pid::OPERATOR, None, zone, "fs.list", serde_json::json!({"path": "."})) };
        calls.spawn(async move { kernel.call_as(&request).await });
    }
    let mut made = 0;
    while let Some(call) = calls.join_next().await {
        let end = call.unwrap_or_else(|error| panic!("{error}"))?.end;
        made += usize::from(matches!(end, CallEnd::Done { ok: true, .. }));
    }
    Ok(made)
}
