//! The wire, against code that is made from the same protos by Google's own generator: every method and every field.

use crate::bed::EchoCore;
use hive::generated::agent::*;
use hive::{
    AgentLink, ExecutionEnd, ExecutionHost, GrpcListener, HiveFuture, LinkLimits, PeerIdentity, ProgressNote, ReadyLimits, ServeLimits,
    core_service, serve, wait_ready,
};
use prost::Message;
use std::collections::HashMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, UnixListener};

/// Newer than the 1.78 that HiveKernel's own SDK asks for.
const PACKAGES: [&str; 2] = ["grpcio==1.85.1", "grpcio-tools==1.85.1"];

const METHODS: usize = 22;

/// Nothing is timed here: this ends what hangs, also on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(120);

fn ran(command: &mut Command, what: &str) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}\n{out}\n{err}");
    output
}

/// The folders that Python finds grpc and the generated modules in: each is made once, and not touched while somebody may read it.
fn python_path() -> String {
    let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("grpc").join(PACKAGES.join("_").replace('=', ""));
    fs::create_dir_all(&shared).unwrap();
    let lock = fs::File::create(shared.join("lock")).unwrap();
    lock.lock().unwrap();
    let packages = shared.join("packages");
    once(&packages, |folder| {
        let mut install = Command::new("python3");
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]).arg(folder).args(PACKAGES);
        ran(&mut install, "pip could not install grpc; is its index in reach?");
    });
    let mut protos = DefaultHasher::new();
    for name in ["agent.proto", "core.proto"] {
        fs::read(here("proto").join(name)).unwrap().hash(&mut protos);
    }
    let made = shared.join(format!("made-{:016x}", protos.finish()));
    once(&made, |folder| {
        let mut protoc = Command::new("python3");
        protoc.env("PYTHONPATH", &packages).args(["-m", "grpc_tools.protoc", "-I"]).arg(here("proto"));
        protoc.arg(format!("--python_out={}", folder.display())).arg(format!("--grpc_python_out={}", folder.display()));
        ran(protoc.args(["agent.proto", "core.proto"]), "protoc does not take the protos");
    });
    format!("{}:{}", packages.display(), made.display())
}

/// A folder that is there only when it is complete.
fn once(folder: &Path, make: impl FnOnce(&Path)) {
    if !folder.exists() {
        let unfinished = folder.with_extension("new");
        let _: std::io::Result<()> = fs::remove_dir_all(&unfinished);
        fs::create_dir(&unfinished).unwrap();
        make(&unfinished);
        fs::rename(&unfinished, folder).unwrap();
    }
}

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn python(script: &str) -> Command {
    let mut command = Command::new("python3");
    command.env("PYTHONPATH", python_path()).env("PYTHONDONTWRITEBYTECODE", "1").arg(here("tests/python").join(script));
    command
}

