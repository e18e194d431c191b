//! The gateway, who listens at it, and the keys that open it.
//!
//! **Invariant.** A key is good at one listener, for one process, as long as that lives.

use crate::admission::ProcessAdmission;
use crate::cassette::{Cassettes, Traffic};
use crate::exhaustion::Exhaustion;
use crate::flight::{RequestOwner, RequestsInFlight};
use crate::lease::Leases;
use crate::setup::{CheckedSettings, ModelSetup, UnusableSettings};
use crate::wait::Waiting;
use gate::{CLIENT, Gate};
use gateway::{Admission, ClientSession, Gateway, Secret, StopCause, Upstream, VendorClient};
use ledger::Ledger;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use world::budget::crash::Left;
use world::event::ProcSpawned;
use world::{Code, Ending, Fault, FaultKind, Pid, Refusal, Stop, ZoneId};

/// How long the end of requests may take when the kernel stops.
const SETTLE_MAX: std::time::Duration = std::time::Duration::from_secs(2);

/// How long a program outside has to end when it is cancelled; then its connections are closed all the same.
const ENDED_MAX: Duration = Duration::from_secs(10);

/// How long clients have to take the answers that say that they were cancelled.
const HEARD_MAX: Duration = Duration::from_secs(2);

/// Who is told that a process's way to models is over, and why.
#[derive(Default)]
pub(crate) struct CancelNotices(Mutex<HashMap<Pid, watch::Sender<Option<String>>>>);

impl CancelNotices {
    fn open(&self, pid: Pid) {
        self.0.lock().entry(pid).or_default();
    }

    /// Comes back when the process is cancelled, with the reason.
    pub fn of(&self, pid: Pid) -> impl Future<Output = String> + Send + use<> {
        let told = self.0.lock().get(&pid).map(watch::Sender::subscribe);
        async move {
            let why = match told {
                Some(mut told) => told.wait_for(Option::is_some).await.ok().and_then(|why| why.clone()),
                None => None,
            };
            match why {
                Some(why) => why,
                // It ended by itself, or is no program outside.
                None => std::future::pending().await,
            }
        }
    }

    /// Comes back when whoever opened the way has closed it.
    fn tell(&self, pid: Pid, why: &str) -> impl Future<Output = ()> + Send + use<> {
        let told = self.0.lock().get(&pid).map(|end| {
            end.send_replace(Some(why.to_owned()));
            end.subscribe()
        });
        async move {
            if let Some(mut told) = told {
                while told.changed().await.is_ok() {}
            }
        }
    }

    fn forget(&self, pid: Pid) {
        self.0.lock().remove(&pid);
    }
}

/// The gateway and who listens at it.
pub struct Models {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) gate: Arc<Gate>,
    /// Where recorded traffic is kept.
    pub(crate) folder: PathBuf,
    pub gateway: Arc<Gateway>,
    /// What else the operator's settings say of models.
    setup: RwLock<Arc<ModelSetup>>,
    pub(crate) cassettes: Cassettes,
    pub(crate) leases: Leases,
    pub(crate) flights: Arc<RequestsInFlight>,
    pub(crate) cancel_notices: CancelNotices,
    pub(crate) waiting: Waiting,
    pub exhaustion: Exhaustion,
    /// The kernel is going down: nothing more is asked.
    pub(crate) stopping: AtomicBool,
    listeners: Mutex<HashMap<Pid, Vec<Listener>>>,
}

/// One listener of a process.
struct Listener {
    /// `true` once it serves nobody else.
    closing: watch::Sender<bool>,
    task: AbortHandle,
}

