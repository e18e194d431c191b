//! Files that a client wrote without asking: what its layer holds, against what was admitted.
//!
//! A call that writes a file names it; a command may write anything. So as long as only the former were admitted, every path in the layer
//! must be one that was named. **Invariant.** Nothing is told of a path that an admitted call of the task names, nor after any admitted call
//! that could have written more than it names.

use super::LiveClients;
use crate::TALK;
use brain::BrainSpec;
use room::OpenWorkspace;
use std::collections::BTreeSet;
use std::path::Path;
use workspace::{aside, base, room_fault};
use world::event::CallAdmitted;
use world::{Event, Stop, Task};

/// Calls that change exactly the paths they name.
const NAMED_ONLY: [&str; 5] = ["fs.write", "fs.edit", "fs.delete", "fs.move", "fs.patch"];
/// What real clients write at their start without a tool: OpenCode completes its own settings, where it reads those of a project. A person
/// sees it in the merge like every change.
const OWN_SETTINGS: [&str; 1] = ["opencode.json"];
/// Not a change of files at all, or one that has its own calls.
const NO_FILES: [&str; 8] = [
    "brain.run",
    "model.request",
    "net.connect",
    "person.ask",
    "merge.apply",
    workflow::discipline::PLAN_COMPLETE,
    workflow::discipline::REQUEST_EXEMPTION,
    workflow::discipline::WORKFLOW_STATE,
];

/// What the admitted calls of a task may have written.
#[derive(Default)]
pub struct Announced {
    paths: BTreeSet<String>,
    /// A command or the like was admitted.
    anything: bool,
    is_read: bool,
}

impl LiveClients {
    /// What the calls of a task may have written, as far as that is all that can have written; `None` where it is not: somebody else than a
    /// client worked on it, or a person talked with the client.
    pub fn announced(&self, task: &Task) -> Result<Option<Announced>, Stop> {
        let is_client = matches!(BrainSpec::parse(&task.brain), Ok(BrainSpec::Vendor { .. } | BrainSpec::Acp(_)));
        if !is_client || task.tags.iter().any(|tag| tag == TALK) {
            return Ok(None);
        }
        let mut announced = Announced::default();
        announced.read(self, task)?;
        Ok(Some(announced))
    }

    /// Paths in the layer of a task whose brain has hands of its own, if nothing admitted accounts for them.
    pub async fn unannounced(&self, announced: Option<&mut Announced>, task: &Task) -> Result<Option<Vec<String>>, Stop> {
        match announced {
            Some(announced) => Ok(Some(announced.missing(self, task).await?).filter(|written| !written.is_empty())),
            None => Ok(None),
        }
    }
}

impl Announced {
    /// Paths in the task's layer that nothing admitted accounts for.
    async fn missing(&mut self, clients: &LiveClients, task: &Task) -> Result<Vec<String>, Stop> {
        if self.anything {
            return Ok(Vec::new());
        }
        let Some(opened) = clients.workspaces.find(task.id) else { return Ok(Vec::new()) };
        let since_us = clients.ledger.task(task.id)?.workspace.map_or(i64::MAX, |workspace| workspace.since_us);
        let written = written(&opened, since_us).await?;
        let mut missing = self.unaccounted(&written);
        if !missing.is_empty() || !self.is_read {
            self.read(clients, task)?;
            missing = self.unaccounted(&written);
        }
        Ok(missing)
    }

    fn unaccounted(&self, written: &[String]) -> Vec<String> {
        if self.anything {
            return Vec::new();
        }
        let is_named = |path: &String| {
            let within = format!("{path}/");
            let is_part = |named: &String| named.starts_with(&within) || path.starts_with(&format!("{named}/")) || is_half_of(path, named);
            self.paths.contains(path) || self.paths.iter().any(is_part)
        };
        written.iter().filter(|path| !is_named(path)).cloned().collect()
    }

    /// The file that the client was about to replace by this one when it was killed. Only where it is certain that nobody asked for this one:
    /// nothing that was admitted names it, or could have written more than it names.
    pub fn half_replaced(&self, path: &str) -> Option<&str> {
        if self.anything || self.paths.contains(path) {
            return None;
        }
        self.paths.iter().find(|named| is_half_of(path, named)).map(String::as_str)
    }

    /// Reads what was admitted so far.
    fn read(&mut self, clients: &LiveClients, task: &Task) -> Result<(), Stop> {
        self.is_read = true;
        for event in clients.ledger.events(task.id, &["call.admitted"])? {
            let Event::CallAdmitted(CallAdmitted { tool, read_only, paths, run_mode: None, .. }) = event else { continue };
            match tool.as_str() {
                _ if read_only => {}
                tool if NAMED_ONLY.contains(&tool) => self.paths.extend(paths),
                tool if NO_FILES.contains(&tool) => {}
                _ => self.anything = true,
            }
        }
        // Its earlier work was laid out by the kernel.
        self.anything |= clients.ledger.task(task.id)?.kept.is_some();
        Ok(())
    }
}

/// Is this what a client writes beside a file before it replaces it? One that is killed in between leaves it there.
fn is_half_of(path: &str, named: &str) -> bool {
    let rest = path.strip_prefix(named).and_then(|rest| rest.strip_prefix(".tmp."));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('/'))
}

/// What differs from the project and was written since the task began.
async fn written(opened: &OpenWorkspace, since_us: i64) -> Result<Vec<String>, Stop> {
    let found = opened.room.changes().await.map_err(room_fault)?;
    let upper = opened.work.join("upper");
    let is_new = |path: &Path| {
        let metadata = upper.join(path).symlink_metadata();
        // What an opaque folder hides has no entry of its own.
        metadata.map_or(true, |metadata| base::stat_us(&metadata).0 >= since_us)
    };
    let is_own = |path: &Path| OWN_SETTINGS.iter().any(|own| path == Path::new(own));
    let paths = found.changes.iter().map(|change| &*change.path).filter(|path| is_new(path) && !is_own(path));
    Ok(aside(|| paths.map(|path| path.to_string_lossy().into_owned()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_accounts_for_what_is_left_beside_it() {
        let announced = Announced { paths: BTreeSet::from(["src/one.txt".to_owned()]), anything: false, is_read: true };
        let written = ["src", "src/one.txt", "src/one.txt.tmp.2.4e26", "src/one.txt.sh", "src/one.tmp", "two"].map(str::to_owned);
        assert_eq!(announced.unaccounted(&written), ["src/one.txt.sh", "src/one.tmp", "two"]);

        let halves = |announced: &Announced| written.clone().map(|path| announced.half_replaced(&path).map(str::to_owned));
        let only = [None, None, Some("src/one.txt".to_owned()), None, None, None];
        assert_eq!(halves(&announced), only);
        // A command may have meant it, and so may a call that names it.
        assert_eq!(halves(&Announced { anything: true, ..announced }), [const { None }; 6]);
        let asked = BTreeSet::from(["src/one.txt".to_owned(), "src/one.txt.tmp.2.4e26".to_owned()]);
        assert_eq!(halves(&Announced { paths: asked, anything: false, is_read: true }), [const { None }; 6]);
    }
}
