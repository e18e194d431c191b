//! Messages, artifacts, escalations, resources and cron of the process tree: the calls of a kernel that runs.

use journal::Filter;
use kernel::{Kernel, Reply};
use sandbox::Launcher;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::bed::Bed;
use testkit::harness::Test;
use tree::{
    ArtifactOrder, ArtifactQuery, EscalationOrder, LogLine, MessageOrder, QueueFilter, ReceivedMessage, SpawnOrder, Subscription, Tree,
};
use world::{
    Budget, Code, CronAction, CronSpec, DropReason, MessagePriority, MissedRule, OverlapRule, Pid, ProcessRole, ProgramLimits,
    ProgramRuntime, Recipient, Refusal, Severity, Stop, Tier, Visibility,
};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("messages_go_by_the_routes_and_are_seen", || play(routes)),
        Test::new("a_mailbox_gives_out_by_relation_and_priority", || play(order)),
        Test::new("what_is_over_is_a_dead_letter", || play(expiry)),
        Test::new("a_reader_hears_what_it_asks_for", || play(filters)),
        Test::new("hostile_sizes_are_refused", || play(sizes)),
        Test::new("artifacts_have_visibilities_versions_and_owners", || play(artifacts)),
        Test::new("trouble_goes_up_to_the_person", || play(escalation)),
        Test::new("resources_add_up", || play(resources)),
        Test::new("claims_only_add_and_the_end_of_a_budget_is_told", || play(claims)),
        Test::new("events_can_be_taken_up_from_any_record", || play(events)),
        Test::new("followers_see_the_beginnings_of_messages_without_secrets", || play(previews)),
        Test::new("policy_of_the_operator_denies", denied),
        Test::new("a_restart_loses_no_message", restart),
        Test::new("cron_runs_and_survives_a_restart", cron),
    ]
}

fn play<F: Future<Output = Result<(), String>>>(test: impl FnOnce(Arc<Kernel>) -> F) -> Result<(), String> {
    let launcher = Launcher::start().map_err(text)?;
    let bed = Bed::new(&[])?;
    runtime()?.block_on(async { test(bed.boot(launcher).await.map_err(text)?).await })
}

fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn refusal<T>(result: Result<T, Stop>) -> Result<Refusal, String> {
    match result {
        Ok(_) => Err("it was not refused".into()),
        Err(Stop::Refused(refusal)) => Ok(refusal),
        Err(Stop::Failed(fault)) => Err(fault.to_string()),
    }
}

fn spawn_order(parent: Pid, name: &str, role: ProcessRole) -> SpawnOrder {
    SpawnOrder {
        parent: Some(parent),
        name: name.into(),
        role,
        tier: Tier::Operational,
        model: String::new(),
        system_prompt: String::new(),
        tools: Vec::new(),
        env: BTreeMap::new(),
        metadata: BTreeMap::new(),
        limits: ProgramLimits::default(),
        budget: None,
        runtime: ProgramRuntime::Virtual,
        image: String::new(),
        initial_task: None,
        schedule: None,
        user: None,
        confined: true,
    }
}

async fn spawn(tree: &Tree, parent: Pid, name: &str, role: ProcessRole) -> Result<Pid, String> {
    tree.spawn(Pid::OPERATOR, spawn_order(parent, name, role)).await.map_err(text)
}

fn message(to: Pid, kind: &str, body: &str) -> MessageOrder {
    MessageOrder {
        to: Recipient::Process(to),
        kind: kind.into(),
        priority: MessagePriority::Normal,
        body: body.as_bytes().to_vec(),
        requires_ack: false,
        ttl: None,
        reply_to: None,
    }
}

