//! What a policy says of test-first: which changes need no tests, and how much coverage may be lost.
//!
//! Both stand beside `capabilities`, so they are trusted with them and no agent can write them.

use crate::scope::{BadGlob, Globs};
use ::yaml::Spanned;
use serde::Deserialize;
use std::collections::BTreeMap;
use world::ExemptionCategory;

/// Everything a policy says of test-first.
#[derive(Debug, Clone)]
pub struct TestRules {
    pub exemptions: BTreeMap<ExemptionCategory, ExemptionRule>,
    pub debt: CoverageDebt,
}

/// Which paths a category is for, and what must be proven of a change.
#[derive(Debug, Clone)]
pub struct ExemptionRule {
    pub patterns: Vec<String>,
    globs: Globs,
    /// A parser must find that no code is different that runs.
    pub type_only: bool,
}

impl ExemptionRule {
    /// Is this file one of those? A pattern is about the file itself: a folder that has a document's name makes no document of what lies in it.
    /// A pattern that ends in `/**` is about what lies in its folder.
    pub fn covers(&self, path: &str) -> bool {
        let is_by_folder = |pattern: &&String| pattern.ends_with("/**");
        let has = |pattern: &String, path: &str| Globs::parse(std::slice::from_ref(pattern)).is_ok_and(|globs| globs.matches(path));
        let above = || path.match_indices('/').map(|(at, _)| &path[..at]);
        let by_folder = self.patterns.iter().filter(is_by_folder).any(|pattern| has(pattern, path));
        let by_name = |pattern: &String| has(pattern, path) && !above().any(|folder| has(pattern, folder));
        self.globs.matches(path) && (by_folder || self.patterns.iter().filter(|pattern| !is_by_folder(pattern)).any(by_name))
    }
}

/// How far coverage may fall, in hundredths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoverageDebt {
    pub min_delta: i64,
    pub warning: i64,
    pub lockout: i64,
    /// What comes of a fall below the last: explore is locked, or it is only told.
    pub locks: bool,
}

impl Default for CoverageDebt {
    fn default() -> CoverageDebt {
        CoverageDebt { min_delta: 0, warning: -200, lockout: -500, locks: true }
    }
}

const DEFAULTS: [(ExemptionCategory, &[&str], bool); 4] = [
    (ExemptionCategory::ConfigChange, &["*.json", "*.yaml", "*.toml", "*.env", "Dockerfile", ".github/**"], false),
    (ExemptionCategory::TypeRefactor, &["*.d.ts"], true),
    (ExemptionCategory::Documentation, &["*.md", "*.txt", "LICENSE", "CHANGELOG"], false),
    (ExemptionCategory::AssetUpdate, &["*.png", "*.svg", "*.css", "*.scss"], false),
];

impl Default for TestRules {
    fn default() -> TestRules {
        let rule = |(category, patterns, type_only): &(ExemptionCategory, &[&str], bool)| {
            let globs = Globs::parse(patterns).ok()?;
            Some((
                *category,
                ExemptionRule { patterns: patterns.iter().map(|glob| (*glob).to_owned()).collect(), globs, type_only: *type_only },
            ))
        };
        TestRules { exemptions: DEFAULTS.iter().filter_map(rule).collect(), debt: CoverageDebt::default() }
    }
}

