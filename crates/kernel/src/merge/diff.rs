//! What a task changed, for a person to read.

use super::freeze::{self, Content, Frozen};
use crate::Kernel;
use crate::fault::{Fault, Stop};
use similar::TextDiff;
use std::path::Path;
use world::{Task, TaskId, TaskState};

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
    pub refused: Option<String>,
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
        self.read(&task, &frozen)
    }

    fn read(&self, task: &Task, frozen: &Frozen) -> Result<MergeDiff, Stop> {
        let project = self.ledger.look(|world| world.zones.get(&task.zone).map(|zone| zone.path.clone())).unwrap_or_default();
        let mut files = Vec::new();
        for change in &frozen.changes {
            let old = match &change.old {
                freeze::Was::Absent => Vec::new(),
                freeze::Was::Held { blob } => self.ledger.blob(blob)?,
                // The commit has it, and so does the work tree until somebody edits it.
                freeze::Was::Committed { .. } => read_ordinary(&Path::new(&project).join(&change.path))?,
            };
            let new = match &change.new {
                None => Vec::new(),
                Some(Content::File { blob }) => self.ledger.blob(blob)?,
                Some(Content::Link { target }) => format!("-> {target}\n").into_bytes(),
            };
            files.push(FileDiff {
                path: change.path.clone(),
                kind: change.kind.clone(),
                refused: None,
                diff: unified(&change.path, &old, &new),
            });
        }
        let refused = frozen.refused.iter();
        files.extend(refused.map(|no| FileDiff {
            path: no.path.clone(),
            kind: no.kind.clone(),
            refused: no.refused.clone(),
            diff: String::new(),
        }));
        Ok(MergeDiff { digest: frozen.digest.clone(), files })
    }
}

impl Kernel {
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

fn read_ordinary(path: &Path) -> Result<Vec<u8>, Fault> {
    match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_file() && meta.len() <= world::limits::MERGE_FILE_MAX => {
            std::fs::read(path).map_err(|error| Fault::io("read", path, error))
        }
        _ => Ok(Vec::new()),
    }
}

fn unified(path: &str, old: &[u8], new: &[u8]) -> String {
    match (std::str::from_utf8(old), std::str::from_utf8(new)) {
        (Ok(old), Ok(new)) => {
            TextDiff::from_lines(old, new).unified_diff().context_radius(3).header(&format!("a/{path}"), &format!("b/{path}")).to_string()
        }
        _ => format!("binary: {} bytes become {}\n", old.len(), new.len()),
    }
}
