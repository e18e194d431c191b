//! What a session's steps run with, what its task wants in the end, how long it may take, and what a cut-off step becomes.

use super::steps::{ended, plan, settled, start, step};
use super::{SECRET, terms};
use kernel::Reply;
use std::sync::Arc;
use std::time::Duration;
use testkit::harness::Test;
use testkit::stage::{self, Setup, Stage};
use world::{Event, SessionTerms, StepStatus, Task, TaskId, TaskState};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("a_step_runs_with_its_exact_input", || play(exact_input)),
        Test::new("what_a_step_gave_is_handed_on_exactly", || play(handed_on)),
        Test::new("what_is_not_kept_any_more_is_never_run", || play(gone)),
        Test::new("what_a_task_wants_is_asked_of_the_end", || play(criteria)),
        Test::new("a_failed_session_stays_failed", || play(stays_failed)),
        Test::new("a_sessions_time_goes_on_through_its_resumes", || play(time_adds_up)),
        Test::new("steps_that_meet_behind_a_link_are_ordered", || play(links)),
        Test::new("a_link_that_a_step_makes_counts_from_then_on", || play(new_links)),
        Test::new("a_step_that_an_abort_cut_off_asks_before_it_is_made_again", || play(cut_off)),
        Test::new("a_plan_file_is_asked_for_no_more_plans_than_it_has", || play(bounded_file)),
        Test::new("a_refused_call_names_its_step", || play(refused_step)),
    ]
}

fn play<F: Future<Output = Result<(), String>>>(test: impl FnOnce(Arc<Stage>) -> F) -> Result<(), String> {
    let policy = "  - { name: no, match: { syscall: fs.write, path_glob: 'no/**' }, action: deny, reason: never }\n  \
        - { name: runs, match: { syscall: '*' }, action: allow }\n  \
        - { name: merges, match: { syscall: merge.apply }, action: require_review, reason: look }\n";
    let files = vec![("a.txt".into(), format!("old {SECRET}\n")), ("long.txt".into(), "a l\u{f6}ng line\n".repeat(2_000))];
    stage::play(Setup { policy: policy.to_owned(), files, ..Setup::default() }, test)
}

/// Waits until it proposes its changes, and lets them in.
async fn merged(stage: &Stage, id: TaskId) -> Result<Task, String> {
    let task = settled(&stage.kernel, id).await?;
    let TaskState::Parked { review } = task.state else {
        return Err(format!("{id} is {}: {:?}", task.state.as_str(), task.summary));
    };
    stage.answer(review, Reply::yes()).await?;
    ended(stage, id).await
}

fn read(stage: &Stage, path: &str) -> Result<String, String> {
    std::fs::read_to_string(stage.bed.project().join(path)).map_err(|error| format!("{path}: {error}"))
}

/// Nothing that anybody may read has the secret, and nothing is left in the vault.
fn is_clean(stage: &Stage) -> Result<(), String> {
    let ledger = &stage.kernel.ledger;
    for event in stage.events()? {
        let line = serde_json::to_string(&event).map_err(|error| error.to_string())?;
        assert!(!line.contains(SECRET), "{line}");
        let blob = match event {
            Event::PlanReceived(e) => Some(e.blob),
            Event::PlanAccepted(e) => Some(e.blob),
            _ => None,
        };
        if let Some(blob) = blob {
            let text = ledger.blob(&blob).map_err(|fault| fault.to_string())?;
            assert!(!String::from_utf8_lossy(&text).contains(SECRET), "a blob has it");
        }
    }
    let left = std::fs::read_dir(stage.bed.home().join("vault")).map_err(|error| error.to_string())?.count();
    assert_eq!(left, 0, "what was kept exactly goes with its session");
    Ok(())
}

async fn exact_input(stage: Arc<Stage>) -> Result<(), String> {
    let write = step("w", "fs.write", &format!("{{\"path\": \"b.txt\", \"content\": \"password={SECRET}\\n\"}}"), &[]);
    let run = step("r", "shell.run", &format!("{{\"command\": [\"sh\", \"-c\", \"printf '%s' {SECRET} > c.txt\"]}}"), &["w"]);
    let id = start(&stage, terms(), plan([write, run])).await?;
    merged(&stage, id).await?;
    assert_eq!((read(&stage, "b.txt")?, read(&stage, "c.txt")?), (format!("password={SECRET}\n"), SECRET.to_owned()));
    is_clean(&stage)
}

fn copy(id: &str, from: &str, to: &str) -> [String; 2] {
    let reads = step(id, "fs.read", &format!("{{\"path\": \"{from}\"}}"), &[]);
    let writes = format!(
        "{{\"step_id\": \"{id}-copy\", \"tool_ref\": {{\"name\": \"fs.write\"}}, \"input\": {{\"path\": \"{to}\"}}, \"input_from\": {{\"content\": \"{id}.content\"}}}}"
    );
    [reads, writes]
}

