//! Cobertura's XML: classes with a file name and lines with their hits.

use super::{FileLines, LineCoverage, too_many};
use crate::limits::XML_NODES_MAX;
use roxmltree::{Document, ParsingOptions};
use std::collections::BTreeMap;

pub(super) fn parse(text: &str) -> Result<Vec<(String, LineCoverage)>, String> {
    // coverage.py writes a reference to a DTD, which nobody fetches.
    let options = ParsingOptions { allow_dtd: true, nodes_limit: XML_NODES_MAX, ..ParsingOptions::default() };
    if text.contains("<!ENTITY") {
        return Err("the report defines entities".to_owned());
    }
    let document = Document::parse_with_options(text, options).map_err(|error| format!("the report is no XML: {error}"))?;
    if !document.root_element().has_tag_name("coverage") {
        return Err(format!("the report begins with <{}> and not with <coverage>", document.root_element().tag_name().name()));
    }
    let sources: Vec<&str> = document.descendants().filter(|node| node.has_tag_name("source")).filter_map(|node| node.text()).collect();
    let mut files: BTreeMap<String, FileLines> = BTreeMap::new();
    for class in document.descendants().filter(|node| node.has_tag_name("class")) {
        let name = class.attribute("filename").ok_or_else(|| "a class names no file".to_owned())?;
        // Names are relative to the one source, where there is one.
        let path = match sources.as_slice() {
            [source] if !name.starts_with('/') && !source.trim().is_empty() => format!("{}/{name}", source.trim().trim_end_matches('/')),
            _ => name.to_owned(),
        };
        let lines = files.entry(path).or_default();
        for line in class.children().filter(|node| node.has_tag_name("lines")).flat_map(|node| node.children()) {
            if !line.has_tag_name("line") {
                continue;
            }
            let number = |name: &str| line.attribute(name).and_then(|number| number.trim().parse().ok());
            let wrong = || format!("{name}: a line has no number or no hits");
            lines.add(number("number").ok_or_else(wrong)?, number("hits").ok_or_else(wrong)?)?;
        }
        too_many(files.len())?;
    }
    Ok(files.into_iter().map(|(path, lines)| (path, lines.coverage())).collect())
}
