//! Collects blobs whose work is dropped or whose retention has ended.
//!
//! **Invariant.** What the present needs stays, however old: policies, unfinished work with its base and its brain's memory, proposals, and
//! merges that can be taken back. What goes is on record before its key is destroyed, so verification tells it from a loss. A blob that
//! somebody kept again meanwhile stays.

use crate::aside::aside;
use crate::ledger::{blob_fault, fault};
use crate::{Ledger, event_of, forget};
use journal::{Filter, KeptBlob};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{Mutex, Notify, RwLock, RwLockReadGuard};
use world::{BlobNames, Event, Merge, MergeState, Task, TaskState, limits};
use world::{Fault, FaultKind, Stop};

/// How often the kernel looks for what is too old.
const EVERY: Duration = Duration::from_secs(6 * 3600);
/// Records of a task that name blobs.
const KINDS: [&str; 7] =
    ["task.queued", "workspace.based", "brain.remembered", "call.finished", "merge.proposed", "merge.started", "merge.tested"];

/// Why a blob goes.
const DROPPED: &str = "its work was dropped";
const OLD: &str = "its work ended 30 days ago";
const MUCH: &str = "more than 10 GiB are kept, and its work ended first";

/// Which blobs somebody needs.
#[derive(Debug, Default)]
struct Needs {
    /// Whatever their age.
    always: HashSet<String>,
    /// Ended tasks, each with the time of its end and what it named.
    ended: Vec<(i64, HashSet<String>)>,
    /// Contents of changes that nobody will take any more.
    dropped: HashSet<String>,
}

/// What blobs hold, and who keeps or collects them.
pub struct BlobCollector {
    pub(crate) ledger: Arc<Ledger>,
    /// Read by whoever keeps many blobs before one record names them; blobs are collected only while nobody does.
    keeping: RwLock<()>,
    /// Held while blobs are collected.
    collecting: Mutex<()>,
    /// Rung when work may have been dropped.
    dropped: Arc<Notify>,
    /// How long a blob is left alone after it was kept.
    grace: Duration,
}

impl BlobCollector {
    pub fn new(ledger: Arc<Ledger>, grace: Duration) -> BlobCollector {
        BlobCollector { ledger, keeping: RwLock::default(), collecting: Mutex::default(), dropped: Arc::default(), grace }
    }

