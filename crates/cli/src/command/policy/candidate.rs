//! Rules that are not in force: a file somebody names, or the project's own.

use crate::command_error::CommandError;
use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use wire::ErrorCode;

/// What the kernel takes.
const FILE_BYTES_MAX: usize = 1 << 20;
/// Where a project keeps its rules.
pub const FILE: &str = ".skep/policy.yaml";

#[derive(Debug)]
pub struct Candidate {
    /// As a person calls it.
    pub name: String,
    pub text: String,
    /// By name, instead of the project's own.
    pub given: bool,
}

impl Candidate {
    pub fn read(file: Option<&Path>, folder: &Path) -> Result<Candidate, CommandError> {
        match file {
            Some(file) => Candidate::file(file),
            // One that is not there is an empty one; the kernel says so in its own words.
            None => {
                let read = server::read_project_file(&root(folder), FILE, FILE_BYTES_MAX as u64).map_err(|why| {
                    let fix = "make it an ordinary file of the project that you can read";
                    CommandError::new(ErrorCode::NotFound, format!("cannot read `{FILE}`")).why(why).fix(fix)
                })?;
                let text = text(read.unwrap_or_default(), FILE)?;
                Ok(Candidate { name: FILE.into(), text, given: false })
            }
        }
    }

    pub fn file(file: &Path) -> Result<Candidate, CommandError> {
        let name = file.display().to_string();
        let bytes = std::fs::read(file).map_err(|error| {
            CommandError::new(ErrorCode::NotFound, format!("cannot read `{name}`")).why(error).fix("name a file with rules")
        })?;
        let text = text(bytes, &name)?;
        Ok(Candidate { name, text, given: true })
    }

    /// How many examples its rules carry. Whether they hold is found out where rules are understood.
    pub fn examples(&self) -> u64 {
        let Ok(policy) = yaml::from_str::<Value>(&self.text) else { return 0 };
        let rules = policy.get("capabilities").and_then(Value::as_array);
        let lists = rules.into_iter().flatten().filter_map(|rule| rule.get("examples")?.as_object()).flat_map(|lists| lists.values());
        lists.filter_map(Value::as_array).map(|list| list.len() as u64).sum()
    }

    /// Makes its text the project's own, whole or not at all.
    pub fn place(&self, folder: &Path) -> Result<(), CommandError> {
        let file = root(folder).join(FILE);
        let fail = |why: String| {
            let fix = "make `.skep` a folder of the project that you can write to";
            CommandError::new(ErrorCode::Unavailable, format!("cannot write `{}`", file.display())).why(why).fix(fix)
        };
        let Some(parent) = file.parent() else { return Err(fail("it has no folder".into())) };
        match std::fs::symlink_metadata(parent) {
            // A link would lead the text out of the project.
            Ok(found) if !found.is_dir() => return Err(fail("`.skep` is not a folder".into())),
            Ok(_) => {}
            Err(_) => std::fs::create_dir(parent).map_err(|error| fail(error.to_string()))?,
        }
        let write = || -> std::io::Result<()> {
            let mut temporary = tempfile::NamedTempFile::new_in(parent)?;
            temporary.write_all(self.text.as_bytes())?;
            // A file of the project like any other, not one of ours.
            temporary.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
            temporary.as_file().sync_all()?;
            temporary.persist(&file)?;
            Ok(())
        };
        write().map_err(|error| fail(error.to_string()))
    }
}

/// The project that holds `folder`.
pub fn root(folder: &Path) -> PathBuf {
    folder.ancestors().find(|ancestor| ancestor.join(".git").symlink_metadata().is_ok()).unwrap_or(folder).to_owned()
}

/// The text of a file, or where it stops to be one.
fn text(bytes: Vec<u8>, name: &str) -> Result<String, CommandError> {
    if bytes.len() > FILE_BYTES_MAX {
        let what = format!("`{name}` has {} bytes; {FILE_BYTES_MAX} are read", bytes.len());
        return Err(CommandError::new(ErrorCode::TooLarge, what).fix("write globs and lists instead of one rule for each file"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        CommandError::new(ErrorCode::BadInput, format!("{name}:{line}:{column}: this is not UTF-8")).fix("save the file as UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_told_with_its_place() {
        let told = |bytes: &[u8]| text(bytes.to_vec(), "p.yaml").unwrap_err().what;
        assert_eq!(told(b"capabilities:\n  - \xff"), "p.yaml:2:5: this is not UTF-8");
        assert_eq!(told(&vec![b'#'; FILE_BYTES_MAX + 1]), "`p.yaml` has 1048577 bytes; 1048576 are read");
        assert_eq!(text(b"ok".to_vec(), "p.yaml").unwrap(), "ok");
    }

    #[test]
    fn examples_are_counted() {
        let text =
            "capabilities:\n- {name: a, examples: {match: [{}, {}], not_match: [{}]}}\n- {name: b}\n- {name: c, examples: {match: [{}]}}\n";
        let candidate = |text: &str| Candidate { name: "x".into(), text: text.into(), given: true };
        assert_eq!(candidate(text).examples(), 4);
        assert_eq!(["", "capabilities: []", "a: [", "- 1"].map(|text| candidate(text).examples()), [0; 4]);
    }

    #[test]
    fn a_text_is_placed_in_the_project_and_never_through_a_link() {
        let temp = tempfile::tempdir().unwrap();
        let project = temp.path().join("project");
        std::fs::create_dir_all(project.join(".git")).unwrap();
        std::fs::create_dir_all(project.join("deep/er")).unwrap();
        let candidate = Candidate { name: "x".into(), text: "capabilities: []\n".into(), given: true };
        candidate.place(&project.join("deep/er")).unwrap();
        assert_eq!(std::fs::read_to_string(project.join(FILE)).unwrap(), "capabilities: []\n");
        assert_eq!(Candidate::read(None, &project.join("deep")).unwrap().text, "capabilities: []\n");
        std::fs::rename(project.join(".skep"), temp.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(temp.path().join("elsewhere"), project.join(".skep")).unwrap();
        let other = Candidate { text: "other".into(), ..candidate };
        assert!(other.place(&project).unwrap_err().why.is_some_and(|why| why.contains("not a folder")));
        assert_eq!(std::fs::read_to_string(temp.path().join("elsewhere/policy.yaml")).unwrap(), "capabilities: []\n");
    }
}
