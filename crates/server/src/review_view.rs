//! A question to a person as clients see it.

use crate::view::name_of;
use wire::method::review::ReviewView;
use world::{Answer, ReviewState, World};

pub(crate) fn review_view(world: &World, found: &world::Review) -> ReviewView {
    let (answer, by): (Option<Answer>, Option<String>) = match &found.state {
        ReviewState::Answered { answer, by, .. } => (Some(*answer), Some(by.clone())),
        _ => (None, None),
    };
    ReviewView {
        review: found.id,
        pid: found.pid,
        process: name_of(world, found.pid),
        task: found.task,
        tool: found.tool.clone(),
        input: found.input.clone(),
        reasons: found.reasons.clone(),
        rules: found.rules.clone(),
        like: Some(found.like.clone()),
        room: found.room.clone(),
        history: history(world, found),
        asked_ms: found.asked_ms,
        state: (&found.state).into(),
        answer,
        by,
        diff: None,
        cut: found.whole.is_some(),
        lost: false,
        seen: None,
    }
}

/// How earlier questions about the same tool were answered, newest first.
fn history(world: &World, found: &world::Review) -> Vec<String> {
    let same = world.reviews.values().rev().filter(|other| other.id != found.id && other.tool == found.tool);
    let told = same.filter_map(|other| match &other.state {
        ReviewState::Answered { answer, by, reason, .. } => {
            let word = match answer {
                Answer::Allow => "allowed",
                Answer::Deny => "refused",
                Answer::Changes => "sent back",
            };
            let why = reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
            Some(format!("{} {word} by {by}{why}", other.id))
        }
        _ => None,
    });
    told.take(5).collect()
}
