//! The model that a vendor's client asks for, and who answers to its name.
//!
//! Nothing is asked of a model here. What a client calls the models of its own vendor, nobody knows beforehand, only how such names begin.
//! **Invariant.** A client is refused for its model only where no name that it can ask for leads to anybody.

use crate::Brains;
use crate::preflight::{dialects, login_of, unauthenticated};
use crate::program::client_of;
use brain::{BrainSpec, Vendor};
use gateway::{NoRoute, Provider, RouteTarget};
use std::sync::Arc;
use world::{Code, Refusal, ZoneId};

/// What a client asks the gateway for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskedModel<'a> {
    /// Exactly this.
    Named(&'a str),
    /// One of its vendor's, by its own choice: the name begins with one of these.
    OfVendor(&'static [&'static str]),
    /// Of an agent that the operator named nothing is known.
    Unknown,
}

const CLAUDE_MODELS: &[&str] = &["claude"];
/// What Claude Code makes one of its vendor's names of.
const CLAUDE_ALIASES: &[&str] = &["default", "best", "opus", "sonnet", "haiku", "opusplan"];
/// How it asks for a long context; the name goes out without it.
const CLAUDE_LONG: &str = "[1m]";
const CODEX_MODELS: &[&str] = &["gpt", "codex"];
const GEMINI_MODELS: &[&str] = &["gemini"];
/// What Gemini CLI makes one of its vendor's names of.
const GEMINI_ALIASES: &[&str] = &["auto", "pro", "flash", "flash-lite"];

fn asked_model(spec: &BrainSpec) -> AskedModel<'_> {
    let BrainSpec::Vendor { vendor, model } = spec else { return AskedModel::Unknown };
    match (vendor, model.as_deref()) {
        (Vendor::OpenCode, model) => AskedModel::Named(model.unwrap_or(BrainSpec::DEFAULT_MODEL)),
        (Vendor::Claude, None) => AskedModel::OfVendor(CLAUDE_MODELS),
        (Vendor::Claude, Some(model)) => match model.strip_suffix(CLAUDE_LONG).unwrap_or(model) {
            alias if CLAUDE_ALIASES.contains(&alias) => AskedModel::OfVendor(CLAUDE_MODELS),
            named => AskedModel::Named(named),
        },
        (Vendor::Codex, None) => AskedModel::OfVendor(CODEX_MODELS),
        (Vendor::Gemini, None) => AskedModel::OfVendor(GEMINI_MODELS),
        (Vendor::Gemini, Some(model)) if GEMINI_ALIASES.contains(&model) || model.starts_with("auto-") => {
            AskedModel::OfVendor(GEMINI_MODELS)
        }
        (Vendor::Codex | Vendor::Gemini, Some(model)) => AskedModel::Named(model),
    }
}

impl Brains {
    /// Who answers a client's requests in a zone, or in a folder that is none yet, its own login first; or why nobody does.
    pub(crate) fn answering(&self, zone: Option<ZoneId>, spec: &BrainSpec) -> Result<Vec<Arc<Provider>>, Refusal> {
        let able = self.payer(spec)?;
        match asked_model(spec) {
            AskedModel::Named(model) => self.named_model(zone, spec, model),
            AskedModel::OfVendor(beginnings) => self.model_of_vendor(zone, spec, able, beginnings),
            AskedModel::Unknown => Ok(able),
        }
    }

    /// Who answers to a name that the client asks for as it is.
    fn named_model(&self, zone: Option<ZoneId>, spec: &BrainSpec, model: &str) -> Result<Vec<Arc<Provider>>, Refusal> {
        let (client, login) = (client_of(spec).unwrap_or_default(), login_of(spec));
        let (mut targets, mut none) = (Vec::new(), None);
        for dialect in dialects(spec) {
            match self.models.gateway().find(&self.models.names_of(zone), model, *dialect, login) {
                Ok(found) => targets.extend(found),
                Err(no_route) => none = none.or(Some(no_route)),
            }
        }
        if targets.is_empty() {
            let NoRoute { what, fix } = none.unwrap_or_else(|| NoRoute { what: String::new(), fix: String::new() });
            let reason = format!("no model answers to `{model}`, which `{client}` asks for: {what}");
            let fix = format!("{fix}; or name the brain with another model: `{client}:PROVIDER/MODEL`");
            return Err(unauthenticated(Refusal::new(Code::NotFound, reason).hint(fix)));
        }
        let first_fault = targets.first().and_then(|target| target_fault(target, spec));
        let mut answering: Vec<Arc<Provider>> = Vec::new();
        for target in targets.iter().filter(|target| target_fault(target, spec).is_none()) {
            if answering.iter().all(|known| known.name != target.provider.name) {
                answering.push(target.provider.clone());
            }
        }
        match first_fault {
            Some(fault) if answering.is_empty() => Err(unauthenticated(fault)),
            _ => Ok(answering),
        }
    }