/// A file with a secret, and one that is longer than what a record holds, with letters that a terminal shows otherwise.
async fn handed_on(stage: Arc<Stage>) -> Result<(), String> {
    let steps = copy("secret", "a.txt", "b.txt").into_iter().chain(copy("long", "long.txt", "c.txt"));
    let id = start(&stage, terms(), plan(steps)).await?;
    merged(&stage, id).await?;
    assert_eq!(read(&stage, "b.txt")?, read(&stage, "a.txt")?);
    assert_eq!(read(&stage, "c.txt")?, read(&stage, "long.txt")?);
    is_clean(&stage)?;
    // Of what its tool gave only a part the rest is missed, and no part is taken for the whole.
    std::fs::write(stage.bed.project().join("huge.txt"), "a line\n".repeat(100_000)).map_err(|error| error.to_string())?;
    let id = start(&stage, terms(), plan(copy("huge", "huge.txt", "d.txt"))).await?;
    let task = settled(&stage.kernel, id).await?;
    assert!(task.summary.as_deref().is_some_and(|why| why.contains("is cut short")), "{:?}", task.summary);
    Ok(())
}

/// A session that was aborted has lost its exact plan. Resumed, it does what can be done, and never what is left of a secret.
async fn gone(stage: Arc<Stage>) -> Result<(), String> {
    let steps = [
        // It asks, and so stands before the other one.
        step("ask", "fs.list", "{\"path\": \".\"}", &[]),
        step("w", "fs.write", &format!("{{\"path\": \"b.txt\", \"content\": \"password={SECRET}\"}}"), &["ask"]),
    ];
    let id = start(&stage, terms(), plan(steps)).await?;
    assert!(matches!(settled(&stage.kernel, id).await?.state, TaskState::Parked { .. }));
    stage.kernel.cancel(id, "test").await.map_err(|stop| stop.to_string())?;
    is_clean(&stage)?;
    stage.kernel.retry(id, None, "test").await.map_err(|stop| stop.to_string())?;
    let TaskState::Parked { review } = settled(&stage.kernel, id).await?.state else { return Err("it was not asked about".to_owned()) };
    stage.answer(review, Reply::yes()).await?;
    let task = settled(&stage.kernel, id).await?;
    assert_eq!(task.state, TaskState::Failed, "{:?}", task.summary);
    let begun = task.session.and_then(|session| session.plan).map(|plan| plan.begun).ok_or("it has no plan")?;
    let code = begun.get("w").and_then(|step| step.error.as_deref()).map(|error| (error.code.as_str(), error.karnevil9.as_str()));
    assert_eq!(code, Some(("input_gone", "INVALID_INPUT")), "{begun:?}");
    Ok(())
}

async fn criteria(stage: Arc<Stage>) -> Result<(), String> {
    let wants = |criterion: &str| {
        let mut terms = terms();
        terms.constraints.success_criteria = vec![criterion.to_owned()];
        terms
    };
    let run = |code: u8| plan([step("build", "shell.run", &format!("{{\"command\": [\"sh\", \"-c\", \"echo {code}\"]}}"), &[])]);
    for (criterion, state) in [
        ("build.stdout contains '1'", TaskState::Done),
        ("build.stdout contains '2'", TaskState::Failed),
        ("tests.exit_code == 0", TaskState::Failed),
    ] {
        let id = start(&stage, wants(criterion), run(1)).await?;
        let task = settled(&stage.kernel, id).await?;
        assert_eq!(task.state, state, "{criterion}: {:?}", task.summary);
        let is_told = task.summary.as_deref().is_some_and(|summary| summary.contains(criterion));
        assert_eq!(is_told, state == TaskState::Failed, "{:?}", task.summary);
    }
    // The last word of a step counts: of an agentic session's plans the newest.
    let agentic = format!(
        "{}\n---\n{}\n---\n{{\"schema_version\": \"0.1\", \"goal\": \"over\", \"steps\": []}}",
        run(2).replace('\n', " "),
        run(1).replace('\n', " ")
    );
    for (criterion, state) in [("build.stdout contains '1'", TaskState::Done), ("build.stdout contains '2'", TaskState::Failed)] {
        let id = start(&stage, SessionTerms { agentic: true, ..wants(criterion) }, agentic.clone()).await?;
        assert_eq!(settled(&stage.kernel, id).await?.state, state, "{criterion}");
    }
    Ok(())
}

