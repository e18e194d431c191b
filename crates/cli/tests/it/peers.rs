//! Who may speak on the operator's socket, and what a stranger's bytes do to it.

use crate::common::Site;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;

fn answer(stream: &mut UnixStream) -> Option<serde_json::Value> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

fn send(stream: &mut UnixStream, body: &[u8]) {
    stream.write_all(&u32::try_from(body.len()).unwrap().to_be_bytes()).unwrap();
    stream.write_all(body).unwrap();
}

#[test]
fn malformed_frames_are_answered_and_the_kernel_goes_on() {
    let site = Site::new(&[]);
    site.ok(&["kernel", "start"]);
    let connect = || UnixStream::connect(site.home().join("kernel.sock")).unwrap();
    for (body, code) in [
        (&b"null"[..], -32600),
        (b"[]", -32600),
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"proc.list\"}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no.such\"}", -32601),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"task.show\",\"params\":{\"task\":\"x\"}}", -32602),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"task.show\",\"params\":7}", -32600),
    ] {
        let mut stream = connect();
        send(&mut stream, body);
        let said = answer(&mut stream).unwrap_or_else(|| panic!("no answer to {}", String::from_utf8_lossy(body)));
        assert_eq!(said["error"]["code"], code, "{}", String::from_utf8_lossy(body));
        // The same connection still works.
        send(&mut stream, b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"proc.list\"}");
        assert!(answer(&mut stream).unwrap()["result"]["processes"].is_array());
    }
    // A frame that announces 4 GiB is answered and the connection closed; one that never ends holds nobody up.
    let mut stream = connect();
    stream.write_all(&[0xff; 4]).unwrap();
    assert_eq!(answer(&mut stream).unwrap()["error"]["data"]["code"], "too_large");
    let mut half = connect();
    half.write_all(&[0, 0xff, 0, 0, b'{']).unwrap();
    site.ok(&["ps"]);
    assert_eq!(site.count("kernel.started"), 1);
}

/// A peer in other namespaces is not the operator, though it has the same user: that is what a process in a room would be.
#[test]
fn a_peer_from_another_namespace_is_refused() {
    let site = Site::new(&[]);
    site.ok(&["ps"]);
    let unshared = |flags: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(flags).arg(env!("CARGO_BIN_EXE_skep")).args(["ps"]).env("SKEP_HOME", site.home()).current_dir(site.project());
        crate::common::text(&command.output().unwrap())
    };
    // The control: another network namespace says nothing about who somebody is.
    let root = rustix::process::geteuid().is_root();
    if root {
        assert!(unshared(&["--net"]).contains("operator"));
        assert!(unshared(&["--mount"]).contains("another mnt namespace"));
        let nested = unshared(&["--pid", "--fork"]);
        assert!(nested.contains("another pid namespace"), "{nested}");
    }
    let nested = unshared(&["--user", "--map-current-user"]);
    assert!(nested.contains("another user namespace"), "{nested}");
}

/// Another user cannot reach the socket; and where the modes would let them, the peer check does not.
#[test]
fn another_user_is_refused() {
    assert!(rustix::process::geteuid().is_root(), "this test becomes another user: run the tests as root, or in a container");
    let site = Site::new(&[]);
    site.ok(&["ps"]);
    let skep = site.folder.path().join("skep");
    std::fs::copy(env!("CARGO_BIN_EXE_skep"), &skep).unwrap();
    let socket = site.home().join("kernel.sock");
    let script = format!(
        "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect({:?})\nb=b'{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"proc.list\"}}'\ns.sendall(len(b).to_bytes(4,'big')+b)\nprint(s.recv(65536)[4:].decode())",
        socket.display().to_string()
    );
    let other = |uid: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", uid, "--regid", uid, "--clear-groups", "python3", "-c", &script]);
        // A Python below somebody's home would be out of reach for the other user.
        crate::common::text(&command.env("PATH", "/usr/bin:/bin").output().unwrap())
    };
    assert!(other("0").contains("operator"), "the control: our own user is answered");
    assert!(other("65534").contains("PermissionError"));
    use std::os::unix::fs::PermissionsExt;
    for (path, mode) in [(site.folder.path().to_owned(), 0o755), (site.home(), 0o755), (socket, 0o666)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let said = other("65534");
    assert!(said.contains("user 65534 is not user 0"), "{said}");
}

/// A job in a room finds neither the home nor the socket.
#[test]
fn the_socket_is_not_in_a_room() {
    let site = Site::new(&[]);
    site.ok(&["init"]);
    let socket = site.home().join("kernel.sock").display().to_string();
    let look = format!("[\"sh\", \"-c\", \"test -e {socket} && echo reached; ls {} 2>&1; true\"]", site.home().display());
    let said = site.ok(&["call", "shell.run", &format!("command={look}")]);
    assert!(!said.contains("reached") && said.contains("No such file"), "{said}");
    // The control: the same look outside finds it.
    assert!(std::path::Path::new(&socket).exists());
}
