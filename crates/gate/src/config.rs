//! `skep.yml`: what a project tells Skep about itself. Only narrows; a typo is an error.

use crate::crew_config::{CrewConfig, ZoneConfig};
use crate::test_first::{StrictConfig, TestPaths, read_mode};
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use world::{BrainSpec, limits};

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    pub test: TestConfig,
    pub merge: MergeConfig,
    /// Who makes the rooms of this project, where the operator has not fixed it.
    pub runtime: Option<crate::runtime::RoomRuntime>,
    /// The brain of a task that names none.
    pub brain: Option<String>,
    /// What the built-in brain keeps in sight however long its work gets.
    pub pins: Vec<String>,
    pub limits: LimitsConfig,
    /// Names for models, beside those of the operator's config.yml: `tactical: [anthropic/claude-sonnet-4-5]`.
    pub models: gateway::ModelNames,
    /// The only providers this project uses; without it, all that the operator set up.
    pub providers: Option<Vec<String>>,
    /// Regular expressions by name; what matches is taken out of every result.
    pub redact: BTreeMap<String, String>,
    /// Files that exist in no room, beside the built-in ones. Names or globs as in `.gitignore`.
    pub mask: Vec<String>,
    /// Narrower templates, and which tools have them.
    pub sandbox: crate::template::SandboxConfig,
    pub crew: CrewConfig,
    pub zone: ZoneConfig,
    /// How strictly tests come first in tasks that do not say: strict, explore or debug. Without it they need not.
    pub discipline: Option<String>,
    pub strict: StrictConfig,
}

/// What a name for a brain stands for: `claude@anthropic/claude/code/opus/v4.5`, or the same under `alias`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrainAlias(pub String);

impl<'de> Deserialize<'de> for BrainAlias {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<BrainAlias, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            alias: String,
        }
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = BrainAlias;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a brain such as claude@anthropic/claude/code/opus/v4.5, or {alias: BRAIN}")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<BrainAlias, E> {
                Ok(BrainAlias(text.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<BrainAlias, A::Error> {
                Fields::deserialize(de::value::MapAccessDeserializer::new(map)).map(|fields| BrainAlias(fields.alias))
            }
        }
        from.deserialize_any(Text)
    }
}

