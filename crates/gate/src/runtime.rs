//! Which runtime makes rooms: this host itself, or a container engine.
//!
//! The operator's `config.yml` decides; where it says nothing, a project's trusted `skep.yml` may, and a template may name one of its own.

use crate::policies::Policies;
use sandbox::oci::EngineKind;
use serde::Deserialize;
use world::{Code, Refusal, Stop, ZoneId};

/// As it is written in configuration files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RoomRuntime {
    Native,
    Podman,
    Docker,
}

impl RoomRuntime {
    /// The engine behind it; `None` for this host itself.
    pub fn engine(self) -> Option<EngineKind> {
        match self {
            RoomRuntime::Native => None,
            RoomRuntime::Podman => Some(EngineKind::Podman),
            RoomRuntime::Docker => Some(EngineKind::Docker),
        }
    }

    pub fn name(self) -> &'static str {
        self.engine().map_or("native", EngineKind::name)
    }
}

impl Policies {
    /// The runtime that operator and project have agreed on, for jobs of a template or for all.
    pub fn runtime(&self, zone: ZoneId, template: Option<&str>) -> Result<RoomRuntime, Stop> {
        let trusted = self.trusted(zone)?;
        let operator = self.operator_rooms();
        let own = template.and_then(|name| operator.templates.runtime(name));
        let fixed = own.or(operator.fixed_runtime);
        let narrowed = match template {
            Some(name) => self.templates(trusted.as_deref())?.runtime(name),
            None => None,
        };
        match (fixed, narrowed.or(trusted.and_then(|trusted| trusted.config.runtime).filter(|_| own.is_none()))) {
            (Some(fixed), Some(wanted)) if fixed != wanted => {
                let why = format!("this project wants sandboxes of {}, and the operator has fixed {}", wanted.name(), fixed.name());
                Err(Refusal::new(Code::Unsupported, why).hint("take `runtime` out of skep.yml, or out of config.yml in $SKEP_HOME").into())
            }
            (fixed, wanted) => Ok(fixed.or(wanted).unwrap_or(RoomRuntime::Native)),
        }
    }
}
