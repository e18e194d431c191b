//! Sessions executed again on their record, and sessions that go on from a step of another one.

use super::steps::{ended, plan, settled, start, step};
use super::terms;
use kernel::{Reexecution, Reply};
use std::sync::Arc;
use testkit::harness::Test;
use testkit::stage::{self, Setup, Stage};
use world::event::StepFinished;
use world::{Event, StepStatus, TaskId, TaskState};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("a_session_is_executed_again_on_its_record", || play(again)),
        Test::new("what_does_not_follow_is_told", || play(differs)),
        Test::new("a_fork_goes_on_from_a_step_with_its_workspace", || play(forked)),
        Test::new("no_fork_begins_where_something_was_being_written", || play(unforkable)),
        Test::new("a_fork_has_every_kind_of_thing_as_it_was", || play(every_kind)),
        Test::new("what_cannot_be_kept_is_said_instead_of_forked", || play(unkept)),
        Test::new("a_resumed_session_finds_its_folders_as_they_were", || played(ASKS, resumed)),
    ]
}

const ASKS: &str = "  - { name: asks, match: { syscall: fs.write }, action: require_review, reason: look }\n";
/// All that is there: what it is, its mode and where it leads.
const LISTING: &str = r"find . -mindepth 1 -path ./.git -prune -o ! -name pipe ! -name b.txt -printf '%P %y %m %l\\n' | sort";

fn play<F: Future<Output = Result<(), String>>>(test: impl FnOnce(Arc<Stage>) -> F) -> Result<(), String> {
    played("", test)
}

fn played<F: Future<Output = Result<(), String>>>(rule: &str, test: impl FnOnce(Arc<Stage>) -> F) -> Result<(), String> {
    let policy = format!(
        "{rule}  - {{ name: runs, match: {{ syscall: '*' }}, action: allow }}\n  \
        - {{ name: merges, match: {{ syscall: merge.apply }}, action: require_review, reason: look }}\n"
    );
    let files = ["a.txt", "src/x.txt", "keep/deep/y.txt"].map(|path| (path.to_owned(), "old\n".to_owned())).to_vec();
    stage::play(Setup { policy, files, ..Setup::default() }, test)
}

fn run(id: &str, script: &str, after: &[&str]) -> String {
    step(id, "shell.run", &format!("{{\"command\": [\"sh\", \"-c\", \"{script}\"]}}"), after)
}

/// Writes in four ways, and counts what is there.
fn plan_text() -> String {
    let copies = "{\"step_id\": \"copy\", \"tool_ref\": {\"name\": \"fs.write\"}, \"input\": {\"path\": \"c.txt\"}, \"input_from\": {\"content\": \"look.content\"}}";
    plan([
        step("look", "fs.read", "{\"path\": \"a.txt\"}", &[]),
        copies.to_owned(),
        run("make", "mkdir -p d; echo one > d/one; echo two > d/two; ln -sf one d/link", &["copy"]),
        step("gone", "fs.delete", "{\"path\": \"a.txt\"}", &["make"]),
        run("count", "ls -R . | grep -v '^total' | sort | tr '\\\\n' ' '", &["gone"]),
        run("more", "echo three > d/three; rm d/one", &["count"]),
    ])
}

async fn executed(stage: &Stage, id: TaskId) -> Result<Reexecution, String> {
    stage.kernel.reexecute_session(id).await.map_err(|stop| stop.to_string())
}

async fn done(stage: &Stage) -> Result<TaskId, String> {
    let id = start(stage, terms(), plan_text()).await?;
    let task = settled(&stage.kernel, id).await?;
    if !matches!(task.state, TaskState::Parked { .. }) {
        return Err(format!("{id} is {}: {:?}", task.state.as_str(), task.summary));
    }
    Ok(id)
}

async fn again(stage: Arc<Stage>) -> Result<(), String> {
    let id = done(&stage).await?;
    let calls = stage.events()?.len();
    let came = executed(&stage, id).await?;
    assert_eq!((came.divergence.clone(), came.plans, came.steps, came.calls), (None, 1, 6, 6), "{came:?}");
    assert_eq!(stage.events()?.len(), calls, "nothing is recorded");
    assert_eq!(executed(&stage, id).await?, came);
    // Another course has another digest.
    let other = start(&stage, terms(), plan([step("look", "fs.read", "{\"path\": \"a.txt\"}", &[])])).await?;
    ended(&stage, other).await?;
    assert_ne!(executed(&stage, other).await?.digest, came.digest);
    Ok(())
}

