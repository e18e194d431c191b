//! Ways out of a room, and into it.

use std::net::Ipv4Addr;

use sandbox::{Door, Inlets, JobSpec, Profile, SandboxError, Stdio, Workspace};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::host::{Host, Test, sh, text};

pub const TESTS: &[Test] = &[
    ("a_door_leads_to_who_started_the_job", a_door_leads_to_who_started_the_job),
    ("each_job_has_its_own_doors", each_job_has_its_own_doors),
    ("a_door_that_cannot_be_opened_starts_nothing", a_door_that_cannot_be_opened_starts_nothing),
    ("beside_its_doors_a_room_reaches_nothing", beside_its_doors_a_room_reaches_nothing),
    ("a_job_holds_no_descriptor_of_its_door", a_job_holds_no_descriptor_of_its_door),
    ("an_inlet_leads_to_what_listens_in_the_room", an_inlet_leads_to_what_listens_in_the_room),
];

const CALL: &str = "import socket,sys\nc=socket.create_connection((\"127.0.0.1\",int(sys.argv[1])))\n\
                    c.sendall(b\"ping\");c.shutdown(socket.SHUT_WR);print(c.makefile().read())";

fn caller(port: u16, doors: &[u16]) -> JobSpec {
    let mut spec = JobSpec::exec(["/usr/bin/python3", "-c", CALL, &port.to_string()]);
    spec.profile = Profile::StandardNet;
    spec.doors = doors.iter().map(|port| Door { port: *port }).collect();
    spec
}

/// Answers one connection with what it is called and what it heard.
async fn answer(listener: TcpListener, name: &str) {
    let (mut stream, peer) = listener.accept().await.unwrap();
    assert_eq!(peer.ip(), Ipv4Addr::LOCALHOST);
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await.unwrap();
    stream.write_all(format!("{name} heard {heard}").as_bytes()).await.unwrap();
}

async fn spoken(workspace: &Workspace, spec: JobSpec, name: &'static str) -> sandbox::Outcome {
    let attend = |mut doors: Vec<TcpListener>| drop(tokio::spawn(async move { answer(doors.remove(0), name).await }));
    workspace.run_attended(spec, None, attend).await.unwrap()
}

fn a_door_leads_to_who_started_the_job(host: &Host) {
    let workspace = host.open();
    let outcome = host.block_on(spoken(&workspace, caller(61_128, &[61_128]), "kernel"));
    assert_eq!(text(&outcome), "kernel heard ping");
    // A low port takes a right that the holder has and the job has not.
    let outcome = host.block_on(spoken(&workspace, caller(80, &[80]), "low"));
    assert_eq!(text(&outcome), "low heard ping");
}

fn each_job_has_its_own_doors(host: &Host) {
    let workspace = host.open();
    let (first, second) = host.block_on(async {
        tokio::join!(spoken(&workspace, caller(61_128, &[61_128]), "first"), spoken(&workspace, caller(61_128, &[61_128]), "second"),)
    });
    assert_eq!((text(&first).as_str(), text(&second).as_str()), ("first heard ping", "second heard ping"));
}

fn a_door_that_cannot_be_opened_starts_nothing(host: &Host) {
    let workspace = host.open();
    let many: Vec<u16> = (1..=Door::MAX as u16 + 1).collect();
    for doors in [&[5000, 5000][..], &[0], &many] {
        let refused = host.run(&workspace, caller(5000, doors));
        assert!(matches!(refused, Err(SandboxError::BadJob { .. })), "{refused:?}");
    }
    let most: Vec<u16> = (61_000..61_000 + Door::MAX as u16).collect();
    let mut spec = sh("exit 7");
    spec.doors = most.iter().map(|port| Door { port: *port }).collect();
    let mut job = host.block_on(workspace.spawn(spec, Stdio::Null, Stdio::Null, Stdio::Null)).unwrap();
    let ports: Vec<u16> = job.doors().iter().map(|door| door.local_addr().unwrap().port()).collect();
    assert_eq!(ports, most);
    assert_eq!(host.block_on(job.wait()).unwrap().exit, sandbox::Exit::Code(7));
}

