//! A program that is played: what it is told, what it may do by its hooks, and what follows where it does not answer.

use super::*;
use crate::agent::{Codex, series_in};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream};
use tokio::sync::oneshot;

/// What became of one program.
struct Played {
    plan: LaunchPlan,
    /// What it reads and writes; gone with it.
    streams: Option<(BufReader<DuplexStream>, DuplexStream)>,
    hooks: mpsc::UnboundedSender<HookQuestion>,
}

/// Plays programs: each gets its streams, and ends when the other side lets go.
#[derive(Clone, Default)]
struct Stage(Arc<Mutex<Vec<Played>>>);

impl AgentLauncher for Stage {
    fn start(&mut self, plan: LaunchPlan) -> Started<'_> {
        let ((input, reads), (writes, output)) = (tokio::io::duplex(1 << 16), tokio::io::duplex(1 << 16));
        let (send, hooks) = mpsc::unbounded_channel();
        let hooks = plan.is_hooked.then_some(hooks);
        self.0.lock().unwrap().push(Played { plan, streams: Some((BufReader::new(reads), writes)), hooks: send });
        let ended =
            Box::pin(async { AgentExit::Ended { how: "ended with exit code 2".into(), error_output: "unrecognized subcommand".into() } });
        let questions = mpsc::unbounded_channel().1;
        Box::pin(async move { Ok(AgentStreams { input: Box::new(input), output: Box::new(output), ended, questions, hooks }) })
    }

    fn keep_line(&mut self, _line: &str) {}
}

impl Stage {
    fn plan(&self, program: usize) -> LaunchPlan {
        self.0.lock().unwrap()[program].plan.clone()
    }

    /// Lets a program end.
    fn end(&self, program: usize) {
        self.0.lock().unwrap()[program].streams = None;
    }

    async fn write(&self, program: usize, lines: &str) {
        let (reader, mut writer) = self.0.lock().unwrap()[program].streams.take().unwrap();
        writer.write_all(lines.as_bytes()).await.unwrap();
        self.0.lock().unwrap()[program].streams = Some((reader, writer));
    }

    async fn line(&self, program: usize) -> String {
        let (mut reader, writer) = self.0.lock().unwrap()[program].streams.take().unwrap();
        let mut line = String::new();
        reader.read_line(&mut line).await.unwrap();
        self.0.lock().unwrap()[program].streams = Some((reader, writer));
        line.trim_end().to_owned()
    }

    fn hook(&self, program: usize, input: Value) -> oneshot::Receiver<String> {
        let (reply, replied) = oneshot::channel();
        self.0.lock().unwrap()[program].hooks.send(HookQuestion { input, reply }).unwrap();
        replied
    }
}

fn codex(stage: &Stage) -> Supervised<Stage> {
    let boot = AgentBoot { project: "/p".into(), may_change: true, hook: Some("/hook 7".into()), ..AgentBoot::default() };
    Supervised::new(Box::new(Codex::default()), stage.clone(), boot)
}

fn start(memory: Vec<Vec<u8>>) -> BrainInput {
    let further = crate::FurtherTurns::default();
    BrainInput::Start { prompt: "one\ntwo".into(), settled: 0, resumed: !memory.is_empty(), memory, further }
}

const THREAD: &str = "01a1e934-7269-7ac3-8171-8797cc24dc74";

