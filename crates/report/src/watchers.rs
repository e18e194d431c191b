//! Who looks on at which worker.
//!
//! A watcher has a place until it leaves, and says from time to time that it is still there; one that is silent for too long loses its
//! place at the next look. **Invariant.** A worker has at most [`WATCHERS_MAX`] watchers, and one that is gone holds nobody up: whoever
//! comes when all places are taken has the silent ones dropped first. Reads no clock: every moment is given.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use world::limits::{WATCH_SILENT_MS_MAX, WATCHERS_MAX};
use world::{Code, Pid, Refusal};

/// All watchers. Those of no worker look on at all of them.
#[derive(Default)]
pub struct Watchers(Mutex<WatcherList>);

#[derive(Default)]
struct WatcherList {
    last: u64,
    open: Vec<Watcher>,
}

struct Watcher {
    number: u64,
    of: Option<Pid>,
    /// When it last said that it is there.
    heard: Instant,
    dropped: watch::Sender<bool>,
}

impl Watcher {
    fn is_silent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.heard) > Duration::from_millis(WATCH_SILENT_MS_MAX)
    }
}

impl Watchers {
    /// A place to look on from; `who` is what is looked at, for the refusal.
    pub fn join(self: &Arc<Watchers>, of: Option<Pid>, who: &str, now: Instant) -> Result<WatchSeat, Refusal> {
        let mut list = self.0.lock();
        let count = |list: &WatcherList| list.open.iter().filter(|watcher| watcher.of == of).count();
        if count(&list) >= WATCHERS_MAX {
            list.drop_silent(now);
        }
        if count(&list) >= WATCHERS_MAX {
            return Err(Refusal::new(Code::Exhausted, format!("{WATCHERS_MAX} watch {who} already, and no more may"))
                .hint("one of them must leave first; what was done is in the log"));
        }
        list.last += 1;
        let number = list.last;
        let (dropped, is_dropped) = watch::channel(false);
        list.open.push(Watcher { number, of, heard: now, dropped });
        Ok(WatchSeat { watchers: Arc::clone(self), number, is_dropped })
    }

    /// Drops those that were silent for too long, and says how many.
    pub fn sweep(&self, now: Instant) -> usize {
        self.0.lock().drop_silent(now)
    }
}

impl WatcherList {
    fn drop_silent(&mut self, now: Instant) -> usize {
        let before = self.open.len();
        self.open.retain(|watcher| {
            let goes = watcher.is_silent(now);
            if goes {
                watcher.dropped.send_replace(true);
            }
            !goes
        });
        before - self.open.len()
    }
}

/// A watcher's place, as long as this is held.
pub struct WatchSeat {
    watchers: Arc<Watchers>,
    number: u64,
    is_dropped: watch::Receiver<bool>,
}

impl WatchSeat {
    /// It is still there.
    pub fn keep_place(&self, now: Instant) {
        let mut list = self.watchers.0.lock();
        if let Some(watcher) = list.open.iter_mut().find(|watcher| watcher.number == self.number) {
            watcher.heard = now;
        }
    }

    /// Returns when its place was taken away. It may be given up and asked again.
    pub async fn dropped(&self) {
        // Without a sender its place is gone too.
        let _ = self.is_dropped.clone().wait_for(|dropped| *dropped).await;
    }
}

impl Drop for WatchSeat {
    fn drop(&mut self) {
        self.watchers.0.lock().open.retain(|watcher| watcher.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(begin: Instant, seconds: u64) -> Instant {
        begin + Duration::from_secs(seconds)
    }

    fn refusal(joined: Result<WatchSeat, Refusal>) -> String {
        joined.err().map(|refusal| refusal.reason).unwrap_or_default()
    }

    #[test]
    fn a_worker_has_ten_watchers_and_the_next_is_refused_in_words() {
        let (watchers, now) = (Arc::new(Watchers::default()), Instant::now());
        let mut seats: Vec<_> = (0..10).map(|_| watchers.join(Some(Pid(3)), "worker.1", now).unwrap()).collect();
        assert_eq!(refusal(watchers.join(Some(Pid(3)), "worker.1", now)), "10 watch worker.1 already, and no more may");
        // Another worker, and all of them together, have places of their own.
        assert!(watchers.join(Some(Pid(4)), "worker.2", now).is_ok() && watchers.join(None, "everything", now).is_ok());
        seats.pop();
        assert!(watchers.join(Some(Pid(3)), "worker.1", now).is_ok(), "who leaves makes room");
    }

    #[tokio::test]
    async fn a_silent_watcher_loses_its_place_after_a_minute() {
        let (watchers, begin) = (Arc::new(Watchers::default()), Instant::now());
        let silent = watchers.join(Some(Pid(3)), "worker.1", begin).unwrap();
        let lively = watchers.join(Some(Pid(3)), "worker.1", begin).unwrap();
        lively.keep_place(after(begin, 30));
        assert_eq!(watchers.sweep(after(begin, 30)), 0);
        assert_eq!(watchers.sweep(after(begin, 60)), 0, "a minute is not more than a minute");
        assert_eq!(watchers.sweep(after(begin, 61)), 1);
        silent.dropped().await;
        let goes_on = tokio::time::timeout(Duration::ZERO, lively.dropped()).await;
        assert!(goes_on.is_err(), "who was heard stays");
        // What is heard too late brings nothing back.
        silent.keep_place(after(begin, 62));
        lively.keep_place(after(begin, 62));
        assert_eq!(watchers.sweep(after(begin, 122)), 0);
        assert_eq!(watchers.sweep(after(begin, 123)), 1);
    }

    #[test]
    fn who_comes_when_all_places_are_taken_gets_that_of_a_silent_one() {
        let (watchers, begin) = (Arc::new(Watchers::default()), Instant::now());
        let seats: Vec<_> = (0..10).map(|_| watchers.join(None, "everything", begin).unwrap()).collect();
        seats[1..].iter().for_each(|seat| seat.keep_place(after(begin, 50)));
        assert!(watchers.join(None, "everything", after(begin, 60)).is_err());
        let late = watchers.join(None, "everything", after(begin, 61));
        assert!(late.is_ok());
        assert!(watchers.join(None, "everything", after(begin, 61)).is_err(), "there was one such place");
    }
}
