//! What requests may have cost beyond what is known is held for a day, and released then.

use crate::Ledger;
use std::time::Duration;
use world::Fault;
use world::budget::held;

/// How often somebody looks at the clock. Whoever asks for more than is left looks too.
const LOOK_MAX: Duration = Duration::from_secs(600);

impl Ledger {
    /// Releases what was held for a day.
    pub async fn release_held(&self) -> Result<(), Fault> {
        let now_ms = jiff::Timestamp::now().as_millisecond();
        if self.look(|world| held::expired(world, now_ms.max(world.now_ms)).is_empty()) {
            return Ok(());
        }
        self.commit(|world, now_ms| (held::expired(world, now_ms), ()))?.durable().await
    }

    /// How long until something more may be released.
    pub fn next_release(&self) -> Duration {
        let next_ms = self.look(held::next_expiry_ms);
        let left = next_ms.map(|next_ms| next_ms - jiff::Timestamp::now().as_millisecond());
        left.map_or(LOOK_MAX, |left| Duration::from_millis(u64::try_from(left).unwrap_or(0)).clamp(Duration::from_secs(1), LOOK_MAX))
    }
}
