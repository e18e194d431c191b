//! Coverage as JSON: istanbul's summary and its whole map, and what `llvm-cov export` writes.

use super::{CoverageFormat, FileLines, LineCoverage, too_many};
use serde_json::Value;

type Files = Vec<(String, LineCoverage)>;

pub(super) fn parse(text: &str) -> Result<(CoverageFormat, Files), String> {
    let report: Value = serde_json::from_str(text).map_err(|error| format!("the report is no JSON: {error}"))?;
    let members = report.as_object().ok_or_else(|| "the report is no object".to_owned())?;
    if report["type"].as_str().is_some_and(|kind| kind.starts_with("llvm.coverage")) {
        return Ok((CoverageFormat::LlvmCov, llvm(&report)?));
    }
    too_many(members.len())?;
    let is_summary = members.values().any(|file| file["lines"]["total"].is_u64());
    let mut files = Vec::new();
    for (path, file) in members.iter().filter(|(path, _)| *path != "total") {
        let lines = if is_summary { counted(&file["lines"], "covered", "total")? } else { statements(path, file)? };
        files.push((path.clone(), lines));
    }
    Ok((if is_summary { CoverageFormat::IstanbulSummary } else { CoverageFormat::Istanbul }, files))
}

fn counted(lines: &Value, covered: &str, total: &str) -> Result<LineCoverage, String> {
    let number = |name: &str| lines[name].as_u64().ok_or_else(|| format!("a file has no number of `{name}` lines"));
    let coverage = LineCoverage { covered: number(covered)?, total: number(total)? };
    if coverage.covered > coverage.total {
        return Err("a file has more covered lines than lines".to_owned());
    }
    Ok(coverage)
}

/// A line is covered as often as the first statement that begins on it, as istanbul counts.
fn statements(path: &str, file: &Value) -> Result<LineCoverage, String> {
    let map = file["statementMap"].as_object().ok_or_else(|| format!("{path} has no map of statements"))?;
    let mut lines = FileLines::default();
    for (id, place) in map {
        let line = place["start"]["line"].as_u64().ok_or_else(|| format!("{path}: a statement has no line"))?;
        let hits = file["s"][id].as_u64().ok_or_else(|| format!("{path}: a statement has no count"))?;
        lines.add(line, hits)?;
    }
    Ok(lines.coverage())
}

fn llvm(report: &Value) -> Result<Files, String> {
    let mut files = Vec::new();
    for data in report["data"].as_array().into_iter().flatten() {
        for file in data["files"].as_array().into_iter().flatten() {
            let path = file["filename"].as_str().ok_or_else(|| "a file has no name".to_owned())?;
            files.push((path.to_owned(), counted(&file["summary"]["lines"], "covered", "count")?));
            too_many(files.len())?;
        }
    }
    Ok(files)
}
