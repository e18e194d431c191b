//! Which facts may be synced late, and which change nobody's rights.

use super::Event;
use crate::Hands;

/// Tools that read in the kernel's own process. The list is closed.
const READS: [&str; 5] = ["fs.read", "fs.list", "fs.exists", "search.glob", "search.grep"];

impl Event {
    /// Whether a call may go on while this is written and not yet synced: a read with the kernel's hands, which changes nothing and for which
    /// no grant, token or room is used, and its end. Whoever commits it says that nothing else was involved either.
    pub fn may_be_late(&self) -> bool {
        match self {
            Event::CallAdmitted(call) => {
                let is_plain = call.grant.is_none() && call.token.is_none() && call.rooms.as_ref().is_some_and(Vec::is_empty);
                is_plain && call.read_only && call.hands == Hands::Kernel && READS.contains(&&*call.tool)
            }
            Event::CallFinished(end) => end.blob.is_none(),
            // What a step came to follows from its call, which stands behind the one and before the other.
            Event::StepStarted(_) | Event::StepFinished(_) => true,
            _ => false,
        }
    }

    /// Whether every process may see after this what it might before: calls that use up no grant, their ends, and what is said.
    pub fn keeps_rights(&self) -> bool {
        match self {
            Event::CallAdmitted(call) => call.grant.is_none() && call.token.is_none(),
            Event::CallFinished(_) | Event::CallRefused(_) | Event::BrainSaid(_) | Event::ProcReported(_) | Event::ProcLogged(_) => true,
            Event::StepStarted(_) | Event::StepFinished(_) | Event::SessionCheckpointed(_) => true,
            Event::MessageSent(_) | Event::MessageDelivered(_) | Event::MessageAnswered(_) | Event::MessageDropped(_) => true,
            _ => false,
        }
    }
}
