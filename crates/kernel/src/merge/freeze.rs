//! Freezes what a task changed: contents to blobs, each path with its base and the policy's word on it.

use super::{caller, facts};
use crate::base::{self, Dirty, DirtyFile};
use crate::call::{self, Request};
use crate::desk::Desk;
use crate::fault::{Fault, FaultKind, Stop};
use crate::zone::Trusted;
use crate::{Kernel, extension, git, hash};
use policy::{RealPath, Standing, Verdict};
use sandbox::{Change, ChangeKind, FileKind};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use world::{MergePath, Task, TaskId, limits};

/// A task's changes as they were when the question was asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Frozen {
    pub task: TaskId,
    pub summary: String,
    pub head: Option<String>,
    pub policy_version: u64,
    pub changes: Vec<Frost>,
    /// Left out, and why.
    pub refused: Vec<MergePath>,
    pub digest: String,
}

/// One path that goes in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Frost {
    pub path: String,
    pub kind: String,
    pub mode: u32,
    pub size: u64,
    /// What it will hold; `None` for a deletion.
    pub new: Option<Content>,
    pub old: Was,
    /// Why a rule wants a person to look at this path.
    pub question: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Content {
    File { blob: String },
    Link { target: String },
}

/// What the project held there when the task began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Was {
    Absent,
    /// SHA-256 of the content.
    Held {
        blob: String,
    },
    /// Git's own name of the content.
    Committed {
        oid: String,
    },
}

pub(super) async fn freeze(kernel: &Kernel, task: &Task, summary: &str) -> Result<Frozen, Stop> {
    let desk = kernel.desk(task.id).await?;
    let found = desk.room.changes().await.map_err(crate::desk::room_fault)?;
    let mut refused: Vec<MergePath> = found.refused.iter().map(|no| left_out(&no.path.to_string_lossy(), "refused", no.why)).collect();
    let (named, nameless): (Vec<_>, Vec<_>) = found.changes.into_iter().partition(|change| change.path.to_str().is_some());
    refused.extend(nameless.iter().map(|change| left_out(&change.path.to_string_lossy(), word(change), "its name is not valid UTF-8")));
    let ignored = ignored(&desk, &named).await?;
    let wanted: Vec<Change> = whole(named).into_iter().filter(|change| !ignored.contains(&*change.path.to_string_lossy())).collect();
    let base = Base::load(kernel, task, &desk, &wanted).await?;
    let trusted =
        kernel.trusted(task.zone)?.ok_or_else(|| Fault::new(FaultKind::Bug, "the zone lost its policy", "no version is in force"))?;
    let mut changes = Vec::new();
    for change in wanted {
        match frost(kernel, task, &trusted, &desk, &base, &change).await? {
            Ok(frost) => changes.push(frost),
            Err(why) => refused.push(left_out(&change.path.to_string_lossy(), word(&change), &why)),
        }
    }
    let mut frozen = Frozen {
        task: task.id,
        summary: summary.to_owned(),
        head: git::head(&desk.project),
        policy_version: trusted.version,
        changes,
        refused,
        digest: String::new(),
    };
    frozen.digest = frozen.hash()?;
    Ok(frozen)
}

/// Folders come and go with their files; a path that became another kind of thing is one change.
fn whole(changes: Vec<Change>) -> Vec<Change> {
    let made: BTreeSet<_> =
        changes.iter().filter(|c| c.kind == ChangeKind::Created && c.file != FileKind::Folder).map(|c| c.path.clone()).collect();
    let kept = |change: &Change| change.file != FileKind::Folder && !(change.kind == ChangeKind::Deleted && made.contains(&change.path));
    changes.into_iter().filter(kept).collect()
}

fn left_out(path: &str, kind: &str, why: &str) -> MergePath {
    MergePath { path: path.to_owned(), kind: kind.to_owned(), refused: Some(why.to_owned()) }
}

fn word(change: &Change) -> &'static str {
    match change.kind {
        ChangeKind::Created => "created",
        ChangeKind::Modified => "modified",
        ChangeKind::Deleted => "deleted",
        ChangeKind::ModeChanged => "mode",
    }
}

/// One change as it will be applied, or why it is left out.
async fn frost(
    kernel: &Kernel,
    task: &Task,
    trusted: &Trusted,
    desk: &Desk,
    base: &Base,
    change: &Change,
) -> Result<Result<Frost, String>, Stop> {
    let path = change.path.to_string_lossy().into_owned();
    let question = match allowed(kernel, task, trusted, change, &path).await {
        Ok(question) => question,
        Err(why) => return Ok(Err(why)),
    };
    let Some(old) = base.of(&path) else {
        return Ok(Err("what it held when the task began is not known".into()));
    };
    if change.size > limits::MERGE_FILE_MAX {
        return Ok(Err(format!("it has {} bytes; at most {} are merged", change.size, limits::MERGE_FILE_MAX)));
    }
    let upper = desk.work.join("upper").join(&change.path);
    let new = match (&change.kind, &change.file) {
        (ChangeKind::Deleted, _) => None,
        (_, FileKind::Symlink { target }) => Some(Content::Link { target: target.to_string_lossy().into_owned() }),
        _ => {
            let bytes = std::fs::read(&upper).map_err(|error| Fault::io("read", &upper, error))?;
            Some(Content::File { blob: kernel.ledger.keep(&bytes)? })
        }
    };
    Ok(Ok(Frost { path, kind: word(change).to_owned(), mode: change.mode & 0o777, size: change.size, new, old, question }))
}

