//! The rules: what is wrong with them, what they say, and what they would have said.

use super::describe::describe;
use super::measure::{ago, plural};
use super::{Line, Page, Tone, diff, table, zone};
use crate::remedy;
use serde::Serialize;
use serde_json::Value;
use wire::method::policy::{
    PolicyChangeEffect, PolicyChangeKind, PolicyChangeView, PolicyCheckResult, PolicyExplainResult, PolicyLogResult, PolicyOutcome,
    PolicyProblem, PolicySuggestResult, PolicyTrialResult, RuleEffect,
};

/// `skep policy test --json`.
#[derive(Debug, Serialize)]
pub struct Tested<'a> {
    #[serde(flatten)]
    pub check: &'a PolicyCheckResult,
    pub examples: u64,
}

/// `skep policy check`, and `test` with a number of examples.
pub fn checked(result: &PolicyCheckResult, name: &str, examples: Option<u64>) -> Page {
    let mut page = problems(&result.problems);
    let (errors, warnings) = result.problems.iter().fold((0, 0), |(e, w), problem| if problem.error { (e + 1, w) } else { (e, w + 1) });
    let count = [(errors, "error"), (warnings, "warning")];
    let count: Vec<_> = count.iter().filter(|(n, _)| *n > 0).map(|(n, noun)| plural(*n, noun)).collect();
    let mut facts = vec![plural(result.rules, "rule")];
    if result.extensions > 0 {
        facts.push(plural(result.extensions, "extension"));
    }
    facts.extend(examples.filter(|_| result.ok).map(|n| match n {
        0 => "no examples".into(),
        n => format!("{} that {}", plural(n, "example"), if n == 1 { "holds" } else { "hold" }),
    }));
    let line = if result.ok { Line::new().good("✓ ") } else { Line::new().bad("✗ ") };
    let line = line.plain(name).faint("  ");
    page.push(match result.ok {
        true => line.plain(facts.join(", ")).wait(if count.is_empty() { String::new() } else { format!("  {}", count.join(", ")) }),
        false => line.bad(count.join(", ")),
    });
    page
}

/// What is wrong or doubtful, each with its place.
pub fn problems(problems: &[PolicyProblem]) -> Page {
    let mut page = Page::new();
    problems.iter().for_each(|problem| said(problem, &mut page));
    page
}

fn said(problem: &PolicyProblem, page: &mut Page) {
    let mark = if problem.error { Line::new().bad("✗ ") } else { Line::new().wait("◍ ") };
    let place = format!("{}:{}:{}", problem.file, problem.line, problem.column);
    page.push(mark.strong(place).plain("  ").plain(&problem.what));
    if let Some(fix) = remedy::fix(problem.hint.as_deref(), problem.remedy.as_ref()) {
        page.because("fix", &fix);
    }
}

fn outcome(outcome: PolicyOutcome) -> Line {
    match outcome {
        PolicyOutcome::Allow => Line::new().good("allow"),
        PolicyOutcome::Deny => Line::new().bad("deny"),
        PolicyOutcome::Review => Line::new().wait("review"),
        PolicyOutcome::Pass => Line::new().faint("pass"),
    }
}

fn effect(effect: RuleEffect) -> Line {
    match effect {
        RuleEffect::Allow => outcome(PolicyOutcome::Allow),
        RuleEffect::Deny => outcome(PolicyOutcome::Deny),
        RuleEffect::RequireReview => outcome(PolicyOutcome::Review),
        RuleEffect::Pass => outcome(PolicyOutcome::Pass),
        RuleEffect::Silent => Line::new().faint("silent"),
    }
}

