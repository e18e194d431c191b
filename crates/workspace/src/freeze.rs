//! Freezes what a task changed: contents to blobs, each path with the policy's word on it and with what the project holds there now.
//!
//! **Invariant.** A frozen change says which content it replaces, and only that content is ever replaced. Where project and task both left
//! the base, their texts are merged for a person to look at, or the path is a conflict that a person decides.

use crate::aside;
use crate::frozen::{Conflict, FrozenPath};
use crate::ignored::{ignored, is_ignored};
use crate::links::Origin;
use crate::mode::{mode_of_new, umask, with_execution};
use crate::path_call::{ChangeGate, PathCall};
use crate::room_fault;
use crate::shape::ReadBlob;
use crate::three;
use crate::tree::{FileState, FileTree, State};
use crate::unsettled::{DELETED, MARKS_LEFT, has_marks, task_side};
use crate::was::{BaseState, Bases};
use crate::whole::{self, Fate, LeftOut, Swaps};
use sandbox::{Change, ChangeKind, FileKind, Refused, Workspace};
use std::collections::{BTreeMap, BTreeSet};
use world::{MergePath, PathChange, Stop, limits};

/// Behind the reason of what stays out, where it is gone with the task's room.
pub const NOT_KEPT: &str = "; the change is not kept";
const UNNAMED: &str = "its name is not valid UTF-8";

/// Why a path is refused, and what will be kept of it.
fn why_refused(no: &Refused) -> String {
    match (no.changes.is_empty(), no.is_whole) {
        (true, _) => format!("{}{NOT_KEPT}", no.why),
        (false, true) => no.why.to_owned(),
        (false, false) => format!("{}; only its files are kept", no.why),
    }
}

/// What a look at one path gave.
enum PathOutcome {
    /// The project holds it already, or the task did not change it.
    Unchanged,
    Include(FrozenPath),
    Conflict(Conflict),
    Exclude(String),
}

/// What a task's room changed, before the project is looked at.
pub struct RoomChanges {
    refused: Vec<MergePath>,
    swaps: Swaps,
    wanted: Vec<Change>,
}

impl RoomChanges {
    pub async fn of(room: &Workspace) -> Result<RoomChanges, Stop> {
        let found = room.changes().await.map_err(room_fault)?;
        let (named, nameless): (Vec<_>, Vec<_>) = found.changes.into_iter().partition(|change| change.path.to_str().is_some());
        let ignored = ignored(room, &named, &found.refused).await?;
        let is_shown = |no: &&Refused| !is_ignored(&no.path, &ignored);
        let shown = found.refused.iter().filter(is_shown);
        let mut refused: Vec<MergePath> =
            shown.map(|no| left_out(&no.path.to_string_lossy(), PathChange::Refused, &why_refused(no))).collect();
        let unnamed = nameless.iter().filter(|change| !is_ignored(&change.path, &ignored));
        refused.extend(unnamed.map(|change| left_out(&change.path.to_string_lossy(), PathChange::Refused, UNNAMED)));
        let all: Vec<Change> = named.iter().chain(&nameless).cloned().collect();
        let swaps = Swaps::of(&all, &ignored, &found.refused);
        let wanted = whole(named).into_iter().filter(|change| !ignored.contains(&*change.path.to_string_lossy())).collect();
        Ok(RoomChanges { refused, swaps, wanted })
    }

    /// The paths that may go in.
    pub fn paths(&self) -> Vec<&str> {
        self.wanted.iter().filter_map(|change| change.path.to_str()).collect()
    }

    /// What is frozen where no path may go in.
    pub fn nothing(self) -> FrozenChanges {
        FrozenChanges { changes: Vec::new(), conflicts: Vec::new(), refused: self.refused }
    }
}

/// Every changed path with what becomes of it.
pub struct FrozenChanges {
    pub changes: Vec<FrozenPath>,
    pub conflicts: Vec<Conflict>,
    pub refused: Vec<MergePath>,
}

/// What is at hand while changes are frozen.
pub struct Freezer<'a, G> {
    pub gate: &'a G,
    pub bases: &'a Bases<'a>,
    /// Called after each path.
    pub at: &'a (dyn Fn() + Sync),
    /// Keeps a content as a blob, and reads one.
    pub keep: &'a (dyn Fn(&[u8]) -> Result<String, world::Fault> + Sync),
    pub blobs: &'a ReadBlob<'a>,
    /// Why a path stays out whatever it holds, if it does.
    pub excluded: &'a (dyn Fn(&str) -> Option<String> + Sync),
    /// What the task wrote, and the project.
    pub upper: FileTree,
    pub tree: FileTree,
}

