//! Zones and the policy in force in each.

use super::{Transition, Verdict, ensure};
use crate::event::{PolicyUpdated, ZoneOpened};
use crate::{World, Zone};

impl Transition for ZoneOpened {
    fn check(&self, world: &World) -> Verdict {
        ensure(self.zone == world.next_zone(), || format!("{} is not the next", self.zone))?;
        ensure(world.zone_at(&self.path).is_none(), || format!("`{}` is a zone already", self.path))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.last.zone = world.last.zone.max(self.zone.0);
        let zone = Zone { id: self.zone, path: self.path.clone(), branch: self.branch.clone(), policy: None, policy_version: 0 };
        world.zones.insert(self.zone, zone);
    }
}

impl Transition for PolicyUpdated {
    fn check(&self, world: &World) -> Verdict {
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
