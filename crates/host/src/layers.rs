//! What a workspace leaves to the next of its process: what jobs wrote into shared caches, and the home of a vendor's client.
//!
//! Both lie in layers of the task's workspace. The next task of the same process in the same zone takes them over, caches within limits.
//! **Invariant.** A layer belongs to one workspace at a time, by rename; the rooms in which the kernel tests a merge begin with none.

use crate::Rooms;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use workspace::aside;
use world::limits::{CACHE_LAYER_BYTES_MAX, CACHE_LAYER_FILES_MAX, CACHE_LAYERS_MAX};
use world::{Pid, ZoneId};

/// The layer that holds the home of a vendor's client.
pub const HOME_LAYER: &str = "brain-home";
/// In a workspace's directory: what jobs wrote into caches.
const LAYERS: &str = "layers";

impl Rooms {
    fn kept_layers(&self, zone: ZoneId, pid: Pid) -> PathBuf {
        self.home.join("caches").join(format!("{zone}-{pid}"))
    }

    /// Gives a new workspace what the last one of its process left.
    pub fn take_layers(&self, zone: ZoneId, pid: Pid, work: &Path, waiting: impl FnOnce() -> Option<PathBuf>) {
        match aside(|| std::fs::rename(self.kept_layers(zone, pid), work.join(LAYERS))) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => world::log!("skep: caches of {zone} begin anew: {error}"),
            _ => {}
        }
        aside(|| self.take_brain_home(zone, pid, &work.join(LAYERS), waiting));
    }

    /// Keeps what a workspace that nothing runs in any more wrote into caches, if it is not too much.
    pub fn keep_layers(&self, zone: ZoneId, pid: Pid, work: &Path) {
        let layers = work.join(LAYERS);
        let kept = self.kept_layers(zone, pid);
        // A home is more than a cache: what lies in it is kept whatever its size.
        aside(|| self.keep_brain_home(zone, pid, &layers));
        let keep = || -> std::io::Result<()> {
            if !layers.is_dir() || kept.exists() {
                return Ok(());
            }
            let held = sandbox::measure(&layers);
            if held.bytes > CACHE_LAYER_BYTES_MAX || held.files > CACHE_LAYER_FILES_MAX {
                return Ok(());
            }
            let folder = kept.parent().unwrap_or(Path::new("."));
            std::fs::DirBuilder::new().recursive(true).create(folder)?;
            drop_oldest(folder, &self.held_layers.lock())?;
            std::fs::rename(&layers, &kept)
        };
        if let Err(error) = aside(keep) {
            world::log!("skep: what {pid} wrote into caches is dropped: {error}");
        }
    }

    /// Has the layers that a worker left stay, whoever else needs the place: a client that waits has them mounted.
    pub fn hold_layers(&self, zone: ZoneId, pid: Pid) {
        self.held_layers.lock().insert((pid, self.kept_layers(zone, pid)));
    }

    /// The worker's client waits no more.
    pub fn release_layers(&self, pid: Pid) {
        self.held_layers.lock().retain(|(held, _)| *held != pid);
    }

    fn kept_home(&self, zone: ZoneId, pid: Pid) -> PathBuf {
        self.home.join("brains").join(format!("{zone}-{pid}"))
    }

    /// Gives a workspace that is opened again the home that went on with another task meanwhile.
    pub fn find_brain_home(&self, zone: ZoneId, pid: Pid, work: &Path, waiting: impl FnOnce() -> Option<PathBuf>) {
        let layers = work.join(LAYERS);
        aside(|| {
            if !layers.join(HOME_LAYER).exists() {
                self.take_brain_home(zone, pid, &layers, waiting);
            }
        });
    }

    /// Gives a new workspace the home that its worker's client has, or that waits in the workspace of a task that nobody works on.
    fn take_brain_home(&self, zone: ZoneId, pid: Pid, layers: &Path, waiting: impl FnOnce() -> Option<PathBuf>) {
        let kept = self.kept_home(zone, pid);
        let from = if kept.is_dir() { kept } else { waiting().unwrap_or(kept) };
        let moved = std::fs::create_dir_all(layers).and_then(|()| std::fs::rename(from, layers.join(HOME_LAYER)));
        match moved {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => world::log!("skep: the brain of {pid} begins anew: {error}"),
            _ => {}
        }
    }

    fn keep_brain_home(&self, zone: ZoneId, pid: Pid, layers: &Path) {
        let (from, to) = (layers.join(HOME_LAYER), self.kept_home(zone, pid));
        if !from.is_dir() {
            return;
        }
        let folder = to.parent().unwrap_or(Path::new("."));
        let kept = std::fs::DirBuilder::new().recursive(true).create(folder).and_then(|()| std::fs::rename(&from, &to));
        if let Err(error) = kept {
            world::log!("skep: the home of the brain of {pid} is dropped: {error}");
        }
    }
}

/// Makes place for one more, without those that are held.
fn drop_oldest(folder: &Path, held: &BTreeSet<(Pid, PathBuf)>) -> std::io::Result<()> {
    let mut kept = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        kept.push((entry.metadata()?.modified()?, entry.path()));
    }
    kept.sort();
    let excess = (kept.len() + 1).saturating_sub(CACHE_LAYERS_MAX);
    let is_free = |path: &Path| !held.iter().any(|(_, held)| held == path);
    kept.iter().filter(|(_, path)| is_free(path)).take(excess).try_for_each(|(_, path)| sandbox::remove(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    #[test]
    fn what_a_waiting_client_has_mounted_is_not_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let layer = |nth: usize| folder.path().join(format!("zone-1-{nth}"));
        for nth in 0..CACHE_LAYERS_MAX {
            std::fs::create_dir(layer(nth)).unwrap();
            let old = SystemTime::now() - Duration::from_secs(1_000 - nth as u64);
            std::fs::File::open(layer(nth)).unwrap().set_modified(old).unwrap();
        }
        drop_oldest(folder.path(), &BTreeSet::from([(Pid(3), layer(0))])).unwrap();
        assert!(layer(0).exists() && !layer(1).exists() && layer(2).exists(), "the oldest that nobody holds goes");
        std::fs::create_dir(layer(1)).unwrap();
        drop_oldest(folder.path(), &BTreeSet::new()).unwrap();
        assert!(!layer(0).exists() && layer(2).exists(), "the control: nobody holds it any more");
    }
}