    /// Nothing is collected while this is held: for whoever keeps many blobs before one record names them.
    pub async fn hold(&self) -> RwLockReadGuard<'_, ()> {
        self.keeping.read().await
    }

    /// Some work was dropped: what it kept may go.
    pub fn work_dropped(&self) {
        self.dropped.notify_one();
    }

    /// Comes back when it is time to look: some work was dropped, or nobody looked for long. Holds nothing of the ledger meanwhile.
    pub fn due(&self) -> impl Future<Output = ()> + Send + use<> {
        let (bell, grace) = (self.dropped.clone(), self.grace);
        async move {
            // A bell that nobody rings in time is rung by the clock.
            let _ = tokio::time::timeout(EVERY, bell.notified()).await;
            // What was kept in its last moment is not old enough before.
            tokio::time::sleep(grace + Duration::from_secs(1)).await;
        }
    }

    /// Destroys the blobs that nobody needs any more, and says how many.
    pub async fn collect(&self) -> Result<usize, Stop> {
        let _one = self.collecting.lock().await;
        // Whoever keeps many blobs before one record names them comes first.
        let Ok(_alone) = self.keeping.try_write() else {
            self.dropped.notify_one();
            return Ok(0);
        };
        let now = SystemTime::now();
        let untouched = now.checked_sub(self.grace).unwrap_or(now);
        let going = aside(|| {
            let all = self.ledger.journal().blobs().list().map_err(blob_fault)?;
            Ok::<_, Fault>(plan(&all, &self.needs()?, now, untouched, limits::BLOB_BYTES_MAX))
        })?;
        let mut count = 0;
        for (reason, names) in going {
            count += names.len();
            self.destroy(names, reason, "kernel", Some(untouched)).await?;
        }
        Ok(count)
    }

    fn needs(&self) -> Result<Needs, Fault> {
        let (tasks, merges): (Vec<Task>, Vec<Merge>) =
            self.ledger.look(|world| (world.tasks.values().cloned().collect(), world.merges.values().cloned().collect()));
        let mut needs = Needs::default();
        for record in self.ledger.read(&Filter { kinds: vec!["policy.updated".into()], ..Filter::default() })? {
            needs.always.extend(BlobNames::of(&record.kind, record.payload().map_err(fault)?).kept);
        }
        for merge in &merges {
            // Lists of names: they are small, and whoever lists merges reads them.
            needs.always.extend([Some(&merge.frozen), merge.snapshot.as_ref()].into_iter().flatten().cloned());
            if !matches!(merge.state, MergeState::Rejected | MergeState::Undone) {
                needs.always.extend(self.listed(merge.snapshot.as_ref().unwrap_or(&merge.frozen))?);
            }
        }
        let is_open = |task: &Task| !task.state.ended() || tasks.iter().any(|other| other.replays == Some(task.id) && !other.state.ended());
        for task in &tasks {
            let mut kept = HashSet::new();
            for record in self.ledger.read(&Filter {
                task: Some(task.id.to_string()),
                kinds: KINDS.map(str::to_owned).to_vec(),
                ..Filter::default()
            })? {
                let names = BlobNames::of(&record.kind, record.payload().map_err(fault)?).kept;
                let event = event_of(&record)?;
                if matches!(event, Event::WorkspaceBased(_) | Event::MergeProposed(_) | Event::MergeStarted(_)) {
                    let of = match &event {
                        Event::MergeProposed(e) => merges.iter().find(|merge| merge.id == e.merge),
                        _ => None,
                    };
                    let is_dropped = task.state == TaskState::Cancelled || of.is_some_and(|merge| merge.state == MergeState::Rejected);
                    let contents = if matches!(event, Event::MergeProposed(_)) && is_dropped { &mut needs.dropped } else { &mut kept };
                    for list in &names {
                        contents.extend(self.listed(list)?);
                    }
                }
                kept.extend(names);
            }
            match task.ended_ms.filter(|_| !is_open(task)) {
                Some(ended_ms) => needs.ended.push((ended_ms, kept)),
                None => needs.always.extend(kept),
            }
        }
        Ok(needs)
    }

    /// The blobs that a list names; none where the list itself was forgotten.
    fn listed(&self, list: &str) -> Result<Vec<String>, Fault> {
        let Some(bytes) = self.ledger.blob_if_kept(list)? else { return Ok(Vec::new()) };
        let mut names = Vec::new();
        let value = serde_json::from_slice(&bytes).map_err(|error| Fault::new(FaultKind::Bug, "a list of blobs does not read", error))?;
        forget::named_in(&value, &mut names);
        Ok(names)
    }
}

