//! Rooms, for real: as root and as an ordinary user.

mod room {
    pub mod confine;
    pub mod death;
    pub mod files;
    pub mod host;
    pub mod run;
}

use room::host::Test;

fn main() {
    let suites: [&[Test]; 4] = [room::run::TESTS, room::confine::TESTS, room::files::TESTS, room::death::TESTS];
    room::host::main(&suites.concat());
}
