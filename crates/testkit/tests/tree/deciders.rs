//! Brains that decide for the kernel and for a queen: what they say holds within the rules, and what they do not say is a person's.

use crate::ground::{Ground, agent, play};

use std::sync::{Arc, Mutex};
use testkit::harness::Test;
use tree::{BrainHost, EscalationOrder, SpawnOrder, TreeFuture};
use world::budget::ALL_TIERS;
use world::{Budget, Code, Pid, ProcessRole, ProcessState, Refusal, ReviewState, Severity, Stop, TaskId, Tier, World, ZoneId};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("the_brain_of_the_king_decides_about_a_crash", || play(crashes)),
        Test::new("the_brain_of_a_queen_decides_what_comes_from_below_her", || play(queens)),
        Test::new("a_brain_decides_about_budgets_and_widens_none", || play(budgets)),
    ]
}

/// Decides for one process what it is told to.
struct Decides {
    name: &'static str,
    says: Mutex<Result<&'static str, &'static str>>,
    asked: Mutex<Vec<(Pid, String)>>,
}

impl Decides {
    fn for_name(ground: &Ground, name: &'static str) -> Arc<Decides> {
        let decides = Arc::new(Decides { name, says: Mutex::new(Err("nothing yet")), asked: Mutex::default() });
        ground.tree().set_brains(decides.clone());
        decides
    }

    fn say(&self, answer: &'static str) {
        *self.says.lock().unwrap() = Ok(answer);
    }
}

impl BrainHost for Decides {
    fn resolve(&self, _: ZoneId, _: &str, _: Tier, _: &str) -> Result<String, Stop> {
        Err(Refusal::new(Code::Unsupported, "nobody works here").into())
    }

    fn discipline(&self, _: ZoneId) -> TreeFuture<'_, Result<Option<(world::Discipline, String)>, Stop>> {
        Box::pin(async { Ok(None) })
    }

    fn wake(&self) {}

    fn decider(&self, name: &str) -> Option<String> {
        (name == self.name).then(|| "a model".to_owned())
    }

    fn decide<'a>(&'a self, pid: Pid, _: &'a str, _: &'a str, question: &'a str) -> TreeFuture<'a, Result<String, Stop>> {
        self.asked.lock().unwrap().push((pid, question.to_owned()));
        let said = self.says.lock().unwrap().map(str::to_owned);
        Box::pin(async move { said.map_err(|why| Refusal::new(Code::Exhausted, why).into()) })
    }

    fn cancel<'a>(&'a self, _: TaskId, _: &'a str) -> TreeFuture<'a, Result<(), Stop>> {
        Box::pin(async { Ok(()) })
    }
}

fn open_questions(world: &World) -> usize {
    world.reviews.values().filter(|review| review.state == ReviewState::Open && review.tool == "person.ask").count()
}

