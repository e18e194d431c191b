//! The kernel's hold on what is leased and on disk. See [`world::budget::lease`].

use ledger::Ledger;
use parking_lot::Mutex;
use world::budget::lease::{LeasePool, PaymentPlan, ReservationRequest, Share};
use world::{CapExceeded, World};

#[derive(Default)]
pub(crate) struct Leases(Mutex<LeasePool>);

impl Leases {
    /// Pays for a request. Called with the world that its commit decides on.
    pub fn plan(&self, world: &World, bid: &ReservationRequest<'_>, now_ms: i64) -> Result<PaymentPlan, CapExceeded> {
        self.0.lock().plan(world, bid, now_ms)
    }

    /// A share is on disk now.
    pub fn add(&self, ledger: &Ledger, share: Share) {
        ledger.look(|world| self.0.lock().add(world, share));
    }
}
