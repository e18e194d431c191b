//! What happens in the tree, as followers see it: made from the journal's records, from any of them on.
//!
//! A follower reads at its own pace what is on disk, so it loses nothing, however slow it is. What a process was not allowed to record, because it
//! recorded too much, is told as a number.

use crate::Tree;
use crate::preview::{MessagePreview, PreviewGuard};
use journal::Filter;
use ledger::{Ledger, event_of};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::watch;
use world::event::MessageSent;
use world::{Event, Fault, MessageId, Pid, Process, Recipient, TaskId, World};

/// Records that events are made of.
const KINDS: [&str; 22] = [
    "proc.spawned",
    "proc.started",
    "proc.slept",
    "proc.woken",
    "proc.blocked",
    "proc.unblocked",
    "proc.paused",
    "proc.resumed",
    "proc.crashed",
    "proc.exited",
    "proc.collected",
    "proc.logged",
    "task.started",
    "task.parked",
    "task.finished",
    "task.failed",
    "task.cancelled",
    "message.sent",
    "message.delivered",
    "cron.fired",
    "cron.ended",
    "records.dropped",
];
/// Events that the kernel makes of its own records.
const KERNEL_KINDS: [&str; 6] = ["spawned", "removed", "state_changed", "message_sent", "message_delivered", "cron_executed"];
/// Records that are read at once.
const READ_AT_ONCE: u64 = 512;

/// Something that happened, in the words of HiveKernel's contract.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeEvent {
    /// Of the record that it is made of. Some records make several events.
    pub seq: u64,
    pub at_ms: i64,
    pub kind: String,
    pub pid: u64,
    pub ppid: u64,
    pub name: String,
    pub role: String,
    pub tier: String,
    pub model: String,
    pub state: String,
    pub old_state: String,
    pub new_state: String,
    pub level: String,
    pub message: String,
    pub reply_to: String,
    /// The beginning of a message, without secrets, for whoever may see it.
    pub payload_preview: String,
    /// What it belongs to, as the one who began it says; of a task, the task that it is a part of and itself.
    pub trace_id: String,
    pub trace_span: String,
    pub message_id: String,
    pub fields: BTreeMap<String, String>,
}

/// What a follower knows of a process.
#[derive(Clone, Debug, Default)]
struct Known {
    parent: u64,
    name: String,
    role: String,
    tier: String,
    model: String,
    state: String,
}

/// A follower of the tree.
pub struct TreeEvents {
    ledger: Arc<Ledger>,
    durable: watch::Receiver<u64>,
    stopping: watch::Receiver<bool>,
    after: Option<u64>,
    known: HashMap<u64, Known>,
    /// Who a message is from and for, while it is on its way.
    senders: HashMap<MessageId, Pid>,
    ready: VecDeque<TreeEvent>,
    /// Who follows: he sees the messages of his own branch, the operator and the kernel those of all.
    by: Pid,
    previews: PreviewGuard,
}

impl Tree {
    /// Events after this record, or from now on, as `by` may see them.
    pub fn events(&self, by: Pid, since: Option<u64>) -> TreeEvents {
        let previews = self.mail.previews.follow();
        let journal = self.ledger.journal();
        let durable = journal.follow();
        let head = journal.head();
        let now = if head.count == 0 { None } else { Some(head.seq) };
        TreeEvents {
            ledger: self.ledger.clone(),
            durable,
            stopping: self.stopping.subscribe(),
            after: since.or(now),
            known: HashMap::new(),
            senders: HashMap::new(),
            ready: VecDeque::new(),
            by,
            previews,
        }
    }
}

