//! `skep budget`: what processes may spend on models.

use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::show::{Line, measure, model};
use clap::Subcommand;
use std::collections::BTreeMap;
use wire::method::Nothing;
use wire::method::model::{BudgetGrantParams, BudgetReconcileParams, BudgetSetParams};
use wire::table::{BudgetGrant, BudgetList, BudgetReconcile, BudgetSet};
use wire::{AtCap, Budget as Caps, ErrorCode, Pid};

/// Show and set what processes may spend on models
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep budget\n  skep budget set 1 --money 20\n  skep budget grant 1 --money 5\n\n\
A budget holds for a process and everything below it; process 1 is the whole kernel. A request must fit under the caps of its process \
and of all its ancestors.")]
pub struct BudgetArgs {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    Show(Show),
    Set(Set),
    Grant(GrantAmounts),
    Reconcile(Reconcile),
}

/// Show budgets and what is spent of them
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep budget show\n  skep budget show --json")]
struct Show {}

/// Set the caps of a process and everything below it
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep budget set 1 --money 20 --ask\n  skep budget set 3 --tokens strategic=200000 --tokens all=2000000\n  \
skep budget set 1 --money-per-day 5 --tokens-per-hour all=200000\n  \
skep budget set 3 --requests-per-minute 30 --context 100000\n  skep budget set 3 --none\n\n\
Days and hours are those of UTC; what was spent in them before counts. Replaces the whole budget of that process; what is already spent counts. At 80 % of a cap that does not pass by itself you are told once: in the task's log, here, \
and by the program in `review: {notify: …}` of $SKEP_HOME/config.yml. `--money 0` stops everything that costs money.",
    group = clap::ArgGroup::new("cap").required(true).multiple(true)
)]
struct Set {
    /// Process id, as `skep ps` prints it
    pid: Pid,
    /// Dollars: 20 or 0.50
    #[arg(long, value_name = "DOLLARS", value_parser = micros, allow_hyphen_values = true, group = "cap")]
    money: Option<u64>,
    /// Tokens of a tier (strategic, tactical, operational) or of all
    #[arg(long, value_name = "TIER=N", value_parser = tokens, group = "cap")]
    tokens: Vec<(String, u64)>,
    /// Dollars of one day
    #[arg(long, value_name = "DOLLARS", value_parser = micros, allow_hyphen_values = true, group = "cap")]
    money_per_day: Option<u64>,
    /// Tokens of one day, of a tier or of all
    #[arg(long, value_name = "TIER=N", value_parser = tokens, group = "cap")]
    tokens_per_day: Vec<(String, u64)>,
    /// Tokens of one hour, of a tier or of all
    #[arg(long, value_name = "TIER=N", value_parser = tokens, group = "cap")]
    tokens_per_hour: Vec<(String, u64)>,
    /// Requests in one minute
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), group = "cap")]
    requests_per_minute: Option<u32>,
    /// The most input tokens of one request
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1..), group = "cap")]
    context: Option<u64>,
    /// At the cap, wait for `skep budget grant` instead of being refused
    #[arg(long)]
    ask: bool,
    /// Remove the budget
    #[arg(long, group = "cap", conflicts_with_all = NOT_WITH_NONE)]
    none: bool,
}

/// Caps beside which taking the budget away makes no sense.
const NOT_WITH_NONE: [&str; 8] =
    ["money", "tokens", "money_per_day", "tokens_per_day", "tokens_per_hour", "requests_per_minute", "context", "ask"];

/// Raise the caps of a process
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep budget grant 1 --money 5\n  skep budget grant 3 --tokens strategic=100000\n  \
skep budget grant 3 --tokens-per-day all=50000\n\n\
What caps a day or an hour is raised for this one and those that follow.",
    group = clap::ArgGroup::new("more").required(true).multiple(true)
)]
struct GrantAmounts {
    /// Process id, as `skep ps` prints it
    pid: Pid,
    /// Dollars: 5 or 0.50
    #[arg(long, value_name = "DOLLARS", value_parser = micros, allow_hyphen_values = true, group = "more")]
    money: Option<u64>,
    /// Tokens of a tier (strategic, tactical, operational) or of all
    #[arg(long, value_name = "TIER=N", value_parser = tokens, group = "more")]
    tokens: Vec<(String, u64)>,
    /// Dollars of each day
    #[arg(long, value_name = "DOLLARS", value_parser = micros, allow_hyphen_values = true, group = "more")]
    money_per_day: Option<u64>,
    /// Tokens of each day, of a tier or of all
    #[arg(long, value_name = "TIER=N", value_parser = tokens, group = "more")]
    tokens_per_day: Vec<(String, u64)>,
    /// Tokens of each hour, of a tier or of all
    #[arg(long, value_name = "TIER=N", value_parser = tokens, group = "more")]
    tokens_per_hour: Vec<(String, u64)>,
}