    /// Those of `able` that may have a model of the client's vendor. A name in `models` that looks like one of those counts as well.
    fn model_of_vendor(
        &self,
        zone: Option<ZoneId>,
        spec: &BrainSpec,
        able: Vec<Arc<Provider>>,
        beginnings: &[&str],
    ) -> Result<Vec<Arc<Provider>>, Refusal> {
        let is_vendors = |name: &&String| beginnings.iter().any(|beginning| name.starts_with(beginning));
        let (own, names) = (self.models.names_of(zone), self.models.gateway().names());
        for name in own.keys().chain(names.keys()).filter(is_vendors) {
            if let Ok(answering) = self.named_model(zone, spec, name) {
                return Ok(answering);
            }
        }
        let listed: Vec<String> = able.iter().map(|provider| format!("`{}`", provider.name)).collect();
        let may_have = |provider: &Arc<Provider>| beginnings.iter().any(|beginning| provider.may_have(beginning));
        let answering: Vec<Arc<Provider>> = able.into_iter().filter(may_have).collect();
        if !answering.is_empty() {
            return Ok(answering);
        }
        let (client, begin) = (client_of(spec).unwrap_or_default(), beginnings[0]);
        let reason = format!(
            "no model answers to the names that `{client}` asks for, which begin with `{begin}`: {} list others",
            listed.join(", ")
        );
        let fix = format!(
            "name the brain with a model that they list: `{client}:MODEL`; or add `{begin}*` to `models` of a provider that has such models"
        );
        Err(unauthenticated(Refusal::new(Code::NotFound, reason).hint(fix)))
    }
}

/// Why a place where a name leads cannot answer this client.
fn target_fault(target: &RouteTarget, spec: &BrainSpec) -> Option<Refusal> {
    if let Some(owner) = target.provider.only_for().filter(|owner| login_of(spec) != Some(*owner)) {
        let (model, owner) = (&target.model, owner.name());
        let reason = format!("`{model}` leads to the subscription login of {owner}, which serves {owner} itself and nobody else");
        return Some(Refusal::new(Code::NotFound, reason).hint("set up a provider with a key"));
    }
    provider_fault(&target.provider)
}

/// Why a provider cannot answer anybody.
pub(crate) fn provider_fault(provider: &Provider) -> Option<Refusal> {
    if let Err(why) = provider.check() {
        return Some(Refusal::new(Code::NotFound, why).hint("mend the file; docs/models.md has the words of a script"));
    }
    let none = provider.missing_key()?;
    Some(Refusal::new(Code::NotFound, format!("`{}` has no key: {}", provider.name, none.what)).hint(none.fix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_asks_for_is_its_name_or_its_vendors_choice() {
        for (brain, asked) in [
            ("opencode", AskedModel::Named("tactical")),
            ("opencode:xai/grok", AskedModel::Named("xai/grok")),
            ("claude", AskedModel::OfVendor(CLAUDE_MODELS)),
            ("claude:opus", AskedModel::OfVendor(CLAUDE_MODELS)),
            ("claude:sonnet[1m]", AskedModel::OfVendor(CLAUDE_MODELS)),
            ("claude:claude-opus-4-5[1m]", AskedModel::Named("claude-opus-4-5")),
            ("claude:tactical", AskedModel::Named("tactical")),
            ("codex", AskedModel::OfVendor(CODEX_MODELS)),
            ("codex:gpt-5.5", AskedModel::Named("gpt-5.5")),
            ("gemini:pro", AskedModel::OfVendor(GEMINI_MODELS)),
            ("gemini:auto-gemini-3", AskedModel::OfVendor(GEMINI_MODELS)),
            ("gemini:gemini-2.5-pro", AskedModel::Named("gemini-2.5-pro")),
            ("acp:goose", AskedModel::Unknown),
        ] {
            assert_eq!(asked_model(&BrainSpec::parse(brain).unwrap()), asked, "{brain}");
        }
    }
}