impl Models {
    /// Opens the gateway, and says which requests of the last kernel had left. Nothing leaves before [`Models::begin`].
    pub fn open(gate: Arc<Gate>, home: &Path, settings: &gateway::ModelSettings) -> Result<(Arc<Models>, Left), Fault> {
        let ledger = gate.ledger.clone();
        let (flights, sent) = RequestsInFlight::open(home, ledger.look(|world| world.starts));
        let flights = Arc::new(flights);
        ledger.watch_flights({
            let flights = flights.clone();
            move || flights.left()
        });
        let redactor = ledger.redactor.clone();
        let checked = CheckedSettings::read(home, settings)?;
        let gateway = Gateway::new(settings, Upstream::new(&[]), checked.hold).map_err(UnusableSettings::from)?;
        gate.know_providers(gateway.providers().map(|provider| (provider.name.clone(), provider.host().to_owned())));
        let setup = RwLock::new(Arc::new(checked.setup(&gateway)));
        let knows = redactor.clone();
        let gateway = gateway.with_secret_observer(Arc::new(move |secret| {
            knows.register(secret.reveal());
        }));
        let models = Models {
            folder: home.join("cassettes"),
            ledger,
            gate,
            gateway: Arc::new(gateway.with_redactor(Arc::new(move |text| redactor.text(text).into_owned()))),
            setup,
            cassettes: Cassettes::default(),
            leases: Leases::default(),
            flights,
            cancel_notices: CancelNotices::default(),
            waiting: Waiting::default(),
            exhaustion: Exhaustion::default(),
            stopping: AtomicBool::new(false),
            listeners: Mutex::default(),
        };
        Ok((Arc::new(models), sent))
    }

    /// Takes other settings, from the next request on. Those that cannot be used change nothing.
    pub fn replace(&self, checked: CheckedSettings) -> Result<(), UnusableSettings> {
        self.gateway.replace(&checked.settings, checked.hold)?;
        self.gate.know_providers(self.gateway.providers().map(|provider| (provider.name.clone(), provider.host().to_owned())));
        *self.setup.write() = Arc::new(checked.setup(&self.gateway));
        Ok(())
    }

    pub(crate) fn setup(&self) -> Arc<ModelSetup> {
        self.setup.read().clone()
    }

    /// Whether every task is recorded.
    pub fn records_all(&self) -> bool {
        self.setup.read().record
    }

    /// From here on requests may leave: what the last kernel noted is on record.
    pub fn begin(&self) -> Result<(), Fault> {
        self.flights.begin(self.ledger.look(|world| world.starts))
    }

    /// Lets go of what a process's work on a task was recorded on or answered from.
    pub fn close_cassettes(&self, pid: Pid, task: world::TaskId) {
        self.cassettes.forget((pid, Some(task)));
    }

    /// Stops every request that is on its way. Done when all are settled, or when that takes too long: then the next kernel holds them.
    pub fn stop(&self) -> impl Future<Output = ()> + Send + use<> {
        self.stopping.store(true, Ordering::SeqCst);
        let words = "the kernel was stopped".to_owned();
        let settled = self.flights.stop(&|_| true, &StopCause { ending: Ending::Stopped, words });
        async move {
            if tokio::time::timeout(SETTLE_MAX, settled).await.is_err() {
                world::log!("skep: requests to models were not settled in time");
            }
        }
    }

    /// When the built-in prices were true.
    pub fn prices_as_of(&self) -> String {
        self.setup.read().prices.as_of.clone()
    }

    /// Nobody is served any more.
    pub fn close(&self) {
        self.listeners.lock().drain().flat_map(|(_, listeners)| listeners).for_each(|listener| listener.task.abort());
    }
}

/// A process's way to the gateway.
#[derive(Clone, Debug)]
pub struct GatewayAccess {
    pub pid: Pid,
    pub address: SocketAddr,
    pub key: Secret,
}

