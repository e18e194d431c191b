//! Has the linker fold functions that are the same: generic code is compiled once for each crate that uses it, and most of the copies
//! are equal byte for byte.
//!
//! Only where rustc brings the linker that can: with another one, or on another target, the binary is larger and otherwise the same.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let is_own_linker = std::env::var_os("RUSTC_LINKER").is_none() && !variable("CARGO_ENCODED_RUSTFLAGS").contains("link");
    if variable("TARGET") == "x86_64-unknown-linux-gnu" && variable("PROFILE") == "release" && is_own_linker {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    }
}
