//! `skep plan`: plans before anybody carries them out.

use crate::command::act::prompt;
use crate::command::run::{RunArgs, plan_text};
use crate::command::session::terms::TermsArgs;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::place::{AbsentTree, PlaceArgs};
use crate::show::measure::plural;
use crate::show::plan::{self, ROWS_SHOWN};
use crate::show::{Line, Page};
use clap::Subcommand;
use std::io::Write;
use std::path::{Path, PathBuf};
use wire::ErrorCode;
use wire::code::EXIT_FAILED;
use wire::method::plan::{PlanCheckParams, PlanCheckResult, PlanMakeParams, PlanMakeResult};
use wire::table::{PlanCheck, PlanMake};

/// Have a plan made, and look at it before it runs
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:\n  skep plan \"write a report of the prices\"    made, shown, kept in a file\n  \
skep plan \"port it\" --brain claude --out port.json\n  skep plan check plan.yml\n  skep plan show plan.yml\n  skep plan run plan.yml --mode dry_run\n\n\
Nothing of a plan runs before `skep plan run` or `skep run --plan`. `skep help\nplans` tells how plans are written.")]
pub struct PlanArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    make: MakeArgs,
}

#[derive(Debug, clap::Args)]
struct MakeArgs {
    /// What to do, in your own words; `-` reads it from stdin
    #[arg(required = true, default_value = "", hide_default_value = true)]
    task: String,
    /// Where the plan is kept; `-` prints it [default: TASK.plan.json, by the id of its task]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    terms: TermsArgs,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Say what critics and the policy have against a plan
    #[command(after_help = "Examples:\n  skep plan check plan.yml\n  skep plan check plan.yml --allow-path 'src/**' --json\n\n\
Exit code 0 when it could be carried out, 1 when it could not. Nothing runs.")]
    Check {
        /// A plan in YAML or JSON; `-` reads it from stdin
        file: PathBuf,
        #[command(flatten)]
        terms: Box<TermsArgs>,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Show a plan as a graph
    #[command(after_help = "Examples:\n  skep plan show plan.yml\n  skep plan show plan.yml --all     every step")]
    Show {
        /// A plan in YAML or JSON; `-` reads it from stdin
        file: PathBuf,
        /// Every step, however many there are
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        place: PlaceArgs,
    },
    /// Carry out a plan
    #[command(
        after_help = "Examples:\n  skep plan run plan.yml\n  skep plan run plan.yml --mode dry_run\n  skep plan run plan.yml \"the report of May\" --detach\n\n\
The same as `skep run --plan`."
    )]
    Run {
        /// A plan in YAML or JSON; `-` reads it from stdin
        file: PathBuf,
        /// What it is for [default: its file's name]
        #[arg(default_value = "", hide_default_value = true)]
        task: String,
        /// Return at once; `skep session watch` shows it
        #[arg(long)]
        detach: bool,
        #[command(flatten)]
        terms: Box<TermsArgs>,
        #[command(flatten)]
        place: PlaceArgs,
    },
}

impl PlanArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        match self.action {
            None => self.make.run(console).await,
            Some(Action::Check { file, terms, place }) => {
                let result = check(&file, *terms, &place, console).await?;
                let passes = result.passes();
                console.show(&result, |result| {
                    let each = result.each().zip(names(&file, result));
                    apart(each.map(|(one, name)| checked(&name, &one, console.out.columns())))
                });
                if passes { OK } else { Ok(EXIT_FAILED) }
            }
            Some(Action::Show { file, all, place }) => {
                let terms = TermsArgs::plain();
                let result = check(&file, terms, &place, console).await?;
                let mut plans = Vec::new();
                for (one, name) in result.each().zip(names(&file, &result)) {
                    let Some(found) = one.plan else { return Err(no_plan(&name, &one)) };
                    plans.push(found);
                }
                let rows = (!all).then_some(ROWS_SHOWN);
                match plans.as_slice() {
                    [found] => console.show(found, |found| plan::shown(found, rows)),
                    several => console.show(&several, |several| apart(several.iter().map(|found| plan::shown(found, rows)))),
                }
                OK
            }
            Some(Action::Run { file, task, detach, terms, place }) => {
                RunArgs::of_file(file, task, detach, *terms, place).run(console).await
            }
        }
    }
}

async fn check(file: &Path, terms: TermsArgs, place: &PlaceArgs, console: &Console) -> Result<PlanCheckResult, CommandError> {
    let text = plan_text(file)?;
    let params = PlanCheckParams { path: place.folder(console, AbsentTree::Refuse).await?, text, terms: terms.terms(true)? };
    let mut kernel = console.kernel().await?;
    Ok(console.wait("looking at it", kernel.call::<PlanCheck>(&params)).await?)
}

