//! The gateway and budgets, for the operator.

use crate::connection::send;
use crate::method::{no, parse, raw};
use kernel::{Kernel, Known, Opened, Replayed, Traffic, Wait};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc;
use wire::method::model::{
    AccountView, BudgetsResult, CLOSED, CassetteView, CassettesResult, Closed, ExchangeView, GrantParams, Open, OpenParams, OpenResult,
    ReconcileParams, SetParams, UsageResult, UsageRow, WaitView,
};
use wire::method::task::{Divergence, ReplayResult};
use wire::{Code, Method, Notification, Request, Response, RpcError};
use world::{By, Figures, Pid};

pub(crate) fn opens(request: &Request) -> bool {
    request.method == Open::NAME
}

/// Opens the gateway and keeps it open until the client hangs up.
pub(crate) async fn open(kernel: &Arc<Kernel>, request: Request, out: &mpsc::Sender<String>) {
    let opened = match parse::<Open>(request.params.as_deref()) {
        Ok(params) => begin(kernel, params).await,
        Err(error) => Err(error),
    };
    let (guard, outcome) = match opened {
        Ok(opened) => {
            let guard = Guard { kernel: kernel.clone(), pid: opened.pid };
            let Opened { pid, address, key } = opened;
            (Some(guard), raw(&OpenResult { pid, url: format!("http://{address}"), key: key.reveal().to_owned() }))
        }
        Err(error) => (None, Err(error)),
    };
    send(out, Response { id: request.id, outcome }.text()).await;
    if let Some(guard) = guard {
        let why = kernel.gateway_cancelled(guard.pid).await;
        if let Ok(params) = raw(&Closed { why }) {
            send(out, Notification { method: CLOSED.to_owned(), params: Some(params) }.text()).await;
        }
        // The client ends its program and hangs up.
        std::future::pending::<()>().await;
    }
}

async fn begin(kernel: &Arc<Kernel>, params: OpenParams) -> Result<Opened, RpcError> {
    let client = match params.client.as_deref() {
        None => None,
        Some("claude") => Some(gateway::Client::Claude),
        Some("codex") => Some(gateway::Client::Codex),
        Some(other) => return Err(RpcError::new(Code::BadInput, format!("`{other}` is no client with a login")).fix("claude or codex")),
    };
    let zone = kernel.init(Path::new(&params.path)).await.map_err(no)?.zone;
    let traffic = Traffic { record: params.record.map(Into::into), replay: params.replay.map(Into::into), timing: params.timing };
    kernel.open_gateway(zone, client, traffic).await.map_err(no)
}

/// Ends the process when its client is gone, however that happens.
struct Guard {
    kernel: Arc<Kernel>,
    pid: Pid,
}

impl Drop for Guard {
    fn drop(&mut self) {
        let (kernel, pid) = (self.kernel.clone(), self.pid);
        kernel.dismiss(pid);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(fault) = kernel.close_gateway(pid).await {
                    eprintln!("skep: the end of process {pid} could not be recorded: {fault}");
                }
            });
        }
    }
}

pub(crate) fn usage(kernel: &Kernel, by: By) -> UsageResult {
    let (rows, total) = kernel.usage(by);
    let (mut held, held_total) = kernel.usage_held(by);
    let mut rows: Vec<UsageRow> =
        rows.into_iter().map(|(name, figures)| UsageRow { held: held.remove(&name).unwrap_or_default(), name, figures }).collect();
    // A crash may leave nothing of a request but what it may have cost.
    rows.extend(held.into_iter().map(|(name, held)| UsageRow { name, figures: Figures::default(), held }));
    UsageResult { rows, total, prices_as_of: kernel.prices_as_of().to_owned(), unpriced: kernel.unpriced(), held: held_total }
}

pub(crate) fn budgets(kernel: &Kernel) -> BudgetsResult {
    let waits = kernel.waits();
    let view = |Known { pid, name, account, guessed, held }| {
        let waits = waits.iter().filter(|wait| wait.of() == pid).map(wait_view).collect();
        AccountView { pid, name, account, guessed, held_of_its_own: held, waits }
    };
    BudgetsResult { accounts: kernel.accounts().into_iter().map(view).collect() }
}

pub(crate) fn wait_view(wait: &Wait) -> WaitView {
    WaitView { pid: wait.pid, of: wait.of(), what: wait.what(), fix: wait.remedy() }
}

pub(crate) async fn set(kernel: &Kernel, params: SetParams) -> Result<(), RpcError> {
    kernel.set_budget(params.pid, params.budget, "operator").await.map_err(no)
}

pub(crate) async fn grant(kernel: &Kernel, params: GrantParams) -> Result<(), RpcError> {
    kernel.grant_budget(params.pid, params.tokens, params.micros, "operator").await.map_err(no)
}

pub(crate) async fn reconcile(kernel: &Kernel, params: ReconcileParams) -> Result<(), RpcError> {
    kernel.reconcile(params.pid, params.tokens, params.micros, "operator").await.map_err(no)
}

pub(crate) fn cassettes(kernel: &Kernel, name: Option<&str>) -> Result<CassettesResult, RpcError> {
    let found = match name {
        Some(name) => kernel.cassette(name).map(|one| vec![one]),
        None => kernel.cassettes(),
    };
    let exchange = |one: kernel::ExchangeView| {
        let kernel::ExchangeView { n, dialect, path, model, status, bytes, ms, complete } = one;
        ExchangeView { n, dialect, path, model, status, bytes, ms, complete }
    };
    let view = |one: kernel::CassetteView| {
        let kernel::CassetteView { name, path, bytes, exchanges, torn, broken } = one;
        let exchanges = exchanges.into_iter().map(exchange).collect();
        CassetteView { name, path: path.display().to_string(), bytes, exchanges, torn, broken }
    };
    Ok(CassettesResult { cassettes: found.map_err(no)?.into_iter().map(view).collect() })
}

pub(crate) fn replayed(replayed: Replayed) -> ReplayResult {
    let Replayed { task, of, calls, requests, divergence } = replayed;
    let divergence = divergence.map(|found| Divergence { at: found.at, recorded: found.recorded, replayed: found.replayed });
    ReplayResult { task, of, calls, requests, divergence }
}
