//! A session that is worked on: what stays the same while that lasts, and how it is recorded.

use crate::SessionHost;
use ledger::Urgency;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tool::RunMode;
use world::event::LimitExceeded;
use world::{Code, Event, Fault, Pid, Refusal, Session, SessionMode, SessionTerms, Stop, Task, TaskId, ZoneId};

#[derive(Clone)]
pub(crate) struct SessionWork {
    pub host: Arc<dyn SessionHost>,
    pub id: TaskId,
    pub pid: Pid,
    pub zone: ZoneId,
    pub terms: Arc<SessionTerms>,
}

impl SessionWork {
    pub fn of(host: Arc<dyn SessionHost>, id: TaskId) -> Result<SessionWork, Stop> {
        let task = host.ledger().task(id)?;
        let session = task.session.ok_or_else(|| no_session(id))?;
        Ok(SessionWork { id, pid: task.pid, zone: task.zone, terms: Arc::new(session.terms), host })
    }

    /// The task as it is now. It holds every step that has begun: not for each of them.
    pub fn task(&self) -> Result<Task, Stop> {
        self.host.ledger().task(self.id)
    }

    /// Reads what is known of the session now.
    pub fn look<T>(&self, read: impl FnOnce(&Task, &Session) -> T) -> Result<T, Stop> {
        let found = self.host.ledger().look(|world| {
            let task = world.tasks.get(&self.id)?;
            Some(read(task, task.session.as_deref()?))
        });
        Ok(found.ok_or_else(|| no_session(self.id))?)
    }

    /// Records what happened and waits for the disk.
    pub async fn record(&self, events: Vec<Event>) -> Result<(), Fault> {
        self.host.ledger().commit(|_, _| (events, ()))?.durable().await
    }

    /// Records what begins and ends of steps, before whatever follows. Nobody waits for the disk: what a step does waits for its own records, which stand behind these.
    pub fn note(&self, events: Vec<Event>) -> Result<(), Fault> {
        let pending = self.host.ledger().commit_late(|_, _| ((events, ()), Urgency::Held))?;
        drop(pending.ahead());
        Ok(())
    }

    pub fn run_mode(&self) -> RunMode {
        match self.terms.mode {
            SessionMode::Live => RunMode::Live,
            SessionMode::DryRun => RunMode::DryRun,
            SessionMode::Mock => RunMode::Mock,
        }
    }

    /// How long it may still be worked on; `None` is no limit.
    pub fn time_left(&self) -> Result<Option<Duration>, Stop> {
        let Some(max_ms) = self.terms.limits.max_duration_ms else { return Ok(None) };
        let used_ms = self.worked_ms()?;
        Ok(Some(Duration::from_millis(max_ms.saturating_sub(used_ms))))
    }

    /// In all its life, whoever worked on it: while it waits for a person or for somebody who resumes it, its time stands still.
    fn worked_ms(&self) -> Result<u64, Stop> {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now_ms = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
        self.look(|task, session| {
            let since = task.running_since_ms.map_or(0, |since_ms| u64::try_from(now_ms.saturating_sub(since_ms)).unwrap_or(0));
            session.worked_ms.saturating_add(since)
        })
    }

    /// The limit that is reached: what its records and its reason say.
    pub fn exceeded(&self, limit: &str, used: u64, max: u64) -> (Event, String) {
        let event = LimitExceeded { pid: self.pid, task: Some(self.id), limit: limit.to_owned(), used, max };
        (event.into(), format!("its limit `{limit}` is reached: {used} of {max}"))
    }

    /// The same of the time that it may take.
    pub fn exceeded_duration(&self) -> Result<(Event, String), Stop> {
        let max = self.terms.limits.max_duration_ms.unwrap_or_default();
        let (event, _) = self.exceeded("max_duration_ms", self.worked_ms()?, max);
        Ok((event, format!("its time is over: it may take {max} ms")))
    }

    /// What its requests to models used until now, and those of its parts: tokens, and millionths of a dollar.
    pub fn spent(&self) -> (u64, u64) {
        self.host.ledger().look(|world| {
            let is_part =
                |id: &TaskId| world.tasks.get(id).and_then(|task| task.session.as_deref()).is_some_and(|part| part.of == Some(self.id));
            let used = world.usage_by_task().into_iter().filter(|(id, _)| *id == self.id || is_part(id));
            used.fold((0, 0), |(tokens, micros), (_, usage)| (tokens + usage.totals.tokens(), micros + usage.totals.micros))
        })
    }
}

fn no_session(id: TaskId) -> Refusal {
    Refusal::new(Code::WrongState, format!("{id} is no session"))
}
