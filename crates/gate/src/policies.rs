//! Zones with the policy in force in each, the extension rules that belong to it, and the bounds that operator and project give to rooms.
//!
//! Reads the ledger and what it is given of the operator's settings; decides nothing about a call. Methods stand beside what they are
//! about: `zone.rs`, `extension.rs`, `template.rs`, `runtime.rs`.

use crate::extension::ZoneExtensions;
use crate::runtime::RoomRuntime;
use crate::template::Templates;
use crate::zone::{Parsed, TrustedPolicy};
use ledger::Ledger;
use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use world::ZoneId;

/// What the operator's `config.yml` says of rooms.
pub(crate) struct OperatorRooms {
    /// A zone's own files narrow them.
    pub templates: Arc<Templates>,
    /// The runtime that is fixed for every zone.
    pub fixed_runtime: Option<RoomRuntime>,
}

/// The templates of the operator as one bundle narrows them.
pub(crate) struct NarrowedTemplates {
    pub operator: Weak<OperatorRooms>,
    pub bundle: Weak<Parsed>,
    pub templates: Arc<Templates>,
}

pub struct Policies {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) launcher: Arc<sandbox::Launcher>,
    pub(crate) home: PathBuf,
    /// What the operator's `config.yml` says of rooms.
    rooms: RwLock<Arc<OperatorRooms>>,
    /// The newest version of each zone.
    pub(crate) trusted: Mutex<HashMap<ZoneId, Arc<TrustedPolicy>>>,
    /// The operator's own policy, and its version.
    pub(crate) above: Mutex<Option<(u64, Arc<policy::Policy>)>>,
    /// The templates as bundles narrow the operator's; both as long as they are in use.
    pub(crate) narrowed: Mutex<Vec<NarrowedTemplates>>,
    /// Parsed bundles by hash, as long as a zone uses them.
    pub(crate) parsed: Mutex<HashMap<String, Weak<Parsed>>>,
    pub(crate) extensions: Mutex<HashMap<ZoneId, ZoneExtensions>>,
    /// Counts rules that were loaded to be tried, so that each has a folder of its own.
    pub(crate) candidates: AtomicU64,
}

impl Policies {
    pub fn new(
        ledger: Arc<Ledger>,
        launcher: Arc<sandbox::Launcher>,
        home: &Path,
        templates: Templates,
        fixed_runtime: Option<RoomRuntime>,
    ) -> Policies {
        Policies {
            ledger,
            launcher,
            home: home.to_owned(),
            rooms: RwLock::new(Arc::new(OperatorRooms { templates: Arc::new(templates), fixed_runtime })),
            trusted: Mutex::default(),
            above: Mutex::default(),
            narrowed: Mutex::default(),
            parsed: Mutex::default(),
            extensions: Mutex::default(),
            candidates: AtomicU64::new(0),
        }
    }

    /// Takes other templates and another runtime, from the next job on.
    pub fn replace_rooms(&self, templates: Templates, fixed_runtime: Option<RoomRuntime>) {
        *self.rooms.write() = Arc::new(OperatorRooms { templates: Arc::new(templates), fixed_runtime });
    }

    pub(crate) fn operator_rooms(&self) -> Arc<OperatorRooms> {
        self.rooms.read().clone()
    }

    /// Ends the children of extension rules.
    pub fn close(&self) {
        self.extensions.lock().clear();
    }

    /// Where the kernel keeps what it works on.
    pub(crate) fn work(&self) -> PathBuf {
        self.home.join("work")
    }
}
