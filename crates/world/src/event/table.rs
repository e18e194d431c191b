//! Makes the table of events into types: a struct for each row, the enum of all, and what is the same for each.

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $kind:literal, $weight:ident { $($(#[$attribute:meta])* $field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
            #[serde(deny_unknown_fields)]
            pub struct $name {
                pub pid: Pid,
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub task: Option<TaskId>,
                $($(#[$attribute])* pub $field: $type,)*
            }

            impl From<$name> for Event {
                fn from(event: $name) -> Event {
                    Event::$name(event)
                }
            }
        )*

        /// One fact. Its serde form is `{"type": kind, "payload": {…}}`, a part of the stored line.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(tag = "type", content = "payload")]
        pub enum Event {
            $(#[serde(rename = $kind)] $name($name),)*
        }

        impl Event {
            /// Every kind, for `--help`, filters and completeness tests.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            pub fn kind(&self) -> &'static str {
                match self { $(Event::$name(_) => $kind,)* }
            }

            pub fn weight(&self) -> Weight {
                match self { $(Event::$name(_) => Weight::$weight,)* }
            }

            pub fn pid(&self) -> Pid {
                match self { $(Event::$name(event) => event.pid,)* }
            }

            pub fn task(&self) -> Option<TaskId> {
                match self { $(Event::$name(event) => event.task,)* }
            }

            /// May it be recorded now?
            pub(crate) fn check(&self, world: &World) -> Result<(), String> {
                match self { $(Event::$name(event) => event.check(world),)* }
            }

            pub(crate) fn apply(&self, world: &mut World, at_ms: i64) {
                match self { $(Event::$name(event) => event.apply(world, at_ms),)* }
            }

            /// Reads the payload of an event of this kind.
            pub fn parse(kind: &str, payload: &str) -> serde_json::Result<Event> {
                match kind {
                    $($kind => crate::json::from_json(payload).map(Event::$name),)*
                    _ => Err(serde_json::Error::unknown_variant(kind, Event::KINDS)),
                }
            }

            /// The payload's bytes as the journal stores them.
            pub fn payload(&self) -> serde_json::Result<Box<RawValue>> {
                match self { $(Event::$name(event) => serde_json::value::to_raw_value(event),)* }
            }
        }
    };
}
