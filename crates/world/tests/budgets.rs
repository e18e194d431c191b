//! Laws of budgets, held against random histories: requests that race, settle for less, go missing, and kernels that die.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

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
    /// The kernel dies and comes back: what was on its way is lost, the rest is read from a snapshot.
    Crash,
}

fn any_step() -> impl Strategy<Value = Step> {
    let pid = 1u64..6;
    let amount = prop_oneof![0u64..50, 0u64..2_000, Just(u64::MAX)];
    prop_oneof![
        1 => (pid.clone(), 0usize..3, prop::option::of(0u64..3_000), prop::option::of(0u64..3_000))
            .prop_map(|(pid, tier, tokens, micros)| Step::Cap { pid, tier, tokens, micros }),
        1 => (pid.clone(), 0u64..500, 0u64..500).prop_map(|(pid, tokens, micros)| Step::Grant { pid, tokens, micros }),
        8 => (pid, 0usize..2, amount.clone(), amount).prop_map(|(pid, tier, tokens, micros)| Step::Ask { pid, tier, tokens, micros }),
        5 => (0usize..20, 0u64..=1_000).prop_map(|(nth, part)| Step::Settle { nth, part }),
        2 => (0usize..20).prop_map(|nth| Step::Lose { nth }),
        1 => Just(Step::Crash),
    ]
}

/// One request, told twice: by the world and by us.
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
    made: Vec<Made>,
}

impl Run {
    fn new() -> Run {
        let mut run = Run::default();
        for (pid, parent) in PARENTS {
            let (pid, parent, name) = (Pid(pid), parent.map(Pid), format!("p{pid}"));
            run.record(ProcSpawned { pid, task: None, parent, name, role: "r".into(), zone: None, user: "u".into() }.into());
        }
        run
    }

    fn record(&mut self, event: Event) {
        self.world.check(&event).unwrap_or_else(|why| panic!("{event:?}: {why}"));
        self.world.apply(&event, 1);
    }

