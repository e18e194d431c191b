//! What the kernel's own runs of the tests built, for its next ones: one read-only layer for each zone.
//!
//! Only a run on the project as it is, without a task's changes, adds to it; every run has it beneath a layer of its own that is thrown away.
//! **Invariant.** A layer that is in use is never changed, only replaced by another and removed when nobody uses it any more. It appears whole, by
//! one rename, or not at all; what a crash left half-made is removed at the next boot. It is used only over a project that holds beneath it
//! exactly what it held when the layer was made.

use crate::Rooms;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;
use workspace::build_layer::{covered_state, keep_ignored, underlay};
use world::ZoneId;
use world::limits::{BUILD_AGE_MS_MAX, BUILD_LAYER_BYTES_MAX, BUILD_LAYER_FILES_MAX, BUILD_ZONES_MAX};

/// In the kernel's home.
const BUILDS: &str = "builds";
const LAYER: &str = "layer";
const ABOUT: &str = "about.json";
/// How the name of a folder begins until it is whole.
const UNFINISHED: &str = "new-";

/// What is known of a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct AboutBuild {
    /// What was run, by a hash: another command begins anew.
    key: String,
    /// When it was last made from nothing.
    began_ms: i64,
    roots: BTreeSet<PathBuf>,
    /// What the project held beneath it.
    covered: String,
}

/// One state of a zone's builds.
#[derive(Debug)]
struct BuildGeneration {
    folder: PathBuf,
    about: AboutBuild,
    is_replaced: AtomicBool,
}

impl Drop for BuildGeneration {
    fn drop(&mut self) {
        if self.is_replaced.load(Ordering::Acquire) {
            discard(&self.folder);
        }
    }
}

fn discard(folder: &Path) {
    if let Err(error) = sandbox::remove(folder) {
        world::log!("skep: builds were left behind in `{}`: {error}", folder.display());
    }
}

/// Builds that a room uses; they stay as long as this does.
#[derive(Clone, Debug)]
pub struct UsedBuilds(Arc<BuildGeneration>);

impl UsedBuilds {
    /// What goes beneath the room's own layer.
    pub fn layer(&self) -> PathBuf {
        self.0.folder.join(LAYER)
    }
}

/// The builds of all zones.
#[derive(Debug, Default)]
pub(crate) struct ZoneBuilds {
    known: parking_lot::Mutex<BTreeMap<ZoneId, Arc<BuildGeneration>>>,
    /// The last number that a folder has.
    last: AtomicU64,
}

/// A run whose builds may be kept.
#[derive(Clone, Copy)]
pub struct BuildRun<'a> {
    pub zone: ZoneId,
    pub project: &'a Path,
    /// Names what was run.
    pub key: &'a str,
    pub began: SystemTime,
    pub moments: &'a dyn BuildMoments,
}

/// Hears how far builds are on their way to be kept, so that a test can end the kernel there.
pub trait BuildMoments: Send + Sync {
    fn reached(&self, moment: u64);
}

impl Rooms {
    fn builds_of(&self, zone: ZoneId) -> PathBuf {
        self.home.join(BUILDS).join(zone.to_string())
    }

    /// The builds of a zone, if there are any that fit the project as it is now. Blocks.
    pub fn use_builds(&self, run: &BuildRun<'_>) -> Option<UsedBuilds> {
        let generation = self.builds.known.lock().get(&run.zone).cloned()?;
        let BuildGeneration { folder, about, .. } = &*generation;
        let is_young = (0..BUILD_AGE_MS_MAX).contains(&(ms_of(run.began) - about.began_ms));
        let state = covered_state(&folder.join(LAYER), run.project, &about.roots);
        let fits = about.key == run.key && is_young && state.is_ok_and(|state| state.digest == about.covered);
        if !fits {
            self.drop_builds(run.zone);
            return None;
        }
        // What is used last goes last.
        let touched = std::fs::File::open(folder.parent().unwrap_or(folder.as_path())).and_then(|folder| folder.set_modified(run.began));
        if let Err(error) = touched {
            world::log!("skep: when builds were used last is not noted: {error}");
        }
        Some(UsedBuilds(generation))
    }

    /// Keeps what a run on the project as it is built, from the upper layer of its room, which is closed. Blocks. `used` lay beneath it.
    pub fn keep_builds(&self, run: &BuildRun<'_>, upper: &Path, ignored: &BTreeSet<String>, except: &[&str], used: Option<&UsedBuilds>) {
        let number = self.builds.last.fetch_add(1, Ordering::Relaxed) + 1;
        let unfinished = self.builds_of(run.zone).join(format!("{UNFINISHED}{number}"));
        let kept = keep_ignored(upper, ignored, except).and_then(|roots| match roots.is_empty() {
            true => Ok(()),
            false => self.try_keep(run, upper, roots, used, number, &unfinished),
        });
        if let Err(error) = kept {
            world::log!("skep: what the tests of {} built is not kept: {error}", run.zone);
            discard(&unfinished);
        }
    }

