//! What requests may have cost beyond what is known is held for a day, and released then.

use crate::{Kernel, Ledger};
use std::sync::Weak;
use std::time::Duration;
use world::Fault;
use world::budget::held;

/// How often somebody looks at the clock. Whoever asks for more than is left looks too.
const LOOK_MAX: Duration = Duration::from_secs(600);

/// Releases what is held as its time comes, as long as the kernel lives.
pub(crate) async fn release_expired(kernel: Weak<Kernel>) {
    loop {
        let wait = {
            let Some(kernel) = kernel.upgrade().filter(|kernel| !kernel.instance.stopping()) else { return };
            if let Err(fault) = kernel.ledger.release_held().await {
                eprintln!("skep: what is held could not be released: {fault}");
            }
            let next_ms = kernel.ledger.look(held::next_expiry_ms);
            let left = next_ms.map(|next_ms| next_ms - jiff::Timestamp::now().as_millisecond());
            left.map_or(LOOK_MAX, |left| Duration::from_millis(u64::try_from(left).unwrap_or(0)).clamp(Duration::from_secs(1), LOOK_MAX))
        };
        tokio::time::sleep(wait).await;
    }
}

impl Ledger {
    /// Releases what was held for a day.
    pub(super) async fn release_held(&self) -> Result<(), Fault> {
        let now_ms = jiff::Timestamp::now().as_millisecond();
        if self.look(|world| held::expired(world, now_ms.max(world.now_ms)).is_empty()) {
            return Ok(());
        }
        self.commit(|world, now_ms| (held::expired(world, now_ms), ()))?.durable().await
    }
}
