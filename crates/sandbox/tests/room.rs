//! Rooms, for real: as root, as an ordinary user, and in containers of Podman.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a suite with its own main is a test, but does not look like one")]

mod room {
    pub mod branch;
    pub mod confine;
    pub mod death;
    pub mod disk;
    pub mod doors;
    pub mod files;
    pub mod host;
    pub mod landlock;
    pub mod leave;
    pub mod lookups;
    pub mod oci;
    pub mod pause;
    pub mod run;
    pub mod share;
}

use room::host::Test;

fn main() {
    let suites: &[&[Test]] = &[
        room::run::TESTS,
        room::confine::TESTS,
        room::landlock::TESTS,
        room::doors::TESTS,
        room::files::TESTS,
        room::death::TESTS,
        room::disk::TESTS,
        room::leave::TESTS,
        room::lookups::TESTS,
        room::pause::TESTS,
        room::share::TESTS,
        room::branch::TESTS,
        room::oci::EVERYBODY,
    ];
    let contained = room::oci::contract(&[
        room::run::TESTS,
        room::run::OWN,
        room::confine::TESTS,
        room::landlock::TESTS,
        room::doors::TESTS,
        room::files::TESTS,
        room::disk::TESTS,
        room::lookups::TESTS,
        room::pause::TESTS,
        room::share::TESTS,
    ]);
    room::host::main(&suites.concat(), &[room::run::OWN, room::leave::OWN, room::lookups::OWN].concat(), &contained);
}
