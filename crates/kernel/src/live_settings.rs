//! The operator's settings, taken again when `config.yml` or `prices.yaml` changes.
//!
//! Looked at whenever a command connects, and every few seconds beside. Everything is checked before anything is taken.
//! **Invariant.** A file that cannot be used changes nothing. Each change, taken or not, is on record.

use crate::Kernel;
use gate::Templates;
use host::{OperatorSettings, RoomSettings, SessionSettings, SettingsFault, SettingsState};
use models::{CheckedSettings, UnusableSettings};
use session::SlotLimits;
use std::path::Path;
use std::time::Duration;
use world::{Event, Fault};

/// How many rooms of sessions work at once, as the operator says it.
pub(crate) fn slot_limits(settings: &SessionSettings) -> SlotLimits {
    let built_in = SlotLimits::default();
    SlotLimits { slots_max: settings.rooms.unwrap_or(built_in.slots_max), per_template: settings.templates.clone(), ..built_in }
}

/// Refuses settings that no kernel could start with. `variables` are those of whoever would start it.
pub fn check_settings(home: &Path, variables: &[(String, String)]) -> Result<(), Fault> {
    let settings = OperatorSettings::read(home)?;
    Templates::of_operator(&settings.sandbox).map_err(SettingsFault::in_config)?;
    RoomSettings::read(&settings, home, variables).map_err(SettingsFault::in_config)?;
    Ok(CheckedSettings::read(home, &settings.models())?.check()?)
}

/// How the process tree is to be served over gRPC, as the operator says it. Read when a kernel starts.
pub fn grpc_settings(home: &Path) -> Result<Option<host::GrpcSettings>, Fault> {
    Ok(OperatorSettings::read(home)?.grpc)
}

/// For changes that no command follows.
const LOOK_EVERY: Duration = Duration::from_secs(3);

impl Kernel {
    /// Takes the operator's files again where they changed.
    pub async fn refresh_settings(&self) {
        let record = |event: Event| async move {
            if let Err(fault) = self.ledger.record(event).await {
                world::log!("skep: a change of the settings is not on record: {fault}");
            }
        };
        self.instance.settings.refresh(&self.instance.home.path, || self.take_settings(), record).await;
    }

    /// Reads all, then takes all; says which parts are new.
    fn take_settings(&self) -> Result<Vec<String>, SettingsFault> {
        let home = &self.instance.home.path;
        let unusable = |UnusableSettings { why, fix }| SettingsFault { why, fix };
        let new = OperatorSettings::read(home)?;
        let templates = Templates::of_operator(&new.sandbox).map_err(SettingsFault::in_config)?;
        let mut rooms = RoomSettings::read(&new, home, &self.instance.tuning.variables).map_err(SettingsFault::in_config)?;
        let models = CheckedSettings::read(home, &new.models()).map_err(unusable)?;
        // The last that can fail, and the first that takes effect.
        self.models.replace(models).map_err(unusable)?;
        rooms.host_services.keep_sentinels(&self.rooms.settings().host_services);
        for (_, secret) in &rooms.host_services.secrets {
            self.ledger.redactor.register(&secret.value);
        }
        self.gate.policies.replace_rooms(templates, new.runtime);
        self.rooms.replace(rooms);
        self.slots.set_limits(slot_limits(&new.sessions));
        Ok(self.instance.settings.replace(new))
    }

    /// Looks at the files from time to time, for changes that no command follows.
    pub(crate) async fn watch_settings(kernel: std::sync::Weak<Kernel>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let Some(kernel) = kernel.upgrade().filter(|kernel| !kernel.instance.stopping()) else { return };
            kernel.refresh_settings().await;
        }
    }

    /// How the operator's files stand. What was taken is told once.
    pub fn settings_report(&self) -> SettingsState {
        self.instance.settings.report()
    }

    /// Why the operator's files are not in force as they are.
    pub fn settings_rejected(&self) -> Option<SettingsFault> {
        self.instance.settings.rejected()
    }
}
