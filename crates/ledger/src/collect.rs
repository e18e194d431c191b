//! Collects blobs whose work is dropped or whose retention has ended.
//!
//! **Invariant.** What the present needs stays, however old: policies, unfinished work with its base and its brain's memory, proposals, and
//! merges that can be taken back. What goes is on record before its key is destroyed, so verification tells it from a loss. A blob that
//! somebody kept again meanwhile stays.

mod named;

use crate::aside;
use crate::ledger::blob_fault;
use crate::{Ledger, forget};
use journal::KeptBlob;
use named::{BlobRole, NamedByRecord, NamedByRecords};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{Mutex, Notify, RwLock, RwLockReadGuard};
use world::event::WorkDropped;
use world::{Event, KeptWork, Merge, MergeId, MergeState, Task, TaskId, TaskState, World, ZoneId, limits};
use world::{Fault, FaultKind, Stop};

/// How often the kernel looks for what is too old.
const EVERY: Duration = Duration::from_secs(6 * 3600);
/// Why a blob goes.
const DROPPED: &str = "its work was dropped";
const OLD: &str = "its work ended 30 days ago";
const SURPLUS: &str = "a hundred newer transcripts of its repository and branch are kept";
const MUCH: &str = "more than 10 GiB are kept, and its work ended first";

/// When kept work goes by itself, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptDeadline {
    pub at_ms: i64,
    pub reason: &'static str,
}

/// The kept work of each ended task goes when its time is over; or, where it and what ended after it are too much together, three days after
/// they came to be that. So a person is always told before.
fn deadlines<'a>(tasks: impl Iterator<Item = &'a Task>, retention: &Retention) -> BTreeMap<TaskId, KeptDeadline> {
    let mut kept: Vec<(i64, &KeptWork, TaskId)> =
        tasks.filter_map(|task| Some((task.ended_ms.filter(|_| task.state.ended())?, task.kept.as_ref()?, task.id))).collect();
    kept.sort_by_key(|(ended_ms, _, id)| (*ended_ms, *id));
    let time_ms = i64::try_from(retention.time.as_millis()).unwrap_or(i64::MAX);
    let told_ms = i64::try_from(limits::RETENTION_TOLD_MS).unwrap_or(i64::MAX).min(time_ms);
    let is_much = kept.iter().map(|(_, kept, _)| kept.bytes).fold(0_u64, u64::saturating_add) > retention.bytes_max;
    let mut found = BTreeMap::new();
    for (at, (ended_ms, _, id)) in kept.iter().enumerate() {
        let mut later: Vec<&KeptWork> = kept[at..].iter().filter(|_| is_much).map(|(_, kept, _)| *kept).collect();
        later.sort_by_key(|kept| kept.since_ms);
        let mut bytes = 0_u64;
        let over_ms = later.iter().find_map(|kept| {
            bytes = bytes.saturating_add(kept.bytes);
            (bytes > retention.bytes_max).then_some(kept.since_ms)
        });
        let old = KeptDeadline { at_ms: ended_ms.saturating_add(time_ms), reason: OLD };
        let much = over_ms.map(|over_ms| KeptDeadline { at_ms: over_ms.saturating_add(told_ms), reason: MUCH });
        found.insert(*id, much.filter(|much| much.at_ms < old.at_ms).unwrap_or(old));
    }
    found
}

/// How long what is kept.
#[derive(Clone, Copy, Debug)]
pub struct Retention {
    /// How long a blob is left alone after it was kept.
    pub grace: Duration,
    /// How long after its end a task's work is kept.
    pub time: Duration,
    /// Bytes of all blobs; beyond it what ended first goes sooner.
    pub bytes_max: u64,
}

/// Which blobs somebody needs.
#[derive(Debug, Default)]
struct Needs {
    /// Whatever their age.
    always: HashSet<String>,
    /// Ended tasks, each with the time of its end and what it named.
    ended: Vec<(i64, HashSet<String>)>,
    /// Contents of changes that nobody will take any more.
    dropped: HashSet<String>,
    /// Transcripts that are more than are kept.
    surplus: HashSet<String>,
}

/// What one ended task's brain wrote.
struct EndedTranscript {
    zone: ZoneId,
    ended_ms: i64,
    blobs: HashSet<String>,
}

