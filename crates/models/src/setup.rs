//! What the operator's `config.yml` and `prices.yaml` say of models: checked as a whole, then taken as a whole.

use gateway::{Gateway, Upstream};
use std::path::Path;
use std::time::Duration;
use world::{Fault, FaultKind};

/// What the operator's settings say of models, beside where they are asked.
pub(crate) struct ModelSetup {
    pub prices: gateway::price::Prices,
    /// Every task is recorded.
    pub record: bool,
    /// Programs outside rooms may have a listener.
    pub loopback: bool,
}

/// Settings of models that can be used, and are not yet.
pub struct CheckedSettings {
    pub(crate) settings: gateway::ModelSettings,
    pub(crate) hold: Option<Duration>,
    prices: gateway::price::Prices,
}

impl CheckedSettings {
    pub fn read(home: &Path, settings: &gateway::ModelSettings) -> Result<CheckedSettings, UnusableSettings> {
        let bad = |why: String, fix: &str| UnusableSettings { why, fix: fix.to_owned() };
        let hold = settings.gateway.hold.as_deref().map(policy::parse_duration).transpose();
        let hold = hold.map_err(|error| bad(format!("gateway.hold: {error}"), "mend config.yml in $SKEP_HOME"))?;
        let prices = prices(home).map_err(|why| bad(why, "mend prices.yaml in $SKEP_HOME"))?;
        Ok(CheckedSettings { settings: settings.clone(), hold, prices })
    }

    /// Refuses what no gateway can be made of.
    pub fn check(&self) -> Result<(), UnusableSettings> {
        Gateway::new(&self.settings, Upstream::new(&[]), self.hold).map(drop).map_err(UnusableSettings::from)
    }

    pub(crate) fn setup(mut self, gateway: &Gateway) -> ModelSetup {
        gateway.providers().for_each(|provider| self.prices.known_by(&provider.name, provider.host()));
        ModelSetup { prices: self.prices, record: self.settings.gateway.record, loopback: self.settings.gateway.loopback }
    }
}

/// Why settings cannot be used, and what to mend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusableSettings {
    pub why: String,
    pub fix: String,
}

impl From<gateway::BadSettings> for UnusableSettings {
    fn from(error: gateway::BadSettings) -> UnusableSettings {
        UnusableSettings { why: error.to_string(), fix: error.fix.unwrap_or_else(|| "mend it in $SKEP_HOME/config.yml".into()) }
    }
}

impl From<UnusableSettings> for Fault {
    fn from(bad: UnusableSettings) -> Fault {
        Fault::new(FaultKind::Settings, "the kernel's own settings cannot be used", bad.why).fix(bad.fix)
    }
}

/// The program's own table, with the operator's before it.
fn prices(home: &std::path::Path) -> Result<gateway::price::Prices, String> {
    let ours = gateway::price::Prices::built_in().map_err(|error| error.to_string())?;
    let path = home.join("prices.yaml");
    let own = gateway::price::Prices::read(&path).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok(match own {
        Some(own) => ours.with(own),
        None => ours,
    })
}
