//! The second wall, where the first one would let something through: each attempt is one that mounts, namespaces and the filter
//! allow, and each has its control.

use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use sandbox::{JobSpec, Profile, Stdio, Workspace};

use super::host::{Host, Test, text};

pub const TESTS: &[Test] = &[
    ("nothing_under_proc_is_written", nothing_under_proc_is_written),
    ("no_device_node_is_made", no_device_node_is_made),
    ("a_socket_handed_in_stays_mute", a_socket_handed_in_stays_mute),
    ("an_abstract_socket_of_the_host_is_out_of_reach", an_abstract_socket_of_the_host_is_out_of_reach),
    ("what_jobs_need_works", what_jobs_need_works),
];

const PYTHON: &str = "/usr/bin/python3";

/// Prints 0, or the number of the error.
fn attempt(body: &str) -> String {
    format!("import os,socket,stat\ntry:\n  {}\n  print(0)\nexcept OSError as e: print(e.errno)", body.replace('\n', "\n  "))
}

fn python(host: &Host, workspace: &Workspace, body: &str) -> String {
    text(&host.run(workspace, JobSpec::exec([PYTHON, "-c", &attempt(body)])).unwrap())
}

fn outside(body: &str) -> String {
    let output = std::process::Command::new(PYTHON).args(["-c", &attempt(body)]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn nothing_under_proc_is_written(host: &Host) {
    let workspace = host.open();
    let body = "open('/proc/self/oom_score_adj', 'w').write('1000')";
    assert_eq!(outside(body), "0");
    assert_eq!(python(host, &workspace, body), libc::EACCES.to_string());
    assert_eq!(python(host, &workspace, "open('/proc/self/oom_score_adj').read()"), "0");
}

/// A whiteout, the one node that everybody may make: it would delete a file of a layer it is put into.
fn no_device_node_is_made(host: &Host) {
    let workspace = host.open();
    let node = |folder: &str| format!("os.mknod('{folder}/node', 0o600 | stat.S_IFCHR, 0)");
    let elsewhere = tempfile::tempdir_in("/var/tmp").ok().filter(|_| host.root);
    let control = elsewhere.as_ref().map_or(host.folder.path(), |folder| folder.path());
    assert_eq!(outside(&node(control.to_str().unwrap())), "0");
    assert_eq!(python(host, &workspace, &node("/tmp")), libc::EACCES.to_string());
    assert_eq!(python(host, &workspace, "os.mkfifo('/tmp/fifo')\nos.mkdir('/tmp/folder')\nos.symlink('a', '/tmp/link')"), "0");
}

/// Runs Python with a socket of the host as its standard input.
fn with_socket(host: &Host, workspace: &Workspace, socket: OwnedFd, profile: Profile, body: &str) -> String {
    let mut job = JobSpec::exec([PYTHON, "-c", &attempt(body)]);
    job.profile = profile;
    let (read, write) = rustix::pipe::pipe().unwrap();
    host.block_on(async {
        let job = workspace.spawn(job, Stdio::Fd(socket), Stdio::Fd(write), Stdio::Null).await.unwrap();
        assert!(job.wait().await.unwrap().exit.success());
    });
    std::io::read_to_string(std::fs::File::from(read)).unwrap().trim_end().to_owned()
}

/// A filter sees a socket being made; one that was made elsewhere it does not.
fn a_socket_handed_in_stays_mute(host: &Host) {
    let workspace = host.open();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let made = || {
        use rustix::net::{AddressFamily, SocketType};
        rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap()
    };
    let connect = format!("socket.socket(fileno=0).connect(('127.0.0.1', {port}))");
    let bind = "socket.socket(fileno=0).bind(('127.0.0.1', 0))";
    for body in [connect.as_str(), bind] {
        assert_eq!(with_socket(host, &workspace, made(), Profile::StandardNet, body), "0", "{body}");
        assert_eq!(with_socket(host, &workspace, made(), Profile::Standard, body), libc::EACCES.to_string(), "{body}");
    }
}

/// A socket belongs to the network namespace it was made in; only Landlock asks who uses it.
fn an_abstract_socket_of_the_host_is_out_of_reach(host: &Host) {
    let workspace = host.open();
    let name = format!("skep-landlock-{}", std::process::id());
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let connect = format!("socket.socket(fileno=0).connect('\\0{name}')");
    let made = || {
        use rustix::net::{AddressFamily, SocketType};
        rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap()
    };
    assert_eq!(outside(&connect.replace("fileno=0", "socket.AF_UNIX")), "0");
    assert_eq!(with_socket(host, &workspace, made(), Profile::Standard, &connect), libc::EPERM.to_string());
    let own = "s=socket.socket(socket.AF_UNIX)\ns.bind('\\0mine')\ns.listen()\nsocket.socket(socket.AF_UNIX).connect('\\0mine')";
    assert_eq!(python(host, &workspace, own), "0");
}

fn what_jobs_need_works(host: &Host) {
    host.write("a/file", "x");
    let workspace = host.open();
    let body = "os.mkdir('b')\nos.rename('a/file', 'b/file')\nos.link('b/file', 'a/again')\nos.truncate('b/file', 0)\n\
                open('/dev/shm/x', 'w').write('y')\nopen('/dev/null', 'w').write('z')\n\
                m, s = os.openpty()\nos.ttyname(s)\nimport termios; termios.tcgetattr(s)\n\
                p = os.fork()\nif p == 0: __import__('signal').pause()\n\
                os.kill(p, 9); os.waitpid(p, 0)";
    assert_eq!(python(host, &workspace, body), "0");
}