async fn stays_failed(stage: Arc<Stage>) -> Result<(), String> {
    let mut limited = terms();
    (limited.limits.max_steps, limited.critics) = (1, false);
    let two = [step("one", "fs.read", "{\"path\": \"a.txt\"}", &[]), step("two", "fs.read", "{\"path\": \"a.txt\"}", &["one"])];
    let id = start(&stage, limited, plan(two)).await?;
    let failed = settled(&stage.kernel, id).await?;
    assert_eq!(failed.state, TaskState::Failed, "{:?}", failed.summary);
    let no = stage.kernel.retry(id, None, "test").await.map(drop).map_err(|stop| stop.to_string());
    assert!(no.as_ref().is_err_and(|why| why.contains("that is its end") && why.contains("max_steps")), "{no:?}");
    assert_eq!(settled(&stage.kernel, id).await?.state, TaskState::Failed);
    Ok(())
}

/// Aborted and resumed, it has only what was left.
async fn time_adds_up(stage: Arc<Stage>) -> Result<(), String> {
    let mut limited = terms();
    limited.limits.max_duration_ms = Some(2_000);
    let id = start(&stage, limited, plan([step("s", "search.grep", "{\"pattern\": \"x\"}", &[]), sleeps("t", "1.2"), sleeps("u", "1.2")]))
        .await?;
    let runs =
        |nth: usize| stage.events().is_ok_and(|all| all.iter().filter(|event| matches!(event, Event::StepStarted(_))).count() >= nth);
    while !runs(2) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(900)).await;
    stage.kernel.cancel(id, "test").await.map_err(|stop| stop.to_string())?;
    let worked = |task: &Task| task.session.as_deref().map_or(0, |session| session.worked_ms);
    let before = worked(&settled(&stage.kernel, id).await?);
    assert!((900..2_000).contains(&before), "{before}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    stage.kernel.retry(id, None, "test").await.map_err(|stop| stop.to_string())?;
    // The step that was cut off asks first; that time is the person's.
    let TaskState::Parked { review } = settled(&stage.kernel, id).await?.state else { return Err("it was not asked about".to_owned()) };
    stage.answer(review, Reply::yes()).await?;
    let task = settled(&stage.kernel, id).await?;
    assert_eq!(task.state, TaskState::Failed, "{:?}", task.summary);
    assert!(task.summary.as_deref().is_some_and(|why| why.contains("its time is over")), "{:?}", task.summary);
    assert!((2_000..4_000).contains(&worked(&task)), "{}", worked(&task));
    Ok(())
}

fn sleeps(id: &str, time: &str) -> String {
    step(id, "shell.run", &format!("{{\"command\": [\"sleep\", \"{time}\"]}}"), &[])
}

/// The steps in the order in which they began and ended.
fn course(stage: &Stage, id: TaskId) -> Result<Vec<String>, String> {
    let told = stage.events()?.into_iter().filter_map(|event| match event {
        Event::StepStarted(e) if e.task == Some(id) => Some(format!("+{}", e.step)),
        Event::StepFinished(e) if e.task == Some(id) => Some(format!("-{}", e.step)),
        _ => None,
    });
    Ok(told.collect())
}

/// Of two names for one file the later step of the plan waits for the earlier one.
async fn links(stage: Arc<Stage>) -> Result<(), String> {
    let project = stage.bed.project();
    std::fs::create_dir(project.join("real")).map_err(|error| error.to_string())?;
    for (target, link) in [("a.txt", "link.txt"), ("real", "folder")] {
        std::os::unix::fs::symlink(target, project.join(link)).map_err(|error| error.to_string())?;
    }
    let write = |id: &str, path: &str| step(id, "fs.write", &format!("{{\"path\": \"{path}\", \"content\": \"{id}\"}}"), &[]);
    let read = |id: &str, path: &str| step(id, "fs.read", &format!("{{\"path\": \"{path}\"}}"), &[]);
    let steps = [write("w1", "a.txt"), read("r1", "link.txt"), write("w2", "real/x"), write("w3", "folder/x"), read("other", "long.txt")];
    let id = start(&stage, terms(), plan(steps)).await?;
    merged(&stage, id).await?;
    let course = course(&stage, id)?;
    let at = |what: &str| course.iter().position(|told| told == what);
    assert!(at("-w1") < at("+r1") && at("-w2") < at("+w3"), "{course:?}");
    assert!(at("+other") < at("-w1"), "what meets nobody does not wait: {course:?}");
    assert_eq!(self::read(&stage, "real/x")?, "w3");
    Ok(())
}