impl Models {
    /// A process at the gateway, behind a door of the caller's choice.
    pub(crate) fn session_with(
        &self,
        pid: Pid,
        client: Option<VendorClient>,
        admission: Arc<dyn Admission>,
    ) -> Result<ClientSession, Fault> {
        let mut bytes = [0_u8; 32];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| Fault::new(FaultKind::Io, "no key can be made", error))?;
        // The redactor knows it by its shape, so there is nothing to tell it and nothing to forget.
        let key = Secret::new(format!("{}{}", journal::OWN_KEY, hex(&bytes)));
        Ok(ClientSession { pid: pid.0, key, client, admission })
    }

    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Ends a process's way to the gateway, with every request that is on it.
    pub fn dismiss(&self, pid: Pid) {
        self.cassettes.forget((pid, None));
        self.cancel_notices.forget(pid);
        for listener in self.listeners.lock().remove(&pid).unwrap_or_default() {
            listener.task.abort();
        }
    }

    /// Closes a process's listeners. Done when every answer that is on its way has reached its client.
    fn close_listeners(&self, pid: Pid) -> impl Future<Output = ()> + Send + use<> {
        let mut all = Vec::new();
        for listener in self.listeners.lock().get(&pid).into_iter().flatten() {
            listener.closing.send_replace(true);
            all.push(listener.closing.clone());
        }
        async move {
            for closing in all {
                closing.closed().await;
            }
        }
    }

    /// Ends a program's way to models; it is told why, at every request that is on the way.
    pub async fn cancel_gateway(&self, pid: Pid, by: &str) -> Result<(), Fault> {
        let why = format!("process {pid} was cancelled by {by}");
        self.ledger.record_exit(pid, true, format!("cancelled by {by}")).await?;
        // Each request that is on the way ends and says so; then whoever opened the gateway ends its program and hangs up.
        let settled = self.stop_requests_of(RequestOwner::Process(pid), &why);
        let heard = self.close_listeners(pid);
        // A client that takes nothing of its answer does not hold this up.
        drop(tokio::time::timeout(HEARD_MAX, heard).await);
        let closed = self.cancel_notices.tell(pid, &why);
        let over = tokio::time::timeout(ENDED_MAX, async { tokio::join!(settled, closed) }).await;
        self.dismiss(pid);
        let late = |_| Fault::new(FaultKind::Bug, "its way to models is closed, but its program did not end", "it hears nothing");
        over.map(drop).map_err(late)
    }

    /// Comes back when somebody cancels the process, with the reason.
    pub async fn gateway_cancelled(&self, pid: Pid) -> String {
        self.cancel_notices.of(pid).await
    }

    /// The program is gone.
    pub async fn close_gateway(&self, pid: Pid) -> Result<(), Fault> {
        self.dismiss(pid);
        self.ledger.record_exit(pid, false, "its program ended".into()).await
    }
}

impl Models {
    /// Serves one process at a listener of its own. The key is good there and nowhere else, as long as the process lives.
    pub fn serve(self: &Arc<Self>, pid: Pid, zone: ZoneId, client: Option<VendorClient>, listener: TcpListener) -> Result<Secret, Fault> {
        let session = Arc::new(self.session_of(pid, zone, client)?);
        let key = session.key.clone();
        self.cancel_notices.open(pid);
        let (closing, is_closing) = watch::channel(false);
        let task = tokio::spawn(gateway::listen(self.gateway.clone(), session, listener, is_closing)).abort_handle();
        self.listeners.lock().entry(pid).or_default().push(Listener { closing, task });
        Ok(key)
    }

    /// A process at the gateway without a socket, for brains that run inside the kernel's process: `gateway().answer(&session, …)`.
    pub fn session_of(self: &Arc<Self>, pid: Pid, zone: ZoneId, client: Option<VendorClient>) -> Result<ClientSession, Fault> {
        self.session_with(pid, client, Arc::new(ProcessAdmission::of(self, pid, zone)))
    }

    /// Opens the gateway on 127.0.0.1 to a program outside any room, as a process of its own.
    pub async fn open_gateway(
        self: &Arc<Self>,
        zone: ZoneId,
        client: Option<VendorClient>,
        traffic: Traffic,
    ) -> Result<GatewayAccess, Stop> {
        if !self.setup.read().loopback {
            return Err(Refusal::new(Code::Unsupported, "the gateway is closed to programs outside sandboxes")
                .remedy(world::Remedy::OpenLoopback)
                .into());
        }
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(|error| Fault::new(FaultKind::Io, "cannot listen", error))?;
        let address = listener.local_addr().map_err(|error| Fault::new(FaultKind::Io, "cannot listen", error))?;
        let user = self.gate.user.clone();
        let pending = self.ledger.commit(|world, _| {
            let pid = world.next_pid();
            let nth = world.processes.values().filter(|process| process.role == CLIENT).count() + 1;
            let name = format!("{CLIENT}.{nth}");
            (
                vec![
                    ProcSpawned {
                        pid,
                        task: None,
                        parent: Some(Pid::OPERATOR),
                        name,
                        role: CLIENT.into(),
                        zone: Some(zone),
                        user,
                        program: None,
                    }
                    .into(),
                ],
                pid,
            )
        })?;
        let pid = pending.durable().await?;
        if let Err(stop) = self.set_up_traffic(pid, &traffic).await {
            self.close_gateway(pid).await?;
            return Err(stop);
        }
        let key = self.serve(pid, zone, client, listener)?;
        Ok(GatewayAccess { pid, address, key })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
