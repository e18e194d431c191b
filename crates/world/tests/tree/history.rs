//! A random history of a process tree, played on a real world.

use ::world::budget::lease::{LeasePool, ReservationRequest};
use ::world::event::*;
use ::world::*;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

pub const ROOT_TOKENS: u64 = 100_000;

#[derive(Clone, Debug)]
pub enum Step {
    Spawn { parent: usize, role: usize, tokens: u64, hourly: Option<u64>, children: u64, virtuals: bool, remembers: bool },
    Crash { nth: usize },
    Start { nth: usize },
    Kill { nth: usize, branch: bool },
    Collect,
    Sleep { nth: usize, ended: bool },
    Wake { nth: usize },
    Block { nth: usize },
    Send { from: usize, to: usize, priority: usize, ttl_ms: Option<i64>, queue: bool },
    Deliver { nth: usize },
    Answer { nth: usize, how: usize },
    Expire,
    Ask { nth: usize, tokens: u64 },
    Settle { part: u64 },
    Claim { nth: usize, tokens: u64 },
    Want { nth: usize, tokens: u64 },
    Execute { nth: usize },
    Begin { nth: usize },
    Finish { nth: usize },
    Store { nth: usize, key: usize, visibility: usize },
    Remove { nth: usize },
    Escalate { nth: usize },
    PassOn { handled: bool },
    Restart,
    Wait { ms: i64 },
}

pub fn any_step() -> impl Strategy<Value = Step> {
    let nth = || 0usize..40;
    prop_oneof![
        12 => (nth(), 0usize..6, 0u64..20_000, prop::option::of(0u64..5_000), 1u64..6, any::<bool>(), any::<bool>())
            .prop_map(|(parent, role, tokens, hourly, children, virtuals, remembers)| Step::Spawn { parent, role, tokens, hourly, children, virtuals, remembers }),
        3 => nth().prop_map(|nth| Step::Crash { nth }),
        8 => nth().prop_map(|nth| Step::Start { nth }),
        3 => (nth(), any::<bool>()).prop_map(|(nth, branch)| Step::Kill { nth, branch }),
        2 => Just(Step::Collect),
        2 => (nth(), any::<bool>()).prop_map(|(nth, ended)| Step::Sleep { nth, ended }),
        2 => nth().prop_map(|nth| Step::Wake { nth }),
        2 => nth().prop_map(|nth| Step::Block { nth }),
        12 => (nth(), nth(), 0usize..4, prop::option::of(1i64..100_000), prop::bool::weighted(0.2))
            .prop_map(|(from, to, priority, ttl_ms, queue)| Step::Send { from, to, priority, ttl_ms, queue }),
        10 => nth().prop_map(|nth| Step::Deliver { nth }),
        5 => (nth(), 0usize..4).prop_map(|(nth, how)| Step::Answer { nth, how }),
        1 => Just(Step::Expire),
        6 => (nth(), 1u64..4_000).prop_map(|(nth, tokens)| Step::Ask { nth, tokens }),
        4 => (0u64..=100).prop_map(|part| Step::Settle { part }),
        2 => (nth(), 0u64..9_000).prop_map(|(nth, tokens)| Step::Claim { nth, tokens }),
        3 => (nth(), 1u64..4_000).prop_map(|(nth, tokens)| Step::Want { nth, tokens }),
        4 => nth().prop_map(|nth| Step::Execute { nth }),
        4 => nth().prop_map(|nth| Step::Begin { nth }),
        3 => nth().prop_map(|nth| Step::Finish { nth }),
        3 => (nth(), 0usize..3, 0usize..4).prop_map(|(nth, key, visibility)| Step::Store { nth, key, visibility }),
        1 => nth().prop_map(|nth| Step::Remove { nth }),
        3 => nth().prop_map(|nth| Step::Escalate { nth }),
        3 => any::<bool>().prop_map(|handled| Step::PassOn { handled }),
        1 => Just(Step::Restart),
        6 => (0i64..60_000).prop_map(|ms| Step::Wait { ms }),
    ]
}

