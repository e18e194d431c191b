//! Zones: a git work tree, its proposals in the tree, and the policy that is really in force.
//!
//! Files in the project are proposals. **Invariant.** What decides is the bundle named by the zone's last `policy.updated`, kept as a
//! blob; a pull, a checkout or a hostile clone changes nothing until the operator trusts the exact hash.

use crate::Gate;
use crate::bundle::{read_bundle, unread};
use crate::config::{self, Config};
use crate::policies::Policies;
use crate::role::{ROLES_FOLDER, Roles};
use crate::test_first::TestPaths;
use crate::worker::first_worker;
use policy::{Builtin, Guard, Policy};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tool::Sanitizer;
use workspace::reader::{self, Folder, Unread};
use workspace::repository::{self, WorkTree};
use workspace::unified;
use world::event::PolicyUpdated;
use world::{Code, Missing, Pid, Refusal, Zone, ZoneId};
use world::{Fault, FaultKind, Stop};

pub(crate) const CONFIG_FILE: &str = "skep.yml";
/// The rules of a project, in its tree.
pub const POLICY_FILE: &str = ".skep/policy.yaml";
/// By whom a policy is in force that another work tree of the same repository had.
const SITE: &str = "site";
pub(crate) const RULES_FOLDER: &str = ".skep/rules";

/// The files as one thing that can be hashed, kept and trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bundle {
    pub config: String,
    pub policy: String,
    /// Extension rules in TypeScript, by file name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<(String, String)>,
    /// Roles and their skills, by their path below `.skep/roles`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<(String, String)>,
}

/// A version in force.
pub struct TrustedPolicy {
    pub version: u64,
    parsed: Arc<Parsed>,
}

impl TrustedPolicy {
    pub(crate) fn parsed(&self) -> &Arc<Parsed> {
        &self.parsed
    }
}

impl std::ops::Deref for TrustedPolicy {
    type Target = Parsed;
    fn deref(&self) -> &Parsed {
        &self.parsed
    }
}

/// A bundle, parsed; zones with the same one share it.
pub struct Parsed {
    pub policy: Policy,
    pub config: Config,
    /// Which of its paths are tests.
    pub tests: TestPaths,
    pub roles: Roles,
    /// Takes out of results what `redact` names.
    pub sanitizer: Sanitizer,
    /// The commented text, for `status` to compare with.
    pub bundle: Bundle,
}

/// What `init` or `trust` found.
#[derive(Debug, Clone)]
pub struct PolicyProposal {
    pub zone: ZoneId,
    pub path: PathBuf,
    pub branch: String,
    /// Files that were written.
    pub created: Vec<String>,
    /// The zone's first process.
    pub process: String,
    /// Version in force; 0 when none is.
    pub version: u64,
    /// Hash of what is in the tree.
    pub hash: String,
    /// From what is in force to what is in the tree; empty when equal.
    pub diff: String,
}

impl PolicyProposal {
    pub fn ready(&self) -> bool {
        self.version > 0
    }
}

/// The work tree at or above `path`, as the world names it.
pub async fn locate(path: &Path) -> Result<PathBuf, Stop> {
    let top = match repository::toplevel(path).await? {
        WorkTree::At(top) => top,
        WorkTree::None(real) => {
            return Err(Refusal::missing(Missing::Zone, format!("`{}` is not in a git repository", real.display()))
                .hint("run `git init` there, or name another folder")
                .remedy(world::Remedy::NameRepository)
                .into());
        }
        WorkTree::Unseen(error) => return Err(Refusal::new(Code::NotFound, format!("cannot open `{}`: {error}", path.display())).into()),
    };
    if top.to_str().is_none() {
        return Err(Refusal::new(Code::BadInput, format!("`{}` is not valid UTF-8", top.display())).hint("rename the folder").into());
    }
    Ok(top)
}

