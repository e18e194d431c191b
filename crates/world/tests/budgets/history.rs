//! A random history of requests, caps, crashes and waits, played on a real world and its leases.

use ::world::budget::crash::{self, Flight, Left};
use ::world::budget::held;
use ::world::budget::lease::{self, LeasePool, PaymentPlan, ReservationRequest, Share};
use ::world::event::*;
use ::world::{Budget, CallId, Ending, Event, Hands, Need, Pid, UsageTotals, World};
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

/// The kernel, a process with two children, and one beside them.
pub const PARENTS: [(u64, Option<u64>); 5] = [(1, None), (2, Some(1)), (3, Some(2)), (4, Some(2)), (5, Some(1))];
pub const ALL_TIERS: &str = "all";
pub const TIERS: [&str; 2] = ["strategic", "tactical"];

#[derive(Clone, Debug)]
pub enum Step {
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
    /// One that is on its way ends and has cost this part of what was reserved, in thousandths. Of the rest this part is in doubt.
    Settle {
        nth: usize,
        part: u64,
        doubt: u64,
    },
    /// It is on its way to its provider.
    Leave {
        nth: usize,
    },
    /// Somebody reads the bill of a process.
    Reconcile {
        pid: u64,
        micros: bool,
    },
    /// So much time passes, in hours.
    Wait {
        hours: i64,
    },
    /// One ends and nobody knows what it cost.
    Lose {
        nth: usize,
    },
    /// Everything recorded so far is on disk.
    Sync,
    /// The kernel dies and comes back: what was not on disk is gone, what had left is held, the rest is folded again. Where the machine
    /// dies too, nobody knows what had left.
    Crash {
        machine: bool,
    },
    /// A batch fails: what was not on disk is gone, and the kernel goes on.
    Fail,
    /// The kernel comes to rest and starts again.
    Rest,
}

pub fn any_step() -> impl Strategy<Value = Step> {
    let pid = 1u64..6;
    let amount = prop_oneof![8 => 0u64..50, 8 => 0u64..2_000, 1 => Just(u64::MAX)];
    prop_oneof![
        2 => (pid.clone(), 0usize..3, prop::option::of(0u64..9_000), prop::option::of(0u64..9_000))
            .prop_map(|(pid, tier, tokens, micros)| Step::Cap { pid, tier, tokens, micros }),
        1 => (pid.clone(), 0u64..500, 0u64..500).prop_map(|(pid, tokens, micros)| Step::Grant { pid, tokens, micros }),
        // Mostly one process in one tier, so that its lease is drawn from, topped up and drawn from again between two syncs.
        16 => (prop_oneof![3 => Just(3u64), 1 => pid], prop_oneof![3 => Just(1usize), 1 => Just(0)], amount.clone(), prop_oneof![2 => Just(0), 1 => amount]).prop_map(|(pid, tier, tokens, micros)| Step::Ask { pid, tier, tokens, micros }),
        8 => (0usize..20, 0u64..=1_000, prop_oneof![2 => Just(0), 2 => 0u64..=1_000, 1 => Just(1_000)])
            .prop_map(|(nth, part, doubt)| Step::Settle { nth, part, doubt }),
        12 => (0usize..20).prop_map(|nth| Step::Leave { nth }),
        2 => (1u64..6, any::<bool>()).prop_map(|(pid, micros)| Step::Reconcile { pid, micros }),
        1 => (1i64..30).prop_map(|hours| Step::Wait { hours }),
        3 => (0usize..20).prop_map(|nth| Step::Lose { nth }),
        4 => Just(Step::Sync),
        2 => prop_oneof![3 => Just(false), 1 => Just(true)].prop_map(|machine| Step::Crash { machine }),
        1 => Just(Step::Fail),
        1 => Just(Step::Rest),
    ]
}

