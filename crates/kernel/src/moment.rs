//! Time that grants and tokens are measured in: since this boot of the machine, whatever the wall clock does.

use world::{Moment, Until};

/// Now, read once for a whole decision.
pub(crate) fn now() -> Moment {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let ms = time.tv_sec.cast_unsigned() * 1_000 + time.tv_nsec.cast_unsigned() / 1_000_000;
    Moment { boot: boot_id(), boottime_ms: ms }
}

/// The end of something that lasts `ms` from now.
pub(crate) fn after(ms: u64) -> Until {
    let Moment { boot, boottime_ms } = now();
    Until { boot, boottime_ms: boottime_ms.saturating_add(ms) }
}

/// Which boot of the machine this is: times of another one mean nothing.
pub(crate) fn boot_id() -> String {
    static ID: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    let read = || std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|text| text.trim().to_owned());
    ID.get_or_init(|| read().unwrap_or_else(|_| "unknown".into())).clone()
}

impl crate::Kernel {
    /// Now, as grants measure it.
    pub fn moment(&self) -> Moment {
        now()
    }

    /// The end of a grant that lasts `ms` from now.
    pub fn until(&self, ms: u64) -> Until {
        after(ms)
    }
}
