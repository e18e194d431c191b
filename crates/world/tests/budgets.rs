//! Laws of budgets, held against random histories: requests that race, settle for less, go missing, leave before they are on record,
//! and kernels that die.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use ::world::budget::lease::{self, Bid, Plan, Purse, Share};
use ::world::event::*;
use ::world::{Budget, CallId, Event, Figures, Hands, Need, Pid, World};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

/// The kernel, a process with two children, and one beside them.
const PARENTS: [(u64, Option<u64>); 5] = [(1, None), (2, Some(1)), (3, Some(2)), (4, Some(2)), (5, Some(1))];
const ALL_TIERS: &str = "all";
const TIERS: [&str; 2] = ["strategic", "tactical"];

#[derive(Clone, Debug)]
enum Step {
    Cap {
        pid: u64,
        tier: usize,
        tokens: Option<u64>,
        micros: Option<u64>,
    },
    Grant {
        pid: u64,
        tokens: u64,
        micros: u64,
    },
    /// A request that may cost so much. It is made only if it fits.
    Ask {
        pid: u64,
        tier: usize,
        tokens: u64,
        micros: u64,
    },
    /// One that is on its way ends and has cost this part of what was reserved, in thousandths.
    Settle {
        nth: usize,
        part: u64,
    },
    /// One ends and nobody knows what it cost.
    Lose {
        nth: usize,
    },
    /// Everything recorded so far is on disk.
    Sync,
    /// The kernel dies and comes back: what was not on disk is gone, what was on its way is lost, the rest is folded again.
    Crash,
    /// The kernel comes to rest and starts again.
    Rest,
}

fn any_step() -> impl Strategy<Value = Step> {
    let pid = 1u64..6;
    let amount = prop_oneof![8 => 0u64..50, 8 => 0u64..2_000, 1 => Just(u64::MAX)];
    prop_oneof![
        2 => (pid.clone(), 0usize..3, prop::option::of(0u64..9_000), prop::option::of(0u64..9_000))
            .prop_map(|(pid, tier, tokens, micros)| Step::Cap { pid, tier, tokens, micros }),
        1 => (pid.clone(), 0u64..500, 0u64..500).prop_map(|(pid, tokens, micros)| Step::Grant { pid, tokens, micros }),
        // Mostly one process in one tier, so that its lease is drawn from, topped up and drawn from again between two syncs.
        16 => (prop_oneof![3 => Just(3u64), 1 => pid], prop_oneof![3 => Just(1usize), 1 => Just(0)], amount.clone(), prop_oneof![2 => Just(0), 1 => amount]).prop_map(|(pid, tier, tokens, micros)| Step::Ask { pid, tier, tokens, micros }),
        8 => (0usize..20, 0u64..=1_000).prop_map(|(nth, part)| Step::Settle { nth, part }),
        3 => (0usize..20).prop_map(|nth| Step::Lose { nth }),
        4 => Just(Step::Sync),
        2 => Just(Step::Crash),
        1 => Just(Step::Rest),
    ]
}

/// A request that left, whatever is known of it. What it costs is its provider's to say, up to what was reserved.
#[derive(Clone, Debug)]
struct Made {
    call: CallId,
    pid: u64,
    tier: &'static str,
    tokens: u64,
    micros: u64,
    open: bool,
}

#[derive(Default)]
struct Run {
    world: World,
    purse: Purse,
    /// Everything recorded; up to `durable` it is on disk.
    log: Vec<Event>,
    durable: usize,
    /// Shares that can be drawn from once the record before this place is on disk.
    coming: Vec<(usize, Share)>,
    made: Vec<Made>,
    /// Requests that left before they were on disk, for the test of the test.
    ahead: usize,
}

impl Run {
    fn new() -> Run {
        let mut run = Run::default();
        for (pid, parent) in PARENTS {
            let (pid, parent, name) = (Pid(pid), parent.map(Pid), format!("p{pid}"));
            run.record(ProcSpawned { pid, task: None, parent, name, role: "r".into(), zone: None, user: "u".into() }.into());
        }
        run.sync();
        run
    }

    fn record(&mut self, event: Event) {
        self.world.check(&event).unwrap_or_else(|why| panic!("{event:?}: {why}"));
        self.world.apply(&event, 1);
        self.log.push(event);
    }

    fn sync(&mut self) {
        self.durable = self.log.len();
        let (world, purse) = (&self.world, &mut self.purse);
        self.coming.drain(..).for_each(|(_, share)| purse.add(world, share));
    }