/// Which blobs go, and why. Nothing goes that was kept, or kept again, at `untouched` or later.
fn plan(all: &[KeptBlob], needs: &Needs, now: SystemTime, untouched: SystemTime, bytes_max: u64) -> Vec<(&'static str, Vec<String>)> {
    let retention = Duration::from_millis(limits::RETENTION_MS);
    let oldest = now.checked_sub(retention).unwrap_or(SystemTime::UNIX_EPOCH);
    let time = |ms: i64| SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or(0));
    let mut ended: Vec<(SystemTime, &HashSet<String>)> = needs.ended.iter().map(|(ms, names)| (time(*ms), names)).collect();
    ended.retain(|(at, _)| *at > oldest);
    ended.sort_by_key(|(at, _)| *at);
    let needed = |name: &String, ended: &[(SystemTime, &HashSet<String>)]| {
        needs.always.contains(name) || ended.iter().any(|(_, names)| names.contains(name))
    };
    let (mut dropped, mut old, mut left): (Vec<String>, Vec<String>, Vec<&KeptBlob>) = (Vec::new(), Vec::new(), Vec::new());
    for blob in all {
        let may_go = blob.touched < untouched && !needed(&blob.name, &ended);
        match () {
            () if may_go && needs.dropped.contains(&blob.name) => dropped.push(blob.name.clone()),
            () if may_go && blob.touched <= oldest => old.push(blob.name.clone()),
            () => left.push(blob),
        }
    }
    // Over the bound: first what nobody names any more, then what ended first.
    let mut much = Vec::new();
    let mut bytes: u64 = left.iter().map(|blob| blob.bytes).sum();
    left.sort_by_key(|blob| blob.touched);
    let mut from = 0;
    while bytes > bytes_max {
        left.retain(|blob| {
            let goes = bytes > bytes_max && blob.touched < untouched && !needed(&blob.name, &ended[from..]);
            if goes {
                bytes -= blob.bytes;
                much.push(blob.name.clone());
            }
            !goes
        });
        if from == ended.len() {
            break;
        }
        from += 1;
    }
    [(DROPPED, dropped), (OLD, old), (MUCH, much)].into_iter().filter(|(_, names)| !names.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600;

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1000 * DAY)
    }

    fn ago(days: u64) -> SystemTime {
        now() - Duration::from_secs(days * DAY)
    }

    fn blob(name: &str, days: u64) -> KeptBlob {
        KeptBlob { name: name.into(), bytes: 10, touched: ago(days) }
    }

    fn names(some: &[&str]) -> HashSet<String> {
        some.iter().map(|name| (*name).to_owned()).collect()
    }

    fn ended(days: u64, some: &[&str]) -> (i64, HashSet<String>) {
        (i64::try_from((1000 - days) * DAY * 1000).unwrap(), names(some))
    }

    fn go(all: &[KeptBlob], needs: &Needs, max: u64) -> Vec<(&'static str, Vec<String>)> {
        plan(all, needs, now(), now() - Duration::from_secs(60), max)
    }

    #[test]
    fn what_somebody_needs_stays_and_the_rest_goes_with_its_time() {
        let all = [blob("policy", 900), blob("work", 40), blob("shared", 40), blob("lost", 40), blob("young", 20)];
        let needs =
            Needs { always: names(&["policy"]), ended: vec![ended(31, &["work", "shared"]), ended(29, &["shared"])], dropped: names(&[]) };
        assert_eq!(go(&all, &needs, u64::MAX), [(OLD, vec!["work".to_owned(), "lost".into()])]);
    }

    #[test]
    fn dropped_work_goes_at_once_unless_somebody_needs_it_too() {
        let all = [blob("mine", 1), blob("theirs", 1), blob("held", 1), KeptBlob { touched: now(), ..blob("again", 0) }];
        let dropped = names(&["mine", "theirs", "held", "again"]);
        let needs = Needs { always: names(&["held"]), ended: vec![ended(1, &["theirs"])], dropped };
        assert_eq!(go(&all, &needs, u64::MAX), [(DROPPED, vec!["mine".to_owned()])]);
    }

    #[test]
    fn over_the_bound_what_ended_first_goes_first() {
        let all = [blob("new", 1), blob("old", 3), blob("middle", 2), blob("orphan", 1), blob("policy", 9)];
        let tasks = || vec![ended(1, &["new"]), ended(3, &["old"]), ended(2, &["middle"])];
        let needs = Needs { always: names(&["policy"]), ended: tasks(), dropped: names(&[]) };
        assert_eq!(go(&all, &needs, 50), []);
        assert_eq!(go(&all, &needs, 40), [(MUCH, vec!["orphan".to_owned()])]);
        assert_eq!(go(&all, &needs, 20), [(MUCH, vec!["orphan".to_owned(), "old".into(), "middle".into()])]);
        assert_eq!(go(&all, &needs, 0), [(MUCH, vec!["orphan".to_owned(), "old".into(), "middle".into(), "new".into()])]);
    }
}
