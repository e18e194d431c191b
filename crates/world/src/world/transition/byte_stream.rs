//! Streams of bytes: opened by both ends, and closed with what they carried.

use super::{CheckResult, Transition, alive, ensure};
use crate::event::{StreamClosed, StreamOpened};
use crate::{ByteStream, TargetRelation, World, limits};

impl Transition for StreamOpened {
    fn check(&self, world: &World) -> CheckResult {
        alive(world, self.pid)?;
        alive(world, self.peer)?;
        ensure(self.stream == world.next_stream(), || format!("{} is not the next", self.stream))?;
        let is_near = matches!(world.relation(self.pid, self.peer), Some(TargetRelation::Parent | TargetRelation::Child));
        ensure(is_near, || format!("processes {} and {} are no parent and child", self.pid, self.peer))?;
        for end in [self.pid, self.peer] {
            let open = world.streams.values().filter(|stream| stream.is_of(end)).count();
            ensure(open < limits::STREAMS_OPEN_MAX, || format!("process {end} has {open} streams open, and may have no more"))?;
        }
        Ok(())
    }

    fn apply(&self, world: &mut World, at_ms: i64) {
        world.last.stream = world.last.stream.max(self.stream.0);
        let stream = ByteStream { id: self.stream, from: self.pid, to: self.peer, name: self.name.clone(), opened_ms: at_ms };
        world.streams.insert(self.stream, stream);
    }
}

impl Transition for StreamClosed {
    fn check(&self, world: &World) -> CheckResult {
        ensure(world.streams.contains_key(&self.stream), || format!("{} is not open", self.stream))
    }

    fn apply(&self, world: &mut World, _at_ms: i64) {
        world.streams.remove(&self.stream);
    }
}