/// Whether a repository has files for Skep in its tree.
pub async fn brings_own(top: &Path) -> Result<bool, Stop> {
    let top = top.to_owned();
    let found = reader::bounded(move || {
        let project = Folder::open(&top)?;
        let has = |name: &str| !matches!(project.look(name), Err(Unread::Absent));
        Ok(has(CONFIG_FILE) || has(".skep"))
    });
    Ok(found.await?.map_err(|why: Unread| unread(".", why))?)
}

impl Policies {
    /// What is in the tree beside what is in force.
    pub async fn proposal(&self, top: &Path) -> Result<PolicyProposal, Stop> {
        let zone = self.zone(top)?;
        let (bundle, hash) = read_bundle(top).await?;
        let in_force = self.trusted(zone.id)?.map(|trusted| trusted.bundle.clone()).unwrap_or_default();
        let process = self.ledger.look(|world| first_worker(world, zone.id).map(|p| p.name.clone())).unwrap_or_default();
        let diff = if in_force == bundle { String::new() } else { difference(&in_force, &bundle) };
        Ok(PolicyProposal {
            zone: zone.id,
            path: top.to_owned(),
            branch: repository::branch(top, &self.home).await,
            created: Vec::new(),
            process,
            version: zone.policy_version,
            hash,
            diff,
        })
    }

    /// The zone of a work tree that was opened before.
    pub fn zone(&self, top: &Path) -> Result<Zone, Stop> {
        self.ledger.look(|world| world.zone_at(&top.to_string_lossy()).cloned()).ok_or_else(|| {
            Refusal::missing(Missing::Zone, format!("`{}` is not a repository that is set up", top.display()))
                .remedy(world::Remedy::InitProject)
                .into()
        })
    }

    /// The branch a zone is on now.
    pub async fn branch(&self, zone: ZoneId) -> String {
        match self.ledger.look(|world| world.zones.get(&zone).map(|zone| zone.path.clone())) {
            Some(path) => repository::branch(path.as_ref(), &self.home).await,
            None => String::new(),
        }
    }

    /// The bundle in force, parsed once for each version.
    pub fn trusted(&self, zone: ZoneId) -> Result<Option<Arc<TrustedPolicy>>, Fault> {
        if zone == ZoneId::NONE {
            return self.outside_zones().map(Some);
        }
        let Some((blob, version)) = self.ledger.look(|world| Some((world.zones.get(&zone)?.policy.clone()?, world.policy_version(zone)?)))
        else {
            return Ok(None);
        };
        if let Some(trusted) = self.trusted.lock().get(&zone).filter(|trusted| trusted.version == version) {
            return Ok(Some(trusted.clone()));
        }
        let trusted = Arc::new(TrustedPolicy { version, parsed: self.parsed(&blob, self.guards(zone), version)? });
        self.trusted.lock().insert(zone, trusted.clone());
        Ok(Some(trusted))
    }

    /// What holds for the operator outside every project: the default policy.
    fn outside_zones(&self) -> Result<Arc<TrustedPolicy>, Fault> {
        let version = self.ledger.look(|world| world.policy_version(ZoneId::NONE)).unwrap_or_default();
        if let Some(trusted) = self.trusted.lock().get(&ZoneId::NONE).filter(|trusted| trusted.version == version) {
            return Ok(trusted.clone());
        }
        let bundle = Bundle { policy: policy::default_policy().to_owned(), ..Bundle::default() };
        let parsed = parse_whole(&bundle).map_err(|refusal| Fault::new(FaultKind::Bug, "the default policy does not parse", refusal))?;
        let parsed = Parsed { policy: below(parsed.policy, self.home_policy()?), ..parsed };
        let trusted = Arc::new(TrustedPolicy { version, parsed: Arc::new(parsed) });
        self.trusted.lock().insert(ZoneId::NONE, trusted.clone());
        Ok(trusted)
    }

