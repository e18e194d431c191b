//! Children of the kernel's own: they start as this program, take in what they need, and then lock themselves by `strict`.
//!
//! An attempt stands for such a child gone bad. It is loaded before the lock and called after it.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use sandbox::Sockets;

use super::attempt::Attempt;
use super::runtime::{Ran, Runtime};
use super::scene::Scene;

/// As the first argument: this process is such a child.
pub const FLAG: &str = "--child";

struct Child;

pub fn start() -> Box<dyn Runtime> {
    Box::new(Child)
}

impl Runtime for Child {
    fn profiles(&self) -> &'static [&'static str] {
        &["strict", "strict-unix"]
    }

    fn run(&self, scene: &Scene, attempt: &Attempt, _: &[String], profile: &str) -> Ran {
        let library = scene.home().join("attempt.so");
        attempt.compile(&super::runner::own(), &library, &["-shared", "-fPIC", "-Dmain=attempt"]);
        // By this name the user may run it whatever folder it lies in.
        let me = format!("/proc/{}/exe", std::process::id());
        let mut command = Command::new("timeout");
        command.args(["--kill-after=1", "120"]).arg(me).arg(FLAG).arg(&library).arg(profile);
        let output = command.current_dir(scene.home()).stdin(Stdio::null()).env_clear().envs(scene.env(true)).output().unwrap();
        // `timeout` dies as its child did, or tells of it by its own code.
        let exit = match output.status.code() {
            Some(code) if code > 128 => Err(code - 128),
            Some(code) => Ok(code),
            None => Err(output.status.signal().unwrap_or(0)),
        };
        let Output { stdout, stderr, .. } = output;
        Ran { exit, stdout, stderr, cut: false, timed_out: false, out_of_memory: false, overfull: false }
    }
}

/// What the child does.
#[expect(unsafe_code, reason = "an attempt is C, loaded into this process")]
pub fn main(library: &Path, profile: &str) -> ! {
    let name = CString::new(library.as_os_str().as_bytes()).unwrap();
    // SAFETY: the library is the attempt that was just compiled; its `attempt` is a C `main` without arguments.
    let attempt: extern "C" fn() -> libc::c_int = unsafe {
        let loaded = libc::dlopen(name.as_ptr(), libc::RTLD_NOW);
        assert!(!loaded.is_null(), "{} does not load", library.display());
        let found = libc::dlsym(loaded, c"attempt".as_ptr());
        assert!(!found.is_null(), "{} has no attempt", library.display());
        std::mem::transmute(found)
    };
    sandbox::lock(if profile == "strict-unix" { Sockets::Unix } else { Sockets::None }).unwrap();
    let code = attempt();
    // SAFETY: ends the process; the attempt's output is written on the way.
    unsafe { libc::exit(code) }
}
