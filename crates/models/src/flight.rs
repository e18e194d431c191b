//! Requests on their way: whose they are, how to stop them, and that they left.
//!
//! **Invariant.** A request is on the list from its admission until its end is on record. One that leaves is noted in a file first; a write
//! outlives the process that made it, so the kernel after a crash knows which requests had left, though none of them waited for the disk.
//! After a crash of the machine it does not, and takes everything that was set aside for spent until somebody knows better.

use crate::Models;
use gateway::{StopCause, StopHandle, StopSignal};
use ledger::{aside, boot_id};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Notify;
use world::budget::crash::{Flight, Left};
use world::{CallId, Ending, Pid, TaskId};
use world::{Fault, FaultKind};

/// Bytes of the file from which it is written anew with what is still on its way.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// One request on its way, for whoever decides which to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InFlightRequest {
    pub pid: Pid,
    pub task: Option<TaskId>,
    /// The running call that it is part of.
    pub of: Option<CallId>,
    pub call: CallId,
}

#[derive(Default)]
struct List {
    next: u64,
    requests: BTreeMap<u64, (InFlightRequest, StopHandle)>,
    left: BTreeMap<u64, Flight>,
    /// What was cancelled: what it still asks for is stopped as it comes.
    cancelled: BTreeMap<RequestOwner, StopCause>,
}

/// Whose requests end together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestOwner {
    Task(TaskId),
    /// The running call that they are parts of, or one of them itself.
    Call(CallId),
    Process(Pid),
}

impl InFlightRequest {
    fn belongs_to(&self, whose: RequestOwner) -> bool {
        match whose {
            RequestOwner::Task(task) => self.task == Some(task),
            RequestOwner::Call(call) => self.of == Some(call) || self.call == call,
            RequestOwner::Process(pid) => self.pid == pid,
        }
    }
}

/// All requests on their way.
pub(crate) struct RequestsInFlight {
    list: Arc<Mutex<List>>,
    ended: Arc<Notify>,
    /// Written by whoever asks, beside its worker's other tasks: to hand it to a thread and be woken again took longer than the write.
    notes: Mutex<SentFile>,
}

/// One request's place on the list.
pub(crate) struct FlightEntry {
    nth: u64,
    list: Arc<Mutex<List>>,
    ended: Arc<Notify>,
}

impl Drop for FlightEntry {
    fn drop(&mut self) {
        self.list.lock().requests.remove(&self.nth);
        self.ended.notify_waiters();
    }
}

impl FlightEntry {
    /// Its end is on record. What is not stays noted as left.
    pub fn settled(&self) {
        self.list.lock().left.remove(&self.nth);
    }
}

impl RequestsInFlight {
    /// Says what the last kernel noted. Nothing may leave before [`RequestsInFlight::begin`].
    pub fn open(home: &Path, starts: u64) -> (RequestsInFlight, Left) {
        let path = home.join("run/sent");
        let left = read(&path, starts);
        let list = Arc::<Mutex<List>>::default();
        let notes = Mutex::new(SentFile { path, list: list.clone(), file: None });
        (RequestsInFlight { list, ended: Arc::default(), notes }, left)
    }

    /// Begins the file anew, once what it said before is on record.
    pub fn begin(&self, starts: u64) -> Result<(), Fault> {
        aside(|| self.notes.lock().begin(starts)).map_err(unnoted)
    }

    pub fn enter(&self, request: InFlightRequest) -> (FlightEntry, StopSignal) {
        let (stopper, stop) = StopSignal::new();
        let mut list = self.list.lock();
        list.next += 1;
        let nth = list.next;
        if let Some((_, why)) = list.cancelled.iter().find(|(whose, _)| request.belongs_to(**whose)) {
            stopper.stop(why.clone());
        }
        list.requests.insert(nth, (request, stopper));
        (FlightEntry { nth, list: self.list.clone(), ended: self.ended.clone() }, stop)
    }

