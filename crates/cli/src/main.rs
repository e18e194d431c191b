//! The program `skep`; see `lib.rs`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    cli::run()
}