/// `tdd_exemptions` as written: categories that are not named keep their own paths, and an empty list is for none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenExemptions {
    config_change: Option<Spanned<WrittenExemption>>,
    type_refactor: Option<Spanned<WrittenExemption>>,
    documentation: Option<Spanned<WrittenExemption>>,
    asset_update: Option<Spanned<WrittenExemption>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenExemption {
    path_glob: Vec<String>,
    #[serde(default)]
    condition: Option<WrittenCondition>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenCondition {
    TypeOnlyChange,
}

/// `tech_debt` as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WrittenDebt {
    #[serde(default)]
    coverage: Option<WrittenCoverage>,
    #[serde(default)]
    lockout_action: Option<LockoutAction>,
    /// The only way back that there is.
    #[serde(default)]
    #[expect(dead_code, reason = "there is one word for it, and it is checked by being read")]
    recovery: Option<Recovery>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCoverage {
    /// Kept for files that were written for seed 003; the baseline is in the journal.
    #[serde(default)]
    #[expect(dead_code, reason = "the baseline is on record and in no file that somebody could write")]
    baseline_file: Option<String>,
    #[serde(default)]
    min_delta: Option<f64>,
    #[serde(default)]
    warning_threshold: Option<f64>,
    #[serde(default)]
    lockout_threshold: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum LockoutAction {
    BlockExplore,
    Warn,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Recovery {
    StrictModeWithCoverageGain,
}

/// A glob that is none, and where it stands.
pub(crate) struct BadExemption {
    pub at: ::yaml::Location,
    pub bad: BadGlob,
}

impl TestRules {
    pub(crate) fn of(exemptions: Option<WrittenExemptions>, debt: Option<WrittenDebt>) -> Result<TestRules, BadExemption> {
        let mut rules = TestRules::default();
        let written = exemptions.map(|written| {
            [
                (ExemptionCategory::ConfigChange, written.config_change),
                (ExemptionCategory::TypeRefactor, written.type_refactor),
                (ExemptionCategory::Documentation, written.documentation),
                (ExemptionCategory::AssetUpdate, written.asset_update),
            ]
        });
        for (category, spanned) in written.into_iter().flatten() {
            let Some(Spanned { value: WrittenExemption { path_glob, condition }, referenced, .. }) = spanned else { continue };
            let globs = Globs::parse(&path_glob).map_err(|bad| BadExemption { at: referenced, bad })?;
            // What only types may change in is proven whether or not somebody wrote it down.
            let type_only = category == ExemptionCategory::TypeRefactor || matches!(condition, Some(WrittenCondition::TypeOnlyChange));
            rules.exemptions.insert(category, ExemptionRule { patterns: path_glob, globs, type_only });
        }
        if let Some(WrittenDebt { coverage, lockout_action, .. }) = debt {
            let hundredths = |percent: f64| (percent * 100.0).round() as i64;
            let of = |written: Option<f64>, default: i64| written.map_or(default, hundredths);
            let default = CoverageDebt::default();
            let (min, warning, lockout) = coverage
                .map_or((None, None, None), |coverage| (coverage.min_delta, coverage.warning_threshold, coverage.lockout_threshold));
            rules.debt = CoverageDebt {
                min_delta: of(min, default.min_delta),
                warning: of(warning, default.warning),
                lockout: of(lockout, default.lockout),
                locks: lockout_action != Some(LockoutAction::Warn),
            };
        }
        Ok(rules)
    }
}

#[cfg(test)]
mod tests {
    use crate::Policy;
    use world::ExemptionCategory as Category;

    fn rules(text: &str) -> super::TestRules {
        Policy::parse(text, "p.yaml").unwrap().0.test_rules
    }

    #[test]
    fn the_defaults_are_those_of_seed_003() {
        let rules = rules("");
        let covers = |category, path: &str| rules.exemptions[&category].covers(path);
        for (category, path) in [
            (Category::ConfigChange, "package.json"),
            (Category::ConfigChange, "deep/in/settings.yaml"),
            (Category::ConfigChange, ".github/workflows/ci.yml"),
            (Category::ConfigChange, "Dockerfile"),
            (Category::TypeRefactor, "src/types.d.ts"),
            (Category::Documentation, "docs/guide.md"),
            (Category::Documentation, "LICENSE"),
            (Category::AssetUpdate, "web/site.scss"),
        ] {
            assert!(covers(category, path), "{path}");
        }
        for (category, path) in [
            (Category::ConfigChange, "src/main.rs"),
            (Category::TypeRefactor, "src/types.ts"),
            (Category::Documentation, "src/readme.rs"),
            (Category::AssetUpdate, "web/site.js"),
            // Folders that have a document's name.
            (Category::Documentation, "notes.md/two.sh"),
            (Category::Documentation, "LICENSE/two.rs"),
            (Category::ConfigChange, "a.json/deep/two.js"),
        ] {
            assert!(!covers(category, path), "{path}");
        }
        assert!(rules.exemptions[&Category::TypeRefactor].type_only && !rules.exemptions[&Category::Documentation].type_only);
        assert_eq!((rules.debt.warning, rules.debt.lockout, rules.debt.min_delta), (-200, -500, 0));
    }

    #[test]
    fn a_policy_says_its_own_and_a_slip_is_an_error() {
        let own = rules(
            "tdd_exemptions:\n  documentation: { path_glob: ['*.rst'] }\n  asset_update: { path_glob: [] }\n\
             tech_debt:\n  coverage: { baseline_file: x.json, min_delta: 0, warning_threshold: -1.5, lockout_threshold: -3 }\n  \
             lockout_action: block_explore\n  recovery: strict_mode_with_coverage_gain\n",
        );
        assert!(own.exemptions[&Category::Documentation].covers("a.rst") && !own.exemptions[&Category::Documentation].covers("a.md"));
        assert!(!own.exemptions[&Category::AssetUpdate].covers("a.png"));
        assert!(own.exemptions[&Category::ConfigChange].covers("a.json"), "what is not named stays");
        assert_eq!((own.debt.warning, own.debt.lockout, own.debt.locks), (-150, -300, true));
        for text in [
            "tdd_exemptions: { docs: { path_glob: [a] } }",
            "tdd_exemptions: { documentation: { globs: [a] } }",
            "tdd_exemptions: { documentation: { path_glob: [''] } }",
            "tdd_exemptions: { type_refactor: { path_glob: ['*.ts'], condition: trust_me } }",
            "tech_debt: { coverage: { warning: -2 } }",
            "tech_debt: { lockout_action: nothing }",
        ] {
            assert!(Policy::parse(text, "p.yaml").is_err(), "{text}");
        }
    }
}