/// A request that left, whatever is known of it. What it costs is its provider's to say, up to what was reserved.
#[derive(Clone, Debug)]
pub struct Made {
    pub call: CallId,
    pub pid: u64,
    pub tier: &'static str,
    pub tokens: u64,
    pub micros: u64,
    pub open: bool,
    /// What was reserved for it.
    pub most: (u64, u64),
    /// It left: its provider may have seen it.
    pub left: bool,
    /// It ended with a crash, and its number may be another's.
    pub gone: bool,
    /// What it may have cost beyond what is booked as spent, for as long as that is held.
    pub doubt: (u64, u64),
}

#[derive(Default)]
pub struct Run {
    pub now_ms: i64,
    /// Noted before they leave, and on disk or not, known to the next kernel.
    pub flights: Vec<Flight>,
    pub world: World,
    pub purse: LeasePool,
    /// Everything recorded; up to `durable` it is on disk.
    pub log: Vec<(Event, i64)>,
    pub durable: usize,
    /// Shares that can be drawn from once the record before this place is on disk.
    pub coming: Vec<(usize, Share)>,
    pub made: Vec<Made>,
    /// Requests that left before they were on disk, for the test of the test.
    pub ahead: usize,
}

impl Run {
    pub fn new() -> Run {
        let mut run = Run::default();
        for (pid, parent) in PARENTS {
            let (pid, parent, name) = (Pid(pid), parent.map(Pid), format!("p{pid}"));
            run.record(ProcSpawned { pid, task: None, parent, name, role: "r".into(), zone: None, user: "u".into(), program: None }.into());
        }
        run.sync();
        run
    }

    pub fn record(&mut self, event: Event) {
        self.world.check(&event).unwrap_or_else(|why| panic!("{event:?}: {why}"));
        self.world.apply(&event, self.now_ms);
        self.log.push((event, self.now_ms));
    }

    pub fn sync(&mut self) {
        self.durable = self.log.len();
        let (world, purse) = (&self.world, &mut self.purse);
        self.coming.drain(..).for_each(|(_, share)| purse.add(world, share));
    }