    fn step(&mut self, step: &Step) {
        match step.clone() {
            Step::Cap { pid, tier, tokens, micros } => {
                let tier = TIERS.get(tier).copied().unwrap_or(ALL_TIERS);
                let tokens = tokens.map(|cap| (tier.to_owned(), cap)).into_iter().collect();
                let budget = Some(Budget { tokens, micros, ..Budget::default() });
                self.record(BudgetSet { pid: Pid(pid), task: None, budget, by: "h".into() }.into());
                self.sync();
            }
            Step::Grant { pid, tokens, micros } => {
                let tokens = BTreeMap::from([(TIERS[0].to_owned(), tokens), (ALL_TIERS.to_owned(), tokens)]);
                let event: Event = BudgetGranted { pid: Pid(pid), task: None, tokens, micros, by: "h".into() }.into();
                if self.world.check(&event).is_ok() {
                    self.record(event);
                    self.sync();
                }
            }
            Step::Ask { pid, tier, tokens, micros } => self.ask(pid, TIERS[tier], tokens, micros),
            Step::Settle { nth, part } => {
                let Some(made) = self.nth(nth) else { return };
                let share = |whole: u64| (u128::from(whole) * u128::from(part) / 1_000) as u64;
                self.settle(made, share);
            }
            Step::Lose { nth } => {
                if let Some(made) = self.nth(nth) {
                    self.lose(made);
                }
            }
            Step::Sync => self.sync(),
            Step::Crash => self.crash(),
            Step::Rest => {
                while let Some(made) = self.nth(0) {
                    self.lose(made);
                }
                lease::returned(&self.world).into_iter().for_each(|event| self.record(event));
                self.sync();
                self.crash();
            }
        }
    }

    /// What is not on disk is gone; every call that is open and every lease that is left is lost.
    fn crash(&mut self) {
        self.log.truncate(self.durable);
        self.coming.clear();
        self.purse = Purse::default();
        let mut world = World::default();
        self.log.iter().for_each(|event| world.apply(event, 1));
        let snapshot = serde_json::to_string(&world).unwrap();
        self.world = serde_json::from_str(&snapshot).unwrap();
        lease::lost(&self.world).into_iter().for_each(|event| self.record(event));
        let open: Vec<_> = self.world.calls.iter().map(|(call, open)| (*call, open.pid)).collect();
        for (call, pid) in open {
            self.record(CallLost { pid, task: None, call, tool: "model.request".into(), why: "t".into() }.into());
        }
        self.made.iter_mut().for_each(|made| made.open = false);
        self.sync();
    }

    fn nth(&self, nth: usize) -> Option<usize> {
        let open: Vec<usize> = (0..self.made.len()).filter(|at| self.made[*at].open).collect();
        (!open.is_empty()).then(|| open[nth % open.len()])
    }

    /// As the door does it: what is decided and what is reserved are one commit, and it is waited for unless a lease pays.
    fn ask(&mut self, pid: u64, tier: &'static str, tokens: u64, micros: u64) {
        let need = Need { tier, tokens, context: 0, micros };
        let (call, pid_) = (self.world.next_call(), Pid(pid));
        let bid = Bid { pid: pid_, task: None, call, provider: "p", model: "m", need };
        let Ok(Plan { events, ahead, share }) = self.purse.plan(&self.world, &bid, 1) else { return };
        let admitted = CallAdmitted {
            pid: pid_,
            task: None,
            call,
            tool: "model.request".into(),
            input: json!({}),
            digest: String::new(),
            bind: String::new(),
            hands: Hands::Kernel,
            read_only: true,
            rules: vec![],
            grant: None,
            token: None,
            paths: vec![],
            size: None,
            of: None,
            up: None,
        };
        self.record(admitted.into());
        events.into_iter().for_each(|event| self.record(event));
        self.coming.extend(share.map(|share| (self.log.len(), share)));
        if ahead {
            self.ahead += 1;
        } else {
            self.sync();
        }
        // More than this counts as this.
        let most = |amount: u64| amount.min(1 << 40);
        self.made.push(Made { call, pid, tier, tokens: most(tokens), micros: most(micros), open: true });
    }

    /// Its end is told to the client when that is on disk; a crash may come first.
    fn settle(&mut self, at: usize, share: impl Fn(u64) -> u64) {
        let Made { call, pid, tier, tokens, micros, .. } = self.made[at].clone();
        let (charged_tokens, charged_micros) = (share(tokens), share(micros));
        let lease = self.world.books.reserved[&call].lease;
        let used = ModelUsed {
            pid: Pid(pid),
            task: None,
            call,
            provider: "p".into(),
            model: "m".into(),
            tier: tier.into(),
            figures: Figures { requests: 1, micros: charged_micros, ..Figures::default() },
            charged_tokens,
            charged_micros,
            status: None,
            first_byte_ms: None,
            asked: None,
            answered: None,
            notes: vec![],
        };
        self.record(used.into());
        self.record(CallFinished { pid: Pid(pid), task: None, call, ok: true, output: json!(1), blob: None, blob_bytes: 0, ms: 0 }.into());
        let (tokens, micros) = (tokens - charged_tokens, micros - charged_micros);
        self.coming.extend(lease.map(|lease| (self.log.len(), Share { pid: Pid(pid), lease, tokens, micros })));
        self.made[at] = Made { tokens: charged_tokens, micros: charged_micros, open: false, ..self.made[at].clone() };
    }

