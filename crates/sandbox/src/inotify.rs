//! How many inotify instances and watches a room may have.
//!
//! The host counts them for a user, whatever rooms that user's processes are in, so one job could leave none for the editor outside.
//! A room's user namespace has limits of its own, which its holder sets before anything runs in it. **Invariant.** All rooms together may
//! take half of what their user has; each gets a quarter of what the others have left of that.

use std::collections::HashMap;
use std::fs;
use std::io;

/// What one room may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allowance {
    instances: u64,
    watches: u64,
}

impl Allowance {
    /// Of a user's own limits.
    fn of_user() -> Allowance {
        let limit = |name: &str| {
            let read = |path: String| fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok());
            // In a container the second may be wide open while the first, the host's, is what counts.
            let found = [read(format!("/proc/sys/fs/inotify/max_user_{name}")), read(format!("/proc/sys/user/max_inotify_{name}"))];
            // What cannot be told is not given away.
            found.into_iter().flatten().min().unwrap_or(0)
        };
        Allowance { instances: limit("instances"), watches: limit("watches") }
    }

    /// Makes it the limit of the user namespace that this process is in, and has all rights in.
    pub(crate) fn hold(self) -> io::Result<()> {
        for (name, limit) in [("instances", self.instances), ("watches", self.watches)] {
            match fs::write(format!("/proc/sys/user/max_inotify_{name}"), limit.to_string()) {
                // A kernel without the limit has no inotify.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                written => written?,
            }
        }
        Ok(())
    }
}

/// What was given to the rooms that are open, by their holders.
#[derive(Debug, Default)]
pub(crate) struct Allowances {
    given: HashMap<i32, Allowance>,
}

impl Allowances {
    /// For a room that is about to be opened.
    pub(crate) fn next(&self) -> Allowance {
        self.next_of(Allowance::of_user())
    }

    fn next_of(&self, user: Allowance) -> Allowance {
        let share = |of: fn(&Allowance) -> u64| (of(&user) / 2).saturating_sub(self.given.values().map(of).sum()).div_ceil(4);
        Allowance { instances: share(|given| given.instances), watches: share(|given| given.watches) }
    }

    pub(crate) fn give(&mut self, holder: i32, allowance: Allowance) {
        self.given.insert(holder, allowance);
    }

    pub(crate) fn take_back(&mut self, holder: i32) {
        self.given.remove(&holder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rooms_together_leave_half() {
        let user = Allowance { instances: 128, watches: 8192 };
        let mut rooms = Allowances::default();
        for room in 0..1000 {
            let next = rooms.next_of(user);
            assert!(room > 5 || next.instances > 0, "the first few have some");
            rooms.give(room, next);
        }
        let sum = |of: fn(&Allowance) -> u64| rooms.given.values().map(of).sum::<u64>();
        assert_eq!((sum(|given| given.instances), sum(|given| given.watches)), (64, 4096));
        assert_eq!(rooms.next_of(user), Allowance { instances: 0, watches: 0 });
        rooms.take_back(0);
        assert_eq!(rooms.next_of(user).instances, 4, "what a closed room had is there again");
        assert_eq!(rooms.next_of(Allowance { instances: 1, watches: 1 }).instances, 0);
    }
}
