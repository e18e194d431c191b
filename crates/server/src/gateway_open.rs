//! `gateway.open`: the gateway for a program outside rooms, as long as its connection lasts.

use crate::responder::Responder;
use crate::rpc_error::rpc_error;
use kernel::{GatewayAccess, Kernel, Traffic};
use std::path::Path;
use std::sync::Arc;
use wire::method::model::{CLOSED, GatewayClosedNote, GatewayOpenParams, GatewayOpenResult, LoginClient};
use wire::{RpcError, table};
use world::Pid;

/// Opens the gateway and keeps it open until the client hangs up.
pub(crate) async fn run(kernel: &Arc<Kernel>, params: GatewayOpenParams, responder: Responder) {
    let opened = match open(kernel, params).await {
        Ok(opened) => opened,
        Err(error) => return responder.refuse(error).await,
    };
    let GatewayAccess { pid, address, key } = opened;
    let guard = CloseOnDrop { kernel: kernel.clone(), pid };
    let notes = responder.notes();
    let result = GatewayOpenResult { pid, url: format!("http://{address}"), key: key.reveal().to_owned() };
    responder.answer::<table::GatewayOpen>(Ok(result)).await;
    let why = kernel.models.gateway_cancelled(guard.pid).await;
    notes.send(CLOSED, &GatewayClosedNote { why }).await;
    // The client ends its program and hangs up, which drops this request.
    std::future::pending::<()>().await;
}

async fn open(kernel: &Arc<Kernel>, params: GatewayOpenParams) -> Result<GatewayAccess, RpcError> {
    let client = params.client.map(|client| match client {
        LoginClient::Claude => gateway::VendorClient::Claude,
        LoginClient::Codex => gateway::VendorClient::Codex,
    });
    let zone = kernel.gate.init(Path::new(&params.path)).await.map_err(rpc_error)?.zone;
    let traffic = Traffic { record: params.record.map(Into::into), replay: params.replay.map(Into::into), timing: params.timing };
    kernel.models.open_gateway(zone, client, traffic).await.map_err(rpc_error)
}

/// Ends the process when its client is gone, however that happens.
struct CloseOnDrop {
    kernel: Arc<Kernel>,
    pid: Pid,
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        let (kernel, pid) = (self.kernel.clone(), self.pid);
        kernel.models.dismiss(pid);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(fault) = kernel.models.close_gateway(pid).await {
                    world::log!("skep: the end of process {pid} could not be recorded: {fault}");
                }
            });
        }
    }
}