/// `skep policy explain`.
pub fn explained(tool: &str, input: &Value, result: &PolicyExplainResult) -> Page {
    let mark = match result.outcome {
        PolicyOutcome::Allow => Line::new().good("✓ "),
        PolicyOutcome::Deny => Line::new().bad("✗ "),
        PolicyOutcome::Review | PolicyOutcome::Pass => Line::new().wait("◍ "),
    };
    let mut page = Page(vec![mark.strong(describe(tool, input)).plain("  ").join(outcome(result.outcome))]);
    page.because("why", &result.reason);
    if let Some(fix) = remedy::fix(result.hint.as_deref(), result.remedy.as_deref()) {
        page.because("fix", &fix);
    }
    let (spoke, silent): (Vec<_>, Vec<_>) = result.rules.iter().partition(|rule| rule.said != RuleEffect::Silent);
    let rows = spoke.into_iter().map(|rule| {
        vec![
            Line::new().plain("  ").faint(layer(rule.layer.as_str())),
            Line::new().strong(&rule.rule),
            effect(rule.said),
            Line::new().plain(&rule.why),
        ]
    });
    page.blank();
    page.append(table(rows.collect()));
    if !silent.is_empty() {
        let n = silent.len() as u64;
        page.push(Line::new().faint(format!("  {} that {} not apply", plural(n, "rule"), if n == 1 { "does" } else { "do" })));
        let rows = silent.into_iter().map(|rule| {
            vec![Line::new().plain("  ").faint(layer(rule.layer.as_str())), Line::new().faint(&rule.rule), Line::new().faint(&rule.why)]
        });
        page.append(table(rows.collect()));
    }
    page
}

/// `skep policy trial`: only what would change.
pub fn tried(result: &PolicyTrialResult) -> Page {
    let rows = result.changes.iter().map(|change| {
        let mark = if change.breaking { Line::new().bad("[BREAKING]") } else { Line::new() };
        vec![
            mark,
            Line::new().faint(format!("record {}", change.seq)),
            Line::new().strong(&change.tool).plain(" ").plain(&change.about),
            outcome(change.before).plain(" → ").join(outcome(change.after)),
            Line::new().plain(&change.why),
        ]
    });
    let mut page = table(rows.collect());
    let tried = plural(result.tried, "call");
    let line = match result.changes.len() as u64 {
        _ if result.tried == 0 => Line::new().faint("○ ").plain("there are no calls of the past to try"),
        0 => Line::new().good("✓ ").plain(format!("{tried} tried, nothing would change")),
        changes => {
            let line = if result.breaking > 0 { Line::new().bad("✗ ") } else { Line::new().good("✓ ") };
            let line = line.plain(format!("{tried} tried, {changes} would change"));
            if result.breaking > 0 { line.bad(format!(", {} breaking", result.breaking)) } else { line }
        }
    };
    page.push(line);
    page
}

/// What rules say differently than those of the version in force, or, without one, than the default.
pub fn rule_changes(changes: &[PolicyChangeView], version: u64) -> Page {
    let mut page = Page::new();
    if changes.is_empty() {
        return page;
    }
    let count = |effect: PolicyChangeEffect| changes.iter().filter(|change| change.effect == effect).count();
    let than = if version == 0 { "the default".to_owned() } else { format!("version {version}, which is in force") };
    let (looser, stricter) = (count(PolicyChangeEffect::Looser), count(PolicyChangeEffect::Stricter));
    page.push(Line::new().strong(format!("{} from {than}: {looser} looser, {stricter} stricter", differences(changes.len()))));
    let rows = changes.iter().map(|change| {
        let sign = match change.kind {
            PolicyChangeKind::Added => Line::new().good("  + "),
            PolicyChangeKind::Removed => Line::new().bad("  − "),
            PolicyChangeKind::Changed => Line::new().name("  ~ "),
        };
        let effect = match change.effect {
            PolicyChangeEffect::Looser => Line::new().bad("looser"),
            PolicyChangeEffect::Stricter => Line::new().good("stricter"),
            PolicyChangeEffect::Same => Line::new().faint("the same"),
        };
        vec![sign.strong(&change.name), Line::new().plain(&change.what), effect]
    });
    page.append(table(rows.collect()));
    page
}

fn differences(count: usize) -> String {
    if count == 1 { "1 difference".to_owned() } else { format!("{count} differences") }
}

