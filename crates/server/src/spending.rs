//! What was spent on models, and the budgets.

use crate::rpc_error::rpc_error;
use kernel::{Kernel, ProcessAccount, Wait};
use wire::RpcError;
use wire::method::Nothing;
use wire::method::model::{AccountView, BudgetGrantParams, BudgetListResult, ModelTryResult, ModelUsageResult, UsageRow, WaitView};
use world::{Budget, By, Spend, UsageTotals};

/// Gives a process more to use.
pub(crate) async fn grant(kernel: &Kernel, params: BudgetGrantParams, by: &str) -> Result<Nothing, RpcError> {
    let BudgetGrantParams { pid, tokens, micros, tokens_per_day, tokens_per_hour, micros_per_day } = params;
    let more =
        Budget { tokens, tokens_per_day, tokens_per_hour, micros: Some(micros), micros_per_day: Some(micros_per_day), ..Budget::default() };
    kernel.ledger.grant_budget(pid, more, by).await.map_err(rpc_error)?;
    Ok(Nothing {})
}

pub(crate) fn usage(kernel: &Kernel, by: By) -> ModelUsageResult {
    let (rows, total) = kernel.ledger.usage(by);
    let (mut held, held_total) = kernel.ledger.usage_held(by);
    let mut guessed = kernel.ledger.usage_guessed(by);
    // By tree a request stands at every ancestor; the processes together are all.
    let guessed_total = kernel.ledger.usage_guessed(By::Process).values().fold(Spend::default(), |mut sum, spend| {
        spend.tokens.iter().for_each(|(tier, tokens)| sum.add(tier, *tokens, 0));
        sum.micros = sum.micros.saturating_add(spend.micros);
        sum
    });
    let row = |(name, figures)| {
        let (held, guessed) = (held.remove(&name).unwrap_or_default(), guessed.remove(&name).unwrap_or_default());
        UsageRow { name, figures, held, guessed }
    };
    let mut rows: Vec<UsageRow> = rows.into_iter().map(row).collect();
    // A crash may leave nothing of a request but what it may have cost.
    rows.extend(held.into_iter().map(|(name, held)| UsageRow { name, figures: UsageTotals::default(), held, guessed: Spend::default() }));
    ModelUsageResult {
        rows,
        total,
        prices_as_of: kernel.models.prices_as_of(),
        unpriced: kernel.ledger.unpriced(),
        held: held_total,
        guessed: guessed_total,
    }
}

pub(crate) fn budgets(kernel: &Kernel) -> BudgetListResult {
    let waits = kernel.models.waits();
    let view = |ProcessAccount { pid, name, account, guessed, guessed_in_tree, held }| {
        let waits = waits.iter().filter(|wait| wait.of() == pid).map(wait_view).collect();
        AccountView { pid, name, account, guessed, guessed_in_tree, held_of_its_own: held, waits }
    };
    BudgetListResult { accounts: kernel.ledger.accounts().into_iter().map(view).collect() }
}

pub(crate) fn wait_view(wait: &Wait) -> WaitView {
    WaitView { pid: wait.pid, of: wait.of(), what: wait.what(), remedy: wait.remedy() }
}

/// Asks a model for one word.
pub(crate) async fn try_model(kernel: &Kernel, model: Option<&str>) -> Result<ModelTryResult, RpcError> {
    let kernel::ModelTrial { provider, model, answer, ms, usage } = kernel.try_model(model).await.map_err(rpc_error)?;
    Ok(ModelTryResult { provider, model, answer, ms, usage })
}
