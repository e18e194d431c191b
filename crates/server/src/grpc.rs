//! The process tree over gRPC: HiveKernel's `CoreService`, every method a row of the method table.
//!
//! `grpc/speaker.rs` says who speaks, the table what he may call, and the tree whether it happens. Answers are HiveKernel's: what the tree refuses stands
//! in the answer's error field where it has one, and is a status where it has none.
//! **Invariant.** No stream and no client holds up the end of the kernel.

mod artifact;
mod byte_stream;
mod cron;
mod follow;
mod listen;
mod message;
mod process;
mod service;
mod speaker;
mod status;

use crate::run::RunOptions;
use hive::{GrpcListener, ServeLimits, ServerHandle, serve, tree_services};
use kernel::{Fault, Kernel};
use listen::{GrpcAddress, SOCKET};
use service::CoreRpc;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tree::{CoreFace, Startup, Tree};

/// How long calls that are under way may take to hear that the kernel stops.
const STOP_GRACE: Duration = Duration::from_millis(200);

/// What was asked for: by the command line, or else by `config.yml`.
pub(crate) struct GrpcWish {
    /// `None`: there is no listener, and only agents in rooms reach the service.
    addresses: Option<Vec<GrpcAddress>>,
    trust_pid_header: bool,
    startup: Option<PathBuf>,
}

impl GrpcWish {
    pub(crate) fn read(home: &Path, options: &RunOptions) -> Result<GrpcWish, Fault> {
        let settings = kernel::grpc_settings(home)?;
        let is_on = options.grpc.is_some() || settings.is_some();
        let settings = settings.unwrap_or_default();
        let listen = options.grpc.as_deref().or(settings.listen.as_deref()).map(GrpcAddress::parse).transpose()?;
        let addresses = is_on.then(|| {
            let own = GrpcAddress::Unix(home.join(SOCKET));
            std::iter::once(own.clone()).chain(listen.filter(|listen| *listen != own)).collect()
        });
        let startup = options.startup.clone().or_else(|| settings.startup.map(|path| home.join(path)));
        Ok(GrpcWish { addresses, trust_pid_header: settings.trust_pid_header, startup })
    }

    pub(crate) fn check(address: &str) -> Result<(), Fault> {
        GrpcAddress::parse(address).map(drop)
    }

    /// The agents that the tree begins with.
    pub(crate) fn startup(&self) -> Result<Option<Startup>, Fault> {
        self.startup.as_deref().map(Startup::read).transpose()
    }
}

/// The listeners that are served, and the service for those that the tree opens itself.
pub(crate) struct GrpcFace {
    addresses: Arc<[String]>,
    listeners: Vec<ServerHandle>,
    /// Sockets to remove.
    paths: Vec<PathBuf>,
}

/// Serves the doors of processes.
struct DoorFace {
    // Each holds the other: both live as long as the kernel's process.
    tree: Arc<Tree>,
    trust_pid_header: bool,
    address: Option<String>,
}

impl CoreFace for DoorFace {
    fn serve(&self, listener: GrpcListener) -> ServerHandle {
        served(listener, self.tree.clone(), self.trust_pid_header)
    }

    fn address(&self) -> Option<String> {
        self.address.clone()
    }
}

fn served(listener: GrpcListener, tree: Arc<Tree>, trust_pid_header: bool) -> ServerHandle {
    let limits = ServeLimits::default();
    let service = Arc::new(CoreRpc { tree, trust_pid_header });
    serve(listener, tree_services(Arc::clone(&service), service, &limits), limits)
}

impl GrpcFace {
    /// Opens what was asked for, and lets the tree open doors for its programs.
    pub(crate) async fn open(kernel: &Kernel, wish: &GrpcWish) -> Result<GrpcFace, Fault> {
        let tree = &kernel.tree;
        let (mut addresses, mut listeners, mut paths) = (Vec::new(), Vec::new(), Vec::new());
        for address in wish.addresses.iter().flatten() {
            let programs = tree.clone();
            let process_of = move |os_pid: i32| programs.process_of(os_pid);
            let opened = listen::open(address, listen::identify(process_of), tree.secrets.clone(), wish.trust_pid_header).await?;
            addresses.push(opened.address);
            paths.extend(opened.path);
            listeners.push(served(opened.listener, tree.clone(), wish.trust_pid_header));
        }
        let address = addresses.first().cloned();
        tree.set_face(Arc::new(DoorFace { tree: tree.clone(), trust_pid_header: wish.trust_pid_header, address }));
        Ok(GrpcFace { addresses: addresses.into(), listeners, paths })
    }

    pub(crate) fn addresses(&self) -> Arc<[String]> {
        self.addresses.clone()
    }

    /// Ends every listener, whatever its clients do.
    pub(crate) async fn close(self) {
        for path in &self.paths {
            if let Err(error) = std::fs::remove_file(path) {
                world::log!("skep: the socket `{}` could not be removed: {error}", path.display());
            }
        }
        let ends: Vec<_> = self.listeners.into_iter().map(|listener| tokio::spawn(listener.stop(STOP_GRACE))).collect();
        for end in ends {
            if let Err(error) = end.await {
                world::log!("skep: a gRPC listener did not end as it should: {error}");
            }
        }
    }
}
