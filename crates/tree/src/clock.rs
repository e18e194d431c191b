//! The wall clock, waited for: until a time comes, or somebody sets the clock.

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime};
use std::time::Duration;
use tokio::net::unix::pipe::Receiver;

/// How long one sleeps where the system has no such timer: a step of the clock is noticed then.
const BLIND_MAX: Duration = Duration::from_secs(30);

pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// Waits until this time, and comes back earlier when the clock is set; without a time, until it is dropped.
pub(crate) async fn until(at_ms: Option<i64>) {
    let Some(at_ms) = at_ms else { return std::future::pending().await };
    if at_ms <= now_ms() {
        return;
    }
    match timer(at_ms) {
        // Readable when it is due, and when the clock was set: whoever waits looks at the clock.
        Ok(timer) => drop(timer.readable().await),
        Err(_) => {
            let left = u64::try_from(at_ms.saturating_sub(now_ms())).unwrap_or(0);
            tokio::time::sleep(Duration::from_millis(left).min(BLIND_MAX)).await;
        }
    }
}

/// A special file that can be read when the time has come.
fn timer(at_ms: i64) -> std::io::Result<Receiver> {
    let timer = timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
    let at = Timespec { tv_sec: at_ms.div_euclid(1000), tv_nsec: at_ms.rem_euclid(1000) * 1_000_000 };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: at };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &once)?;
    Receiver::from_owned_fd_unchecked(timer)
}
