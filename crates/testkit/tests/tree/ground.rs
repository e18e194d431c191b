//! A kernel whose tree runs real Python agents, and the part of its service that they ask for in these tests.

use hive::generated::agent::*;
use hive::generated::core::core_service_server::CoreService;
use hive::generated::core::*;
use hive::tonic::{Request, Response, Status, async_trait};
use hive::{GrpcListener, OutboxStream, RpcCaller, ServeLimits, ServerHandle, core_service, serve};
use kernel::{Kernel, Tuning};
use sandbox::Launcher;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use testkit::bed::Bed;
use tree::{CoreFace, SpawnOrder, TaskOrder, Tree, contract};
use world::{Event, Pid, ProcessRole, ProcessState, ProgramLimits, ProgramRuntime, Stop, Tier};

const PACKAGES: [&str; 2] = ["grpcio==1.78.0", "protobuf==6.33.6"];

/// Where Python finds grpc: installed once.
pub fn packages() -> PathBuf {
    let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("grpc").join(PACKAGES.join("_").replace('=', ""));
    std::fs::create_dir_all(&shared).unwrap();
    let lock = std::fs::File::create(shared.join("lock")).unwrap();
    lock.lock().unwrap();
    let (packages, done) = (shared.join("packages"), shared.join("installed"));
    if !done.exists() {
        let mut install = Command::new("python3");
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]).arg(&packages).args(PACKAGES);
        assert!(install.status().unwrap().success(), "pip could not install grpc; is its index in reach?");
        std::fs::write(&done, PACKAGES.join("\n")).unwrap();
    }
    packages
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// Variables of whoever starts the kernel of a test.
fn variables() -> Vec<(String, String)> {
    let python = [packages(), root().join("sdk/python/tests"), root().join("crates/testkit/tests/tree/agents")];
    let python: Vec<String> = python.iter().map(|folder| folder.display().to_string()).collect();
    let inherited = ["PATH", "HOME"].into_iter().filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
    let own = [
        ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        ("PYTHONPATH", python.join(":")),
        ("SKEP_SDK_PATH", root().join("sdk/python").display().to_string()),
    ];
    inherited.chain(own.map(|(name, value)| (name.to_owned(), value))).collect()
}

pub struct Ground {
    pub bed: Bed,
    pub kernel: Arc<Kernel>,
    /// For kernels that are started after this one.
    pub launchers: Vec<Launcher>,
}

/// Runs a test on a kernel with a process tree.
pub fn play<F: Future<Output = Result<(), String>>>(test: fn(Ground) -> F) -> Result<(), String> {
    let bed = Bed::new(&[])?;
    packages();
    let launchers: Result<Vec<Launcher>, _> = (0..2).map(|_| Launcher::start()).collect();
    let mut launchers = launchers.map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let kernel = boot(&bed, launchers.pop().unwrap(), None).await?;
        let limit = Duration::from_secs(if std::env::var_os("SKEP_SOAK").is_some() { 3_600 } else { 240 });
        tokio::time::timeout(limit, test(Ground { bed, kernel, launchers })).await.map_err(|_| "it hangs".to_owned())?
    })
}

pub async fn boot(bed: &Bed, launcher: Launcher, startup: Option<tree::Startup>) -> Result<Arc<Kernel>, String> {
    let tuning = Tuning { variables: variables(), startup, ..Tuning::default() };
    let kernel = bed.boot_tuned(launcher, tuning).await.map_err(|fault| fault.to_string())?;
    open_face(&kernel, bed.folder())?;
    Ok(kernel)
}

/// A kernel in this folder that dies at a point of its journal, or does not.
pub async fn boot_to_die(folder: &Path, launcher: Launcher, faults: journal::Faults) -> Result<Arc<Kernel>, String> {
    let home = kernel::Home::open(&folder.join("home")).map_err(|fault| fault.to_string())?;
    let options = journal::Options { faults, ..journal::Options::default() };
    let tuning = Tuning { variables: variables(), ..Tuning::default() };
    let kernel = Kernel::boot_tuned(home, launcher, options, None, tuning).await.map_err(|fault| fault.to_string())?;
    open_face(&kernel, folder)?;
    Ok(kernel)
}

/// Serves what agents ask for.
fn open_face(kernel: &Arc<Kernel>, folder: &Path) -> Result<(), String> {
    let path = folder.join(format!("core-{}", kernel.instance.started_ms));
    let socket = tokio::net::UnixListener::bind(&path).map_err(|error| error.to_string())?;
    let tree = Arc::downgrade(&kernel.tree);
    let identify = Arc::new(move |peer: &hive::UnixPeer<'_>| {
        let process = peer.os_pid.and_then(|os_pid| tree.upgrade()?.process_of(os_pid));
        process.map_or(hive::PeerIdentity::Unknown, |pid| hive::PeerIdentity::Process(pid.0))
    });
    let face = TestFace { tree: kernel.tree.clone(), address: format!("unix://{}", path.display()), handle: Default::default() };
    *face.handle.lock().unwrap() = Some(face.serve(GrpcListener::Unix { socket, identify }));
    kernel.tree.set_face(Arc::new(face));
    Ok(())
}

/// What an order for an agent of these tests begins with.
pub fn agent(name: &str, role: ProcessRole, image: &str) -> SpawnOrder {
    SpawnOrder {
        parent: None,
        name: name.to_owned(),
        role,
        tier: Tier::Operational,
        model: String::new(),
        system_prompt: String::new(),
        tools: Vec::new(),
        env: BTreeMap::new(),
        metadata: BTreeMap::new(),
        limits: ProgramLimits::default(),
        budget: None,
        runtime: if image.is_empty() { ProgramRuntime::Virtual } else { ProgramRuntime::Python },
        image: image.to_owned(),
        initial_task: None,
        schedule: None,
        user: None,
        confined: true,
    }
}

