//! JDKs in the home and in `/opt`; those of the system are in every room.

use super::host::{Host, HostRoot, is_program, names};
use super::{Ecosystem, Toolchain};
use std::path::{Path, PathBuf};

/// A JDK says in `release` what it is.
fn is_jdk(root: &HostRoot) -> bool {
    is_program(&root.real.join("bin/java")) && root.has("release") && root.has("lib")
}

fn version(root: &HostRoot) -> String {
    let release = super::host::read(&root.real.join("release")).unwrap_or_default();
    let value = release.lines().find_map(|line| line.strip_prefix("JAVA_VERSION=")).unwrap_or("version unknown");
    value.trim_matches('"').to_owned()
}

pub(super) fn find(host: &Host<'_>) -> Vec<Toolchain> {
    let below = |folder: PathBuf| names(&folder).into_iter().map(move |name| folder.join(name)).collect::<Vec<_>>();
    let sdkman = host.place("SDKMAN_DIR", ".sdkman").join("candidates/java");
    let current = sdkman.join("current").canonicalize().ok();
    let usual = [sdkman, host.home.join(".jdks"), host.home.join(".local/share/jdks"), host.opt.to_owned(), host.opt.join("java")];
    let named = host.named("JAVA_HOME").and_then(|place| host.root(&place)).filter(is_jdk);
    let places = usual.into_iter().flat_map(below);
    let mut roots: Vec<HostRoot> = named.iter().cloned().chain(places.filter_map(|place| host.root(&place)).filter(is_jdk)).collect();
    let mut seen = std::collections::BTreeSet::new();
    roots.retain(|root| seen.insert(root.real.clone()));
    let system = ["/usr/bin/java", "/usr/local/bin/java"].iter().any(|path| is_program(Path::new(path)));
    // The person's own word, then SDKMAN's; else whatever there is, where the system has none.
    let default = named.map(|root| root.real).or(current).or_else(|| roots.last().map(|root| root.real.clone()).filter(|_| !system));
    roots.iter().map(|root| jdk(root, default.as_deref() == Some(root.real.as_path()))).collect()
}

fn jdk(root: &HostRoot, is_default: bool) -> Toolchain {
    let mut jdk = Toolchain::new(Ecosystem::Java, "jdk", root);
    jdk.detail = version(root);
    jdk.show(root, "");
    jdk.prefixes = vec![root.real.clone()];
    if is_default {
        jdk.set("JAVA_HOME", &root.real);
        jdk.programs = vec![root.real.join("bin")];
        jdk.programs_within = jdk.shares.iter().map(|share| share.target.join("bin")).collect();
    }
    jdk
}
