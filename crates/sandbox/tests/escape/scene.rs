//! The host around a room, with everything on it that an attempt could want.
//!
//! It stands twice: once for the room, once for the same attempt outside, which may then break it.

use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Gid, Mode, OFlags, Uid};

use super::attempt::Outside;
use super::runtime::Ran;
use super::shared::Shared;

/// What no room may ever say. It stands in masked files, in the home and in the environment of this process.
pub const SECRET: &str = "correct-horse-battery-staple";
/// The variable of this process that holds it.
pub const VARIABLE: &str = "ESCAPE_SECRET";
/// The project's secret files.
pub const MASKED: &[&str] = &[".env", "keys/server.pem", ".netrc", "vault"];

/// An id that owns nothing on this host.
const ORDINARY: u32 = 64_999;
/// Whoever jobs are when root runs the rooms.
const JOB: u32 = 64_800;

pub struct Scene {
    folder: tempfile::TempDir,
    /// A process of the user that jobs are.
    stranger: Child,
    tcp: TcpListener,
    name: String,
    shared: Shared,
    /// Somebody listens as long as the scene stands.
    sockets: Vec<UnixListener>,
    /// The ends at which a program of the host reads: of the project's pipe, and of its double.
    pipes: [OwnedFd; 2],
    /// The project as it was at first.
    listing: Vec<String>,
}

