//! Homes as the tools' own installers lay them out, and what rooms would see of them.

use super::host::Host;
use super::*;
use crate::reader::Folder;
use std::os::unix::fs::{PermissionsExt, symlink};

/// A home, an `/opt` and a home of the kernel's, with variables of the person's own.
struct FakeHost {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl FakeHost {
    fn new() -> FakeHost {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home/.skep/keys", "opt", "project"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let mut host = FakeHost { folder, variables: Vec::new() };
        host.set("HOME", &host.at("home").display().to_string());
        host.set("PATH", "/usr/bin:/bin");
        host
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn set(&mut self, name: &str, value: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn program(&self, name: &str) {
        self.file(name, "#!/bin/sh\n");
        std::fs::set_permissions(self.at(name), PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn find(&self) -> Toolchains {
        self.find_with(ToolchainChoice::default(), &[])
    }

    fn find_with(&self, choice: ToolchainChoice, shown: &[PathBuf]) -> Toolchains {
        let opt = self.at("opt");
        Toolchains::find_in(Host::new(&self.variables, &self.at("home/.skep"), &opt), choice, shown)
    }

    /// Names of what was found.
    fn names(&self) -> Vec<&'static str> {
        self.find().list().map(|(found, _)| found.name).collect()
    }

    /// What rooms see, relative to the home: `name` where it is read-only, `name*` where jobs have a layer.
    fn seen(&self) -> Vec<String> {
        let home = self.at("home");
        let shares = self.find().shares(&self.at("project"));
        let name = |share: &HostShare| {
            let path = share.target.strip_prefix(&home).map_or_else(|_| share.target.clone(), Path::to_owned);
            format!("{}{}", path.display(), if share.layer.is_some() { "*" } else { "" })
        };
        let mut seen: Vec<String> = shares.iter().map(name).collect();
        seen.sort();
        seen
    }

    /// A variable of a job in the project, with the host's folder as `~`.
    fn variable(&self, name: &str) -> Option<String> {
        let project = self.at("project");
        let files = Folder::open(&project).unwrap();
        let variables = self.find().environment(&project, Some(&files), Path::new(""), true);
        let value = variables.into_iter().find(|(known, _)| known == name)?.1;
        Some(value.replace(&self.at("").display().to_string(), "~/"))
    }

    /// Whether a file of the host's can be read in a room.
    fn is_readable(&self, name: &str) -> bool {
        let path = self.at(name);
        let shares = self.find().shares(&self.at("project"));
        shares.iter().any(|share| {
            let inner = share.source.as_ref().and_then(|source| path.strip_prefix(source).ok());
            inner.is_some_and(|inner| !share.masked.iter().any(|mask| inner.starts_with(mask)))
        })
    }
}

fn rust(host: &FakeHost) {
    host.program("home/.cargo/bin/cargo");
    host.file("home/.rustup/settings.toml", "version = \"12\"\n");
    for name in ["stable-x86_64-unknown-linux-gnu", "1.80.1-x86_64-unknown-linux-gnu", "nightly-2024-05-02-x86_64-unknown-linux-gnu"] {
        host.program(&format!("home/.rustup/toolchains/{name}/bin/rustc"));
    }
    host.file("home/.cargo/registry/cache/a.crate", "");
    host.file("home/.cargo/git/db/a/config", "[core]\n");
}

#[test]
fn cargo_is_seen_without_its_credentials() {
    let host = FakeHost::new();
    rust(&host);
    host.file("home/.cargo/credentials.toml", "[registry]\ntoken = \"x\"\n");
    host.file("home/.cargo/config.toml", "[build]\njobs = 2\n");
    host.file("home/.cargo/git/db/b/FETCH_HEAD", "abc\t\thttps://me:pw@host/b\n");
    assert_eq!(host.names(), ["rustup", "cargo"]);
    let seen =
        [".cargo*", ".cargo/bin", ".cargo/config.toml", ".cargo/git*", ".cargo/registry*", ".rustup/settings.toml", ".rustup/toolchains"];
    assert_eq!(host.seen(), seen);
    assert!(host.is_readable("home/.cargo/bin/cargo") && host.is_readable("home/.cargo/git/db/a/config"));
    assert!(!host.is_readable("home/.cargo/credentials.toml") && !host.is_readable("home/.cargo/git/db/b/FETCH_HEAD"));
    assert_eq!(host.variable("CARGO_HOME").as_deref(), Some("~/home/.cargo"));
    assert_eq!(host.variable("RUSTUP_HOME").as_deref(), Some("~/home/.rustup"));
    assert_eq!(host.variable("CARGO_NET_OFFLINE").as_deref(), Some("true"));
    let with_network = host.find().environment(&host.at("project"), None, Path::new(""), false);
    assert!(with_network.iter().any(|(name, _)| name == "CARGO_HOME") && !with_network.iter().any(|(name, _)| name == "CARGO_NET_OFFLINE"));
    assert!(host.variable("PATH").unwrap().starts_with("~/home/.cargo/bin:/usr/bin:/bin:"), "{:?}", host.variable("PATH"));
    // Settings with a token are settings no more.
    host.file("home/.cargo/config.toml", "[registries.mine]\ntoken = \"x\"\n");
    assert!(!host.seen().contains(&".cargo/config.toml".to_owned()) && host.seen().contains(&".cargo/bin".to_owned()));
}

#[test]
fn the_nearest_rust_toolchain_file_chooses_among_what_is_installed() {
    let host = FakeHost::new();
    rust(&host);
    assert_eq!(host.variable("RUSTUP_TOOLCHAIN"), None);
    for (text, expected) in [
        ("[toolchain]\nchannel = \"1.80.1\"\n", Some("1.80.1-x86_64-unknown-linux-gnu")),
        ("stable\n", Some("stable-x86_64-unknown-linux-gnu")),
        ("nightly\n", None),
        ("[toolchain]\npath = \"/\"\n", None),
    ] {
        host.file("project/rust-toolchain.toml", text);
        assert_eq!(host.variable("RUSTUP_TOOLCHAIN").as_deref(), expected, "{text}");
    }
    host.file("project/a/b/x", "");
    host.file("project/a/rust-toolchain", "1.80.1");
    let (project, found) = (host.at("project"), host.find());
    let files = Folder::open(&project).unwrap();
    let chosen = |cwd: &str| {
        found.environment(&project, Some(&files), Path::new(cwd), true).into_iter().find(|(name, _)| name == "RUSTUP_TOOLCHAIN")
    };
    assert_eq!(chosen("a/b").unwrap().1, "1.80.1-x86_64-unknown-linux-gnu");
    assert_eq!(chosen("../project/a"), None);
}

fn nvm(host: &FakeHost) {
    for version in ["v18.19.0", "v20.11.1"] {
        host.program(&format!("home/.nvm/versions/node/{version}/bin/node"));
    }
    host.file("home/.nvm/nvm.sh", "");
    host.file("home/.nvm/alias/default", "18\n");
}

#[test]
fn nvm_is_seen_without_its_npmrc_and_the_project_chooses_its_version() {
    let mut host = FakeHost::new();
    nvm(&host);
    host.file("home/.nvm/versions/node/v20.11.1/etc/npmrc", "//registry/:_authToken=x\n");
    host.file("home/.npmrc", "//registry/:_authToken=x\n");
    assert_eq!(host.names(), ["nvm"]);
    assert_eq!(host.seen(), [".nvm/alias", ".nvm/nvm.sh", ".nvm/versions"]);
    assert!(host.is_readable("home/.nvm/versions/node/v20.11.1/bin/node"));
    assert!(!host.is_readable("home/.nvm/versions/node/v20.11.1/etc/npmrc") && !host.is_readable("home/.npmrc"));
    assert!(host.variable("PATH").unwrap().starts_with("~/home/.nvm/versions/node/v18.19.0/bin:/usr/bin"));
    assert_eq!(host.variable("NVM_DIR").as_deref(), Some("~/home/.nvm"));
    host.file("project/.nvmrc", "20\n");
    assert!(host.variable("PATH").unwrap().starts_with("~/home/.nvm/versions/node/v20.11.1/bin:~/home/.nvm/versions/node/v18.19.0/bin:"));
    std::fs::remove_file(host.at("project/.nvmrc")).unwrap();
    // What the person's own shell has chosen counts more than the default.
    let own = host.at("home/.nvm/versions/node/v20.11.1/bin").display().to_string();
    host.set("PATH", &format!("{own}:/usr/bin:/home/else/bin"));
    assert_eq!(
        host.variable("PATH").unwrap(),
        "~/home/.nvm/versions/node/v20.11.1/bin:/usr/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin:/bin"
    );
}

#[test]
fn fnm_and_volta_put_their_default_on_the_path() {
    let host = FakeHost::new();
    host.program("home/.local/share/fnm/node-versions/v22.1.0/installation/bin/node");
    host.program("home/.local/share/fnm/node-versions/v20.0.0/installation/bin/node");
    std::fs::create_dir_all(host.at("home/.local/share/fnm/aliases")).unwrap();
    symlink(host.at("home/.local/share/fnm/node-versions/v20.0.0/installation"), host.at("home/.local/share/fnm/aliases/default")).unwrap();
    assert_eq!(
        (host.names(), host.seen()),
        (vec!["fnm"], vec![".local/share/fnm/aliases".into(), ".local/share/fnm/node-versions".into()])
    );
    assert!(host.variable("PATH").unwrap().starts_with("~/home/.local/share/fnm/node-versions/v20.0.0/installation/bin:"));

    let host = FakeHost::new();
    host.program("home/.volta/tools/image/node/20.9.0/bin/node");
    host.program("home/.volta/tools/image/npm/10.1.0/bin/npm");
    host.program("home/.volta/bin/node");
    host.file("home/.volta/tools/user/platform.json", r#"{"node": {"runtime": "20.9.0", "npm": "10.1.0"}}"#);
    assert_eq!(host.seen(), [".volta/bin", ".volta/tools/image", ".volta/tools/user"]);
    let image = "~/home/.volta/tools/image";
    assert!(host.variable("PATH").unwrap().starts_with(&format!("{image}/npm/10.1.0/bin:{image}/node/20.9.0/bin:~/home/.volta/bin:")));
    assert_eq!(host.variable("VOLTA_HOME").as_deref(), Some("~/home/.volta"));
    host.file("project/package.json", r#"{"volta": {"node": "20.9.0"}}"#);
    assert!(host.variable("PATH").unwrap().starts_with(&format!("{image}/node/20.9.0/bin:")));
}

#[test]
fn the_cache_of_npm_is_shared_without_what_lies_beside_it() {
    let host = FakeHost::new();
    host.file("home/.npm/_cacache/index-v5/a", "");
    host.file("home/.npm/_logs/today.log", "a token");
    assert_eq!((host.names(), host.seen()), (vec!["npm"], vec![".npm*".into(), ".npm/_cacache*".into()]));
    assert!(host.is_readable("home/.npm/_cacache/index-v5/a") && !host.is_readable("home/.npm/_logs/today.log"));
    assert_eq!(host.variable("npm_config_cache").as_deref(), Some("~/home/.npm"));
}

#[test]
fn pyenv_uv_and_the_packages_of_the_user_are_seen() {
    let host = FakeHost::new();
    host.program("home/.pyenv/versions/3.12.1/bin/python3");
    host.program("home/.pyenv/shims/python3");
    host.program("home/.pyenv/plugins/virtualenv/bin/x");
    host.file("home/.pyenv/plugins/virtualenv/.git/config", "[remote]\nurl = https://me:pw@host/x\n");
    host.file("home/.pyenv/.git/config", "");
    host.file("home/.pyenv/version", "3.12.1\n");
    host.file("home/.pyenv/versions/3.12.1/pip.conf", "index-url = https://me:pw@host\n");
    host.file("home/.pypirc", "password = x\n");
    host.program("home/.local/bin/uv");
    host.program("home/.local/bin/mine");
    host.program("home/.local/share/uv/python/cpython-3.13.0-linux-x86_64-gnu/bin/python3");
    host.file("home/.local/share/uv/credentials/credentials.toml", "x");
    host.file("home/.cache/uv/wheels-v5/a", "");
    host.file("home/.cache/pip/http-v2/a", "");
    host.file("home/.local/lib/python3.11/site-packages/pytest.py", "");
    assert_eq!(host.names(), ["pyenv", "uv", "pip --user", "pip"]);
    let seen = [
        ".cache/pip*",
        ".cache/uv*",
        ".local/bin/uv",
        ".local/lib/python3.11/site-packages",
        ".local/share/uv/python",
        ".pyenv/plugins",
        ".pyenv/shims",
        ".pyenv/version",
        ".pyenv/versions",
    ];
    assert_eq!(host.seen(), seen);
    assert!(host.is_readable("home/.pyenv/versions/3.12.1/bin/python3") && host.is_readable("home/.pyenv/plugins/virtualenv/bin/x"));
    for hidden in [
        "home/.pyenv/versions/3.12.1/pip.conf",
        "home/.pyenv/plugins/virtualenv/.git/config",
        "home/.pyenv/.git/config",
        "home/.pypirc",
        "home/.local/bin/mine",
        "home/.local/share/uv/credentials/credentials.toml",
    ] {
        assert!(!host.is_readable(hidden), "{hidden}");
    }
    let expected = [
        ("PYENV_ROOT", "~/home/.pyenv"),
        ("PIP_CONFIG_FILE", "/dev/null"),
        ("UV_CACHE_DIR", "~/home/.cache/uv"),
        ("UV_PYTHON_INSTALL_DIR", "~/home/.local/share/uv/python"),
        ("PYTHONUSERBASE", "~/home/.local"),
        ("PIP_CACHE_DIR", "~/home/.cache/pip"),
    ];
    for (name, value) in expected {
        assert_eq!(host.variable(name).as_deref(), Some(value), "{name}");
    }
    assert!(host.variable("PATH").unwrap().starts_with("~/home/.pyenv/shims:~/home/.pyenv/bin:~/home/.local/bin:/usr/bin:"));
}

#[test]
fn a_virtual_environment_of_the_project_comes_first() {
    let host = FakeHost::new();
    assert_eq!((host.variable("VIRTUAL_ENV"), host.variable("PATH")), (None, None));
    host.file("project/.venv/pyvenv.cfg", "home = /usr/bin\n");
    assert_eq!(host.variable("VIRTUAL_ENV").as_deref(), Some("~/project/.venv"));
    assert!(host.variable("PATH").unwrap().starts_with("~/project/.venv/bin:/usr/local/sbin:"));
}

#[test]
fn go_is_seen_without_its_clones_and_netrc() {
    let mut host = FakeHost::new();
    host.program("home/sdk/go1.22.1/bin/go");
    host.file("home/sdk/go1.22.1/VERSION", "go1.22.1\ntime 2024\n");
    host.file("home/sdk/go1.22.1/src/runtime/a.go", "");
    host.file("home/go/pkg/mod/cache/download/a", "");
    host.file("home/go/pkg/mod/cache/vcs/x/config", "url = https://me:pw@host\n");
    host.program("home/go/bin/staticcheck");
    host.file("home/.netrc", "password x\n");
    assert_eq!(host.names(), ["go", "go modules"]);
    assert_eq!(host.seen(), [".cache/go-build*", "go/bin", "go/pkg/mod*", "sdk/go1.22.1"]);
    assert!(host.is_readable("home/go/pkg/mod/cache/download/a"));
    assert!(!host.is_readable("home/go/pkg/mod/cache/vcs/x/config") && !host.is_readable("home/.netrc"));
    for (name, value) in [("GOROOT", "~/home/sdk/go1.22.1"), ("GOPATH", "~/home/go"), ("GOMODCACHE", "~/home/go/pkg/mod")] {
        assert_eq!(host.variable(name).as_deref(), Some(value), "{name}");
    }
    assert!(host.variable("PATH").unwrap().starts_with("~/home/sdk/go1.22.1/bin:~/home/go/bin:/usr/bin:"));
    // As `go env -w` has it.
    host.file("home/.config/go/env", &format!("GOMODCACHE={}\n", host.at("home/mods").display()));
    host.file("home/mods/cache/download/a", "");
    assert_eq!(host.variable("GOMODCACHE").as_deref(), Some("~/home/mods"));
    host.set("GOMODCACHE", &host.at("home/go/pkg/mod").display().to_string());
    assert_eq!(host.variable("GOMODCACHE").as_deref(), Some("~/home/go/pkg/mod"));
}

#[test]
fn jdks_of_the_home_and_of_opt_are_seen() {
    let mut host = FakeHost::new();
    for root in ["home/.sdkman/candidates/java/21.0.2-tem", "home/.jdks/corretto-17", "opt/jdk-11"] {
        host.program(&format!("{root}/bin/java"));
        host.file(&format!("{root}/release"), "JAVA_VERSION=\"21.0.2\"\n");
        host.file(&format!("{root}/lib/modules"), "");
    }
    host.file("home/.m2/settings.xml", "<password>x</password>");
    host.file("home/.jdks/corretto-17/conf/settings.xml", "x");
    host.program("opt/other/bin/java");
    symlink(host.at("home/.sdkman/candidates/java/21.0.2-tem"), host.at("home/.sdkman/candidates/java/current")).unwrap();
    assert_eq!(host.names(), ["jdk", "jdk", "jdk"]);
    assert_eq!(host.seen().len(), 3, "{:?}", host.seen());
    assert!(host.is_readable("opt/jdk-11/bin/java") && !host.is_readable("opt/other/bin/java"));
    assert!(!host.is_readable("home/.m2/settings.xml") && !host.is_readable("home/.jdks/corretto-17/conf/settings.xml"));
    assert_eq!(host.variable("JAVA_HOME").as_deref(), Some("~/home/.sdkman/candidates/java/21.0.2-tem"));
    host.set("JAVA_HOME", &host.at("opt/jdk-11").display().to_string());
    assert_eq!(host.variable("JAVA_HOME").as_deref(), Some("~/opt/jdk-11"));
    assert!(host.variable("PATH").unwrap().starts_with("~/opt/jdk-11/bin:"));
}

#[test]
fn no_variable_and_no_link_makes_more_be_seen() {
    let mut host = FakeHost::new();
    rust(&host);
    host.file("home/.ssh/id", "secret");
    host.file("home/.skep/keys/seal", "secret");
    // Links in the place of folders are left out, and said to be.
    for name in ["home/.cargo/git", "home/.rustup/toolchains"] {
        std::fs::remove_dir_all(host.at(name)).unwrap();
    }
    symlink(host.at("home/.ssh"), host.at("home/.cargo/git")).unwrap();
    symlink(host.at("home"), host.at("home/.rustup/toolchains")).unwrap();
    assert_eq!(host.seen(), [".cargo*", ".cargo/bin", ".cargo/registry*", ".rustup/settings.toml"]);
    let found = host.find();
    let links: Vec<_> = found.list().flat_map(|(found, _)| &found.left_out).filter(|(_, why)| *why == "it is a link").collect();
    assert_eq!(links.len(), 2);
    assert!(!host.is_readable("home/.ssh/id"));
    // The tool's own folder may be one.
    std::fs::rename(host.at("home/.cargo"), host.at("elsewhere")).unwrap();
    symlink(host.at("elsewhere"), host.at("home/.cargo")).unwrap();
    assert!(host.seen().contains(&".cargo/bin".to_owned()) && host.is_readable("elsewhere/bin/cargo"));
    assert_eq!(host.variable("CARGO_HOME").as_deref(), Some("~/elsewhere"));
    // The person's home, what holds it, and the kernel's are no toolchain, whatever they look like.
    host.program("home/bin/cargo");
    host.program("home/.skep/bin/cargo");
    host.program("bin/cargo");
    for place in ["home", "home/.skep", "", "home/.skep/keys"] {
        host.set("CARGO_HOME", &host.at(place).display().to_string());
        host.set("PYENV_ROOT", &host.at(place).display().to_string());
        let shares = host.find().shares(&host.at("project"));
        let kernel = host.at("home/.skep");
        assert!(shares.iter().all(|share| !share.target.starts_with(&kernel) && !kernel.starts_with(&share.target)), "{place}: {shares:?}");
        assert!(!host.is_readable("home/.ssh/id") && !host.is_readable("home/.skep/keys/seal"));
    }
    for place in ["/", "/etc", "/proc/self", "/usr"] {
        host.set("CARGO_HOME", place);
        assert!(!host.names().contains(&"cargo"), "{place}");
    }
}

#[test]
fn the_operator_chooses_and_the_project_stays_apart() {
    let host = FakeHost::new();
    rust(&host);
    nvm(&host);
    let choice = |text: &str| serde_json::from_str::<ToolchainChoice>(text);
    let shown = |text: &str| {
        let found = host.find_with(choice(text).unwrap(), &[]);
        assert_eq!(found.list().count(), 3, "all are found, seen or not");
        found.list().filter(|(_, shown)| *shown).map(|(found, _)| found.name).collect::<Vec<_>>()
    };
    assert_eq!(shown("\"all\""), ["rustup", "cargo", "nvm"]);
    assert_eq!(shown("[\"node\"]"), ["nvm"]);
    assert!(shown("\"off\"").is_empty() && shown("[]").is_empty());
    let off = host.find_with(ToolchainChoice::off(), &[]);
    assert!(off.shares(&host.at("project")).is_empty() && off.environment(&host.at("project"), None, Path::new(""), true).is_empty());
    for bad in ["\"some\"", "[\"rust\", \"perl\"]", "3"] {
        let error = choice(bad).unwrap_err().to_string();
        assert!(error.contains("`all`, `off`, or a list of rust, node, python, go, java"), "{error}");
    }
    // A project that holds a toolchain, or lies in one, is seen as a project.
    let found = host.find();
    assert!(found.shares(&host.at("home")).is_empty());
    let inside = found.shares(&host.at("home/.cargo/registry/src"));
    assert!(
        inside.iter().any(|share| share.target.ends_with(".cargo/bin"))
            && !inside.iter().any(|share| share.target.ends_with(".cargo/registry"))
    );
    let of_home = found.environment(&host.at("home"), None, Path::new(""), true);
    assert!(!of_home.iter().any(|(name, _)| name == "CARGO_HOME") && of_home.iter().any(|(name, _)| name == "RUSTUP_HOME"));
}

#[test]
fn a_missing_program_comes_with_the_exact_lines() {
    let mut host = FakeHost::new();
    rust(&host);
    host.program("opt/tf/terraform");
    let folder = host.at("opt/tf");
    host.set("PATH", &format!("{}:{}:/usr/bin", folder.display(), host.at("home/.cargo/bin").display()));
    let remedy = host.find().remedy_for("terraform");
    let lines = format!("add to config.yml in $SKEP_HOME:\nsandbox:\n  show: [{}]", folder.display());
    assert!(remedy.ends_with(&lines), "{remedy}");
    // With these lines it is on the PATH.
    let found = host.find_with(ToolchainChoice::default(), std::slice::from_ref(&folder));
    let path = found.environment(&host.at("project"), None, Path::new(""), true).into_iter().find(|(name, _)| name == "PATH").unwrap().1;
    assert!(path.starts_with(&format!("{}:", folder.display())), "{path}");
    let off = host.find_with(ToolchainChoice::off(), &[]).remedy_for("cargo");
    assert!(off.ends_with("sandbox:\n  toolchains: [rust]"), "{off}");
    let nowhere = host.find().remedy_for("nothing-like-it");
    assert!(nowhere.contains("has no `nothing-like-it`") && nowhere.contains("show: [/FOLDER/OF/nothing-like-it]"), "{nowhere}");
}