/// A record that says that a step ended otherwise than its call did.
async fn differs(stage: Arc<Stage>) -> Result<(), String> {
    let asks = plan([step("ask", "fs.list", "{\"path\": \".\"}", &[]), step("b", "fs.read", "{\"path\": \"a.txt\"}", &["ask"])]);
    let id = start(&stage, terms(), asks).await?;
    let task = settled(&stage.kernel, id).await?;
    assert!(matches!(task.state, TaskState::Parked { .. }), "{:?}", task.summary);
    assert_eq!(executed(&stage, id).await?.divergence, None);
    let forged = |step: &str, status| StepFinished {
        pid: task.pid,
        task: Some(id),
        plan: 1,
        step: step.to_owned(),
        status,
        attempts: 1,
        call: None,
        error: None,
        kept: None,
    };
    stage.kernel.ledger.record(forged("b", StepStatus::Skipped)).await.map_err(|fault| fault.to_string())?;
    let divergence = executed(&stage, id).await?.divergence.ok_or("nothing was told")?;
    assert!(divergence.1.contains("step b was skipped, and nothing before it failed"), "{divergence:?}");
    Ok(())
}

async fn forked(stage: Arc<Stage>) -> Result<(), String> {
    let id = done(&stage).await?;
    let whole = executed(&stage, id).await?;
    let kept = stage.events()?.into_iter().filter(|event| matches!(event, Event::StepFinished(end) if end.kept.is_some())).count();
    assert_eq!(kept, 5, "each of the writers left what it wrote");
    let fork = stage.kernel.fork_session(id, "gone").await.map_err(|stop| stop.to_string())?.task;
    let task = settled(&stage.kernel, fork).await?;
    let TaskState::Parked { review } = task.state else { return Err(format!("{}: {:?}", task.state.as_str(), task.summary)) };
    let own = |event: &Event| matches!(event, Event::CallAdmitted(call) if call.task == Some(fork) && call.step.is_some());
    assert_eq!(stage.events()?.iter().filter(|event| own(event)).count(), 2, "what ended before is not made again");
    // What was counted there is what the other one counted, so its workspace was the same.
    assert_eq!(executed(&stage, fork).await?.digest, whole.digest);
    // By its plan too, and from a step that only read.
    for place in ["1/copy", "look"] {
        let fork = stage.kernel.fork_session(id, place).await.map_err(|stop| stop.to_string())?.task;
        let task = settled(&stage.kernel, fork).await?;
        assert!(matches!(task.state, TaskState::Parked { .. }), "{place}: {:?}", task.summary);
    }
    stage.answer(review, Reply::yes()).await?;
    ended(&stage, fork).await?;
    let read = |path: &str| std::fs::read_to_string(stage.bed.project().join(path)).ok();
    assert_eq!((read("c.txt").as_deref(), read("a.txt"), read("d/one")), (Some("old\n"), None, None));
    assert_eq!((read("d/two").as_deref(), read("d/three").as_deref()), (Some("two\n"), Some("three\n")));
    let no = stage.kernel.fork_session(id, "nowhere").await.map(|added| added.task).map_err(|stop| stop.to_string());
    assert!(no.as_ref().is_err_and(|why| why.contains("no step of")), "{no:?}");
    Ok(())
}

async fn unforkable(stage: Arc<Stage>) -> Result<(), String> {
    let slow = run("slow", "sleep 1; echo late > late.txt", &[]);
    let id = start(&stage, terms(), plan([step("quick", "fs.exists", "{\"path\": \"a.txt\"}", &[]), slow])).await?;
    settled(&stage.kernel, id).await?;
    let events = stage.events()?;
    let at = |what: &dyn Fn(&Event) -> bool| events.iter().position(what);
    let began = at(&|event| matches!(event, Event::StepStarted(begun) if begun.step == "slow"));
    let quick = at(&|event| matches!(event, Event::StepFinished(end) if end.step == "quick"));
    let no = stage.kernel.fork_session(id, "quick").await.map(|added| added.task).map_err(|stop| stop.to_string());
    // A program reaches everything, so it runs alone; where the other one ended first, nothing was being written.
    match began < quick {
        true => assert!(no.as_ref().is_err_and(|why| why.contains("step slow")), "{no:?}"),
        false => assert!(no.is_ok(), "{no:?}"),
    }
    stage.kernel.fork_session(id, "slow").await.map(drop).map_err(|stop| stop.to_string())
}

