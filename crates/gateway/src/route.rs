//! From the name a client uses to the providers that may answer, in the order in which they are tried.
//!
//! Pure. A project's own names come first, then the operator's; both lead only to providers that the operator set up.

use crate::dialect::Dialect;
use crate::provider::Provider;
use crate::settings::Names;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How dear a model is. Budgets in tokens are kept for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Also what nobody placed: in doubt a model is of the dearest tier.
    #[default]
    Strategic,
    Tactical,
    Operational,
}

impl Tier {
    pub const ALL: [Tier; 3] = [Tier::Strategic, Tier::Tactical, Tier::Operational];

    pub fn as_str(self) -> &'static str {
        match self {
            Tier::Strategic => "strategic",
            Tier::Tactical => "tactical",
            Tier::Operational => "operational",
        }
    }

    pub fn parse(name: &str) -> Option<Tier> {
        Tier::ALL.into_iter().find(|tier| tier.as_str() == name)
    }
}

/// One place where a request can be answered.
#[derive(Clone, Debug)]
pub struct Target {
    pub provider: Arc<Provider>,
    /// As that provider calls it.
    pub model: String,
    pub tier: Tier,
}

/// Nobody can answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct NoRoute {
    pub what: String,
    pub fix: String,
}

/// Everything a name can lead to.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    pub providers: BTreeMap<String, Arc<Provider>>,
    pub names: Names,
}

impl Routes {
    /// Where a request for `model` in `dialect` may go. `own` are the project's names.
    pub fn find(&self, own: &Names, model: &str, dialect: Dialect) -> Result<Vec<Target>, NoRoute> {
        let targets = match own.get(model).or_else(|| self.names.get(model)) {
            Some(targets) => targets.iter().map(|target| self.target(own, model, target)).collect::<Result<Vec<_>, _>>()?,
            None => vec![self.unnamed(own, model, dialect)?],
        };
        let fits = |target: &Target| target.provider.dialects.contains(&dialect);
        let wanted = targets.len();
        let targets: Vec<Target> = targets.into_iter().filter(fits).collect();
        if targets.is_empty() {
            let what = format!("none of the {wanted} places for `{model}` speaks {}", dialect.word());
            return Err(NoRoute { what, fix: "name a provider with that dialect under `models` in config.yml or skep.yml".into() });
        }
        Ok(targets)
    }

    fn target(&self, own: &Names, name: &str, target: &str) -> Result<Target, NoRoute> {
        let (provider, model) = target.split_once('/').unwrap_or((target, name));
        let provider = self.providers.get(provider).ok_or_else(|| NoRoute {
            what: format!("`{name}` leads to `{target}`, and there is no provider `{provider}`"),
            fix: format!("add `{provider}` under `providers` in $SKEP_HOME/config.yml; {}", self.known()),
        })?;
        let tier = Tier::parse(name).unwrap_or_else(|| self.tier(own, &provider.name, model));
        Ok(Target { provider: provider.clone(), model: model.to_owned(), tier })
    }

    /// A model by its own name: `provider/model`, or the first provider that wants it; those that list models are asked first.
    fn unnamed(&self, own: &Names, model: &str, dialect: Dialect) -> Result<Target, NoRoute> {
        if let Some((provider, rest)) = model.split_once('/')
            && self.providers.contains_key(provider)
            && !rest.is_empty()
        {
            return self.target(own, model, model);
        }
        let speaks = || self.providers.values().filter(|provider| provider.dialects.contains(&dialect));
        let picky = speaks().find(|provider| provider.models.as_ref().is_some_and(|globs| globs.is_match(model)));
        let provider = picky.or_else(|| speaks().find(|provider| provider.models.is_none())).ok_or_else(|| NoRoute {
            what: format!("no provider speaks {} and has `{model}`", dialect.word()),
            fix: format!("add one under `providers` in $SKEP_HOME/config.yml; {}", self.known()),
        })?;
        Ok(Target { provider: provider.clone(), model: model.to_owned(), tier: self.tier(own, &provider.name, model) })
    }

    /// The tier in whose list a model stands; the dearest of several, and of none.
    fn tier(&self, own: &Names, provider: &str, model: &str) -> Tier {
        let lists = |tier: &Tier| {
            let all = own.get(tier.as_str()).into_iter().chain(self.names.get(tier.as_str()));
            all.flat_map(|targets| targets.iter()).any(|target| target.split_once('/') == Some((provider, model)))
        };
        Tier::ALL.into_iter().find(lists).unwrap_or_default()
    }

    fn known(&self) -> String {
        match self.providers.len() {
            0 => "there are none yet".to_owned(),
            _ => format!("there are {}", self.providers.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")),
        }
    }
}
