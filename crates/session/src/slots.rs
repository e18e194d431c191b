//! Places for steps and rooms, of all sessions together.

/// How many steps and rooms run at once.
#[derive(Debug, Default)]
pub struct Slots;
