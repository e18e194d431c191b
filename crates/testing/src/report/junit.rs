//! JUnit XML, as pytest and many others write it.

use super::{ParsedReport, reason_of};
use crate::limits::XML_NODES_MAX;
use crate::run::{FailureReason, TestCaseOutcome, TestResult};
use roxmltree::{Document, Node, ParsingOptions};

pub(super) fn parse(text: &str) -> Result<ParsedReport, String> {
    let options = ParsingOptions { allow_dtd: false, nodes_limit: XML_NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| format!("the report is no XML: {error}"))?;
    let root = document.root_element();
    if !matches!(root.tag_name().name(), "testsuites" | "testsuite") {
        return Err(format!("the report begins with <{}> and not with a suite of tests", root.tag_name().name()));
    }
    let mut parsed = ParsedReport::default();
    for case in root.descendants().filter(|node| node.has_tag_name("testcase")) {
        parsed.tests.push(one(case, &mut parsed.broken));
    }
    let suites =
        root.descendants().filter(|node| node.has_tag_name("testsuite") && node.children().any(|child| child.has_tag_name("testcase")));
    for suite in suites {
        totals(suite, &mut parsed.doubts);
    }
    // A suite that says it has tests and lists none.
    let empty =
        root.descendants().filter(|node| node.has_tag_name("testsuite") && !node.descendants().any(|child| child.has_tag_name("testcase")));
    for suite in empty.filter(|suite| number(*suite, "tests").is_some_and(|tests| tests > 0)) {
        totals(suite, &mut parsed.doubts);
    }
    Ok(parsed)
}

fn number(node: Node<'_, '_>, name: &str) -> Option<u64> {
    node.attribute(name)?.trim().parse().ok()
}

fn child<'a, 'i>(case: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    case.children().find(|child| child.has_tag_name(name))
}

fn one(case: Node<'_, '_>, broken: &mut Vec<String>) -> TestResult {
    let attribute = |name: &str| case.attribute(name).unwrap_or_default();
    let new = |outcome| TestResult::new(attribute("classname"), attribute("name"), outcome).in_file(attribute("file"));
    let said = |node: Node<'_, '_>| {
        let message = node.attribute("message").unwrap_or_default();
        if message.is_empty() { node.text().unwrap_or_default().trim().to_owned() } else { message.to_owned() }
    };
    if let Some(error) = child(case, "error") {
        let message = said(error);
        if message == "collection failure" {
            let text = error.text().unwrap_or_default();
            let last = text.lines().rev().find(|line| line.starts_with("E ")).unwrap_or_default();
            broken.push(format!("{} cannot be imported: {}", attribute("name"), last.trim_start_matches('E').trim()));
        }
        return new(TestCaseOutcome::Errored).because(FailureReason::Exception, &message);
    }
    if let Some(failure) = child(case, "failure") {
        let message = said(failure);
        let kind = failure.attribute("type").unwrap_or_default();
        let reason = if kind.contains("Assertion") { FailureReason::Assertion } else { reason_of(&message) };
        return new(TestCaseOutcome::Failed).because(reason, &message);
    }
    if child(case, "skipped").is_some() {
        return new(TestCaseOutcome::Skipped);
    }
    new(TestCaseOutcome::Passed)
}

/// The numbers that a suite tells must be those that it lists. A test that passed and whose tear-down failed is counted twice by pytest.
fn totals(suite: Node<'_, '_>, doubts: &mut Vec<String>) {
    let cases = || suite.children().filter(|node| node.has_tag_name("testcase"));
    let with = |name: &str| cases().filter(|case| child(*case, name).is_some()).count() as u64;
    let (listed, errors) = (cases().count() as u64, with("error"));
    if let Some(tests) = number(suite, "tests")
        && (tests < listed || tests > listed + errors)
    {
        doubts.push(format!("the report announces {tests} tests and lists {listed}"));
    }
    for (told, name) in [("failures", "failure"), ("errors", "error")] {
        if let Some(told) = number(suite, told).filter(|told| *told != with(name)) {
            doubts.push(format!("the report announces {told} of <{name}> and lists {}", with(name)));
        }
    }
}
