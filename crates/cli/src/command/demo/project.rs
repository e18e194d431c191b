//! The demo's project: a calculator in sh, so that nothing needs to be installed, and the script of the model that improves it.

use crate::command_error::CommandError;
use std::path::Path;
use std::process::{Command, Stdio};
use wire::ErrorCode;

pub const PROMPT: &str = "teach the calculator to subtract, test first";

const README: &str = "# calc\n\nA calculator: `sh calc.sh 2 add 3`. Tests: `sh tests/run.sh`.\n";

const CALC: &str = r#"#!/bin/sh
# calc.sh A OPERATION B
case "$2" in
  add) echo $(($1 + $3)) ;;
  *) echo "calc: I cannot $2" >&2; exit 1 ;;
esac
"#;

const RUN: &str = r#"#!/bin/sh
# Each line of tests/*.test is a result and the expression that gives it.
cd "$(dirname "$0")/.." || exit 2
passed=0 failed=0
for file in tests/*.test; do
  while read -r want expression; do
    got=$(sh calc.sh $expression 2>&1)
    if [ "$got" = "$want" ]; then
      passed=$((passed + 1)); echo "ok    $expression = $got"
    else
      failed=$((failed + 1)); echo "FAIL  $expression: $got, not $want"
    fi
  done < "$file"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
"#;

const ADD_TEST: &str = "5 2 add 3\n0 -4 add 4\n";

/// What the demo's operator adds to the default policy, to be asked before a release.
pub const RULE: &str = r#"
  # Releases --------------------------------------------------

  - name: ask-before-release
    match: { syscall: [fs.write, fs.edit], path_glob: "/VERSION" }
    action: require_review
    reason: a release is a person's decision
    hint: "answer with `skep review`"
"#;

/// What the scripted model answers the built-in brain, turn by turn.
pub const MODEL: &str = r#"# A model that follows a text file: each part up to `then` is one answer. docs/models.md tells how to write your own.
say I read before I write.
call fs.list path=.
call fs.read path=calc.sh
call search.grep pattern=add
then
say A line in /etc/motd would be nice.
call fs.write path=/etc/motd content="calc was here"
then
say Refused, and I carry on. First a test that fails.
call fs.write path=tests/sub.test content=<<END
3 5 sub 2
-1 2 sub 3
END
then
call test.run
then
say Red, as it should be. Now the code.
call fs.write path=calc.sh content=<<END
#!/bin/sh
# calc.sh A OPERATION B
case "$2" in
  add) echo $(($1 + $3)) ;;
  sub) echo $(($1 - $3)) ;;
  *) echo "calc: I cannot $2" >&2; exit 1 ;;
esac
END
then
call test.run
then
say Green. A release is a person's decision, so I ask.
call fs.write path=VERSION content="0.2.0\n"
then
say calc subtracts now, with tests, as version 0.2.0
"#;

/// What it answers a vendor's own client: the same story, in words that fit the tools of each. A client that a person kept waiting is
/// started again in the same conversation and told to resume.
pub const CLIENT_MODEL: &str = r#"# A model that follows a text file, for any client. docs/models.md tells how to write your own.
on "[RESUME]"
  call read path=VERSION
then
  say You allowed it, so this is a release.
  call edit path=VERSION old="0.1.0" new="0.2.0"
then
  say calc subtracts now, with tests, as version 0.2.0
on "subtract"
  say I read before I write.
  call read path=calc.sh
  call read path=VERSION
then
  say A rule of my own, and nobody needs to be asked.
  call write path=.skep/rules/mine.ts content="export default rule(\"mine\", () => allow());\n"
then
  say Refused, and I carry on. First a test that fails.
  call write path=tests/sub.test content=<<END
3 5 sub 2
-1 2 sub 3
END
then
  call shell command="sh tests/run.sh"
then
  say Red, as it should be. Now the code.
  call edit path=calc.sh old="  add) echo $(($1 + $3)) ;;" new="  add) echo $(($1 + $3)) ;;\n  sub) echo $(($1 - $3)) ;;"
then
  call shell command="sh tests/run.sh"
then
  say Green. A release is a person's decision, so I ask.
  call edit path=VERSION old="0.1.0" new="0.2.0"
then
  say calc subtracts now, with tests, as version 0.2.0
"#;

/// The operator's own settings: where the demo's model is, and that it is the one to think with.
pub fn settings(model: &Path) -> String {
    format!(
        "providers:\n  demo: {{ url: 'script:{}', dialect: [anthropic, responses, chat, gemini], free: true }}\nmodels:\n  tactical: demo/scripted\n",
        model.display()
    )
}

/// Writes the project and makes it a git repository with one commit.
pub fn write(dir: &Path) -> Result<(), CommandError> {
    let files = [("README.md", README), ("calc.sh", CALC), ("VERSION", "0.1.0\n"), ("tests/run.sh", RUN), ("tests/add.test", ADD_TEST)];
    for (name, text) in files {
        let path = dir.join(name);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, text));
        made.map_err(|error| {
            CommandError::new(ErrorCode::Unavailable, format!("cannot write `{}`", path.display()))
                .why(error)
                .fix("set $TMPDIR to a folder with some space")
        })?;
    }
    git(dir, &["init", "--quiet"])?;
    git(dir, &["symbolic-ref", "HEAD", "refs/heads/main"])?;
    git(dir, &["config", "user.name", "skep demo"])?;
    git(dir, &["config", "user.email", "demo@localhost"])?;
    git(dir, &["config", "commit.gpgsign", "false"])?;
    git(dir, &["add", "."])?;
    git(dir, &["commit", "--quiet", "--message", "a calculator that adds"])
}

/// Is there a git that we can use?
pub fn find_git() -> Result<(), CommandError> {
    let fix = "install git 2 or newer, for example with `apt install git`";
    let output = Command::new("git").arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| {
        CommandError::new(ErrorCode::Unsupported, "the demo needs git").why(format!("`git` does not run: {error}")).fix(fix)
    })?;
    let said = String::from_utf8_lossy(&output.stdout);
    let major = said.split_whitespace().find_map(|word| word.split('.').next()?.parse::<u32>().ok());
    match major {
        Some(2..) => Ok(()),
        _ => Err(CommandError::new(ErrorCode::Unsupported, "the demo needs git")
            .why(format!("`git --version` says `{}`", said.trim()))
            .fix(fix)),
    }
}

/// The person's own settings, hooks and templates stay out of it.
fn git(dir: &Path, words: &[&str]) -> Result<(), CommandError> {
    let run = Command::new("git")
        .args(words)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TEMPLATE_DIR", "")
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .stdin(Stdio::null())
        .output();
    let what = format!("`git {}` failed", words.join(" "));
    match run {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(CommandError::new(ErrorCode::Unavailable, what).why(String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(CommandError::new(ErrorCode::Unavailable, what).why(error)),
    }
}

/// Runs the project's tests where they are, and says what they said.
pub fn test(dir: &Path) -> Result<(bool, String), CommandError> {
    let output = Command::new("sh").arg("tests/run.sh").current_dir(dir).stdin(Stdio::null()).output();
    let output = output.map_err(|error| CommandError::new(ErrorCode::Unavailable, "cannot run `sh tests/run.sh`").why(error))?;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_adds_and_cannot_subtract_yet() {
        find_git().unwrap();
        let dir = tempfile::tempdir().unwrap();
        write(dir.path()).unwrap();
        assert_eq!(test(dir.path()).unwrap(), (true, "ok    2 add 3 = 5\nok    -4 add 4 = 0\n2 passed, 0 failed\n".into()));
        std::fs::write(dir.path().join("tests/sub.test"), "3 5 sub 2\n").unwrap();
        let (ok, said) = test(dir.path()).unwrap();
        assert!(!ok && said.contains("FAIL  5 sub 2: calc: I cannot sub, not 3"), "{said}");
    }
}