    /// Notes that a request leaves. Done when the note outlives this process.
    pub fn leaves(&self, place: &FlightEntry, flight: Flight) -> Result<(), Fault> {
        let line = serde_json::to_string(&flight).map_err(|error| Fault::new(FaultKind::Bug, "a request cannot be noted", error))?;
        if self.list.lock().left.insert(place.nth, flight).is_some() {
            return Ok(());
        }
        aside(|| self.notes.lock().add(&line)).map_err(unnoted)
    }

    /// Everything that left and whose end is not on record.
    pub fn left(&self) -> Vec<Flight> {
        self.list.lock().left.values().cloned().collect()
    }

    /// Stops the requests that `which` names. Done when each of them is settled; the stop itself has happened when this returns.
    pub fn stop(&self, which: &dyn Fn(&InFlightRequest) -> bool, why: &StopCause) -> impl Future<Output = ()> + Send + use<> {
        let list = self.list.clone();
        let mut stopped = Vec::new();
        for (nth, (request, stopper)) in &list.lock().requests {
            if which(request) {
                stopper.stop(why.clone());
                stopped.push(*nth);
            }
        }
        let ended = self.ended.clone();
        async move {
            loop {
                let next = ended.notified();
                tokio::pin!(next);
                next.as_mut().enable();
                if !stopped.iter().any(|nth| list.lock().requests.contains_key(nth)) {
                    return;
                }
                next.await;
            }
        }
    }
}

impl Models {
    /// Is this call a request on its way?
    pub fn is_in_flight(&self, call: CallId) -> bool {
        self.flights.list.lock().requests.values().any(|(request, _)| request.call == call)
    }

    /// Stops the requests of what is cancelled, and those that it still makes before it is gone. They are stopped when this returns, and
    /// settled when the future is done.
    pub fn stop_requests_of(&self, whose: RequestOwner, why: &str) -> impl Future<Output = ()> + Send + use<> {
        let why = StopCause { ending: Ending::Cancelled, words: why.to_owned() };
        self.flights.list.lock().cancelled.insert(whose, why.clone());
        self.flights.stop(&|request| request.belongs_to(whose), &why)
    }

    /// Takes the stop of a task back that goes on: nothing of what was stopped is left then.
    pub fn resume_requests_of(&self, task: TaskId) {
        self.flights.list.lock().cancelled.remove(&RequestOwner::Task(task));
    }
}

/// The first line of the file: which kernel wrote it, and in which life of the machine.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    boot: String,
    starts: u64,
}

fn unnoted(error: io::Error) -> Fault {
    Fault::new(FaultKind::Io, "a request cannot be noted before it leaves", error)
}

/// The file of what left.
struct SentFile {
    path: PathBuf,
    list: Arc<Mutex<List>>,
    /// With the kernel's number and its bytes so far, once it has begun.
    file: Option<(File, u64, u64)>,
}

impl SentFile {
    /// A file of its own, with what is on its way now, in the place of the old one.
    fn begin(&mut self, starts: u64) -> io::Result<()> {
        let mut text = serde_json::to_string(&Head { boot: boot_id(), starts })? + "\n";
        for flight in self.list.lock().left.values() {
            text += &(serde_json::to_string(flight)? + "\n");
        }
        let new = self.path.with_extension("new");
        let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(&new, &self.path)?;
        self.file = Some((file, starts, text.len() as u64));
        Ok(())
    }

    fn add(&mut self, line: &str) -> io::Result<()> {
        let (file, starts, bytes) = self.file.as_mut().ok_or_else(|| io::Error::other("it has not begun"))?;
        if *bytes > FILE_BYTES_MAX {
            let starts = *starts;
            // INVARIANT: the new file has this request too; it was put on the list before it was noted.
            return self.begin(starts);
        }
        file.write_all(format!("{line}\n").as_bytes())?;
        *bytes += line.len() as u64 + 1;
        Ok(())
    }
}

