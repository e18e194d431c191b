//! Everyday programs through the proxy.

use super::server::{Pages, Server};
use super::{Setup, play};
use kernel::Tuning;
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
        let heard = server.serve(Pages::from([("/", b"hello over tls".to_vec())]))?;
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

/// From registries of our own that have the names of the real ones: what counts is that pip works as it is.
pub fn packages() -> Result<(), String> {
    let hosts = ["pypi.org", "files.pythonhosted.org"];
    let server = Server::secure(&hosts)?;
    let services =
        hosts.iter().enumerate().map(|(n, host)| format!("  r{n}: {{ port: {}, host: {host}, as: 443, tls: true }}\n", server.port));
    let config = format!("services:\n{}", services.collect::<String>());
    let policy = "  - { name: registries, match: { syscall: net.connect, sandbox: install, host: [pypi.org, files.pythonhosted.org], \
                  port: 443 }, action: allow }\n"
        .into();
    let wheel = output(Command::new("/usr/bin/python3").args(["-c", WHEEL]))?;
    let index = r#"<a href="https://files.pythonhosted.org/left-1.0-py3-none-any.whl">left-1.0-py3-none-any.whl</a>"#;
    let pages = Pages::from([("/simple/left/", index.as_bytes().to_vec()), ("/left-1.0-py3-none-any.whl", wheel)]);
    let files = vec![("ca.crt".into(), server.pem.clone())];
    play(Setup { policy, config, files, tuning: Tuning::default() }, async |stage| {
        server.serve(pages)?;
        let pip = ["/usr/bin/python3", "-m", "pip", "--cert", "ca.crt", "download", "-q", "--no-cache-dir", "left"];
        stage.run("install", &pip).await?;
        assert_eq!(stage.run("install", &["ls", "left-1.0-py3-none-any.whl"]).await?, "left-1.0-py3-none-any.whl");
        let told = stage.told()?;
        for host in hosts {
            assert!(told.contains(&format!("admitted net.connect - {host}:443")), "{told:#?}");
        }
        assert!(!told.iter().any(|line| line.starts_with("refused")), "{told:#?}");
        Ok(())
    })
}

/// The smallest wheel there is, on standard output.
const WHEEL: &str = "import io,sys,zipfile\nb=io.BytesIO()\nz=zipfile.ZipFile(b,'w')\nd='left-1.0.dist-info/'\n\
z.writestr('left.py','x=7')\nz.writestr(d+'METADATA','Metadata-Version: 2.1\\nName: left\\nVersion: 1.0\\n')\n\
z.writestr(d+'WHEEL','Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n\
z.writestr(d+'RECORD','')\nz.close()\nsys.stdout.buffer.write(b.getvalue())";