impl TreeEvents {
    /// The next event; `None` when the kernel ends or its journal cannot be read. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<TreeEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            // Before the reading: what comes meanwhile rings again.
            self.durable.borrow_and_update();
            match self.read() {
                Ok(true) => {}
                Ok(false) => {
                    tokio::select! {
                        changed = self.durable.changed() => if changed.is_err() { return None },
                        stops = self.stopping.changed() => if stops.is_err() || *self.stopping.borrow() { return None },
                    }
                }
                Err(fault) => {
                    world::log!("skep: a follower of the tree ends: {fault}");
                    return None;
                }
            }
        }
    }

    /// Reads some more. Says whether there was something.
    fn read(&mut self) -> Result<bool, Fault> {
        let filter = Filter {
            after_seq: self.after,
            kinds: KINDS.iter().map(|kind| (*kind).to_owned()).collect(),
            limit: Some(READ_AT_ONCE),
            ..Filter::default()
        };
        let upto = self.ledger.journal().head();
        let records = self.ledger.read(&filter)?;
        for record in &records {
            let event = event_of(record)?;
            self.tell(record.seq, record.at_ms, &event);
        }
        let has_all = (records.len() as u64) < READ_AT_ONCE;
        self.after = match records.last() {
            // Records of other kinds need not be looked at again.
            _ if has_all && upto.count > 0 => self.after.max(Some(upto.seq)).max(records.last().map(|record| record.seq)),
            Some(last) => Some(last.seq),
            None => self.after,
        };
        Ok(!records.is_empty())
    }

    fn tell(&mut self, seq: u64, at_ms: i64, event: &Event) {
        let pid = event.pid().0;
        let at = TreeEvent { seq, at_ms, pid, ..TreeEvent::default() };
        match event {
            Event::ProcSpawned(spawned) => {
                let program = spawned.program.as_deref();
                let known = Known {
                    parent: spawned.parent.unwrap_or_default().0,
                    name: spawned.name.clone(),
                    role: program.map_or_else(|| spawned.role.clone(), |program| program.role.as_str().to_owned()),
                    tier: program.map(|program| program.tier.as_str().to_owned()).unwrap_or_default(),
                    model: program.map(|program| program.model.clone()).unwrap_or_default(),
                    state: "idle".to_owned(),
                };
                self.known.insert(pid, known.clone());
                self.ready.push_back(TreeEvent { kind: "spawned".into(), ..of(at, &known) });
            }
            Event::ProcCollected(_) => {
                let known = self.known(pid);
                self.known.remove(&pid);
                self.ready.push_back(TreeEvent { kind: "removed".into(), ..of(at, &known) });
            }
            Event::ProcLogged(line) => {
                if !self.is_of_own_user(Pid(pid)) {
                    return;
                }
                // What only the kernel can say, it says itself.
                let is_own = |kind: &&String| !kind.is_empty() && !KERNEL_KINDS.contains(&kind.as_str());
                let kind = line.fields.get("event_type").filter(is_own).cloned().unwrap_or_else(|| "log".into());
                let (level, message, fields) = (line.level.clone(), line.message.clone(), line.fields.clone());
                let known = self.known(pid);
                let said = |name: &str| fields.get(name).cloned().unwrap_or_default();
                let (payload_preview, trace_id, trace_span) = (said("payload_preview"), said("trace_id"), said("trace_span"));
                let at = TreeEvent { payload_preview, trace_id, trace_span, ..at };
                self.ready.push_back(TreeEvent { kind, level, message, fields, ..of(at, &known) });
            }
            Event::RecordsDropped(dropped) => {
                let fields = BTreeMap::from([("kind".to_owned(), dropped.kind.clone()), ("count".to_owned(), dropped.count.to_string())]);
                let message = format!("{} records of `{}` were counted and not kept", dropped.count, dropped.kind);
                let known = self.known(pid);
                self.ready.push_back(TreeEvent { kind: "log".into(), level: "warn".into(), message, fields, ..of(at, &known) });
            }
            Event::MessageSent(sent) => self.tell_sent(at, sent),
            Event::MessageDelivered(delivered) => {
                for id in std::iter::once(delivered.message).chain(delivered.further.iter().copied()) {
                    let from = self.senders.remove(&id).map_or(0, |from| from.0);
                    let (known, name) = (self.known(pid), self.known(from).name);
                    let told =
                        TreeEvent { kind: "message_delivered".into(), ppid: from, message_id: id.to_string(), ..of(at.clone(), &known) };
                    let seen = self.previews.find(id).filter(|_| self.may_see(&[Pid(pid), Pid(from)]));
                    let told = with_preview(told, seen.as_deref());
                    self.ready.push_back(TreeEvent { ppid: from, role: name, ..told });
                }
            }
            Event::CronFired(fired) if !fired.skipped => {}
            Event::CronFired(_) => {}
            Event::CronEnded(ended) => {
                // An entry that was removed meanwhile has no name any more.
                let (cron_name, started_ms) = self.ledger.look(|world| {
                    let entry = world.crons.get(&ended.cron);
                    (entry.map(|entry| entry.spec.name.clone()), entry.and_then(|entry| entry.last.as_ref()).map(|run| run.started_ms))
                });
                let took_ms = started_ms.map_or(0, |started_ms| at.at_ms.saturating_sub(started_ms).max(0));
                let fields = BTreeMap::from([
                    ("cron_id".to_owned(), ended.cron.to_string()),
                    ("cron_name".to_owned(), cron_name.unwrap_or_default()),
                    ("duration_ms".to_owned(), took_ms.to_string()),
                    ("exit_code".to_owned(), ended.exit_code.to_string()),
                    ("output".to_owned(), if self.is_of_own_user(Pid(pid)) { ended.output.clone() } else { String::new() }),
                ]);
                let known = self.known(pid);
                self.ready.push_back(TreeEvent { kind: "cron_executed".into(), message: ended.cron.to_string(), fields, ..of(at, &known) });
            }
            other => self.tell_state(at, other),
        }
    }

    /// HiveKernel's dashboard reads who sent it from `pid` and `name`, and whom it is for from `ppid` and `role`.
    fn tell_sent(&mut self, at: TreeEvent, sent: &MessageSent) {
        let (to, to_name) = match &sent.to {
            Recipient::Process(to) => (to.0, self.known(to.0).name),
            Recipient::Queue(name) => (0, name.clone()),
        };
        self.senders.insert(sent.message, sent.pid);
        // Those that nobody reads are forgotten some day.
        if self.senders.len() > SENDERS_MAX {
            self.senders.clear();
        }
        if sent.copy_of.is_some() {
            return;
        }
        let name = self.known(sent.pid.0).name;
        let preview = self.preview(sent);
        let at = with_preview(at, preview.as_deref());
        self.ready.push_back(TreeEvent {
            kind: "message_sent".into(),
            ppid: to,
            name,
            role: to_name,
            message: sent.kind.clone(),
            reply_to: sent.reply_to.clone().unwrap_or_default(),
            message_id: sent.message.to_string(),
            ..at
        });
    }

    /// What this follower may see of a message. One whose body is gone, and that was sent while nobody followed, has nothing to be seen.
    fn preview(&self, sent: &MessageSent) -> Option<Arc<MessagePreview>> {
        let ends = match &sent.to {
            Recipient::Process(to) => vec![sent.pid, *to],
            Recipient::Queue(_) => vec![sent.pid],
        };
        if !self.may_see(&ends) {
            return None;
        }
        if let Some(kept) = self.previews.find(sent.message) {
            return Some(kept);
        }
        let body = match &sent.blob {
            Some(blob) => self.ledger.blob_if_kept(blob),
            None => self.ledger.bodies(&[sent.message]).map(|mut bodies| bodies.pop().flatten()),
        };
        match body {
            Ok(body) => body.map(|body| Arc::new(MessagePreview::of(&self.ledger.redactor, &body))),
            Err(fault) => {
                world::log!("skep: {} has no preview: {fault}", sent.message);
                None
            }
        }
    }

    /// Does the follower act for the same user, or stand above it?
    fn is_of_own_user(&self, pid: Pid) -> bool {
        self.ledger.look(|world| world.shares_user(self.by, pid))
    }

    /// May the follower see what passes between these?
    fn may_see(&self, ends: &[Pid]) -> bool {
        let is_top = self.by == Pid::KERNEL || self.by == Pid::OPERATOR;
        is_top || self.ledger.look(|world| ends.iter().any(|end| world.ancestry(*end).any(|process| process.pid == self.by)))
    }

    fn tell_state(&mut self, at: TreeEvent, event: &Event) {
        let at = match event.task() {
            Some(task) => {
                let (trace_id, trace_span) = self.ledger.look(|world| trace_of(world, task));
                TreeEvent { trace_id, trace_span, ..at }
            }
            None => at,
        };
        let state = match event {
            Event::ProcStarted(_) | Event::ProcWoken(_) | Event::ProcUnblocked(_) | Event::ProcResumed(_) => "idle",
            Event::TaskFinished(_) | Event::TaskFailed(_) | Event::TaskCancelled(_) => "idle",
            Event::TaskStarted(_) => "running",
            Event::ProcSlept(_) => "sleeping",
            Event::ProcBlocked(_) | Event::ProcPaused(_) | Event::ProcCrashed(_) | Event::TaskParked(_) => "blocked",
            Event::ProcExited(exited) if exited.killed => "dead",
            Event::ProcExited(_) => "zombie",
            _ => return,
        };
        let mut known = self.known(at.pid);
        let old = std::mem::replace(&mut known.state, state.to_owned());
        if old == state {
            return;
        }
        self.known.insert(at.pid, known.clone());
        self.ready.push_back(TreeEvent { kind: "state_changed".into(), old_state: old, new_state: state.into(), ..of(at, &known) });
    }

    /// What is known of a process: from its spawn, or from the table as it is now.
    fn known(&mut self, pid: u64) -> Known {
        if let Some(known) = self.known.get(&pid) {
            return known.clone();
        }
        let found = self.ledger.look(|world| {
            let departed = || world.departed.get(&Pid(pid)).map(|gone| Known { name: gone.name.clone(), ..Known::default() });
            world.processes.get(&Pid(pid)).map(known_of).or_else(departed)
        });
        let known = found.unwrap_or_default();
        self.known.insert(pid, known.clone());
        known
    }
}