async fn new_links(stage: Arc<Stage>) -> Result<(), String> {
    let write = |id: &str, path: &str| step(id, "fs.write", &format!("{{\"path\": \"{path}\", \"content\": \"{id}\"}}"), &["ln"]);
    let steps =
        [step("ln", "shell.run", "{\"command\": [\"sh\", \"-c\", \"mkdir d && ln -s d e\"]}", &[]), write("w1", "d/x"), write("w2", "e/x")];
    let id = start(&stage, terms(), plan(steps)).await?;
    let task = settled(&stage.kernel, id).await?;
    let course = course(&stage, id)?;
    let at = |what: &str| course.iter().position(|told| told == what);
    assert!(at("-w1").is_some() && at("-w1") < at("+w2"), "{course:?} {:?}", task.summary);
    Ok(())
}

/// A program that was cut off in the middle is not simply made again, also where its step may be retried and the project moved on.
async fn cut_off(stage: Arc<Stage>) -> Result<(), String> {
    let slow = "{\"step_id\": \"slow\", \"tool_ref\": {\"name\": \"shell.run\"}, \"max_retries\": 3, \"input\": {\"command\": [\"sh\", \"-c\", \
        \"echo once >> log; sleep 30\"]}}";
    let id = start(&stage, terms(), plan([slow.to_owned()])).await?;
    let runs = || stage.kernel.workspaces.rooms().iter().any(|room| room.task == id && !room.jobs.is_empty());
    while !runs() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    stage.kernel.cancel(id, "test").await.map_err(|stop| stop.to_string())?;
    let admitted = || -> Result<usize, String> {
        let of_step = |event: &Event| matches!(event, Event::CallAdmitted(call) if call.task == Some(id) && call.step.is_some());
        Ok(stage.events()?.iter().filter(|event| of_step(event)).count())
    };
    assert_eq!(admitted()?, 1);
    let git = |args: &[&str]| std::process::Command::new("git").arg("-C").arg(stage.bed.project()).args(args).output();
    std::fs::write(stage.bed.project().join("theirs.txt"), "x").map_err(|error| error.to_string())?;
    for args in [&["add", "theirs.txt"][..], &["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "on"]] {
        assert!(git(args).is_ok_and(|done| done.status.success()));
    }
    stage.kernel.retry(id, None, "test").await.map_err(|stop| stop.to_string())?;
    let task = settled(&stage.kernel, id).await?;
    let TaskState::Parked { review } = task.state else { return Err(format!("{}: {:?}", task.state.as_str(), task.summary)) };
    assert_eq!(admitted()?, 1, "nothing of it was made again before the answer");
    let reasons = stage.kernel.ledger.look(|world| world.reviews.get(&review).map(|review| review.reasons.join(" "))).unwrap_or_default();
    assert!(reasons.contains("was interrupted"), "{reasons}");
    stage.answer(review, Reply::No { alternative: None }).await?;
    let task = settled(&stage.kernel, id).await?;
    assert_eq!((task.state, admitted()?), (TaskState::Failed, 1), "{:?}", task.summary);
    Ok(())
}

async fn bounded_file(stage: Arc<Stage>) -> Result<(), String> {
    let fails =
        "{\"step_id\": \"r\", \"tool_ref\": {\"name\": \"fs.read\"}, \"input\": {\"path\": \"none\"}, \"failure_policy\": \"replan\"}";
    for agentic in [false, true] {
        let mut terms = SessionTerms { agentic, ..terms() };
        terms.limits.max_iterations = u32::MAX;
        let id = start(&stage, terms, plan([fails.to_owned()])).await?;
        let task = tokio::time::timeout(Duration::from_secs(30), settled(&stage.kernel, id)).await.map_err(|_| "it plans for ever")??;
        assert_eq!(task.state, TaskState::Failed, "{:?}", task.summary);
        let asked = stage.events()?.into_iter().filter(|event| matches!(event, Event::PlanReceived(e) if e.task == Some(id))).count();
        assert_eq!(asked, 1, "a file has the plans that it has");
    }
    Ok(())
}

async fn refused_step(stage: Arc<Stage>) -> Result<(), String> {
    let no = step("no", "fs.write", "{\"path\": \"no/x\", \"content\": \"x\"}", &[]);
    let id = start(&stage, SessionTerms { critics: false, ..terms() }, plan([no])).await?;
    let task = settled(&stage.kernel, id).await?;
    let status = task.session.and_then(|session| session.plan).and_then(|plan| plan.begun.get("no").map(|step| step.status));
    assert_eq!((task.state, status), (TaskState::Failed, Some(StepStatus::Failed)), "{:?}", task.summary);
    let refused = stage.events()?.into_iter().find_map(|event| match event {
        Event::CallRefused(refused) if refused.task == Some(id) => refused.step,
        _ => None,
    });
    assert_eq!(refused.map(|step| (step.plan, step.step, step.attempt)), Some((1, "no".to_owned(), 1)));
    Ok(())
}