#[tokio::test]
async fn a_codex_without_an_app_server_works_by_exec() {
    let stage = Stage::default();
    let mut brain = codex(&stage);
    let (played, first) = (stage.clone(), brain.next(start(Vec::new())));
    let ended = async {
        while played.0.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        played.end(0);
    };
    let (first, ()) = tokio::join!(first, ended);
    let Move::Say(told) = first.unwrap() else { panic!("nothing is told of it") };
    assert_eq!(
        told,
        "(`codex app-server` does not answer, so `codex exec` works on this: its program ended with exit code 2 before its turn was over; \
         its last error output: unrecognized subcommand)"
    );
    assert_eq!((stage.plan(0).arguments[0].as_str(), stage.plan(1).arguments[0].as_str()), ("app-server", "exec"));
    assert_eq!([stage.line(1).await, stage.line(1).await, stage.line(1).await], ["2", "one", "two"]);

    // Its hook asks, and the kernel's answer is the hook's.
    let replied = stage.hook(
        1,
        json!({"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "c", "cwd": "/p", "tool_input": {"command": "make"}}),
    );
    let Move::Own { id, call } = brain.next(BrainInput::Continue).await.unwrap() else { panic!("it does not ask") };
    assert_eq!(call.tool, "shell.run");
    stage.write(1, &format!("{{\"type\":\"thread.started\",\"thread_id\":\"{THREAD}\"}}\n{{\"type\":\"turn.completed\"}}\n")).await;
    let refused = BrainInput::OwnCallRefused { id, reason: "not now".into(), hint: None };
    assert_eq!(brain.next(refused).await.unwrap(), Move::Done(String::new()));
    assert!(replied.await.unwrap().contains("not now"));
    assert_eq!(series_in(&brain.checkpoint().unwrap().bytes), Ok(Some(THREAD.into())));

    // One turn is one program: a question at the task's end has its own, in the same conversation.
    let hook = HookTurn { artifact: "summary".into(), prompt: "And?".into(), task: String::new(), memory: Vec::new() };
    stage.end(1);
    let kept = serde_json::to_vec(&json!({"series": THREAD, "heard": 0, "open": false})).unwrap();
    let (asked, played) = (brain.next(BrainInput::Hook(HookTurn { memory: vec![kept], ..hook })), stage.clone());
    let answered = async {
        while played.0.lock().unwrap().len() < 3 {
            tokio::task::yield_now().await;
        }
        played.write(2, "{\"type\":\"turn.completed\"}\n").await;
    };
    let (asked, ()) = tokio::join!(asked, answered);
    assert_eq!(asked.unwrap(), Move::Done(String::new()));
    assert!(stage.plan(2).arguments.windows(2).any(|words| words == ["resume", THREAD]), "{:?}", stage.plan(2));
}

#[tokio::test(start_paused = true)]
async fn a_codex_that_does_not_answer_its_greeting_works_by_exec() {
    let stage = Stage::default();
    let mut brain = codex(&stage);
    let Move::Say(told) = brain.next(start(Vec::new())).await.unwrap() else { panic!("nothing is told of it") };
    assert!(told.ends_with("it did not answer within 90 seconds)"), "{told}");
    assert_eq!(stage.plan(1).arguments[0], "exec");
    // The control: one that answers is left alone, however long it thinks.
    let stage = Stage::default();
    let mut brain = codex(&stage);
    let played = stage.clone();
    let answers = async {
        while played.0.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        played.write(0, "{\"id\":1,\"result\":{}}\n").await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        played.write(0, "{\"method\":\"turn/completed\",\"params\":{\"turn\":{\"status\":\"completed\"}}}\n").await;
    };
    let (done, ()) = tokio::join!(brain.next(start(Vec::new())), answers);
    assert_eq!(done.unwrap(), Move::Done(String::new()));
    assert_eq!(stage.0.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_cannot_be_read_is_told() {
    let stage = Stage::default();
    let mut brain = codex(&stage);
    let Move::Say(told) = brain.next(start(vec![b"{\"series\":7".to_vec()])).await.unwrap() else { panic!("nothing is told of it") };
    assert!(told.starts_with("(what it kept of its last conversation cannot be read: ") && told.ends_with("; a new one begins)"), "{told}");
    let lost = UnreadableCheckpoint("torn".into());
    let mut brain = codex(&stage).with_notes(TurnNotes { lost: Some(lost), ..TurnNotes::default() });
    let told = brain.next(start(Vec::new())).await.unwrap();
    assert_eq!(told, Move::Say("(what it kept of its last conversation cannot be read: torn; a new one begins)".into()));
    // The control: what can be read is gone on with, and nothing is told of it.
    let kept = serde_json::to_vec(&KeptTurn { series: Some(THREAD.into()), ..KeptTurn::default() }).unwrap();
    let mut brain = codex(&Stage::default());
    let Move::Say(told) = brain.next(start(vec![kept])).await.unwrap() else { panic!("it never answers") };
    assert!(told.contains("does not answer") && brain.boot.series.as_deref() == Some(THREAD), "{told}");
}