    /// The policy that holds in a zone; without one nothing may happen there.
    pub fn in_force(&self, zone: ZoneId) -> Result<Arc<TrustedPolicy>, Stop> {
        let none = || Refusal::new(Code::Untrusted, "no policy is in force in this repository").remedy(world::Remedy::TrustProject);
        Ok(self.trusted(zone)?.ok_or_else(none)?)
    }

    /// The files of a tree as they would hold if they were in force.
    pub(crate) fn proposed(&self, zone: ZoneId, bundle: &Bundle) -> Result<Arc<TrustedPolicy>, Refusal> {
        let above = self.home_policy().map_err(|fault| Refusal::new(Code::WrongState, fault.to_string()))?;
        self.proposed_under(zone, bundle, above)
    }

    /// The same with this as the operator's own policy.
    pub(crate) fn proposed_under(&self, zone: ZoneId, bundle: &Bundle, above: Option<Arc<Policy>>) -> Result<Arc<TrustedPolicy>, Refusal> {
        let parsed = parse_whole(bundle)?;
        let parsed = Parsed { policy: below(parsed.policy.guarded(self.guards(zone)), above), ..parsed };
        Ok(Arc::new(TrustedPolicy { version: 0, parsed: Arc::new(parsed) }))
    }

    fn parsed(&self, blob: &str, guards: Vec<Guard>, version: u64) -> Result<Arc<Parsed>, Fault> {
        let above = self.home_policy()?;
        // Zones whose versions differ by more than the operator's own policy share nothing with it in force; that is rare and costs little.
        let shared = guards.is_empty().then(|| if above.is_some() { format!("{blob} {version}") } else { blob.to_owned() });
        if let Some(parsed) = shared.as_ref().and_then(|blob| self.parsed.lock().get(blob).and_then(std::sync::Weak::upgrade)) {
            return Ok(parsed);
        }
        let bundle: Bundle = serde_json::from_slice(&self.ledger.blob(blob)?)
            .map_err(|error| Fault::new(FaultKind::Bug, "the policy in force cannot be read", error))?;
        let parsed = parse_whole(&bundle).map_err(|refusal| Fault::new(FaultKind::Bug, "the policy in force does not parse", refusal))?;
        let parsed = Arc::new(Parsed { policy: below(parsed.policy.guarded(guards), above), ..parsed });
        if let Some(blob) = shared {
            let mut all = self.parsed.lock();
            all.retain(|_, parsed| parsed.strong_count() > 0);
            all.insert(blob, Arc::downgrade(&parsed));
        }
        Ok(parsed)
    }

    /// Our own files, where they lie inside the project.
    fn guards(&self, zone: ZoneId) -> Vec<Guard> {
        let project = self.ledger.look(|world| world.zones.get(&zone).map(|zone| zone.path.clone())).unwrap_or_default();
        let program = std::env::current_exe().and_then(|path| path.canonicalize()).unwrap_or_default();
        let ours = [(self.home.clone(), Builtin::KernelFiles), (program, Builtin::Bootstrap)];
        let inside = ours.iter().filter_map(|(path, rule)| Some((path.strip_prefix(&project).ok()?.to_str()?.to_owned(), *rule)));
        inside.map(|(path, rule)| Guard { path, rule }).collect()
    }
}

