//! `skep cron`: what happens at set times.

use crate::command::spawn::{by_name, pair};
use crate::command::whom;
use crate::console::{Console, ExitResult, OK};
use crate::show::{Line, Page, cron, measure};
use crate::units::duration_ms;
use clap::Subcommand;
use jiff::tz::TimeZone;
use wire::method::Nothing;
use wire::method::cron::{CronAddParams, CronIdParams, CronNextParams};
use wire::table::{CronAdd, CronList, CronNext, CronRemove, CronRun};
use wire::{CronAction, CronId, CronSpec, MissedRule, OverlapRule, Pid};

/// What happens at set times
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep cron add nightly '0 3 * * *' --target price 'write the report'\n  skep cron list\n  \
skep cron next '0 9 * * mon-fri' --timezone Europe/Berlin\n  skep cron run cron-1\n\n\
Five fields are minute, hour, day, month, weekday; six begin with seconds.\nEntries are on record and survive a restart.")]
pub struct CronArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Add(Box<Add>),
    /// List entries, with their last and next run
    #[command(after_help = "Examples:\n  skep cron list\n  skep cron list --json")]
    List,
    /// Remove an entry
    #[command(after_help = "Examples:\n  skep cron rm cron-1")]
    Rm {
        /// Its id, such as cron-1
        cron: CronId,
    },
    /// Run an entry now
    #[command(after_help = "Examples:\n  skep cron run cron-1")]
    Run {
        /// Its id, such as cron-1
        cron: CronId,
    },
    /// Show when an expression is due
    #[command(
        after_help = "Examples:\n  skep cron next '*/15 * * * *'\n  skep cron next '0 9 * * mon-fri' --timezone Europe/Berlin --count 10"
    )]
    Next {
        /// Five or six fields
        expression: String,
        /// Time zone by its name [default: this machine's]
        #[arg(long, value_name = "ZONE", default_value = "", hide_default_value = true)]
        timezone: String,
        /// How many times
        #[arg(long, value_name = "N", default_value = "5", hide_default_value = true, value_parser = clap::value_parser!(u32).range(1..=1000))]
        count: u32,
    },
}

/// Add an entry
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep cron add nightly '0 3 * * *' --target price 'write the report'\n  \
skep cron add ping '*/10 * * * * *' --action message --target price hello\n  skep cron add up '0 8 * * mon-fri' --action wake --target price")]
struct Add {
    /// What it is called
    name: String,
    /// Five or six fields
    expression: String,
    /// What is to be done, or said
    #[arg(default_value = "", hide_default_value = true)]
    description: String,
    /// The process it concerns, by name or pid [default: the kernel]
    #[arg(long, value_name = "PROCESS")]
    target: Option<String>,
    /// execute, message or wake
    #[arg(long, value_name = "WHAT", default_value = "execute", value_parser = action)]
    action: CronAction,
    /// Something that goes with it
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = pair)]
    params: Vec<(String, String)>,
    /// Time zone by its name [default: this machine's]
    #[arg(long, value_name = "ZONE", default_value = "", hide_default_value = true)]
    timezone: String,
    /// While its last run goes on: skip, queue or allow
    #[arg(long, value_name = "RULE", default_value = "skip", value_parser = overlap)]
    overlap: OverlapRule,
    /// Runs that were due while no kernel ran: skip, once or all
    #[arg(long, value_name = "RULE", default_value = "skip", value_parser = missed)]
    missed: MissedRule,
    /// Start up to so much later
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    jitter: Option<u64>,
}

/// A spawn needs a whole program, which a startup file or an agent of its own gives.
fn action(text: &str) -> Result<CronAction, String> {
    let found = CronAction::parse(text).filter(|action| *action != CronAction::Spawn);
    found.ok_or_else(|| format!("`{text}` is none of execute, message, wake"))
}

fn overlap(text: &str) -> Result<OverlapRule, String> {
    match text {
        "skip" => Ok(OverlapRule::Skip),
        "queue" => Ok(OverlapRule::Queue),
        "allow" => Ok(OverlapRule::Allow),
        _ => Err(format!("`{text}` is none of skip, queue, allow")),
    }
}

fn missed(text: &str) -> Result<MissedRule, String> {
    match text {
        "skip" => Ok(MissedRule::Skip),
        "once" => Ok(MissedRule::Once),
        "all" => Ok(MissedRule::All),
        _ => Err(format!("`{text}` is none of skip, once, all")),
    }
}

impl CronArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        match self.action {
            Action::Add(add) => {
                let target = match &add.target {
                    Some(process) => whom::process(&mut kernel, process).await?,
                    None => Pid(1),
                };
                let spec = CronSpec {
                    name: add.name.clone(),
                    expression: add.expression,
                    timezone: add.timezone,
                    action: add.action,
                    target,
                    description: add.description,
                    params: by_name(add.params)?,
                    program: None,
                    enabled: true,
                    overlap: add.overlap,
                    missed: add.missed,
                    jitter_ms: add.jitter.unwrap_or(0),
                };
                let added = kernel.call::<CronAdd>(&CronAddParams { spec }).await;
                let added = added.map_err(|error| whom::explain(error, format!("`{}` was not added", add.name), "see `skep help cron`"))?;
                console.show(&added, |added| {
                    Page(vec![Line::new().good("✓ ").name(added.cron.to_string()).plain(format!(" is {}", add.name))])
                });
            }
            Action::List => {
                let result = kernel.call::<CronList>(&Nothing {}).await?;
                console.show(&result, |result| cron::list(&result.entries, measure::now_ms(), &TimeZone::system()));
            }
            Action::Rm { cron } => {
                let removed = kernel.call::<CronRemove>(&CronIdParams { cron }).await;
                removed.map_err(|error| whom::explain(error, format!("`{cron}` was not removed"), "`skep cron list` has them"))?;
                console.show(&Nothing {}, |_| Page(vec![Line::new().good("✓ ").name(cron.to_string()).plain(" is removed")]));
            }
            Action::Run { cron } => {
                let ran = console.wait("running", kernel.call::<CronRun>(&CronIdParams { cron })).await;
                ran.map_err(|error| whom::explain(error, format!("`{cron}` did not run"), "`skep cron list` has them"))?;
                console.show(&Nothing {}, |_| Page(vec![Line::new().good("✓ ").name(cron.to_string()).plain(" runs")]));
            }
            Action::Next { expression, timezone, count } => {
                let next = kernel.call::<CronNext>(&CronNextParams { expression, timezone, after_ms: None, count }).await;
                let next =
                    next.map_err(|error| whom::explain(error, "it is never due", "five fields are minute, hour, day, month, weekday"))?;
                console.show(&next, |next| cron::times(&next.at_ms, &TimeZone::system()));
            }
        }
        OK
    }
}
