//! What processes of the tree share with others: artifacts, trouble, and entries of cron.

use super::{CheckResult, Transition, alive, ensure};
use crate::event::{
    ArtifactRemoved, ArtifactStored, CronAdded, CronEnded, CronFired, CronRemoved, EscalationHandled, EscalationPassed, EscalationRaised,
};
use crate::{
    ArtifactId, CronAction, CronEntry, CronId, CronRun, Escalation, EscalationAnswer, EscalationId, Pid, Program, StoredArtifact, World,
    limits,
};

impl Transition for ArtifactStored {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)?;
        ensure(self.artifact == world.next_artifact(), || format!("{} is not the next", self.artifact))?;
        ensure(!self.key.is_empty() && self.key.len() <= limits::ARTIFACT_KEY_MAX, || "an artifact has a key".into())?;
        let before = world.artifact_at(self.pid, &self.key, self.visibility);
        if let Some(before) = before {
            ensure(world.owns_artifact(self.pid, before), || format!("`{}` belongs to process {}", self.key, before.owner))?;
        }
        let next = before.map_or(1, |before| before.version + 1);
        ensure(self.version == next, || format!("version {} does not follow", self.version))?;
        let user = world.processes.get(&self.pid).map(|process| process.user.as_str()).unwrap_or_default();
        let (count, bytes) = world.artifacts_of(user);
        ensure(count < limits::ARTIFACTS_MAX, || format!("`{user}` has {count} artifacts, and may have no more"))?;
        let fits = bytes.saturating_add(self.bytes) <= limits::ARTIFACT_QUOTA_BYTES;
        ensure(fits, || format!("`{user}` has {bytes} bytes of artifacts, and {} more are too many", self.bytes))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        world.last.artifact = world.last.artifact.max(self.artifact.0);
        let Some(user) = world.processes.get(&self.pid).map(|process| process.user.clone()) else { return };
        let artifact = StoredArtifact {
            id: self.artifact,
            owner: self.pid,
            user,
            key: self.key.clone(),
            version: self.version,
            visibility: self.visibility,
            content_type: self.content_type.clone(),
            blob: self.blob.clone(),
            bytes: self.bytes,
            stored_ms: at_ms,
        };
        let is_older = |other: &&StoredArtifact| other.key == artifact.key && other.is_version_of(&artifact);
        let older: Vec<ArtifactId> = world.artifacts.values().rev().filter(is_older).map(|other| other.id).collect();
        for id in older.into_iter().skip(limits::ARTIFACT_VERSIONS_MAX - 1) {
            world.artifacts.remove(&id);
        }
        world.artifacts.insert(self.artifact, artifact);
    }
}

impl Transition for ArtifactRemoved {
    fn check(&self, world: &World) -> CheckResult {
        let artifact = world.artifacts.get(&self.artifact).ok_or_else(|| format!("no {}", self.artifact))?;
        ensure(world.owns_artifact(self.pid, artifact), || format!("{} belongs to process {}", artifact.id, artifact.owner))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.artifacts.remove(&self.artifact);
    }
}

impl Transition for EscalationRaised {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)?;
        ensure(self.escalation == world.next_escalation(), || format!("{} is not the next", self.escalation))?;
        let above = world.nearest_live_ancestor(self.pid);
        ensure(above == Some(self.to), || format!("process {} is not right above {}", self.to, self.pid))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        world.last.escalation = world.last.escalation.max(self.escalation.0);
        let escalation = Escalation {
            id: self.escalation,
            from: self.pid,
            at: self.to,
            issue: self.issue.clone(),
            severity: self.severity,
            context: self.context.clone(),
            auto: self.auto,
            passed_by: Vec::new(),
            review: None,
            raised_ms: at_ms,
            handled: None,
        };
        world.escalations.insert(self.escalation, escalation);
    }
}

impl Transition for EscalationPassed {
    fn check(&self, world: &World) -> CheckResult {
        let escalation = open(world, self.escalation)?;
        ensure(escalation.at == self.pid, || format!("{} is with process {}", escalation.id, escalation.at))?;
        match (world.nearest_live_ancestor(self.pid), self.to, self.review) {
            (Some(above), Some(to), None) => ensure(above == to, || format!("process {to} is not right above {}", self.pid)),
            (None, None, Some(review)) => {
                ensure(escalation.review.is_none(), || format!("a person was asked about {}", escalation.id))?;
                ensure(world.reviews.contains_key(&review), || format!("no {review}"))
            }
            _ => Err("it goes to the next one above, and from the top to a person".into()),
        }
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        if let Some(escalation) = world.escalations.get_mut(&self.escalation) {
            escalation.passed_by.push(self.pid);
            escalation.at = self.to.unwrap_or(escalation.at);
            escalation.review = self.review.or(escalation.review);
        }
    }
}

