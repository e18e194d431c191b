//! Who calls, as a handler hears it over real sockets.

use crate::bed::{CoreClient, EchoCore, EchoDoor, client};
use hive::generated::agent::SpawnRequest;
use hive::generated::core::{ListCronRequest, ProcessInfoRequest};
use hive::tonic::{Code, Request};
use hive::{GrpcListener, PID_HEADER, PeerIdentity, ProcessSecrets, SECRET_HEADER, ServeLimits, core_service, serve};
use std::process::Stdio;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Who the handler was told calls, or the status.
type Heard = Result<String, (Code, String)>;

fn with<T>(message: T, headers: &[(&'static str, &str)]) -> Request<T> {
    let mut request = Request::new(message);
    for (name, value) in headers {
        request.metadata_mut().append(*name, value.parse().unwrap());
    }
    request
}

async fn spawn(client: &mut CoreClient, headers: &[(&'static str, &str)]) -> Heard {
    let answer = client.spawn_child(with(SpawnRequest::default(), headers)).await;
    let answer = answer.map_err(|status| (status.code(), status.message().to_owned()))?;
    Ok(answer.metadata().get("x-caller").unwrap().to_str().unwrap().to_owned())
}

fn caller(identity: &str, trusted_header: bool, claimed: Option<u64>) -> Heard {
    Ok(format!("RpcCaller {{ identity: {identity}, trusted_header: {trusted_header}, claimed: {claimed:?} }}"))
}

fn refused(code: Code, text: &str) -> Heard {
    Err((code, text.to_owned()))
}

#[tokio::test]
async fn at_a_door_the_listener_says_who_calls() {
    let door = EchoDoor::open(ServeLimits::default()).await;
    let mut client = door.client().await;
    assert_eq!(spawn(&mut client, &[]).await, caller("Process(7)", false, None));
    assert_eq!(spawn(&mut client, &[(PID_HEADER, "7")]).await, caller("Process(7)", false, Some(7)));
    let other = "you are process 7, and x-hivekernel-pid says 1";
    assert_eq!(spawn(&mut client, &[(PID_HEADER, "1")]).await, refused(Code::PermissionDenied, other));
    let twice = "x-hivekernel-pid stands more than once";
    assert_eq!(spawn(&mut client, &[(PID_HEADER, "7"), (PID_HEADER, "1")]).await, refused(Code::InvalidArgument, twice));
}

#[tokio::test]
async fn on_a_unix_socket_the_credentials_say_who_calls() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("core");
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let peers = Arc::clone(&seen);
    let identify = Arc::new(move |peer: &hive::UnixPeer<'_>| {
        let mut peers = peers.lock();
        peers.push((peer.uid, peer.os_pid));
        // The first is the operator, the second a program of process 9, the third a stranger.
        [PeerIdentity::Operator, PeerIdentity::Process(9), PeerIdentity::Unknown][peers.len() - 1]
    });
    let limits = ServeLimits::default();
    let listener = GrpcListener::Unix { socket: UnixListener::bind(&path).unwrap(), identify };
    let _handle = serve(listener, core_service(Arc::new(EchoCore::default()), &limits), limits);

    let mut operator = client(UnixStream::connect(&path).await.unwrap()).await;
    assert_eq!(spawn(&mut operator, &[]).await, refused(Code::Unauthenticated, "missing x-hivekernel-pid"));
    assert_eq!(spawn(&mut operator, &[(PID_HEADER, "abc")]).await, refused(Code::InvalidArgument, "invalid pid: abc"));
    assert_eq!(spawn(&mut operator, &[(PID_HEADER, "1")]).await, caller("Operator", false, Some(1)));
    let info = operator.get_process_info(ProcessInfoRequest { pid: 3 }).await.unwrap();
    assert!(info.metadata().contains_key("x-caller"), "a method that needs no pid is served without one");

    let mut nine = client(UnixStream::connect(&path).await.unwrap()).await;
    assert_eq!(spawn(&mut nine, &[]).await, caller("Process(9)", false, None));
    let other = "you are process 9, and x-hivekernel-pid says 1";
    assert_eq!(spawn(&mut nine, &[(PID_HEADER, "1")]).await, refused(Code::PermissionDenied, other));

    let mut stranger = client(UnixStream::connect(&path).await.unwrap()).await;
    assert_eq!(spawn(&mut stranger, &[(PID_HEADER, "1")]).await, refused(Code::Unauthenticated, "this socket does not serve you"));
    let mine = (rustix::process::geteuid().as_raw(), Some(std::process::id().cast_signed()));
    assert_eq!(*seen.lock(), [mine, mine, mine]);
}

/// A listener on TCP, and a secret of process 7.
async fn tcp(trust_pid_header: bool) -> (std::net::SocketAddr, String, hive::ServerHandle) {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let secrets = Arc::new(ProcessSecrets::default());
    let secret = secrets.issue(7).unwrap();
    let limits = ServeLimits::default();
    let service = core_service(Arc::new(EchoCore::default()), &limits);
    (address, secret, serve(GrpcListener::Tcp { socket, secrets, trust_pid_header }, service, limits))
}

#[tokio::test]
async fn on_tcp_a_secret_or_the_trusted_header_of_our_own_user_says_who_calls() {
    for is_trusted in [false, true] {
        let (address, secret, _handle) = tcp(is_trusted).await;
        let mut client = client(TcpStream::connect(address).await.unwrap()).await;
        assert_eq!(spawn(&mut client, &[(SECRET_HEADER, &secret)]).await, caller("Process(7)", false, None));
        let wrong = secret.replace("7.", "1.");
        let known = [(PID_HEADER, "1"), (SECRET_HEADER, wrong.as_str())];
        assert_eq!(spawn(&mut client, &known).await, refused(Code::Unauthenticated, "wrong x-skep-secret"));
        assert_eq!(spawn(&mut client, &[]).await, refused(Code::Unauthenticated, "missing x-hivekernel-pid"));
        let bare = "x-hivekernel-pid alone proves nothing here: send x-skep-secret";
        let expected = if is_trusted { caller("Process(1)", true, Some(1)) } else { refused(Code::Unauthenticated, bare) };
        assert_eq!(spawn(&mut client, &[(PID_HEADER, "1")]).await, expected);
        let cron = client.list_cron(ListCronRequest {}).await.map_err(|status| status.message().to_owned());
        assert_eq!(cron.is_ok(), is_trusted, "{cron:?}");
    }
}

/// Another user of this machine is not trusted, whatever it says. As root we can be another user; who is not root cannot try this.
#[tokio::test]
async fn the_bare_header_of_another_user_counts_for_nothing() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("not root: nobody else can be asked");
        return;
    }
    let (address, _, _handle) = tcp(true).await;
    // A relay that runs as nobody: the socket that reaches the listener is its own.
    let script = "import os,socket,sys,threading\nos.setgid(65534);os.setuid(65534)\nl=socket.create_server(('127.0.0.1',0))\nprint(l.getsockname()[1],flush=True)\n\
                  a,_=l.accept();b=socket.socket();b.connect(('127.0.0.1',int(sys.argv[1])))\n\
                  def f(x,y):\n while (d:=x.recv(65536)): y.sendall(d)\n\
                  threading.Thread(target=f,args=(a,b),daemon=True).start();f(b,a)\n";
    let mut relay = tokio::process::Command::new("python3");
    relay.args(["-c", script, &address.port().to_string()]).stdout(Stdio::piped()).kill_on_drop(true);
    let mut relay = relay.spawn().unwrap();
    let mut line = String::new();
    let mut stdout = tokio::io::BufReader::new(relay.stdout.take().unwrap());
    tokio::io::AsyncBufReadExt::read_line(&mut stdout, &mut line).await.unwrap();
    let port: u16 = line.trim().parse().unwrap();

    let mut nobody = client(TcpStream::connect(("127.0.0.1", port)).await.unwrap()).await;
    let bare = "x-hivekernel-pid alone proves nothing here: send x-skep-secret";
    assert_eq!(spawn(&mut nobody, &[(PID_HEADER, "1")]).await, refused(Code::Unauthenticated, bare));
    let mut ours = client(TcpStream::connect(address).await.unwrap()).await;
    assert_eq!(spawn(&mut ours, &[(PID_HEADER, "1")]).await, caller("Process(1)", true, Some(1)));
}
