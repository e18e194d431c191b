//! Go, and its cache of modules.

use super::host::{Host, HostRoot, names, read};
use super::{Ecosystem, Toolchain};
use std::path::PathBuf;

pub(super) fn find(host: &Host<'_>) -> Vec<Toolchain> {
    [sdk(host), modules(host)].into_iter().flatten().collect()
}

/// A setting of Go's: of the environment, or of what `go env -w` wrote.
fn setting(host: &Host<'_>, name: &str) -> Option<PathBuf> {
    let written = || {
        let file = host.named("GOENV").unwrap_or_else(|| host.place("XDG_CONFIG_HOME", ".config").join("go/env"));
        let value = read(&file)?.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix('=')?.to_owned()))?;
        Some(PathBuf::from(value))
    };
    host.named(name).or_else(written).filter(|path| path.is_absolute())
}

fn is_sdk(root: &HostRoot) -> bool {
    root.has("bin/go") && root.has("VERSION") && root.has("src/runtime")
}

fn sdk(host: &Host<'_>) -> Option<Toolchain> {
    let on_path = host.path().into_iter().find_map(|folder| Some(folder.join("go").canonicalize().ok()?.parent()?.parent()?.to_owned()));
    // `go install golang.org/dl/go1.22@latest` puts them there; the newest is the last by name.
    let downloaded = names(&host.home.join("sdk")).into_iter().rev().map(|name| host.home.join("sdk").join(name));
    let usual = [host.home.join(".local/go"), host.home.join(".go"), host.opt.join("go")];
    let places = setting(host, "GOROOT").into_iter().chain(on_path).chain(usual).chain(downloaded);
    let root = places.filter_map(|place| host.root(&place)).find(is_sdk)?;
    let mut go = Toolchain::new(Ecosystem::Go, "go", &root);
    go.detail = read(&root.real.join("VERSION")).and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_default();
    go.show(&root, "");
    go.set("GOROOT", &root.real);
    go.programs = vec![root.real.join("bin")];
    go.programs_within = go.shares.iter().map(|share| share.target.join("bin")).collect();
    go.prefixes = vec![root.real];
    Some(go)
}

fn modules(host: &Host<'_>) -> Option<Toolchain> {
    let gopath = setting(host, "GOPATH").unwrap_or_else(|| host.home.join("go"));
    let cache = setting(host, "GOMODCACHE").unwrap_or_else(|| gopath.join("pkg/mod"));
    let root = host.root(&cache).filter(|root| root.has("cache/download"))?;
    let mut modules = Toolchain::new(Ecosystem::Go, "go modules", &root);
    modules.detail = "module cache shared".to_owned();
    // Clones of repositories, with the addresses they came from.
    let vcs: Vec<PathBuf> = if root.has("cache/vcs") { vec!["cache/vcs".into()] } else { Vec::new() };
    modules.share_cache(&root, "", "go-modules", vcs);
    modules.set("GOMODCACHE", &root.real);
    modules.offline = vec![("GOPROXY", "off")];
    if let Some(gopath) = host.root(&gopath) {
        modules.show(&gopath, "bin");
        modules.programs.extend(gopath.has("bin").then(|| gopath.real.join("bin")));
        modules.set("GOPATH", &gopath.real);
    }
    // Go notes there what it used, so that a shared one would be copied file by file.
    let build = setting(host, "GOCACHE").unwrap_or_else(|| host.cache("go-build"));
    modules.give_folder(build.clone(), "go-build");
    modules.set("GOCACHE", &build);
    Some(modules)
}
