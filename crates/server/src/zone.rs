//! Opens zones, and puts what a project proposes in force.

use crate::rpc_error::rpc_error;
use crate::view;
use kernel::{Kernel, Stop};
use std::path::Path;
use wire::RpcError;
use wire::method::zone::{ZoneInitParams, ZoneInitResult, ZoneTrustParams, ZoneTrustResult};

pub(crate) async fn init(kernel: &Kernel, params: ZoneInitParams) -> Result<ZoneInitResult, RpcError> {
    kernel.gate.init(Path::new(&params.path)).await.map(view::init).map_err(rpc_error)
}

pub(crate) async fn trust(kernel: &Kernel, params: ZoneTrustParams) -> Result<ZoneTrustResult, RpcError> {
    let path = Path::new(&params.path);
    let known = match kernel::locate(path).await {
        Ok(top) => kernel.gate.policies.proposal(&top).await,
        Err(stop) => Err(stop),
    };
    let before = match known {
        Ok(proposal) => proposal,
        Err(_) => kernel.gate.init(path).await.map_err(rpc_error)?,
    };
    let changed = !before.diff.is_empty();
    match params.hash {
        None => {
            let trial = match kernel.gate.try_proposal(path).await {
                Ok(trial) if changed => trial,
                // A file with errors cannot be put in force either; the difference is shown all the same.
                Ok(_) | Err(Stop::Refused(_)) => policy::Trial::default(),
                Err(stop) => return Err(rpc_error(stop)),
            };
            let (breaking, phrase) = (trial.breaking as u64, trial.phrase());
            Ok(ZoneTrustResult { hash: before.hash, diff: before.diff, changed, version: before.version, breaking, phrase })
        }
        Some(hash) => {
            let after = kernel.gate.trust(path, &hash, params.phrase.as_deref()).await.map_err(rpc_error)?;
            let changed = after.version != before.version;
            Ok(ZoneTrustResult { hash, diff: before.diff, changed, version: after.version, breaking: 0, phrase: None })
        }
    }
}