impl<G: ChangeGate> Freezer<'_, G> {
    pub async fn freeze(&self, listed: RoomChanges) -> Result<FrozenChanges, Stop> {
        let RoomChanges { mut refused, swaps, wanted } = listed;
        let (mut changes, mut conflicts) = (Vec::new(), Vec::new());
        let look = PathFreezer { with: self, swaps: &swaps };
        let renames = look.renames(&wanted)?;
        for change in &wanted {
            let path = change.path.to_string_lossy().into_owned();
            let looked = match (self.excluded)(&path) {
                Some(why) => PathOutcome::Exclude(why),
                None => look.at(change, &path, &renames).await?,
            };
            match looked {
                PathOutcome::Unchanged => {}
                PathOutcome::Include(frozen_path) => changes.push(frozen_path),
                PathOutcome::Conflict(conflict) if swaps.has(&path) => refused.push(left_out(&path, PathChange::Conflict, &conflict.why)),
                PathOutcome::Conflict(conflict) => conflicts.push(conflict),
                PathOutcome::Exclude(why) => refused.push(left_out(&path, path_change(change), &why)),
            }
            (self.at)();
        }
        for (change, why) in look.settle(&mut changes).await? {
            refused.push(MergePath { refused: Some(why), ..change.told() });
        }
        Ok(FrozenChanges { changes, conflicts, refused })
    }
}

/// Folders come and go with their files; a path that became another kind of thing is one change.
pub fn whole(changes: Vec<Change>) -> Vec<Change> {
    let made: BTreeSet<_> =
        changes.iter().filter(|c| c.kind == ChangeKind::Created && c.file != FileKind::Folder).map(|c| c.path.clone()).collect();
    let kept = |change: &Change| change.file != FileKind::Folder && !(change.kind == ChangeKind::Deleted && made.contains(&change.path));
    changes.into_iter().filter(kept).collect()
}

/// Renames of which only one half goes in. Each becomes what it is without the other.
pub fn unpair(changes: &mut [FrozenPath]) -> Vec<usize> {
    let gone: BTreeSet<String> = changes.iter().filter(|change| change.to.is_some()).map(|change| change.path.clone()).collect();
    let made: BTreeSet<String> = changes.iter().filter(|change| change.from.is_some()).map(|change| change.path.clone()).collect();
    let mut single = Vec::new();
    for (at, change) in changes.iter_mut().enumerate() {
        if change.from.as_ref().is_some_and(|from| !gone.contains(from)) {
            change.from = None;
            change.kind = PathChange::Created;
            single.push(at);
        }
        if change.to.as_ref().is_some_and(|to| !made.contains(to)) {
            change.to = None;
            single.push(at);
        }
    }
    single
}

fn left_out(path: &str, kind: PathChange, why: &str) -> MergePath {
    MergePath { path: path.to_owned(), kind, from: None, refused: Some(why.to_owned()) }
}

fn path_change(change: &Change) -> PathChange {
    match (change.kind, &change.file) {
        (ChangeKind::Created | ChangeKind::Modified, FileKind::Symlink { .. }) => PathChange::Symlink,
        (ChangeKind::Created, _) => PathChange::Created,
        (ChangeKind::Modified, _) => PathChange::Modified,
        (ChangeKind::Deleted, _) => PathChange::Deleted,
        (ChangeKind::ModeChanged, _) => PathChange::Mode,
    }
}

struct PathFreezer<'a, G> {
    with: &'a Freezer<'a, G>,
    swaps: &'a Swaps,
}

/// Old name by new, and new by old.
struct Renames {
    from: BTreeMap<String, String>,
    to: BTreeMap<String, String>,
}