fn beside_its_doors_a_room_reaches_nothing(host: &Host) {
    let outside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = outside.local_addr().unwrap().port();
    assert!(std::net::TcpStream::connect(outside.local_addr().unwrap()).is_ok(), "the host's own loopback works");
    let workspace = host.open();
    let said = |port: u16| {
        let outcome = host.run(&workspace, caller(port, &[61_128])).unwrap();
        assert!(!outcome.exit.success());
        String::from_utf8(outcome.stderr).unwrap()
    };
    assert!(said(port).contains("ConnectionRefusedError"));
    let mut far = sh(
        "/usr/bin/python3 -c 'import socket,sys\nfor f,a in ((2,(\"1.1.1.1\",443)),(2,(\"10.0.0.1\",53)),(10,(\"2606:4700:4700::1111\",443))):\n \
                      s=socket.socket(f,socket.SOCK_STREAM)\n print(s.connect_ex(a))\ntry: socket.getaddrinfo(\"example.com\",80)\nexcept socket.gaierror as e: print(e.errno)'",
    );
    far.profile = Profile::StandardNet;
    far.doors = vec![Door { port: 61_128 }];
    // No route for IPv4 and IPv6, and from the room's resolver "no such name".
    assert_eq!(text(&host.run(&workspace, far).unwrap()), "101\n101\n101\n-2");
}

fn a_job_holds_no_descriptor_of_its_door(host: &Host) {
    let workspace = host.open();
    let mut spec = sh("ls /proc/self/fd /proc/1/fd 2>&1 | grep -c socket; ls -l /proc/self/fd | grep -c socket");
    spec.doors = vec![Door { port: 61_128 }];
    spec.inlets = Inlets::MAX;
    let outcome = host.run(&workspace, spec).unwrap();
    assert_eq!(String::from_utf8(outcome.stdout).unwrap(), "0\n0\n");
}

const SERVE: &str = "import socket\ns=socket.socket();s.bind((\"127.0.0.1\",8080));s.listen(64);print(1,flush=True)\n\
                     while 1:\n c,_=s.accept()\n try: c.sendall(b\"room heard \"+c.recv(9))\n except OSError: pass\n c.close()";

async fn call(inlets: &std::sync::Arc<Inlets>, port: u16) -> std::io::Result<String> {
    let mut stream = inlets.connect(port).await?;
    stream.write_all(b"ping").await?;
    let mut heard = String::new();
    stream.read_to_string(&mut heard).await?;
    Ok(heard)
}

fn an_inlet_leads_to_what_listens_in_the_room(host: &Host) {
    let workspace = host.open();
    let mut spec = JobSpec::exec(["/usr/bin/python3", "-c", SERVE]);
    spec.profile = Profile::StandardNet;
    spec.inlets = Inlets::MAX + 1;
    let refused = host.run(&workspace, spec.clone());
    assert!(matches!(refused, Err(SandboxError::BadJob { .. })), "{refused:?}");
    spec.inlets = 2;
    host.block_on(async {
        let (out, out_end) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let job = workspace.spawn(spec, Stdio::Null, Stdio::Fd(out_end), Stdio::Null).await.unwrap();
        let mut out = tokio::net::unix::pipe::Receiver::from_owned_fd(out).unwrap();
        assert_eq!(out.read_u8().await.unwrap(), b'1');
        let inlets = job.inlets();
        // A socket goes back after each use, also after one that nobody answered, or that was given up.
        for _ in 0..20 {
            assert_eq!(call(&inlets, 8080).await.unwrap(), "room heard ping");
            assert_eq!(call(&inlets, 8081).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
            drop(inlets.connect(8080).await.unwrap());
        }
        let (first, second) = tokio::join!(call(&inlets, 8080), call(&inlets, 8080));
        assert_eq!((first.unwrap().as_str(), second.unwrap().as_str()), ("room heard ping", "room heard ping"));
        // The host's own loopback is another one, and after its end nothing answers in the room's.
        let outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = outside.local_addr().unwrap().port();
        assert_eq!(call(&inlets, port).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
        job.kill();
        job.wait().await.unwrap();
        assert_eq!(call(&inlets, 8080).await.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    });
}
