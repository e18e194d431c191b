//! Dependencies: their licences, where they come from, and no crate in two versions, as `deny.toml` says.
//!
//! `deny.toml` is what cargo-deny reads. To build that takes minutes on every new machine, so licences, sources and
//! versions are judged here, from `cargo metadata`; advisories are cargo-deny's, where it is installed (docs/decisions/0048).

mod licence;

use crate::run::{cargo, output, root};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

const CONFIG: &str = "deny.toml";

/// One crate of the graph.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    licence: Option<String>,
    /// `None` for what stands in this tree.
    source: Option<String>,
}

/// What `deny.toml` allows.
#[derive(Debug)]
struct Rules {
    targets: Vec<String>,
    licences: Vec<String>,
    registries: Vec<String>,
    /// Name and version of what may stand beside another version of itself.
    skipped: Vec<(String, String)>,
}

pub fn deny() -> Result<()> {
    let rules = Rules::read(&std::fs::read_to_string(root().join(CONFIG))?).context(CONFIG)?;
    let mut packages = BTreeSet::new();
    for target in &rules.targets {
        let metadata = output(cargo().args(["metadata", "--format-version", "1", "--locked", "--filter-platform", target]))?;
        packages.extend(graph(&metadata)?);
    }
    let complaints = rules.complaints(&packages.into_iter().collect::<Vec<_>>());
    for complaint in &complaints {
        eprintln!("✗ {complaint}");
    }
    ensure!(complaints.is_empty(), "{} findings in the dependencies", complaints.len());
    advisories()
}

/// The database of advisories is a repository that has to be fetched. Without it nothing is known, and nothing held up.
fn advisories() -> Result<()> {
    if !cargo().args(["deny", "--version"]).output().is_ok_and(|output| output.status.success()) {
        eprintln!("advisories are not checked: cargo-deny is not installed");
        return Ok(());
    }
    if let Err(error) = output(cargo().args(["deny", "fetch", "db"])) {
        let why = error.to_string();
        eprintln!("advisories are not checked: {}", why.lines().last().unwrap_or_default());
        return Ok(());
    }
    let mut command: Command = cargo();
    crate::run::run(command.args(["deny", "check", "--disable-fetch", "advisories"]))
}

