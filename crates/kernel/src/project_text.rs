//! What a project says to agents, for the built-in brain: `AGENTS.md` and `CLAUDE.md`.
//!
//! Text of the project, as its files are: anybody who can push can write it. So it is read as the brain's own `fs.read` would be, through the
//! task's workspace and its masks, and it is handed on as data and never as the operator's word.

use crate::Kernel;
use brain::ProjectText;
use gate::Who;
use std::os::fd::AsFd;
use workspace::reader::{self, Folder, Unread};
use world::{Fault, FaultKind, Stop, Task};

/// The files, in the order in which they are handed on.
const FILES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];
/// More than any context has room for; the brain cuts it further.
const BYTES_MAX: u64 = 256 * 1024;

/// The files that there are and that the task's process may read.
pub(crate) async fn read(kernel: &Kernel, task: &Task) -> Result<Vec<ProjectText>, Stop> {
    let opened = kernel.workspace_of(task.id).await?;
    let sight = kernel.gate.sight(Who { pid: task.pid, zone: task.zone, task: Some(task.id) })?;
    let is_hidden = |name: &str| sight.hides(name).is_some() || opened.other_name(name).is_some();
    let names: Vec<&str> = FILES.into_iter().filter(|name| !is_hidden(name)).collect();
    let root = opened
        .room
        .root()
        .as_fd()
        .try_clone_to_owned()
        .map_err(|error| Fault::new(FaultKind::Io, "the workspace cannot be read", error))?;
    let project = opened.project.clone();
    let read = reader::bounded(move || {
        let folder = Folder::of(root, &project);
        let text = |name: &str| match folder.read(name, BYTES_MAX) {
            Ok(bytes) => String::from_utf8(bytes).ok(),
            // A link to the other file says nothing new, and what is no file says nothing.
            Err(Unread::Absent) => None,
            Err(why) => {
                world::log!("skep: `{name}` of a project was not read: {why}");
                None
            }
        };
        names.into_iter().filter_map(|name| Some(ProjectText { name: name.to_owned(), text: text(name)? })).collect::<Vec<_>>()
    });
    let found = read.await?;
    Ok(found
        .into_iter()
        .map(|own| ProjectText { text: kernel.ledger.redactor.text(&own.text).into_owned(), ..own })
        .filter(|own| !own.text.trim().is_empty())
        .collect())
}
