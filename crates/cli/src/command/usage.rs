//! `skep usage`: tokens and money, by whom and for what.

use crate::console::{Console, ExitResult, OK};
use crate::show::model;
use clap::ValueEnum;
use wire::By;
use wire::method::model::ModelUsageParams;
use wire::table::ModelUsage;

/// Show what models were used, and what it cost
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep usage\n  skep usage --by day\n  skep usage --by task\n  skep usage --by tree --json\n\n\
Figures are the providers' own; if a provider reported none, the usage is counted and marked as an estimate. `unrecorded` is \
what a crash left no record of, `reconciled` what you entered by `skep budget reconcile`. Prices are those of the table that comes \
with skep; $SKEP_HOME/prices.yaml overrides it. Days are UTC.")]
pub struct UsageArgs {
    /// What to sum by
    #[arg(long, value_enum, default_value = "model")]
    by: Sum,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Sum {
    Process,
    Tree,
    User,
    Zone,
    Model,
    Tier,
    Day,
    Task,
    Node,
}

impl UsageArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let by = match self.by {
            Sum::Process => By::Process,
            Sum::Tree => By::Tree,
            Sum::User => By::User,
            Sum::Zone => By::Zone,
            Sum::Model => By::Model,
            Sum::Tier => By::Tier,
            Sum::Day => By::Day,
            Sum::Task => By::Task,
            Sum::Node => By::Node,
        };
        let result = console.kernel().await?.call::<ModelUsage>(&ModelUsageParams { by }).await?;
        console.show_wrapped(&result, |result| model::usage(result, by, console.out.columns()));
        OK
    }
}
