//! Tells the linker to make the program small, where rustc brings the linker that can.
//!
//! - Equal functions are folded: generic code is compiled once for each crate that uses it, and most of the copies are equal byte for
//!   byte.
//! - Addresses that the loader has to adjust are listed as a bitmap, which takes a twentieth of the space. glibc reads it since 2.36.
//!
//! With another linker, or on another target, the binary is larger and otherwise the same.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    // `.cargo/config.toml` asks for calls without a detour over the table of addresses, and rustc then leaves it writable.
    if variable("CARGO_CFG_TARGET_OS") == "linux" {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,relro,-z,now");
    }
    let is_own_linker = std::env::var_os("RUSTC_LINKER").is_none() && !variable("CARGO_ENCODED_RUSTFLAGS").contains("link");
    if variable("TARGET") == "x86_64-unknown-linux-gnu" && variable("PROFILE") == "release" && is_own_linker {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
        if loader_reads_bitmaps() {
            println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        }
    }
}

/// Whether the glibc of this host names the version that a program with such a list asks for. It is the one that the program is linked with.
fn loader_reads_bitmaps() -> bool {
    const VERSION: &[u8] = b"GLIBC_ABI_DT_RELR";
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let libc = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..])).find(|path| path.ends_with("/libc.so.6"));
    let bytes = libc.and_then(|path| std::fs::read(path).ok()).unwrap_or_default();
    bytes.windows(VERSION.len()).any(|window| window == VERSION)
}
