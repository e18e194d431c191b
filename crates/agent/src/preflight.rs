//! Brains before they work: what a name stands for, whether its client is there, who would pay for its models, and its version.
//!
//! A client is run for its version alone, and nothing is asked of a model. **Invariant.** Whose subscription a request may use is decided
//! by the brain on record of the task whose client the kernel started, never by what a request or its input says.

use crate::client_model::provider_fault;
use crate::launch::BRAIN_RUN;
use crate::program::{client_of, wire_of};
use brain::agent::{tried, version_in};
use brain::{BrainSpec, Vendor};
use gate::{Gate, Request};
use gateway::{Dialect, Provider, VendorClient};
use host::LiveSettings;
use models::Models;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use world::{BrainAuth, BrainMode, BrainProblem, BrainReport, Capability, Code, PreflightCode, Refusal, RefusalKind, Remedy, Stop, ZoneId};

/// A program that does not say its version by then says it to nobody.
const VERSION_TIME_MAX: Duration = Duration::from_secs(10);

/// What a client asks its models in.
pub(crate) fn dialects(spec: &BrainSpec) -> &'static [Dialect] {
    match spec {
        BrainSpec::Vendor { vendor: Vendor::Claude, .. } => &[Dialect::Anthropic],
        BrainSpec::Vendor { vendor: Vendor::Codex, .. } => &[Dialect::Responses],
        BrainSpec::Vendor { vendor: Vendor::OpenCode, .. } => &[Dialect::Chat],
        BrainSpec::Vendor { vendor: Vendor::Gemini, .. } => &[Dialect::Gemini],
        _ => &Dialect::ALL,
    }
}

/// The client whose subscription a brain may use.
pub(crate) fn login_of(spec: &BrainSpec) -> Option<VendorClient> {
    match spec {
        BrainSpec::Vendor { vendor: Vendor::Claude, .. } => Some(VendorClient::Claude),
        BrainSpec::Vendor { vendor: Vendor::Codex, .. } => Some(VendorClient::Codex),
        _ => None,
    }
}

/// Refuses what a task's brain cannot do, and names those that can.
pub fn check_capability(brain: &str, capability: Capability) -> Result<(), Refusal> {
    let Ok(spec) = BrainSpec::parse(brain) else { return Ok(()) };
    if spec.capabilities().contains(&capability) {
        return Ok(());
    }
    let what = match capability {
        Capability::Resume => "go on with a conversation of its own",
        Capability::Gate => "ask before it uses a tool",
        Capability::Replay => "be run again on recorded answers: its own steps are not the kernel's to repeat",
    };
    let able = BrainSpec::with_capability(capability).join(", ");
    Err(Refusal::new(Code::Unsupported, format!("`{}` cannot {what}", spec.kind())).hint(format!("these can: {able}")))
}

/// Whose word it is that a task has this brain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    Operator,
    /// `brain` in skep.yml: a pull may put anything at that path.
    Project,
}

/// The brains that there are.
pub struct Brains {
    pub(crate) gate: Arc<Gate>,
    pub(crate) models: Arc<Models>,
    pub(crate) settings: Arc<LiveSettings>,
    /// Those of whoever started the kernel.
    variables: Vec<(String, String)>,
}

impl Brains {
    pub fn new(gate: Arc<Gate>, models: Arc<Models>, settings: Arc<LiveSettings>, variables: Vec<(String, String)>) -> Brains {
        Brains { gate, models, settings, variables }
    }

    /// The brain that the operator names for a task, else the project, else the operator for all tasks, else the only client that works
    /// where the built-in brain has no model; and whose word that is.
    pub fn choose(&self, zone: Option<ZoneId>, asked: Option<&str>, own: Option<&gate::Config>) -> (String, NamedBy) {
        let named = || self.settings.in_force().brain.clone();
        let only = || self.only_client(zone).map(|client| client.to_string());
        match (asked, own.and_then(|own| own.brain.as_deref().or(own.crew.hero.brain.as_deref()))) {
            (Some(asked), _) => (asked.to_owned(), NamedBy::Operator),
            (None, Some(own)) => (own.to_owned(), NamedBy::Project),
            (None, None) => (named().or_else(only).unwrap_or_else(|| BrainSpec::native().to_string()), NamedBy::Operator),
        }
    }

