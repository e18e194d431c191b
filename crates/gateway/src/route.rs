//! From the name a client uses to the providers that may answer, in the order in which they are tried.
//!
//! Pure. A project's own names come first, then the operator's; both lead only to providers that the operator set up. A name may lead to
//! another name, and in a circle to nobody.

use crate::provider::Provider;
use crate::settings::{ModelNames, Targets, VendorClient};
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
    /// Where a request of this vendor's client (of somebody else, without one) for `model` in `dialect` may go. `own` are the project's
    /// names.
    pub fn find(&self, own: &ModelNames, model: &str, dialect: Dialect, client: Option<VendorClient>) -> Result<Vec<RouteTarget>, NoRoute> {
        let mut targets = Vec::new();
        match self.named(own, model) {
            Some(_) => self.follow(own, model, &mut Vec::new(), &mut targets)?,
            None if Tier::parse(model).is_some() => {
                let what = format!("tier `{model}` has no model");
                let fix = format!("write `models: {{{model}: PROVIDER/MODEL}}` into $SKEP_HOME/config.yml or skep.yml; {}", self.known());
                return Err(NoRoute { what, fix });
            }
            None => targets.push(self.unnamed(own, model, dialect, client)?),
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

    /// Refuses `PROVIDER/MODEL` of a provider that there is not, where a person names a model. A client's request may bear any name, and
    /// goes to the first provider that lists no models; who names a provider means that one.
    pub fn check_name(&self, own: &ModelNames, model: &str) -> Result<(), NoRoute> {
        let lists = |provider: &Arc<Provider>| provider.lists(model) == Some(true);
        let no_route = |what: String| {
            let names: Vec<String> = own.keys().chain(self.names.keys()).map(|name| format!("`{name}`")).collect();
            let names = if names.is_empty() { String::new() } else { format!(", and the names {}", names.join(", ")) };
            Err(NoRoute { what, fix: format!("name a model as PROVIDER/MODEL; {}{names}", self.known()) })
        };
        match model.split_once('/') {
            _ if self.named(own, model).is_some() => Ok(()),
            None if model.trim().is_empty() => no_route("it is empty".to_owned()),
            None => Ok(()),
            Some((provider, rest)) if self.providers.contains_key(provider) => match rest.trim() {
                "" => no_route(format!("it names no model of `{provider}`")),
                _ => Ok(()),
            },
            Some(_) if self.providers.values().any(lists) => Ok(()),
            Some((provider, _)) => no_route(format!("there is no provider `{provider}`")),
        }
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

    /// A model by its own name: `provider/model`, or the first provider that wants it. Those that list models are asked first, and the
    /// client's own login before a key; the login of another client comes last, where whoever asks is told so.
    fn unnamed(&self, own: &ModelNames, model: &str, dialect: Dialect, client: Option<VendorClient>) -> Result<RouteTarget, NoRoute> {
        if let Some((provider, rest)) = model.split_once('/')
            && self.providers.contains_key(provider)
            && !rest.is_empty()
        {
            return self.target(own, model, model, None);
        }
        let wants = |provider: &&Arc<Provider>| provider.dialects.contains(&dialect) && provider.lists(model).unwrap_or(true);
        let order = |provider: &&Arc<Provider>| {
            let login = provider.only_for();
            let (is_foreign, is_own) = (login.is_some() && login != client, login.is_some() && login == client);
            (is_foreign, provider.models.is_none(), !is_own)
        };
        let provider = self.providers.values().filter(wants).min_by_key(order).ok_or_else(|| NoRoute {
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
        routes
            .find(own, model, dialect, None)
            .map(|all| all.iter().map(shown).collect())
            .map_err(|none| format!("{}; {}", none.what, none.fix))
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
    fn a_person_who_names_a_provider_means_that_one() {
        let routes = routes(&[("tactical", "anthropic/sonnet"), ("team/best", "openai/gpt")]);
        let own = names(&[("mine", "openai/gpt")]);
        // A client's own name goes to whoever lists no models.
        assert_eq!(found(&routes, &own, "nobody/none", Dialect::Anthropic).unwrap(), ["anthropic/nobody/none strategic"]);
        let why = |model: &str| routes.check_name(&own, model).map_err(|none| format!("{}; {}", none.what, none.fix));
        let rest =
            "name a model as PROVIDER/MODEL; there are `anthropic`, `local`, `openai`, and the names `mine`, `tactical`, `team/best`";
        assert_eq!(why("nobody/none"), Err(format!("there is no provider `nobody`; {rest}")));
        assert_eq!(why("anthropic/"), Err(format!("it names no model of `anthropic`; {rest}")));
        assert_eq!(why("/sonnet"), Err(format!("there is no provider ``; {rest}")));
        assert_eq!(why(" "), Err(format!("it is empty; {rest}")));
        for fine in ["anthropic/anything", "openai/a/b", "tactical", "mine", "team/best", "sonnet", "qwen/qwen3"] {
            assert_eq!(why(fine), Ok(()), "{fine}");
        }
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

    #[test]
    fn a_login_is_the_first_choice_of_its_client_and_the_last_of_others() {
        let provider = |name: &str, yaml: &str| (name.to_owned(), Arc::new(Provider::new(name, &yaml::from_str(yaml).unwrap()).unwrap()));
        let mut routes = Routes {
            providers: BTreeMap::from([
                provider("a-key", "{url: 'https://a.test', dialect: anthropic}"),
                provider("b-login", "{url: 'https://b.test', dialect: anthropic, login: {client: claude, file: /none}}"),
                provider("c-listed", "{url: 'https://c.test', dialect: anthropic, models: ['local-*']}"),
            ]),
            names: ModelNames::new(),
        };
        let who = |routes: &Routes, model: &str, client| {
            routes.find(&ModelNames::new(), model, Dialect::Anthropic, client).unwrap()[0].provider.name.clone()
        };
        assert_eq!(who(&routes, "opus", Some(VendorClient::Claude)), "b-login");
        for other in [None, Some(VendorClient::Codex)] {
            assert_eq!(who(&routes, "opus", other), "a-key");
        }
        assert_eq!(who(&routes, "local-1", Some(VendorClient::Claude)), "c-listed", "who lists a model is meant");
        // Where there is nothing else, the gateway can say whose it is.
        routes.providers.remove("a-key");
        assert_eq!(who(&routes, "opus", None), "b-login");
    }
}