/// What the last kernel noted, if it was the last one in this life of the machine and wrote what we can read. A line that was cut off is of
/// a request that did not leave.
fn read(path: &Path, starts: u64) -> Left {
    let Ok(text) = std::fs::read_to_string(path) else { return Left::Unknown };
    let (whole, _) = text.rsplit_once('\n').unwrap_or_default();
    let mut lines = whole.lines();
    let head = lines.next().and_then(|line| serde_json::from_str::<Head>(line).ok());
    let boot = boot_id();
    if boot.is_empty() || head != Some(Head { boot, starts }) {
        return Left::Unknown;
    }
    match lines.map(serde_json::from_str).collect() {
        Ok(flights) => Left::Known(flights),
        Err(_) => Left::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(call: u64) -> Flight {
        let text = |word: &str| word.to_owned();
        Flight {
            call: CallId(call),
            pid: Pid(3),
            task: None,
            provider: text("p"),
            model: text("m"),
            tier: text("t"),
            tokens: 5,
            micros: 7,
            lease: None,
        }
    }

    fn request(call: u64) -> InFlightRequest {
        InFlightRequest { pid: Pid(3), task: None, of: None, call: CallId(call) }
    }

    #[tokio::test]
    async fn what_left_is_known_to_the_next_kernel_of_this_life_of_the_machine_and_to_no_other() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("run")).unwrap();
        let (flights, left) = RequestsInFlight::open(home.path(), 0);
        assert_eq!(left, Left::Unknown, "nobody wrote anything");
        let (one, _stop) = flights.enter(request(1));
        assert!(flights.leaves(&one, flight(1)).is_err(), "nothing leaves before the file has begun");
        one.settled();
        flights.begin(1).unwrap();
        flights.leaves(&one, flight(1)).unwrap();
        flights.leaves(&one, flight(1)).unwrap();
        let (two, _stop) = flights.enter(request(2));
        let read = |starts| RequestsInFlight::open(home.path(), starts).1;
        assert_eq!(read(1), Left::Known(vec![flight(1)]), "the second did not leave, and a second try is no second request");
        flights.leaves(&two, flight(2)).unwrap();
        assert_eq!(read(1), Left::Known(vec![flight(1), flight(2)]));
        assert_eq!(read(2), Left::Unknown, "another kernel ran since");
        let path = home.path().join("run/sent");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 3]).unwrap();
        assert_eq!(read(1), Left::Known(vec![flight(1)]), "a line that is cut off was not waited for");
        std::fs::write(&path, text.replace(&boot_id(), "another")).unwrap();
        assert_eq!(read(1), Left::Unknown, "the machine went down");
        std::fs::write(&path, text.replace("\"pid\"", "\"dip\"")).unwrap();
        assert_eq!(read(1), Left::Unknown, "what we cannot read");
    }

    #[tokio::test]
    async fn a_stop_is_over_when_each_that_it_names_has_settled() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("run")).unwrap();
        let (flights, _) = RequestsInFlight::open(home.path(), 0);
        let ((one, _), (_two, _)) = (flights.enter(request(1)), flights.enter(request(2)));
        let why = StopCause { ending: Ending::Cancelled, words: "no".into() };
        flights.stop(&|request| request.call == CallId(9), &why).await;
        let stopped = tokio::spawn(flights.stop(&|request| request.call == CallId(1), &why));
        drop(one);
        stopped.await.unwrap();
    }

    #[tokio::test]
    async fn a_request_that_comes_after_its_task_was_cancelled_is_stopped_too() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join("run")).unwrap();
        let (flights, _) = RequestsInFlight::open(home.path(), 0);
        let of = |task| InFlightRequest { task: Some(TaskId(task)), ..request(1) };
        let why = StopCause { ending: Ending::Cancelled, words: "no".into() };
        flights.list.lock().cancelled.insert(RequestOwner::Task(TaskId(1)), why);
        let stopped = |task| format!("{:?}", flights.enter(of(task)).1).contains("Cancelled");
        assert_eq!((stopped(1), stopped(2)), (true, false));
    }
}
