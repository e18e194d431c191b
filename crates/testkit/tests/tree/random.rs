//! Random trees under random kills, live: processes that run nothing and cheap real ones come, speak, crash, and are killed from inside and
//! from outside, several at once.
//!
//! Twenty rounds or a few more here, two hundred by `cargo xtask soak trees`. A failure prints its seed, and `SKEP_SEED` chooses the same acts
//! again; which of those that are under way at once comes first is the machine's to say.

use crate::cheap_agent::{DIE, MARK, SLOW};
use crate::ground::{Ground, agent, play, task};
use kernel::Kernel;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use testkit::harness::Test;
use tokio::task::JoinSet;
use tree::{KillOrder, MessageOrder, SpawnOrder, TaskOrder};
use world::{
    Budget, Cap, EndReason, Event, MessagePriority, Pid, ProcessRole, ProgramRuntime, Recipient, ReplyStatus, Stop, TreeSignal, World,
};

/// Tokens of the whole tree. Nothing here spends any: every one of them is somewhere.
const TOKENS: u64 = 1_000_000;
/// Acts of a round, and how many are under way at once.
const ACTS: u64 = 40;
const AT_ONCE: usize = 6;
/// A process that runs nothing costs nothing; a real one takes a sandbox.
const REAL_IN: u64 = 3;
const REAL_MAX: usize = 8;

pub fn tests() -> Vec<Test> {
    vec![Test::new("random_trees_under_random_kills", || play(rounds))]
}

/// Numbers that follow from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

