//! Time that grants, tokens and resting tools are measured in: since this boot of the machine, whatever the wall clock does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use world::{BootTime, Deadline};

/// The kernel's clock. A test that holds one can let time pass without waiting for it.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    skipped_ms: Arc<AtomicU64>,
}

impl Clock {
    /// Lets time pass at once. It only ever goes forward.
    pub fn skip(&self, time: Duration) {
        self.skipped_ms.fetch_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }

    fn skipped(&self) -> Duration {
        Duration::from_millis(self.skipped_ms.load(Ordering::SeqCst))
    }

    /// Now, read once for a whole decision.
    pub fn now(&self) -> BootTime {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let ms = time.tv_sec.cast_unsigned() * 1_000 + time.tv_nsec.cast_unsigned() / 1_000_000;
        BootTime { boot: boot_id(), boottime_ms: ms + self.skipped_ms.load(Ordering::SeqCst) }
    }

    /// The same, for what is measured within this process.
    pub fn instant(&self) -> Instant {
        Instant::now() + self.skipped()
    }

    /// The end of something that lasts `ms` from now.
    pub fn after(&self, ms: u64) -> Deadline {
        let BootTime { boot, boottime_ms } = self.now();
        Deadline { boot, boottime_ms: boottime_ms.saturating_add(ms) }
    }
}

/// Which boot of the machine this is: times of another one mean nothing.
pub fn boot_id() -> String {
    static ID: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let read = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned());
    ID.get_or_init(|| read().unwrap_or_else(|_| "unknown".into())).clone()
}
