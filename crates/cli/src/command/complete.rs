//! `skep __complete`: the names that can stand at the end of a command line, for the shell that asks.
//!
//! Asks a kernel that runs, and starts none: whoever presses the tab key waits for nothing else.

use crate::args;
use crate::command::status::StatusOf;
use crate::console::{Console, ExitResult, OK};
use crate::show::brain::CLIENTS;
use crate::start;
use clap::{Arg, ArgAction};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;
use wire::method::Nothing;
use wire::method::review::ReviewListParams;
use wire::method::task::TaskListParams;
use wire::table::{GrantList, ReviewList, TaskList};
use wire::{KernelClient, ReviewId, TaskId};

/// A kernel that needs longer has other things to do.
const WAIT_MS: u64 = 500;
/// Tiers that every configuration can name a model for.
const TIERS: &[&str] = &["strategic", "tactical", "operational"];

/// Print names for a shell's completion
#[derive(Debug, clap::Args)]
pub struct CompleteArgs {
    /// The words after `skep`, up to the one that is being typed
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// What is being typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Completion {
    Task,
    Review,
    /// A grant, a ban or a token.
    Grant,
    Brain,
    Model,
}

impl CompleteArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let Some((kind, typed)) = completion(&self.words) else { return OK };
        let asked = tokio::time::timeout(Duration::from_millis(WAIT_MS), names(kind, &console.home)).await;
        let mut names = asked.unwrap_or_default();
        names.retain(|name| name.starts_with(typed));
        let text: String = names.iter().map(|name| format!("{name}\n")).collect();
        console.out.write(text.as_bytes());
        OK
    }
}

/// What the last word names, and how much of it is typed; `None` where the shell knows as much as we do.
fn completion(words: &[String]) -> Option<(Completion, &str)> {
    let (typed, before) = words.split_last()?;
    let root = args::command();
    let mut command = &root;
    let mut option: Option<&Arg> = None;
    let mut places = 0;
    for word in before {
        if word == "--" {
            return None;
        }
        if option.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            option = find_option(&root, command, word).filter(|arg| takes_value(arg) && !word.contains('='));
        } else if let Some(sub) = command.find_subcommand(word).filter(|_| places == 0) {
            command = sub;
        } else {
            places += 1;
        }
    }
    if let Some((name, value)) = typed.split_once('=').filter(|(name, _)| name.starts_with("--")) {
        return Some((kind(find_option(&root, command, name)?)?, value));
    }
    let arg = match option {
        Some(arg) => arg,
        None if typed.starts_with('-') => return None,
        None => {
            let places_of: Vec<&Arg> = command.get_positionals().collect();
            places_of.get(places).copied().or(places_of.last().copied().filter(|arg| matches!(arg.get_action(), ArgAction::Append)))?
        }
    };
    Some((kind(arg)?, typed))
}

fn find_option<'a>(root: &'a clap::Command, command: &'a clap::Command, word: &str) -> Option<&'a Arg> {
    let name = word.split('=').next().unwrap_or_default();
    let is_it = |arg: &&Arg| match name.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => name.chars().nth(1).is_some_and(|short| arg.get_short() == Some(short)),
    };
    command.get_arguments().chain(root.get_arguments()).find(is_it)
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

fn kind(arg: &Arg) -> Option<Completion> {
    let of = arg.get_value_parser().type_id();
    match arg.get_id().as_str() {
        _ if of == TypeId::of::<TaskId>() || of == TypeId::of::<StatusOf>() => Some(Completion::Task),
        _ if of == TypeId::of::<ReviewId>() => Some(Completion::Review),
        "ids" => Some(Completion::Grant),
        "brain" => Some(Completion::Brain),
        "model" => Some(Completion::Model),
        _ => None,
    }
}

/// All names of a kind; none where nobody can be asked.
async fn names(kind: Completion, home: &Path) -> Vec<String> {
    match kind {
        Completion::Model => models(home),
        Completion::Brain => {
            let native = models(home).into_iter().map(|model| format!("native:{model}"));
            let vendors = CLIENTS.map(str::to_owned).into_iter().chain(aliases(home));
            vendors.chain(["native".to_owned()]).chain(native).chain(["script:".to_owned()]).collect()
        }
        of_kernel => match start::running(home).await {
            Ok(Some(mut kernel)) => known(of_kernel, &mut kernel).await.unwrap_or_default(),
            _ => Vec::new(),
        },
    }
}

async fn known(kind: Completion, kernel: &mut KernelClient) -> Result<Vec<String>, wire::ClientError> {
    Ok(match kind {
        Completion::Task => {
            let tasks = kernel.call::<TaskList>(&TaskListParams { path: None }).await?.tasks;
            // The newest are the ones that somebody types.
            tasks.iter().rev().map(|task| task.task.to_string()).collect()
        }
        Completion::Review => kernel
            .call::<ReviewList>(&ReviewListParams { all: false })
            .await?
            .reviews
            .iter()
            .map(|review| review.review.to_string())
            .collect(),
        Completion::Grant => {
            let given = kernel.call::<GrantList>(&Nothing {}).await?;
            let grants = given.grants.iter().filter(|grant| grant.live).map(|grant| grant.grant.to_string());
            let bans = given.bans.iter().map(|ban| ban.ban.to_string());
            let tokens = given.tokens.iter().filter(|token| token.live).map(|token| token.token.to_string());
            grants.chain(bans).chain(tokens).collect()
        }
        Completion::Brain | Completion::Model => Vec::new(),
    })
}