fn with_preview(at: TreeEvent, preview: Option<&MessagePreview>) -> TreeEvent {
    let Some(MessagePreview { text, trace_id, trace_span }) = preview else { return at };
    TreeEvent { payload_preview: text.clone(), trace_id: trace_id.clone(), trace_span: trace_span.clone(), ..at }
}

/// The trace of a task: what its parameters say, or else the task at the top of what it is a part of, and itself.
fn trace_of(world: &World, task: TaskId) -> (String, String) {
    let param = |of: TaskId, name: &str| world.tasks.get(&of)?.order.as_ref()?.params.get(name).cloned();
    let mut top = task;
    for _ in 0..TRACE_DEPTH_MAX {
        let above = world.tasks.get(&top).and_then(|task| task.order.as_ref()?.parent_task.as_deref()?.parse::<TaskId>().ok());
        match above.filter(|above| *above < top) {
            Some(above) if param(top, "trace_id").is_none() => top = above,
            _ => break,
        }
    }
    let id = param(top, "trace_id").unwrap_or_else(|| top.to_string());
    (id, param(task, "trace_span").unwrap_or_else(|| task.to_string()))
}

/// Deeper trees of tasks than anybody reads.
const TRACE_DEPTH_MAX: usize = 64;
/// Messages on their way whose senders a follower remembers.
const SENDERS_MAX: usize = 200_000;

fn known_of(process: &Process) -> Known {
    Known {
        parent: process.parent.unwrap_or_default().0,
        name: process.name.clone(),
        role: process.tree_role().map_or_else(|| process.role.clone(), |role| role.as_str().to_owned()),
        tier: process.tree_tier().map(|tier| tier.as_str().to_owned()).unwrap_or_default(),
        model: process.program.as_ref().map(|program| program.model.clone()).unwrap_or_default(),
        // As it was before what is told next is not known.
        state: String::new(),
    }
}

fn of(at: TreeEvent, known: &Known) -> TreeEvent {
    TreeEvent {
        ppid: known.parent,
        name: known.name.clone(),
        role: known.role.clone(),
        tier: known.tier.clone(),
        model: known.model.clone(),
        state: known.state.clone(),
        ..at
    }
}
