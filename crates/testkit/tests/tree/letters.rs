//! Messages as agents have them: in order, answered, put off, passed up and refused.

use crate::ground::{Ground, agent, play};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use testkit::harness::Test;
use tree::{EscalationOrder, MessageOrder, SpawnOrder};
use world::{DropReason, MessagePriority, Pid, ProcessRole, Recipient, Severity};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("an_agent_has_its_messages_in_order_and_answers_each", || play(answers)),
        Test::new("a_long_handler_is_not_cut_short_and_delays_nobody_else", || play(slow)),
        Test::new("an_agent_above_deals_with_trouble", || play(trouble)),
    ]
}

fn message(to: Pid, kind: &str, body: &str) -> MessageOrder {
    MessageOrder {
        to: Recipient::Process(to),
        kind: kind.into(),
        priority: MessagePriority::Normal,
        body: body.as_bytes().to_vec(),
        requires_ack: true,
        ttl: None,
        reply_to: None,
    }
}

async fn send(ground: &Ground, by: Pid, order: MessageOrder) -> Result<world::MessageId, String> {
    ground.tree().send(by, order).await.map_err(|stop| stop.to_string())
}

fn below(parent: Pid, order: SpawnOrder) -> SpawnOrder {
    SpawnOrder { parent: Some(parent), ..order }
}

async fn all_answered(ground: &Ground) -> Result<(), String> {
    let is_over = |world: &world::World| world.mail.messages.values().all(|one| one.copy_of.is_some());
    ground.until("all messages are answered", is_over).await
}

async fn answers(ground: Ground) -> Result<(), String> {
    let lead = ground.spawn(agent("lead", ProcessRole::Lead, "letters:Letters")).await?;
    let one = ground.spawn(below(lead, agent("one", ProcessRole::Worker, "letters:Letters"))).await?;
    let two = ground.spawn(below(lead, agent("two", ProcessRole::Worker, ""))).await?;
    // While it is at the first, the others wait in their order.
    send(&ground, two, message(one, "slow", "3")).await?;
    ground.until("it is at the first", |world| world.mail.messages.values().any(|one| one.holder.is_some())).await?;
    send(&ground, two, MessageOrder { priority: MessagePriority::Low, ..message(one, "third", "c") }).await?;
    send(&ground, two, MessageOrder { reply_to: Some("q-7".into()), ..message(one, "second", "b") }).await?;
    send(&ground, Pid::OPERATOR, message(one, "first", "a")).await?;
    all_answered(&ground).await?;
    assert_eq!(ground.execute(one, "tell", &[]).await?.1, "slow 3\nfirst a\nsecond b q-7\nthird c");

    let refused = send(&ground, two, message(one, "no", "")).await?;
    ground.until("it is refused", |world| world.mail.dead.iter().any(|letter| letter.message.id == refused)).await?;
    let dead = ground.tree().dead_letters(two, None).await.map_err(|stop| stop.to_string())?;
    assert_eq!(dead.iter().map(|letter| (letter.message.id, letter.why)).collect::<Vec<_>>(), [(refused, DropReason::Rejected)]);
    let told = ground.tree().inbox(two, two).await.map_err(|stop| stop.to_string())?;
    let [told] = &told[..] else { return Err(format!("{told:?}")) };
    assert_eq!((&*told.message.kind, told.message.from), ("message_dropped", Pid::KERNEL));
    assert!(String::from_utf8_lossy(&told.body).contains("not mine"), "{told:?}");

    send(&ground, two, message(one, "up", "x")).await?;
    send(&ground, two, message(one, "later", "y")).await?;
    ground
        .until("what was put off is answered", |world| {
            world.mail.messages.values().all(|one| one.copy_of.is_some() || [two, Pid::OPERATOR].map(Recipient::Process).contains(&one.to))
        })
        .await?;
    // The one above passes it on as well: it waits with the operator, who spawned both.
    assert!(ground.execute(lead, "tell", &[]).await?.1.contains("up x"));
    let had = ground.execute(one, "tell", &[]).await?.1;
    assert_eq!(had.lines().filter(|line| *line == "later y").count(), 2, "{had}");
    Ok(())
}

async fn slow(ground: Ground) -> Result<(), String> {
    let one = ground.spawn(agent("one", ProcessRole::Agent, "letters:Letters")).await?;
    let two = ground.spawn(agent("two", ProcessRole::Agent, "letters:Letters")).await?;
    let begun = Instant::now();
    send(&ground, Pid::OPERATOR, message(one, "slow", "11")).await?;
    send(&ground, Pid::OPERATOR, message(two, "quick", "")).await?;
    ground.until("the quick one has its message", |world| world.mail.messages.len() == 1).await?;
    assert!(begun.elapsed() < Duration::from_secs(8), "it waited for another's handler");
    all_answered(&ground).await?;
    assert!(begun.elapsed() >= Duration::from_secs(11), "the handler was cut short");
    assert!(ground.kernel.ledger.look(|world| world.mail.dead.is_empty()));
    Ok(())
}

async fn trouble(ground: Ground) -> Result<(), String> {
    let lead = ground.spawn(agent("lead", ProcessRole::Lead, "letters:Letters")).await?;
    let middle = ground.spawn(below(lead, agent("middle", ProcessRole::Lead, ""))).await?;
    let one = ground.spawn(below(middle, agent("one", ProcessRole::Worker, ""))).await?;
    let order = EscalationOrder { issue: "stuck".into(), severity: Severity::Error, context: BTreeMap::new(), auto: true };
    let reply = ground.tree().escalate(one, order).await.map_err(|stop| stop.to_string())?;
    assert_eq!((reply.with, reply.is_handled, &*reply.response), (lead, true, "turn it off and on"));
    let passed = ground.kernel.ledger.look(|world| world.escalations[&reply.escalation].passed_by.clone());
    assert_eq!(passed, [middle], "level by level");
    Ok(())
}
