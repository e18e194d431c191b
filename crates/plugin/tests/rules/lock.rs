//! What the child can still ask of the system after it has loaded the rules: nearly nothing.

use std::fs::File;
use std::process::{Command, ExitCode};

use super::host::{Host, Test};

pub const TESTS: &[Test] = &[("a_locked_process_opens_and_starts_nothing", a_locked_process_opens_and_starts_nothing)];
/// What makes this program the one that looks from inside.
pub const PROBE: &str = "lock-probe";

fn a_locked_process_opens_and_starts_nothing(_: &Host) {
    let status = Command::new(std::env::current_exe().unwrap()).arg(PROBE).status().unwrap();
    assert!(status.success());
}

type Try = (&'static str, fn() -> std::io::Result<()>);

pub fn probe() -> ExitCode {
    let tries: [Try; 4] = [
        ("open", || File::open("/proc/self/status").map(drop)),
        ("start", || Command::new("/bin/true").status().map(drop)),
        ("socket", || std::os::unix::net::UnixDatagram::unbound().map(drop)),
        ("thread", || std::thread::Builder::new().spawn(|| ()).map(|thread| drop(thread.join()))),
    ];
    for (name, attempt) in tries {
        assert!(attempt().is_ok(), "{name} before");
    }
    plugin::lock().unwrap();
    for (name, attempt) in tries {
        let error = attempt().expect_err(name);
        assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied, "{name}");
    }
    // Memory and the streams still work.
    println!("{}", vec![1_u8; 16 << 20].len());
    ExitCode::SUCCESS
}
