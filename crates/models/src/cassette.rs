//! Which traffic is recorded, and which is answered from a recording.
//!
//! A task's cassette is `cassettes/TASK.jsonl` in `$SKEP_HOME`, named in the record when the task is queued. **Invariant.** A process whose
//! traffic is to be recorded asks no model unrecorded: a cassette that can't be opened or written is a refusal.

use crate::Models;
use gateway::Provider;
use gateway::cassette::{CassetteWriter, Player, Redact};
use ledger::aside;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use world::event::CassetteStarted;
use world::{Code, Pid, Refusal, TaskId};
use world::{Fault, Stop};

/// What a program outside rooms wants done with its traffic.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    pub record: Option<PathBuf>,
    pub replay: Option<PathBuf>,
    /// Keep the pauses that were recorded.
    pub timing: bool,
}

/// Whose traffic it is: a process's, or its work on one task.
type CassetteKey = (Pid, Option<TaskId>);

#[derive(Default)]
pub(crate) struct Cassettes {
    writers: Mutex<HashMap<CassetteKey, Arc<CassetteWriter>>>,
    players: Mutex<HashMap<CassetteKey, Arc<Provider>>>,
    /// Tasks whose recorded pauses are kept in a replay.
    pub timed: Mutex<HashSet<TaskId>>,
}

impl Cassettes {
    pub fn forget(&self, whose: CassetteKey) {
        self.writers.lock().remove(&whose);
        self.players.lock().remove(&whose);
    }
}

/// A cassette, for whoever looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CassetteView {
    pub name: String,
    pub path: PathBuf,
    pub bytes: u64,
    pub exchanges: Vec<ExchangeView>,
    /// Exchanges that a crash cut off.
    pub torn: usize,
    /// Why it can't be read.
    pub broken: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeView {
    pub n: u64,
    pub dialect: String,
    pub path: String,
    pub model: String,
    pub status: u16,
    pub bytes: u64,
    pub ms: u64,
    pub complete: bool,
}

/// The file of a task's cassette.
pub fn file_of(task: TaskId) -> String {
    format!("{task}.jsonl")
}

/// The size of a file; 0 where there is none.
fn file_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}

impl Models {
    pub(crate) fn redact(&self) -> Redact {
        let redactor = self.ledger.redactor.clone();
        Arc::new(move |text| redactor.text(text).into_owned())
    }

    fn open_cassette(&self, path: &Path) -> Result<Arc<CassetteWriter>, Fault> {
        let opened = aside(|| CassetteWriter::open(path, self.redact()));
        Ok(Arc::new(opened.map_err(|error| Fault::io("record on", path, error))?))
    }

    /// The cassette that this traffic is taken down on.
    pub(crate) fn cassette_writer(&self, pid: Pid, task: Option<TaskId>) -> Result<Option<Arc<CassetteWriter>>, Fault> {
        let mut writers = self.cassettes.writers.lock();
        if let Some(writer) = writers.get(&(pid, task)) {
            return Ok(Some(writer.clone()));
        }
        let named = self.ledger.look(|world| task.and_then(|task| world.tasks.get(&task)).and_then(|task| task.cassette.clone()));
        let Some(file) = named else { return Ok(None) };
        let writer = self.open_cassette(&self.folder.join(file))?;
        writers.insert((pid, task), writer.clone());
        Ok(Some(writer))
    }

    /// The cassette that answers this traffic.
    pub(crate) fn cassette_player(&self, pid: Pid, task: Option<TaskId>) -> Option<Arc<Provider>> {
        if let Some(player) = self.cassettes.players.lock().get(&(pid, task)) {
            return Some(player.clone());
        }
        let of = self.ledger.look(|world| task.and_then(|task| world.tasks.get(&task)).and_then(|task| task.replays))?;
        let timing = self.cassettes.timed.lock().contains(&of);
        Some(self.play_cassette((pid, task), &self.folder.join(file_of(of)), timing))
    }

    fn play_cassette(&self, whose: CassetteKey, file: &Path, timing: bool) -> Arc<Provider> {
        let player = Arc::new(Provider::cassette(file, timing));
        self.cassettes.players.lock().insert(whose, player.clone());
        player
    }

