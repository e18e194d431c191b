//! Extension rules of a zone: started with the policy version they belong to, asked only where their word can matter.

use crate::policies::Policies;
use crate::zone::TrustedPolicy;
use plugin::{Extensions, PluginError, RuleFlaw};
use policy::Opinion;
use sandbox::Template;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::OnceCell;
use workspace::hash;
use world::{Fault, FaultKind, Stop};
use world::{Mode, Refusal, ZoneId};

/// The extensions of one version of one zone's policy.
pub(crate) struct ZoneExtensions {
    version: u64,
    started: Arc<OnceCell<Extensions>>,
}

/// Rules that are loaded and not in force. Whoever loads them ends them.
pub(crate) struct Candidates {
    pub extensions: Extensions,
    folder: PathBuf,
}

impl Candidates {
    pub async fn end(self) -> Result<(), Stop> {
        self.extensions.stop().await;
        Ok(remove(&self.folder)?)
    }
}

fn remove(folder: &Path) -> Result<(), Fault> {
    sandbox::remove(folder).map_err(|error| Fault::io("remove", folder, error))
}

/// How the child is called; `skep` routes it.
const CHILD: &str = "extension-child";

impl Policies {
    /// What a zone's extensions think of a call. Doubt is a deny: where they cannot be asked, that is their opinion.
    pub(crate) async fn opinions(&self, zone: ZoneId, trusted: &TrustedPolicy, call: &Value) -> Vec<Opinion> {
        let cell = {
            let mut all = self.extensions.lock();
            let fresh = || ZoneExtensions { version: trusted.version, started: Arc::new(OnceCell::new()) };
            let zoned = all.entry(zone).or_insert_with(fresh);
            if zoned.version != trusted.version {
                *zoned = fresh();
            }
            zoned.started.clone()
        };
        match cell.get_or_try_init(|| self.start_extensions(zone, trusted)).await {
            Ok(extensions) => extensions.opinions(call).await,
            Err(error) => vec![Opinion::lost("extensions", error.to_string())],
        }
    }

    /// Starts the rules so that the first call after a change of policy finds them warm.
    pub(crate) async fn warm_extensions(&self, zone: ZoneId, trusted: &TrustedPolicy) {
        if !trusted.bundle.rules.is_empty() {
            drop(self.opinions(zone, trusted, &json!({"tool": "skep.warm"})).await);
        }
    }

    async fn start_extensions(&self, zone: ZoneId, trusted: &TrustedPolicy) -> Result<Extensions, PluginError> {
        let folder = self.work().join(format!("extensions-{zone}-{}", trusted.version));
        let bounds = self.bounds_of_rules().map_err(|refusal| PluginError::Child { why: refusal.reason })?;
        Extensions::start(&self.launcher, &folder, &program(), &[CHILD], trusted.bundle.rules.clone(), &bounds).await
    }

    /// The operator's: a project has no say about its own judge.
    fn bounds_of_rules(&self) -> Result<Template, Refusal> {
        self.operator_rooms().templates.find("policy-sandbox").cloned()
    }

    /// What is wrong with these rules, by loading them as a call would.
    pub(crate) async fn check_extensions(&self, files: &[(String, String)]) -> Result<Vec<RuleFlaw>, Stop> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        match self.load_candidates(files).await? {
            Ok(candidates) => candidates.end().await.map(|()| Vec::new()),
            Err(flaw) => Ok(vec![flaw]),
        }
    }

    /// Loads rules that are in force nowhere, so that they can be asked about calls of the past; or says what is wrong with them.
    pub(crate) async fn load_candidates(&self, files: &[(String, String)]) -> Result<Result<Candidates, RuleFlaw>, Stop> {
        let name = hash::of_parts(&files.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]).collect::<Vec<_>>());
        let nth = self.candidates.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = self.work().join(format!("extensions-check-{}-{nth}", &name[..16]));
        let started = Extensions::start(&self.launcher, &folder, &program(), &[CHILD], files.to_vec(), &self.bounds_of_rules()?).await;
        let error = match started {
            Ok(extensions) => return Ok(Ok(Candidates { extensions, folder })),
            Err(error) => error,
        };
        remove(&folder)?;
        match error {
            PluginError::Flawed(flaw) => Ok(Err(flaw)),
            error => {
                Err(Fault::new(FaultKind::Room, "the extension rules could not be tried", error).remedy(world::Remedy::RunDoctor).into())
            }
        }
    }
}

/// This program, which rooms and extension rules run again as their first process.
pub fn program() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| "skep".into())
}

/// A call in the words of `skep.d.ts`.
pub(crate) fn described(facts: &policy::OwnedFacts, input: &Value) -> Value {
    let mut call = json!({
        "tool": facts.tool,
        "paths": facts.paths.iter().map(|path| path.as_str()).collect::<Vec<_>>(),
        "command": facts.command,
        "host": facts.host,
        "method": facts.method,
        "port": facts.port,
        "size": facts.size,
        "caller": facts.caller,
        "role": facts.role,
        "zone": facts.zone,
        "mode": if facts.mode == Mode::Ask { "ask" } else { "act" },
        "workflow_state": facts.workflow_state,
        "session_mode": facts.session_mode,
        "input": input,
    });
    // What is not known is absent, not null.
    if let Some(fields) = call.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    call
}
