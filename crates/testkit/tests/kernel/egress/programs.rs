//! Everyday programs through the proxy.

use super::server::{Pages, Server};
use super::{Setup, Stage, play};
use kernel::Tuning;
use std::path::Path;
use std::process::Command;

fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() { Ok(output.stdout) } else { Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))) }
}

pub fn tls() -> Result<(), String> {
    let server = Server::secure(&["good.test", "evil.test"])?;
    let config = format!("services: {{ web: {{ port: {}, host: good.test, as: 443, tls: true }} }}\n", server.port);
    let policy = "  - { name: web, match: { syscall: net.connect, host: good.test, port: 443 }, action: allow }\n".into();
    let files = vec![("ca.crt".into(), server.pem.clone())];
    play(Setup { policy, config, files, tuning: Tuning::default() }, async |stage| {
        let heard = server.serve(Pages::from([("/".into(), b"hello over tls".to_vec())]))?;
        let curl = ["curl", "-sS", "--cacert", "ca.crt", "https://good.test/"];
        assert_eq!(stage.run("integration-test", &curl).await?, "hello over tls");
        let python = "import ssl,urllib.request\nprint(urllib.request.urlopen('https://good.test/',context=ssl.create_default_context(cafile='ca.crt')).read().decode())";
        assert_eq!(stage.python("integration-test", python).await?, "hello over tls");
        // A tunnel to one name, and TLS inside it to another.
        let fronted = ["sh", "-c", "curl -sS -k --cacert ca.crt --connect-to evil.test:443:good.test:443 https://evil.test/ 2>&1; true"];
        let said = stage.run("integration-test", &fronted).await?;
        assert!(said.starts_with("curl: (35)"), "{said}");
        assert_eq!(heard.lock().map_err(|error| error.to_string())?.len(), 2, "it never came to the server");
        let told = stage.told()?;
        let mismatch = "closed - good.test:443 refused: TLS asks for `evil.test`, and the tunnel is for `good.test`";
        // A client that goes without a word resets its connection, and that is told as it was.
        let through = told.iter().filter(|line| line.starts_with("closed - good.test:443 ") && !line.contains("refused"));
        assert_eq!(through.count(), 2, "{told:#?}");
        assert_eq!(told.iter().filter(|line| *line == mismatch).count(), 1, "{told:#?}");
        Ok(())
    })
}

/// Registries of our own that have the names of the real ones: what counts is that programs work as they are.
struct Registry {
    hosts: &'static [&'static str],
    pages: Pages,
    files: Vec<(String, String)>,
}

impl Registry {
    /// Plays `work` in a room for installs that may reach the hosts, and sees that it asked for each of them and for nothing else.
    fn play(self, work: impl AsyncFnOnce(&Stage) -> Result<(), String>) -> Result<(), String> {
        let Registry { hosts, pages, mut files } = self;
        let server = Server::secure(hosts)?;
        let services =
            hosts.iter().enumerate().map(|(n, host)| format!("  r{n}: {{ port: {}, host: {host}, as: 443, tls: true }}\n", server.port));
        let config = format!("services:\n{}", services.collect::<String>());
        let list = hosts.join(", ");
        let policy = format!(
            "  - {{ name: registries, match: {{ syscall: net.connect, sandbox: install, host: [{list}], port: 443 }}, action: allow }}\n"
        );
        files.push(("ca.crt".into(), server.pem.clone()));
        play(Setup { policy, config, files, tuning: Tuning::default() }, async |stage| {
            server.serve(pages)?;
            work(&stage).await?;
            let told = stage.told()?;
            for host in hosts {
                assert!(told.contains(&format!("admitted net.connect - {host}:443")), "{told:#?}");
            }
            assert!(!told.iter().any(|line| line.starts_with("refused")), "{told:#?}");
            Ok(())
        })
    }
}

