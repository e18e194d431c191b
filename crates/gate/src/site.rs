//! Sites: repositories by their slug, and the zones that are work trees of them.
//!
//! **Invariant.** A slug stands for one repository on this machine, by the folder of git's own: a second clone of the same remote has
//! a slug of its own.

use crate::Gate;
use crate::worker::{WORKER_NAME, WORKER_ROLE};
use crate::zone::Bundle;
use std::path::{Path, PathBuf};
use workspace::repository::{self, RepositoryIdentity};
use world::event::{ProcSpawned, SiteRegistered, ZoneOpened};
use world::{Fault, Missing, Pid, Refusal, RegisteredSite, Stop, World, Zone, ZoneId, address};

/// A work tree that somebody named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTree {
    pub site: String,
    /// The folder of git's own.
    pub repository: PathBuf,
    pub branch: String,
    /// Where it is; `None` where there is none of this branch.
    pub path: Option<PathBuf>,
}

impl Gate {
    /// The zone of a work tree; the first look at it opens it, and registers its repository.
    pub async fn open_zone(&self, top: &Path) -> Result<Zone, Stop> {
        let path = top.to_string_lossy().into_owned();
        let known = self.ledger.look(|world| world.zone_at(&path).cloned());
        if let Some(zone) = known.filter(|zone| zone.site.is_some()) {
            return Ok(zone);
        }
        let branch = repository::branch(top, &self.policies.home).await;
        let identity = repository::identity(top, &self.policies.home).await?;
        let user = self.user.clone();
        let pending = self.ledger.commit(|world, _| {
            let known = world.zone_at(&path);
            if known.is_some_and(|zone| zone.site.is_some()) {
                return (Vec::new(), ());
            }
            let zone = known.map_or_else(|| world.next_zone(), |zone| zone.id);
            let mut events = Vec::new();
            if known.is_none() {
                events.push(ZoneOpened { pid: Pid::KERNEL, task: None, zone, path: path.clone(), branch }.into());
            }
            let repository = identity.folder.to_string_lossy().into_owned();
            events.push(SiteRegistered { pid: Pid::KERNEL, task: None, zone, site: slug(world, &identity), repository }.into());
            if known.is_none() {
                let (name, role, parent) = (format!("{WORKER_NAME}.1"), WORKER_ROLE.into(), Some(Pid::KERNEL));
                events.push(
                    ProcSpawned { pid: world.next_pid(), task: None, parent, name, role, zone: Some(zone), user, program: None }.into(),
                );
            }
            (events, ())
        })?;
        pending.durable().await?;
        self.policies.zone(top)
    }

    /// What is in force in another work tree of the same repository.
    pub(crate) fn policy_of_same_site(&self, zone: &Zone) -> Result<Option<Bundle>, Fault> {
        let other: Option<ZoneId> = self.ledger.look(|world| {
            let same = |other: &&Zone| other.id != zone.id && other.site.is_some() && other.site == zone.site && other.policy.is_some();
            world.zones.values().find(same).map(|other| other.id)
        });
        Ok(match other {
            Some(other) => self.policies.trusted(other)?.map(|trusted| trusted.bundle.clone()),
            None => None,
        })
    }

    /// The work tree of a branch, in the repository of this name, or in the one that `here` is in. Without a branch it is the first that
    /// somebody worked in.
    pub async fn find_tree(&self, site: Option<&str>, branch: Option<&str>, here: Option<&Path>) -> Result<NamedTree, Stop> {
        let (slug, folder) = match (site, here) {
            (Some(name), _) => self.named_site(name)?,
            (None, Some(here)) => {
                let top = crate::locate(here).await?;
                let zone = self.open_zone(&top).await?;
                let slug = zone.site.unwrap_or_default();
                let folder = self.ledger.look(|world| world.sites.get(&slug).map(|site| site.repository.clone()));
                (slug, PathBuf::from(folder.unwrap_or_default()))
            }
            (None, None) => return Err(Refusal::missing(Missing::Zone, "no repository is named").into()),
        };
        let zones: Vec<Zone> =
            self.ledger.look(|world| world.zones.values().filter(|zone| zone.site.as_ref() == Some(&slug)).cloned().collect());
        let Some(branch) = branch else {
            let first = zones.first().ok_or_else(|| unknown_site(&slug, &[]))?;
            let branch = repository::branch(first.path.as_ref(), &self.policies.home).await;
            return Ok(NamedTree { site: slug, repository: folder, branch, path: Some(first.path.clone().into()) });
        };
        let known = zones.into_iter().map(|zone| PathBuf::from(zone.path));
        let others = repository::work_trees(&folder).await?;
        let mut path = None;
        for tree in known.chain(others) {
            if repository::branch(&tree, &self.policies.home).await == branch {
                path = Some(tree);
                break;
            }
        }
        Ok(NamedTree { site: slug, repository: folder, branch: branch.to_owned(), path })
    }

    /// The repository of a slug, or of its last part where that is enough.
    fn named_site(&self, name: &str) -> Result<(String, PathBuf), Refusal> {
        let sites: Vec<RegisteredSite> = self.ledger.look(|world| world.sites.values().cloned().collect());
        let is_meant = |site: &&RegisteredSite| site.slug == name || site.slug.rsplit('/').next() == Some(name);
        let found: Vec<&RegisteredSite> = match sites.iter().find(|site| site.slug == name) {
            Some(site) => vec![site],
            None => sites.iter().filter(is_meant).collect(),
        };
        match found[..] {
            [site] => Ok((site.slug.clone(), PathBuf::from(&site.repository))),
            [] => Err(unknown_site(name, &sites)),
            _ => {
                let slugs: Vec<&str> = found.iter().map(|site| site.slug.as_str()).collect();
                Err(Refusal::new(world::Code::BadInput, format!("`{name}` is the name of several repositories"))
                    .hint(format!("name one in full: {}", slugs.join(", "))))
            }
        }
    }
}

fn unknown_site(name: &str, known: &[RegisteredSite]) -> Refusal {
    let refusal = Refusal::missing(Missing::Site, format!("no repository `{name}` is registered"));
    let slugs: Vec<&str> = known.iter().map(|site| site.slug.as_str()).collect();
    let there = if slugs.is_empty() { "there is none yet".to_owned() } else { format!("there are {}", slugs.join(", ")) };
    refusal.hint(format!("{there}; the first command in a repository registers it")).remedy(world::Remedy::InitProject)
}

/// The slug that a repository has, or gets: its own, and nobody else's.
fn slug(world: &World, identity: &RepositoryIdentity) -> String {
    let folder = identity.folder.to_string_lossy();
    if let Some(known) = world.sites.values().find(|site| site.repository == folder) {
        return known.slug.clone();
    }
    let slug = address::slug_of(identity.remote.as_deref(), &identity.name());
    let numbered = (2_u64..).map(|number| format!("{slug}.{number}"));
    std::iter::once(slug.clone()).chain(numbered).find(|slug| !world.sites.contains_key(slug)).unwrap_or(slug)
}