    /// The brain that a name stands for: a name of the project's, of the operator's, or the brain itself.
    pub fn find(&self, name: &str, own: Option<&gate::Config>) -> Result<BrainSpec, Refusal> {
        let settings = self.settings.in_force();
        let alias = own.and_then(|own| own.crew.brains.get(name)).map(|alias| alias.0.as_str()).or_else(|| settings.alias(name));
        let spec = BrainSpec::parse(alias.unwrap_or(name)).map_err(|unknown| {
            let aliases: Vec<String> = self.aliases(own).into_iter().map(|(name, _)| name).collect();
            let known = if aliases.is_empty() { String::new() } else { format!("; names of your own: {}", aliases.join(", ")) };
            // Somebody named what a brain thinks with.
            let reason = match self.models.model_card(None, name) {
                Ok(_) if name.contains('/') => {
                    format!("`{name}` is a model and no brain: it has no tools of its own; `native:{name}` works with it")
                }
                _ => unknown.to_string(),
            };
            Refusal::new(Code::NotFound, reason).hint(format!("{}{known}", BrainSpec::KNOWN))
        })?;
        Ok(settings.with_default_model(spec))
    }

    /// All names for brains, and what they stand for.
    fn aliases(&self, own: Option<&gate::Config>) -> Vec<(String, String)> {
        let settings = self.settings.in_force();
        let mine = settings.brains.keys().filter_map(|name| Some((name.clone(), settings.alias(name)?.to_owned())));
        let theirs = own.into_iter().flat_map(|own| &own.crew.brains).map(|(name, alias)| (name.clone(), alias.0.clone()));
        // The project's own count more.
        mine.chain(theirs).collect::<BTreeMap<_, _>>().into_iter().collect()
    }

    /// Refuses a vendor's client that cannot work in a zone, or in a folder that is none yet: it is not installed, nobody pays for its
    /// models, or nobody has the model that it asks for.
    pub fn check_client(&self, zone: Option<ZoneId>, spec: &BrainSpec) -> Result<(), Refusal> {
        self.check_program(spec)?;
        // An agent of another kind may need no model.
        if let BrainSpec::Vendor { .. } = spec {
            self.answering(zone, spec)?;
        }
        Ok(())
    }

    /// Refuses a client that is not installed, or that does not work on tasks.
    fn check_program(&self, spec: &BrainSpec) -> Result<(), Refusal> {
        if client_of(spec).is_none() {
            return Ok(());
        }
        self.program(spec)?;
        wire_of(spec).map(drop).map_err(|refusal| {
            let able: Vec<&str> = Vendor::ALL.map(vendor_spec).iter().filter(|spec| wire_of(spec).is_ok()).map(BrainSpec::kind).collect();
            refusal.hint(format!("these do: {}, native, script", able.join(", ")))
        })
    }

    /// The only client that can work, where the built-in brain has no model to think with.
    fn only_client(&self, zone: Option<ZoneId>) -> Option<BrainSpec> {
        let native = self.settings.in_force().with_default_model(BrainSpec::native());
        if native.model().is_none_or(|model| self.models.model_card(zone, model).is_ok()) {
            return None;
        }
        let mut able = Vendor::ALL.map(vendor_spec).into_iter().filter(|spec| self.check_client(zone, spec).is_ok());
        able.next().filter(|_| able.next().is_none())
    }

    /// The vendor's client that a call runs as the brain of its task.
    pub fn vendor_client(&self, request: &Request) -> Option<VendorClient> {
        // INVARIANT: a call that somebody follows was made by the kernel itself; a brain's own call of this tool is followed by nobody.
        let task = request.task.filter(|_| request.tool == BRAIN_RUN && request.live.is_some())?;
        let brain = self.gate.ledger.look(|world| world.tasks.get(&task).map(|task| task.brain.clone()))?;
        login_of(&BrainSpec::parse(&brain).ok()?)
    }

