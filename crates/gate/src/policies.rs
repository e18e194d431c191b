//! Zones with the policy in force in each, the extension rules that belong to it, and the bounds that operator and project give to rooms.
//!
//! Reads the ledger and what it is given of the operator's settings; decides nothing about a call. Methods stand beside what they are
//! about: `zone.rs`, `extension.rs`, `template.rs`, `runtime.rs`.

use crate::extension::ZoneExtensions;
use crate::runtime::RoomRuntime;
use crate::template::Templates;
use crate::zone::{Parsed, TrustedPolicy};
use ledger::Ledger;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use world::ZoneId;

pub struct Policies {
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) launcher: Arc<sandbox::Launcher>,
    pub(crate) home: PathBuf,
    /// The operator's templates; a zone's own files narrow them.
    pub(crate) templates: Templates,
    /// The runtime that the operator has fixed for every zone.
    pub(crate) fixed_runtime: Option<RoomRuntime>,
    /// The newest version of each zone.
    pub(crate) trusted: Mutex<HashMap<ZoneId, Arc<TrustedPolicy>>>,
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
            templates,
            fixed_runtime,
            trusted: Mutex::default(),
            parsed: Mutex::default(),
            extensions: Mutex::default(),
            candidates: AtomicU64::new(0),
        }
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