pub fn task(description: &str, params: &[(&str, &str)]) -> TaskOrder {
    let params = params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    TaskOrder { description: description.to_owned(), params, ..TaskOrder::default() }
}

impl Ground {
    pub fn tree(&self) -> &Tree {
        &self.kernel.tree
    }

    pub async fn spawn(&self, order: SpawnOrder) -> Result<Pid, String> {
        self.tree().spawn(Pid::OPERATOR, order).await.map_err(|stop| stop.to_string())
    }

    pub async fn execute(&self, pid: Pid, description: &str, params: &[(&str, &str)]) -> Result<(i32, String), String> {
        let done = self.tree().execute(Pid::OPERATOR, pid, task(description, params), false).await;
        done.map(|result| (result.exit_code, result.output)).map_err(|stop| stop.to_string())
    }

    pub fn state(&self, pid: Pid) -> Option<ProcessState> {
        self.kernel.ledger.look(|world| world.processes.get(&pid).map(|process| process.state))
    }

    /// Waits for something to be true of the world.
    pub async fn until(&self, what: &str, is: impl Fn(&world::World) -> bool) -> Result<(), String> {
        let mut records = self.kernel.ledger.journal().follow();
        let wait = async {
            while !self.kernel.ledger.look(&is) {
                records.changed().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(60), wait).await.map_err(|_| format!("never: {what}"))
    }

    /// The events of these kinds, in order.
    pub fn events(&self, kinds: &[&str]) -> Vec<Event> {
        let filter = journal::Filter { kinds: kinds.iter().map(|kind| (*kind).to_owned()).collect(), ..journal::Filter::default() };
        let records = self.kernel.ledger.read(&filter).unwrap();
        records.iter().map(kernel_event).collect()
    }
}

fn kernel_event(record: &journal::Record) -> Event {
    ledger::event_of(record).unwrap()
}

struct TestFace {
    tree: Arc<Tree>,
    address: String,
    handle: std::sync::Mutex<Option<ServerHandle>>,
}

impl CoreFace for TestFace {
    fn serve(&self, listener: GrpcListener) -> ServerHandle {
        let limits = ServeLimits::default();
        serve(listener, core_service(Arc::new(TestCore { tree: self.tree.clone() }), &limits), limits)
    }

    fn address(&self) -> Option<String> {
        Some(self.address.clone())
    }
}

/// Spawns for whoever asks; nothing else is asked for here.
struct TestCore {
    tree: Arc<Tree>,
}

macro_rules! unasked {
    ($($method:ident($request:ty) -> $answer:ty;)*) => {
        #[async_trait]
        impl CoreService for TestCore {
            type SubscribeStream = OutboxStream<AgentMessage>;
            type SubscribeEventsStream = OutboxStream<ProcessEvent>;

            async fn subscribe(&self, _: Request<SubscribeRequest>) -> Result<Response<Self::SubscribeStream>, Status> {
                Err(Status::unimplemented("subscribe"))
            }

            async fn subscribe_events(&self, _: Request<SubscribeEventsRequest>) -> Result<Response<Self::SubscribeEventsStream>, Status> {
                Err(Status::unimplemented("subscribe_events"))
            }

            async fn spawn_child(&self, request: Request<SpawnRequest>) -> Result<Response<SpawnResponse>, Status> {
                let by = Pid(RpcCaller::of(&request)?.pid()?);
                let spawned = async { self.tree.spawn(by, contract::spawn_order(request.into_inner())?).await };
                let answer = match spawned.await {
                    Ok(pid) => SpawnResponse { success: true, child_pid: pid.0, error: String::new() },
                    Err(stop) => SpawnResponse { success: false, child_pid: 0, error: contract::error_text(&Stop::from(stop)) },
                };
                Ok(Response::new(answer))
            }

            $(async fn $method(&self, _: Request<$request>) -> Result<Response<$answer>, Status> {
                Err(Status::unimplemented(stringify!($method)))
            })*
        }
    };
}

unasked! {
    kill_child(KillRequest) -> KillResponse;
    get_process_info(ProcessInfoRequest) -> ProcessInfo;
    list_children(ListChildrenRequest) -> ListChildrenResponse;
    send_message(SendMessageRequest) -> SendMessageResponse;
    store_artifact(StoreArtifactRequest) -> StoreArtifactResponse;
    get_artifact(GetArtifactRequest) -> GetArtifactResponse;
    list_artifacts(ListArtifactsRequest) -> ListArtifactsResponse;
    get_resource_usage(ResourceUsageRequest) -> ResourceUsage;
    request_resources(ResourceRequest) -> ResourceResponse;
    escalate(EscalateRequest) -> EscalateResponse;
    log(LogRequest) -> LogResponse;
    report_metric(MetricRequest) -> MetricResponse;
    execute_task(ExecuteTaskRequest) -> ExecuteTaskResponse;
    add_cron(AddCronRequest) -> AddCronResponse;
    remove_cron(RemoveCronRequest) -> RemoveCronResponse;
    list_cron(ListCronRequest) -> ListCronResponse;
    list_inbox(ListInboxRequest) -> ListInboxResponse;
    list_siblings(ListSiblingsRequest) -> ListSiblingsResponse;
    wait_child(WaitChildRequest) -> WaitChildResponse;
}
