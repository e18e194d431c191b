//! Node.js by nvm, fnm and Volta, and the cache of npm.

use super::host::{Host, HostRoot, names, read};
use super::{Ecosystem, Toolchain};
use std::path::{Path, PathBuf};

/// One Node.js that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeVersion {
    numbers: [u32; 3],
    pub bin: PathBuf,
}

/// `versions` receives all that is installed, `aliases` nvm's names for some of them.
pub(super) fn find(host: &Host<'_>, versions: &mut Vec<NodeVersion>, aliases: &mut Vec<(String, String)>) -> Vec<Toolchain> {
    let nvm = nvm(host, versions, aliases);
    let fnm = fnm(host, versions);
    let volta = volta(host, versions);
    [nvm, fnm, volta, npm(host)].into_iter().flatten().collect()
}

/// `v20.11.1`; what is left out is 0.
fn numbers(text: &str) -> Option<[u32; 3]> {
    let mut numbers = [0; 3];
    let mut parts = text.strip_prefix('v').unwrap_or(text).split('.');
    for number in &mut numbers {
        *number = match parts.next() {
            Some(part) => part.parse().ok()?,
            None => 0,
        };
    }
    parts.next().is_none().then_some(numbers)
}

fn installed(folder: &Path, below: &str) -> Vec<NodeVersion> {
    let version = |name: &String| Some(NodeVersion { numbers: numbers(name)?, bin: folder.join(name).join(below) });
    names(folder).iter().filter_map(version).filter(|version| version.bin.join("node").exists()).collect()
}

fn listed(versions: &[NodeVersion]) -> String {
    let text = |version: &NodeVersion| format!("v{}.{}.{}", version.numbers[0], version.numbers[1], version.numbers[2]);
    if versions.is_empty() { "no version installed".to_owned() } else { versions.iter().map(text).collect::<Vec<_>>().join(", ") }
}

/// The version that a file such as `.nvmrc` asks for: `20`, `v20.11`, `lts/iron`, `node`. The newest that fits.
pub(super) fn choose<'a>(wanted: &str, versions: &'a [NodeVersion], aliases: &[(String, String)]) -> Option<&'a NodeVersion> {
    let mut wanted = wanted.trim();
    for _ in 0..5 {
        match aliases.iter().find(|(name, _)| name == wanted) {
            Some((_, meaning)) => wanted = meaning.as_str(),
            None => break,
        }
    }
    let newest =
        |fits: &dyn Fn(&NodeVersion) -> bool| versions.iter().filter(|version| fits(version)).max_by_key(|version| version.numbers);
    if matches!(wanted, "node" | "stable" | "latest") {
        return newest(&|_| true);
    }
    let plain = wanted.strip_prefix('v').unwrap_or(wanted).trim_end_matches(".x");
    let asked: Vec<u32> = plain.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    newest(&|version| asked.len() <= 3 && version.numbers.starts_with(&asked))
}

fn add_versions(found: &mut Toolchain, own: &[NodeVersion], default: Option<PathBuf>, versions: &mut Vec<NodeVersion>) {
    found.detail = listed(own);
    found.programs = default.into_iter().collect();
    found.prefixes = own.iter().filter_map(|version| version.bin.parent().map(Path::to_owned)).collect();
    // Beside it npm keeps settings for all users, which may hold tokens and are masked.
    found.set("npm_config_globalconfig", "/tmp/home/.config/npmrc");
    versions.extend(own.iter().cloned());
}

fn nvm(host: &Host<'_>, versions: &mut Vec<NodeVersion>, aliases: &mut Vec<(String, String)>) -> Option<Toolchain> {
    let places = [host.named("NVM_DIR"), Some(host.home.join(".nvm")), Some(host.place("XDG_CONFIG_HOME", ".config").join("nvm"))];
    let root = places.into_iter().flatten().find_map(|place| host.root(&place).filter(|root| root.has("versions/node")))?;
    let mut nvm = Toolchain::new(Ecosystem::Node, "nvm", &root);
    for name in ["versions", "alias", "nvm.sh", "nvm-exec"] {
        nvm.show(&root, name);
    }
    nvm.set("NVM_DIR", &root.real);
    let alias = root.real.join("alias");
    let lts = names(&alias.join("lts")).into_iter().map(|name| format!("lts/{name}"));
    let known = names(&alias).into_iter().chain(lts).filter_map(|name| Some((name.clone(), read(&alias.join(name))?)));
    aliases.extend(known);
    let own = installed(&root.real.join("versions/node"), "bin");
    let default = choose("default", &own, aliases).or_else(|| choose("node", &own, &[]));
    let default = default.map(|version| version.bin.clone());
    nvm.programs_within = within(&root, &nvm, "versions");
    add_versions(&mut nvm, &own, default, versions);
    Some(nvm)
}

