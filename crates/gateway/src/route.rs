//! From the name a client uses to the providers that may answer, in the order in which they are tried.
//!
//! Pure. A project's own names come first, then the operator's; both lead only to providers that the operator set up. A name may lead to
//! another name, and in a circle to nobody.

use crate::provider::Provider;
use crate::settings::{ModelNames, Targets};
use dialect::Dialect;
use std::collections::BTreeMap;
use std::sync::Arc;
use world::Tier;

/// One place where a request can be answered.
#[derive(Clone, Debug)]
pub struct RouteTarget {
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
    pub names: ModelNames,
}

impl Routes {
    /// Where a request for `model` in `dialect` may go. `own` are the project's names.
    pub fn find(&self, own: &ModelNames, model: &str, dialect: Dialect) -> Result<Vec<RouteTarget>, NoRoute> {
        let mut targets = Vec::new();
        match self.named(own, model) {
            Some(_) => self.follow(own, model, &mut Vec::new(), &mut targets)?,
            None if Tier::parse(model).is_some() => {
                let what = format!("tier `{model}` has no model");
                let fix = format!("write `models: {{{model}: PROVIDER/MODEL}}` into $SKEP_HOME/config.yml or skep.yml; {}", self.known());
                return Err(NoRoute { what, fix });
            }
            None => targets.push(self.unnamed(own, model, dialect)?),
        }
        let fits = |target: &RouteTarget| target.provider.dialects.contains(&dialect);
        let wanted = targets.len();
        let targets: Vec<RouteTarget> = targets.into_iter().filter(fits).collect();
        if targets.is_empty() {
            let what = format!("none of the {wanted} places for `{model}` speaks {}", dialect.name());
            return Err(NoRoute { what, fix: "name a provider with that dialect under `models` in config.yml or skep.yml".into() });
        }
        Ok(targets)
    }

    /// Does every name of the operator's lead somewhere?
    pub(crate) fn check(&self) -> Result<(), (String, NoRoute)> {
        let none = ModelNames::new();
        let lead = |name: &String| self.follow(&none, name, &mut Vec::new(), &mut Vec::new()).map_err(|none| (name.clone(), none));
        self.names.keys().try_for_each(lead)
    }

    fn named<'a>(&'a self, own: &'a ModelNames, name: &str) -> Option<&'a Targets> {
        own.get(name).or_else(|| self.names.get(name))
    }

