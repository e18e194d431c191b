//! rustup and cargo.

use super::host::{Host, names};
use super::{Ecosystem, Toolchain, credential};

/// `installed` receives the names of rustup's toolchains.
pub(super) fn find(host: &Host<'_>, installed: &mut Vec<String>) -> Vec<Toolchain> {
    rustup(host, installed).into_iter().chain(cargo(host)).collect()
}

fn rustup(host: &Host<'_>, installed: &mut Vec<String>) -> Option<Toolchain> {
    let root = host.root(&host.place("RUSTUP_HOME", ".rustup")).filter(|root| root.has("toolchains"))?;
    let mut rustup = Toolchain::new(Ecosystem::Rust, "rustup", &root);
    *installed = names(&root.real.join("toolchains"));
    rustup.detail = if installed.is_empty() { "no toolchain installed".to_owned() } else { installed.join(", ") };
    rustup.show(&root, "toolchains");
    rustup.show(&root, "settings.toml");
    rustup.set("RUSTUP_HOME", &root.real);
    // It could not write there, and would try the network first.
    rustup.set("RUSTUP_AUTO_INSTALL", "0");
    Some(rustup)
}

fn cargo(host: &Host<'_>) -> Option<Toolchain> {
    let root = host.root(&host.place("CARGO_HOME", ".cargo")).filter(|root| root.has("bin/cargo") || root.has("registry"))?;
    let mut cargo = Toolchain::new(Ecosystem::Rust, "cargo", &root);
    // Its home holds credentials, so a room has one of its own, with what else is in there.
    cargo.give_folder(root.real.clone(), "cargo");
    cargo.show(&root, "bin");
    for settings in ["config.toml", "config"] {
        cargo.show_clean(&root, settings);
    }
    let registries = root.real.join("registry");
    let masked = credential::with_passwords(&registries, &["index/*/.git/config", "index/*/.git/FETCH_HEAD"]);
    cargo.share_cache(&root, "registry", "cargo-registry", masked);
    let of_git = ["db/*/config", "db/*/FETCH_HEAD", "checkouts/*/*/.git/config", "checkouts/*/*/.git/FETCH_HEAD"];
    cargo.share_cache(&root, "git", "cargo-git", credential::with_passwords(&root.real.join("git"), &of_git));
    let caches: Vec<&str> = ["registry", "git"].into_iter().filter(|name| root.has(name)).collect();
    cargo.detail = if caches.is_empty() { "programs".to_owned() } else { format!("programs; cache of {} shared", caches.join(" and ")) };
    cargo.set("CARGO_HOME", &root.real);
    cargo.offline = vec![("CARGO_NET_OFFLINE", "true")];
    cargo.programs = vec![root.real.join("bin")];
    // Under both names: the person's PATH may have either.
    cargo.programs_within = cargo.shares.iter().map(|share| share.target.clone()).filter(|target| target.ends_with("bin")).collect();
    Some(cargo)
}