impl Gate {
    /// Binds a work tree. Writes the default files where there are none and puts them in force; what a repository brings waits for trust.
    pub async fn init(&self, path: &Path) -> Result<PolicyProposal, Stop> {
        let top = locate(path).await?;
        let mut created = Vec::new();
        let zone = self.open_zone(&top).await?;
        if !brings_own(&top).await? {
            let default = reader::bounded({
                let top = top.clone();
                move || Folder::open(&top).map(|project| config::default_text(&project))
            })
            .await?
            .map_err(|why: Unread| unread(".", why))?;
            let in_force = self.policies.trusted(zone.id)?.map(|trusted| trusted.bundle.clone());
            // In force first, written second: a crash in between leaves files to write again, not files to distrust.
            let bundle = match in_force {
                Some(bundle) => bundle,
                None => {
                    let default = || Bundle { config: default, policy: policy::default_policy().to_owned(), ..Bundle::default() };
                    let (bundle, by) = self.policy_of_same_site(&zone)?.map_or_else(|| (default(), "init"), |bundle| (bundle, SITE));
                    self.put_in_force(&zone, &bundle, by, None).await?;
                    bundle
                }
            };
            let written = top.clone();
            reader::bounded(move || {
                write_new(&written, CONFIG_FILE, &bundle.config)?;
                write_new(&written, POLICY_FILE, &bundle.policy)?;
                bundle.rules.iter().try_for_each(|(name, text)| write_new(&written, &format!("{RULES_FOLDER}/{name}"), text))
            })
            .await??;
            // What was written is older than the next task, also by the clock that stamps files: else nobody knows what that began with.
            workspace::base::stamps_tick().await;
            created = vec![CONFIG_FILE.to_owned(), POLICY_FILE.to_owned()];
        } else if zone.policy.is_none()
            && let Some(trusted) = self.policy_of_same_site(&zone)?
            && read_bundle(&top).await?.0 == trusted
        {
            // The operator has seen exactly this, in another work tree of the same repository.
            self.put_in_force(&zone, &trusted, SITE, None).await?;
        }
        let mut proposal = self.policies.proposal(&top).await?;
        proposal.created = created;
        Ok(proposal)
    }

    /// Puts the files of the tree in force, if they still have the hash that the operator saw. More than a few breaking changes want
    /// their phrase.
    pub async fn trust(&self, path: &Path, hash: &str, phrase: Option<&str>) -> Result<PolicyProposal, Stop> {
        let top = locate(path).await?;
        let zone = self.open_zone(&top).await?;
        let (bundle, found) = read_bundle(&top).await?;
        if found != hash {
            return Err(Refusal::new(Code::WrongState, "the files changed after you looked at them")
                .hint("look at them again")
                .remedy(world::Remedy::TrustProject)
                .into());
        }
        if zone.policy.as_deref() != Some(hash) {
            self.put_in_force(&zone, &bundle, "operator", phrase).await?;
        }
        self.policies.proposal(&top).await
    }

    /// Refuses files that no phrase could put in force.
    pub(crate) async fn check_bundle(&self, bundle: &Bundle) -> Result<(), Stop> {
        self.policies.narrowed(&parse_whole(bundle)?.config)?;
        match self.policies.check_extensions(&bundle.rules).await?.first() {
            Some(flaw) => Err(Refusal::new(Code::BadInput, format!("{RULES_FOLDER}/{flaw}"))
                .hint("mend the rule")
                .remedy(world::Remedy::TrustProject)
                .into()),
            None => Ok(()),
        }
    }

    /// The one way for a policy to get in force, whoever asks.
    async fn put_in_force(&self, zone: &Zone, bundle: &Bundle, by: &str, phrase: Option<&str>) -> Result<(), Stop> {
        self.check_bundle(bundle).await?;
        // What holds in another work tree of the repository has been confirmed there.
        if by != SITE {
            self.may_break(zone, bundle, phrase).await?;
        }
        let bytes = serde_json::to_vec(bundle).map_err(|error| Fault::new(FaultKind::Bug, "cannot write a bundle", error))?;
        let blob = self.ledger.keep(&bytes)?;
        let id = zone.id;
        let pending = self.ledger.commit(|world, _| {
            let version = world.zones.get(&id).map_or(0, |zone| zone.policy_version) + 1;
            (vec![PolicyUpdated { pid: Pid::OPERATOR, task: None, zone: id, blob, version, by: by.to_owned() }.into()], ())
        })?;
        pending.durable().await?;
        if let Some(trusted) = self.policies.trusted(id)? {
            self.policies.warm_extensions(id, &trusted).await;
        }
        Ok(())
    }
}

