//! lcov's `.info`: `SF:` begins a file, `DA:line,hits` is a line, `end_of_record` ends it.

use super::{FileLines, LineCoverage, too_many};
use std::collections::BTreeMap;

pub(super) fn parse(text: &str) -> Result<Vec<(String, LineCoverage)>, String> {
    let mut files: BTreeMap<String, FileLines> = BTreeMap::new();
    let mut current: Option<String> = None;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(path) = line.strip_prefix("SF:") {
            if current.is_some() {
                return Err(format!("line {}: a file begins within another", at + 1));
            }
            files.entry(path.to_owned()).or_default();
            too_many(files.len())?;
            current = Some(path.to_owned());
        } else if let Some(rest) = line.strip_prefix("DA:") {
            let wrong = || format!("line {}: `{}` is no line of code", at + 1, crate::run::head(line, 60));
            let mut parts = rest.split(',');
            let number = parts.next().and_then(|number| number.trim().parse().ok()).ok_or_else(wrong)?;
            // Some tools write hits that were subtracted below zero.
            let hits: i64 = parts.next().and_then(|hits| hits.trim().parse().ok()).ok_or_else(wrong)?;
            let path = current.as_ref().ok_or_else(|| format!("line {}: a line of code outside of a file", at + 1))?;
            if let Some(file) = files.get_mut(path) {
                file.add(number, u64::try_from(hits).unwrap_or(0))?;
            }
        } else if line == "end_of_record" {
            current.take().ok_or_else(|| format!("line {}: a file ends that did not begin", at + 1))?;
        }
    }
    if current.is_some() {
        return Err("the report ends within a file".to_owned());
    }
    if files.is_empty() {
        return Err("the report names no file".to_owned());
    }
    Ok(files.into_iter().map(|(path, lines)| (path, lines.coverage())).collect())
}
