//! Zones and the policy in force in each.

use super::{CheckResult, Transition, ensure};
use crate::event::{HomePolicyUpdated, PolicyUpdated, SiteRegistered, ZoneClosed, ZoneOpened};
use crate::{HomePolicy, RegisteredSite, Scope, TaskId, World, Zone};
use std::collections::BTreeSet;

impl Transition for ZoneOpened {
    fn check(&self, world: &World) -> CheckResult {
        ensure(self.zone == world.next_zone(), || format!("{} is not the next", self.zone))?;
        ensure(world.zone_at(&self.path).is_none(), || format!("the kernel works in `{}` already", self.path))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.last.zone = world.last.zone.max(self.zone.0);
        let zone = Zone {
            id: self.zone,
            path: self.path.clone(),
            branch: self.branch.clone(),
            policy: None,
            policy_version: 0,
            site: None,
            coverage: None,
        };
        world.zones.insert(self.zone, zone);
    }
}

impl Transition for SiteRegistered {
    fn check(&self, world: &World) -> CheckResult {
        ensure(world.zones.contains_key(&self.zone), || format!("no {}", self.zone))?;
        let known = world.sites.get(&self.site);
        ensure(known.is_none_or(|site| site.repository == self.repository), || format!("`{}` is another repository", self.site))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(zone) = world.zones.get_mut(&self.zone) {
            zone.site = Some(self.site.clone());
        }
        let site = RegisteredSite { slug: self.site.clone(), repository: self.repository.clone() };
        world.sites.insert(self.site.clone(), site);
    }
}

impl Transition for ZoneClosed {
    fn check(&self, world: &World) -> CheckResult {
        ensure(world.zones.contains_key(&self.zone), || format!("no {}", self.zone))?;
        let open = world.tasks.values().find(|task| task.zone == self.zone && (!task.state.ended() || task.workspace.is_some()));
        ensure(open.is_none(), || format!("{} is not over", open.map(|task| task.id.to_string()).unwrap_or_default()))?;
        let alive = world.processes.values().any(|process| process.zone == Some(self.zone) && process.state.alive());
        ensure(!alive, || "somebody works there".into())
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        let site = world.zones.remove(&self.zone).and_then(|zone| zone.site);
        if !world.zones.values().any(|zone| zone.site == site) {
            world.sites.retain(|slug, _| Some(slug) != site.as_ref());
        }
        let gone: BTreeSet<TaskId> = world.tasks.values().filter(|task| task.zone == self.zone).map(|task| task.id).collect();
        world.tasks.retain(|id, _| !gone.contains(id));
        world.reviews.retain(|_, review| review.task.is_none_or(|task| !gone.contains(&task)));
        world.merges.retain(|_, merge| !gone.contains(&merge.task));
        let of_zone = |scope: &Scope| matches!(scope, Scope::Zone { zone } if *zone == self.zone);
        world.grants.retain(|_, grant| !of_zone(&grant.scope));
        world.bans.retain(|_, ban| !of_zone(&ban.scope));
    }
}

impl Transition for PolicyUpdated {
    fn check(&self, world: &World) -> CheckResult {
        let zone = world.zones.get(&self.zone).ok_or_else(|| format!("no {}", self.zone))?;
        ensure(self.version == zone.policy_version + 1, || format!("version {} does not follow {}", self.version, zone.policy_version))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(zone) = world.zones.get_mut(&self.zone) {
            zone.policy = Some(self.blob.clone());
            zone.policy_version = self.version;
        }
    }
}

impl Transition for HomePolicyUpdated {
    fn check(&self, world: &World) -> CheckResult {
        let before = world.home_policy.as_ref().map_or(0, |home| home.version);
        ensure(self.version == before + 1, || format!("version {} does not follow {before}", self.version))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.home_policy = Some(HomePolicy { blob: self.blob.clone(), version: self.version });
    }
}