pub fn pip() -> Result<(), String> {
    let wheel = output(Command::new("/usr/bin/python3").args(["-c", WHEEL]))?;
    let index = r#"<a href="https://files.pythonhosted.org/left-1.0-py3-none-any.whl">left-1.0-py3-none-any.whl</a>"#;
    let pages = Pages::from([("/simple/left/".into(), index.into()), ("/left-1.0-py3-none-any.whl".into(), wheel)]);
    Registry { hosts: &["pypi.org", "files.pythonhosted.org"], pages, files: Vec::new() }.play(async |stage| {
        let pip = ["/usr/bin/python3", "-m", "pip", "--cert", "ca.crt", "download", "-q", "--no-cache-dir", "left"];
        stage.run("install", &pip).await?;
        assert_eq!(stage.run("install", &["ls", "left-1.0-py3-none-any.whl"]).await?, "left-1.0-py3-none-any.whl");
        Ok(())
    })
}

pub fn npm() -> Result<(), String> {
    let package = r#"{"name":"left","version":"1.0.0"}"#;
    let ball = output(Command::new("/usr/bin/python3").args(["-c", TARBALL, "package/package.json", package]))?;
    let version = r#"{"name":"left","version":"1.0.0","dist":{"tarball":"https://registry.npmjs.org/left/-/left-1.0.0.tgz"}}"#;
    let about = format!(r#"{{"name":"left","dist-tags":{{"latest":"1.0.0"}},"versions":{{"1.0.0":{version}}}}}"#);
    let pages = Pages::from([("/left".into(), about.into()), ("/left/-/left-1.0.0.tgz".into(), ball)]);
    Registry { hosts: &["registry.npmjs.org"], pages, files: Vec::new() }.play(async |stage| {
        // One try each: where the way is closed the test says so at once.
        let npm = ["npm", "install", "--cafile", "ca.crt", "--fetch-retries", "0", "left@1.0.0"];
        stage.run("install", &npm).await?;
        assert_eq!(stage.run("install", &["cat", "node_modules/left/package.json"]).await?, package);
        Ok(())
    })
}

/// Where a toolchain lies in a home, rooms do not see it, so cargo is taken along; of the compiler it needs only to hear what it is.
pub fn cargo() -> Result<(), String> {
    let manifest = "[package]\nname = \"left\"\nversion = \"1.0.0\"\nedition = \"2024\"\n[lib]\npath = \"Cargo.toml\"\n";
    let ball = output(Command::new("/usr/bin/python3").args(["-c", TARBALL, "left-1.0.0/Cargo.toml", manifest]))?;
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = dir.path().join("left.crate");
    std::fs::write(&path, &ball).map_err(|error| error.to_string())?;
    let sum = String::from_utf8_lossy(&output(Command::new("sha256sum").arg(&path))?).into_owned();
    let sum = sum.split(' ').next().unwrap_or_default();
    let line = format!(r#"{{"name":"left","vers":"1.0.0","deps":[],"cksum":"{sum}","features":{{}},"yanked":false}}"#);
    let pages = Pages::from([
        ("/config.json".into(), br#"{"dl":"https://static.crates.io/crates"}"#.to_vec()),
        ("/le/ft/left".into(), line.into()),
        ("/crates/left/1.0.0/download".into(), ball),
    ]);
    let wanted = "[package]\nname = \"demo\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[dependencies]\nleft = \"1\"\n";
    let files = vec![
        ("Cargo.toml".into(), wanted.into()),
        ("src/lib.rs".into(), String::new()),
        ("rustc".into(), RUSTC.into()),
        (".gitignore".into(), "/cargo\n".into()),
    ];
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let cargo = Path::new(String::from_utf8_lossy(&sysroot).trim()).join("bin/cargo");
    Registry { hosts: &["index.crates.io", "static.crates.io"], pages, files }.play(async |stage| {
        std::fs::copy(&cargo, stage.bed.project().join("cargo")).map_err(|error| error.to_string())?;
        let fetch = "chmod +x rustc && CARGO_HOME=/tmp/c RUSTC=$PWD/rustc CARGO_HTTP_CAINFO=ca.crt CARGO_NET_RETRY=0 ./cargo fetch -q 2>&1 \
                     && ls -d /tmp/c/registry/src/*/left-1.0.0";
        let said = stage.run("install", &["sh", "-c", fetch]).await?;
        assert!(said.starts_with("/tmp/c/registry/src/index.crates.io-") && said.ends_with("/left-1.0.0"), "{said}");
        Ok(())
    })
}

/// From files alone, as any web server has them.
pub fn git() -> Result<(), String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (work, bare) = (dir.path().join("work"), dir.path().join("bare"));
    let git = |at: &Path, args: &[&str]| {
        let own = ["-c", "user.name=t", "-c", "user.email=t@t.test", "-c", "init.defaultBranch=main"];
        output(Command::new("git").current_dir(at).args(own).args(args))
    };
    git(dir.path(), &["init", "-q", "work"])?;
    std::fs::write(work.join("a.txt"), "from afar\n").map_err(|error| error.to_string())?;
    git(&work, &["add", "."])?;
    git(&work, &["commit", "-q", "-m", "one"])?;
    git(dir.path(), &["clone", "-q", "--bare", "work", "bare"])?;
    git(&bare, &["update-server-info"])?;
    let mut pages = Pages::new();
    let mut folders = vec![bare.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).map_err(|error| error.to_string())? {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(&bare).map_err(|error| error.to_string())?.display().to_string();
            pages.insert(format!("/a.git/{name}"), std::fs::read(&path).map_err(|error| error.to_string())?);
        }
    }
    // Not a registry: the rule and not the template must lead there.
    let server = Server::secure(&["git.test"])?;
    let config = format!("services: {{ git: {{ port: {}, host: git.test, as: 443, tls: true }} }}\n", server.port);
    let policy = "  - { name: git, match: { syscall: net.connect, host: git.test, port: 443 }, action: allow }\n".into();
    let files = vec![("ca.crt".into(), server.pem.clone())];
    play(Setup { policy, config, files, tuning: Tuning::default() }, async |stage| {
        server.serve(pages)?;
        stage.run("install", &["git", "-c", "http.sslCAInfo=ca.crt", "clone", "-q", "https://git.test/a.git", "/tmp/a"]).await?;
        let said =
            stage.run("install", &["sh", "-c", "git -c http.sslCAInfo=ca.crt clone -q https://other.test/a.git b 2>&1; true"]).await?;
        assert!(said.contains("CONNECT tunnel failed, response 403"), "{said}");
        Ok(())
    })
}

/// The smallest wheel there is, on standard output.
const WHEEL: &str = "import io,sys,zipfile\nb=io.BytesIO()\nz=zipfile.ZipFile(b,'w')\nd='left-1.0.dist-info/'\n\
z.writestr('left.py','x=7')\nz.writestr(d+'METADATA','Metadata-Version: 2.1\\nName: left\\nVersion: 1.0\\n')\n\
z.writestr(d+'WHEEL','Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
z.writestr(d+'RECORD','')\nz.close()\nsys.stdout.buffer.write(b.getvalue())";

/// One file in a compressed archive, on standard output.
const TARBALL: &str = "import io,sys,tarfile\nb=io.BytesIO()\nt=tarfile.open(fileobj=b,mode='w:gz')\n\
i=tarfile.TarInfo(sys.argv[1])\nd=sys.argv[2].encode()\ni.size=len(d)\nt.addfile(i,io.BytesIO(d))\nt.close()\n\
sys.stdout.buffer.write(b.getvalue())";

/// Says what it is.
const RUSTC: &str = "#!/bin/sh\ncase \"$1\" in\n-vV) printf 'rustc 1.95.0\\nbinary: rustc\\ncommit-hash: x\\ncommit-date: x\\n\
host: x86_64-unknown-linux-gnu\\nrelease: 1.95.0\\nLLVM version: 20.1.0\\n' ;;\n\
*) printf '___\\nlib___.rlib\\nlib___.so\\nlib___.so\\nlib___.a\\nlib___.so\\n/opt\\noff\\n___\\nunix\\n___\\n' ;;\nesac\n";
