//! No file of tests is forgotten: each one beside a manifest is a target, or a module of the crate's one test binary.

use anyhow::{Context, Result};
use serde_json::Value;
use std::path::Path;

/// `metadata` is of `cargo metadata --no-deps`.
pub fn check(metadata: &str) -> Result<Vec<String>> {
    let metadata: Value = serde_json::from_str(metadata).context("`cargo metadata` printed no JSON")?;
    let mut complaints = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let tests = manifest.parent().unwrap_or(Path::new("/")).join("tests");
        if !tests.is_dir() {
            continue;
        }
        let targets: Vec<&str> =
            package["targets"].as_array().into_iter().flatten().filter_map(|target| target["src_path"].as_str()).collect();
        let root = tests.join("it.rs");
        let modules = if root.exists() { std::fs::read_to_string(&root)? } else { String::new() };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(&tests)? {
            files.push(entry?.path());
        }
        files.sort();
        let is_forgotten = |file: &&std::path::PathBuf| {
            file.extension().is_some_and(|extension| extension == "rs")
                && !targets.iter().any(|target| Path::new(target) == file.as_path())
                && !names(&modules, &file.file_stem().unwrap_or_default().to_string_lossy())
        };
        complaints.extend(files.iter().filter(is_forgotten).map(|file| format!("{} is in no test binary", file.display())));
    }
    Ok(complaints)
}

fn names(modules: &str, name: &str) -> bool {
    modules.lines().any(|line| line == format!("mod {name};"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_nobody_names_is_found() {
        let folder = std::env::temp_dir().join(format!("xtask-targets-{}", std::process::id()));
        let tests = folder.join("tests");
        std::fs::create_dir_all(&tests).unwrap();
        for (file, text) in [("it.rs", "mod named;\n"), ("named.rs", ""), ("forgotten.rs", ""), ("own.rs", ""), ("data.txt", "")] {
            std::fs::write(tests.join(file), text).unwrap();
        }
        let target = |name: &str| serde_json::json!({ "src_path": tests.join(name) });
        let package = serde_json::json!({ "manifest_path": folder.join("Cargo.toml"), "targets": [target("it.rs"), target("own.rs")] });
        let found = check(&serde_json::json!({ "packages": [package] }).to_string());
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.unwrap(), [format!("{} is in no test binary", tests.join("forgotten.rs").display())]);
    }
}