fn fnm(host: &Host<'_>, versions: &mut Vec<NodeVersion>) -> Option<Toolchain> {
    let places = [host.named("FNM_DIR"), Some(host.data("fnm")), Some(host.home.join(".fnm"))];
    let root = places.into_iter().flatten().find_map(|place| host.root(&place).filter(|root| root.has("node-versions")))?;
    let mut fnm = Toolchain::new(Ecosystem::Node, "fnm", &root);
    for name in ["node-versions", "aliases"] {
        fnm.show(&root, name);
    }
    fnm.set("FNM_DIR", &root.real);
    let own = installed(&root.real.join("node-versions"), "installation/bin");
    // A link to the version's `installation`.
    let default = root.real.join("aliases/default").canonicalize().ok().map(|installation| installation.join("bin"));
    let default = default.filter(|bin| own.iter().any(|version| version.bin == *bin));
    let default = default.or_else(|| choose("node", &own, &[]).map(|version| version.bin.clone()));
    fnm.programs_within = within(&root, &fnm, "node-versions");
    add_versions(&mut fnm, &own, default, versions);
    Some(fnm)
}

fn volta(host: &Host<'_>, versions: &mut Vec<NodeVersion>) -> Option<Toolchain> {
    let root = host.root(&host.place("VOLTA_HOME", ".volta")).filter(|root| root.has("tools/image"))?;
    let mut volta = Toolchain::new(Ecosystem::Node, "volta", &root);
    for name in ["bin", "tools/image", "tools/user", "tools/inventory"] {
        volta.show(&root, name);
    }
    for name in names(&root.real).into_iter().filter(|name| name.starts_with("layout.v")) {
        volta.show(&root, &name);
    }
    volta.set("VOLTA_HOME", &root.real);
    let image = root.real.join("tools/image");
    let own = installed(&image.join("node"), "bin");
    let platform: serde_json::Value =
        read(&root.real.join("tools/user/platform.json")).and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    let default = platform["node"]["runtime"].as_str().and_then(|wanted| choose(wanted, &own, &[]));
    let default = default.or_else(|| choose("node", &own, &[])).map(|version| version.bin.clone());
    // Its shims would look for newer ones; the programs themselves come first.
    volta.programs_within = within(&root, &volta, "tools/image");
    add_versions(&mut volta, &own, default, versions);
    let npm = platform["node"]["npm"].as_str().map(|version| image.join("npm").join(version).join("bin")).filter(|bin| bin.is_dir());
    volta.programs.splice(0..0, npm);
    volta.programs.push(root.real.join("bin"));
    Some(volta)
}

/// The folder of a tool under each name that rooms know it by.
fn within(root: &HostRoot, found: &Toolchain, name: &str) -> Vec<PathBuf> {
    let source = root.real.join(name);
    found.shares.iter().filter(|share| share.source.as_ref() == Some(&source)).map(|share| share.target.clone()).collect()
}

fn npm(host: &Host<'_>) -> Option<Toolchain> {
    let place = host.named("npm_config_cache").or_else(|| host.named("NPM_CONFIG_CACHE")).unwrap_or_else(|| host.home.join(".npm"));
    let root = host.root(&place).filter(|root| root.has("_cacache"))?;
    let mut npm = Toolchain::new(Ecosystem::Node, "npm", &root);
    npm.detail = "package cache shared".to_owned();
    // Beside the cache lie logs, which are nobody's business.
    npm.give_folder(root.real.clone(), "npm");
    npm.share_cache(&root, "_cacache", "npm-cacache", Vec::new());
    npm.set("npm_config_cache", &root.real);
    npm.offline = vec![("npm_config_offline", "true")];
    Some(npm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_chosen_as_the_managers_do() {
        let version = |text: &str| NodeVersion { numbers: numbers(text).unwrap(), bin: PathBuf::from(text) };
        let versions = ["v18.19.0", "v20.9.0", "v20.11.1", "v22.1.0"].map(version);
        let alias = |name: &str, meaning: &str| (name.to_owned(), meaning.to_owned());
        let aliases = [alias("default", "lts/*"), alias("lts/*", "lts/iron"), alias("lts/iron", "v20.11.1"), alias("a", "a")];
        for (wanted, expected) in [
            ("20", Some("v20.11.1")),
            ("v20.9", Some("v20.9.0")),
            ("20.x", Some("v20.11.1")),
            ("18.19.0", Some("v18.19.0")),
            ("default", Some("v20.11.1")),
            ("lts/iron\n", Some("v20.11.1")),
            ("node", Some("v22.1.0")),
            ("2", None),
            ("16", None),
            ("a", None),
            ("", None),
            ("../../etc", None),
        ] {
            let chosen = choose(wanted, &versions, &aliases).map(|version| version.bin.to_str().unwrap());
            assert_eq!(chosen, expected, "{wanted}");
        }
    }
}
