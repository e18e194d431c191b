//! Where the gRPC service listens: a unix socket of the operator's, and an address of this machine.
//!
//! **Invariant.** Nothing here listens to the network: only loopback addresses and unix sockets are bound.

use crate::peer;
use hive::{GrpcListener, IdentifyPeer, PeerIdentity, ProcessSecrets, UnixPeer};
use kernel::{Fault, FaultKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::{TcpListener, UnixListener};
use world::Pid;

/// The operator's own socket, in the home.
pub(crate) const SOCKET: &str = "grpc.sock";

/// An address that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GrpcAddress {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl GrpcAddress {
    /// Reads `unix:///PATH`, `HOST:PORT` or `:PORT`, which is loopback.
    pub(crate) fn parse(text: &str) -> Result<GrpcAddress, Fault> {
        let bad = |why: &str, fix: &str| {
            Fault::new(FaultKind::Settings, format!("the gRPC address `{text}` cannot be used"), why).fix(fix.to_owned())
        };
        const FORMS: &str = "give `127.0.0.1:PORT`, `:PORT` or `unix:///PATH`";
        if let Some(path) = text.strip_prefix("unix://") {
            return match Path::new(path) {
                path if path.is_absolute() && path.file_name().is_some() => Ok(GrpcAddress::Unix(path.to_owned())),
                _ => Err(bad("the path of the socket is not absolute", FORMS)),
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(|| bad("it has no port", FORMS))?;
        let port: u16 = port.parse().map_err(|_| bad("its port is no number up to 65535", FORMS))?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let address: IpAddr = match host {
            "" | "localhost" => Ipv4Addr::LOCALHOST.into(),
            host => host.parse().map_err(|_| bad("its host is no address of this machine", FORMS))?,
        };
        if !address.is_loopback() {
            let why = "whoever reaches the network would reach the process tree: gRPC has no encryption and no login of its own";
            return Err(bad(why, "listen on `127.0.0.1:PORT`, and forward it with ssh for another machine"));
        }
        Ok(GrpcAddress::Tcp(SocketAddr::new(address, port)))
    }
}

/// An open listener, and the address by which clients reach it.
#[derive(Debug)]
pub(crate) struct OpenGrpc {
    pub listener: GrpcListener,
    pub address: String,
    /// To be removed at the end.
    pub path: Option<PathBuf>,
}

/// Opens a listener. `identify` says who is at the other end of a unix socket.
pub(crate) async fn open(
    address: &GrpcAddress,
    identify: IdentifyPeer,
    secrets: Arc<ProcessSecrets>,
    trust_pid_header: bool,
) -> Result<OpenGrpc, Fault> {
    match address {
        GrpcAddress::Tcp(address) => {
            let socket = TcpListener::bind(address).await.map_err(|error| {
                Fault::new(FaultKind::Settings, format!("cannot listen on `{address}`"), error)
                    .fix("end what listens there, or choose another port with `--grpc`")
            })?;
            let bound = socket.local_addr().map_err(|error| Fault::new(FaultKind::Io, format!("cannot listen on `{address}`"), error))?;
            Ok(OpenGrpc { listener: GrpcListener::Tcp { socket, secrets, trust_pid_header }, address: bound.to_string(), path: None })
        }
        GrpcAddress::Unix(path) => {
            let socket = private_socket(path)?;
            let address = format!("unix://{}", path.display());
            Ok(OpenGrpc { listener: GrpcListener::Unix { socket, identify }, address, path: Some(path.clone()) })
        }
    }
}

/// A socket that the operator alone can connect to. One that is left of a kernel that is gone is replaced; another file is not.
fn private_socket(path: &Path) -> Result<UnixListener, Fault> {
    let fail = |verb: &str, error: std::io::Error| {
        Fault::new(FaultKind::Settings, format!("cannot {verb} the socket `{}`", path.display()), error)
            .fix("choose another path with `--grpc unix:///PATH`")
    };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(fail("look at", error)),
        Ok(found) if !std::os::unix::fs::FileTypeExt::is_socket(&found.file_type()) => {
            return Err(fail("replace", std::io::Error::other("there is a file that is no socket")));
        }
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            return Err(fail("replace", std::io::Error::other("another program listens there")));
        }
        Ok(_) => std::fs::remove_file(path).map_err(|error| fail("replace", error))?,
    }
    // Bound under a private name and renamed, so that nobody connects before the mode is right.
    let mut private = path.as_os_str().to_owned();
    private.push(".new");
    let private = PathBuf::from(private);
    match std::fs::remove_file(&private) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(fail("replace", error)),
        _ => {}
    }
    let listener = UnixListener::bind(&private).map_err(|error| fail("bind", error))?;
    std::fs::set_permissions(&private, PermissionsExt::from_mode(0o600)).map_err(|error| fail("close", error))?;
    std::fs::rename(&private, path).map_err(|error| fail("place", error))?;
    Ok(listener)
}

/// Who is at the other end of the operator's unix socket: the program of a process of the tree, the operator, or nobody. `process_of` knows which
/// process an operating-system process belongs to.
pub(crate) fn identify(process_of: impl Fn(i32) -> Option<Pid> + Send + Sync + 'static) -> IdentifyPeer {
    Arc::new(move |peer: &UnixPeer<'_>| {
        // The same questions as on the control socket: user, namespaces, and that it lives.
        let Ok(_) = peer::operator(peer.stream) else { return PeerIdentity::Unknown };
        let Some(os_pid) = peer.os_pid else { return PeerIdentity::Unknown };
        match process_of(os_pid) {
            Some(pid) => PeerIdentity::Process(pid.0),
            None => PeerIdentity::Operator,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_are_taken_and_others_say_why() {
        let tcp = |text: &str| GrpcAddress::Tcp(text.parse().unwrap());
        for (text, expected) in [
            (":50051", tcp("127.0.0.1:50051")),
            ("localhost:50051", tcp("127.0.0.1:50051")),
            ("127.0.0.1:0", tcp("127.0.0.1:0")),
            ("[::1]:7", tcp("[::1]:7")),
            ("unix:///run/skep/core", GrpcAddress::Unix("/run/skep/core".into())),
        ] {
            assert_eq!(GrpcAddress::parse(text), Ok(expected), "{text}");
        }
        for (text, why) in [
            ("0.0.0.0:50051", "whoever reaches the network"),
            ("[::]:50051", "whoever reaches the network"),
            ("192.0.2.7:1", "whoever reaches the network"),
            ("50051", "no port"),
            (":grpc", "its port"),
            (":65536", "its port"),
            ("example.org:1", "its host"),
            ("unix://core", "not absolute"),
            ("unix:///", "not absolute"),
        ] {
            let fault = GrpcAddress::parse(text).unwrap_err();
            assert!(fault.why.contains(why) && fault.fix.is_some() && fault.what.contains(text), "{text}: {fault:?}");
        }
    }

    #[tokio::test]
    async fn a_socket_is_private_and_takes_no_place_from_another() {
        let folder = std::env::temp_dir().join(format!("skep-grpc-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("core");
        let first = private_socket(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(private_socket(&path).unwrap_err().why.contains("another program listens there"));
        drop(first);
        // What nobody listens to is left of a kernel that is gone.
        drop(private_socket(&path).unwrap());
        std::fs::write(folder.join("file"), "").unwrap();
        assert!(private_socket(&folder.join("file")).unwrap_err().why.contains("no socket"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