async fn rounds(ground: Ground) -> Result<(), String> {
    let rounds = if std::env::var_os("SKEP_SOAK").is_some() { 200 } else { 20 };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_err(|error| error.to_string())?;
    let seed = std::env::var("SKEP_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(u64::from(now.subsec_nanos()));
    let budget = Budget { tokens: BTreeMap::from([("all".to_owned(), TOKENS)]), ..Budget::default() };
    ground.kernel.ledger.set_budget(Pid::KERNEL, Some(budget), "test").await.map_err(|stop| stop.to_string())?;
    let mut dice = Dice(seed);
    for number in 0.. {
        let mark = format!("{}-{number}", std::process::id());
        let told = |why: String| format!("round {number} of seed {seed}: {why} (SKEP_SEED={seed})");
        round(&ground, &mut dice, &mark).await.map_err(told)?;
        let handed = deliveries(&ground).map_err(told)?;
        let dead = ground.kernel.ledger.look(|world| world.mail.dead.len());
        let crashed = ground.events(&["proc.crashed"]).len();
        let restarted = ground.events(&["proc.restarting"]).len();
        // The control: rounds in which nothing was handed over, lost or started again show nothing. On a busy machine they are over before much
        // of it happens, and it takes more of them.
        let has_shown = handed > 0 && dead > 0 && crashed > 0 && restarted > 0;
        if number + 1 >= rounds && has_shown {
            eprintln!("{} rounds: {handed} messages handed over, {dead} dead letters, {crashed} crashes, {restarted} restarts", number + 1);
            break;
        }
        if number + 1 >= rounds * 10 {
            return Err(told("too little happened".to_owned()));
        }
    }
    ground.kernel.stop("test").await.map_err(|fault| fault.to_string())
}

async fn round(ground: &Ground, dice: &mut Dice, mark: &str) -> Result<(), String> {
    let mut acts: JoinSet<Result<(), String>> = JoinSet::new();
    for _ in 0..ACTS {
        while acts.len() >= AT_ONCE {
            joined(acts.join_next().await)?;
        }
        acts.spawn(act(ground.kernel.clone(), dice, mark));
        ground.kernel.ledger.look(adds_up)?;
    }
    let rest = async {
        while !acts.is_empty() {
            joined(acts.join_next().await)?;
        }
        Ok::<_, String>(())
    };
    tokio::time::timeout(Duration::from_secs(60), rest).await.map_err(|_| "an act never ends")??;
    ground.kernel.ledger.look(adds_up)?;
    end_all(ground).await?;
    nothing_is_left(ground, mark).await
}

fn joined(done: Option<Result<Result<(), String>, tokio::task::JoinError>>) -> Result<(), String> {
    match done {
        None => Ok(()),
        Some(done) => done.map_err(|error| error.to_string())?,
    }
}

/// Processes of the tree that live, and the operating-system processes of those that are up.
fn living(world: &World) -> (Vec<Pid>, Vec<i32>) {
    let alive = || world.processes.values().filter(|process| process.program.is_some() && process.state.alive());
    let up = alive().filter_map(|process| process.run.as_ref().filter(|run| run.is_up)?.process);
    (alive().map(|process| process.pid).collect(), up.collect())
}

/// One thing that happens, chosen now and done later.
fn act(kernel: Arc<Kernel>, dice: &mut Dice, mark: &str) -> impl Future<Output = Result<(), String>> + Send + 'static {
    let (pids, up) = kernel.ledger.look(living);
    let everybody: Vec<Pid> = pids.iter().copied().chain([Pid::OPERATOR]).collect();
    let (which, by) = (dice.below(20), dice.of(&everybody));
    let order = spawn_order(dice, by, mark, up.len());
    let target = if pids.is_empty() { None } else { Some(dice.of(&pids)) };
    let os_pid = if up.is_empty() { None } else { Some(dice.of(&up)) };
    let (recursive, signal) = (dice.below(2) == 0, dice.of(&[TreeSignal::Kill, TreeSignal::Term, TreeSignal::Stop, TreeSignal::Cont]));
    let (kind, amount) = (dice.of(&["note", "note", "note", SLOW, DIE]).to_owned(), dice.below(5_000) + 1);
    async move {
        let tree = &kernel.tree;
        let done = match (which, target, os_pid) {
            (0..8, ..) | (_, None, _) => tree.spawn(Pid::OPERATOR, order).await.map(drop),
            (8..10, Some(target), _) => {
                let kill = KillOrder { target, recursive, reason: EndReason::UserRequest, grace: Duration::from_millis(300) };
                tree.kill(Pid::OPERATOR, kill, false).await.map(drop)
            }
            (10, Some(target), _) => tree.signal(Pid::OPERATOR, target, signal, "as it comes").await,
            // From outside, as whoever runs the machine may.
            (11, _, Some(os_pid)) => {
                kill_os_process(os_pid);
                Ok(())
            }
            (12, Some(target), _) => tree.request(target, "tokens", amount, "more").await.map(drop),
            // One that is stopped, or that crashed and waits for a decision, does it when that is over: nobody waits for it here.
            (13, Some(target), _) => {
                let order = TaskOrder { timeout: Some(Duration::from_secs(2)), ..task(&kind, &[]) };
                tree.assign(Pid::OPERATOR, target, order, false).await.map(drop)
            }
            (14, Some(target), _) => tree.wait(Pid::OPERATOR, target, Some(Duration::from_millis(200)), false).await.map(drop),
            (_, Some(target), _) => tree.send(by, message(target, kind)).await.map(drop),
        };
        match done {
            // The other was gone already, or there is no way to it, or no budget, or it was killed while it started.
            Ok(()) | Err(Stop::Refused(_)) => Ok(()),
            Err(Stop::Failed(fault)) if fault.what == "runtime start failed" || fault.what == "task failed" => Ok(()),
            Err(stop) => Err(stop.to_string()),
        }
    }
}

