//! `skep.yml`: what a project tells Skep about itself. Only narrows; a typo is an error.

use serde::Deserialize;

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
    pub redact: std::collections::BTreeMap<String, String>,
    /// Files that exist in no room, beside the built-in ones. Names or globs as in `.gitignore`.
    pub mask: Vec<String>,
    /// Narrower templates, and which tools have them.
    pub sandbox: crate::template::SandboxConfig,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TestConfig {
    /// What `test.run` runs, as an argument list.
    pub command: Option<Vec<String>>,
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
}

impl Config {
    pub fn parse(text: &str) -> Result<Config, String> {
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(Config::default());
        }
        let config: Config = yaml::from_str(text).map_err(|error| error.to_string())?;
        policy::Globs::parse(&config.merge.safe).map_err(|bad| format!("merge.safe: {bad} ({})", bad.hint))?;
        Ok(config)
    }
}

/// The `skep.yml` that `skep init` writes, with the test command guessed from what the project has.
pub(crate) fn default_text(project: &workspace::reader::Folder) -> String {
    let guesses: &[(&str, &str)] = &[
        ("Cargo.toml", r#"["cargo", "test"]"#),
        ("package.json", r#"["npm", "test"]"#),
        ("pyproject.toml", r#"["python3", "-m", "pytest"]"#),
        ("go.mod", r#"["go", "test", "./..."]"#),
        ("tests/run.sh", r#"["sh", "tests/run.sh"]"#),
        ("Makefile", r#"["make", "test"]"#),
    ];
    let guess = guesses.iter().find(|(file, _)| project.has_file(file));
    let command = match guess {
        Some((_, command)) => format!("  command: {command}"),
        None => r#"  # command: ["make", "test"]"#.to_owned(),
    };
    format!(
        "# What Skep should know about this project. A change counts once you trust it.\n\n\
         # What `test.run` runs, in a room without network. A list, not a shell line.\n\
         test:\n{command}\n\n\
         # The brain of tasks that name none, for `act` and `ask`.\n\
         # brain: native            # or native:strategic, native:PROVIDER/MODEL, script:path/to/file\n\n\
         # Paths that may be merged unread where a rule allows `merge.apply` and the tests pass. Without any, you are always asked.\n\
         # merge: {{ safe: [docs/**] }}\n\n\
         # The most a task may do before it is stopped.\n\
         limits:\n  calls: 1000\n\n\
          # Files no brain may see, beside .env*, *.pem, *.key, .npmrc and .netrc.\n\
         # mask: [secrets/]\n\n\
         # Narrower bounds of rooms: the template that a tool gets.\n\
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
        assert_eq!(Config::parse("# nothing\n"), Ok(Config::default()));
        assert_eq!(Config::parse("brain: no\n").unwrap().brain.as_deref(), Some("no"), "a word is a word");
    }
}
