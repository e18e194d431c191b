//! The behaviour of the whole kernel, told in text files.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    testkit::scenario::main(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios"))
}