    /// All brains, as a project sees them that lies here; or only the one of this name.
    pub async fn reports(&self, path: Option<&Path>, only: Option<&str>) -> Result<Vec<BrainReport>, Stop> {
        let zone = match path {
            Some(path) => self.zone_of(path).await,
            None => None,
        };
        let trusted = zone.map(|zone| self.gate.policies.trusted(zone)).transpose()?.flatten();
        let own = trusted.as_ref().map(|trusted| &trusted.config);
        let (default, _) = self.choose(zone, None, own);
        let names: Vec<String> = match only {
            Some(name) => vec![name.to_owned()],
            None => {
                let settings = self.settings.in_force();
                let vendors = Vendor::ALL.iter().map(|vendor| vendor.name().to_owned());
                let is_agent =
                    |name: &&String| !Vendor::ALL.iter().any(|vendor| vendor.name() == name.as_str()) && settings.alias(name).is_none();
                let agents = settings.brains.keys().filter(is_agent).map(|name| format!("acp:{name}"));
                let aliases = self.aliases(own).into_iter().map(|(name, _)| name);
                let all = vendors.chain([BrainSpec::native().to_string()]).chain(agents);
                let mut all: Vec<String> = all.collect();
                all.extend(aliases.filter(|alias| !Vendor::ALL.iter().any(|vendor| vendor.name() == alias)));
                all
            }
        };
        let specs = names.iter().map(|name| self.find(name, own)).collect::<Result<Vec<_>, _>>()?;
        let versions = self.versions(&specs).await;
        let aliases = self.aliases(own);
        let report = |(name, spec): (String, &BrainSpec)| {
            let alias_of = aliases.iter().any(|(alias, _)| *alias == name).then(|| spec.to_string());
            BrainReport { is_default: name == default, alias_of, name, ..self.preflight(zone, spec, &versions) }
        };
        Ok(names.into_iter().zip(&specs).map(report).collect())
    }

    async fn zone_of(&self, path: &Path) -> Option<ZoneId> {
        let top = gate::locate(path).await.ok()?;
        self.gate.ledger.look(|world| world.zone_at(&top.to_string_lossy()).map(|zone| zone.id))
    }

    /// Looks at one brain.
    fn preflight(&self, zone: Option<ZoneId>, spec: &BrainSpec, versions: &Versions) -> BrainReport {
        let mut report = BrainReport {
            name: spec.to_string(),
            alias_of: None,
            mode: if client_of(spec).is_some() { BrainMode::Cli } else { BrainMode::Sdk },
            auth: self.wanted_auth(spec),
            version: None,
            program: None,
            providers: Vec::new(),
            capabilities: spec.capabilities().to_vec(),
            is_default: false,
            problem: None,
        };
        match spec {
            BrainSpec::Script(_) => {
                report.auth = BrainAuth::None;
                return report;
            }
            BrainSpec::Native { .. } => {
                let model = spec.model().unwrap_or_default();
                report.version = Some(env!("CARGO_PKG_VERSION").to_owned());
                match self.models.model_card(zone, model) {
                    Ok(_) => {
                        let providers = self.native_providers(zone, model);
                        report.auth = providers.first().map_or(BrainAuth::None, |provider| auth_of(provider));
                        report.providers = providers.iter().map(|provider| provider.name.clone()).collect();
                    }
                    Err(refusal) => report.problem = Some(problem(PreflightCode::NotAuthenticated, refusal)),
                }
                return report;
            }
            BrainSpec::Vendor { .. } | BrainSpec::Acp(_) => {}
        }
        let program = match self.program(spec) {
            Ok(Some(program)) => program,
            Ok(None) => return report,
            Err(refusal) => {
                report.problem = Some(problem(PreflightCode::NotInstalled, refusal));
                return report;
            }
        };
        report.program = program.command.first().cloned();
        report.version = versions.get(&program.command).cloned();
        report.problem = match (self.check_program(spec), self.answering(zone, spec)) {
            (Err(refusal), _) => Some(problem(PreflightCode::Unknown, refusal)),
            (Ok(()), Err(refusal)) => Some(problem(PreflightCode::NotAuthenticated, refusal)),
            (Ok(()), Ok(providers)) => {
                report.auth = providers.first().map_or(report.auth, |provider| auth_of(provider));
                report.providers = providers.iter().map(|provider| provider.name.clone()).collect();
                version_problem(spec, report.version.as_deref(), &program.command)
            }
        };
        report
    }