/// `skep policy log`.
pub fn log(result: &PolicyLogResult, home: bool, diffs: bool, now_ms: i64) -> Page {
    if result.versions.is_empty() {
        return Page(vec![Line::new().faint(match home {
            true => "no policy of your own was ever in force; write $SKEP_HOME/policy.yaml and run `skep trust --home`",
            false => "no policy was ever in force here; see `skep init`",
        })]);
    }
    let mut page = Page::new();
    for version in &result.versions {
        let line = Line::new().name(format!("version {}", version.version)).faint(format!("  record {}", version.seq));
        let line = line.plain(format!("  {}", ago(version.at_ms, now_ms))).plain("  by ").strong(&version.by);
        page.push(line.faint(format!("  {}", zone::short(&version.hash))));
        if diffs {
            page.append(diff::unified(&version.diff));
            page.blank();
        }
    }
    page
}

/// Why these rules are proposed: beside them, not among them.
pub fn reasons(result: &PolicySuggestResult) -> Page {
    let mut page = Page::new();
    let saved = format!("would have saved {} of {}", result.saved, plural(result.questions, "question"));
    let through = if result.let_through == 0 { "none".to_owned() } else { result.let_through.to_string() };
    page.push(match (has_rules(&result.yaml), result.summary.as_str()) {
        (false, _) => Line::new().faint("○ ").plain(format!("nothing to suggest from {}", plural(result.questions, "answered question"))),
        (true, "") => Line::new().good("✓ ").plain(format!("{saved} and let {through} of the denied through")),
        (true, summary) => Line::new().good("✓ ").plain(summary),
    });
    result.because.iter().for_each(|because| page.push(Line::new().faint("  ↳ ").plain(because)));
    page
}

/// The rules themselves, to paste.
pub fn suggested(result: &PolicySuggestResult) -> Page {
    let mut page = Page::new();
    if has_rules(&result.yaml) {
        page.block("", Tone::Plain, &result.yaml);
    }
    page
}

/// Is there more in it than remarks?
fn has_rules(yaml: &str) -> bool {
    yaml.lines().map(str::trim_start).any(|line| !line.is_empty() && !line.starts_with('#'))
}

