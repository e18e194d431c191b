//! Opens zones, and puts what a project proposes in force.

use crate::rpc_error::rpc_error;
use crate::{policy_view, view};
use kernel::{Kernel, Stop};
use std::path::Path;
use wire::method::zone::{
    WholeSite, ZoneCloseParams, ZoneCloseResult, ZoneInitParams, ZoneInitResult, ZoneResolveParams, ZoneResolveResult, ZoneStatusParams,
    ZoneStatusResult, ZoneTrustParams, ZoneTrustResult,
};
use wire::{ErrorCode, RpcError};

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
            let rules = trial.rules.iter().map(policy_view::rule_change).collect();
            Ok(ZoneTrustResult { hash: before.hash, diff: before.diff, changed, version: before.version, breaking, phrase, rules })
        }
        Some(hash) => {
            let after = kernel.gate.trust(path, &hash, params.phrase.as_deref()).await.map_err(rpc_error)?;
            let changed = after.version != before.version;
            Ok(ZoneTrustResult { hash, diff: before.diff, changed, version: after.version, breaking: 0, phrase: None, rules: Vec::new() })
        }
    }
}

/// Branches on which somebody looks at the whole repository.
const MAIN: [&str; 2] = ["main", "master"];

/// The zones that somebody asks about.
pub(crate) async fn status(kernel: &Kernel, params: ZoneStatusParams) -> Result<ZoneStatusResult, RpcError> {
    let path = params.path.as_deref();
    if let Some(site) = &params.site {
        let tree = kernel.gate.find_tree(Some(site), None, None).await.map_err(rpc_error)?;
        return view::zones(kernel, |zone| zone.site.as_ref() == Some(&tree.site)).await;
    }
    let Some(path) = path else { return view::zones(kernel, |_| true).await };
    let top = kernel::locate(Path::new(path)).await.map_err(rpc_error)?;
    let own = kernel.gate.policies.zone(&top).map_err(rpc_error)?;
    let is_whole = match params.whole_site {
        None => false,
        Some(WholeSite::Always) => true,
        Some(WholeSite::OnMain) => MAIN.contains(&kernel.gate.policies.branch(own.id).await.as_str()),
    };
    view::zones(kernel, |zone| zone.id == own.id || (is_whole && own.site.is_some() && zone.site == own.site)).await
}

pub(crate) async fn resolve(kernel: &Kernel, params: ZoneResolveParams) -> Result<ZoneResolveResult, RpcError> {
    if let Some(branch) = params.branch.as_deref().filter(|branch| !world::address::is_branch(branch)) {
        return Err(RpcError::new(ErrorCode::BadInput, format!("`{branch}` is no name of a branch")));
    }
    let here = params.path.as_deref().map(Path::new);
    let tree = kernel.gate.find_tree(params.site.as_deref(), params.branch.as_deref(), here).await.map_err(rpc_error)?;
    // One folder for each branch: what git takes for part of a name stays apart from what it does not.
    let folder = tree.branch.replace('-', "--").replace('/', "-");
    let place = kernel.instance.home.path.join("worktrees").join(&tree.site).join(folder);
    Ok(ZoneResolveResult {
        site: tree.site,
        repository: tree.repository.display().to_string(),
        branch: tree.branch,
        path: tree.path.map(|path| path.display().to_string()),
        place: place.display().to_string(),
    })
}

pub(crate) async fn close(kernel: &Kernel, params: ZoneCloseParams, by: &str) -> Result<ZoneCloseResult, RpcError> {
    let path = Path::new(&params.path);
    let top = kernel::locate(path).await.map_err(rpc_error)?;
    let id = kernel.gate.policies.zone(&top).map_err(rpc_error)?.id;
    let branch = kernel.gate.policies.branch(id).await;
    let closed = kernel.close_zone(path, params.force, by).await.map_err(rpc_error)?;
    let unregistered = kernel.ledger.look(|world| closed.site.as_ref().is_some_and(|site| !world.sites.contains_key(site)));
    Ok(ZoneCloseResult { path: closed.path, branch, site: closed.site, unregistered })
}