impl Needs {
    /// Of each zone the newest transcripts are needed as long as their work is, and the others not at all: what ended first goes first.
    fn add_transcripts(&mut self, mut transcripts: Vec<EndedTranscript>) {
        transcripts.sort_by_key(|transcript| std::cmp::Reverse(transcript.ended_ms));
        let mut counts: BTreeMap<ZoneId, usize> = BTreeMap::new();
        for EndedTranscript { zone, ended_ms, blobs } in transcripts.into_iter().filter(|transcript| !transcript.blobs.is_empty()) {
            let count = counts.entry(zone).or_default();
            *count += 1;
            match *count <= limits::TRANSCRIPTS_MAX {
                true => self.ended.push((ended_ms, blobs)),
                false => self.surplus.extend(blobs),
            }
        }
    }
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
    retention: Retention,
}

impl BlobCollector {
    pub fn new(ledger: Arc<Ledger>, retention: Retention) -> BlobCollector {
        BlobCollector { ledger, keeping: RwLock::default(), collecting: Mutex::default(), dropped: Arc::default(), retention }
    }

    /// When the kept work of each ended task goes by itself.
    pub fn deadlines(&self, world: &World) -> BTreeMap<TaskId, KeptDeadline> {
        deadlines(world.tasks.values(), &self.retention)
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
        let (bell, grace) = (self.dropped.clone(), self.retention.grace);
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
        self.expire().await?;
        let now = SystemTime::now();
        let untouched = now.checked_sub(self.retention.grace).unwrap_or(now);
        let going = aside(|| {
            let all = self.ledger.journal().blobs().list().map_err(blob_fault)?;
            Ok::<_, Fault>(plan(&all, &self.needs()?, now, untouched, &self.retention))
        })?;
        let mut count = 0;
        for (reason, names) in going {
            count += names.len();
            self.destroy(names, reason, "kernel", Some(untouched)).await?;
        }
        Ok(count)
    }

    /// Records that kept work is gone whose time is over, before any of it goes.
    async fn expire(&self) -> Result<(), Fault> {
        let now_ms = ms(SystemTime::now());
        let pending = self.ledger.commit(|world, _| {
            let over = self.deadlines(world).into_iter().filter(|(_, deadline)| deadline.at_ms <= now_ms);
            let dropped = over.filter_map(|(id, deadline)| {
                let task = world.tasks.get(&id)?;
                let (by, reason) = ("kernel".to_owned(), deadline.reason.to_owned());
                Some(WorkDropped { pid: task.pid, task: Some(id), by, reason }.into())
            });
            (dropped.collect::<Vec<Event>>(), ())
        })?;
        pending.durable().await
    }

