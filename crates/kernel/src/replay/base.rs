//! The workspace of a replay: finds on record what the original began with, and has `workspace::replay` lay it over the project.

use crate::Kernel;
use room::RoomContent;
use std::path::Path;
use workspace::replay::{lay, paths_since, unknown};
use workspace::{Bases, Dirty, Sight};
use world::{Base, Event, Stop, TaskId, ZoneId};

/// Where the original started.
pub(crate) struct OriginalStart {
    /// HEAD when its workspace was opened.
    pub opened: Option<String>,
    pub base: Base,
}

/// What the original started from, with the layer that brings it back.
pub(crate) async fn rebuild(
    kernel: &Kernel,
    of: TaskId,
    zone: ZoneId,
    project: &Path,
    work: &Path,
    sight: &Sight,
) -> Result<OriginalStart, Stop> {
    let (mut opened, mut based) = (None, None);
    for event in kernel.ledger.events(of, &["workspace.opened", "workspace.based"])? {
        match event {
            Event::WorkspaceOpened(event) => opened = Some(event.head),
            Event::WorkspaceBased(event) => based = Some(Base { head: event.head, blob: event.blob, until_us: event.until_us }),
            _ => {}
        }
    }
    let opened = opened.ok_or_else(|| unknown(format!("{of} had no workspace, so what it started from is not known")))?;
    let base = based.ok_or_else(|| unknown(format!("{of} ended before it was on record what it started from")))?;
    let dirty = Dirty::parse(&kernel.ledger.blob(&base.blob)?)?;
    let throwaway = kernel.throwaways.open(zone, project, RoomContent::Repository).await?;
    let paths = paths_since(throwaway.room()?, of, &base, &dirty, sight).await?;
    if !paths.is_empty() {
        let list: Vec<&str> = paths.iter().map(String::as_str).collect();
        let bases = Bases::at(throwaway.room()?, &base, dirty, &list).await?;
        lay(of, project, work, &bases, &|blob| kernel.ledger.blob(blob), &paths).await?;
    }
    throwaway.close().await?;
    Ok(OriginalStart { opened, base })
}