    fn try_keep(
        &self,
        run: &BuildRun<'_>,
        upper: &Path,
        mut roots: BTreeSet<PathBuf>,
        used: Option<&UsedBuilds>,
        number: u64,
        unfinished: &Path,
    ) -> io::Result<()> {
        let layer = unfinished.join(LAYER);
        std::fs::create_dir_all(unfinished)?;
        run.moments.reached(0);
        std::fs::rename(upper, &layer)?;
        run.moments.reached(1);
        let mut began_ms = ms_of(run.began);
        if let Some(UsedBuilds(older)) = used {
            underlay(&older.folder.join(LAYER), &layer)?;
            roots.extend(older.about.roots.iter().cloned());
            began_ms = older.about.began_ms;
        }
        run.moments.reached(2);
        let held = sandbox::measure(&layer);
        let covered = covered_state(&layer, run.project, &roots)?;
        let is_too_much = held.bytes > BUILD_LAYER_BYTES_MAX || held.files > BUILD_LAYER_FILES_MAX;
        // Somebody built in the project meanwhile: which of it the run saw, nobody knows.
        let is_mixed = covered.changed_us >= ms_of(run.began).saturating_mul(1_000);
        if is_too_much || is_mixed {
            self.drop_builds(run.zone);
            return sandbox::remove(unfinished);
        }
        let about = AboutBuild { key: run.key.to_owned(), began_ms, roots, covered: covered.digest };
        std::fs::write(unfinished.join(ABOUT), serde_json::to_vec(&about)?)?;
        // After a loss of power a name without its content would be taken for a build.
        rustix::fs::syncfs(std::fs::File::open(unfinished)?)?;
        run.moments.reached(3);
        let folder = self.builds_of(run.zone).join(number.to_string());
        std::fs::rename(unfinished, &folder)?;
        run.moments.reached(4);
        let generation = Arc::new(BuildGeneration { folder, about, is_replaced: AtomicBool::new(false) });
        let mut gone = Vec::new();
        {
            let mut known = self.builds.known.lock();
            gone.extend(known.insert(run.zone, generation));
            while known.len() > BUILD_ZONES_MAX {
                let Some(oldest) = oldest(&known, run.zone) else { break };
                gone.extend(known.remove(&oldest));
            }
        }
        gone.iter().for_each(|older| older.is_replaced.store(true, Ordering::Release));
        run.moments.reached(5);
        Ok(())
    }

    /// Forgets what was built in a zone; the next run begins from nothing.
    pub fn drop_builds(&self, zone: ZoneId) {
        let gone = self.builds.known.lock().remove(&zone);
        if let Some(generation) = gone {
            generation.is_replaced.store(true, Ordering::Release);
        }
    }

    /// Finds the builds that an earlier kernel left, and removes what is none, or of a zone that is gone. Nothing runs yet. Blocks.
    pub fn find_builds(&self, is_zone: impl Fn(ZoneId) -> bool) -> io::Result<()> {
        let top = self.home.join(BUILDS);
        let (mut known, mut last) = (BTreeMap::new(), 0);
        for folder in listed(&top)? {
            let zone = folder.file_name().and_then(|name| name.to_str()?.parse::<ZoneId>().ok()).filter(|zone| is_zone(*zone));
            let mut newest: Option<(u64, AboutBuild, PathBuf)> = None;
            for inner in listed(&folder)? {
                let number = inner.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
                let about = std::fs::read(inner.join(ABOUT)).ok().and_then(|bytes| serde_json::from_slice::<AboutBuild>(&bytes).ok());
                let found = zone.and(number).zip(about);
                let is_newer = found.as_ref().is_some_and(|(number, _)| newest.as_ref().is_none_or(|(old, ..)| number > old));
                let out = match found {
                    Some((number, about)) if is_newer => newest.replace((number, about, inner)).map(|(_, _, old)| old),
                    _ => Some(inner),
                };
                out.map_or(Ok(()), |out| sandbox::remove(&out))?;
            }
            match (zone, newest) {
                (Some(zone), Some((number, about, folder))) => {
                    last = last.max(number);
                    known.insert(zone, Arc::new(BuildGeneration { folder, about, is_replaced: AtomicBool::new(false) }));
                }
                _ => sandbox::remove(&folder)?,
            }
        }
        self.builds.last.store(last, Ordering::Relaxed);
        *self.builds.known.lock() = known;
        Ok(())
    }
}

/// The zone whose builds were used longest ago.
fn oldest(known: &BTreeMap<ZoneId, Arc<BuildGeneration>>, except: ZoneId) -> Option<ZoneId> {
    let used = |generation: &BuildGeneration| generation.folder.parent()?.metadata().and_then(|found| found.modified()).ok();
    known.iter().filter(|(zone, _)| **zone != except).min_by_key(|(_, generation)| used(generation)).map(|(zone, _)| *zone)
}

fn listed(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match std::fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn ms_of(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