    pub fn step(&mut self, step: &Step) {
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
                let event: Event = BudgetGranted::of(Pid(pid), Budget { tokens, micros: Some(micros), ..Budget::default() }, "h").into();
                if self.world.check(&event).is_ok() {
                    self.record(event);
                    self.sync();
                }
            }
            Step::Ask { pid, tier, tokens, micros } => self.ask(pid, TIERS[tier], tokens, micros),
            Step::Settle { nth, part, doubt } => {
                let Some(made) = self.nth(nth) else { return };
                let of = |whole: u64, part: u64| (u128::from(whole) * u128::from(part) / 1_000) as u64;
                self.settle(made, |whole| of(whole, part), |rest| of(rest, doubt));
            }
            Step::Leave { nth } => {
                if let Some(made) = self.nth(nth) {
                    self.leave(made);
                }
            }
            Step::Reconcile { pid, micros } => self.reconcile(pid, micros),
            Step::Wait { hours } => {
                self.now_ms += hours * 3_600_000;
                held::expired(&self.world, self.now_ms).into_iter().for_each(|event| self.record(event));
                self.sync();
                let over = |made: &Made| !made.open && !self.world.books.held.contains_key(&made.call);
                let over: Vec<usize> = (0..self.made.len()).filter(|at| over(&self.made[*at])).collect();
                over.into_iter().for_each(|at| self.made[at].doubt = (0, 0));
            }
            Step::Lose { nth } => {
                if let Some(made) = self.nth(nth) {
                    self.lose(made);
                }
            }
            Step::Sync => self.sync(),
            Step::Crash { machine } => self.crash(machine),
            Step::Fail => self.fail(),
            Step::Rest => {
                while let Some(made) = self.nth(0) {
                    self.lose(made);
                }
                lease::returned(&self.world).into_iter().for_each(|event| self.record(event));
                self.sync();
                self.crash(false);
            }
        }
    }

    pub fn fold(&mut self) {
        self.log.truncate(self.durable);
        self.coming.clear();
        self.purse = LeasePool::default();
        let mut world = World::default();
        self.log.iter().for_each(|(event, at_ms)| world.apply(event, *at_ms));
        let snapshot = serde_json::to_string(&world).unwrap();
        self.world = serde_json::from_str(&snapshot).unwrap();
        let known = |event: &Event| match event {
            Event::ModelUsed(e) => Some(e.call),
            Event::CallLost(e) => Some(e.call),
            _ => None,
        };
        let settled: Vec<CallId> = self.log.iter().filter_map(|(event, _)| known(event)).collect();
        // What was settled and is not on disk is not settled.
        for made in self.made.iter_mut().filter(|made| !made.gone && !settled.contains(&made.call)) {
            (made.open, made.tokens, made.micros, made.doubt) = (true, made.most.0, made.most.1, (0, 0));
        }
    }

    /// What is not on disk is gone; what had left is held, and what had not is released.
    pub fn crash(&mut self, machine: bool) {
        self.fold();
        let left = if machine { Left::Unknown } else { Left::Known(self.flights.clone()) };
        crash::settle(&self.world, &left).into_iter().for_each(|event| self.record(event));
        let open: Vec<_> = self.world.calls.iter().map(|(call, open)| (*call, open.pid)).collect();
        for (call, pid) in open {
            self.record(CallLost { pid, task: None, call, tool: "model.request".into(), why: "t".into() }.into());
        }
        self.end(|_| true);
        self.flights.clear();
        self.sync();
    }

    /// The kernel lives on; only what was not on disk is gone, and does not leave any more.
    pub fn fail(&mut self) {
        self.fold();
        let known: Vec<CallId> = self.world.calls.keys().copied().collect();
        crash::unrecorded(&self.world, &self.flights).into_iter().for_each(|event| self.record(event));
        self.end(|made| !known.contains(&made.call));
        self.sync();
    }

    /// Requests that come to no end of their own: what left may have cost all that was reserved.
    pub fn end(&mut self, which: impl Fn(&Made) -> bool) {
        for made in self.made.iter_mut().filter(|made| made.open && which(made)) {
            (made.open, made.gone) = (false, true);
            made.doubt = if made.left { (made.tokens, made.micros) } else { (0, 0) };
            (made.tokens, made.micros) = (0, 0);
        }
    }

    pub fn leave(&mut self, at: usize) {
        let Made { call, pid, tier, tokens, micros, left, .. } = self.made[at].clone();
        if !left {
            let lease = self.world.books.reserved[&call].lease;
            let (provider, model, tier) = ("p".into(), "m".into(), tier.into());
            self.flights.push(Flight { call, pid: Pid(pid), task: None, provider, model, tier, tokens, micros, lease });
            self.made[at].left = true;
        }
    }

    /// The bill says that what is held was nothing.
    pub fn reconcile(&mut self, pid: u64, micros: bool) {
        let pid_ = Pid(pid);
        let held = self.world.books.held_of(pid_);
        let guessed = self.world.books.guessed(pid_);
        let tokens: BTreeMap<String, u64> =
            TIERS.iter().filter(|tier| !micros && held.of(tier) > 0 && guessed.of(tier) == 0).map(|tier| ((*tier).to_owned(), 0)).collect();
        let money = (micros && held.micros > 0 && guessed.micros == 0).then_some(0);
        if tokens.is_empty() && money.is_none() {
            return;
        }
        let released = held::reconciled(&self.world, pid_, &tokens, money);
        let named = tokens.clone();
        self.record(BudgetReconciled { pid: pid_, task: None, tokens, micros: money, by: "h".into() }.into());
        released.into_iter().for_each(|event| self.record(event));
        self.sync();
        for made in self.made.iter_mut().filter(|made| made.pid == pid && !made.open) {
            if micros {
                made.doubt.1 = 0;
            } else if named.contains_key(made.tier) {
                made.doubt.0 = 0;
            }
        }
    }

    pub fn nth(&self, nth: usize) -> Option<usize> {
        let open: Vec<usize> = (0..self.made.len()).filter(|at| self.made[*at].open).collect();
        (!open.is_empty()).then(|| open[nth % open.len()])
    }

    /// As the door does it: what is decided and what is reserved are one commit, and it is waited for unless a lease pays.
    pub fn ask(&mut self, pid: u64, tier: &'static str, tokens: u64, micros: u64) {
        let need = Need { tier, tokens, context: 0, micros };
        let (call, pid_) = (self.world.next_call(), Pid(pid));
        let bid = ReservationRequest { pid: pid_, task: None, call, provider: "p", model: "m", need };
        let Ok(PaymentPlan { events, ahead, share }) = self.purse.plan(&self.world, &bid, self.now_ms) else { return };
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
            rooms: None,
            run_mode: None,
            step: None,
            workflow: None,
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
        self.made.push(Made {
            call,
            pid,
            tier,
            tokens: most(tokens),
            micros: most(micros),
            open: true,
            left: false,
            most: (most(tokens), most(micros)),
            gone: false,
            doubt: (0, 0),
        });
    }

    /// Its end is told to the client when that is on disk; a crash may come first.
    pub fn settle(&mut self, at: usize, share: impl Fn(u64) -> u64, doubt: impl Fn(u64) -> u64) {
        self.leave(at);
        let Made { call, pid, tier, tokens, micros, .. } = self.made[at].clone();
        let (charged_tokens, charged_micros) = (share(tokens), share(micros));
        let (held_tokens, held_micros) = (doubt(tokens - charged_tokens), doubt(micros - charged_micros));
        let lease = self.world.books.reserved[&call].lease;
        let used = ModelUsed {
            pid: Pid(pid),
            task: None,
            call,
            provider: "p".into(),
            model: "m".into(),
            tier: tier.into(),
            figures: UsageTotals { requests: 1, micros: charged_micros, ..UsageTotals::default() },
            charged_tokens,
            charged_micros,
            status: None,
            first_byte_ms: None,
            asked: None,
            answered: None,
            notes: vec![],
            held_tokens,
            held_micros,
            ended: Some(Ending::HungUp),
            parts: None,
        };
        self.record(used.into());
        self.record(CallFinished { pid: Pid(pid), task: None, call, ok: true, output: json!(1), blob: None, blob_bytes: 0, ms: 0 }.into());
        let (tokens, micros) = (tokens - charged_tokens - held_tokens, micros - charged_micros - held_micros);
        self.coming.extend(lease.map(|lease| (self.log.len(), Share { pid: Pid(pid), lease, tokens, micros })));
        let doubt = (held_tokens, held_micros);
        self.made[at] = Made { tokens: charged_tokens, micros: charged_micros, open: false, doubt, ..self.made[at].clone() };
    }

    pub fn lose(&mut self, at: usize) {
        self.leave(at);
        let Made { call, pid, .. } = self.made[at];
        self.record(CallLost { pid: Pid(pid), task: None, call, tool: "model.request".into(), why: "t".into() }.into());
        self.made[at].open = false;
    }

    /// Tokens of a tier and money of `pid` and everything below it that really went out.
    pub fn real(&self, pid: u64, tier: &str) -> (u64, u64) {
        let own = self.made.iter().filter(|made| self.world.ancestry(Pid(made.pid)).any(|process| process.pid == Pid(pid)));
        own.fold((0, 0), |(tokens, micros): (u64, u64), made| {
            let counts = tier == ALL_TIERS || made.tier == tier;
            (tokens.saturating_add(if counts { made.tokens } else { 0 }), micros.saturating_add(made.micros))
        })
    }

    /// The same of what may have gone out beyond that.
    pub fn doubt(&self, pid: u64, tier: &str) -> (u64, u64) {
        let own = self.made.iter().filter(|made| self.world.ancestry(Pid(made.pid)).any(|process| process.pid == Pid(pid)));
        own.fold((0, 0), |(tokens, micros): (u64, u64), made| {
            let counts = tier == ALL_TIERS || made.tier == tier;
            (tokens.saturating_add(if counts { made.doubt.0 } else { 0 }), micros.saturating_add(made.doubt.1))
        })
    }
}
