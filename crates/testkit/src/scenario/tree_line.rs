//! What a record of the process tree says, in a scenario's journal.

use world::{Event, Recipient};

pub(super) fn detail(event: &Event) -> String {
    match event {
        Event::ProcStarted(e) => format!("incarnation {}", e.incarnation),
        Event::ProcSlept(e) => e.reason.clone(),
        Event::ProcWoken(e) => e.reason.clone(),
        Event::ProcBlocked(e) => format!("{:?}: {}", e.on, e.reason).to_lowercase(),
        Event::ProcUnblocked(e) => e.reason.clone(),
        Event::ProcSignalled(e) => format!("{:?} by {}: {}", e.signal, e.by, e.reason).to_lowercase(),
        Event::ProcCrashed(e) => format!("incarnation {} with {:?}", e.incarnation, e.code),
        Event::ProcRestarting(e) => format!("attempt {} after {} ms", e.attempt, e.delay_ms),
        Event::ProcAdopted(e) => format!("by {} from {}", e.parent, e.was),
        Event::ProcCollected(e) => format!("by {}", e.by),
        Event::ProcSnapshotted(e) => format!("{} bytes", e.bytes),
        Event::ProcLogged(e) => format!("{}: {}", e.level, e.message),
        Event::ProcReported(e) => format!("{:?} tokens", e.tokens),
        Event::MessageSent(e) => match &e.to {
            Recipient::Process(to) => format!("{} {} to {to}", e.message, e.kind),
            Recipient::Queue(name) => format!("{} {} to `{name}`", e.message, e.kind),
        },
        Event::MessageDelivered(e) => format!("{} to incarnation {}", e.message, e.incarnation),
        Event::MessageAnswered(e) => format!("{} {:?}", e.message, e.status).to_lowercase(),
        Event::MessageDropped(e) => format!("{} {}", e.message, e.why.as_str()),
        Event::ArtifactStored(e) => format!("{} {} version {} {}", e.artifact, e.key, e.version, e.visibility.as_str()),
        Event::ArtifactRemoved(e) => e.artifact.to_string(),
        Event::EscalationRaised(e) => format!("{} to {} {}: {}", e.escalation, e.to, e.severity.as_str(), e.issue),
        Event::EscalationPassed(e) => match (e.to, e.review) {
            (Some(to), _) => format!("{} to {to}", e.escalation),
            (None, Some(review)) => format!("{} as {review}", e.escalation),
            (None, None) => e.escalation.to_string(),
        },
        Event::EscalationHandled(e) => format!("{}: {}", e.escalation, e.response),
        Event::StreamOpened(e) => format!("{} `{}` to {}", e.stream, e.name, e.peer),
        Event::StreamClosed(e) => format!("{} {:?} forth, {:?} back: {}", e.stream, e.sent, e.received, e.why),
        Event::CronAdded(e) => format!("{} {} {}", e.cron, e.spec.expression, e.spec.action.as_str()),
        Event::CronRemoved(e) => format!("{} by {}", e.cron, e.by),
        Event::CronFired(e) => format!("{}{}", e.cron, if e.skipped { " passed over" } else { "" }),
        Event::CronEnded(e) => format!("{} with {}", e.cron, e.exit_code),
        Event::ResourceAsked(e) => format!("{} {} of {}: {}", e.amount, e.what, e.of, e.reason),
        Event::ResourceGiven(e) => format!("{} {} from {}", e.amount, e.what, e.from),
        other => other.kind().to_owned(),
    }
}
