//! What the operator and this machine give: the settings in `$SKEP_HOME`, and what rooms are made with.
//!
//! The settings are read and checked here and are in force elsewhere: whoever takes them hands each part on. Of the machine, rooms get a
//! runtime, toolchains with their caches, services and secrets. It knows no task, no call and no judgement.
//!
//! **Invariant.** The value of a secret goes to a server that the operator named, and nowhere else.
#![forbid(unsafe_code)]

mod builds;
mod layers;
mod live_settings;
mod missing_program;
mod runtime;
mod services;
mod settings;
mod toolchains;

pub use builds::{BuildMoments, BuildRun, UsedBuilds};
pub use layers::HOME_LAYER;
pub use live_settings::{LiveSettings, SettingsState};
pub use missing_program::explain_missing_program;
pub use runtime::{RoomSettings, Rooms};
pub use settings::{GrpcSettings, OperatorSettings, ReviewSettings, SessionSettings, SettingsFault};