async fn crashes(ground: Ground) -> Result<(), String> {
    let king = Decides::for_name(&ground, "king");
    let pid = ground.spawn(agent("agent", ProcessRole::Agent, "tried:Crashes")).await?;
    king.say(r#"{"answer": "restart"}"#);
    ground.execute(pid, "crash", &[]).await.unwrap_err();
    let is_second = |world: &World| world.processes[&pid].run.as_ref().is_some_and(|run| run.is_up && run.incarnation == 2);
    ground.until("it is started again", is_second).await?;
    let asked = king.asked.lock().unwrap().clone();
    assert!(
        matches!(asked.as_slice(), [(Pid::KERNEL, told)] if told.contains("crashed") && told.contains("answers: restart, end")),
        "{asked:?}"
    );
    let handled =
        |world: &World| world.escalations.values().filter_map(|one| one.handled.clone()).map(|by| (by.by, by.response)).collect::<Vec<_>>();
    assert_eq!(ground.kernel.ledger.look(handled), [(Pid::KERNEL, "restart".to_owned())]);
    // Another answer, another end.
    king.say(r#"I say {"answer": "end"}"#);
    ground.execute(pid, "crash", &[]).await.unwrap_err();
    ground.until("it has ended", |world| world.processes.get(&pid).is_none_or(|process| !process.state.alive())).await?;
    assert_eq!(ground.kernel.ledger.look(open_questions), 0);
    // What is none of the answers decides nothing, and neither does a model that fails: a person is asked.
    let pid = ground.spawn(agent("other", ProcessRole::Agent, "tried:Crashes")).await?;
    king.say(r#"{"answer": "grant it everything"}"#);
    ground.execute(pid, "crash", &[]).await.unwrap_err();
    ground.until("a person is asked", |world| open_questions(world) == 1).await?;
    assert_eq!(ground.state(pid), Some(ProcessState::Blocked));
    let pid = ground.spawn(agent("third", ProcessRole::Agent, "tried:Crashes")).await?;
    *king.says.lock().unwrap() = Err("no model answers");
    ground.execute(pid, "crash", &[]).await.unwrap_err();
    ground.until("a person is asked", |world| open_questions(world) == 2).await
}

fn trouble(issue: &str) -> EscalationOrder {
    EscalationOrder { issue: issue.to_owned(), severity: Severity::Warning, context: Default::default(), auto: true }
}

async fn queens(ground: Ground) -> Result<(), String> {
    let decides = Decides::for_name(&ground, "queen");
    let queen = ground.spawn(agent("queen", ProcessRole::Daemon, "")).await?;
    let below = ground.spawn(SpawnOrder { parent: Some(queen), ..agent("below", ProcessRole::Lead, "") }).await?;
    // Whoever takes her name further down decides nothing.
    let named = ground.spawn(SpawnOrder { parent: Some(below), ..agent("queen", ProcessRole::Lead, "") }).await?;
    let last = ground.spawn(SpawnOrder { parent: Some(named), ..agent("last", ProcessRole::Worker, "") }).await?;
    let escalate = |by: Pid, issue: &'static str| {
        let kernel = ground.kernel.clone();
        async move { kernel.tree.escalate(by, trouble(issue)).await.map_err(|stop| stop.to_string()) }
    };
    decides.say(r#"{"answer": "take the other door"}"#);
    let reply = escalate(last, "the door is shut").await?;
    assert_eq!((reply.is_handled, reply.with, reply.response.as_str()), (true, queen, "take the other door"));
    assert_eq!(decides.asked.lock().unwrap().iter().map(|(pid, _)| *pid).collect::<Vec<_>>(), [queen]);
    decides.say(r#"{"pass": true}"#);
    let reply = escalate(below, "the roof leaks").await?;
    assert!(!reply.is_handled && reply.review.is_some(), "{reply:?}");
    // What is hers to decide is not what comes from beside her.
    let beside = ground.spawn(agent("beside", ProcessRole::Lead, "")).await?;
    decides.say(r#"{"answer": "yes"}"#);
    let reply = escalate(beside, "it is cold").await?;
    assert!(!reply.is_handled && reply.review.is_some(), "{reply:?}");
    Ok(())
}

async fn budgets(ground: Ground) -> Result<(), String> {
    let decides = Decides::for_name(&ground, "queen");
    let tokens = |amount: u64| Some(Budget { tokens: [(ALL_TIERS.to_owned(), amount)].into(), ..Budget::default() });
    let queen = ground.spawn(SpawnOrder { budget: tokens(1_000), ..agent("queen", ProcessRole::Daemon, "") }).await?;
    let below = SpawnOrder { parent: Some(queen), budget: tokens(100), ..agent("below", ProcessRole::Worker, "") };
    let below = ground.spawn(below).await?;
    let ask = |amount: u64| {
        let kernel = ground.kernel.clone();
        async move { kernel.tree.request(below, "tokens", amount, "there is more to do").await.map_err(|stop| stop.to_string()) }
    };
    decides.say(r#"{"answer": "no"}"#);
    let no = ask(50).await?;
    assert_eq!((no.granted, no.reason), (false, format!("process {queen} decided against it")));
    decides.say(r#"{"answer": "yes"}"#);
    let yes = ask(50).await?;
    assert_eq!((yes.granted, yes.amount), (true, 50), "{}", yes.reason);
    // Her yes makes nothing more than there is.
    let more = ask(5_000).await?;
    assert!(!more.granted && more.reason.contains("has not enough"), "{}", more.reason);
    decides.say("who knows");
    let open = ask(50).await?;
    assert!(!open.granted && open.reason.contains("a person (r-1)"), "{}", open.reason);
    assert_eq!(ground.kernel.ledger.look(open_questions), 1);
    Ok(())
}