/// A project's policy below the operator's own, if there is one.
fn below(policy: Policy, above: Option<Arc<Policy>>) -> Policy {
    match above {
        Some(above) => policy.under(above),
        None => policy,
    }
}

/// Reads a bundle as it stands, without what is above it.
pub(crate) fn parse_whole(bundle: &Bundle) -> Result<Parsed, Refusal> {
    let bad = |what: String| Refusal::new(Code::BadInput, what).hint("mend the file").remedy(world::Remedy::TrustProject);
    let (policy, _warnings) = Policy::parse(&bundle.policy, POLICY_FILE).map_err(|error| bad(error.to_string()))?;
    let config = Config::parse(&bundle.config).map_err(|error| bad(format!("{CONFIG_FILE}: {error}")))?;
    let patterns = config.redact.iter().map(|(name, pattern)| (name.as_str(), pattern.as_str()));
    let sanitizer = Sanitizer::new(patterns).map_err(|error| bad(format!("{CONFIG_FILE}: redact: {error}")))?;
    let roles = Roles::parse(&bundle.roles).map_err(bad)?;
    let tests = TestPaths::of(&config.strict).map_err(|error| bad(format!("{CONFIG_FILE}: {error}")))?;
    Ok(Parsed { policy, config, tests, roles, sanitizer, bundle: bundle.clone() })
}

/// Writes a file where there is none. No link is followed: a project must not lead our writing out of it.
fn write_new(top: &Path, name: &str, text: &str) -> Result<(), Fault> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
    use std::io::Write;
    let path = top.join(name);
    let fault = |error: rustix::io::Errno| Fault::io("write", &path, error);
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let parent = path.parent().unwrap_or(top);
    match rustix::fs::mkdirat(CWD, parent, Mode::from_raw_mode(0o755)) {
        Ok(()) => own_as(top, parent)?,
        Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(Fault::io("make", parent, error)),
    }
    let root = rustix::fs::open(top, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(fault)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::openat2(&root, name, flags, Mode::from_raw_mode(0o644), resolve | ResolveFlags::BENEATH).map_err(fault)?;
    let mut file = std::fs::File::from(file);
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| Fault::io("write", &path, error))?;
    own_as(top, &path)
}

/// As root in somebody's project, what we write is theirs.
fn own_as(top: &Path, path: &Path) -> Result<(), Fault> {
    use std::os::unix::fs::MetadataExt;
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let meta = std::fs::metadata(top).map_err(|error| Fault::io("look at", top, error))?;
    std::os::unix::fs::lchown(path, Some(meta.uid()), Some(meta.gid())).map_err(|error| Fault::io("give away", path, error))
}

pub(crate) fn difference(old: &Bundle, new: &Bundle) -> String {
    let files = |bundle: &Bundle| -> std::collections::BTreeMap<String, String> {
        let rules = bundle.rules.iter().map(|(name, text)| (format!("{RULES_FOLDER}/{name}"), text.clone()));
        let roles = bundle.roles.iter().map(|(path, text)| (format!("{ROLES_FOLDER}/{path}"), text.clone()));
        [(CONFIG_FILE.to_owned(), bundle.config.clone()), (POLICY_FILE.to_owned(), bundle.policy.clone())]
            .into_iter()
            .chain(rules)
            .chain(roles)
            .collect()
    };
    let (old, new) = (files(old), files(new));
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let text = |files: &std::collections::BTreeMap<String, String>, name: &String| files.get(name).cloned().unwrap_or_default();
    let mut shown = String::new();
    for name in names {
        let (old, new) = (text(&old, name), text(&new, name));
        if old != new {
            shown.push_str(&unified((&format!("in force/{name}"), name), old.as_bytes(), new.as_bytes(), 2).text);
        }
    }
    shown
}
