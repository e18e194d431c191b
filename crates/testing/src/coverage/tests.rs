use super::*;

#[track_caller]
fn check(text: &str, format: CoverageFormat, expected: &[(&str, u64, u64)]) {
    let (found, coverage) = read_coverage(text, "/p").unwrap();
    let files: Vec<(&str, u64, u64)> = coverage.files.iter().map(|(path, lines)| (path.as_str(), lines.covered, lines.total)).collect();
    assert_eq!((found, files.as_slice()), (format, expected), "{text}");
}

const LCOV: &str = "TN:\nSF:/p/src/a.js\nDA:1,3\nDA:2,0\nDA:2,1\nDA:3,0\nend_of_record\nSF:src/b.js\nDA:1,-1\nend_of_record\n";

#[test]
fn each_form_is_read() {
    check(LCOV, CoverageFormat::Lcov, &[("src/a.js", 2, 3), ("src/b.js", 0, 1)]);
    let summary = r#"{"total": {"lines": {"total": 9, "covered": 9}}, "/p/a.js": {"lines": {"total": 4, "covered": 3}}}"#;
    check(summary, CoverageFormat::IstanbulSummary, &[("a.js", 3, 4)]);
    let full = r#"{"/p/a.js": {"path": "/p/a.js", "statementMap": {"0": {"start": {"line": 1}}, "1": {"start": {"line": 1}}, "2": {"start": {"line": 5}}}, "s": {"0": 0, "1": 2, "2": 0}}}"#;
    check(full, CoverageFormat::Istanbul, &[("a.js", 1, 2)]);
    let llvm = r#"{"type": "llvm.coverage.json.export", "data": [{"files": [{"filename": "/p/src/lib.rs", "summary": {"lines": {"count": 10, "covered": 7}}}]}]}"#;
    check(llvm, CoverageFormat::LlvmCov, &[("src/lib.rs", 7, 10)]);
    let cobertura = "<?xml version=\"1.0\" ?><!DOCTYPE coverage SYSTEM 'http://cobertura.sourceforge.net/xml/coverage-04.dtd'><coverage><sources><source>/p</source></sources>\
        <packages><package><classes><class filename=\"src/a.py\"><methods/><lines><line number=\"1\" hits=\"1\"/><line number=\"2\" hits=\"0\"/></lines></class></classes></package></packages></coverage>";
    check(cobertura, CoverageFormat::Cobertura, &[("src/a.py", 1, 2)]);
}

#[test]
fn what_is_no_report_covers_nothing() {
    for text in [
        "",
        "hello",
        "DA:1,1\n",
        "SF:a\nDA:1,1\n",
        "SF:a\nDA:x,1\nend_of_record\n",
        "SF:a\nend_of_record\n",
        "SF:a\nDA:99999999,1\nend_of_record\n",
        "{}",
        "{\"a.js\": {}}",
        "{\"a.js\": {\"lines\": {\"total\": 1, \"covered\": 2}}}",
        "<coverage/>",
        "<coverage><class/></coverage>",
        "<!DOCTYPE a [<!ENTITY b \"c\">]><coverage/>",
        "<html/>",
    ] {
        assert!(read_coverage(text, "/p").is_err(), "{text}");
    }
}

#[test]
fn changes_are_told_file_by_file() {
    let (_, before) = read_coverage(LCOV, "/p").unwrap();
    let after = Coverage {
        files: BTreeMap::from([
            ("src/a.js".to_owned(), LineCoverage { covered: 1, total: 2 }),
            ("src/c.js".to_owned(), LineCoverage { covered: 1, total: 1 }),
        ]),
    };
    let changes: Vec<(String, Option<u64>, Option<u64>)> =
        compare_coverage(&before, &after).into_iter().map(|change| (change.path, change.before, change.after)).collect();
    assert_eq!(
        changes,
        [
            ("src/a.js".to_owned(), Some(6_666), Some(5_000)),
            ("src/b.js".to_owned(), Some(0), None),
            ("src/c.js".to_owned(), None, Some(10_000)),
        ]
    );
    assert!(compare_coverage(&before, &before).is_empty());
}

#[test]
fn what_does_not_fit_the_files_is_told() {
    let of = |covered, total| Coverage { files: BTreeMap::from([("a".to_owned(), LineCoverage { covered, total })]) };
    let lines = |path: &str| (path == "a").then_some(10);
    assert_eq!(of(5, 10).contradiction(lines), None);
    assert_eq!(of(5, 11).contradiction(lines).as_deref(), Some("it has 11 lines of `a`, which has 10"));
    assert!(of(6, 5).contradiction(lines).is_some());
    let other = Coverage { files: BTreeMap::from([("b".to_owned(), LineCoverage::default())]) };
    assert_eq!(other.contradiction(lines).as_deref(), Some("it names `b`, which is not there"));
    assert!(of(5, 10).without(|path| path == "a").files.is_empty());
}
