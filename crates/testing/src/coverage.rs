//! Which lines tests reach: reports of coverage, and what changed between two of them.
//!
//! **Invariant.** A report that cannot be read, or covers nothing, is never a gain. Coverage is compared in hundredths of a percent, so that no
//! rounding decides. *Does not know* whether a report was forged: it is made by the run that it is about.

mod cobertura;
mod json;
mod lcov;

use crate::limits::REPORT_BYTES_MAX;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Files of one report.
const FILES_MAX: usize = 100_000;
/// Lines of one file.
const LINES_MAX: u64 = 1_000_000;

/// Lines of one file that can be run, and those that were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineCoverage {
    pub covered: u64,
    pub total: u64,
}

impl LineCoverage {
    /// In hundredths of a percent; a file without lines has all of none.
    pub fn hundredths(&self) -> u64 {
        self.covered.min(self.total).saturating_mul(10_000).checked_div(self.total).unwrap_or(10_000)
    }
}

/// How much of each file the tests reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    pub files: BTreeMap<String, LineCoverage>,
}

impl Coverage {
    /// Without these files: tests reach themselves, and that says nothing.
    pub fn without(mut self, is_left_out: impl Fn(&str) -> bool) -> Coverage {
        self.files.retain(|path, _| !is_left_out(path));
        self
    }

    /// Why this cannot be about the files that there are, if it cannot. `lines` says how many lines a file has.
    pub fn contradiction(&self, lines: impl Fn(&str) -> Option<u64>) -> Option<String> {
        self.files.iter().find_map(|(path, coverage)| match lines(path) {
            None => Some(format!("it names `{path}`, which is not there")),
            Some(has) if coverage.total > has => Some(format!("it has {} lines of `{path}`, which has {has}", coverage.total)),
            Some(_) if coverage.covered > coverage.total => Some(format!("it has more lines of `{path}` that ran than lines that can run")),
            Some(_) => None,
        })
    }

    /// All files together.
    pub fn total(&self) -> LineCoverage {
        self.files.values().fold(LineCoverage::default(), |sum, file| LineCoverage {
            covered: sum.covered.saturating_add(file.covered),
            total: sum.total.saturating_add(file.total),
        })
    }
}

/// In which form coverage is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoverageFormat {
    Lcov,
    /// `coverage-summary.json`
    IstanbulSummary,
    /// `coverage-final.json`
    Istanbul,
    Cobertura,
    /// `llvm-cov export`
    LlvmCov,
}

/// Reads a report of coverage, whose form its content tells. Paths below `root` become relative.
pub fn read_coverage(text: &str, root: &str) -> Result<(CoverageFormat, Coverage), String> {
    if text.len() > REPORT_BYTES_MAX {
        return Err(format!("the report has more than {REPORT_BYTES_MAX} bytes"));
    }
    let start = text.trim_start_matches('\u{feff}').trim_start();
    let (format, lines) = if start.starts_with('<') {
        (CoverageFormat::Cobertura, cobertura::parse(start)?)
    } else if start.starts_with('{') {
        json::parse(start)?
    } else {
        (CoverageFormat::Lcov, lcov::parse(start)?)
    };
    let prefix = format!("{}/", root.trim_end_matches('/'));
    let mut files: BTreeMap<String, LineCoverage> = BTreeMap::new();
    for (path, lines) in lines {
        let path = path.strip_prefix(&prefix).unwrap_or(&path).trim_start_matches("./").to_owned();
        let found = files.entry(path).or_default();
        found.covered = found.covered.saturating_add(lines.covered);
        found.total = found.total.saturating_add(lines.total);
    }
    if files.values().all(|file| file.total == 0) {
        return Err("the report has no lines that could be covered".to_owned());
    }
    Ok((format, Coverage { files }))
}

/// Lines by number, as most reports tell them.
#[derive(Default)]
struct FileLines {
    covered: BTreeSet<u64>,
    all: BTreeSet<u64>,
}

impl FileLines {
    fn add(&mut self, line: u64, hits: u64) -> Result<(), String> {
        if line > LINES_MAX {
            return Err(format!("the report has a line {line}"));
        }
        self.all.insert(line);
        if hits > 0 {
            self.covered.insert(line);
        }
        Ok(())
    }

    fn coverage(&self) -> LineCoverage {
        LineCoverage { covered: self.covered.len() as u64, total: self.all.len() as u64 }
    }
}

fn too_many(files: usize) -> Result<(), String> {
    if files > FILES_MAX { Err(format!("the report has more than {FILES_MAX} files")) } else { Ok(()) }
}

/// How one file's coverage changed, in hundredths of a percent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileCoverageChange {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// Files whose coverage changed, came or went; those that lost most first.
pub fn compare_coverage(before: &Coverage, after: &Coverage) -> Vec<FileCoverageChange> {
    let paths: BTreeSet<&String> = before.files.keys().chain(after.files.keys()).collect();
    let of = |coverage: &Coverage, path: &String| coverage.files.get(path).map(LineCoverage::hundredths);
    let mut changes: Vec<FileCoverageChange> = paths
        .into_iter()
        .map(|path| FileCoverageChange { path: path.clone(), before: of(before, path), after: of(after, path) })
        .filter(|change| change.before != change.after)
        .collect();
    let gain = |change: &FileCoverageChange| change.after.unwrap_or(0) as i64 - change.before.unwrap_or(0) as i64;
    changes.sort_by_key(|change| (gain(change), change.path.clone()));
    changes
}

#[cfg(test)]
mod tests;