    /// Everything that a name leads to, in order. `way` are the names that led here; the first tier among them is the tier.
    fn follow<'a>(
        &'a self,
        own: &'a ModelNames,
        name: &'a str,
        way: &mut Vec<&'a str>,
        found: &mut Vec<RouteTarget>,
    ) -> Result<(), NoRoute> {
        way.push(name);
        let targets = self.named(own, name);
        if targets.is_some_and(|targets| targets.iter().next().is_none()) {
            let fix = "give it a `provider/model` under `models`, or leave it out".to_owned();
            return Err(NoRoute { what: format!("`{name}` leads to nobody"), fix });
        }
        for target in targets.into_iter().flat_map(Targets::iter) {
            let alias = !target.contains('/') && !self.providers.contains_key(target) && self.named(own, target).is_some();
            if alias && way.contains(&target) {
                let round = way.iter().skip_while(|name| **name != target).chain([&target]).copied().collect::<Vec<_>>().join(" → ");
                let what = format!("`{}` leads to itself: {round}", way[0]);
                return Err(NoRoute { what, fix: "have one of them lead to `provider/model` under `models`".into() });
            }
            if alias {
                self.follow(own, target, way, found)?;
                continue;
            }
            let tier = way.iter().find_map(|name| Tier::parse(name));
            found.push(self.target(own, name, target, tier)?);
        }
        way.pop();
        Ok(())
    }

    fn target(&self, own: &ModelNames, name: &str, target: &str, tier: Option<Tier>) -> Result<RouteTarget, NoRoute> {
        let (provider, model) = target.split_once('/').unwrap_or((target, name));
        let provider = self.providers.get(provider).ok_or_else(|| NoRoute {
            what: format!("`{name}` leads to `{target}`, and there is no provider `{provider}`"),
            fix: format!("add `{provider}` under `providers` in $SKEP_HOME/config.yml; {}", self.known()),
        })?;
        let tier = tier.unwrap_or_else(|| self.tier(own, &provider.name, model));
        Ok(RouteTarget { provider: provider.clone(), model: model.to_owned(), tier })
    }

    /// A model by its own name: `provider/model`, or the first provider that wants it; those that list models are asked first.
    fn unnamed(&self, own: &ModelNames, model: &str, dialect: Dialect) -> Result<RouteTarget, NoRoute> {
        if let Some((provider, rest)) = model.split_once('/')
            && self.providers.contains_key(provider)
            && !rest.is_empty()
        {
            return self.target(own, model, model, None);
        }
        let speaks = || self.providers.values().filter(|provider| provider.dialects.contains(&dialect));
        let picky = speaks().find(|provider| provider.models.as_ref().is_some_and(|globs| globs.is_match(model)));
        let provider = picky.or_else(|| speaks().find(|provider| provider.models.is_none())).ok_or_else(|| NoRoute {
            what: format!("no provider speaks {} and has `{model}`", dialect.name()),
            fix: format!("add one under `providers` in $SKEP_HOME/config.yml; {}", self.known()),
        })?;
        Ok(RouteTarget { provider: provider.clone(), model: model.to_owned(), tier: self.tier(own, &provider.name, model) })
    }

    /// The tier in whose list a model stands; the dearest of several, and of none.
    fn tier(&self, own: &ModelNames, provider: &str, model: &str) -> Tier {
        let none = ModelNames::new();
        let lists = |tier: &Tier| {
            let mut all = Vec::new();
            for names in [own, &none] {
                // What leads nowhere lists nothing; whoever asks for that name is told.
                drop(self.follow(names, tier.as_str(), &mut Vec::new(), &mut all));
            }
            all.iter().any(|target| target.provider.name == provider && target.model == model)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pairs: &[(&str, &str)]) -> ModelNames {
        pairs.iter().map(|(name, targets)| ((*name).to_owned(), yaml::from_str(targets).unwrap())).collect()
    }

    fn routes(pairs: &[(&str, &str)]) -> Routes {
        let provider = |name: &str, yaml: &str| {
            let provider = Provider::new(name, &yaml::from_str(yaml).unwrap()).unwrap();
            (name.to_owned(), Arc::new(provider))
        };
        let providers = BTreeMap::from([
            provider("anthropic", "{url: 'https://a.test', dialect: anthropic}"),
            provider("local", "{url: 'http://127.0.0.1:1', dialect: [chat, anthropic], models: ['qwen*']}"),
            provider("openai", "{url: 'https://o.test', dialect: [responses, chat]}"),
        ]);
        Routes { providers, names: names(pairs) }
    }

    /// As `provider/model tier`.
    fn found(routes: &Routes, own: &ModelNames, model: &str, dialect: Dialect) -> Result<Vec<String>, String> {
        let shown = |target: &RouteTarget| format!("{}/{} {}", target.provider.name, target.model, target.tier.as_str());
        routes.find(own, model, dialect).map(|all| all.iter().map(shown).collect()).map_err(|none| format!("{}; {}", none.what, none.fix))
    }

    #[test]
    fn a_name_leads_through_names_to_providers() {
        let routes = routes(&[
            ("tactical", "[anthropic/sonnet, local/qwen3, openai/gpt]"),
            ("operational", "small"),
            ("small", "local/qwen3:4b"),
            ("fast", "tactical"),
            ("gpt", "openai"),
        ]);
        let none = ModelNames::new();
        let check = |model: &str, dialect: Dialect, expected: &[&str]| {
            assert_eq!(found(&routes, &none, model, dialect).unwrap(), expected, "{model}");
        };
        check("fast", Dialect::Anthropic, &["anthropic/sonnet tactical", "local/qwen3 tactical"]);
        check("tactical", Dialect::Chat, &["local/qwen3 tactical", "openai/gpt tactical"]);
        check("operational", Dialect::Chat, &["local/qwen3:4b operational"]);
        // By its own name it is of the tier that lists it, and of the dearest where none does.
        check("small", Dialect::Chat, &["local/qwen3:4b operational"]);
        check("gpt", Dialect::Responses, &["openai/gpt tactical"]);
        check("qwen2", Dialect::Chat, &["local/qwen2 strategic"]);
        check("openai/o9/x", Dialect::Chat, &["openai/o9/x strategic"]);
        // A project's own name comes first.
        let own = names(&[("tactical", "openai/mine")]);
        assert_eq!(found(&routes, &own, "fast", Dialect::Chat).unwrap(), ["openai/mine tactical"]);
        assert_eq!(routes.check(), Ok(()));
    }

    #[test]
    fn a_name_that_leads_nowhere_says_so() {
        let routes = routes(&[("tactical", "anthropic/sonnet")]);
        let own =
            names(&[("a", "b"), ("b", "[anthropic/x, c]"), ("c", "a"), ("lost", "nowhere/m"), ("tactical", "tactical"), ("none", "[]")]);
        let why = |model: &str| found(&routes, &own, model, Dialect::Anthropic).unwrap_err();
        assert_eq!(why("a"), "`a` leads to itself: a → b → c → a; have one of them lead to `provider/model` under `models`");
        assert!(why("tactical").starts_with("`tactical` leads to itself: tactical → tactical; "));
        assert_eq!(why("none"), "`none` leads to nobody; give it a `provider/model` under `models`, or leave it out");
        assert_eq!(
            why("lost"),
            "`lost` leads to `nowhere/m`, and there is no provider `nowhere`; add `nowhere` under `providers` in $SKEP_HOME/config.yml; there are `anthropic`, `local`, `openai`"
        );
        assert_eq!(
            why("strategic"),
            "tier `strategic` has no model; write `models: {strategic: PROVIDER/MODEL}` into $SKEP_HOME/config.yml or skep.yml; there are `anthropic`, `local`, `openai`"
        );
        let none = found(&routes, &own, "sonnet", Dialect::Gemini).unwrap_err();
        assert!(none.starts_with("no provider speaks gemini and has `sonnet`; "), "{none}");
    }

    #[test]
    fn the_operator_s_own_names_are_checked_when_they_are_read() {
        let (name, none) = routes(&[("fine", "local/m"), ("tactical", "antropic/x")]).check().unwrap_err();
        assert_eq!(
            (name.as_str(), none.what.as_str()),
            ("tactical", "`tactical` leads to `antropic/x`, and there is no provider `antropic`")
        );
        let (name, none) = routes(&[("operational", "[]")]).check().unwrap_err();
        assert_eq!((name.as_str(), none.what.as_str()), ("operational", "`operational` leads to nobody"));
    }
}