impl Scene {
    /// `root`: whether rooms are run by root. Must be called as root if this process is; [`Scene::become_user`] follows.
    pub fn new(root: bool) -> Scene {
        let parent = if root { "/var/tmp" } else { "/tmp" };
        let folder = tempfile::Builder::new().prefix("skep-escape-").tempdir_in(parent).unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("skep-escape-{}-{number}", std::process::id());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let mut stranger = Command::new("sleep");
        stranger.arg("600").stdin(Stdio::null()).stdout(Stdio::null());
        if rustix::process::geteuid().is_root() {
            let user = if root { JOB } else { ORDINARY };
            stranger.uid(user).gid(user);
        }
        for top in [folder.path().join("project"), folder.path().join("outside")] {
            fs::create_dir(&top).unwrap();
            rustix::fs::mkfifoat(rustix::fs::CWD, top.join("fifo"), Mode::from_raw_mode(0o666)).unwrap();
        }
        let reader =
            |top| rustix::fs::open(folder.path().join(top).join("fifo"), OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
        let pipes = ["project", "outside"].map(reader);
        let owner = if !root && rustix::process::geteuid().is_root() { ORDINARY } else { rustix::process::geteuid().as_raw() };
        let mut scene = Scene {
            shared: Shared::new(&name, number, owner),
            folder,
            stranger: stranger.spawn().unwrap(),
            tcp: TcpListener::bind("127.0.0.1:0").unwrap(),
            name,
            sockets: vec![listener],
            pipes,
            listing: Vec::new(),
        };
        for top in [scene.project(), scene.outside()] {
            write(&top.join("open.txt"), "open\n");
            for masked in MASKED {
                let file = if *masked == "vault" { top.join("vault/token") } else { top.join(masked) };
                write(&file, &format!("SECRET={SECRET}\n"));
            }
            write(&top.join("sub/file"), "file\n");
            std::os::unix::fs::symlink("keys/server.pem", top.join("innocent.txt")).unwrap();
            scene.sockets.push(open_socket(&top.join("socket")));
        }
        // As open as can be: what keeps a room out is not a permission.
        write(&scene.home().join("token"), SECRET);
        scene.sockets.push(open_socket(&scene.home().join("kernel.sock")));
        if !root && rustix::process::geteuid().is_root() {
            give(scene.folder.path());
        }
        scene.listing = listing(&scene.project());
        scene
    }

    pub fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// The same project for the attempt outside.
    fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Where attempts are put before they are run: seen by the room and by the outside under their own names.
    pub fn places(&self) -> [PathBuf; 2] {
        [self.project(), self.outside()]
    }

    /// What an attempt is told: how it would find what it should not reach.
    pub fn env(&self, inside: bool) -> Vec<(String, String)> {
        let stranger = self.stranger.id().to_string();
        let victim = if inside { "1".to_owned() } else { stranger.clone() };
        let project = if inside { self.project() } else { self.outside() };
        [
            ("STRANGER", stranger),
            ("VICTIM", victim),
            ("PORT", self.tcp.local_addr().unwrap().port().to_string()),
            ("ABSTRACT", self.name.clone()),
            ("SKEP_HOME", self.home().display().to_string()),
            ("PROJECT", project.display().to_string()),
            ("KERNEL", std::process::id().to_string()),
        ]
        .into_iter()
        .chain(self.shared.env())
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
    }

    /// What a room has done to the host. Asked before the attempt is made outside.
    pub fn harm(&self) -> Vec<String> {
        let mut harm = Vec::new();
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.stranger.id())).unwrap_or_default();
        if !stat.contains(") S ") {
            harm.push(format!("the stranger does not sleep any more: {stat}"));
        }
        for socket in &self.sockets {
            socket.set_nonblocking(true).unwrap();
            if let Ok((_, from)) = socket.accept() {
                harm.push(format!("{:?} was reached by {from:?}", socket.local_addr()));
            }
        }
        self.tcp.set_nonblocking(true).unwrap();
        harm.extend(self.tcp.accept().map(|(_, from)| format!("the port was reached by {from}")));
        if rustix::io::read(&self.pipes[0], &mut [0_u8; 8]).is_ok_and(|got| got > 0) {
            harm.push("the project's pipe was written to".to_owned());
        }
        harm.extend(self.shared.harm());
        let left = fs::read_dir(self.home().join("work")).into_iter().flatten().flatten();
        harm.extend(left.map(|entry| format!("{} is left", entry.path().display())));
        let listing = listing(&self.project());
        if listing != self.listing {
            harm.push(format!("the project has changed: {listing:?}"));
        }
        harm
    }

    /// From here on this process is the user whose rooms are tested.
    pub fn become_user(&self, root: bool) {
        if root || !rustix::process::geteuid().is_root() {
            return;
        }
        let (uid, gid) = (Uid::from_raw(ORDINARY), Gid::from_raw(ORDINARY));
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        // As in a process that this user has started: it may read its own /proc.
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable).unwrap();
    }

    /// Makes an attempt where nothing holds it back.
    pub fn run_outside(&self, how: Outside, argv: &[String]) -> Ran {
        // An attempt that hangs where nothing stops it proves nothing.
        let mut command = Command::new("timeout");
        command.args(["--kill-after=1", "120"]);
        if how == Outside::Namespace {
            command.args(["unshare", "-Urmpfniu", "--mount-proc", "--kill-child", "--"]);
        }
        let output = command.args(argv).current_dir(self.outside()).stdin(Stdio::null()).envs(self.env(false)).output().unwrap();
        let exit = output.status.code().ok_or_else(|| output.status.signal().unwrap_or(0));
        Ran { exit, stdout: output.stdout, stderr: output.stderr, cut: false, timed_out: false, out_of_memory: false, overfull: false }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // An attempt outside may have ended it already.
        let _ = self.stranger.kill();
        let _ = self.stranger.wait();
    }
}

fn open_socket(path: &Path) -> UnixListener {
    let socket = UnixListener::bind(path).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    socket
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Names, kinds, modes and contents of everything in a folder.
fn listing(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(&at).unwrap().flatten().filter(|entry| entry.file_name() != "attempt") {
            let (path, kind) = (entry.path(), entry.metadata().unwrap());
            let content = if kind.is_file() { fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
            found.push(format!("{} {:o} {content}", path.strip_prefix(folder).unwrap().display(), kind.permissions().mode()));
            if kind.is_dir() {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Makes everything the ordinary user's.
fn give(folder: &Path) {
    chown(folder, Some(ORDINARY), Some(ORDINARY)).unwrap();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            give(&entry.path());
        } else {
            std::os::unix::fs::lchown(entry.path(), Some(ORDINARY), Some(ORDINARY)).unwrap();
        }
    }
}
