//! Whether something that runs makes place for something of higher priority: seed 003's wait, pause and destroy.
//!
//! Pure: the judgement of one case. Whoever carries it out pauses the room or ends the job.

use crate::order::SlotTicket;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preemption {
    /// It is almost done.
    Wait,
    /// It is frozen as it is, and goes on later.
    Pause,
    /// It is ended: a frozen one would keep the memory that is short.
    Destroy,
}

impl Preemption {
    pub fn as_str(self) -> &'static str {
        match self {
            Preemption::Wait => "wait",
            Preemption::Pause => "pause",
            Preemption::Destroy => "destroy",
        }
    }
}

/// Something that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreemptibleWork {
    pub ticket: SlotTicket,
    pub priority: u8,
    pub elapsed_ms: u64,
    pub time_ms_max: u64,
}

/// Memory of the machine, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    pub used: u64,
    pub total: u64,
}

/// What must make place for a claimant of this priority, if anything has a lower one: of the lowest the one that has lost least if it is ended.
pub fn choose_victim(claimant: u8, running: &[PreemptibleWork]) -> Option<&PreemptibleWork> {
    let lower = running.iter().filter(|work| work.priority > claimant);
    lower.min_by_key(|work| (std::cmp::Reverse(work.priority), work.elapsed_ms, std::cmp::Reverse(work.ticket)))
}

/// How it makes place.
pub fn judge_preemption(work: &PreemptibleWork, memory: MemoryUse) -> Preemption {
    if is_beyond_four_fifths(work.elapsed_ms, work.time_ms_max) {
        Preemption::Wait
    } else if is_beyond_four_fifths(memory.used, memory.total) {
        Preemption::Destroy
    } else {
        Preemption::Pause
    }
}

fn is_beyond_four_fifths(part: u64, whole: u64) -> bool {
    u128::from(part) * 5 > u128::from(whole) * 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(ticket: u64, priority: u8, elapsed_ms: u64) -> PreemptibleWork {
        PreemptibleWork { ticket: SlotTicket(ticket), priority, elapsed_ms, time_ms_max: 1_000 }
    }

    #[test]
    fn seed_003_is_followed_at_its_bounds() {
        let check = |elapsed_ms, used, expected| {
            let told = judge_preemption(&work(1, 5, elapsed_ms), MemoryUse { used, total: 100 });
            assert_eq!(told, expected, "{elapsed_ms} ms, {used} %");
        };
        check(0, 0, Preemption::Pause);
        check(800, 80, Preemption::Pause);
        check(801, 80, Preemption::Wait);
        check(801, 100, Preemption::Wait);
        check(800, 81, Preemption::Destroy);
        check(5_000, 100, Preemption::Wait);
        // Neither overflows.
        assert_eq!(
            judge_preemption(&PreemptibleWork { time_ms_max: u64::MAX, ..work(1, 5, u64::MAX) }, MemoryUse { used: 0, total: 1 }),
            Preemption::Wait
        );
        assert_eq!(judge_preemption(&work(1, 5, 0), MemoryUse { used: u64::MAX, total: u64::MAX }), Preemption::Destroy);
    }

    #[test]
    fn only_lower_priorities_make_place_and_the_lowest_first() {
        let running = [work(1, 3, 10), work(2, 5, 500), work(3, 5, 20), work(4, 2, 0)];
        let chosen = |claimant| choose_victim(claimant, &running).map(|work| work.ticket.0);
        assert_eq!((chosen(1), chosen(4), chosen(5)), (Some(3), Some(3), None));
        assert_eq!(choose_victim(2, &running[3..]), None);
        assert_eq!(choose_victim(1, &running[3..]).map(|work| work.ticket.0), Some(4));
    }
}