#[derive(Default)]
pub struct Run {
    pub world: World,
    pub log: Vec<(Event, i64)>,
    pub now_ms: i64,
    /// Requests on their way.
    open: Vec<(CallId, Pid, u64)>,
    /// What all of them cost.
    pub spent: u64,
    remembering: BTreeMap<Pid, bool>,
}

impl Run {
    pub fn new() -> Run {
        let mut run = Run { now_ms: 1_700_000_000_000, ..Run::default() };
        let plain = |pid: u64, parent: Option<u64>, name: &str| ProcSpawned {
            pid: Pid(pid),
            task: None,
            parent: parent.map(Pid),
            name: name.into(),
            role: name.into(),
            zone: None,
            user: "root".into(),
            program: None,
        };
        run.record(plain(1, None, "kernel"));
        run.record(plain(2, Some(1), "operator"));
        let tokens = BTreeMap::from([("all".to_owned(), ROOT_TOKENS)]);
        run.record(BudgetSet { pid: Pid(1), task: None, budget: Some(Budget { tokens, ..Budget::default() }), by: "h".into() });
        run
    }

    /// Records what must be allowed.
    pub fn record(&mut self, event: impl Into<Event>) {
        let event = event.into();
        self.world.check(&event).unwrap_or_else(|why| panic!("{event:?}: {why}"));
        self.apply(event);
    }

    fn apply(&mut self, event: Event) {
        self.world.apply(&event, self.now_ms);
        self.log.push((event, self.now_ms));
    }

    /// Records what may be allowed or not.
    fn wish(&mut self, event: impl Into<Event>) -> bool {
        let event = event.into();
        let may = self.world.check(&event).is_ok();
        if may {
            self.apply(event);
        }
        may
    }

    fn alive(&self) -> Vec<Pid> {
        self.world
            .processes
            .values()
            .filter(|process| process.program.is_some() && process.state.alive())
            .map(|process| process.pid)
            .collect()
    }

    fn nth(&self, nth: usize) -> Option<Pid> {
        let alive = self.alive();
        (!alive.is_empty()).then(|| alive[nth % alive.len()])
    }

    pub fn end_all(&mut self) {
        while !self.open.is_empty() {
            self.settle(50);
        }
        let tops: Vec<Pid> = self.world.live_children(Pid::KERNEL).map(|process| process.pid).collect();
        for top in tops {
            self.world.ending_branch(top, "the end", EndReason::Normal).into_iter().for_each(|event| self.record(event));
        }
    }

    fn settle(&mut self, part: u64) {
        if self.open.is_empty() {
            return;
        }
        let (call, pid, tokens) = self.open.remove(0);
        let charged = tokens * part / 100;
        self.spent += charged;
        self.record(ModelUsed {
            pid,
            task: None,
            call,
            provider: "p".into(),
            model: "m".into(),
            tier: "tactical".into(),
            figures: UsageTotals { requests: 1, input: charged, ..UsageTotals::default() },
            charged_tokens: charged,
            charged_micros: 0,
            status: None,
            first_byte_ms: None,
            asked: None,
            answered: None,
            notes: Vec::new(),
            held_tokens: 0,
            held_micros: 0,
            ended: None,
            parts: None,
        });
        self.record(CallFinished { pid, task: None, call, ok: true, output: json!(1), blob: None, blob_bytes: 0, ms: 0 });
    }

