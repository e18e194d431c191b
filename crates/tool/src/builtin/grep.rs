//! `search.grep`, by ripgrep's own libraries.

use super::{blocking, exactly, exactly_of, glob, number, part_bytes_max, path_in, shown, text, time_of};
use crate::context::Context;
use crate::fault::{ToolFault, ToolStop};
use crate::manifest::Manifest;
use crate::place::{Access, Found, Place, Target};
use crate::tool::{Output, Tool, ToolFuture};
use crate::walk;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use serde_json::{Value, json};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use world::limits::READ_BYTES_MAX;
use world::{Code, Refusal};

/// Lines that are told when the caller names no number.
const LINES_DEFAULT: u64 = 200;
/// Characters of one line that are told: a minified file has only one.
const LINE_CHARS_MAX: usize = 400;
/// What the names of a line's fields cost.
const FIELD_BYTES: usize = 40;
/// Memory of a compiled pattern, and of its cache.
const REGEX_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Names of files that were passed over.
const SKIPPED_MAX: usize = 20;

#[derive(Debug)]
pub(super) struct SearchGrep(pub(super) Manifest);

impl Tool for SearchGrep {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn targets(&self, input: &Value) -> Vec<Target> {
        vec![path_in(input, "path", Access::List)]
    }

    fn dry_run(&self, input: &Value, paths: &[Place], _context: &Context<'_>) -> Result<String, ToolStop> {
        let [path] = exactly_of(paths)?;
        Ok(format!("search {} for `{}`", shown(path), text(input, "pattern").unwrap_or_default()))
    }

    fn execute<'a>(&'a self, input: &'a Value, paths: Vec<Place>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move {
            let [path] = exactly(paths)?;
            run(input, path, context, part_bytes_max(&self.0, context), time_of(&self.0)).await
        })
    }
}

async fn run(input: &Value, place: Place, context: &Context<'_>, output_max: usize, time: Duration) -> Result<Output, ToolStop> {
    let matcher = parse(text(input, "pattern").unwrap_or_default())?;
    let filter = text(input, "glob").map(glob::parse).transpose()?;
    let max = usize::try_from(number(input, "max")?.unwrap_or(LINES_DEFAULT)).unwrap_or(usize::MAX);
    let search = Search {
        matcher,
        hits: Vec::new(),
        max,
        bytes: 0,
        output_max,
        searched: 0,
        skipped: Vec::new(),
        truncated: false,
        deadline: Instant::now() + time,
    };

    if let Found::File { .. } = place.found {
        return blocking(time, move |_| {
            let mut search = search;
            let (file, size) = place.file()?;
            search.file(place.real.as_str(), &file, size)?;
            Ok(search.output())
        })
        .await;
    }
    let found = glob::files(place, context, time).await?;
    let wanted = |path: &String| filter.as_ref().is_none_or(|filter| glob::matches(filter, path)) && (context.visible)(path);
    let files: Vec<String> = found.files.into_iter().filter(wanted).collect();
    let root = context.root.try_clone_to_owned().map_err(|error| ToolFault::io("open", ".", error))?;
    blocking(time, move |_| {
        let mut search = Search { truncated: found.truncated, ..search };
        search.files(&root, &files)?;
        Ok(search.output())
    })
    .await
}

fn parse(pattern: &str) -> Result<RegexMatcher, Refusal> {
    let mut builder = RegexMatcherBuilder::new();
    builder.line_terminator(Some(b'\n')).size_limit(REGEX_BYTES_MAX).dfa_size_limit(REGEX_BYTES_MAX);
    builder.build(pattern).map_err(|error| {
        Refusal::new(Code::BadInput, format!("`{pattern}` is not a regular expression for one line: {error}"))
            .hint("put `\\` before characters that are meant as they are, such as `\\(`")
    })
}

struct Search {
    matcher: RegexMatcher,
    hits: Vec<Value>,
    max: usize,
    /// Bytes of the lines in `hits`.
    bytes: usize,
    output_max: usize,
    searched: usize,
    skipped: Vec<String>,
    truncated: bool,
    deadline: Instant,
}

impl Search {
    fn files(&mut self, root: &OwnedFd, files: &[String]) -> Result<(), ToolFault> {
        for path in files {
            if self.full() {
                break;
            }
            match walk::open_file(root.as_fd(), path) {
                Ok((file, size)) => self.file(path, &file, size)?,
                Err(error) if walk::is_passed_over(error) => {}
                Err(error) => return Err(ToolFault::io("open", path, error)),
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &str, file: &File, size: u64) -> Result<(), ToolFault> {
        if size > READ_BYTES_MAX {
            self.skipped.push(path.to_owned());
            return Ok(());
        }
        self.searched += 1;
        let matcher = self.matcher.clone();
        let timed = Timed { file, deadline: self.deadline };
        match searcher().search_reader(&matcher, timed, Lines { search: self, path }) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                self.truncated = true;
                Ok(())
            }
            result => result.map_err(|error| ToolFault::io("search", path, error)),
        }
    }

    /// Enough found, or enough time spent. One line more than asked for shows that there is more.
    fn full(&mut self) -> bool {
        let full = self.hits.len() > self.max || self.bytes > self.output_max || Instant::now() >= self.deadline;
        self.truncated |= full;
        full
    }

    fn output(mut self) -> Output {
        self.hits.truncate(self.max);
        let mut value = json!({ "matches": self.hits, "files_searched": self.searched, "truncated": self.truncated });
        if !self.skipped.is_empty() {
            self.skipped.truncate(SKIPPED_MAX);
            value["skipped"] = self.skipped.into();
        }
        Output::good(value)
    }
}

/// A file that is read no longer than there is time.
struct Timed<'a> {
    file: &'a File,
    deadline: Instant,
}

impl io::Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if Instant::now() >= self.deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}

fn searcher() -> Searcher {
    SearcherBuilder::new().line_number(true).binary_detection(BinaryDetection::quit(0)).build()
}

struct Lines<'a> {
    search: &'a mut Search,
    path: &'a str,
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let line = String::from_utf8_lossy(found.bytes());
        let line = line.trim_end_matches(['\n', '\r']);
        let text = match line.char_indices().nth(LINE_CHARS_MAX) {
            Some((cut, _)) => format!("{}…", &line[..cut]),
            None => line.to_owned(),
        };
        self.search.bytes += self.path.len() + text.len() + FIELD_BYTES;
        self.search.hits.push(json!({ "path": self.path, "line": found.line_number(), "text": text }));
        Ok(!self.search.full())
    }
}