    fn lose(&mut self, at: usize) {
        let Made { call, pid, .. } = self.made[at];
        self.record(CallLost { pid: Pid(pid), task: None, call, tool: "model.request".into(), why: "t".into() }.into());
        self.made[at].open = false;
    }

    /// Tokens of a tier and money of `pid` and everything below it that really went out.
    fn real(&self, pid: u64, tier: &str) -> (u64, u64) {
        let own = self.made.iter().filter(|made| self.world.line(Pid(made.pid)).any(|process| process.pid == Pid(pid)));
        own.fold((0, 0), |(tokens, micros): (u64, u64), made| {
            let counts = tier == ALL_TIERS || made.tier == tier;
            (tokens.saturating_add(if counts { made.tokens } else { 0 }), micros.saturating_add(made.micros))
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Whatever order things happen in and wherever the kernel dies: the books never say less than what really went out, a parent's
    /// account is its own and all its children's, and no cap that stood when a request was made is passed by it.
    #[test]
    fn nobody_overspends_and_parents_include_children(steps in prop::collection::vec(any_step(), 0..160)) {
        let mut run = Run::new();
        // A cap set below what is already spent lets nothing more through; until then it is passed by nobody.
        let mut over: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for step in &steps {
            let before = run.made.len();
            run.step(step);
            for (pid, _) in PARENTS {
                let Some(account) = run.world.books.accounts.get(&Pid(pid)) else { continue };
                let booked = |tier: &str| account.spent.of(tier).saturating_add(account.reserved.of(tier));
                for tier in TIERS {
                    prop_assert!(run.real(pid, tier).0 <= booked(tier), "{pid} has spent {tier} tokens that nobody knows of, after {step:?}");
                }
                let booked_micros = account.spent.micros.saturating_add(account.reserved.micros);
                prop_assert!(run.real(pid, ALL_TIERS).1 <= booked_micros, "{pid} has spent money that nobody knows of, after {step:?}");
                let leases = || run.world.leases().filter(|(of, _)| run.world.line(*of).any(|process| process.pid == Pid(pid)));
                for tier in TIERS {
                    let sum: u64 = leases().filter(|(_, lease)| lease.tier == tier).map(|(_, lease)| lease.tokens).sum();
                    prop_assert_eq!(account.leased.of(tier), sum);
                }
                prop_assert_eq!(account.leased.micros, leases().map(|(_, lease)| lease.micros).sum::<u64>());
                let Some(budget) = &account.budget else { continue };
                let used = |tier: &str| booked(tier).saturating_add(account.leased.of(tier));
                let excess = budget.tokens.iter().map(|(tier, cap)| used(tier).saturating_sub(*cap)).max().unwrap_or(0);
                let money = booked_micros.saturating_add(account.leased.micros);
                let excess = (excess, budget.micros.map_or(0, |cap| money.saturating_sub(cap)));
                let known = over.entry(pid).or_default();
                if matches!(step, Step::Cap { pid: of, .. } | Step::Grant { pid: of, .. } if *of == pid) {
                    *known = excess;
                }
                prop_assert!(excess.0 <= known.0 && excess.1 <= known.1, "{pid} passes its cap by {excess:?} after {step:?}");
                // Who is over, or has an ancestor that is, made no request in this step that needs any of it.
                if run.made.len() > before && excess != (0, 0) {
                    let made = run.made.last().unwrap();
                    let tokens = excess.0 > 0 && made.tokens > 0 && budget.tokens.keys().any(|tier| tier == made.tier || tier == ALL_TIERS);
                    let capped = tokens || (excess.1 > 0 && made.micros > 0);
                    let below = run.world.line(Pid(made.pid)).any(|process| process.pid == Pid(pid));
                    prop_assert!(!(capped && below), "{pid} is over its cap, and {made:?} was let through");
                }
            }
            prop_assert_eq!(run.world.books.reserved.len(), run.made.iter().filter(|made| made.open).count());
            if matches!(step, Step::Crash | Step::Rest) {
                let idle = |account: &::world::Account| [&account.reserved, &account.leased].iter().all(|held| held.of(ALL_TIERS) == 0 && held.micros == 0);
                prop_assert!(run.world.books.accounts.values().all(idle));
            }
        }
    }

    /// Without a crash nothing is charged that did not go out: leases come and go and leave no trace.
    #[test]
    fn without_a_crash_the_books_say_what_went_out(steps in prop::collection::vec(any_step(), 0..160)) {
        let mut run = Run::new();
        for step in steps.iter().filter(|step| !matches!(step, Step::Crash)) {
            run.step(step);
            for (pid, _) in PARENTS {
                let Some(account) = run.world.books.accounts.get(&Pid(pid)) else { continue };
                for tier in TIERS {
                    prop_assert_eq!(account.spent.of(tier).saturating_add(account.reserved.of(tier)), run.real(pid, tier).0);
                }
            }
        }
    }
}

/// A process that asks again and again: the first request waits for the disk, the others do not.
#[test]
fn requests_after_the_first_leave_at_once() {
    let mut run = Run::new();
    run.step(&Step::Cap { pid: 2, tier: 1, tokens: Some(100_000), micros: Some(100_000) });
    for nth in 0..20 {
        run.ask(3, TIERS[1], 1_000, 500);
        assert_eq!(run.ahead, nth, "request {nth}");
        run.settle(run.made.len() - 1, |whole| whole / 10);
        run.sync();
    }
    let account = &run.world.books.accounts[&Pid(2)];
    assert_eq!((account.spent.of(TIERS[1]), account.spent.micros), (2_000, 1_000));
}

/// A lease that is topped up by a request that is not on disk yet holds no more than before.
#[test]
fn what_is_not_on_disk_is_not_drawn_from() {
    let mut run = Run::new();
    run.ask(3, TIERS[1], 1_000, 0);
    run.ask(3, TIERS[1], 1_500, 0);
    assert_eq!(run.ahead, 1, "the first set 2,000 aside, and is on disk");
    run.ask(3, TIERS[1], 2_500, 0);
    assert_eq!(run.ahead, 1, "the second set more aside, and is not");
    run.crash();
    assert_eq!(run.world.books.accounts[&Pid(3)].spent.of(TIERS[1]), 1_000 + 1_500 + 2_500 + 3_000);
}

/// A person who knows better takes the estimate's place, in every account above.
#[test]
fn what_is_known_takes_the_place_of_what_was_guessed() {
    let mut run = Run::new();
    run.ask(3, TIERS[1], 1_000, 500);
    run.settle(0, |whole| whole / 10);
    run.ask(3, TIERS[1], 1_000, 500);
    run.sync();
    run.crash();
    let spent = |run: &Run, pid| run.world.books.accounts[&Pid(pid)].spent.clone();
    let guessed = run.world.books.guessed(Pid(3));
    assert_eq!((guessed.of(TIERS[1]), guessed.micros), (2_000, 1_000), "the request and what is left of the lease");
    assert_eq!((spent(&run, 1).of(TIERS[1]), spent(&run, 1).micros), (2_100, 1_050));
    let tokens = BTreeMap::from([(TIERS[1].to_owned(), 40)]);
    run.record(BudgetReconciled { pid: Pid(3), task: None, tokens, micros: None, by: "h".into() }.into());
    assert_eq!((spent(&run, 1).of(TIERS[1]), spent(&run, 1).micros), (140, 1_050), "what is not named stays");
    run.record(BudgetReconciled { pid: Pid(3), task: None, tokens: BTreeMap::new(), micros: Some(20), by: "h".into() }.into());
    for pid in [3, 2, 1] {
        assert_eq!((spent(&run, pid).of(TIERS[1]), spent(&run, pid).micros), (140, 70));
    }
    assert!(run.world.books.guesses.is_empty());
    let total = run.world.books.usage.values().fold(Figures::default(), |mut sum, figures| {
        sum.add(figures);
        sum
    });
    assert_eq!((total.requests, total.input, total.micros, total.estimated), (2, 40, 70, 0));
}

/// What is only set aside for one process is in nobody's way.
#[test]
fn a_lease_is_recalled_before_anybody_is_refused() {
    let mut run = Run::new();
    run.step(&Step::Cap { pid: 2, tier: 1, tokens: Some(10_000), micros: None });
    run.ask(3, TIERS[1], 500, 0);
    run.settle(0, |whole| whole / 5);
    run.sync();
    let leased = run.world.books.accounts[&Pid(2)].leased.of(TIERS[1]);
    assert!(leased > 0);
    run.ask(4, TIERS[1], 9_900, 0);
    assert_eq!(run.made.len(), 2, "all that is not spent can be asked for");
    assert_eq!(run.world.leases().count(), 0);
    run.ask(3, TIERS[1], 1, 0);
    assert_eq!(run.made.len(), 2, "and no more than that");
}