/// Every changed path passes the gate with the process's rights, whether or not the brain asked: bans, rules, extensions and grants.
async fn allowed(kernel: &Kernel, task: &Task, trusted: &Trusted, change: &Change, path: &str) -> Result<Option<String>, String> {
    let tool = if change.kind == ChangeKind::Deleted { "fs.delete" } else { "fs.write" };
    let (name, role, user) = caller(kernel, task);
    let paths = [RealPath::Inside(path)];
    let mut facts = facts(tool, task, &paths, &name, &role, &user);
    facts.size = Some(change.size);
    let mut opinions = Vec::new();
    if !trusted.bundle.rules.is_empty() && !policy::preview(&trusted.policy, &facts).is_settled() {
        let request = Request::new(task.pid, Some(task.id), task.zone, tool, serde_json::json!({"path": path}));
        opinions = kernel.opinions(task.zone, trusted, &extension::described(&request, &request.input, &facts)).await;
    }
    facts.opinions = &opinions;
    let now = kernel.moment();
    let (ban, grant) = kernel.ledger.look(|world| {
        let ban = world.bans.values().find(|ban| world.in_scope(&ban.scope, task.pid) && policy::ban_covers(ban, &facts, ""));
        (
            ban.map(|ban| format!("{} refuses it: {}", ban.id, ban.reason)),
            call::pick(world, task.pid, &facts, "", &now, world.now_ms).map(|g| g.id),
        )
    });
    if let Some(why) = ban {
        return Err(why);
    }
    match policy::decide(&trusted.policy, &facts, &Standing { grant, calls_left: None }) {
        Verdict::Allow(_) => Ok(None),
        Verdict::Review { reasons, .. } => Ok(Some(format!("{path}: {}", reasons.join("; ")))),
        Verdict::Deny { refusal, .. } => Err(refusal.reason),
    }
}

/// Paths that git ignores are the clone's own and never merged.
async fn ignored(desk: &Desk, changes: &[Change]) -> Result<BTreeSet<String>, Stop> {
    if changes.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut stdin = Vec::new();
    for change in changes {
        stdin.extend_from_slice(change.path.to_string_lossy().as_bytes());
        stdin.push(0);
    }
    let listed = base::git(desk, &["check-ignore", "-z", "--stdin"], Some(stdin)).await?;
    Ok(String::from_utf8_lossy(&listed).split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect())
}

/// What the project held when the task began, for the paths that changed.
struct Base {
    dirty: Dirty,
    committed: BTreeMap<String, String>,
}

impl Base {
    async fn load(kernel: &Kernel, task: &Task, desk: &Desk, changes: &[Change]) -> Result<Base, Stop> {
        let workspace = kernel.task(task.id)?.workspace.ok_or_else(|| Fault::new(FaultKind::Bug, "a desk has no base", task.id))?;
        let dirty: Dirty = serde_json::from_slice(&kernel.ledger.blob(&workspace.base)?)
            .map_err(|error| Fault::new(FaultKind::Bug, "a base cannot be read", error))?;
        let mut committed = BTreeMap::new();
        if let Some(head) = &workspace.head {
            for some in changes.chunks(200) {
                let paths: Vec<String> = some.iter().map(|change| change.path.to_string_lossy().into_owned()).collect();
                let mut args = vec!["ls-tree", "-z", "--full-tree", head, "--"];
                args.extend(paths.iter().map(String::as_str));
                let listed = base::git(desk, &args, None).await?;
                committed.extend(String::from_utf8_lossy(&listed).split('\0').filter_map(tree_entry));
            }
        }
        Ok(Base { dirty, committed })
    }

    /// `None` when it cannot be proven.
    fn of(&self, path: &str) -> Option<Was> {
        match (self.dirty.files.get(path), self.committed.get(path)) {
            (Some(DirtyFile::Held { blob }), _) => Some(Was::Held { blob: blob.clone() }),
            (Some(DirtyFile::Absent), _) | (None, None) => Some(Was::Absent),
            (Some(DirtyFile::Unproven), _) => None,
            (None, Some(oid)) => Some(Was::Committed { oid: oid.clone() }),
        }
    }
}

/// `<mode> SP <type> SP <oid> TAB <path>`
fn tree_entry(entry: &str) -> Option<(String, String)> {
    let (meta, path) = entry.split_once('\t')?;
    let mut meta = meta.split(' ').skip(1);
    (meta.next()? == "blob").then_some(())?;
    Some((path.to_owned(), meta.next()?.to_owned()))
}

impl Frozen {
    fn hash(&self) -> Result<String, Fault> {
        let body = serde_json::to_vec(&(self.task, &self.head, self.policy_version, &self.changes, &self.refused));
        body.map(|bytes| hash::sha256(&bytes)).map_err(|error| Fault::new(FaultKind::Bug, "changes cannot be hashed", error))
    }

    pub fn store(&self, kernel: &Kernel) -> Result<String, Fault> {
        let bytes = serde_json::to_vec(self).map_err(|error| Fault::new(FaultKind::Bug, "changes cannot be written", error))?;
        kernel.ledger.keep(&bytes)
    }

    pub fn load(kernel: &Kernel, blob: &str) -> Result<Frozen, Fault> {
        serde_json::from_slice(&kernel.ledger.blob(blob)?)
            .map_err(|error| Fault::new(FaultKind::Bug, "frozen changes cannot be read", error))
    }

    pub fn paths(&self) -> Vec<MergePath> {
        let going = self.changes.iter().map(|change| MergePath { path: change.path.clone(), kind: change.kind.clone(), refused: None });
        going.chain(self.refused.iter().cloned()).collect()
    }

    /// What the reviewer is told; the diff is read from the blobs.
    pub fn shown(&self) -> serde_json::Value {
        let files: Vec<String> = self.changes.iter().map(|change| format!("{} {}", change.kind, change.path)).collect();
        serde_json::json!({"changes": files, "left_out": self.refused.len(), "digest": self.digest})
    }
}
