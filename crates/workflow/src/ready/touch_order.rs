//! The order of steps that meet on a path: of two that touch the same file, one of which writes it, the one that comes first in the plan's order ends before the other begins.
//!
//! Steps are put in one after the other. A tree of folders keeps for every path who wrote it last and who has read it since; whoever touches it next is ordered after those. Where
//! many would have to be named again and again, a *join* stands for them: a point in the order that no step is. So a plan has about as many edges as paths in it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Edges between steps, and joins, which have the numbers after the steps.
pub(super) struct TouchOrder {
    /// What comes after each step or join.
    pub(super) after: Vec<Vec<usize>>,
    folders: Vec<Folder>,
    /// How many folders were looked at.
    pub(super) work: u64,
}

#[derive(Default)]
struct Folder {
    inner: HashMap<String, usize>,
    /// The inner ones with a writer in them or below.
    written: BTreeSet<usize>,
    writer: Option<usize>,
    readers: Vec<usize>,
}

const ROOT: usize = 0;
/// Folders that are kept apart. A planner can write millions of them into few bytes; beyond this a path is taken for the folder that it is in, which only orders more.
const FOLDERS_MAX: usize = 100_000;
/// Folders in folders that are told apart.
const LEVELS_MAX: usize = 64;

impl TouchOrder {
    pub(super) fn new(steps: usize) -> TouchOrder {
        TouchOrder { after: vec![Vec::new(); steps], folders: vec![Folder::default()], work: 0 }
    }

    /// Puts a step in, after all that were put in before and that it meets.
    pub(super) fn add(&mut self, step: usize, reads: &[Vec<String>], writes: &[Vec<String>]) {
        let (reads, writes) = (self.lines(reads), self.lines(writes));
        // It is looked up everywhere before it is put in anywhere, so that no join has it.
        let mut earlier = BTreeSet::new();
        for line in &writes {
            self.before_write(line, &mut earlier);
        }
        for line in &reads {
            self.before_read(line, &mut earlier);
        }
        for other in earlier {
            self.after[other].push(step);
        }
        for line in &reads {
            self.folders[end(line)].readers.push(step);
        }
        for line in &writes {
            self.clear(end(line));
            self.set_writer(line, step);
        }
    }

    /// The folders of each path, of paths that end at the same one once.
    fn lines(&mut self, paths: &[Vec<String>]) -> Vec<Vec<usize>> {
        let mut lines = BTreeMap::new();
        for path in paths {
            let line = self.open(path);
            lines.insert(end(&line), line);
        }
        lines.into_values().collect()
    }

    /// Who must have ended before a path is written: who wrote or read it, something below it, or a folder that it is in.
    fn before_write(&mut self, line: &[usize], earlier: &mut BTreeSet<usize>) {
        for folder in line.iter().take(line.len() - 1).copied() {
            earlier.extend(self.folders[folder].writer);
            if self.folders[folder].readers.len() > 1 {
                let readers = std::mem::take(&mut self.folders[folder].readers);
                let join = self.join(&readers);
                self.folders[folder].readers.push(join);
            }
            earlier.extend(self.folders[folder].readers.iter().copied());
        }
        let mut open = vec![end(line)];
        while let Some(folder) = open.pop() {
            self.work += 1;
            let folder = &self.folders[folder];
            earlier.extend(folder.writer);
            earlier.extend(folder.readers.iter().copied());
            open.extend(folder.inner.values().copied());
        }
    }

    /// Who must have ended before a path is read: who wrote it, something below it, or a folder that it is in.
    fn before_read(&mut self, line: &[usize], earlier: &mut BTreeSet<usize>) {
        earlier.extend(line.iter().filter_map(|folder| self.folders[*folder].writer));
        let top = end(line);
        if self.folders[top].written.is_empty() {
            return;
        }
        // All who wrote below stand at the folder from now on, so that the next one who reads it does not look for them again.
        let mut writers: BTreeSet<usize> = self.folders[top].writer.into_iter().collect();
        let mut open: Vec<usize> = std::mem::take(&mut self.folders[top].written).into_iter().collect();
        while let Some(folder) = open.pop() {
            self.work += 1;
            let folder = &mut self.folders[folder];
            writers.extend(folder.writer.take());
            open.extend(std::mem::take(&mut folder.written));
        }
        let writers: Vec<usize> = writers.into_iter().collect();
        let writer = match writers.as_slice() {
            [one] => *one,
            several => self.join(several),
        };
        self.set_writer(line, writer);
        earlier.insert(writer);
    }

    /// A point after all of these.
    fn join(&mut self, of: &[usize]) -> usize {
        let join = self.after.len();
        self.after.push(Vec::new());
        for other in of {
            self.after[*other].push(join);
        }
        join
    }

    fn set_writer(&mut self, line: &[usize], writer: usize) {
        self.folders[end(line)].writer = Some(writer);
        for pair in line.windows(2) {
            self.folders[pair[0]].written.insert(pair[1]);
        }
    }

    /// Forgets what was done in and below a folder.
    fn clear(&mut self, folder: usize) {
        let mut open = vec![folder];
        while let Some(at) = open.pop() {
            self.work += 1;
            let folder = std::mem::take(&mut self.folders[at]);
            open.extend(folder.inner.into_values());
        }
    }

    /// The folders of a path, the root first and the path itself last.
    fn open(&mut self, path: &[String]) -> Vec<usize> {
        let mut line = vec![ROOT];
        for name in path.iter().take(LEVELS_MAX) {
            self.work += 1;
            let at = end(&line);
            let next = self.folders.len();
            let inner = match self.folders[at].inner.get(name) {
                Some(inner) => *inner,
                None if next >= FOLDERS_MAX => break,
                None => {
                    self.folders[at].inner.insert(name.clone(), next);
                    self.folders.push(Folder::default());
                    next
                }
            };
            line.push(inner);
        }
        line
    }
}

fn end(line: &[usize]) -> usize {
    line.last().copied().unwrap_or(ROOT)
}

/// The names of a path below the project. One that could lead anywhere stands for all of it.
pub(super) fn names(path: &str) -> Vec<String> {
    let names: Vec<String> = path.split('/').filter(|name| !name.is_empty() && *name != ".").map(str::to_owned).collect();
    if path.starts_with('/') || names.iter().any(|name| name == "..") { Vec::new() } else { names }
}
