//! What a task changed, for a person to read.

use super::auto::runs_by_itself;
use super::freeze;
use super::frozen::{Frost, Frozen};
use super::tree::State;
use crate::Kernel;
use crate::fault::Stop;
use similar::TextDiff;
use world::{TaskId, TaskState};

/// Beyond this many bytes a file is told by its size: nobody reads it in a terminal, and a frame must hold all of them.
const FILE_BYTES_MAX: usize = 1024 * 1024;
/// Bytes of all texts together; files after that are told by their size.
const WHOLE_BYTES_MAX: usize = 8 * 1024 * 1024;

#[derive(Debug, Clone)]
pub struct MergeDiff {
    /// What `merge` must be given to take exactly this.
    pub digest: String,
    pub files: Vec<FileDiff>,
}

#[derive(Debug, Clone)]
pub struct FileDiff {
    pub path: String,
    pub kind: String,
    pub from: Option<String>,
    /// Why it stays out, or why a person must choose.
    pub refused: Option<String>,
    /// Why a person should look at it.
    pub note: Option<String>,
    /// Unified, or one line about a file that is not text.
    pub diff: String,
}

impl Kernel {
    /// The changes of a task: the frozen ones where a merge is proposed, else what its room holds now.
    pub async fn diff(&self, id: TaskId) -> Result<MergeDiff, Stop> {
        let task = self.task(id)?;
        let frozen = match task.merge.and_then(|merge| self.ledger.look(|world| world.merges.get(&merge).cloned())) {
            Some(merge) => Frozen::load(self, &merge.frozen)?,
            None if task.state.ended() || task.state == TaskState::Queued => {
                return Ok(MergeDiff { digest: String::new(), files: Vec::new() });
            }
            None => freeze::freeze(self, &task, "").await?,
        };
        self.read(&frozen)
    }

    fn read(&self, frozen: &Frozen) -> Result<MergeDiff, Stop> {
        let mut files = Vec::new();
        let mut room = WHOLE_BYTES_MAX;
        let mut told = |path: &str, old: Vec<u8>, new: Vec<u8>| {
            let diff = unified(path, &old, &new);
            match room.checked_sub(diff.len()) {
                Some(left) => {
                    room = left;
                    diff
                }
                None => format!("too much to show: {} bytes become {}\n", old.len(), new.len()),
            }
        };
        for change in frozen.changes.iter().filter(|change| change.to.is_none()) {
            let mut diff = match &change.from {
                Some(_) => String::new(),
                None => told(&change.path, change.old.bytes(self)?, change.new.bytes(self)?),
            };
            if let (State::File { mode: Some(old), .. }, State::File { mode: Some(new), .. }) = (&change.old, &change.new)
                && old != new
            {
                diff = format!("mode {old:o} becomes {new:o}\n{diff}");
            }
            files.push(FileDiff {
                path: change.path.clone(),
                kind: change.kind.clone(),
                from: change.from.clone(),
                refused: None,
                note: noted(change),
                diff,
            });
        }
        for conflict in &frozen.conflicts {
            let mine = conflict.mine.as_ref().map_or(Ok(Vec::new()), |mine| mine.bytes(self))?;
            let other = match &conflict.marked {
                Some(blob) => label(&String::from_utf8_lossy(&self.ledger.blob(blob)?)).into_bytes(),
                None => conflict.theirs.bytes(self)?,
            };
            let diff = told(&conflict.path, mine, other);
            let (path, refused) = (conflict.path.clone(), Some(conflict.why.clone()));
            files.push(FileDiff { path, kind: "conflict".into(), from: None, refused, note: None, diff });
        }
        let refused = frozen.refused.iter();
        files.extend(refused.map(|no| FileDiff {
            path: no.path.clone(),
            kind: no.kind.clone(),
            from: None,
            refused: no.refused.clone(),
            note: None,
            diff: String::new(),
        }));
        Ok(MergeDiff { digest: frozen.digest.clone(), files })
    }

    /// What a yes to a write or an edit would change, as far as the record of the question tells; `None` where it does not.
    pub async fn review_diff(&self, review: &world::Review) -> Option<String> {
        let path = review.input["path"].as_str()?;
        let task = review.task?;
        let tool = self.tools.find("fs.read").ok()?;
        let input = serde_json::json!({"path": path});
        let desk = self.desk(task).await.ok()?;
        let visible = |path: &str| !desk.secrets.matched_path_or_any_parents(path, false).is_ignore();
        if !visible(path) {
            return None;
        }
        let old = desk.look(tool, &input).await.unwrap_or_default();
        let new = match review.tool.as_str() {
            "fs.write" => review.input["content"].as_str()?.to_owned(),
            "fs.edit" => old.replacen(review.input["old"].as_str()?, review.input["new"].as_str()?, 1),
            _ => return None,
        };
        // A question about a long text holds only its beginning.
        let whole = !new.ends_with("bytes in all]");
        whole.then(|| unified(path, old.as_bytes(), new.as_bytes()))
    }
}

/// Why a person should look at a path: what made it a question, and who runs it unasked.
fn noted(change: &Frost) -> Option<String> {
    let runs = runs_by_itself(&change.path).filter(|_| change.new != State::Absent).map(|by| format!("runs by itself: {by}"));
    let notes: Vec<String> = change.question.iter().cloned().chain(runs).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// The marks of a conflict in the words of `skep merge`.
fn label(marked: &str) -> String {
    let words = [
        ("<<<<<<< ours", "<<<<<<< mine"),
        ("||||||| original", "||||||| before the task"),
        (">>>>>>> theirs", ">>>>>>> theirs, the task's"),
    ];
    let line = |line: &str| words.iter().find(|(mark, _)| line == *mark).map_or(line.to_owned(), |(_, word)| (*word).to_owned());
    marked.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// How many lines differ; `None` for what is not text or too large to be counted.
pub(super) fn lines(old: &[u8], new: &[u8]) -> Option<(Vec<String>, Vec<String>)> {
    let (old, new) = (text(old)?, text(new)?);
    let diff = TextDiff::from_lines(old, new);
    let of = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).map(|change| change.value().to_owned()).collect();
    Some((of(similar::ChangeTag::Delete), of(similar::ChangeTag::Insert)))
}

fn text(bytes: &[u8]) -> Option<&str> {
    (bytes.len() <= FILE_BYTES_MAX && !bytes.contains(&0)).then(|| std::str::from_utf8(bytes).ok())?
}

fn unified(path: &str, old: &[u8], new: &[u8]) -> String {
    match (text(old), text(new)) {
        (Some(old), Some(new)) => {
            // A line break in a name must not begin a line of the diff.
            let path: String = path.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect();
            TextDiff::from_lines(old, new).unified_diff().context_radius(3).header(&format!("a/{path}"), &format!("b/{path}")).to_string()
        }
        _ if old.len().max(new.len()) > FILE_BYTES_MAX => format!("too large to show: {} bytes become {}\n", old.len(), new.len()),
        _ => format!("binary: {} bytes become {}\n", old.len(), new.len()),
    }
}
