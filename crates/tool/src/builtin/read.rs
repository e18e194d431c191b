//! `fs.read`

use super::{blocking, exactly, exactly_of, number, part_bytes_max, path_in, shown, text, time_of};
use crate::context::Context;
use crate::fault::{ToolFault, ToolStop};
use crate::manifest::Manifest;
use crate::resolved_path::{Access, NamedPath, ResolvedPath};
use crate::tool::{Output, Tool, ToolFuture};
use base64::prelude::{BASE64_STANDARD, Engine};
use rustix::io::ReadWriteFlags;
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use world::limits::READ_BYTES_MAX;
use world::{Code, Refusal};

/// Bytes of one character at most: what a cut can leave over.
const CHAR_BYTES_MAX: usize = 4;
/// Read between two looks at the clock.
const CHUNK_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub(super) struct FsRead(pub(super) Manifest);

impl Tool for FsRead {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn named_paths(&self, input: &Value) -> Vec<NamedPath> {
        vec![path_in(input, "path", Access::Read)]
    }

    fn dry_run(&self, _input: &Value, paths: &[ResolvedPath], _context: &Context<'_>) -> Result<String, ToolStop> {
        let [path] = exactly_of(paths)?;
        let (_, bytes) = path.file()?;
        Ok(format!("read {} ({bytes} bytes)", shown(path)))
    }

    fn execute<'a>(&'a self, input: &'a Value, paths: Vec<ResolvedPath>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move {
            let [path] = exactly(paths)?;
            run(input, path, part_bytes_max(&self.0, context), time_of(&self.0)).await
        })
    }
}

async fn run(input: &Value, resolved: ResolvedPath, output_max: usize, time: Duration) -> Result<Output, ToolStop> {
    let (offset, limit) = (number(input, "offset")?, number(input, "limit")?);
    let as_base64 = text(input, "encoding") == Some("base64");
    let part = Part { offset, limit, as_base64, output_max };
    match read(&resolved, &part, read_remembered) {
        Err(ToolStop::Failed(ToolFault::Io { cause, .. })) if is_disk_needed(&cause) => {}
        done => return done,
    }
    blocking(time, move |deadline| read(&resolved, &part, |file, offset, wanted| read_at(file, offset, wanted, deadline))).await
}

/// More than this is copied on a thread where that holds up nobody.
const REMEMBERED_BYTES_MAX: usize = 64 * 1024;

/// Reads what the operating system has in memory; an error that [`is_disk_needed`] knows where that is not all of it.
fn read_remembered(file: &File, offset: u64, wanted: usize) -> std::io::Result<Vec<u8>> {
    if wanted > REMEMBERED_BYTES_MAX {
        return Err(std::io::ErrorKind::WouldBlock.into());
    }
    let mut bytes = vec![0; wanted];
    let mut parts = [std::io::IoSliceMut::new(&mut bytes)];
    let count = rustix::io::preadv2(file, &mut parts, offset, ReadWriteFlags::NOWAIT)?;
    // A file that became shorter is for the other reader, as is one that is only partly there.
    if count == wanted { Ok(bytes) } else { Err(std::io::ErrorKind::WouldBlock.into()) }
}

/// Some file systems cannot say what they have in memory.
fn is_disk_needed(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Unsupported | std::io::ErrorKind::Interrupted)
}

/// The part of a file that is wanted.
struct Part {
    offset: Option<u64>,
    limit: Option<u64>,
    as_base64: bool,
    output_max: usize,
}

fn read(
    resolved: &ResolvedPath,
    part: &Part,
    read_at: impl FnOnce(&File, u64, usize) -> std::io::Result<Vec<u8>>,
) -> Result<Output, ToolStop> {
    let Part { offset, limit, as_base64, output_max } = *part;
    let path = resolved.real.as_str();
    let (file, size) = resolved.file()?;
    if size > READ_BYTES_MAX && (offset.is_none() || limit.is_none()) {
        return Err(Refusal::new(
            Code::TooLarge,
            format!("`{path}` has {size} bytes; {READ_BYTES_MAX} are read without being asked twice"),
        )
        .hint("name `offset` and `limit`, or find the place with search.grep")
        .into());
    }
    let offset = offset.unwrap_or(0);
    // Four letters stand for three bytes.
    let room = if as_base64 { output_max / 4 * 3 } else { output_max };
    let wanted = usize::try_from(limit.unwrap_or(u64::MAX).min(size.saturating_sub(offset))).unwrap_or(usize::MAX).min(room);
    let bytes = read_at(&file, offset, wanted).map_err(|error| ToolFault::io("read", path, error))?;
    let (content, skipped, used) = if as_base64 {
        (BASE64_STANDARD.encode(&bytes), 0, bytes.len())
    } else {
        let (skipped, end) = characters(&bytes, offset, size);
        match std::str::from_utf8(&bytes[skipped..end]) {
            Ok(text) => (text.to_owned(), skipped, end - skipped),
            Err(error) => return Err(binary(path, size, offset + to_u64(skipped + error.valid_up_to())).into()),
        }
    };
    let start = offset + to_u64(skipped);
    let next = start + to_u64(used);
    let truncated = next < size && used > 0;
    let mut value = json!({
        "path": path,
        "content": content,
        "encoding": if as_base64 { "base64" } else { "utf-8" },
        "offset": start,
        "bytes": used,
        "size": size,
        "truncated": truncated,
    });
    if truncated {
        value["next_offset"] = next.into();
    }
    Ok(Output::good(value))
}

fn read_at(file: &File, offset: u64, wanted: usize, deadline: Instant) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; wanted];
    let mut filled = 0;
    while filled < wanted {
        if Instant::now() >= deadline {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        let end = wanted.min(filled + CHUNK_BYTES);
        match file.read_at(&mut bytes[filled..end], offset + to_u64(filled)) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// The whole characters in a part of a file: a cut may go through the first and the last.
fn characters(bytes: &[u8], offset: u64, size: u64) -> (usize, usize) {
    let is_inner = |byte: &&u8| **byte & 0b1100_0000 == 0b1000_0000;
    let skipped = if offset == 0 { 0 } else { bytes.iter().take(CHAR_BYTES_MAX - 1).take_while(is_inner).count() };
    if offset + to_u64(bytes.len()) >= size {
        return (skipped, bytes.len());
    }
    match std::str::from_utf8(&bytes[skipped..]) {
        // Only a character that the cut went through; anything else is for the caller to find.
        Err(error) if error.error_len().is_none() => (skipped, skipped + error.valid_up_to()),
        _ => (skipped, bytes.len()),
    }
}

fn binary(path: &str, size: u64, at: u64) -> Refusal {
    Refusal::new(Code::BadInput, format!("`{path}` is not text: byte {at} of {size} is not UTF-8"))
        .hint("ask with `encoding: base64`, or look at it in the sandbox with shell.run")
}

fn to_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