fn spawn_order(dice: &mut Dice, parent: Pid, mark: &str, real: usize) -> SpawnOrder {
    let roles = [ProcessRole::Daemon, ProcessRole::Agent, ProcessRole::Lead, ProcessRole::Worker, ProcessRole::Task];
    let tokens = dice.below(20_000);
    let budget = (tokens > 5_000).then(|| Budget { tokens: BTreeMap::from([("all".to_owned(), tokens)]), ..Budget::default() });
    let order = SpawnOrder { parent: Some(parent), budget, ..agent(&format!("p{}", dice.below(1_000)), dice.of(&roles), "") };
    if dice.below(REAL_IN) != 0 || real >= REAL_MAX {
        return order;
    }
    let image = std::env::current_exe().unwrap().display().to_string();
    SpawnOrder { runtime: ProgramRuntime::Custom, image, env: BTreeMap::from([(MARK.to_owned(), mark.to_owned())]), ..order }
}

fn message(to: Pid, kind: String) -> MessageOrder {
    MessageOrder {
        to: Recipient::Process(to),
        kind,
        priority: MessagePriority::Normal,
        body: b"hello".to_vec(),
        requires_ack: true,
        ttl: None,
        reply_to: None,
    }
}

fn kill_os_process(os_pid: i32) {
    // One that is gone needs nothing.
    drop(std::process::Command::new("kill").args(["-9", &os_pid.to_string()]).stderr(std::process::Stdio::null()).status());
}

/// What each account of the tree has and what it gave to others is what it was given, to the token.
fn adds_up(world: &World) -> Result<(), String> {
    let cap = Cap::Tokens("all".to_owned());
    let budget_of = |pid: Pid| world.books.accounts.get(&pid)?.budget.as_ref()?.tokens.get("all").copied();
    for (pid, account) in &world.books.accounts {
        let Some(budget) = budget_of(*pid) else { continue };
        let given: u64 = account.allotted.iter().filter_map(|child| budget_of(*child)).sum();
        let Some((of, free)) = world.free(*pid, &cap, world.now_ms) else { return Err(format!("process {pid} has no cap")) };
        if of != *pid || free + given != budget {
            return Err(format!("process {pid} had {budget} tokens, gave {given} to {:?} and has {free} left", account.allotted));
        }
        // What one who ended was given goes on for those it left.
        let is_used = |child: &Pid| world.processes.get(child).is_some_and(|process| process.state.alive()) || world.has_heirs(*child);
        let dead = account.allotted.iter().find(|child| !is_used(child));
        if let Some(dead) = dead {
            return Err(format!("process {dead} has ended and keeps what process {pid} gave it"));
        }
    }
    Ok(())
}

/// Ends what lives, from the top, and takes note of every end.
async fn end_all(ground: &Ground) -> Result<(), String> {
    let tree = ground.tree();
    loop {
        let (pids, _) = ground.kernel.ledger.look(living);
        let Some(target) = pids.first().copied() else { break };
        let kill = KillOrder { target, recursive: true, reason: EndReason::UserRequest, grace: Duration::from_millis(300) };
        match tree.kill(Pid::OPERATOR, kill, false).await {
            Ok(_) | Err(Stop::Refused(_)) => {}
            Err(stop) => return Err(stop.to_string()),
        }
    }
    let mut ended: Vec<Pid> = ground
        .kernel
        .ledger
        .look(|world| world.processes.values().filter(|process| process.program.is_some()).map(|one| one.pid).collect());
    // Children are younger than those who spawned them, but may be adopted by younger ones: as often as it takes.
    for _ in 0..ended.len().max(1) {
        ended.sort_by_key(|pid| std::cmp::Reverse(*pid));
        for pid in &ended {
            let waited = tree.wait(Pid::OPERATOR, *pid, Some(Duration::from_secs(5)), false).await;
            waited.map_err(|stop| format!("process {pid}: {stop}"))?;
        }
        ended.retain(|pid| ground.state(*pid).is_some());
        if ended.is_empty() {
            return Ok(());
        }
    }
    Err(format!("they ended and stay in the table: {ended:?}"))
}

