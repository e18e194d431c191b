//! `skep policy`: the rules, before and after they are in force.

mod candidate;
mod update;

use crate::command::call::input;
use crate::console::{Console, ExitResult, OK, folder};
use crate::show::policy;
use candidate::Candidate;
use clap::Subcommand;
use std::path::{Path, PathBuf};
use update::UpdateArgs;
use wire::TaskId;
use wire::code::EXIT_FAILED;
use wire::method::policy::{
    PolicyCheckParams, PolicyCheckResult, PolicyExplainParams, PolicyLogParams, PolicyTrialParams, PolicyTrialResult,
};
use wire::table::{PolicyCheck, PolicyExplain, PolicyLog, PolicySuggest, PolicyTrial};
use wire::{ClientError, KernelClient};

/// Check, explain, try out and change the rules
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep policy check\n  skep policy explain fs.read path=src/main.rs\n  skep policy trial --last 500\n  \
skep policy update\n  skep policy suggest\n\n\
The rules are in .skep/policy.yaml. They are in force once you have said so with `skep policy update` or `skep trust`."
)]
pub struct PolicyArgs {
    #[command(subcommand)]
    action: Action,
    /// The repository [default: where you are]
    #[arg(long, value_name = "DIR", global = true)]
    zone: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Find mistakes in the rules
    #[command(
        after_help = "Examples:\n  skep policy check\n  skep policy check new.yaml && echo fine\n\nExits with 1 when there is an error."
    )]
    Check(File),
    /// Check the rules against their examples, and count them
    #[command(after_help = "Examples:\n  skep policy test\n\n\
A rule's `examples: {match: […], not_match: […]}` are calls it must and must not be about. Exits with 1 when one does not hold.")]
    Test(File),
    /// Say which rules would decide a call, and why
    #[command(
        after_help = "Examples:\n  skep policy explain fs.read path=src/main.rs\n  skep policy explain fs.write path=src/main.rs content=x\n  \
skep policy explain shell.run 'command=[\"npm\",\"install\"]' --task task-3\n  skep policy explain fs.read path=src/main.rs --candidate"
    )]
    Explain(Explain),
    /// Show what the rules would have changed for past calls
    #[command(
        after_help = "Examples:\n  skep policy trial\n  skep policy trial new.yaml --last 1000\n  skep policy trial --after 4000 --before 5000\n\n\
Only what would come out otherwise is shown; [BREAKING] was allowed and would be denied."
    )]
    Trial(Try),
    /// Try the rules out, show what changes, and put them in force
    #[command(after_help = "Examples:\n  skep policy update\n  skep policy update new.yaml\n  skep policy update --yes\n\n\
With a FILE its text becomes .skep/policy.yaml, after you have said yes. More than five breaking changes need a typed phrase.")]
    Update(UpdateArgs),
    /// List the versions that were in force
    #[command(after_help = "Examples:\n  skep policy log\n  skep policy log --diff")]
    Log {
        /// Of your own policy.yaml in $SKEP_HOME
        #[arg(long)]
        home: bool,
        /// Also what each one changed
        #[arg(long)]
        diff: bool,
    },
    /// Propose rules from how you answered reviews
    #[command(
        after_help = "Examples:\n  skep policy suggest\n  skep policy suggest > suggested.yaml\n\nThe rules are on stdout, the reasons on stderr."
    )]
    Suggest,
    /// Print the typed API of extension rules
    #[command(after_help = "Examples:\n  skep policy types > .skep/rules/skep.d.ts")]
    Types,
}