    /// Who could pay for a client's requests, its own login first; or why nobody does.
    pub(crate) fn payer(&self, spec: &BrainSpec) -> Result<Vec<Arc<Provider>>, Refusal> {
        let login = login_of(spec);
        let serves = |provider: &Arc<Provider>| {
            provider.only_for().is_none_or(|client| login == Some(client))
                && dialects(spec).iter().any(|dialect| provider.dialects.contains(dialect))
        };
        let (mut able, mut fault) = (Vec::new(), None);
        for provider in self.models.gateway().providers().filter(serves) {
            match provider_fault(&provider) {
                None => able.push(provider),
                Some(why) => drop(fault.get_or_insert(why)),
            }
        }
        able.sort_by_key(|provider| provider.only_for().is_none());
        if !able.is_empty() {
            return Ok(able);
        }
        let name = client_of(spec).unwrap_or_default();
        let refusal = match fault {
            Some(refusal) => refusal,
            None => {
                let refusal =
                    Refusal::new(Code::NotFound, format!("nobody pays for the models of `{name}`: no provider that it can ask is set up"));
                match (spec, self.login_file(spec).is_some()) {
                    (_, true) => refusal,
                    (BrainSpec::Vendor { vendor: Vendor::Claude, .. }, _) => {
                        refusal.hint("run `claude` and log in with /login, or set ANTHROPIC_API_KEY")
                    }
                    (BrainSpec::Vendor { vendor: Vendor::Codex, .. }, _) => refusal.hint("run `codex login`, or set OPENAI_API_KEY"),
                    (BrainSpec::Vendor { vendor: Vendor::Gemini, .. }, _) => refusal.hint("set GEMINI_API_KEY"),
                    (BrainSpec::Vendor { vendor: Vendor::OpenCode, .. }, _) => {
                        refusal.hint("set OPENAI_API_KEY or OPENROUTER_API_KEY, or start a model server such as Ollama")
                    }
                    _ => refusal.hint("set a key such as ANTHROPIC_API_KEY"),
                }
            }
        };
        Err(unauthenticated(refusal))
    }

    /// The file in which a client keeps its own login, if there is one.
    fn login_file(&self, spec: &BrainSpec) -> Option<PathBuf> {
        let file = match spec {
            BrainSpec::Vendor { vendor: Vendor::Claude, .. } => ".claude/.credentials.json",
            BrainSpec::Vendor { vendor: Vendor::Codex, .. } => ".codex/auth.json",
            BrainSpec::Vendor { vendor: Vendor::Gemini, .. } => ".gemini/oauth_creds.json",
            _ => return None,
        };
        let path = Path::new(self.variable("HOME")?).join(file);
        path.is_file().then_some(path)
    }

    /// How a brain is paid for usually, where nobody pays yet.
    fn wanted_auth(&self, spec: &BrainSpec) -> BrainAuth {
        match (spec, login_of(spec)) {
            (_, Some(_)) => BrainAuth::CliLogin,
            // A login at Google goes with no request of ours.
            (BrainSpec::Vendor { vendor: Vendor::Gemini, .. }, None) if self.login_file(spec).is_some() => BrainAuth::Oauth,
            _ => BrainAuth::ApiKey,
        }
    }

    fn native_providers(&self, zone: Option<ZoneId>, model: &str) -> Vec<Arc<Provider>> {
        let names = self.models.names_of(zone);
        let found = Dialect::ALL.iter().find_map(|dialect| self.models.gateway().find(&names, model, *dialect, None).ok());
        found.into_iter().flatten().map(|target| target.provider).collect()
    }

    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The versions that the clients of these brains say of themselves, all asked at once.
    async fn versions(&self, specs: &[BrainSpec]) -> Versions {
        let environment: Vec<(String, String)> =
            ["PATH", "HOME"].into_iter().filter_map(|name| Some((name.to_owned(), self.variable(name)?.to_owned()))).collect();
        let commands = specs.iter().filter_map(|spec| self.program(spec).ok().flatten()).map(|program| program.command);
        let mut asked = tokio::task::JoinSet::new();
        for command in commands.collect::<BTreeSet<_>>() {
            asked.spawn(version(command, environment.clone()));
        }
        asked.join_all().await.into_iter().filter_map(|(command, version)| Some((command, version?))).collect()
    }
}

