//! `fs.list`

use super::{blocking, exactly, exactly_of, part_bytes_max, path_in, shown_directory, time_of};
use crate::context::Context;
use crate::fault::ToolStop;
use crate::manifest::Manifest;
use crate::resolved_path::{Access, NamedPath, ResolvedPath};
use crate::tool::{Output, Tool, ToolFuture};
use crate::walk;
use rustix::fs::{AtFlags, FileType};
use serde_json::{Value, json};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Entries that are told. Whoever has more to look through wants search.glob.
const ENTRIES_MAX: usize = 2_000;
/// What an entry costs besides its name.
const ENTRY_BYTES: usize = 50;

#[derive(Debug)]
pub(super) struct FsList(pub(super) Manifest);

impl Tool for FsList {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn named_paths(&self, input: &Value) -> Vec<NamedPath> {
        vec![path_in(input, "path", Access::List)]
    }

    fn dry_run(&self, _input: &Value, paths: &[ResolvedPath], _context: &Context<'_>) -> Result<String, ToolStop> {
        let [path] = exactly_of(paths)?;
        Ok(format!("list {}", shown_directory(path)?))
    }

    fn execute<'a>(&'a self, _input: &'a Value, paths: Vec<ResolvedPath>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move {
            let [path] = exactly(paths)?;
            run(path, context, part_bytes_max(&self.0, context), time_of(&self.0)).await
        })
    }
}

async fn run(resolved: ResolvedPath, context: &Context<'_>, output_max: usize, time: Duration) -> Result<Output, ToolStop> {
    let path = resolved.real.as_str().to_owned();
    let (entries, cut) = blocking(time, move |deadline| {
        let directory = resolved.directory()?;
        let (entries, cut) = walk::entries(directory.as_fd(), resolved.real.as_str())?;
        let there = entries.len();
        let entries: Vec<_> =
            entries.into_iter().take_while(|_| Instant::now() < deadline).map(|entry| shown(directory.as_fd(), entry)).collect();
        let cut = cut || entries.len() < there;
        Ok((entries, cut))
    })
    .await?;
    let below = |name: &str| if path == "." { name.to_owned() } else { format!("{path}/{name}") };
    let (mut shown, mut bytes, mut truncated) = (Vec::new(), 0, cut);
    for (name, value) in entries.into_iter().filter(|(name, _)| (context.visible)(&below(name))) {
        bytes += name.len() + ENTRY_BYTES;
        if shown.len() == ENTRIES_MAX || bytes > output_max {
            truncated = true;
            break;
        }
        shown.push(value);
    }
    Ok(Output::good(json!({ "path": path, "entries": shown, "truncated": truncated })))
}

fn shown(directory: BorrowedFd<'_>, entry: walk::FolderEntry) -> (String, Value) {
    let walk::FolderEntry { name, kind } = entry;
    let value = match kind {
        FileType::RegularFile => {
            let size = rustix::fs::statat(directory, name.as_str(), AtFlags::SYMLINK_NOFOLLOW).map(|stat| stat.st_size);
            match size {
                Ok(size) => json!({ "name": name, "kind": "file", "size": size }),
                Err(_) => json!({ "name": name, "kind": "file" }),
            }
        }
        FileType::Directory => json!({ "name": name, "kind": "directory" }),
        FileType::Symlink => json!({ "name": name, "kind": "link" }),
        _ => json!({ "name": name, "kind": "other" }),
    };
    (name, value)
}
