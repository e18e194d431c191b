//! What was spent on models, and the budgets.

use kernel::{Kernel, ProcessAccount, Wait};
use wire::method::model::{AccountView, BudgetListResult, ModelUsageResult, UsageRow, WaitView};
use world::{By, UsageTotals};

pub(crate) fn usage(kernel: &Kernel, by: By) -> ModelUsageResult {
    let (rows, total) = kernel.ledger.usage(by);
    let (mut held, held_total) = kernel.ledger.usage_held(by);
    let mut rows: Vec<UsageRow> =
        rows.into_iter().map(|(name, figures)| UsageRow { held: held.remove(&name).unwrap_or_default(), name, figures }).collect();
    // A crash may leave nothing of a request but what it may have cost.
    rows.extend(held.into_iter().map(|(name, held)| UsageRow { name, figures: UsageTotals::default(), held }));
    ModelUsageResult {
        rows,
        total,
        prices_as_of: kernel.models.prices_as_of().to_owned(),
        unpriced: kernel.ledger.unpriced(),
        held: held_total,
    }
}

pub(crate) fn budgets(kernel: &Kernel) -> BudgetListResult {
    let waits = kernel.models.waits();
    let view = |ProcessAccount { pid, name, account, guessed, held }| {
        let waits = waits.iter().filter(|wait| wait.of() == pid).map(wait_view).collect();
        AccountView { pid, name, account, guessed, held_of_its_own: held, waits }
    };
    BudgetListResult { accounts: kernel.ledger.accounts().into_iter().map(view).collect() }
}

pub(crate) fn wait_view(wait: &Wait) -> WaitView {
    WaitView { pid: wait.pid, of: wait.of(), what: wait.what(), remedy: wait.remedy() }
}
