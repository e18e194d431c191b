//! Python by pyenv and uv, packages of the user, and the caches of pip and uv.

use super::host::{Host, is_program, names};
use super::{Ecosystem, Toolchain, credential};
use std::path::PathBuf;

pub(super) fn find(host: &Host<'_>) -> Vec<Toolchain> {
    [pyenv(host), uv(host), packages(host), pip(host)].into_iter().flatten().collect()
}

fn pyenv(host: &Host<'_>) -> Option<Toolchain> {
    let root = host.root(&host.place("PYENV_ROOT", ".pyenv")).filter(|root| root.has("versions"))?;
    let mut pyenv = Toolchain::new(Ecosystem::Python, "pyenv", &root);
    for name in ["bin", "libexec", "plugins", "pyenv.d", "shims", "completions", "versions", "version"] {
        pyenv.show(&root, name);
    }
    pyenv.set("PYENV_ROOT", &root.real);
    let versions = names(&root.real.join("versions"));
    pyenv.detail = if versions.is_empty() { "no version installed".to_owned() } else { versions.join(", ") };
    pyenv.programs = vec![root.real.join("shims"), root.real.join("bin")];
    pyenv.programs_within = pyenv.shares.iter().map(|share| share.target.clone()).filter(|target| target.ends_with("shims")).collect();
    pyenv.prefixes = versions.iter().map(|version| root.real.join("versions").join(version)).collect();
    // A pip that may not open its settings fails; this one reads none.
    if pyenv.left_out.iter().any(|(path, _)| path.ends_with("pip.conf")) {
        pyenv.set("PIP_CONFIG_FILE", "/dev/null");
    }
    Some(pyenv)
}

fn uv(host: &Host<'_>) -> Option<Toolchain> {
    let bins = [host.named("UV_INSTALL_DIR"), host.named("XDG_BIN_HOME"), Some(host.home.join(".local/bin"))];
    let bin = bins.into_iter().flatten().filter(|bin| is_program(&bin.join("uv"))).find_map(|bin| host.root(&bin));
    let pythons = host.root(&host.named("UV_PYTHON_INSTALL_DIR").unwrap_or_else(|| host.data("uv/python")));
    let cache = host.root(&host.named("UV_CACHE_DIR").unwrap_or_else(|| host.cache("uv")));
    let tools = host.root(&host.named("UV_TOOL_DIR").unwrap_or_else(|| host.data("uv/tools")));
    let first = [&bin, &pythons, &cache, &tools].into_iter().flatten().next()?;
    let mut uv = Toolchain::new(Ecosystem::Python, "uv", first);
    let mut parts = Vec::new();
    if let Some(bin) = &bin {
        // Not the whole folder: it is for programs of all kinds.
        for name in ["uv", "uvx"] {
            uv.show(bin, name);
        }
        uv.programs = vec![bin.real.clone()];
        parts.push("programs".to_owned());
    }
    if let Some(pythons) = &pythons {
        uv.show(pythons, "");
        uv.set("UV_PYTHON_INSTALL_DIR", &pythons.real);
        uv.prefixes.extend(names(&pythons.real).iter().filter(|name| !name.starts_with('.')).map(|name| pythons.real.join(name)));
        let installed: Vec<String> = names(&pythons.real).into_iter().filter(|name| name.contains("python-")).collect();
        parts.extend((!installed.is_empty()).then(|| installed.join(", ")));
    }
    if let Some(tools) = &tools {
        uv.show(tools, "");
        uv.set("UV_TOOL_DIR", &tools.real);
    }
    if let Some(cache) = &cache {
        let of_git = ["git-v0/db/*/config", "git-v0/db/*/FETCH_HEAD", "git-v0/checkouts/*/*/.git/config"];
        uv.share_cache(cache, "", "uv", credential::with_passwords(&cache.real, &of_git));
        uv.set("UV_CACHE_DIR", &cache.real);
        // The cache is another file system than the project, where nothing can be linked to it.
        uv.set("UV_LINK_MODE", "copy");
        uv.offline = vec![("UV_OFFLINE", "1")];
        parts.push("package cache shared".to_owned());
    }
    uv.detail = parts.join("; ");
    Some(uv)
}

/// What `pip install --user` put beside the system's Python.
fn packages(host: &Host<'_>) -> Option<Toolchain> {
    let root = host.root(&host.place("PYTHONUSERBASE", ".local"))?;
    let versions: Vec<String> = names(&root.real.join("lib"))
        .into_iter()
        .filter(|name| name.starts_with("python3") && root.has(&format!("lib/{name}/site-packages")))
        .collect();
    if versions.is_empty() {
        return None;
    }
    let mut packages = Toolchain::new(Ecosystem::Python, "pip --user", &root);
    for version in &versions {
        packages.show(&root, &format!("lib/{version}/site-packages"));
    }
    packages.set("PYTHONUSERBASE", &root.real);
    packages.detail = format!("packages of {}", versions.join(", "));
    packages.prefixes = vec![root.real.clone()];
    Some(packages)
}

fn pip(host: &Host<'_>) -> Option<Toolchain> {
    let place: PathBuf = host.named("PIP_CACHE_DIR").unwrap_or_else(|| host.cache("pip"));
    let root = host.root(&place)?;
    let mut pip = Toolchain::new(Ecosystem::Python, "pip", &root);
    pip.detail = "package cache shared".to_owned();
    pip.share_cache(&root, "", "pip", Vec::new());
    pip.set("PIP_CACHE_DIR", &root.real);
    Some(pip)
}