#[derive(Debug, clap::Args)]
struct File {
    /// Rules to look at [default: .skep/policy.yaml]
    file: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Explain {
    /// Which tool
    tool: String,
    /// Its input, key by key, as in `skep call`
    #[arg(value_name = "KEY=VALUE")]
    pairs: Vec<String>,
    /// Its input as one JSON object; pairs are added to it
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// As a call of this task [default: of your own]
    #[arg(long, value_name = "TASK")]
    task: Option<TaskId>,
    /// By the file in the project instead of what is in force
    #[arg(long)]
    candidate: bool,
}

#[derive(Debug, Default, clap::Args)]
struct Try {
    /// Rules to try [default: .skep/policy.yaml]
    file: Option<PathBuf>,
    #[command(flatten)]
    range: Range,
}

/// Which calls of the past.
#[derive(Debug, Default, clap::Args)]
struct Range {
    /// How many of the newest calls [default: 100]
    #[arg(long, value_name = "N")]
    last: Option<u64>,
    /// Only after this record
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Only before this record
    #[arg(long, value_name = "SEQ")]
    before: Option<u64>,
}

impl PolicyArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        if matches!(self.action, Action::Types) {
            console.print_text(server::extension_types());
            return OK;
        }
        let path = folder(self.zone.as_deref())?;
        let mut kernel = console.kernel().await?;
        match self.action {
            Action::Check(File { file }) => {
                let candidate = Candidate::read(file.as_deref(), Path::new(&path))?;
                let result = check(&mut kernel, &path, &candidate).await?;
                console.show_wrapped(&result, |result| policy::checked(result, &candidate.name, None));
                Ok(if result.ok { 0 } else { EXIT_FAILED })
            }
            Action::Test(File { file }) => {
                let candidate = Candidate::read(file.as_deref(), Path::new(&path))?;
                let result = check(&mut kernel, &path, &candidate).await?;
                let examples = candidate.examples();
                let tested = policy::Tested { check: &result, examples };
                console.show_wrapped(&tested, |tested| policy::checked(tested.check, &candidate.name, Some(examples)));
                Ok(if result.ok { 0 } else { EXIT_FAILED })
            }
            Action::Explain(Explain { tool, pairs, input, task, candidate }) => {
                let input = input::read(input.as_deref(), &pairs)?;
                let params = PolicyExplainParams { path, tool, input, task, candidate };
                let result = kernel.call::<PolicyExplain>(&params).await?;
                console.show_wrapped(&result, |result| policy::explained(&params.tool, &params.input, result));
                OK
            }
            Action::Trial(Try { file, range }) => {
                let candidate = file.map(|file| Candidate::file(&file)).transpose()?;
                let result = console.wait("trying", trial(&mut kernel, &path, candidate.map(|it| it.text), &range)).await?;
                console.show_uncut(&result, policy::tried);
                OK
            }
            Action::Update(update) => update.run(&mut kernel, path, console).await,
            Action::Log { diff, home } => {
                let result = kernel.call::<PolicyLog>(&PolicyLogParams { path, home }).await?;
                console.show_uncut(&result, |result| policy::log(result, home, diff, crate::show::measure::now_ms()));
                OK
            }
            Action::Suggest => {
                let result =
                    console.wait("reading the answers", kernel.call::<PolicySuggest>(&PolicyLogParams { path, home: false })).await?;
                if console.json {
                    console.out.json(&result);
                } else {
                    console.err.uncut(&policy::reasons(&result));
                    console.out.uncut(&policy::suggested(&result));
                }
                OK
            }
            Action::Types => OK,
        }
    }
}

/// Problems are told by the name of the file that was given.
async fn check(kernel: &mut KernelClient, path: &str, candidate: &Candidate) -> Result<PolicyCheckResult, ClientError> {
    let text = candidate.given.then(|| candidate.text.clone());
    let mut result = kernel.call::<PolicyCheck>(&PolicyCheckParams { path: path.to_owned(), text }).await?;
    if candidate.given {
        let ours = result.problems.iter_mut().filter(|problem| problem.file == candidate::FILE);
        ours.for_each(|problem| problem.file.clone_from(&candidate.name));
    }
    Ok(result)
}

async fn trial(kernel: &mut KernelClient, path: &str, text: Option<String>, range: &Range) -> Result<PolicyTrialResult, ClientError> {
    let Range { last, after, before } = *range;
    kernel.call::<PolicyTrial>(&PolicyTrialParams { path: path.to_owned(), last, after_seq: after, before_seq: before, text }).await
}