async fn nothing_is_left(ground: &Ground, mark: &str) -> Result<(), String> {
    let (budget, allotted) = ground.kernel.ledger.look(|world| {
        let free = world.free(Pid::KERNEL, &Cap::Tokens("all".to_owned()), world.now_ms);
        (free.map(|(_, free)| free), world.books.accounts.get(&Pid::KERNEL).map(|account| account.allotted.clone()))
    });
    if budget != Some(TOKENS) || allotted.as_ref().is_some_and(|allotted| !allotted.is_empty()) {
        return Err(format!("{budget:?} of {TOKENS} tokens are back, and {allotted:?} still have some"));
    }
    let end = tokio::time::Instant::now() + Duration::from_secs(10);
    loop {
        let mut left = os_processes(mark);
        left.extend(zombies());
        let folders = std::fs::read_dir(ground.bed.home().join("agents")).into_iter().flatten().flatten();
        left.extend(folders.map(|folder| folder.path().display().to_string()));
        let mounts = std::fs::read_to_string("/proc/self/mounts").map_err(|error| error.to_string())?;
        left.extend(mounts.lines().filter(|line| line.contains(&*ground.bed.home().join("agents").to_string_lossy())).map(str::to_owned));
        if left.is_empty() {
            return Ok(());
        }
        if tokio::time::Instant::now() > end {
            return Err(format!("left behind: {left:?}"));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Agents of this round that still run.
fn os_processes(mark: &str) -> Vec<String> {
    let variable = format!("{MARK}={mark}");
    let has = |folder: &std::path::Path| {
        std::fs::read(folder.join("environ")).is_ok_and(|all| all.split(|byte| *byte == 0).any(|one| one == variable.as_bytes()))
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.map(|entry| entry.path()).filter(|folder| has(folder)).map(|folder| format!("it runs: {}", folder.display())).collect()
}

/// Processes below this one that ended and that nobody took note of.
fn zombies() -> Vec<String> {
    let mut all: HashMap<u32, (String, u32)> = HashMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((name, rest)) = stat.rsplit_once(") ") else { continue };
        let mut words = rest.split(' ');
        let (Some(state), Some(Ok(parent))) = (words.next(), words.next().map(str::parse)) else { continue };
        let Ok(pid) = entry.file_name().to_string_lossy().parse() else { continue };
        all.insert(pid, (format!("{state} {name}"), parent));
    }
    let is_below = |pid: u32| {
        let mut at = pid;
        for _ in 0..64 {
            match all.get(&at) {
                Some((_, parent)) if *parent == std::process::id() => return true,
                Some((_, parent)) => at = *parent,
                None => return false,
            }
        }
        false
    };
    let found = all.iter().filter(|(pid, (state, _))| state.starts_with('Z') && is_below(**pid));
    found.map(|(_, (state, _))| format!("a zombie: {state}")).collect()
}

/// Messages that were handed over so far. No incarnation was handed a message twice: not on record, and not by its own count.
fn deliveries(ground: &Ground) -> Result<usize, String> {
    let mut handed = HashSet::new();
    let mut total = 0;
    for event in ground.events(&["message.delivered", "message.answered"]) {
        match event {
            Event::MessageDelivered(delivered) => {
                for message in std::iter::once(delivered.message).chain(delivered.further) {
                    total += 1;
                    if !handed.insert((message, delivered.pid, delivered.incarnation)) {
                        let (pid, incarnation) = (delivered.pid, delivered.incarnation);
                        return Err(format!("{message} was handed twice to incarnation {incarnation} of process {pid}"));
                    }
                }
            }
            // It never left: it may be handed to the same incarnation.
            Event::MessageAnswered(answered) if answered.status == ReplyStatus::Returned => {
                handed.retain(|(message, pid, _)| *message != answered.message || *pid != answered.pid);
            }
            Event::MessageAnswered(answered) if answered.reply.as_deref().is_some_and(|times| times != "1") => {
                return Err(format!("{} counted {:?} of {}", answered.pid, answered.reply, answered.message));
            }
            _ => {}
        }
    }
    Ok(total)
}
