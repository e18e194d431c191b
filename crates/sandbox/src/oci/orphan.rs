//! Containers that nobody waits for.

use std::collections::HashMap;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::{Engine, Inner};
use crate::fault::SandboxError;
use crate::process::Identity;

const HOME: &str = "skep.home";
const KERNEL: &str = "skep.kernel";
const TASK: &str = "skep.task";

/// What every container of this engine's user is known by.
pub(super) fn labels(engine: &Inner, work: &Path) -> HashMap<String, String> {
    let kernel = serde_json::to_string(&engine.kernel).unwrap_or_default();
    let task = work.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    [(HOME, home(engine)), (KERNEL, kernel), (TASK, task)].map(|(key, value)| (key.to_owned(), value)).into()
}

/// A home by a name that says nothing about it.
fn home(engine: &Inner) -> String {
    let path = std::os::unix::ffi::OsStrExt::as_bytes(engine.settings.home.as_os_str());
    Sha256::digest(path).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl Engine {
    /// Removes the containers of this home whose kernel is no more, and those of this kernel that nobody waits for.
    pub async fn sweep(&self) -> Result<usize, SandboxError> {
        let engine = &self.inner;
        let listed = engine.api.list_containers(&format!("{HOME}={}", home(engine))).await.map_err(engine.fault("listing containers"))?;
        let mut removed = 0;
        for container in listed {
            let labels = container.labels.unwrap_or_default();
            let name = container.names.unwrap_or_default().first().map(|name| name.trim_start_matches('/').to_owned()).unwrap_or_default();
            let owner = labels.get(KERNEL).and_then(|text| serde_json::from_str::<Identity>(text).ok());
            let wanted =
                owner.is_some_and(|kernel| if kernel == engine.kernel { engine.live.lock().contains(&name) } else { kernel.runs() });
            if let (false, Some(id)) = (wanted, container.id) {
                match engine.api.remove_container(&id).await {
                    Ok(()) => removed += 1,
                    Err(error) if matches!(error.status(), Some(404 | 409)) => {}
                    Err(error) => return Err(engine.fault("removing a container")(error)),
                }
            }
        }
        Ok(removed)
    }
}