impl Transition for EscalationHandled {
    fn check(&self, world: &World) -> CheckResult {
        let escalation = open(world, self.escalation)?;
        let is_above = world.ancestry(escalation.at).any(|process| process.pid == self.pid);
        ensure(is_above || self.pid == Pid::OPERATOR, || format!("{} is with process {}", escalation.id, escalation.at))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        if let Some(escalation) = world.escalations.get_mut(&self.escalation) {
            escalation.handled = Some(EscalationAnswer { by: self.pid, response: self.response.clone(), at_ms });
        }
        let handled: Vec<EscalationId> = world.escalations.values().filter(|one| one.handled.is_some()).map(|one| one.id).collect();
        for id in handled.iter().take(handled.len().saturating_sub(limits::ESCALATIONS_REMEMBERED)) {
            world.escalations.remove(id);
        }
    }
}

fn open(world: &World, id: EscalationId) -> Result<&Escalation, String> {
    let escalation = world.escalations.get(&id).ok_or_else(|| format!("no {id}"))?;
    ensure(escalation.handled.is_none(), || format!("{id} was dealt with"))?;
    Ok(escalation)
}

impl Transition for CronAdded {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)?;
        let known = world.crons.get(&self.cron);
        ensure(known.is_some() || self.cron == world.next_cron(), || format!("{} is not the next", self.cron))?;
        ensure(known.is_some() || world.crons.len() < limits::CRONS_MAX, || "there are too many entries".into())?;
        ensure(self.spec.action != CronAction::Spawn || self.spec.program.is_some(), || "it does not say what to spawn".into())?;
        ensure(world.processes.contains_key(&self.spec.target), || format!("no process {}", self.spec.target))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        world.last.cron = world.last.cron.max(self.cron.0);
        let before = world.crons.remove(&self.cron);
        let (added_ms, last, running) = before.map_or((at_ms, None, 0), |before| (before.added_ms, before.last, before.running));
        let spec = (*self.spec).clone();
        // Without a first task its schedule is all that a process was spawned with.
        let target = world.processes.get_mut(&spec.target).filter(|_| spec.name == Program::schedule_name(spec.target));
        if let Some(process) = target.filter(|process| process.program.as_ref().is_some_and(|program| program.initial_task.is_none())) {
            process.owes_first_to = None;
        }
        let entry = CronEntry { id: self.cron, owner: self.pid, spec, added_ms, next_ms: self.next_ms, last, running };
        world.crons.insert(self.cron, entry);
    }
}

impl Transition for CronRemoved {
    fn check(&self, world: &World) -> CheckResult {
        entry(world, self.cron).map(drop)
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.crons.remove(&self.cron);
    }
}

impl Transition for CronFired {
    fn check(&self, world: &World) -> CheckResult {
        let entry = entry(world, self.cron)?;
        let is_later = entry.last.as_ref().is_none_or(|last| self.due_ms >= last.due_ms);
        ensure(is_later, || format!("{} ran after that", entry.id))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        let Some(entry) = world.crons.get_mut(&self.cron) else { return };
        entry.next_ms = self.next_ms;
        if !self.skipped {
            entry.running += 1;
            entry.last = Some(CronRun { due_ms: self.due_ms, started_ms: at_ms, ..CronRun::default() });
        }
    }
}

impl Transition for CronEnded {
    fn check(&self, world: &World) -> CheckResult {
        let entry = entry(world, self.cron)?;
        ensure(entry.running > 0, || format!("no run of {} goes on", entry.id))
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        let Some(entry) = world.crons.get_mut(&self.cron) else { return };
        entry.running = entry.running.saturating_sub(1);
        if let Some(last) = &mut entry.last {
            last.ended_ms = Some(at_ms);
            last.exit_code = Some(self.exit_code);
            last.output.clone_from(&self.output);
        }
    }
}

fn entry(world: &World, id: CronId) -> Result<&CronEntry, String> {
    world.crons.get(&id).ok_or_else(|| format!("no {id}"))
}
