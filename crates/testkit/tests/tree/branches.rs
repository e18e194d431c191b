//! Limits of memory that a process shares with everything below it.

use crate::ground::{Ground, agent, play};
use testkit::harness::Test;
use tree::SpawnOrder;
use world::{Pid, ProcessRole, ProgramLimits};

pub fn tests() -> Vec<Test> {
    vec![Test::new("a_process_and_all_below_it_share_a_limit_of_memory", || play(shared))]
}

fn holder(name: &str, parent: Option<Pid>, limits: ProgramLimits) -> SpawnOrder {
    SpawnOrder { parent, limits, ..agent(name, ProcessRole::Agent, "tried:Holds") }
}

async fn shared(ground: Ground) -> Result<(), String> {
    let limits = ProgramLimits { memory_mb: Some(300), cpu_milli: Some(2_000), ..ProgramLimits::default() };
    // She runs nothing herself; her limits are those of her children together.
    let queen = ground.spawn(SpawnOrder { limits, ..agent("queen", ProcessRole::Daemon, "") }).await?;
    let beyond = ProgramLimits { memory_mb: Some(400), ..ProgramLimits::default() };
    let refused = ground.tree().spawn(queen, holder("greedy", None, beyond)).await.unwrap_err();
    assert!(refused.to_string().contains("builtin:spawn-limits"), "{refused}");
    for (wrong, why) in
        [(ProgramLimits { memory_mb: Some(1), ..limits }, "1 MiB"), (ProgramLimits { cpu_milli: Some(1), ..limits }, "1 thousandths")]
    {
        let refused = ground.spawn(SpawnOrder { limits: wrong, ..agent("none", ProcessRole::Agent, "") }).await.unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }

    let one = ground.spawn(holder("one", Some(queen), ProgramLimits::default())).await?;
    let two = ground.spawn(holder("two", Some(queen), ProgramLimits { cpu_milli: Some(500), ..ProgramLimits::default() })).await?;
    let free = ground.spawn(holder("free", None, ProgramLimits::default())).await?;
    let of = |pid| ground.kernel.ledger.look(|world| world.processes[&pid].limits().map(|limits| (limits.memory_mb, limits.cpu_milli)));
    assert_eq!((of(one), of(two), of(free)), (Some((Some(300), Some(2_000))), Some((Some(300), Some(500))), Some((None, None))));
    let hold = async |pid, megabytes: &str| ground.execute(pid, "hold", &[("megabytes", megabytes)]).await;
    assert_eq!(hold(one, "150").await?, (0, "150 MB".to_owned()));
    let used = ground.tree().branch_memory(queen).ok_or("the branch is not known")?;
    assert!(used > 150_000_000, "{used}");
    // Whoever is in no branch holds the same beside it.
    assert_eq!(hold(free, "150").await?, (0, "150 MB".to_owned()));
    // The second one has less than that left, though it holds nothing yet: one of the two goes.
    let second = hold(two, "150").await;
    ground
        .until("one of them is gone", |world| [one, two].iter().any(|pid| world.processes[pid].run.as_ref().is_none_or(|run| !run.is_up)))
        .await?;
    let crashed = ground.events(&["proc.crashed"]);
    let by_kill = |event: &world::Event| matches!(event, world::Event::ProcCrashed(crashed) if crashed.signal == Some(9) && [one, two].contains(&crashed.pid));
    assert!(crashed.iter().any(by_kill), "{crashed:?} {second:?}");
    assert_eq!(hold(free, "1").await?, (0, "151 MB".to_owned()), "and nobody else");
    ground.kernel.stop("test").await.map_err(|fault| fault.to_string())
}