    fn ask(&mut self, pid: Pid, tokens: u64) {
        let call = self.world.next_call();
        let need = Need { tier: "tactical", tokens, context: 0, micros: 0 };
        let bid = ReservationRequest { pid, task: None, call, provider: "p", model: "m", need };
        let admitted = CallAdmitted {
            pid,
            task: None,
            call,
            tool: "model.request".into(),
            input: json!({}),
            digest: String::new(),
            bind: call.to_string(),
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
        let mut after = self.world.clone();
        after.apply(&admitted.clone().into(), self.now_ms);
        let Ok(plan) = LeasePool::default().plan(&after, &bid, self.now_ms) else { return };
        self.record(admitted);
        plan.events.into_iter().for_each(|event| self.record(event));
        self.open.push((call, pid, tokens));
    }

    fn spawn(&mut self, step: &Step) {
        let Step::Spawn { parent, role, tokens, hourly, children, virtuals, remembers } = step.clone() else { return };
        let parent = self.nth(parent).filter(|_| parent % 3 != 0).unwrap_or(Pid::KERNEL);
        let bound = self.world.processes[&parent].limits().copied().unwrap_or_default();
        let limits = ProgramLimits { children: Some(children), tasks: Some(2), ..ProgramLimits::default() }.within(&bound);
        let caps = BTreeMap::from([("all".to_owned(), tokens)]);
        let per_hour = hourly.map(|hourly| ("all".to_owned(), hourly)).into_iter().collect();
        let budget = (role != 3).then(|| Budget { tokens: caps, tokens_per_hour: per_hour, ..Budget::default() });
        let role = ProcessRole::ALL[1 + role % 6];
        let runtime = if virtuals { ProgramRuntime::Virtual } else { ProgramRuntime::Python };
        let program = Program { limits, budget, runtime, ..Program::new(role, Tier::Tactical) };
        let pid = self.world.next_pid();
        let (name, user, role) = (format!("p{pid}"), format!("u{}", pid.0 % 2), role.as_str().to_owned());
        if self.wish(ProcSpawned { pid, task: None, parent: Some(parent), name, role, zone: None, user, program: Some(Box::new(program)) })
        {
            self.remembering.insert(pid, remembers);
        }
    }

    fn start(&mut self, pid: Pid) {
        let incarnation = self.world.processes[&pid].incarnation() + 1;
        let remembers = self.remembering[&pid];
        if incarnation > 1 {
            self.wish(ProcRestarting { pid, task: None, attempt: 1, delay_ms: 5, by: "rule".into() });
        }
        self.wish(ProcStarted { pid, task: None, incarnation, process: Some(7), address: None, confined: true, remembers });
    }

    fn send(&mut self, from: Pid, to: Pid, priority: usize, ttl_ms: Option<i64>, queue: bool) {
        let found = route(&self.world, from, to);
        let relation = match (&found, queue) {
            (_, true) => SenderRelation::Branch,
            (Ok(route), false) => route.relation,
            (Err(_), false) => return,
        };
        let message = self.world.next_message();
        let to = if queue { Recipient::Queue(format!("q{}", to.0 % 2)) } else { Recipient::Process(to) };
        let priority = [MessagePriority::Critical, MessagePriority::High, MessagePriority::Normal, MessagePriority::Low][priority];
        let sent = MessageSent {
            body: MessageBody::default(),
            pid: from,
            task: None,
            message,
            to,
            relation,
            kind: "k".into(),
            priority,
            bytes: 1,
            deadline_ms: ttl_ms.map(|ttl| self.now_ms + ttl),
            requires_ack: false,
            reply_to: None,
            blob: None,
            copy_of: None,
        };
        self.record(sent.clone());
        if let Some(seen_by) = found.ok().and_then(|route| route.seen_by).filter(|_| !queue) {
            let (next, to, kind) = (self.world.next_message(), Recipient::Process(seen_by), "sibling_traffic:k".to_owned());
            let deadline_ms = Some(self.now_ms + limits::COPY_TTL_MS);
            self.record(MessageSent {
                body: MessageBody::default(),
                message: next,
                to,
                kind,
                deadline_ms,
                copy_of: Some(message),
                relation: SenderRelation::Child,
                ..sent
            });
        }
    }

    fn deliver(&mut self, pid: Pid) {
        let own = self.world.mail.next(&Recipient::Process(pid), self.now_ms);
        let queued = || (0..2).find_map(|queue| self.world.next_in_queue(&format!("q{queue}"), pid, self.now_ms));
        let Some(message) = own.or_else(queued).map(|message| message.id) else { return };
        let incarnation = self.world.processes[&pid].incarnation();
        self.wish(MessageDelivered { pid, task: None, message, incarnation, further: Vec::new() });
    }

    pub fn step(&mut self, step: &Step) {
        match step.clone() {
            Step::Spawn { .. } => self.spawn(step),
            Step::Settle { part } => self.settle(part),
            Step::Wait { ms } => self.now_ms += ms,
            Step::Restart => self.restart(),
            Step::Expire => self.expire(),
            Step::Collect => self.collect(),
            Step::PassOn { handled } => self.pass_on(handled),
            Step::Crash { nth }
            | Step::Start { nth }
            | Step::Kill { nth, .. }
            | Step::Sleep { nth, .. }
            | Step::Wake { nth }
            | Step::Block { nth }
            | Step::Deliver { nth }
            | Step::Answer { nth, .. }
            | Step::Ask { nth, .. }
            | Step::Claim { nth, .. }
            | Step::Want { nth, .. }
            | Step::Execute { nth }
            | Step::Begin { nth }
            | Step::Finish { nth }
            | Step::Store { nth, .. }
            | Step::Remove { nth }
            | Step::Escalate { nth } => {
                if let Some(pid) = self.nth(nth) {
                    self.step_of(pid, step);
                }
            }
            Step::Send { from, to, priority, ttl_ms, queue } => {
                if let (Some(from), Some(to)) = (self.nth(from), self.nth(to)) {
                    self.send(from, to, priority, ttl_ms, queue);
                }
            }
        }
    }

    fn step_of(&mut self, pid: Pid, step: &Step) {
        let task = None;
        match step.clone() {
            Step::Start { .. } => self.start(pid),
            Step::Crash { .. } => {
                let incarnation = self.world.processes[&pid].incarnation();
                self.wish(ProcCrashed { pid, task, incarnation, code: Some(1), signal: None, error: String::new() });
            }
            Step::Kill { branch, .. } => {
                let events = if branch {
                    self.world.ending_branch(pid, "killed", EndReason::UserRequest)
                } else {
                    self.world.ending(pid, true, "killed", ProcessExit::default())
                };
                // Calls of those who end are lost with them.
                let ended: Vec<Pid> = events.iter().filter(|event| event.kind() == "proc.exited").map(Event::pid).collect();
                while self.open.iter().any(|(_, of, _)| ended.contains(of)) {
                    self.settle(10);
                }
                events.into_iter().for_each(|event| self.record(event));
            }
            Step::Sleep { ended, .. } => {
                self.wish(ProcSlept { pid, task, until_ms: None, ended, reason: String::new() });
            }
            Step::Wake { .. } => {
                self.wish(ProcWoken { pid, task, reason: String::new() });
            }
            Step::Block { .. } => {
                if !self.wish(ProcBlocked { pid, task, on: BlockReason::Child, reason: String::new() }) {
                    self.wish(ProcUnblocked { pid, task, reason: String::new() });
                }
            }
            Step::Deliver { .. } => self.deliver(pid),
            Step::Answer { how, .. } => {
                let handed = self.world.mail.boxes.get(&pid).and_then(|mailbox| mailbox.handed().next());
                let status = [ReplyStatus::Accepted, ReplyStatus::Queued, ReplyStatus::Rejected, ReplyStatus::Escalate][how];
                if let Some(message) = handed {
                    self.record(MessageAnswered { pid, task, message, status, reply: None, further: Vec::new() });
                }
            }
            Step::Ask { tokens, .. } => self.ask(pid, tokens),
            Step::Claim { tokens, .. } => {
                self.record(ProcReported { pid, task, state: None, context_permille: Some(1), tokens: Some(tokens) });
            }
            Step::Want { tokens, .. } => {
                let what = Cap::Tokens("all".into());
                self.record(ResourceAsked { pid, task, of: Pid::KERNEL, what: what.to_string(), amount: tokens, reason: String::new() });
                if let Ok(events) = self.world.resource_path(pid, &what, tokens, self.now_ms) {
                    events.into_iter().for_each(|event| self.record(event));
                }
            }
            Step::Execute { .. } => {
                let task = Some(self.world.next_task());
                self.record(TaskQueued {
                    pid,
                    task,
                    zone: ZoneId::NONE,
                    mode: Mode::Execute,
                    prompt: String::new(),
                    brain: String::new(),
                    priority: 0,
                    calls_max: None,
                    original: None,
                    discard: false,
                    order: Some(Box::default()),
                });
            }
            Step::Begin { .. } => self.begin(pid),
            Step::Finish { .. } => {
                let running = self.world.open_tasks(pid).find(|task| task.state == TaskState::Running).map(|task| task.id);
                if running.is_some() {
                    self.record(TaskFinished { pid, task: running, summary: String::new(), result: Some(Box::default()) });
                }
            }
            Step::Store { key, visibility, .. } => {
                let visibility = [Visibility::Private, Visibility::User, Visibility::Subtree, Visibility::Global][visibility];
                let (artifact, key) = (self.world.next_artifact(), format!("k{key}"));
                let version = self.world.artifact_at(pid, &key, visibility).map_or(1, |before| before.version + 1);
                let (content_type, blob) = ("text/plain".to_owned(), artifact.to_string());
                self.wish(ArtifactStored { pid, task, artifact, key, version, visibility, content_type, blob, bytes: 1 });
            }
            Step::Remove { .. } => {
                let own =
                    self.world.artifacts.values().find(|artifact| self.world.owns_artifact(pid, artifact)).map(|artifact| artifact.id);
                if let Some(artifact) = own {
                    self.record(ArtifactRemoved { pid, task, artifact });
                }
            }
            Step::Escalate { .. } => {
                let (escalation, to) = (self.world.next_escalation(), self.world.nearest_live_ancestor(pid).unwrap_or(Pid::KERNEL));
                let (issue, severity) = ("trouble".to_owned(), Severity::Error);
                self.record(EscalationRaised { pid, task, escalation, to, issue, severity, context: BTreeMap::new(), auto: true });
            }
            other => unreachable!("{other:?}"),
        }
    }

    fn begin(&mut self, pid: Pid) {
        let next = self.world.open_tasks(pid).find(|task| task.state == TaskState::Queued).map(|task| task.id);
        if next.is_some() {
            self.wish(TaskStarted { pid, task: next, episode: 1 });
        }
    }

    fn pass_on(&mut self, handled: bool) {
        let open = self.world.escalations.values().find(|escalation| escalation.handled.is_none() && escalation.review.is_none());
        let Some((escalation, at)) = open.map(|escalation| (escalation.id, escalation.at)) else { return };
        match self.world.nearest_live_ancestor(at) {
            Some(to) if !handled => self.record(EscalationPassed { pid: at, task: None, escalation, to: Some(to), review: None }),
            _ => self.record(EscalationHandled { pid: at, task: None, escalation, response: "done".into() }),
        }
    }

    fn expire(&mut self) {
        let over: Vec<MessageId> = self.world.mail.expired(self.now_ms).map(|message| message.id).collect();
        over.into_iter().for_each(|message| {
            self.record(MessageDropped { pid: Pid::KERNEL, task: None, message, why: DropReason::Expired, further: Vec::new() })
        });
    }

    fn collect(&mut self) {
        let ended = |process: &&Process| process.program.is_some() && !process.state.alive();
        let gone: Vec<Pid> = self.world.processes.values().filter(ended).map(|process| process.pid).collect();
        // Those below first.
        for pid in gone.into_iter().rev() {
            self.wish(ProcCollected { pid, task: None, by: Pid::KERNEL });
        }
    }

    fn restart(&mut self) {
        self.record(KernelStopped { pid: Pid::KERNEL, task: None, reason: "stop".into() });
        self.record(KernelStarted { pid: Pid::KERNEL, task: None, version: "v".into(), boot: "b".into() });
        let up = self.world.processes.values().filter(|process| process.run.as_ref().is_some_and(|run| run.is_up)).count();
        assert_eq!(up, 0, "agents end with their kernel");
    }
}
