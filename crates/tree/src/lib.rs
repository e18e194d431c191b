//! Runs the process tree: starts programs in rooms, supervises them, delivers their messages, answers their waits, and keeps the clock of cron.
//!
//! Everything a process asks for is a call by a plain name (`proc.spawn`, `message.send`) that the gate judges and the journal holds
//! (`calls.rs`). What is true of the tree is the world's; what is here only carries it out, and starts from the world again after a crash.
//! **Invariant.** A program runs only while its process is alive in the world, and nothing that it asks for is answered before it is on disk.
#![forbid(unsafe_code)]

mod artifact;
mod boot;
mod bounds;
mod brain_work;
mod byte_stream;
mod calls;
mod changes;
mod clock;
pub mod contract;
mod cron;
mod decide;
mod decider;
mod deliver;
mod end;
mod escalate;
mod events;
mod execute;
mod face;
mod hand_over;
mod heed;
mod interrupt;
mod live;
mod log;
mod mailroom;
mod order;
mod preview;
mod program;
mod resource;
mod schedule;
mod send;
mod spawn;
mod startup;
mod subscribe;
mod supervise;
mod syscall;
mod turn;
mod unseen;
mod view;

pub use artifact::{ArtifactQuery, ReadArtifact};
pub use brain_work::BrainHost;
pub use byte_stream::{STREAM_WAIT, StreamBroken, StreamEnd, StreamReader, StreamWriter};
pub use calls::TreeCaller;
pub(crate) use deliver::HandOverError;
pub use escalate::EscalationReply;
pub use events::{TreeEvent, TreeEvents};
pub use face::CoreFace;
pub use mailroom::QueueFilter;
pub use order::{ArtifactOrder, EscalationOrder, KillOrder, LogLine, MessageOrder, SpawnOrder, TaskOrder};
pub use resource::ResourceReply;
pub use startup::Startup;
pub use subscribe::{ReceivedMessage, Subscription};
pub use supervise::HeartbeatTerms;
pub use view::{ProcessView, ResourceView};

use gate::Gate;
use hive::ProcessSecrets;
use host::Rooms;
use ledger::Ledger;
use models::Models;
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Instant;
use tokio::sync::watch;
use world::{Pid, TaskId};

/// Work that asks for itself again: a spawn that spawns, a task that sets tasks.
pub type TreeFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The tree, as faces and the kernel know it.
pub struct Tree {
    /// Itself, for what goes on after a call.
    pub(crate) me: Weak<Tree>,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) models: Arc<Models>,
    pub(crate) rooms: Arc<Rooms>,
    /// The kernel's own folder, which no room shows.
    pub(crate) home: PathBuf,
    /// The variables of whoever started the kernel.
    pub(crate) variables: Vec<(String, String)>,
    /// By which processes prove on TCP who they are.
    pub secrets: Arc<ProcessSecrets>,
    /// Who answers what agents ask of the kernel; nothing starts before there is one.
    pub(crate) face: watch::Sender<Option<Arc<dyn CoreFace>>>,
    /// Who has brains work; none is spawned before there is one.
    pub(crate) brains: Mutex<Option<Arc<dyn BrainHost>>>,
    /// Who waits for messages, and the bells of the loops.
    pub(crate) mail: mailroom::MailRoom,
    /// Programs that run, and those that are being started.
    pub(crate) live: Mutex<HashMap<Pid, Arc<live::LiveProgram>>>,
    pub(crate) starting: Mutex<HashMap<Pid, Arc<program::ProgramStart>>>,
    /// Branches with limits of their own.
    pub(crate) branches: Mutex<HashMap<Pid, program::branch::KnownBranch>>,
    /// Ends of streams that wait for the other.
    pub(crate) streams: byte_stream::WaitingEnds,
    /// Tasks that somebody carries through until their outcome is on record, and those of them that a program works on.
    pub(crate) carried: watch::Sender<BTreeSet<TaskId>>,
    pub(crate) running: Mutex<HashMap<TaskId, execute::RunningTask>>,
    /// Who was told with the record itself that a budget comes to its end, by whose it is and what of it: the others are told afterwards.
    pub(crate) told_of_cap: Mutex<HashMap<(Pid, String), Pid>>,
    /// When processes ended that nobody has taken note of.
    pub(crate) ended: Mutex<HashMap<Pid, Instant>>,
    /// How programs are asked whether they still answer.
    pub(crate) heartbeats: Mutex<HeartbeatTerms>,
    /// When this kernel started, as agents are told.
    pub(crate) session: String,
    /// True once the kernel goes down.
    pub(crate) stopping: watch::Sender<bool>,
}

impl Tree {
    pub fn new(gate: Arc<Gate>, models: Arc<Models>, rooms: Arc<Rooms>, home: &Path, variables: &[(String, String)]) -> Arc<Tree> {
        Arc::new_cyclic(|me| Tree {
            me: me.clone(),
            ledger: gate.ledger.clone(),
            gate,
            models,
            rooms,
            home: home.to_owned(),
            variables: variables.to_vec(),
            secrets: Arc::default(),
            face: watch::Sender::new(None),
            brains: Mutex::default(),
            mail: mailroom::MailRoom::default(),
            live: Mutex::default(),
            starting: Mutex::default(),
            branches: Mutex::default(),
            streams: Mutex::default(),
            carried: watch::Sender::default(),
            running: Mutex::default(),
            told_of_cap: Mutex::default(),
            ended: Mutex::default(),
            heartbeats: Mutex::default(),
            session: program::session_stamp(),
            stopping: watch::Sender::new(false),
        })
    }

    /// Other terms for programs that are started from here on.
    pub fn set_heartbeats(&self, terms: HeartbeatTerms) {
        *self.heartbeats.lock() = terms;
    }
}
