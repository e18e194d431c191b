//! Calls of one task at once, in order only where they meet.
//!
//! **Invariant.** Of two calls that conflict, the one that came first has ended before the other begins; so order among them is the
//! order of asking, and nobody waits for a circle.

use crate::place::{Access, Target};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Notify;

/// Do two calls meet: does one write what the other reads or writes? A folder meets everything below it, and what has no
/// conflict here may still depend on another call's result; the caller who knows that waits.
pub fn conflicts(a: &[Target], b: &[Target]) -> bool {
    a.iter().any(|a| b.iter().any(|b| (a.access.writes() || b.access.writes()) && overlap(a, b)))
}

fn overlap(a: &Target, b: &Target) -> bool {
    // A program's working directory says nothing about where it reaches.
    if a.access == Access::Run || b.access == Access::Run {
        return true;
    }
    let is_below =
        |path: &str, folder: &str| folder == "." || path == folder || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'));
    is_below(&a.path, &b.path) || is_below(&b.path, &a.path)
}

/// The calls of one task that are on their way.
#[derive(Debug, Default)]
pub struct Lanes {
    calls: Mutex<Calls>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct Calls {
    next: u64,
    /// By the order in which they came, waiting and running ones alike.
    open: BTreeMap<u64, Vec<Target>>,
}

/// A call's time to run. It ends when this is dropped.
#[must_use = "the next call begins when this is dropped"]
#[derive(Debug)]
pub struct Lane {
    lanes: Arc<Lanes>,
    number: u64,
}

impl Lanes {
    /// Waits until no earlier call conflicts. `touches` are paths as `RegisteredTool::touches_by_name` gives them. The place in the row is taken
    /// when the future is first polled; dropping the future gives it up.
    pub async fn enter(self: &Arc<Lanes>, touches: Vec<Target>) -> Lane {
        let lane = {
            let mut calls = self.calls.lock();
            let number = calls.next;
            calls.next += 1;
            calls.open.insert(number, touches);
            Lane { lanes: Arc::clone(self), number }
        };
        loop {
            // Asked for before the look, so that an end between look and wait is not missed.
            let ended = self.ended.notified();
            if !self.is_blocked(lane.number) {
                return lane;
            }
            ended.await;
        }
    }

    fn is_blocked(&self, number: u64) -> bool {
        let calls = self.calls.lock();
        let own = calls.open.get(&number).map(Vec::as_slice).unwrap_or_default();
        calls.open.range(..number).any(|(_, earlier)| conflicts(earlier, own))
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.lanes.calls.lock().open.remove(&self.number);
        self.lanes.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::Access::{List, Name, Read, Run, Write};
    use std::time::Duration;
    use tokio::time::timeout;

    fn at(path: &str, access: Access) -> Vec<Target> {
        vec![Target { path: path.to_owned(), access }]
    }

    #[test]
    fn calls_conflict_where_one_writes() {
        let check = |a: (&str, Access), b: (&str, Access), expected: bool| {
            let (left, right) = (at(a.0, a.1), at(b.0, b.1));
            assert_eq!((conflicts(&left, &right), conflicts(&right, &left)), (expected, expected), "{a:?} {b:?}");
        };
        check(("a", Read), ("a", Read), false);
        check(("a", Read), ("a", Write), true);
        check(("a", Write), ("a", Write), true);
        check(("a", Write), ("b", Write), false);
        check(("src", List), ("src/a", Write), true);
        check(("src", List), ("srcs/a", Write), false);
        check((".", List), ("deep/down/a", Write), true);
        check((".", List), (".", List), false);
        check(("src/a", Read), ("src", Name), true);
        check(("x", Run), ("y/z", Read), true);
        check(("x", Run), ("x", Run), true);
        assert!(!conflicts(&[], &at("x", Run)), "what touches nothing meets nobody");
    }

    /// Is a call let in at once?
    async fn passes(lanes: &Arc<Lanes>, touches: Vec<Target>) -> Option<Lane> {
        timeout(Duration::ZERO, lanes.enter(touches)).await.ok()
    }

    #[tokio::test]
    async fn only_those_that_meet_wait() {
        let lanes = Arc::new(Lanes::default());
        let first = lanes.enter(at("a", Write)).await;
        let second = passes(&lanes, at("b", Write)).await;
        assert!(second.is_some());
        assert!(passes(&lanes, at("a", Read)).await.is_none());
        drop(first);
        assert!(passes(&lanes, at("a", Read)).await.is_some());
    }

    #[tokio::test]
    async fn those_that_meet_run_in_the_order_in_which_they_came() {
        let lanes = Arc::new(Lanes::default());
        let order = Arc::new(Mutex::new(Vec::new()));
        let first = lanes.enter(at("a", Write)).await;
        let mut tasks = Vec::new();
        for number in 0..10 {
            let (lanes, order) = (Arc::clone(&lanes), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let _lane = lanes.enter(at("a", Write)).await;
                order.lock().push(number);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }));
            tokio::task::yield_now().await;
        }
        drop(first);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), (0..10).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn who_gives_up_waiting_holds_nobody() {
        let lanes = Arc::new(Lanes::default());
        let first = lanes.enter(at("a", Read)).await;
        assert!(passes(&lanes, at("a", Write)).await.is_none());
        assert!(passes(&lanes, at("a", Read)).await.is_some(), "the writer that gave up is not in the row");
        drop(first);
    }
}