/// What each plan of a file is called: by the file, and by its number where there are several.
fn names(file: &Path, result: &PlanCheckResult) -> Vec<String> {
    let count = 1 + result.further.len();
    let name = |number| if count == 1 { file.display().to_string() } else { format!("{}, plan {number} of {count}", file.display()) };
    (1..=count).map(name).collect()
}

/// Pages one behind the other, with a blank line between them.
fn apart(pages: impl Iterator<Item = Page>) -> Page {
    pages
        .reduce(|mut all, page| {
            all.blank();
            all.append(page);
            all
        })
        .unwrap_or_default()
}

/// What a check says.
fn checked(name: &str, result: &PlanCheckResult, columns: Option<usize>) -> Page {
    let mut page = plan::findings(&result.findings, columns);
    let blocking = result.findings.iter().filter(|finding| finding.blocks).count() as u64;
    page.push(match &result.plan {
        Some(found) if result.passes() => {
            Line::new().good("✓ ").name(name).plain(format!(" can be carried out: {}", plural(found.steps.len() as u64, "step")))
        }
        _ => Line::new().bad("✗ ").name(name).plain(format!(" cannot be carried out: {}", plural(blocking, "finding"))),
    });
    if let Some(most) = &result.most {
        page.because("at most", &plan::most(most));
    }
    page
}

fn no_plan(name: &str, result: &PlanCheckResult) -> CommandError {
    let why = result.findings.iter().map(|finding| match finding.at.as_str() {
        "" => finding.message.clone(),
        at => format!("{at}: {}", finding.message),
    });
    CommandError::new(ErrorCode::BadInput, format!("`{name}` is no plan"))
        .why(why.collect::<Vec<_>>().join("\n"))
        .fix("`skep help plans` tells how plans are written")
}

impl MakeArgs {
    async fn run(self, console: &Console) -> ExitResult {
        // Before a planner is asked, which is paid for.
        match self.out.as_deref() {
            Some(out) if out.as_os_str() == "-" => {}
            Some(out) => check_place(out)?,
            None => check_place(Path::new(&format!(".skep-plan-{}", std::process::id())))?,
        }
        let text = prompt(self.task)?;
        let params = PlanMakeParams { path: self.place.folder(console, AbsentTree::Make).await?, text, terms: self.terms.terms(false)? };
        let mut kernel = console.kernel().await?;
        let made = console.wait("planning", kernel.call::<PlanMake>(&params)).await?;
        let name = || PathBuf::from(made.task.map_or_else(|| "plan.json".to_owned(), |task| format!("{task}.plan.json")));
        let out = self.out.unwrap_or_else(name);
        if out.as_os_str() == "-" {
            if console.json {
                console.out.json(&made)
            } else {
                console.out.write(format!("{}\n", made.text).as_bytes())
            }
            return OK;
        }
        write_new(&out, &made.text)?;
        console.show(&made, |made| shown(made, &out, console.out.columns()));
        OK
    }
}

fn shown(made: &PlanMakeResult, out: &Path, columns: Option<usize>) -> Page {
    let mut page = plan::shown(&made.plan, Some(ROWS_SHOWN));
    page.append(plan::findings(&made.findings, columns));
    page.push(Line::new().good("✓ ").plain("kept in ").name(out.display().to_string()));
    page.because("next", &format!("skep plan run {}", out.display()));
    page
}

fn refuse_existing(out: &Path) -> Result<(), CommandError> {
    match out.symlink_metadata() {
        Ok(_) => Err(CommandError::new(ErrorCode::WrongState, format!("`{}` is there already", out.display()))
            .why("a plan is not written over another file")
            .fix("name another one with `--out FILE`")),
        Err(_) => Ok(()),
    }
}

/// Whether a file can be made here: it is, and goes again.
fn check_place(out: &Path) -> Result<(), CommandError> {
    refuse_existing(out)?;
    let made = std::fs::File::create_new(out).and_then(|_| std::fs::remove_file(out));
    made.map_err(|error| not_kept(out, &error))
}

fn not_kept(out: &Path, error: &std::io::Error) -> CommandError {
    CommandError::new(ErrorCode::BadInput, format!("the plan cannot be kept in `{}`", out.display()))
        .why(error)
        .fix("name another place with `--out FILE`, or `--out -`")
}

/// Writes a file that is not there yet.
fn write_new(out: &Path, text: &str) -> Result<(), CommandError> {
    refuse_existing(out)?;
    let written = std::fs::File::create_new(out).and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()));
    written.map_err(|error| not_kept(out, &error))
}
