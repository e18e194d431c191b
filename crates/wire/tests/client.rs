//! The client against a listener that behaves well, badly and not at all.

#![expect(clippy::unwrap_used, reason = "clippy knows only functions marked as tests, not those beside them")]

use std::path::Path;
use tokio::net::{UnixListener, UnixStream};
use wire::method::{Nothing, journal, task};
use wire::{ClientError, ErrorCode, KernelClient, Message, Notification, RpcError, RpcId, RpcResponse, frame, table};

async fn answer(stream: &mut UnixStream, outcome: Result<&str, RpcError>) {
    let text = frame::read(stream).await.unwrap().unwrap();
    let Ok(Message::Request(request)) = Message::parse(&text) else { panic!("{text}") };
    let outcome = outcome.map(|json| serde_json::value::RawValue::from_string(json.into()).unwrap());
    frame::write(stream, &RpcResponse { id: request.id, outcome }.text()).await.unwrap();
}

fn listen(home: &Path) -> UnixListener {
    UnixListener::bind(wire::socket_path(home)).unwrap()
}

#[tokio::test]
async fn an_answer_comes_back_typed_and_notes_keep_their_order() {
    let home = tempfile::tempdir().unwrap();
    let listener = listen(home.path());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for line in ["a", "b"] {
            let params = serde_json::value::to_raw_value(&journal::RecordNote { line: line.into() }).unwrap();
            let note = Notification { method: journal::RECORD.into(), params: Some(params) };
            frame::write(&mut stream, &note.text()).await.unwrap();
        }
        answer(&mut stream, Ok("{}")).await;
    });
    let mut client = KernelClient::connect(home.path()).await.unwrap();
    client.call::<table::JournalFollow>(&journal::RecordFilter::default()).await.unwrap();
    let mut lines = Vec::new();
    while let Some(note) = client.next_note().await.unwrap() {
        let record: journal::RecordNote = serde_json::from_str(note.params.unwrap().get()).unwrap();
        lines.push(record.line);
    }
    assert_eq!(lines, ["a", "b"]);
    server.await.unwrap();
}

#[tokio::test]
async fn each_way_to_fail_has_its_own_code_and_a_fix() {
    let home = tempfile::tempdir().unwrap();
    let absent = KernelClient::connect(home.path()).await.err().unwrap();
    assert!(matches!(absent, ClientError::Absent { .. }));
    assert_eq!((absent.code(), absent.fix().unwrap().contains("kernel start")), (ErrorCode::Unavailable, true));

    let listener = listen(home.path());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        answer(&mut stream, Err(RpcError::new(ErrorCode::TaskNotFound, "no `task-9`").why("never queued").fix("skep list tasks"))).await;
        answer(&mut stream, Ok("{\"version\":1}")).await;
        let text = frame::read(&mut stream).await.unwrap().unwrap();
        assert!(text.contains("kernel.stop"));
        let unreadable = RpcError::new(ErrorCode::Unreadable, "cannot read it");
        frame::write(&mut stream, &RpcResponse { id: RpcId::Null, outcome: Err(unreadable) }.text()).await.unwrap();
        frame::read(&mut stream).await.unwrap();
    });
    let mut client = KernelClient::connect(home.path()).await.unwrap();
    let error = client.call::<table::TaskShow>(&task::TaskIdParams { task: world::TaskId(9) }).await.unwrap_err();
    assert_eq!(
        (error.code(), error.to_string(), error.why().unwrap()),
        (ErrorCode::TaskNotFound, "no `task-9`".into(), "never queued".into())
    );
    let error = client.call::<table::KernelStatus>(&Nothing {}).await.unwrap_err();
    assert!(matches!(error, ClientError::Unreadable { method: "kernel.status", .. }));
    let error = client.call::<table::KernelStop>(&Nothing {}).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unreadable);
    let error = client.call::<table::KernelStop>(&Nothing {}).await.unwrap_err();
    assert!(matches!(error, ClientError::Broken { .. }));
    server.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_kernel_that_hangs_is_not_waited_for_for_ever() {
    let home = tempfile::tempdir().unwrap();
    let listener = listen(home.path());
    let mut client = KernelClient::connect(home.path()).await.unwrap();
    let (_stream, _) = listener.accept().await.unwrap();
    let error = client.call::<table::KernelStatus>(&Nothing {}).await.unwrap_err();
    assert!(matches!(error, ClientError::Late { ms: 30_000, .. }));
}
