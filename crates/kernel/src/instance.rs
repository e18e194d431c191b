//! This run of the kernel: where its state lies, for whom it acts, what it was given, and whether it is stopping.

use crate::{Crash, Tuning};
use host::LiveSettings;
use ledger::Home;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub struct Instance {
    pub home: Arc<Home>,
    /// The operating-system user this kernel acts for.
    pub(crate) user: String,
    pub started_ms: i64,
    pub(crate) tuning: Tuning,
    /// The operator's own, as they are in force now.
    pub(crate) settings: Arc<LiveSettings>,
    /// Where a crash test wants this kernel to die.
    kill_at: Option<(String, u64)>,
    stopping: AtomicBool,
    /// What a crash of the last kernel interrupted, until somebody was told.
    pub(crate) crash: Mutex<Option<Crash>>,
}

impl Instance {
    pub(crate) fn new(
        home: Arc<Home>,
        user: String,
        tuning: Tuning,
        settings: Arc<LiveSettings>,
        kill_at: Option<(String, u64)>,
    ) -> Instance {
        let started_ms = jiff::Timestamp::now().as_millisecond();
        Instance { home, user, started_ms, tuning, settings, kill_at, stopping: AtomicBool::new(false), crash: Mutex::new(None) }
    }

    pub fn stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }

    pub(crate) fn begin_stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Ends this process on the spot where a crash test asked for it: nothing is flushed, nobody is told.
    pub(crate) fn fault_at(&self, point: &str, nth: u64) {
        if self.kill_at.as_ref().is_some_and(|(at, n)| at == point && *n == nth)
            && let Err(error) = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
        {
            world::log!("skep: a fault was asked for and did not happen: {error}");
        }
    }
}

impl host::BuildMoments for Instance {
    fn reached(&self, moment: u64) {
        self.fault_at("builds", moment);
    }
}

/// The name of the user that this program runs as.
pub(crate) fn user_name() -> String {
    let uid = rustix::process::geteuid().as_raw();
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_else(|_| String::new());
    let of_uid = |line: &&str| line.split(':').nth(2).and_then(|field| field.parse::<u32>().ok()) == Some(uid);
    passwd.lines().find(of_uid).and_then(|line| line.split(':').next()).map_or_else(|| uid.to_string(), str::to_owned)
}