/// The crates that are built, of what `cargo metadata` tells.
fn graph(metadata: &str) -> Result<Vec<Package>> {
    let metadata: Value = serde_json::from_str(metadata).context("`cargo metadata` printed no JSON")?;
    let nodes = metadata["resolve"]["nodes"].as_array().context("`cargo metadata` resolved nothing")?;
    let built: BTreeSet<&str> = nodes.iter().filter_map(|node| node["id"].as_str()).collect();
    let all = metadata["packages"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    Ok(all
        .filter(|package| package["id"].as_str().is_some_and(|id| built.contains(id)))
        .map(|package| Package {
            name: text(&package["name"]).unwrap_or_default(),
            version: text(&package["version"]).unwrap_or_default(),
            licence: text(&package["license"]),
            source: text(&package["source"]),
        })
        .collect())
}

impl Rules {
    fn read(config: &str) -> Result<Rules> {
        let config: Value = toml::from_str(config)?;
        let texts = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(ToOwned::to_owned)).collect()
        };
        let mut skipped = Vec::new();
        for entry in config["bans"]["skip"].as_array().into_iter().flatten() {
            let spec = entry["crate"].as_str().context("an entry of `skip` names no crate")?;
            let (name, version) = spec.split_once('@').with_context(|| format!("`{spec}` names no version"))?;
            ensure!(entry["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "`{spec}` is skipped without a reason");
            skipped.push((name.to_owned(), version.to_owned()));
        }
        ensure!(config["bans"]["multiple-versions"] == "deny", "`bans.multiple-versions` is not `deny`");
        for unknown in ["unknown-registry", "unknown-git"] {
            ensure!(config["sources"][unknown] == "deny", "`sources.{unknown}` is not `deny`");
        }
        let rules = Rules {
            targets: texts(&config["graph"]["targets"]),
            licences: texts(&config["licenses"]["allow"]),
            registries: texts(&config["sources"]["allow-registry"]),
            skipped,
        };
        ensure!(!rules.targets.is_empty() && !rules.licences.is_empty() && !rules.registries.is_empty(), "a list is empty");
        Ok(rules)
    }

    fn complaints(&self, packages: &[Package]) -> Vec<String> {
        let mut complaints = Vec::new();
        for package in packages {
            let shown = format!("{} {}", package.name, package.version);
            match package.licence.as_deref().map(|expression| licence::satisfied(expression, &self.licences)) {
                Some(Ok(true)) => {}
                Some(Ok(false)) => {
                    complaints
                        .push(format!("{shown} is licensed `{}`, which {CONFIG} does not allow", package.licence.as_deref().unwrap_or("")));
                }
                Some(Err(why)) => complaints.push(format!("{shown} has a licence that cannot be read: {why}")),
                None => complaints.push(format!("{shown} names no licence")),
            }
            if let Some(source) = &package.source
                && !self.registries.iter().any(|registry| *source == format!("registry+{registry}"))
            {
                complaints.push(format!("{shown} comes from `{source}`, which {CONFIG} does not allow"));
            }
        }
        complaints.extend(self.doubled(packages));
        complaints
    }

    fn doubled(&self, packages: &[Package]) -> Vec<String> {
        let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for package in packages {
            versions.entry(&package.name).or_default().insert(&package.version);
        }
        let mut complaints = Vec::new();
        for (name, versions) in &versions {
            let counted: Vec<&str> = versions.iter().copied().filter(|version| !self.skips(name, version)).collect();
            if counted.len() > 1 {
                complaints.push(format!("{name} is built in versions {}", counted.join(" and ")));
            }
        }
        for (name, version) in &self.skipped {
            let doubled =
                versions.get(name.as_str()).is_some_and(|known| known.len() > 1 && known.iter().any(|other| is_version(version, other)));
            if !doubled {
                complaints.push(format!("{CONFIG} skips {name}@{version}, which is not doubled: take it out"));
            }
        }
        complaints
    }

    fn skips(&self, name: &str, version: &str) -> bool {
        self.skipped.iter().any(|(other, skipped)| other == name && is_version(skipped, version))
    }
}

/// `0.22` stands for 0.22.1, not for 0.220.
fn is_version(skipped: &str, version: &str) -> bool {
    version == skipped || version.strip_prefix(skipped).is_some_and(|rest| rest.starts_with(['.', '+']))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = r#"
        [graph]
        targets = ["x86_64-unknown-linux-gnu"]
        [licenses]
        allow = ["MIT", "Apache-2.0"]
        [bans]
        multiple-versions = "deny"
        skip = [{ crate = "rand@0.8", reason = "of a test" }]
        [sources]
        unknown-registry = "deny"
        unknown-git = "deny"
        allow-registry = ["https://index"]
    "#;

    fn package(name: &str, version: &str, licence: &str, source: &str) -> Package {
        Package { name: name.into(), version: version.into(), licence: Some(licence.into()), source: Some(source.into()) }
    }

    fn check(packages: &[Package]) -> Vec<String> {
        let mut all =
            vec![package("rand", "0.8.5", "MIT", "registry+https://index"), package("rand", "0.9.1", "MIT", "registry+https://index")];
        all.extend_from_slice(packages);
        Rules::read(RULES).unwrap().complaints(&all)
    }

    #[test]
    fn what_is_allowed_passes_and_the_rest_is_told() {
        let index = "registry+https://index";
        assert_eq!(check(&[package("a", "1.0.0", "MIT OR GPL-3.0", index)]), Vec::<String>::new());
        assert_eq!(check(&[package("a", "1.0.0", "GPL-3.0", index)]), ["a 1.0.0 is licensed `GPL-3.0`, which deny.toml does not allow"]);
        assert_eq!(
            check(&[package("a", "1.0.0", "MIT", "git+https://x")]),
            ["a 1.0.0 comes from `git+https://x`, which deny.toml does not allow"]
        );
        let two = [package("a", "1.0.0", "MIT", index), package("a", "2.0.0", "MIT", index)];
        assert_eq!(check(&two), ["a is built in versions 1.0.0 and 2.0.0"]);
        assert_eq!(check(&[package("rand", "0.10.0", "MIT", index)]), ["rand is built in versions 0.10.0 and 0.9.1"]);
        let none = Package { licence: None, ..package("a", "1.0.0", "", index) };
        assert_eq!(check(&[none]), ["a 1.0.0 names no licence"]);
    }

    #[test]
    fn an_entry_that_skips_nothing_is_told() {
        let rules = Rules::read(RULES).unwrap();
        assert_eq!(
            rules.complaints(&[package("rand", "0.8.5", "MIT", "registry+https://index")]),
            ["deny.toml skips rand@0.8, which is not doubled: take it out"]
        );
    }

    #[test]
    fn the_real_file_is_read() {
        let rules = Rules::read(&std::fs::read_to_string(root().join(CONFIG)).unwrap()).unwrap();
        assert!(rules.licences.contains(&"MIT".to_owned()));
        assert!(Rules::read(&RULES.replace("reason", "why")).is_err());
        assert!(Rules::read(&RULES.replace("multiple-versions = \"deny\"", "multiple-versions = \"warn\"")).is_err());
    }
}
