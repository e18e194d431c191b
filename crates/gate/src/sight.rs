//! Which sight a process has of its project, remembered while policy, grants and bans stay the same.
//!
//! Rooms are masked before each job by the kernel, and the door refuses calls on masked paths by the same sight, so that a program in a room
//! and a tool of the kernel agree. **Invariant.** A change of policy, grant, ban or project counts for the next job that starts.

use crate::Gate;
use crate::call_facts::{ReaderFacts, Who};
use crate::policies::OperatorRooms;
use crate::zone::{Bundle, TrustedPolicy};
use parking_lot::Mutex;
use policy::ReadView;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use workspace::reader;
use workspace::{Hidden, MaskSet, READ, Sight, Walks};
use world::{Grant, Pid, Refusal, Stop, TaskId, UsedRoom, ZoneId};

/// What a sight was made of: as long as it is the same, so is the sight.
#[derive(Debug, PartialEq)]
struct SightKey {
    project: PathBuf,
    version: u64,
    extra: Vec<String>,
    readers: ReaderFacts,
}

impl SightKey {
    fn sight(&self, policy: &policy::Policy) -> Result<Sight, Refusal> {
        Sight::new(self.project.clone(), &self.extra, ReadView::new(policy, self.readers.lend()))
    }
}

/// What is remembered of projects and of who looks at them.
#[derive(Default)]
pub struct Masks {
    walks: Walks,
    /// The last ones with what each was made of, newest last.
    sights: Mutex<Vec<(SightKey, Arc<Sight>)>>,
    /// The same by when they were asked for, newest last: within such a moment they need not be made again to be compared.
    moments: Mutex<Vec<(SightMoment, Arc<Sight>)>>,
}

/// Who asks for a sight, and when: as long as nothing changes that could matter to any.
struct SightMoment {
    who: Who,
    rights: u64,
    rooms: Arc<OperatorRooms>,
}

impl SightMoment {
    fn is(&self, other: &SightMoment) -> bool {
        self.who == other.who && self.rights == other.rights && Arc::ptr_eq(&self.rooms, &other.rooms)
    }
}

/// What processes of the past would see if one policy were in force.
#[derive(Default)]
pub(crate) struct PastSights {
    masks: Masks,
    /// The rooms that there would be, for the operator's calls and for those of others.
    rooms: Mutex<BTreeMap<bool, Arc<[UsedRoom]>>>,
}

/// Sights that are kept: of a few processes in a few projects.
const SIGHTS_MAX: usize = 16;

impl Masks {
    fn remembered(&self, moment: &SightMoment) -> Option<Arc<Sight>> {
        self.moments.lock().iter().find(|(known, _)| known.is(moment)).map(|(_, sight)| Arc::clone(sight))
    }

    fn remember(&self, moment: SightMoment, sight: &Arc<Sight>) {
        let mut moments = self.moments.lock();
        moments.retain(|(known, _)| known.who != moment.who);
        if moments.len() >= SIGHTS_MAX {
            moments.remove(0);
        }
        moments.push((moment, Arc::clone(sight)));
    }

    fn sight(&self, made_of: SightKey, policy: &policy::Policy) -> Result<Arc<Sight>, Refusal> {
        let mut sights = self.sights.lock();
        if let Some(place) = sights.iter().position(|(known, _)| *known == made_of) {
            let known = sights.remove(place);
            let sight = Arc::clone(&known.1);
            sights.push(known);
            return Ok(sight);
        }
        let sight = Arc::new(made_of.sight(policy)?);
        if sights.len() >= SIGHTS_MAX {
            sights.remove(0);
        }
        sights.push((made_of, Arc::clone(&sight)));
        Ok(sight)
    }
}

impl Masks {
    /// What is to be masked in a room of this sight.
    pub async fn find(self: &Arc<Self>, sight: &Arc<Sight>) -> Result<Arc<MaskSet>, Stop> {
        let (masks, sight) = (Arc::clone(self), Arc::clone(sight));
        reader::bounded_walk(move || masks.walks.find(sight.project(), &sight)).await?
    }

    /// The pipes and devices of a project, which git must not open.
    pub async fn special_files(self: &Arc<Self>, project: &Path) -> Result<MaskSet, Stop> {
        let (masks, project) = (Arc::clone(self), project.to_owned());
        reader::bounded_walk(move || masks.walks.special(&project)).await?
    }

    /// Why a call may not touch an existing path by its innocent name: it is another name of a hidden file.
    pub async fn other_name(self: &Arc<Self>, sight: &Arc<Sight>, path: &str) -> Result<Option<Hidden>, Stop> {
        Ok(self.find(sight).await?.same.get(Path::new(path)).map(|of| Hidden::Same(of.clone())))
    }
}