    fn needs(&self) -> Result<Needs, Fault> {
        let (tasks, merges): (Vec<Task>, Vec<Merge>) =
            self.ledger.look(|world| (world.tasks.values().cloned().collect(), world.merges.values().cloned().collect()));
        let of_tree: HashSet<String> = self.ledger.look(|world| world.tree_blobs().map(|(_, blob)| blob.to_owned()).collect());
        let named = NamedByRecords::read(&self.ledger)?;
        let (mut needs, mut transcripts) = (Needs { always: named.policies, ..Needs::default() }, Vec::new());
        needs.always.extend(of_tree);
        for merge in &merges {
            // Lists of names: they are small, and whoever lists merges reads them.
            needs.always.extend([Some(&merge.frozen), merge.snapshot.as_ref()].into_iter().flatten().cloned());
            if !matches!(merge.state, MergeState::Rejected | MergeState::Undone) || merge.is_partly_undone() {
                needs.always.extend(self.listed(merge.snapshot.as_ref().unwrap_or(&merge.frozen))?);
            }
        }
        let rejected: HashSet<MergeId> = merges.iter().filter(|merge| merge.state == MergeState::Rejected).map(|merge| merge.id).collect();
        let replayed: HashSet<TaskId> = tasks.iter().filter(|task| !task.state.ended()).filter_map(|task| task.replays).collect();
        let is_open = |task: &Task| !task.state.ended() || replayed.contains(&task.id);
        for task in &tasks {
            let (mut kept, mut written) = (HashSet::new(), HashSet::new());
            for NamedByRecord { role, blobs } in named.tasks.get(&task.id).into_iter().flatten() {
                let blobs = blobs.iter().cloned();
                match role {
                    BlobRole::Plain => kept.extend(blobs),
                    BlobRole::Transcript => written.extend(blobs),
                    BlobRole::Kept => {
                        for blob in blobs {
                            let is_current = task.kept.as_ref().is_some_and(|now| now.blob == blob);
                            let names = if is_current { &mut kept } else { &mut needs.dropped };
                            names.extend(self.listed(&blob)?);
                            names.insert(blob);
                        }
                    }
                    BlobRole::List | BlobRole::Proposal(_) => {
                        let is_rejected = matches!(role, BlobRole::Proposal(merge) if rejected.contains(merge));
                        let is_dropped = matches!(role, BlobRole::Proposal(_)) && (is_rejected || task.state == TaskState::Cancelled);
                        for list in blobs {
                            let contents = if is_dropped { &mut needs.dropped } else { &mut kept };
                            contents.extend(self.listed(&list)?);
                            kept.insert(list);
                        }
                    }
                }
            }
            match task.ended_ms.filter(|_| !is_open(task)) {
                Some(ended_ms) => transcripts.push(EndedTranscript { zone: task.zone, ended_ms, blobs: written }),
                None => needs.always.extend(written),
            }
            // What is kept of a task is of no use without its conversation and its base.
            match task.ended_ms.filter(|_| !is_open(task) && task.kept.is_none()) {
                Some(ended_ms) => needs.ended.push((ended_ms, kept)),
                None => needs.always.extend(kept),
            }
        }
        needs.add_transcripts(transcripts);
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

fn ms(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Which blobs go, and why. Nothing goes that was kept, or kept again, at `untouched` or later.
fn plan(
    all: &[KeptBlob],
    needs: &Needs,
    now: SystemTime,
    untouched: SystemTime,
    retention: &Retention,
) -> Vec<(&'static str, Vec<String>)> {
    let bytes_max = retention.bytes_max;
    let oldest = now.checked_sub(retention.time).unwrap_or(SystemTime::UNIX_EPOCH);
    let time = |ms: i64| SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or(0));
    let mut ended: Vec<(SystemTime, &HashSet<String>)> = needs.ended.iter().map(|(ms, names)| (time(*ms), names)).collect();
    ended.retain(|(at, _)| *at > oldest);
    ended.sort_by_key(|(at, _)| *at);
    // Of each name the last that needs it, so that each blob is looked up once.
    let mut last_needs: HashMap<&str, usize> = HashMap::new();
    for (at, (_, names)) in ended.iter().enumerate() {
        last_needs.extend(names.iter().map(|name| (name.as_str(), at)));
    }
    // Needed by those that ended at this place or after it?
    let needed = |name: &str, from: usize| needs.always.contains(name) || last_needs.get(name).is_some_and(|last| *last >= from);
    let (mut dropped, mut surplus, mut old, mut left) = (Vec::new(), Vec::new(), Vec::new(), Vec::<&KeptBlob>::new());
    for blob in all {
        let may_go = blob.touched < untouched && !needed(&blob.name, 0);
        match () {
            () if may_go && needs.dropped.contains(&blob.name) => dropped.push(blob.name.clone()),
            () if may_go && needs.surplus.contains(&blob.name) => surplus.push(blob.name.clone()),
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
            let goes = bytes > bytes_max && blob.touched < untouched && !needed(&blob.name, from);
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
    [(DROPPED, dropped), (SURPLUS, surplus), (OLD, old), (MUCH, much)].into_iter().filter(|(_, names)| !names.is_empty()).collect()
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
        let grace = Duration::from_secs(60);
        let retention = Retention { grace, time: Duration::from_millis(limits::RETENTION_MS), bytes_max: max };
        plan(all, needs, now(), now() - grace, &retention)
    }

    #[test]
    fn what_somebody_needs_stays_and_the_rest_goes_with_its_time() {
        let all = [blob("policy", 900), blob("work", 40), blob("shared", 40), blob("lost", 40), blob("young", 20)];
        let needs =
            Needs { always: names(&["policy"]), ended: vec![ended(31, &["work", "shared"]), ended(29, &["shared"])], ..Needs::default() };
        assert_eq!(go(&all, &needs, u64::MAX), [(OLD, vec!["work".to_owned(), "lost".into()])]);
    }

    #[test]
    fn dropped_work_goes_at_once_unless_somebody_needs_it_too() {
        let all = [blob("mine", 1), blob("theirs", 1), blob("held", 1), KeptBlob { touched: now(), ..blob("again", 0) }];
        let dropped = names(&["mine", "theirs", "held", "again"]);
        let needs = Needs { always: names(&["held"]), ended: vec![ended(1, &["theirs"])], dropped, ..Needs::default() };
        assert_eq!(go(&all, &needs, u64::MAX), [(DROPPED, vec!["mine".to_owned()])]);
    }

    /// The newest hundred of each repository and branch stay for their time; of the others what ended first goes first.
    #[test]
    fn a_hundred_transcripts_of_each_zone_stay() {
        let one = |zone: u64, n: u64| EndedTranscript {
            zone: ZoneId(zone),
            ended_ms: i64::try_from((900 + n / 10) * DAY * 1000 + n).unwrap(),
            blobs: names(&[&format!("z{zone}-{n}")]),
        };
        let mut transcripts: Vec<_> = (0..102).map(|n| one(1, n)).chain((0..3).map(|n| one(2, n))).collect();
        // Whoever wrote nothing takes nobody's place.
        transcripts.extend((0..200).map(|n| EndedTranscript { zone: ZoneId(2), ended_ms: i64::MAX - n, blobs: HashSet::new() }));
        let mut needs = Needs { always: names(&["z1-1"]), ..Needs::default() };
        needs.add_transcripts(transcripts);
        assert_eq!((needs.ended.len(), &needs.surplus), (103, &names(&["z1-0", "z1-1"])));
        let all = [blob("z1-0", 2), blob("z1-1", 2), blob("z1-2", 2), blob("z1-101", 2), blob("z2-0", 2)];
        let long = Retention { grace: Duration::from_secs(60), time: Duration::from_secs(365 * DAY), bytes_max: u64::MAX };
        let going = plan(&all, &needs, now(), now() - long.grace, &long);
        assert_eq!(going, [(SURPLUS, vec!["z1-0".to_owned()])], "and what somebody needs for another reason stays");
    }

    #[test]
    fn over_the_bound_what_ended_first_goes_first() {
        let all = [blob("new", 1), blob("old", 3), blob("middle", 2), blob("orphan", 1), blob("policy", 9)];
        let tasks = || vec![ended(1, &["new"]), ended(3, &["old"]), ended(2, &["middle"])];
        let needs = Needs { always: names(&["policy"]), ended: tasks(), ..Needs::default() };
        assert_eq!(go(&all, &needs, 50), []);
        assert_eq!(go(&all, &needs, 40), [(MUCH, vec!["orphan".to_owned()])]);
        assert_eq!(go(&all, &needs, 20), [(MUCH, vec!["orphan".to_owned(), "old".into(), "middle".into()])]);
        assert_eq!(go(&all, &needs, 0), [(MUCH, vec!["orphan".to_owned(), "old".into(), "middle".into(), "new".into()])]);
    }

    /// An ended task with so many bytes kept, some days ago.
    fn kept(id: u64, ended_days: u64, kept_days: u64, bytes: u64) -> Task {
        let at = |days: u64| i64::try_from((1000 - days) * DAY * 1000).unwrap();
        let queued = serde_json::json!({"type": "task.queued", "payload": {"pid": 3, "task": format!("task-{id}"), "zone": "zone-1",
            "mode": "act", "prompt": "", "brain": "", "priority": 0, "calls_max": null, "original": null}});
        let mut world = World::default();
        world.apply(&serde_json::from_value(queued).unwrap(), 0);
        let mut task = world.tasks.pop_first().unwrap().1;
        (task.state, task.ended_ms) = (TaskState::Failed, Some(at(ended_days)));
        task.kept = Some(KeptWork { blob: String::new(), files: 1, bytes, left: 0, since_ms: at(kept_days) });
        task
    }

    #[test]
    fn kept_work_goes_after_its_time_or_three_days_after_it_became_too_much() {
        let retention = Retention { grace: Duration::ZERO, time: Duration::from_secs(30 * DAY), bytes_max: 100 };
        let in_days = |tasks: &[Task]| -> Vec<(u64, i64, &'static str)> {
            let found = deadlines(tasks.iter(), &retention).into_iter();
            found.map(|(id, deadline)| (id.0, (deadline.at_ms - ms(now())) / (DAY * 1000) as i64, deadline.reason)).collect()
        };
        let mut tasks = vec![kept(1, 20, 20, 60), kept(2, 10, 10, 40)];
        assert_eq!(in_days(&tasks), [(1, 10, OLD), (2, 20, OLD)]);
        // The third made it too much: what ended first goes, and its day does not move when still more comes.
        tasks.push(kept(3, 2, 2, 10));
        assert_eq!(in_days(&tasks), [(1, 1, MUCH), (2, 20, OLD), (3, 28, OLD)]);
        tasks.push(kept(4, 1, 1, 10));
        assert_eq!(in_days(&tasks), [(1, 1, MUCH), (2, 20, OLD), (3, 28, OLD), (4, 29, OLD)]);
        // One that waits to be retried has not ended.
        (tasks[0].state, tasks[0].ended_ms) = (TaskState::Stopped, None);
        assert_eq!(in_days(&tasks).len(), 3);
    }
}