impl BrainAlias {
    /// Looks at a name and what it stands for: a brain itself, and no other name.
    pub fn check(&self, name: &str) -> Result<(), String> {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
            return Err(format!("`{name}` is no name for a brain: it has letters, digits, `.`, `_` and `-`"));
        }
        match BrainSpec::parse(&self.0) {
            // Whose file it would be, the operator's or the project's, a name does not say.
            Ok(BrainSpec::Script(_)) => Err(format!("`{name}`: a name stands for no script; a script is named by its file")),
            Ok(other) => match BrainSpec::parse(name) {
                Ok(own) if own.kind() != other.kind() => Err(format!("`{name}` is a brain itself, and stands for no other")),
                _ => Ok(()),
            },
            Err(unknown) => Err(format!("`{name}`: {unknown}; {}", BrainSpec::KNOWN)),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TestConfig {
    /// What `test.run` runs, as an argument list.
    pub command: Option<Vec<String>>,
    /// How coverage is measured. Without it, nothing is said of it.
    pub coverage: Option<CoverageConfig>,
}

/// Where a run of the tests says which lines it reached.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoverageConfig {
    /// The report, as a path below the project: lcov, istanbul, cobertura or the JSON of llvm-cov.
    pub report: String,
    /// What writes it, as an argument list, where `test.command` does not.
    #[serde(default)]
    pub command: Option<Vec<String>>,
}

impl CoverageConfig {
    fn check(&self) -> Result<(), String> {
        let is_plain = !self.report.starts_with('/') && self.report.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if !is_plain {
            return Err(format!("test.coverage.report: `{}` is no plain path below the project", self.report));
        }
        if self.command.as_ref().is_some_and(Vec::is_empty) {
            return Err("test.coverage.command: it names no program".to_owned());
        }
        Ok(())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MergeConfig {
    /// Globs of paths that may be merged unread, where a rule allows merges and the tests pass. Without any, nothing is.
    pub safe: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// Calls one task may make.
    pub calls: Option<u64>,
    /// Workers that may be at work at once.
    pub workers: Option<usize>,
}

impl Config {
    pub fn parse(text: &str) -> Result<Config, String> {
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(Config::default());
        }
        let config: Config = yaml::from_str(text).map_err(|error| error.to_string())?;
        policy::Globs::parse(&config.merge.safe).map_err(|bad| format!("merge.safe: {bad} ({})", bad.hint))?;
        if config.limits.workers.is_some_and(|workers| !(1..=limits::WORKERS_MAX).contains(&workers)) {
            return Err(format!("limits.workers: a project has 1 to {} workers", limits::WORKERS_MAX));
        }
        config.test.coverage.as_ref().map_or(Ok(()), CoverageConfig::check)?;
        config.check_crew()?;
        config.discipline.as_deref().map(read_mode).transpose().map_err(|why| format!("discipline: {why}"))?;
        TestPaths::of(&config.strict)?;
        Ok(config)
    }
}

/// The `skep.yml` that `skep init` writes, with the test command guessed from what the project has.
pub(crate) fn default_text(project: &workspace::reader::Folder) -> String {
    let command = match crate::test_command::detect(project).first() {
        Some(runner) => {
            let quoted: Vec<String> = runner.command.iter().map(|word| format!("\"{word}\"")).collect();
            format!("  command: [{}]", quoted.join(", "))
        }
        None => r#"  # command: ["make", "test"]"#.to_owned(),
    };
    format!(
        "# What Skep should know about this project. A change counts once you trust it.\n\n\
         # What `test.run` runs, in a sandbox without network. A list, not a shell line.\n\
         test:\n{command}\n\n\
         # The brain of tasks that name none, for `act` and `ask`.\n\
         # brain: native            # or claude, codex:MODEL, native:strategic, native:PROVIDER/MODEL, script:path/to/file\n\
         # crew: {{ brains: {{ opus: claude@anthropic/claude/code/opus/v4.5 }} }}   # `opus` is then a name for it\n\n\
         # Who works here, and what is asked at a task's end.\n\
         # crew: {{ hero: {{ role: reviewer }}, hooks: {{ onStop: [{{ prompt: 1-line summary, artifact: summary }}] }} }}\n\n\
         # Paths that may be merged unread where a rule allows `merge.apply` and the tests pass. Without any, you are always asked.\n\
         # merge: {{ safe: [docs/**] }}\n\n\
         # The most a task may do before it is stopped.\n\
         limits:\n  calls: 1000\n\
         #  workers: 10            # how many tasks may be worked on at once\n\n\
          # Files no brain may see, beside .env*, *.pem, *.key, .npmrc and .netrc.\n\
         # mask: [secrets/]\n\n\
         # Narrower bounds of sandboxes: the template that a tool gets.\n\
         # sandbox: {{ tools: {{ shell.run: code-executor }} }}\n\n\
         # What is taken out of every result, by name: a regular expression each.\n\
         # redact: {{ customer: 'C-[0-9]{{8}}' }}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_parses_and_a_typo_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let project = workspace::reader::Folder::open(dir.path()).unwrap();
        let config = Config::parse(&default_text(&project)).unwrap();
        assert_eq!((config.test.command, config.limits.calls), (None, Some(1000)));
        std::fs::write(dir.path().join("Cargo.toml"), "").unwrap();
        let config = Config::parse(&default_text(&project)).unwrap();
        assert_eq!(config.test.command, Some(vec!["cargo".into(), "test".into()]));
        assert!(Config::parse("merge: {safe: ['']}").unwrap_err().contains("merge.safe"));
        assert!(Config::parse("limitz: {}").unwrap_err().contains("limitz"));
        assert!(Config::parse("discipline: loose").unwrap_err().contains("there are strict, explore and debug"));
        assert!(Config::parse("strict: {tests: ['']}").unwrap_err().contains("strict.tests"));
        let coverage = |text: &str| Config::parse(&format!("test: {{coverage: {{{text}}}}}")).map(|config| config.test.coverage);
        let own = CoverageConfig { report: "out/lcov.info".into(), command: Some(vec!["cover".into()]) };
        assert_eq!(coverage("report: out/lcov.info, command: [cover]"), Ok(Some(own)));
        for bad in ["report: /etc/passwd", "report: a/../b", "report: ''", "report: a, command: []", "command: [cover]"] {
            assert!(coverage(bad).is_err(), "{bad}");
        }
        let strict = Config::parse("discipline: strict\nstrict: {mutate: true, tests: ['checks/**']}").unwrap();
        assert_eq!((strict.discipline.as_deref(), strict.strict.mutate), (Some("strict"), true));
        assert_eq!(Config::parse("# nothing\n"), Ok(Config::default()));
        let crew = |text: &str| Config::parse(&format!("crew: {{brains: {text}}}")).map(|config| config.crew.brains);
        let opus = "claude@anthropic/claude/code/opus/v4.5";
        for text in [format!("{{opus: '{opus}'}}"), format!("{{opus: {{alias: '{opus}'}}}}")] {
            assert_eq!(crew(&text).unwrap()["opus"].0, opus);
        }
        for (text, why) in [
            ("{opus: clod}", "there is no brain `clod`"),
            ("{'a b': claude}", "no name for a brain"),
            ("{opus: {command: [sh]}}", "unknown field `command`"),
            ("{opus: [claude]}", "a brain such as"),
            ("{opus: 'script:/etc/passwd'}", "a name stands for no script"),
        ] {
            let told = crew(text).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        assert_eq!(Config::parse("brain: no\n").unwrap().brain.as_deref(), Some("no"), "a word is a word");
    }
}