async fn next(reader: &mut Subscription) -> Result<ReceivedMessage, String> {
    let next = tokio::time::timeout(Duration::from_secs(10), reader.next()).await.map_err(|_| "no message came")?;
    next.ok_or_else(|| "the mailbox was closed".into())
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) -> Result<(), String> {
    let begun = Instant::now();
    while !holds() {
        if begun.elapsed() > Duration::from_secs(10) {
            return Err(format!("it never came to be: {what}"));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

async fn routes(kernel: Arc<Kernel>) -> Result<(), String> {
    let tree = &kernel.tree;
    let lead = spawn(tree, Pid::KERNEL, "lead", ProcessRole::Lead).await?;
    let one = spawn(tree, lead, "one", ProcessRole::Worker).await?;
    let two = spawn(tree, lead, "two", ProcessRole::Worker).await?;
    let task = spawn(tree, two, "task", ProcessRole::Task).await?;
    tree.send(one, MessageOrder { reply_to: Some("q-1".into()), ..message(two, "hello", "from one") }).await.map_err(text)?;
    let inbox = tree.inbox(two, two).await.map_err(text)?;
    let [got] = &inbox[..] else { return Err(format!("{inbox:?}")) };
    assert_eq!((got.message.from, &*got.message.from_name, &*got.body), (one, "one", &b"from one"[..]));
    assert_eq!((got.message.reply_to.as_deref(), got.message.sent_ms > 0), (Some("q-1"), true));
    let seen = tree.inbox(lead, lead).await.map_err(text)?;
    assert_eq!(seen.iter().map(|one| (&*one.message.kind, &*one.body)).collect::<Vec<_>>(), [("sibling_traffic:hello", &b"from one"[..])]);
    assert_eq!(refusal(tree.send(one, message(task, "x", "")).await)?.code, Code::Denied, "below a sibling");
    assert_eq!(refusal(tree.send(task, message(one, "x", "")).await)?.code, Code::Denied, "a task speaks with its parent");
    tree.send(task, message(two, "result", "42")).await.map_err(text)?;
    assert_eq!(refusal(tree.inbox(one, two).await)?.code, Code::Denied, "a mailbox is its own");
    tree.inbox(lead, two).await.map_err(text)?;
    tree.inbox(Pid::OPERATOR, one).await.map_err(text)?;
    let gone = refusal(tree.send(one, message(Pid(999), "x", "")).await)?;
    assert_eq!(gone.code, Code::NotFound, "{gone}");
    Ok(())
}

async fn order(kernel: Arc<Kernel>) -> Result<(), String> {
    let tree = &kernel.tree;
    let lead = spawn(tree, Pid::KERNEL, "lead", ProcessRole::Lead).await?;
    let one = spawn(tree, lead, "one", ProcessRole::Worker).await?;
    let two = spawn(tree, lead, "two", ProcessRole::Worker).await?;
    let task = spawn(tree, one, "task", ProcessRole::Task).await?;
    let urgent = |order: MessageOrder, priority| MessageOrder { priority, ..order };
    tree.send(task, urgent(message(one, "child", ""), MessagePriority::Critical)).await.map_err(text)?;
    tree.send(two, message(one, "sibling-1", "")).await.map_err(text)?;
    tree.send(two, urgent(message(one, "sibling-low", ""), MessagePriority::Low)).await.map_err(text)?;
    tree.send(two, urgent(message(one, "sibling-high", ""), MessagePriority::High)).await.map_err(text)?;
    tree.send(lead, message(one, "parent", "")).await.map_err(text)?;
    tree.send(Pid::OPERATOR, urgent(message(one, "operator", ""), MessagePriority::Low)).await.map_err(text)?;
    tree.send(two, message(one, "sibling-2", "")).await.map_err(text)?;
    let mut reader = tree.subscribe(one, QueueFilter::default()).await.map_err(text)?;
    let mut kinds = Vec::new();
    for _ in 0..7 {
        kinds.push(next(&mut reader).await?.message.kind);
    }
    assert_eq!(kinds, ["operator", "parent", "sibling-high", "sibling-1", "sibling-2", "sibling-low", "child"]);
    Ok(())
}

async fn expiry(kernel: Arc<Kernel>) -> Result<(), String> {
    let tree = &kernel.tree;
    let one = spawn(tree, Pid::KERNEL, "one", ProcessRole::Agent).await?;
    let lasting = tree.send(Pid::OPERATOR, message(one, "lasting", "stays")).await.map_err(text)?;
    let short = MessageOrder { ttl: Some(Duration::from_millis(30)), ..message(one, "short", "goes") };
    let short = tree.send(Pid::OPERATOR, short).await.map_err(text)?;
    until("the message is over", || kernel.ledger.look(|world| world.mail.dead.len() == 1)).await?;
    let dead = tree.dead_letters(Pid::OPERATOR, None).await.map_err(text)?;
    assert_eq!(dead.iter().map(|letter| (letter.message.id, letter.why)).collect::<Vec<_>>(), [(short, DropReason::Expired)]);
    let left: Vec<_> = tree.inbox(one, one).await.map_err(text)?.into_iter().map(|one| one.message.id).collect();
    assert_eq!(left, [lasting]);
    let bodies = kernel.ledger.bodies(&[lasting, short]).map_err(text)?;
    assert_eq!(bodies, [Some(b"stays".to_vec()), None], "a body goes with its message");
    assert_eq!(refusal(tree.dead_letters(one, Some(Pid::OPERATOR)).await)?.code, Code::Denied);
    Ok(())
}

async fn filters(kernel: Arc<Kernel>) -> Result<(), String> {
    let tree = &kernel.tree;
    let one = spawn(tree, Pid::KERNEL, "one", ProcessRole::Agent).await?;
    let wanted = QueueFilter { kind: Some("wanted".into()), min_priority: Some(MessagePriority::High), ..QueueFilter::default() };
    let mut reader = tree.subscribe(one, wanted).await.map_err(text)?;
    for _ in 0..20 {
        tree.send(Pid::OPERATOR, message(one, "other", "")).await.map_err(text)?;
        tree.send(Pid::OPERATOR, message(one, "wanted", "not urgent")).await.map_err(text)?;
    }
    assert!(tokio::time::timeout(Duration::from_millis(50), reader.next()).await.is_err(), "nothing is for it");
    let urgent = MessageOrder { priority: MessagePriority::Critical, ..message(one, "wanted", "urgent") };
    let sent = tree.send(Pid::OPERATOR, urgent).await.map_err(text)?;
    assert_eq!(next(&mut reader).await?.message.id, sent);
    // What it took is on record as taken when it has closed.
    reader.close().await.map_err(text)?;
    assert_eq!(tree.inbox(one, one).await.map_err(text)?.len(), 40, "the rest waits");

    let to_queue = |body: &str| MessageOrder { to: Recipient::Queue("results".into()), ..message(one, "result", body) };
    let parent = spawn(tree, Pid::KERNEL, "parent", ProcessRole::Lead).await?;
    let child = spawn(tree, parent, "child", ProcessRole::Worker).await?;
    let task = spawn(tree, child, "task", ProcessRole::Task).await?;
    tree.send(task, to_queue("of a task")).await.map_err(text)?;
    tree.send(child, to_queue("of the child")).await.map_err(text)?;
    let queue = QueueFilter { queue: Some("results".into()), ..QueueFilter::default() };
    let mut reader = tree.subscribe(parent, queue.clone()).await.map_err(text)?;
    assert_eq!(next(&mut reader).await?.body, b"of the child", "a queue is no way round the routes");
    assert!(tokio::time::timeout(Duration::from_millis(50), reader.next()).await.is_err());
    let mut reader = tree.subscribe(child, queue).await.map_err(text)?;
    assert_eq!(next(&mut reader).await?.body, b"of a task");
    Ok(())
}

async fn sizes(kernel: Arc<Kernel>) -> Result<(), String> {
    let tree = &kernel.tree;
    let one = spawn(tree, Pid::KERNEL, "one", ProcessRole::Agent).await?;
    let large = MessageOrder { body: vec![7; 4 * 1024 * 1024 + 1], ..message(one, "x", "") };
    assert_eq!(refusal(tree.send(Pid::OPERATOR, large).await)?.code, Code::TooLarge);
    assert_eq!(refusal(tree.send(Pid::OPERATOR, message(one, &"k".repeat(257), "")).await)?.code, Code::TooLarge);
    let unnamed = MessageOrder { to: Recipient::Queue(String::new()), ..message(one, "x", "") };
    assert_eq!(refusal(tree.send(Pid::OPERATOR, unnamed).await)?.code, Code::BadInput);
    for len in [0, 1, 4096, 4097, 100_000] {
        tree.send(Pid::OPERATOR, MessageOrder { body: vec![7; len], ..message(one, "sized", "") }).await.map_err(text)?;
    }
    let mut reader = tree.subscribe(one, QueueFilter::default()).await.map_err(text)?;
    for len in [0, 1, 4096, 4097, 100_000] {
        let got = next(&mut reader).await?;
        assert_eq!((got.body.len(), got.message.blob.is_some()), (len, len > 4096));
    }
    let artifact =
        |key: &str, content| ArtifactOrder { key: key.into(), content, content_type: "text/plain".into(), visibility: Visibility::Global };
    assert_eq!(refusal(tree.store(one, artifact("", vec![1])).await)?.code, Code::BadInput);
    assert_eq!(refusal(tree.store(one, artifact(&"k".repeat(1025), vec![1])).await)?.code, Code::TooLarge);
    assert_eq!(refusal(tree.store(one, artifact("k", vec![1; 17 << 20])).await)?.code, Code::TooLarge);
    let issue = EscalationOrder { issue: "x".repeat(20_000), severity: Severity::Info, context: BTreeMap::new(), auto: true };
    assert_eq!(refusal(tree.escalate(one, issue).await)?.code, Code::TooLarge);
    let line = LogLine { level: "info".into(), message: "y".repeat(100_000), fields: BTreeMap::new() };
    tree.log(one, line).await.map_err(text)?;
    Ok(())
}

async fn artifacts(kernel: Arc<Kernel>) -> Result<(), String> {
    let tree = &kernel.tree;
    let lead = spawn(tree, Pid::KERNEL, "lead", ProcessRole::Lead).await?;
    let one = spawn(tree, lead, "one", ProcessRole::Worker).await?;
    let other = spawn(tree, Pid::KERNEL, "other", ProcessRole::Lead).await?;
    let task = spawn(tree, one, "task", ProcessRole::Task).await?;
    let store = |by: Pid, visibility: Visibility, content: &'static str| {
        let order = ArtifactOrder { key: "doc".into(), content: content.into(), content_type: "text/plain".into(), visibility };
        tree.store(by, order)
    };
    store(lead, Visibility::Private, "private").await.map_err(text)?;
    let subtree = store(lead, Visibility::Subtree, "subtree").await.map_err(text)?;
    let read = |by: Pid| async move {
        let found = tree.artifact(by, ArtifactQuery::Key("doc".into())).await.map_err(text)?;
        Ok::<_, String>(found.map(|found| String::from_utf8_lossy(&found.content).into_owned()))
    };
    assert_eq!(read(lead).await?.as_deref(), Some("private"));
    assert_eq!(read(one).await?.as_deref(), Some("subtree"));
    assert_eq!(read(other).await?, None);
    assert_eq!(refusal(tree.artifact(other, ArtifactQuery::Id(subtree)).await)?.code, Code::Denied);
    store(one, Visibility::Global, "global").await.map_err(text)?;
    assert_eq!(read(other).await?.as_deref(), Some("global"));
    assert_eq!(refusal(store(other, Visibility::Global, "taken").await)?.code, Code::Denied, "the key has an owner");
    store(one, Visibility::Global, "global 2").await.map_err(text)?;
    let listed = tree.artifacts(other, "do", None).await.map_err(text)?;
    assert_eq!(listed.iter().map(|artifact| (artifact.owner, artifact.version)).collect::<Vec<_>>(), [(one, 2)]);
    assert_eq!(refusal(store(task, Visibility::Private, "x").await)?.code, Code::Denied, "a task stores nothing");
    assert_eq!(refusal(tree.remove_artifact(other, listed[0].id).await)?.code, Code::Denied);
    tree.remove_artifact(one, listed[0].id).await.map_err(text)?;
    assert_eq!(read(other).await?.as_deref(), Some("global"), "the version before");
    Ok(())
}

async fn escalation(kernel: Arc<Kernel>) -> Result<(), String> {
    let tree = &kernel.tree;
    let lead = spawn(tree, Pid::KERNEL, "lead", ProcessRole::Lead).await?;
    let one = spawn(tree, lead, "one", ProcessRole::Worker).await?;
    let trouble = |auto| EscalationOrder { issue: "disk is full".into(), severity: Severity::Critical, context: BTreeMap::new(), auto };
    let first = tree.escalate(one, trouble(false)).await.map_err(text)?;
    assert_eq!((first.with, first.is_handled, first.review), (lead, false, None), "it waits with the one above");
    let inbox = tree.inbox(lead, lead).await.map_err(text)?;
    assert_eq!(inbox.iter().map(|one| &*one.message.kind).collect::<Vec<_>>(), ["escalation"]);
    assert_eq!(refusal(tree.answer_escalation(one, first.escalation, Some("me".into())).await)?.code, Code::Denied);
    tree.answer_escalation(lead, first.escalation, Some("cleaned up".into())).await.map_err(text)?;
    let handled = kernel.ledger.look(|world| world.escalations[&first.escalation].handled.clone());
    assert_eq!(handled.map(|answer| (answer.by, answer.response)), Some((lead, "cleaned up".into())));

    let second = tree.escalate(one, trouble(true)).await.map_err(text)?;
    let review = second.review.ok_or("nobody was asked")?;
    kernel.answer(review, Reply::yes(), "human", Some("buy a disk".into())).await.map_err(text)?;
    let id = second.escalation;
    until("the answer is heeded", || kernel.ledger.look(|world| world.escalations[&id].handled.is_some())).await?;
    let handled = kernel.ledger.look(|world| world.escalations[&id].handled.clone());
    assert_eq!(handled.map(|answer| (answer.by, answer.response)), Some((Pid::OPERATOR, "buy a disk".into())));
    let told: Vec<_> = tree.inbox(one, one).await.map_err(text)?.into_iter().map(|one| one.message.kind).collect();
    assert_eq!(told, ["escalation_handled", "escalation_handled"]);
    Ok(())
}

fn budget(tokens: u64) -> Budget {
    Budget { tokens: BTreeMap::from([("all".to_owned(), tokens)]), ..Budget::default() }
}

async fn resources(kernel: Arc<Kernel>) -> Result<(), String> {
    let tree = &kernel.tree;
    let lead = SpawnOrder { budget: Some(budget(1_000)), ..spawn_order(Pid::KERNEL, "lead", ProcessRole::Lead) };
    let lead = tree.spawn(Pid::OPERATOR, lead).await.map_err(text)?;
    let one = SpawnOrder { budget: Some(budget(100)), ..spawn_order(lead, "one", ProcessRole::Worker) };
    let one = tree.spawn(Pid::OPERATOR, one).await.map_err(text)?;
    let given = tree.request(one, "tokens", 10, "a little more").await.map_err(text)?;
    assert_eq!((given.granted, given.amount), (true, 10), "{}", given.reason);
    assert_eq!(tree.usage(one).map_err(text)?.tokens_left, Some(110), "it adds");
    let whole = tree.request(one, "tokens", 890, "all").await.map_err(text)?;
    assert!(whole.granted, "{}", whole.reason);
    let more = tree.request(one, "tokens", 1, "beyond").await.map_err(text)?;
    assert_eq!((more.granted, more.amount), (false, 0), "{}", more.reason);
    assert_eq!(tree.usage(one).map_err(text)?.tokens_left, Some(1_000));
    assert_eq!(refusal(tree.request(one, "gold", 1, "").await)?.code, Code::BadInput);
    Ok(())
}

async fn claims(kernel: Arc<Kernel>) -> Result<(), String> {
    let tree = &kernel.tree;
    let one = SpawnOrder { budget: Some(budget(100)), ..spawn_order(Pid::KERNEL, "one", ProcessRole::Agent) };
    let one = tree.spawn(Pid::OPERATOR, one).await.map_err(text)?;
    tree.metric(one, "tokens_consumed", 30.0).await.map_err(text)?;
    tree.metric(one, "tokens_consumed", 20.0).await.map_err(text)?;
    assert_eq!(tree.info(one, one).map_err(text)?.tokens, 50);
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(refusal(tree.metric(one, "tokens_consumed", bad).await)?.code, Code::BadInput);
    }
    assert!(tree.inbox(one, one).await.map_err(text)?.is_empty(), "control: nothing was told yet");
    tree.metric(one, "tokens_consumed", 60.0).await.map_err(text)?;
    assert_eq!(tree.usage(one).map_err(text)?.tokens_left, Some(0));
    let told = tree.inbox(one, one).await.map_err(text)?;
    assert_eq!(told.first().map(|one| &*one.message.kind), Some("budget_exceeded"));
    Ok(())
}

async fn events(kernel: Arc<Kernel>) -> Result<(), String> {
    let tree = &kernel.tree;
    let mut follower = tree.events(Pid::OPERATOR, None);
    let lead = spawn(tree, Pid::KERNEL, "lead", ProcessRole::Lead).await?;
    let one = spawn(tree, lead, "one", ProcessRole::Worker).await?;
    let sent = tree.send(one, message(lead, "report", "done")).await.map_err(text)?;
    let mut reader = tree.subscribe(lead, QueueFilter::default()).await.map_err(text)?;
    next(&mut reader).await?;
    let fields = BTreeMap::from([("event_type".to_owned(), "llm_call".to_owned()), ("model".to_owned(), "m".to_owned())]);
    tree.log(one, LogLine { level: "info".into(), message: "asked".into(), fields }).await.map_err(text)?;
    let mut seen = Vec::new();
    while seen.len() < 5 {
        let next = tokio::time::timeout(Duration::from_secs(10), follower.next()).await.map_err(|_| format!("only {seen:?}"))?;
        seen.push(next.ok_or("it ended")?);
    }
    let kinds: Vec<&str> = seen.iter().map(|event| &*event.kind).collect();
    assert_eq!(kinds, ["spawned", "spawned", "message_sent", "message_delivered", "llm_call"]);
    let of_message = &seen[2];
    assert_eq!((of_message.pid, of_message.ppid, &*of_message.name, &*of_message.role), (one.0, lead.0, "one", "lead"));
    assert_eq!((&*of_message.message, &*of_message.message_id), ("report", &*sent.to_string()));
    assert_eq!((seen[3].pid, seen[3].ppid, &*seen[3].message_id), (lead.0, one.0, &*sent.to_string()));
    assert_eq!((&*seen[4].role, seen[4].fields.get("model").map(String::as_str)), ("worker", Some("m")));
    let said = kernel.ledger.read(&Filter { kinds: vec!["proc.logged".into()], ..Filter::default() }).map_err(text)?;
    assert!(said.len() == 1 && said[0].line.contains("asked"), "{said:?}");
    assert_eq!((&*of_message.payload_preview, &*of_message.trace_id), ("done", ""));
    let mut again = tree.events(Pid::OPERATOR, Some(seen[1].seq));
    let first = tokio::time::timeout(Duration::from_secs(10), again.next()).await.map_err(text)?.ok_or("it ended")?;
    assert_eq!((first.seq, &*first.kind), (seen[2].seq, "message_sent"), "from a record on");
    Ok(())
}

async fn previews(kernel: Arc<Kernel>) -> Result<(), String> {
    let tree = &kernel.tree;
    let lead = spawn(tree, Pid::KERNEL, "lead", ProcessRole::Lead).await?;
    let one = spawn(tree, lead, "one", ProcessRole::Worker).await?;
    let stranger = spawn(tree, Pid::KERNEL, "stranger", ProcessRole::Agent).await?;
    kernel.ledger.redactor.register("hunter2-the-secret");
    let mut followers = [Pid::OPERATOR, lead, stranger].map(|by| tree.events(by, None));
    let body = r#"{"trace_id": "t-7", "trace_span": "s-1", "text": "the key is hunter2-the-secret"}"#;
    tree.send(one, message(lead, "report", body)).await.map_err(text)?;
    let mut reader = tree.subscribe(lead, QueueFilter::default()).await.map_err(text)?;
    next(&mut reader).await?;
    drop(reader);
    let mut seen = Vec::new();
    for follower in &mut followers {
        for _ in 0..2 {
            let event = tokio::time::timeout(Duration::from_secs(10), follower.next()).await.map_err(text)?.ok_or("it ended")?;
            seen.push([event.kind, event.payload_preview, event.trace_id, event.trace_span]);
        }
    }
    let shown = r#"{"text":"the key is [redacted]","trace_id":"t-7","trace_span":"s-1"}"#;
    let both = |of: [&str; 3]| ["message_sent", "message_delivered"].map(|kind| [kind, of[0], of[1], of[2]].map(str::to_owned));
    assert_eq!(seen[..4], [both([shown, "t-7", "s-1"]), both([shown, "t-7", "s-1"])].concat());
    assert_eq!(seen[4..], both(["", "", ""]), "between others, a stranger sees that there was one");
    Ok(())
}

fn denied() -> Result<(), String> {
    let launcher = Launcher::start().map_err(text)?;
    let bed = Bed::new(&[])?;
    runtime()?.block_on(async {
        let kernel = bed.boot(launcher).await.map_err(text)?;
        let one = spawn(&kernel.tree, Pid::KERNEL, "one", ProcessRole::Agent).await?;
        let two = spawn(&kernel.tree, Pid::KERNEL, "two", ProcessRole::Agent).await?;
        kernel.tree.send(one, message(two, "x", "")).await.map_err(text)?;
        let admitted =
            kernel.ledger.read(&Filter { kinds: vec!["call.admitted".into()], pid: Some(one.0), ..Filter::default() }).map_err(text)?;
        assert!(admitted[0].line.contains("builtin:tree"), "{}", admitted[0].line);
        let policy = "capabilities:\n  - {name: quiet, match: {syscall: message.send}, action: deny, reason: be quiet}\n";
        bed.write_home("policy.yaml", policy)?;
        let proposal = kernel.gate.policies.home_proposal().map_err(text)?;
        kernel.gate.trust_home(&proposal.hash, None).await.map_err(text)?;
        let quiet = refusal(kernel.tree.send(one, message(two, "x", "")).await)?;
        assert_eq!(quiet.code, Code::Denied);
        assert!(quiet.reason.contains("home:quiet"), "{}", quiet.reason);
        kernel.tree.info(one, two).map(drop).map_err(text)
    })
}

fn restart() -> Result<(), String> {
    let launchers = [Launcher::start().map_err(text)?, Launcher::start().map_err(text)?];
    let bed = Bed::new(&[])?;
    let [first, second] = launchers;
    runtime()?.block_on(async {
        let kernel = bed.boot(first).await.map_err(text)?;
        let one = spawn(&kernel.tree, Pid::KERNEL, "one", ProcessRole::Agent).await?;
        let mut sent = BTreeSet::new();
        for at in 0..20 {
            sent.insert(kernel.tree.send(Pid::OPERATOR, message(one, "n", &at.to_string())).await.map_err(text)?);
        }
        let mut reader = kernel.tree.subscribe(one, QueueFilter::default()).await.map_err(text)?;
        let mut got = BTreeSet::new();
        for _ in 0..5 {
            got.insert(next(&mut reader).await?.message.id);
        }
        drop(reader);
        until("what was not taken waits again", || kernel.ledger.look(|world| world.mail.waiting(&Recipient::Process(one)) == 15)).await?;
        kernel.stop("test").await.map_err(text)?;
        drop(kernel);
        let kernel = bed.boot(second).await.map_err(text)?;
        let mut reader = kernel.tree.subscribe(one, QueueFilter::default()).await.map_err(text)?;
        for at in 5..20 {
            let next = next(&mut reader).await?;
            assert_eq!(next.body, at.to_string().into_bytes());
            assert!(got.insert(next.message.id), "{} came twice", next.message.id);
        }
        assert_eq!(got, sent);
        Ok(())
    })
}

fn cron() -> Result<(), String> {
    let launchers = [Launcher::start().map_err(text)?, Launcher::start().map_err(text)?];
    let bed = Bed::new(&[])?;
    let [first, second] = launchers;
    let spec = |target: Pid, expression: &str| CronSpec {
        name: "tick".into(),
        expression: expression.into(),
        timezone: String::new(),
        action: CronAction::Message,
        target,
        description: "look".into(),
        params: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        program: None,
        enabled: true,
        overlap: OverlapRule::Skip,
        missed: MissedRule::Skip,
        jitter_ms: 0,
    };
    runtime()?.block_on(async {
        let kernel = bed.boot(first).await.map_err(text)?;
        let one = spawn(&kernel.tree, Pid::KERNEL, "one", ProcessRole::Agent).await?;
        let bad = refusal(kernel.tree.cron_add(Pid::OPERATOR, spec(one, "99 * * * *")).await)?;
        assert_eq!(bad.code, Code::BadInput);
        let cron = kernel.tree.cron_add(Pid::OPERATOR, spec(one, "* * * * * *")).await.map_err(text)?;
        let far = kernel.tree.cron_add(Pid::OPERATOR, spec(one, "0 0 1 1 *")).await.map_err(text)?;
        let mut reader = kernel.tree.subscribe(one, QueueFilter::default()).await.map_err(text)?;
        for _ in 0..2 {
            let got = next(&mut reader).await?;
            assert_eq!((&*got.message.kind, got.message.from), ("cron_task", Pid::KERNEL));
            assert_eq!(String::from_utf8_lossy(&got.body), r#"{"description":"look","params":{"a":"b"}}"#);
        }
        drop(reader);
        let entry = kernel.tree.cron_list().into_iter().find(|entry| entry.id == cron).ok_or("no entry")?;
        assert!(entry.last.is_some());
        kernel.stop("test").await.map_err(text)?;
        drop(kernel);
        let kernel = bed.boot(second).await.map_err(text)?;
        let mut reader = kernel.tree.subscribe(one, QueueFilter::default()).await.map_err(text)?;
        assert_eq!(next(&mut reader).await?.message.kind, "cron_task", "it goes on");
        let entries = kernel.tree.cron_list();
        assert_eq!(entries.iter().map(|entry| entry.id).collect::<Vec<_>>(), [cron, far]);
        assert!(entries.iter().all(|entry| entry.next_ms.is_some()));
        kernel.tree.cron_remove(Pid::OPERATOR, cron).await.map_err(text)?;
        kernel.tree.cron_run(Pid::OPERATOR, far).await.map_err(text)?;
        until("the run that was asked for ends", || {
            let entry = kernel.ledger.look(|world| world.crons[&far].clone());
            entry.running == 0 && entry.last.is_some_and(|last| last.exit_code == Some(0))
        })
        .await?;
        assert_eq!(refusal(kernel.tree.cron_run(Pid::OPERATOR, cron).await)?.code, Code::NotFound);
        Ok(())
    })
}
