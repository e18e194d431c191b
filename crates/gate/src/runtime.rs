//! Which runtime makes rooms: this host itself, or a container engine.
//!
//! The operator's `config.yml` decides; where it says nothing, a project's trusted `skep.yml` may, and a template may name one of its own.

use crate::policies::Policies;
use sandbox::oci::Kind;
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
    pub fn engine(self) -> Option<Kind> {
        match self {
            RoomRuntime::Native => None,
            RoomRuntime::Podman => Some(Kind::Podman),
            RoomRuntime::Docker => Some(Kind::Docker),
        }
    }

    pub fn name(self) -> &'static str {
        self.engine().map_or("native", Kind::name)
    }
}

impl Policies {
    /// The runtime that operator and project have agreed on, for jobs of a template or for all.
    pub fn runtime(&self, zone: ZoneId, template: Option<&str>) -> Result<RoomRuntime, Stop> {
        let trusted = self.trusted(zone)?;
        let own = template.and_then(|name| self.templates.runtime(name));
        let fixed = own.or(self.fixed_runtime);
        let narrowed = match template {
            Some(name) => self.templates(trusted.as_deref())?.runtime(name),
            None => None,
        };
        match (fixed, narrowed.or(trusted.and_then(|trusted| trusted.config.runtime).filter(|_| own.is_none()))) {
            (Some(fixed), Some(wanted)) if fixed != wanted => {
                let why = format!("this project wants rooms of {}, and the operator has fixed {}", wanted.name(), fixed.name());
                Err(Refusal::new(Code::Unsupported, why).hint("take `runtime` out of skep.yml, or out of config.yml in $SKEP_HOME").into())
            }
            (fixed, wanted) => Ok(fixed.or(wanted).unwrap_or(RoomRuntime::Native)),
        }
    }
}