impl Gate {
    /// The process that a task's room belongs to.
    pub fn owner(&self, task: TaskId) -> Result<Who, Stop> {
        self.ledger.look_at_task(task, |task| Who { pid: task.pid, zone: task.zone, task: Some(task.id) })
    }

    /// What a process may see; in a task, what both it and the task's own process may, who share the room.
    pub fn sight(&self, who: Who) -> Result<Arc<Sight>, Stop> {
        // INVARIANT: read before anything that a sight is made of, so that a change in between makes the moment an old one.
        let moment = SightMoment { who, rights: self.ledger.rights_version(), rooms: self.policies.operator_rooms() };
        if let Some(sight) = self.masks.remembered(&moment) {
            return Ok(sight);
        }
        let trusted = self.policies.in_force(who.zone)?;
        let sight = self.masks.sight(self.seen_by(who, &trusted)?, &trusted.policy)?;
        // A grant that runs out changes what is seen without any record.
        let runs_out = |grant: &Grant| grant.what.tool() == READ && grant.terms.until.is_some();
        if !self.ledger.look(|world| world.grants.values().any(runs_out)) {
            self.masks.remember(moment, &sight);
        }
        Ok(sight)
    }

    /// What the process of a command may see, that will be called `name` and be a child of this one: what both may.
    pub fn sight_of_job(&self, parent: Who, name: &str) -> Result<Arc<Sight>, Stop> {
        let trusted = self.policies.in_force(parent.zone)?;
        let mut made_of = self.seen_by(parent, &trusted)?;
        made_of.readers.add_job(name);
        Ok(self.masks.sight(made_of, &trusted.policy)?)
    }

    /// The same if these files were in force; equal ones among those that are known are made once.
    pub(crate) fn past_sight(&self, known: &PastSights, who: Who, proposed: &Arc<TrustedPolicy>) -> Result<Arc<Sight>, Stop> {
        let rooms = |by_operator| {
            let mut rooms = known.rooms.lock();
            if let Some(found) = rooms.get(&by_operator) {
                return Ok(Arc::clone(found));
            }
            let found: Arc<[UsedRoom]> = self.policies.usable_rooms(&self.tools, proposed, by_operator)?.into();
            rooms.insert(by_operator, Arc::clone(&found));
            Ok(found)
        };
        Ok(known.masks.sight(self.seen_from(who, proposed, rooms)?, &proposed.policy)?)
    }

    /// The same if these files were in force.
    pub fn proposed_sight(&self, who: Who, proposed: &Arc<TrustedPolicy>) -> Result<Sight, Stop> {
        Ok(self.seen_by(who, proposed)?.sight(&proposed.policy)?)
    }

    fn seen_by(&self, who: Who, trusted: &Arc<TrustedPolicy>) -> Result<SightKey, Stop> {
        self.seen_from(who, trusted, |by_operator| Ok(self.policies.usable_rooms(&self.tools, trusted, by_operator)?.into()))
    }

    /// The same with the rooms that `rooms` knows for the operator's calls, or for those of others.
    fn seen_from(
        &self,
        who: Who,
        trusted: &Arc<TrustedPolicy>,
        rooms: impl FnOnce(bool) -> Result<Arc<[UsedRoom]>, Stop>,
    ) -> Result<SightKey, Stop> {
        let (project, owner) = self.ledger.look(|world| {
            let owner = who.task.and_then(|task| world.tasks.get(&task)).map(|task| task.pid);
            (world.zones.get(&who.zone).map(|zone| PathBuf::from(&zone.path)).unwrap_or_default(), owner)
        });
        let mut whos = vec![who];
        whos.extend(owner.filter(|pid| *pid != who.pid).map(|pid| Who { pid, ..who }));
        let rooms = rooms(whos.iter().any(|who| who.pid == Pid::OPERATOR))?;
        let readers = self.readers(&whos, &rooms, trusted)?;
        Ok(SightKey { project, version: trusted.version, extra: trusted.config.mask.clone(), readers })
    }

    /// What the zone's process could see if these files were in force; `None` where nobody works there yet.
    pub fn sight_of_zone(&self, zone: ZoneId, bundle: &Bundle) -> Result<Option<Sight>, Stop> {
        let Some(pid) = self.ledger.look(|world| crate::first_worker(world, zone).map(|process| process.pid)) else { return Ok(None) };
        // What does not parse is told by the check itself.
        let Ok(proposed) = self.policies.proposed(zone, bundle) else { return Ok(None) };
        self.proposed_sight(Who { pid, zone, task: None }, &proposed).map(Some)
    }
}