/// The names under `brains` in `config.yml` that stand for a brain, and the agents there.
fn aliases(home: &Path) -> Vec<String> {
    #[derive(Deserialize, Default)]
    struct Settings {
        #[serde(default)]
        brains: BTreeMap<String, BTreeMap<String, IgnoredAny>>,
    }
    let text = yaml::read_file(&home.join("config.yml")).unwrap_or_default();
    let settings: Settings = yaml::from_str(&text).unwrap_or_default();
    let brains = settings.brains.into_iter().filter(|(name, _)| !CLIENTS.contains(&name.as_str()));
    brains.map(|(name, fields)| if fields.contains_key("alias") { name } else { format!("acp:{name}") }).collect()
}

/// The names under `models` in `config.yml`, what its providers say they have, and the tiers.
fn models(home: &Path) -> Vec<String> {
    #[derive(Deserialize, Default)]
    struct Settings {
        #[serde(default)]
        models: BTreeMap<String, IgnoredAny>,
        #[serde(default)]
        providers: BTreeMap<String, ProviderModels>,
    }
    #[derive(Deserialize, Default)]
    struct ProviderModels {
        #[serde(default)]
        models: Vec<String>,
    }
    let text = yaml::read_file(&home.join("config.yml")).unwrap_or_default();
    let settings: Settings = yaml::from_str(&text).unwrap_or_default();
    let mut names: Vec<String> = settings.models.into_keys().collect();
    let offered = settings.providers.iter().flat_map(|(name, of)| of.models.iter().map(move |model| format!("{name}/{model}")));
    // A pattern is no name.
    names.extend(offered.filter(|name| !name.contains('*')));
    names.extend(TIERS.iter().map(|tier| (*tier).to_owned()));
    names.sort_unstable();
    names.dedup();
    names
}

/// Where clap's script for zsh begins to run itself.
const ZSH_START: &str = "if [ \"$funcstack[1]\" = \"_skep\" ]; then";

/// A shell's own script, made to ask us where a name is wanted.
pub fn with_names(shell: clap_complete::Shell, mut script: String) -> String {
    match shell {
        clap_complete::Shell::Bash => script.push_str(include_str!("complete/names.bash")),
        clap_complete::Shell::Zsh => {
            script.truncate(script.find(ZSH_START).unwrap_or(script.len()));
            script = subcommands_first(&script);
            script.push_str(include_str!("complete/names.zsh"));
        }
        clap_complete::Shell::Fish => {
            script.push_str(include_str!("complete/names.fish"));
            // The value of an option is looked for in what is said of that option.
            let lines =
                named_options(&args::command()).into_iter().map(|name| format!("complete -c skep -l {name} -x -k -a '(__skep_names)'\n"));
            script.extend(lines);
        }
        _ => {}
    }
    script
}

/// Clap has zsh look for the subcommands of `skep merge [TASK]` behind a task. Such a task is a name, and names are ours.
fn subcommands_first(script: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in script.lines() {
        if line.starts_with("\":: :_skep_") {
            while lines.last().is_some_and(|last| last.starts_with("'::")) {
                lines.pop();
            }
        }
        lines.push(line);
    }
    lines.join("\n").replace("$line[2]", "$line[1]") + "\n"
}

/// Options of any command whose value is a name.
fn named_options(command: &clap::Command) -> BTreeSet<String> {
    let own = command.get_opts().filter(|arg| kind(arg).is_some()).filter_map(Arg::get_long).map(str::to_owned);
    own.chain(command.get_subcommands().flat_map(named_options)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap_complete::Shell;

    fn of(line: &str) -> Option<(Completion, String)> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        completion(&words).map(|(kind, typed)| (kind, typed.to_owned()))
    }

    #[test]
    fn the_word_that_is_typed_is_known_by_its_place() {
        for (line, kind, typed) in [
            ("watch ", Completion::Task, ""),
            ("--json diff task-", Completion::Task, "task-"),
            ("merge undo ta", Completion::Task, "ta"),
            ("merge ", Completion::Task, ""),
            ("call fs.read --task ", Completion::Task, ""),
            ("review allow r", Completion::Review, "r"),
            ("review deny ", Completion::Review, ""),
            ("grant revoke g-1 ", Completion::Grant, ""),
            ("act fix --brain n", Completion::Brain, "n"),
            ("act fix --brain=n", Completion::Brain, "n"),
            ("ask why --model ", Completion::Model, ""),
        ] {
            assert_eq!(of(line), Some((kind, typed.to_owned())), "{line}");
        }
        for line in ["", "wat", "act ", "act fix --", "journal log --kind ", "watch task-1 ", "sandbox run -- ta", "call fs.read --task x "]
        {
            assert_eq!(of(line), None, "{line}");
        }
    }

    #[test]
    fn every_shell_that_we_know_asks_us() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut args::command(), "skep", &mut script);
            let script = String::from_utf8(script).unwrap();
            assert!(shell != Shell::Zsh || script.contains(ZSH_START), "clap starts it in another way");
            let script = with_names(shell, script);
            assert!(script.contains(" __complete "), "{shell}");
            assert!(
                shell != Shell::Zsh || (script.contains("$line[1]") && !script.contains("$line[2]")),
                "a subcommand is looked for elsewhere"
            );
        }
        assert_eq!(named_options(&args::command()).into_iter().collect::<Vec<_>>(), ["after", "brain", "model", "task"]);
    }

    #[test]
    fn models_come_from_the_settings() {
        let home = tempfile::tempdir().unwrap();
        assert_eq!(models(home.path()), ["operational", "strategic", "tactical"]);
        std::fs::write(
            home.path().join("config.yml"),
            "providers: {a: {url: 'http://x', models: [big, 'q*']}}\nmodels: {fast: a/m, tactical: a/n}\n",
        )
        .unwrap();
        assert_eq!(models(home.path()), ["a/big", "fast", "operational", "strategic", "tactical"]);
    }
}