/// Whose a rule is.
fn layer(name: &str) -> &str {
    match name {
        "yaml" => "project",
        "home" => "yours",
        "builtin" => "built in",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rules_say_differently_is_told_in_a_few_lines() {
        let change = |name: &str, kind, what: &str, effect| PolicyChangeView { name: name.into(), kind, what: what.into(), effect };
        let changes = [
            change("docs", PolicyChangeKind::Added, "allow", PolicyChangeEffect::Looser),
            change("new-host", PolicyChangeKind::Changed, "require_review → deny", PolicyChangeEffect::Stricter),
            change("old", PolicyChangeKind::Removed, "pass", PolicyChangeEffect::Same),
        ];
        let expected = "\
3 differences from version 2, which is in force: 1 looser, 1 stricter
  + docs      allow                  looser
  ~ new-host  require_review → deny  stricter
  − old       pass                   the same
";
        assert_eq!(rule_changes(&changes, 2).render(false, None), expected);
        assert!(rule_changes(&changes[..1], 0).render(false, None).starts_with("1 difference from the default: 1 looser, 0 stricter\n"));
        assert!(rule_changes(&[], 2).is_empty());
    }
    use serde_json::json;

    fn check(value: Value) -> PolicyCheckResult {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_check_says_where_and_how() {
        let good = check(json!({"rules": 12, "extensions": 1, "problems": [], "ok": true}));
        assert_eq!(checked(&good, "p.yaml", None).render(false, None), "✓ p.yaml  12 rules, 1 extension\n");
        assert_eq!(checked(&good, "p.yaml", Some(3)).render(false, None), "✓ p.yaml  12 rules, 1 extension, 3 examples that hold\n");
        assert_eq!(checked(&good, "p.yaml", Some(0)).render(false, None), "✓ p.yaml  12 rules, 1 extension, no examples\n");
        let bad = check(json!({"rules": 0, "extensions": 0, "ok": false, "problems": [
            {"error": true, "file": "p.yaml", "line": 3, "column": 5, "what": "there is no `mach`", "hint": "did you mean `match`?"},
            {"error": false, "file": "p.yaml", "line": 9, "column": 1, "what": "it can never fire"},
        ]}));
        let expected = "✗ p.yaml:3:5  there is no `mach`\n  ↳ fix  did you mean `match`?\n◍ p.yaml:9:1  it can never fire\n✗ p.yaml  1 error, 1 warning\n";
        assert_eq!(checked(&bad, "p.yaml", Some(7)).render(false, None), expected);
    }

    #[test]
    fn an_explanation_puts_those_who_spoke_first() {
        let result = serde_json::from_value(json!({"outcome": "deny", "reason": "secrets stay with you", "rules": [
            {"layer": "builtin", "rule": "outside-project", "said": "silent", "why": "the path is inside"},
            {"layer": "yaml", "rule": "secrets", "said": "deny", "why": "`.env` matches `.env*`"},
            {"layer": "yaml", "rule": "read-project", "said": "allow", "why": "`.env` matches `**`"},
        ]}))
        .unwrap();
        let expected = "\
✗ Reading .env  deny
  ↳ why  secrets stay with you

  project  secrets       deny   `.env` matches `.env*`
  project  read-project  allow  `.env` matches `**`
  1 rule that does not apply
  built in  outside-project  the path is inside
";
        let text = explained("fs.read", &json!({"path": ".env"}), &result).render(false, None);
        assert_eq!(text, expected);
    }

    #[test]
    fn a_trial_shows_only_changes_and_marks_what_breaks() {
        let result: PolicyTrialResult = serde_json::from_value(json!({"tried": 100, "breaking": 1, "changes": [
            {"seq": 7, "tool": "fs.write", "about": "src/a\u{202e}.rs", "before": "allow", "after": "deny", "why": "by `x`", "breaking": true},
            {"seq": 12, "tool": "fs.read", "about": "b", "before": "review", "after": "allow", "why": "by `y`", "breaking": false},
        ]}))
        .unwrap();
        let page = tried(&result);
        let expected = "\
[BREAKING]  record 7   fs.write src/a\\u{202e}.rs  allow → deny    by `x`
            record 12  fs.read b                  review → allow  by `y`
✗ 100 calls tried, 2 would change, 1 breaking
";
        assert_eq!(page.render(false, None), expected);
        assert!(page.render(true, None).contains("\x1b[31m[BREAKING]"));
        let same = PolicyTrialResult { tried: 1, breaking: 0, phrase: None, rules: Vec::new(), changes: Vec::new() };
        assert_eq!(tried(&same).render(false, None), "✓ 1 call tried, nothing would change\n");
    }

    #[test]
    fn versions_and_suggestions() {
        let result = serde_json::from_value(json!({"versions": [
            {"version": 2, "seq": 9, "at_ms": 0, "by": "ann", "hash": "0123456789abcdef", "diff": "--- a\n+++ a\n@@ -1 +1 @@\n-x\n+y\n"},
        ]}))
        .unwrap();
        assert_eq!(log(&result, false, false, 5_000).render(false, None), "version 2  record 9  5s ago  by ann  0123456789ab\n");
        assert!(log(&result, false, true, 5_000).render(false, None).contains("  +y\n"));
        let suggestion = PolicySuggestResult {
            questions: 212,
            saved: 140,
            let_through: 0,
            yaml: "- name: a\n".into(),
            summary: String::new(),
            because: vec!["`a` saves 140".into()],
        };
        let expected = "✓ would have saved 140 of 212 questions and let none of the denied through\n  ↳ `a` saves 140\n";
        assert_eq!(reasons(&suggestion).render(false, None), expected);
        assert_eq!(suggested(&suggestion).render(false, None), "- name: a\n");
        let nothing = PolicySuggestResult { yaml: "# nothing\n".into(), because: Vec::new(), ..suggestion };
        assert_eq!(reasons(&nothing).render(false, None), "○ nothing to suggest from 212 answered questions\n");
        assert!(suggested(&nothing).is_empty());
    }
}