    /// Sets a program's traffic up before its first request.
    pub(crate) async fn set_up_traffic(&self, pid: Pid, traffic: &Traffic) -> Result<(), Stop> {
        if let Some(file) = &traffic.replay {
            self.read_cassette(file)?;
            self.play_cassette((pid, None), file, traffic.timing);
        }
        let own = self.records_all().then(|| self.folder.join(format!("process-{pid}.jsonl")));
        let Some(file) = traffic.record.clone().or(own) else { return Ok(()) };
        let writer = self.open_cassette(&file).map_err(|fault| fault.fix("name a new file, or a cassette that is to go on"))?;
        self.cassettes.writers.lock().insert((pid, None), writer);
        Ok(self.ledger.record(CassetteStarted { pid, task: None, file: file.display().to_string() }).await?)
    }

    /// A replay of this task keeps the pauses that were recorded, or no longer does.
    pub fn keep_pauses(&self, of: TaskId, keep: bool) {
        let mut timed = self.cassettes.timed.lock();
        if keep {
            timed.insert(of)
        } else {
            timed.remove(&of)
        };
    }

    /// Refuses a task whose recorded traffic cannot be read.
    pub fn check_cassette(&self, file: &str) -> Result<(), Stop> {
        self.read_cassette(&self.folder.join(file)).map(drop)
    }

    /// Reads a cassette of a task, or one in a file.
    pub fn cassette(&self, name: &str) -> Result<CassetteView, Stop> {
        let path = if name.contains('/') { PathBuf::from(name) } else { self.folder.join(format!("{name}.jsonl")) };
        let (player, bytes) = aside(|| (self.read_cassette(&path), file_bytes(&path)));
        let player = player?;
        let exchanges = player.contents().map(|one| ExchangeView {
            n: one.n,
            dialect: one.dialect.name().to_owned(),
            path: one.path.to_owned(),
            model: one.model.unwrap_or_default().to_owned(),
            status: one.status,
            bytes: one.bytes as u64,
            ms: one.ms,
            complete: one.complete,
        });
        Ok(CassetteView { name: name.to_owned(), bytes, exchanges: exchanges.collect(), torn: player.torn, path, broken: None })
    }

    /// The cassettes under `$SKEP_HOME`.
    pub fn cassettes(&self) -> Result<Vec<CassetteView>, Stop> {
        let folder = &self.folder;
        let list = || {
            let entries = std::fs::read_dir(folder)?;
            let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".jsonl").map(str::to_owned));
            Ok(names.collect::<Vec<String>>())
        };
        let mut names = aside(list).map_err(|error: std::io::Error| Fault::io("list", folder, error))?;
        names.sort_by_key(|name| (name.len(), name.clone()));
        // One that can't be read hides none of the others.
        let view = |name: &String| match self.cassette(name) {
            Err(Stop::Refused(refusal)) => {
                let path = folder.join(format!("{name}.jsonl"));
                let bytes = aside(|| file_bytes(&path));
                Ok(CassetteView { name: name.clone(), path, bytes, exchanges: Vec::new(), torn: 0, broken: Some(refusal.reason) })
            }
            found => found,
        };
        names.iter().map(view).collect()
    }

    fn read_cassette(&self, path: &Path) -> Result<Player, Stop> {
        let bad = |why: String| {
            Refusal::new(Code::BadInput, format!("`{}` is no cassette: {why}", path.display()))
                .hint("record it again")
                .remedy(world::Remedy::RecordTask)
        };
        let text = aside(|| gateway::cassette::text(path)).map_err(|error| match error.kind() {
            std::io::ErrorKind::InvalidData => bad(error.to_string()),
            std::io::ErrorKind::NotFound => Refusal::new(Code::NotFound, format!("there is no cassette `{}`", path.display()))
                .remedy(world::Remedy::List { what: world::Listing::Cassettes }),
            _ => Refusal::new(Code::NotFound, format!("the cassette `{}` cannot be read: {error}", path.display()))
                .remedy(world::Remedy::List { what: world::Listing::Cassettes }),
        })?;
        Ok(Player::read(&text, self.redact()).map_err(|error| bad(error.to_string()))?)
    }
}
