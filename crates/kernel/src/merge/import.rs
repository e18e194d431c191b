//! Commits that a brain made in its room, as a reference of the repository that nobody has checked out: `refs/skep/TASK`.
//!
//! They come with the merge that a rule or a person agreed to, after each of their paths was judged. **Invariant.** HEAD, branches and the
//! index stay as they are, a commit with a path that may not change comes with none of the others, and none comes in strict mode, where it
//! could hold what the kernel never looked at.

use super::with_note;
use crate::Kernel;
use gate::MergeRights;
use room::RoomContent;
use std::time::{SystemTime, UNIX_EPOCH};
use workspace::aside;
use workspace::repository::{self, write::task_target};
use workspace::task_commits::{self, TaskCommits};
use world::event::{CommitsImported, CommitsRefused};
use world::{CommitWish, Discipline, Event, FaultKind, Mode, Stop, Task};

/// Why commits of a task in strict mode stay in its room.
const UNSEEN: &str = "this task is in strict mode: the files go in that the kernel looked at, and no commit of the brain's own";

/// Imports the commits of a task; gives the record of it, and the summary with what a person should know.
pub(super) async fn run(kernel: &Kernel, task: &Task, summary: &str) -> Result<(Option<Event>, String), Stop> {
    if task.mode != Mode::Act || task.replays.is_some() || task.proposes_kept {
        return Ok((None, summary.to_owned()));
    }
    let (pid, id) = (task.pid, Some(task.id));
    let reason = match import(kernel, task).await {
        Ok(Imported::None) => return Ok((None, summary.to_owned())),
        Ok(Imported::As { reference, commit, count }) => {
            let note = format!("its {count} {} in {reference}", if count == 1 { "commit is" } else { "commits are" });
            return Ok((Some(CommitsImported { pid, task: id, reference, commit, count: count as u64 }.into()), with_note(summary, &note)));
        }
        Ok(Imported::Refused(why)) => why,
        // It goes on when the disk or the next kernel lets it.
        Err(Stop::Failed(fault)) if matches!(fault.kind, FaultKind::Stopping | FaultKind::DiskFull) => return Err(fault.into()),
        Err(stop) => stop.to_string(),
    };
    let note = with_note(summary, &format!("its commits were not imported: {reason}"));
    Ok((Some(CommitsRefused { pid, task: id, reason }.into()), note))
}

enum Imported {
    None,
    Refused(String),
    As { reference: String, commit: String, count: usize },
}

async fn import(kernel: &Kernel, task: &Task) -> Result<Imported, Stop> {
    let Some(opened) = kernel.workspaces.find(task.id) else { return Ok(Imported::None) };
    // Without anything in git's folder there is nothing new.
    if !aside(|| opened.work.join("upper/.git/objects").is_dir()) {
        return Ok(Imported::None);
    }
    let (project, home) = (&opened.project, &kernel.instance.home.path);
    let base = repository::head(project, home).await?;
    let target = task_target(project, home, &task.id.to_string()).await?;
    let beside = kernel.throwaways.open(task.zone, project, RoomContent::Repository).await?;
    let gate = MergeRights::of(&kernel.gate, task)?;
    let read = task_commits::read(&opened.room, beside.room()?, base.as_deref(), &target.objects(), &gate).await;
    beside.close().await?;
    // Also where the work is exempt from tests: what was proven of its files was proven of no commit.
    let is_strict =
        kernel.ledger.look_at_task(task.id, |task| task.workflow.as_deref().is_some_and(|held| held.mode == Discipline::Strict))?;
    let (head, count, objects) = match read? {
        TaskCommits::None => return Ok(Imported::None),
        // What a commit of the room holds was seen by no test.
        TaskCommits::Ready { .. } if is_strict => return Ok(Imported::Refused(UNSEEN.to_owned())),
        TaskCommits::Refused(why) => return Ok(Imported::Refused(why)),
        TaskCommits::Ready { head, count, objects } => (head, count, objects),
    };
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (branch, message, name, email, zone) = (None, String::new(), "skep".to_owned(), String::new(), String::new());
    let wish = CommitWish { branch, message, name, email, zone };
    aside(|| target.store(&objects))?;
    aside(|| target.swing(target.parent.as_deref(), &head, &wish, now_s, &format!("skep: commits of {}", task.id)))?;
    Ok(Imported::As { reference: target.reference.clone(), commit: head, count })
}