    fn step(&mut self, step: &Step) {
        match step.clone() {
            Step::Cap { pid, tier, tokens, micros } => {
                let tier = TIERS.get(tier).copied().unwrap_or(ALL_TIERS);
                let tokens = tokens.map(|cap| (tier.to_owned(), cap)).into_iter().collect();
                let budget = Some(Budget { tokens, micros, ..Budget::default() });
                self.record(BudgetSet { pid: Pid(pid), task: None, budget, by: "h".into() }.into());
            }
            Step::Grant { pid, tokens, micros } => {
                let tokens = BTreeMap::from([(TIERS[0].to_owned(), tokens), (ALL_TIERS.to_owned(), tokens)]);
                let event: Event = BudgetGranted { pid: Pid(pid), task: None, tokens, micros, by: "h".into() }.into();
                if self.world.check(&event).is_ok() {
                    self.record(event);
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
            Step::Crash => {
                let snapshot = serde_json::to_string(&self.world).unwrap();
                self.world = serde_json::from_str(&snapshot).unwrap();
                while let Some(made) = self.nth(0) {
                    self.lose(made);
                }
            }
        }
    }

    fn nth(&self, nth: usize) -> Option<usize> {
        let open: Vec<usize> = (0..self.made.len()).filter(|at| self.made[*at].open).collect();
        (!open.is_empty()).then(|| open[nth % open.len()])
    }

    /// As the door does it: what is decided and what is reserved are one commit.
    fn ask(&mut self, pid: u64, tier: &'static str, tokens: u64, micros: u64) {
        let need = Need { tier, tokens, context: 0, micros };
        if self.world.short(Pid(pid), &need, 1).is_some() {
            return;
        }
        let (call, pid_) = (self.world.next_call(), Pid(pid));
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
        let (provider, model) = ("p".to_owned(), "m".to_owned());
        self.record(ModelReserved { pid: pid_, task: None, call, provider, model, tier: tier.into(), tokens, micros }.into());
        // More than this counts as this.
        let most = |amount: u64| amount.min(1 << 40);
        self.made.push(Made { call, pid, tier, tokens: most(tokens), micros: most(micros), open: true });
    }

    fn settle(&mut self, at: usize, share: impl Fn(u64) -> u64) {
        let Made { call, pid, tier, tokens, micros, .. } = self.made[at].clone();
        let (charged_tokens, charged_micros) = (share(tokens), share(micros));
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
        self.made[at] = Made { tokens: charged_tokens, micros: charged_micros, open: false, ..self.made[at].clone() };
    }

    fn lose(&mut self, at: usize) {
        let Made { call, pid, .. } = self.made[at];
        self.record(CallLost { pid: Pid(pid), task: None, call, tool: "model.request".into(), why: "t".into() }.into());
        self.made[at].open = false;
    }

    /// Tokens of a tier and money of `pid` and everything below it, on their way or spent.
    fn sum(&self, pid: u64, tier: &str, open: bool) -> (u64, u64) {
        let below = |mut at: u64| loop {
            if at == pid {
                return true;
            }
            match PARENTS[at as usize - 1].1 {
                Some(parent) => at = parent,
                None => return false,
            }
        };
        let own = self.made.iter().filter(|made| made.open == open && below(made.pid));
        own.fold((0, 0), |(tokens, micros): (u64, u64), made| {
            let counts = tier == ALL_TIERS || made.tier == tier;
            (tokens.saturating_add(if counts { made.tokens } else { 0 }), micros.saturating_add(made.micros))
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Whatever order things happen in: a parent's account is its own and all its children's, and no cap that stood when a request was
    /// made is passed by it, whether it is settled, lost, or lost with the kernel.
    #[test]
    fn nobody_overspends_and_parents_include_children(steps in prop::collection::vec(any_step(), 0..120)) {
        let mut run = Run::new();
        // A cap set below what is already spent lets nothing more through; until then it is passed by nobody.
        let mut over: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for step in &steps {
            let before = run.made.len();
            run.step(step);
            for (pid, _) in PARENTS {
                let Some(account) = run.world.books.accounts.get(&Pid(pid)) else { continue };
                for tier in TIERS {
                    prop_assert_eq!(account.reserved.of(tier), run.sum(pid, tier, true).0);
                    prop_assert_eq!(account.spent.of(tier), run.sum(pid, tier, false).0);
                }
                prop_assert_eq!(account.reserved.micros, run.sum(pid, ALL_TIERS, true).1);
                prop_assert_eq!(account.spent.micros, run.sum(pid, ALL_TIERS, false).1);
                let Some(budget) = &account.budget else { continue };
                let used = |tier: &str| account.spent.of(tier).saturating_add(account.reserved.of(tier));
                let money = account.spent.micros.saturating_add(account.reserved.micros);
                let excess = budget.tokens.iter().map(|(tier, cap)| used(tier).saturating_sub(*cap)).max().unwrap_or(0);
                let excess = (excess, budget.micros.map_or(0, |cap| money.saturating_sub(cap)));
                let known = over.entry(pid).or_default();
                if matches!(step, Step::Cap { .. } | Step::Grant { .. }) {
                    *known = excess;
                }
                prop_assert!(excess.0 <= known.0 && excess.1 <= known.1, "{pid} passes its cap by {excess:?} after {step:?}");
                *known = excess;
                // Who is over, or has an ancestor that is, made no request in this step that costs anything.
                if run.made.len() > before && excess.0 > 0 {
                    let made = run.made.last().unwrap();
                    let capped = budget.tokens.keys().any(|tier| tier == made.tier || tier == ALL_TIERS);
                    let below = run.world.line(Pid(made.pid)).any(|process| process.pid == Pid(pid));
                    prop_assert!(!(capped && below), "{pid} is over its cap, and {made:?} was let through");
                }
            }
            prop_assert_eq!(run.world.books.reserved.len(), run.made.iter().filter(|made| made.open).count());
            if matches!(step, Step::Crash) {
                prop_assert!(run.world.books.accounts.values().all(|account| account.reserved.of(ALL_TIERS) == 0 && account.reserved.micros == 0));
            }
        }
    }
}