/// Replace a process's estimates by what was billed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep budget reconcile 7 --money 0\n  skep budget reconcile 7 --tokens tactical=1200 --money 0.02\n\n\
If a provider reported no usage, the cost is an estimate; if a request was interrupted, what it may have cost beyond that is held \
for a day. The figure on the provider's bill replaces both, for the process and all its ancestors. What you do not name stays as it is.")]
struct Reconcile {
    /// Process id, as `skep budget` prints it
    pid: Pid,
    /// Dollars: 0 or 0.02
    #[arg(long, value_name = "DOLLARS", value_parser = micros, allow_hyphen_values = true, required_unless_present = "tokens")]
    money: Option<u64>,
    /// Tokens of a tier: strategic, tactical or operational
    #[arg(long, value_name = "TIER=N", value_parser = tokens)]
    tokens: Vec<(String, u64)>,
}

/// Millionths of a dollar in `0.50`.
pub fn micros(text: &str) -> Result<u64, String> {
    let wrong = || match text {
        "" => "no amount of dollars came: a shell takes `$2` for a variable; write 2".to_owned(),
        _ => format!("`{text}` is not an amount of dollars: write 20 or 0.50"),
    };
    let text_of = text.strip_prefix('$').unwrap_or(text);
    let (whole, part) = text_of.split_once('.').unwrap_or((text_of, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 6 || (whole.is_empty() && part.is_empty()) {
        return Err(wrong());
    }
    let much = || format!("`{text}` is more than can be counted");
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| much())? };
    let part: u64 = format!("{part:0<6}").parse().map_err(|_| wrong())?;
    whole.checked_mul(1_000_000).and_then(|whole| whole.checked_add(part)).ok_or_else(much)
}

pub fn tokens(text: &str) -> Result<(String, u64), String> {
    let wrong = || format!("`{text}` is not a share of tokens: write strategic=200000 or all=2000000");
    let (tier, count) = text.split_once('=').ok_or_else(wrong)?;
    Ok((tier.to_owned(), count.replace('_', "").parse().map_err(|_| wrong())?))
}

/// One figure for each tier; two are a mistake, not a choice.
pub fn by_tier(tokens: Vec<(String, u64)>) -> Result<BTreeMap<String, u64>, CommandError> {
    let mut by_tier = BTreeMap::new();
    for (tier, count) in tokens {
        if let Some(first) = by_tier.insert(tier.clone(), count) {
            return Err(
                CommandError::new(ErrorCode::BadInput, format!("`{tier}` is given twice: {first} and {count}")).fix("name each tier once")
            );
        }
    }
    Ok(by_tier)
}

impl BudgetArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        match self.action {
            None | Some(Action::Show(_)) => {}
            Some(Action::Set(set)) => {
                let at_cap = if set.ask { AtCap::Ask } else { AtCap::Refuse };
                let caps = Caps {
                    tokens: by_tier(set.tokens)?,
                    tokens_per_day: by_tier(set.tokens_per_day)?,
                    tokens_per_hour: by_tier(set.tokens_per_hour)?,
                    micros: set.money,
                    micros_per_day: set.money_per_day,
                    requests_per_minute: set.requests_per_minute,
                    context: set.context,
                    at_cap,
                };
                kernel.call::<BudgetSet>(&BudgetSetParams { pid: set.pid, budget: (!set.none).then_some(caps) }).await?;
            }
            Some(Action::Grant(grant)) => {
                let more = BudgetGrantParams {
                    pid: grant.pid,
                    tokens: by_tier(grant.tokens)?,
                    micros: grant.money.unwrap_or(0),
                    tokens_per_day: by_tier(grant.tokens_per_day)?,
                    tokens_per_hour: by_tier(grant.tokens_per_hour)?,
                    micros_per_day: grant.money_per_day.unwrap_or(0),
                };
                kernel.call::<BudgetGrant>(&more).await?;
            }
            Some(Action::Reconcile(real)) => {
                let tokens = by_tier(real.tokens)?;
                kernel.call::<BudgetReconcile>(&BudgetReconcileParams { pid: real.pid, tokens, micros: real.money }).await?;
            }
        }
        let result = kernel.call::<BudgetList>(&Nothing {}).await?;
        console.show_wrapped(&result, |result| model::budgets(result, measure::now_ms()));
        if result.accounts.is_empty() && !console.json {
            console.note(Line::new().faint("`skep budget set 1 --money 20` caps everything this kernel does"));
        }
        OK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_exactly() {
        for (text, read) in [("20", 20_000_000), ("0.50", 500_000), ("$1.000001", 1_000_001), (".5", 500_000)] {
            assert_eq!(micros(text), Ok(read), "{text}");
        }
        for bad in ["", ".", "-1", "1e3", "0.0000001", "20 dollars", "99999999999999999999"] {
            assert!(micros(bad).is_err(), "{bad}");
        }
        assert_eq!(tokens("all=2_000"), Ok(("all".to_owned(), 2_000)));
        assert!(micros("99999999999999").is_err_and(|why| why.contains("more than can be counted")));
        assert!(by_tier(vec![("all".into(), 1), ("all".into(), 2)]).is_err());
        assert!(tokens("all").is_err() && tokens("all=many").is_err());
    }
}
