//! What happens in the tree, as followers see it: made from the journal's records, from any of them on.
//!
//! A follower reads at its own pace what is on disk, so it loses nothing, however slow it is. What a process was not allowed to record, because it
//! recorded too much, is told as a number.

use crate::Tree;
use journal::Filter;
use ledger::{Ledger, event_of};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::watch;
use world::{Event, Fault, MessageId, Pid, Process, Recipient};

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
}

impl Tree {
    /// Events after this record, or from now on.
    pub fn events(&self, since: Option<u64>) -> TreeEvents {
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
                let kind = line.fields.get("event_type").filter(|kind| !kind.is_empty()).cloned().unwrap_or_else(|| "log".into());
                let (level, message, fields) = (line.level.clone(), line.message.clone(), line.fields.clone());
                let known = self.known(pid);
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
                    self.ready.push_back(TreeEvent { ppid: from, role: name, ..told });
                }
            }
            Event::CronFired(fired) if !fired.skipped => {}
            Event::CronFired(_) => {}
            Event::CronEnded(ended) => {
                let fields = BTreeMap::from([
                    ("cron_id".to_owned(), ended.cron.to_string()),
                    ("exit_code".to_owned(), ended.exit_code.to_string()),
                    ("output".to_owned(), ended.output.clone()),
                ]);
                let known = self.known(pid);
                self.ready.push_back(TreeEvent { kind: "cron_executed".into(), message: ended.cron.to_string(), fields, ..of(at, &known) });
            }
            other => self.tell_state(at, other),
        }
    }

    /// HiveKernel's dashboard reads who sent it from `pid` and `name`, and whom it is for from `ppid` and `role`.
    fn tell_sent(&mut self, at: TreeEvent, sent: &world::event::MessageSent) {
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
                // An entry that was removed meanwhile has no name any more.
                let (cron_name, started_ms) = self.ledger.look(|world| {
                    let entry = world.crons.get(&ended.cron);
                    (entry.map(|entry| entry.spec.name.clone()), entry.and_then(|entry| entry.last.as_ref()).map(|run| run.started_ms))
                });
                let took_ms = started_ms.map_or(0, |started_ms| at.at_ms.saturating_sub(started_ms).max(0));
        }
        let name = self.known(sent.pid.0).name;
                    ("cron_name".to_owned(), cron_name.unwrap_or_default()),
                    ("duration_ms".to_owned(), took_ms.to_string()),
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

    fn tell_state(&mut self, at: TreeEvent, event: &Event) {
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