impl<G: ChangeGate> PathFreezer<'_, G> {
    /// A path that is gone and one that appeared with the same content are one file with another name.
    fn renames(&self, changes: &[Change]) -> Result<Renames, Stop> {
        let mut renames = Renames { from: BTreeMap::new(), to: BTreeMap::new() };
        let path = |change: &Change| change.path.to_string_lossy().into_owned();
        let file = |change: &&Change| change.file == FileKind::File && change.size > 0 && change.size <= limits::MERGE_FILE_MAX;
        let gone: Vec<(String, BaseState, u64)> = changes
            .iter()
            .filter(|change| change.kind == ChangeKind::Deleted)
            .filter(file)
            .map(|change| (path(change), self.with.bases.of(&path(change)), change.size))
            .collect();
        for change in changes.iter().filter(|change| change.kind == ChangeKind::Created).filter(file) {
            let mut alike = gone.iter().filter(|(old, _, size)| *size == change.size && !renames.to.contains_key(old)).peekable();
            if alike.peek().is_none() {
                continue;
            }
            let new = path(change);
            if let FileState::File { bytes, .. } = self.with.upper.now(&new)?
                && let Some((old, ..)) = alike.find(|(_, was, _)| was.holds(&bytes))
            {
                renames.from.insert(new.clone(), old.clone());
                renames.to.insert(old.clone(), new);
            }
        }
        Ok(renames)
    }

    /// Takes out what must not go in without what stays out.
    async fn settle(&self, changes: &mut Vec<FrozenPath>) -> Result<Vec<LeftOut>, Stop> {
        let mut left = Vec::new();
        loop {
            left.extend(aside(|| whole::settle(self.swaps, &self.with.tree, changes, Origin::Task))?);
            let mut refused = BTreeMap::new();
            // It was judged as a move; alone it is something else.
            for at in unpair(changes) {
                let Some(change) = changes.get_mut(at) else { continue };
                let path = change.path.clone();
                let deed = self.with_text(PathCall::of(&path, None, None, change.new == State::Absent, change.size), &path)?;
                match self.with.gate.may_change(&deed, &path).await? {
                    Ok(question) => question.into_iter().for_each(|why| change.ask(why)),
                    Err(why) => drop(refused.insert(path, why)),
                }
            }
            if refused.is_empty() {
                return Ok(left);
            }
            let (stays, goes): (Vec<FrozenPath>, Vec<FrozenPath>) =
                std::mem::take(changes).into_iter().partition(|change| refused.contains_key(&change.path));
            *changes = goes;
            left.extend(stays.into_iter().filter_map(|change| {
                let why = refused.remove(&change.path)?;
                Some((change, why))
            }));
        }
    }

    /// A write with the text that it writes, where an extension may want to look at it.
    fn with_text<'d>(&self, deed: PathCall<'d>, path: &str) -> Result<PathCall<'d>, Stop> {
        if !self.with.gate.reads_content() || deed.size > limits::MERGE_FILE_MAX {
            return Ok(deed);
        }
        Ok(match self.with.upper.now(path)? {
            FileState::File { bytes, .. } => deed.with_content(&bytes),
            _ => deed,
        })
    }

    async fn at(&self, change: &Change, path: &str, renames: &Renames) -> Result<PathOutcome, Stop> {
        let (from, to) = (renames.from.get(path).cloned(), renames.to.get(path).cloned());
        // Every changed path passes the gate with the process's rights, whether or not the brain asked.
        let deed = PathCall::of(path, from.as_deref(), to.as_deref(), change.kind == ChangeKind::Deleted, change.size);
        let deed = self.with_text(deed, path)?;
        let question = match self.with.gate.may_change(&deed, path).await? {
            Ok(question) => question,
            Err(why) => return Ok(PathOutcome::Exclude(why)),
        };
        if change.size > limits::MERGE_FILE_MAX {
            return Ok(PathOutcome::Exclude(format!(
                "it has {} bytes; at most {} are merged or kept",
                change.size,
                limits::MERGE_FILE_MAX
            )));
        }
        let theirs = match change.kind {
            ChangeKind::Deleted => FileState::Absent,
            _ => self.with.upper.now(path)?,
        };
        if let (FileKind::Symlink { target }, FileState::Other) = (&change.file, &theirs)
            && target.to_str().is_none()
        {
            return Ok(PathOutcome::Exclude("it is a link to a name that is not valid UTF-8".into()));
        }
        // Links were judged by where they led when changes were listed.
        let as_judged = match (&change.file, &theirs) {
            (FileKind::Symlink { target }, FileState::Link { target: now }) => target.as_os_str() == now.as_str(),
            (_, FileState::Link { .. }) => false,
            _ => true,
        };
        if !as_judged {
            return Ok(PathOutcome::Exclude("it changed while it was read".into()));
        }
        let (was, mine) = (self.with.bases.of(path), self.with.tree.now(path)?);
        let kind = if from.is_some() { PathChange::Renamed } else { path_change(change) };
        let frozen_path = FrozenPath {
            path: path.to_owned(),
            kind,
            from,
            to,
            size: change.size,
            old: State::Absent,
            new: State::Absent,
            question,
            unguarded: false,
        };
        let found = self.compare(frozen_path, &was, &mine, &theirs).await?;
        self.guard(self.still_unsettled(found, path, &mine, &theirs)?)
    }

    /// What stands there must not be lost to an edit at the same moment. Where that can't be held, a person is told.
    fn guard(&self, found: PathOutcome) -> Result<PathOutcome, Stop> {
        Ok(match found {
            PathOutcome::Include(mut frozen_path) => {
                if let Some(why) = self.with.tree.unguarded(&frozen_path.path)? {
                    frozen_path.unguarded = true;
                    if frozen_path.old != State::Absent {
                        frozen_path.ask(format!("{}: {why}, so an edit of yours while it is merged could be lost", frozen_path.path));
                    }
                }
                PathOutcome::Include(frozen_path)
            }
            PathOutcome::Conflict(mut conflict) => {
                if let Some(why) = self.with.tree.unguarded(&conflict.path)? {
                    conflict.unguarded = true;
                    conflict.why = format!("{}; {why}, so an edit of yours while it is merged could be lost", conflict.why);
                }
                PathOutcome::Conflict(conflict)
            }
            other => other,
        })
    }

    /// Base, project and task: who changed what?
    async fn compare(
        &self,
        mut frozen_path: FrozenPath,
        was: &BaseState,
        mine: &FileState,
        theirs: &FileState,
    ) -> Result<PathOutcome, Stop> {
        let Some(mut new) = theirs.keep(self.with.keep)? else { return Ok(PathOutcome::Exclude("it changed while it was read".into())) };
        let mut same_mode = true;
        if let State::File { mode, owner, .. } = &mut new {
            *owner = None;
            let executable = mode.is_some_and(|mode| mode & 0o100 != 0);
            same_mode = was.executable() == Some(executable);
            // Of a mode only the executable bit is the task's to change; who may read and write a file is its owner's matter.
            *mode = match (same_mode, mine) {
                (true, _) => None,
                (false, FileState::File { mode, .. }) if (mode & 0o100 != 0) == executable => None,
                (false, FileState::File { mode, .. }) => Some(with_execution(*mode, executable)),
                (false, _) => Some(mode_of_new(executable, umask())),
            };
        }
        frozen_path.new = new;
        match self.swaps.folder_at(&frozen_path.path) {
            // The files in it have bases of their own.
            Some(Fate::Goes) if matches!(mine, FileState::Folder) => {
                frozen_path.old = State::Folder;
                return Ok(PathOutcome::Include(frozen_path));
            }
            Some(Fate::Comes) => frozen_path.new = State::Folder,
            _ => {}
        }
        if (was.is(theirs) && same_mode) || frozen_path.new.is(mine) {
            return Ok(PathOutcome::Unchanged);
        }
        let Some(old) = mine.keep(self.with.keep)? else {
            return Ok(PathOutcome::Conflict(self.clash(&frozen_path, "the project has something else there", None, None)));
        };
        frozen_path.old = old;
        if was.is(mine) || self.with.bases.is_checked_out(&frozen_path.path, was, mine).await? {
            if was.is_dirty() {
                frozen_path.ask(format!("{}: you had edited it before the task began", frozen_path.path));
            }
            return Ok(PathOutcome::Include(frozen_path));
        }
        let (FileState::File { bytes: mine, .. }, FileState::File { bytes: theirs, .. }) = (mine, theirs) else {
            let why = match (was, mine) {
                (BaseState::Unproven, _) => "what it held when the task began is not known",
                (_, FileState::Absent) => "it is gone from the project, and the task changed it",
                _ => "it was changed after the task began",
            };
            let mine = Some(frozen_path.old.clone());
            return Ok(PathOutcome::Conflict(self.clash(&frozen_path, why, mine, None)));
        };
        let Some(base) = self.with.bases.bytes(self.with.blobs, &frozen_path.path, was).await? else {
            let why = if *was == BaseState::Absent { "both made it" } else { "what it held when the task began is not known" };
            let mine = Some(frozen_path.old.clone());
            return Ok(PathOutcome::Conflict(self.clash(&frozen_path, why, mine, None)));
        };
        match three::merge(&base, mine, theirs) {
            three::Three::Clean(text) => {
                let blob = (self.with.keep)(text.as_bytes())?;
                if let State::File { blob: new, .. } = &mut frozen_path.new {
                    *new = blob;
                }
                frozen_path.kind = PathChange::Merged;
                frozen_path.size = text.len() as u64;
                frozen_path.ask(format!("{}: it was changed after the task began; both changes are in", frozen_path.path));
                // What goes in is the text of neither side, so it is judged as what it is.
                let path = frozen_path.path.clone();
                let deed = PathCall::of(&path, None, None, false, frozen_path.size);
                let deed = if self.with.gate.reads_content() { deed.with_content(text.as_bytes()) } else { deed };
                match self.with.gate.may_change(&deed, &path).await? {
                    Ok(question) => question.into_iter().for_each(|why| frozen_path.ask(why)),
                    Err(why) => return Ok(PathOutcome::Exclude(why)),
                }
                Ok(if frozen_path.new.is(&self.with.tree.now(&frozen_path.path)?) {
                    PathOutcome::Unchanged
                } else {
                    PathOutcome::Include(frozen_path)
                })
            }
            three::Three::Conflict(marked) => {
                let marked = (self.with.keep)(marked.as_bytes())?;
                let mine = Some(frozen_path.old.clone());
                Ok(PathOutcome::Conflict(self.clash(
                    &frozen_path,
                    "it was changed after the task began, in the same place",
                    mine,
                    Some(marked),
                )))
            }
            three::Three::NotText => {
                let mine = Some(frozen_path.old.clone());
                Ok(PathOutcome::Conflict(self.clash(&frozen_path, "it was changed after the task began, and it is not text", mine, None)))
            }
        }
    }

    /// A conflict that the task was sent back with, and did not settle, is one still. Marks count wherever they were moved to.
    fn still_unsettled(&self, found: PathOutcome, path: &str, mine: &FileState, theirs: &FileState) -> Result<PathOutcome, Stop> {
        let before = self.with.bases.unsettled(path);
        if !self.with.bases.has_unsettled() {
            return Ok(found);
        }
        let new = match &found {
            PathOutcome::Include(change) => &change.new,
            PathOutcome::Conflict(conflict) => &conflict.theirs,
            PathOutcome::Unchanged | PathOutcome::Exclude(_) => return Ok(found),
        };
        let project = if let FileState::File { bytes, .. } = mine { bytes.as_slice() } else { &[] };
        if let (FileState::File { bytes, .. }, State::File { mode, .. }) = (theirs, new)
            && has_marks(bytes, project)
        {
            let text = task_side(bytes).map(|text| (self.with.keep)(text.as_bytes())).transpose()?;
            let settled = text.map(|blob| State::File { blob, mode: *mode, owner: None });
            return Ok(marked(found, settled.or_else(|| before.map(|before| before.theirs.clone()))));
        }
        Ok(match (found, before) {
            (PathOutcome::Include(change), Some(before)) if before.is_open(&change.new) => {
                let why = if before.theirs == State::Absent || change.new != State::Absent { before.why.as_str() } else { DELETED };
                let mine = Some(change.old.clone());
                PathOutcome::Conflict(self.clash(&change, why, mine, None))
            }
            (found, _) => found,
        })
    }

    fn clash(&self, frozen_path: &FrozenPath, why: &str, mine: Option<State>, marked: Option<String>) -> Conflict {
        Conflict {
            path: frozen_path.path.clone(),
            why: why.to_owned(),
            size: frozen_path.size,
            mine,
            theirs: frozen_path.new.clone(),
            marked,
            unguarded: false,
        }
    }
}

/// A text with marks as a conflict, of which the task's side is `settled`; without one there is nothing to choose.
fn marked(found: PathOutcome, settled: Option<State>) -> PathOutcome {
    PathOutcome::Conflict(match found {
        PathOutcome::Include(FrozenPath { path, size, old, new, unguarded, .. }) => {
            let marked = if let State::File { blob, .. } = &new { Some(blob.clone()) } else { None };
            let mine = settled.is_some().then_some(old);
            Conflict { path, why: MARKS_LEFT.to_owned(), size, mine, theirs: settled.unwrap_or(new), marked, unguarded }
        }
        PathOutcome::Conflict(conflict) => match settled {
            Some(theirs) => Conflict { theirs, ..conflict },
            None => Conflict { mine: None, ..conflict },
        },
        other => return other,
    })
}