/// Forked from the end of its last writer, a session lists the same.
async fn every_kind(stage: Arc<Stage>) -> Result<(), String> {
    std::os::unix::fs::symlink("a.txt", stage.bed.project().join("link")).map_err(|error| error.to_string())?;
    let mut digests = std::collections::BTreeSet::new();
    for (first, second) in [
        ("rm link; echo plain > link", "true"),
        ("rm src/x.txt; ln -s ../a.txt src/x.txt", "true"),
        ("rm src/x.txt; mkdir src/x.txt", "echo q > src/x.txt/q"),
        ("mkdir -p e/f", "true"),
        ("rm -rf keep", "true"),
        ("rm -rf keep", "mkdir keep"),
        ("rm -rf keep; ln -s src keep", "true"),
        ("rm -rf src; echo file > src", "rm src; mkdir src"),
        ("chmod 555 keep; mkdir -m 700 shut", "true"),
        ("mkdir n; echo 1 > n/x", "rm -rf n; ln -s src n"),
        ("echo 1 > gone", "rm gone"),
    ] {
        let steps = [run("a", first, &[]), run("b", second, &["a"]), run("look", LISTING, &["b"])];
        let id = start(&stage, terms(), plan(steps)).await?;
        settled(&stage.kernel, id).await?;
        let digest = executed(&stage, id).await?.digest;
        let fork = stage.kernel.fork_session(id, "b").await.map_err(|stop| format!("{first}; {second}: {stop}"))?.task;
        settled(&stage.kernel, fork).await?;
        assert_eq!(executed(&stage, fork).await?.digest, digest, "{first}; {second}");
        digests.insert(digest);
    }
    // The control: what is listed tells them apart; the last two and the undone one leave nothing of their own.
    assert!(digests.len() >= 9, "{digests:?}");
    Ok(())
}

async fn unkept(stage: Arc<Stage>) -> Result<(), String> {
    let steps = [run("pipe", "mkfifo pipe; echo x > x", &[]), run("without", "rm pipe", &["pipe"])];
    let id = start(&stage, terms(), plan(steps)).await?;
    settled(&stage.kernel, id).await?;
    let no = stage.kernel.fork_session(id, "pipe").await.map(|added| added.task).map_err(|stop| stop.to_string());
    assert!(no.as_ref().is_err_and(|why| why.contains("pipe: it is a special file")), "{no:?}");
    let left = |event: &Event| if let Event::StepFinished(end) = event { end.kept.as_ref().map(|kept| kept.left) } else { None };
    assert_eq!(stage.events()?.iter().filter_map(left).collect::<Vec<_>>(), [1, 0], "it is on record");
    stage.kernel.fork_session(id, "without").await.map(drop).map_err(|stop| stop.to_string())
}

async fn resumed(stage: Arc<Stage>) -> Result<(), String> {
    let makes = "rm -rf keep; mkdir -m 555 shut; mkdir e; mkfifo pipe; echo x > x";
    let asks = step("ask", "fs.write", "{\"path\": \"b.txt\", \"content\": \"b\"}", &["before"]);
    let steps = [run("makes", makes, &[]), run("before", LISTING, &["makes"]), asks, run("after", LISTING, &["ask"])];
    let id = start(&stage, terms(), plan(steps)).await?;
    let task = settled(&stage.kernel, id).await?;
    assert!(matches!(task.state, TaskState::Parked { .. }), "{:?}", task.summary);
    stage.kernel.cancel(id, "operator").await.map_err(|stop| stop.to_string())?;
    let left = |event: &Event| if let Event::WorkKept(kept) = event { Some(kept.left) } else { None };
    assert_eq!(stage.events()?.iter().find_map(left), Some(1), "what cannot be kept is on record");
    stage.kernel.retry(id, None, "operator").await.map(drop).map_err(|stop| stop.to_string())?;
    let task = settled(&stage.kernel, id).await?;
    let TaskState::Parked { review } = task.state else { return Err(format!("{}: {:?}", task.state.as_str(), task.summary)) };
    stage.answer(review, Reply::yes()).await?;
    settled(&stage.kernel, id).await?;
    let listed = |event: &Event| {
        let Event::CallFinished(end) = event else { return None };
        end.output["stdout"].as_str().filter(|text| text.contains("a.txt f ")).map(str::to_owned)
    };
    let listings: Vec<String> = stage.events()?.iter().filter_map(listed).collect();
    let [before, after] = listings.as_slice() else { return Err(format!("{listings:?}")) };
    assert!(before.contains("shut d 555") && !before.contains("keep"), "{before}");
    assert_eq!(after, before);
    Ok(())
}
