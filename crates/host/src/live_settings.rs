//! The operator's settings in force, and how their files stand.
//!
//! Whoever takes the files again does it through [`LiveSettings::refresh`], one at a time. **Invariant.** A file that cannot be used changes
//! nothing: what was read last stays in force, and everybody who asks is told so until the file is mended.

use crate::settings::{OperatorSettings, SettingsFault};
use parking_lot::{Mutex, RwLock};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use workspace::aside;
use world::event::{ConfigLoaded, ConfigRejected};
use world::{Event, Pid};

/// The files that make up the settings.
const FILES: [&str; 2] = ["config.yml", "prices.yaml"];

/// What a file was when it was looked at; `None` where there is none.
type Stamp = Option<(u64, u64, i64, i64, i64, i64)>;

pub struct LiveSettings {
    in_force: RwLock<Arc<OperatorSettings>>,
    /// The files as they were taken or rejected; held while they are looked at, so that each change is taken once.
    stamps: tokio::sync::Mutex<[Stamp; 2]>,
    state: Mutex<SettingsState>,
}

/// How the files stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettingsState {
    /// Why the files are not in force as they are.
    pub rejected: Option<SettingsFault>,
    /// What was taken and nobody was told of yet.
    pub taken: Option<String>,
}

impl LiveSettings {
    pub fn read(home: &Path) -> Result<LiveSettings, SettingsFault> {
        // Before the settings are read, so that a change since then is seen.
        let stamps = stamps(home);
        let in_force = RwLock::new(Arc::new(OperatorSettings::read(home)?));
        Ok(LiveSettings { in_force, stamps: tokio::sync::Mutex::new(stamps), state: Mutex::default() })
    }

    pub fn in_force(&self) -> Arc<OperatorSettings> {
        self.in_force.read().clone()
    }

    /// Puts others in force; gives the names of the parts that are new.
    pub fn replace(&self, new: OperatorSettings) -> Vec<String> {
        let mut in_force = self.in_force.write();
        let sections = new.differences(&in_force);
        *in_force = Arc::new(new);
        sections
    }

    /// Takes the files again where they changed. `take` reads and takes all, or nothing, and gives the names of the parts that are new; then
    /// `record` keeps what is to be said of the change.
    pub async fn refresh<F: Future<Output = ()>>(
        &self,
        home: &Path,
        take: impl FnOnce() -> Result<Vec<String>, SettingsFault>,
        record: impl FnOnce(Event) -> F,
    ) {
        let mut seen = self.stamps.lock().await;
        let now = aside(|| stamps(home));
        if *seen == now {
            return;
        }
        let changed: Vec<String> =
            FILES.iter().zip(seen.iter().zip(&now)).filter(|(_, (was, is))| was != is).map(|(file, _)| (*file).to_owned()).collect();
        *seen = now;
        let (pid, task) = (Pid::KERNEL, None);
        let event: Event = match aside(take) {
            Ok(sections) => {
                let mut state = self.state.lock();
                let mended = state.rejected.take().is_some();
                let sections =
                    if changed.iter().any(|file| file == FILES[1]) { [sections, vec!["prices".to_owned()]].concat() } else { sections };
                if sections.is_empty() && !mended {
                    return;
                }
                let what = if sections.is_empty() { "as before".to_owned() } else { sections.join(", ") };
                state.taken = Some(format!("{} was changed and is in force: {what}", changed.join(" and ")));
                ConfigLoaded { pid, task, files: changed, sections }.into()
            }
            Err(fault) => {
                self.state.lock().rejected = Some(fault.clone());
                ConfigRejected { pid, task, files: changed, why: fault.why }.into()
            }
        };
        record(event).await;
    }

    /// How the files stand. What was taken is told once.
    pub fn report(&self) -> SettingsState {
        let mut state = self.state.lock();
        let told = state.clone();
        state.taken = None;
        told
    }

    /// Why the files are not in force as they are.
    pub fn rejected(&self) -> Option<SettingsFault> {
        self.state.lock().rejected.clone()
    }
}

/// What the files are now.
fn stamps(home: &Path) -> [Stamp; 2] {
    FILES.map(|file| {
        let meta = std::fs::metadata(home.join(file)).ok()?;
        Some((meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()))
    })
}