/// Runs the client to its end beside the server that it calls.
async fn called(address: String, pid: &'static str) -> Vec<String> {
    let output = tokio::task::spawn_blocking(move || ran(python("client.py").args([&address, pid]), "the client says no")).await.unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_calls_every_method_with_every_field_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("core");
    let me = rustix::process::geteuid().as_raw();
    let identify = Arc::new(move |peer: &hive::UnixPeer<'_>| if peer.uid == me { PeerIdentity::Operator } else { PeerIdentity::Unknown });
    let limits = ServeLimits::default();
    let listener = GrpcListener::Unix { socket: UnixListener::bind(&path).unwrap(), identify };
    let handle = serve(listener, core_service(Arc::new(EchoCore::default()), &limits), limits);

    let lines = called(format!("unix://{}", path.display()), "1").await;
    assert_eq!(lines.len(), METHODS + 1, "{lines:?}");
    assert_eq!(lines[METHODS], "INVALID_ARGUMENT invalid pid: abc");
    handle.stop(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_calls_every_method_with_every_field_at_the_door_of_a_process() {
    let limits = ServeLimits::default();
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let handle = serve(GrpcListener::Door { socket, pid: 7 }, core_service(Arc::new(EchoCore::default()), &limits), limits);
    let lines = called(address.to_string(), "7").await;
    assert_eq!(lines.len(), METHODS + 1, "{lines:?}");
    handle.stop(Duration::from_secs(5)).await;
}

/// Each message of the agent's package with every field set, as Python fills it: by name and choice.
struct Filled(HashMap<(String, usize), Vec<u8>>);

impl Filled {
    fn made() -> Filled {
        let text = String::from_utf8(ran(&mut python("filled.py"), "nothing was filled").stdout).unwrap();
        let parsed = text.lines().map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let bytes: Vec<u8> =
                words[2].as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect();
            ((words[0].to_owned(), words[1].parse().unwrap()), bytes)
        });
        Filled(parsed.collect())
    }

    fn get<M: Message + Default>(&self, name: &str) -> M {
        self.choice(name, 0)
    }

    fn choice<M: Message + Default>(&self, name: &str, choice: usize) -> M {
        let bytes = &self.0[&(name.to_owned(), choice)];
        let message = M::decode(bytes.as_slice()).unwrap();
        // What we do not know would be lost here.
        assert_eq!(message.encoded_len(), bytes.len(), "{name} {choice}");
        message
    }
}

/// Answers calls with what Python expects, and keeps what it was told.
struct PythonHost {
    filled: Filled,
    told: Mutex<Vec<String>>,
}

impl ExecutionHost for PythonHost {
    fn call(&self, call: system_call::Call) -> HiveFuture<'_, syscall_result::Result> {
        let choice = (0..10).find(|choice| self.filled.choice::<SystemCall>("SystemCall", *choice).call.as_ref() == Some(&call));
        let choice = choice.unwrap_or_else(|| panic!("no filled call is {call:?}"));
        let result = self.filled.choice::<SyscallResult>("SyscallResult", choice).result.unwrap();
        Box::pin(async move { result })
    }

    fn ask(&self, question: String) -> HiveFuture<'_, Option<String>> {
        self.told.lock().unwrap().push(question);
        Box::pin(async { Some("that one".to_owned()) })
    }

    fn note(&self, note: ProgressNote) {
        self.told.lock().unwrap().push(format!("{note:?}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_serves_an_agent_that_gets_and_gives_every_field() {
    let (filled, command) = tokio::task::spawn_blocking(|| (Filled::made(), python("agent.py"))).await.unwrap();
    let mut agent = tokio::process::Command::from(command).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut ready = wait_ready(agent.stdout.take().unwrap(), &ReadyLimits { timeout: PATIENCE, ..Default::default() }).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&ready.output), "a line before\n");
    let limits = LinkLimits {
        init_timeout: PATIENCE,
        heartbeat_timeout: PATIENCE,
        interrupt_timeout: PATIENCE,
        shutdown_margin: PATIENCE,
        ..Default::default()
    };
    let stream = hive::connect_loopback(ready.port).await.unwrap();
    let link = AgentLink::connect(stream, limits).await.unwrap();

    link.init(filled.get("InitRequest")).await.unwrap();
    let beat: HeartbeatRequest = filled.get("HeartbeatRequest");
    assert_eq!(link.heartbeat(beat.timestamp).await.unwrap(), filled.get("HeartbeatResponse"));
    let interrupt: InterruptRequest = filled.get("InterruptRequest");
    assert_eq!(link.interrupt(&interrupt.task_id, &interrupt.reason).await.unwrap(), filled.get("InterruptResponse"));
    let message: AgentMessage = filled.get("AgentMessage");
    let expected = MessageAck { message_id: message.message_id.clone(), ..filled.get("MessageAck") };
    assert_eq!(link.deliver(message).await.unwrap(), expected);

    let (task, result): (TaskRequest, TaskResult) = (filled.get("TaskRequest"), filled.get("TaskResult"));
    let (snapshot, host) = (filled.get::<ShutdownResponse>("ShutdownResponse"), PythonHost { filled, told: Mutex::default() });
    let end = link.execute(task, Some(PATIENCE)).drive(&host).await.unwrap();
    assert_eq!(end, ExecutionEnd::Completed(result));
    let told = host.told.lock().unwrap().join("\n");
    let update = |message: &str, percent: Option<f32>| format!("{:?}", ProgressNote::Update { message: message.into(), percent });
    let log = format!("{:?}", ProgressNote::Log { message: "a line".into() });
    assert_eq!(told, [update("a third", Some(33.5)), update("who knows", None), log, "which one?".into()].join("\n"));

    assert_eq!(link.shutdown(ShutdownReason::ShutdownUserRequest, Duration::from_secs(3)).await.unwrap(), snapshot);
    let mut rest = String::new();
    ready.rest.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "a line behind\n");
    assert!(agent.wait().await.unwrap().success());
}
