//! When a person is told that something waits, and when a question is refused that nobody answered: `report` tells, this follows the journal.

use crate::Kernel;
use host::ReviewSettings;
use report::Notifier;
use std::sync::Arc;
use std::time::Duration;
use world::event::ReviewAnswered;
use world::{Answer, Event, ReviewState};

const LOOK_MS: u64 = 200;

/// Follows the questions until the kernel stops.
pub(crate) async fn run(kernel: Arc<Kernel>) {
    let mut notifier = Notifier::default();
    let mut follow = kernel.ledger.journal().follow();
    while !kernel.instance.stopping() {
        // As they are now: a change of the settings is a record, so it wakes this loop.
        let ReviewSettings { notify, deadline } = kernel.instance.settings.in_force().review.clone();
        let deadline = deadline.and_then(|text| policy::parse_duration(&text).ok());
        notifier.tell_new(notify.as_deref(), &kernel.ledger, &kernel.models.waits());
        if let Some(deadline) = deadline {
            expire(&kernel, deadline).await;
        }
        // A deadline passes without any record, so the wait has an end of its own.
        let tick = tokio::time::sleep(Duration::from_millis(LOOK_MS));
        tokio::select! {
            changed = follow.changed() => if changed.is_err() { return },
            () = tick, if deadline.is_some() => {}
        }
    }
}

/// Refuses questions that nobody answered in time.
async fn expire(kernel: &Kernel, deadline: Duration) {
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let over = i64::try_from(deadline.as_millis()).unwrap_or(i64::MAX);
    let pending = kernel.ledger.commit(|world, _| {
        let late =
            world.reviews.values().filter(|review| review.state == ReviewState::Open && now_ms.saturating_sub(review.asked_ms) >= over);
        let events: Vec<Event> = late
            .map(|review| {
                let (pid, task, reason) = (review.pid, review.task, Some("nobody answered in time".to_owned()));
                ReviewAnswered { pid, task, review: review.id, answer: Answer::Deny, by: "deadline".into(), reason, alternative: None }
                    .into()
            })
            .collect();
        let any = !events.is_empty();
        (events, any)
    });
    let refused = match pending {
        Ok(pending) => pending.durable().await,
        Err(fault) => Err(fault),
    };
    match refused {
        Ok(true) => kernel.tasks.wake(),
        Ok(false) => {}
        Err(fault) => world::log!("skep: a deadline could not be recorded: {fault}"),
    }
}