/// Versions by command.
type Versions = BTreeMap<Vec<String>, String>;

/// The version that a program says of itself.
async fn version(command: Vec<String>, environment: Vec<(String, String)>) -> (Vec<String>, Option<String>) {
    let said = async {
        let (first, rest) = command.split_first()?;
        let mut child = tokio::process::Command::new(first);
        child.args(rest).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true).env_clear().envs(environment);
        let output = tokio::time::timeout(VERSION_TIME_MAX, child.output()).await.ok()?.ok().filter(|output| output.status.success())?;
        version_in(&String::from_utf8_lossy(&output.stdout)).map(str::to_owned)
    };
    let said = said.await;
    (command, said)
}

fn vendor_spec(vendor: Vendor) -> BrainSpec {
    BrainSpec::Vendor { vendor, model: None }
}

fn auth_of(provider: &Provider) -> BrainAuth {
    match (provider.only_for(), provider.key_place()) {
        (Some(_), _) => BrainAuth::CliLogin,
        (None, Some(_)) => BrainAuth::ApiKey,
        (None, None) => BrainAuth::None,
    }
}

/// A refusal of a brain that nobody answers.
pub(crate) fn unauthenticated(refusal: Refusal) -> Refusal {
    refusal.kind(RefusalKind::BrainUnauthenticated).remedy(Remedy::SetUpModel)
}

fn problem(code: PreflightCode, refusal: Refusal) -> BrainProblem {
    BrainProblem { code, why: refusal.reason, fix: refusal.hint, remedy: refusal.remedy.map(|remedy| *remedy) }
}

/// What is to be said of a version: nothing of one within the range that was tried.
fn version_problem(spec: &BrainSpec, version: Option<&str>, command: &[String]) -> Option<BrainProblem> {
    let BrainSpec::Vendor { vendor, .. } = spec else { return None };
    let Some(version) = version else {
        let shown = command.join(" ");
        let why = format!("`{shown} --version` gives no version");
        let fix = format!("run `{shown} --version` yourself and see what is wrong");
        return Some(BrainProblem { code: PreflightCode::Unknown, why, fix: Some(fix), remedy: None });
    };
    let range = tried(*vendor);
    (!range.covers(version)).then(|| BrainProblem {
        code: PreflightCode::VersionMismatch,
        why: format!("{} {version} was not tried here; {range} was", vendor.name()),
        fix: Some(format!("it may work as it is; if it does not, install version {}", range.last)),
        remedy: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_within_the_tried_range_is_no_problem() {
        let claude = vendor_spec(Vendor::Claude);
        let program = ["/opt/claude".to_owned()];
        let code = |version: Option<&str>| version_problem(&claude, version, &program).map(|problem| problem.code);
        assert_eq!((code(Some("2.1.197")), code(Some("2.1.300-beta")), code(Some("2.1.325"))), (None, None, None));
        for version in ["2.1.9", "2.2.0", "3.0.0", "1.9.999"] {
            assert_eq!(code(Some(version)), Some(PreflightCode::VersionMismatch), "{version}");
        }
        let told = version_problem(&claude, Some("9.0.0"), &program).unwrap();
        assert_eq!(told.why, "claude 9.0.0 was not tried here; 2.1.197 to 2.1.325 was");
        assert_eq!(code(None), Some(PreflightCode::Unknown));
    }

    #[test]
    fn a_missing_capability_names_who_has_it() {
        assert_eq!((check_capability("native", Capability::Replay), check_capability("claude:opus", Capability::Resume)), (Ok(()), Ok(())));
        let refusal = check_capability("claude", Capability::Replay).unwrap_err();
        assert!(refusal.reason.starts_with("`claude` cannot be run again"), "{}", refusal.reason);
        assert_eq!(refusal.hint.as_deref(), Some("these can: native, script"));
        assert!(check_capability("acp:goose", Capability::Resume).unwrap_err().hint.unwrap().contains("claude, codex"));
    }
}
