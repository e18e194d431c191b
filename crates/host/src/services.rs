//! What lies outside rooms and a job may still use: services of this machine, and secrets under another name.
//!
//! Both come from `$SKEP_HOME/config.yml` alone. **Invariant.** The value of a secret goes to a server that the operator named, and
//! nowhere else: not into a room, a record or a result.

use crate::settings::OperatorSettings;
use sandbox::egress::{Destination, To};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use tool::SentinelSecret;

/// Behind this, a service has a name that no resolver knows.
const SERVICE_DOMAIN: &str = ".service.skep";
/// The other doors of a job are the kernel's own.
const SERVICES_MAX: usize = sandbox::Door::MAX - sandbox::OWN_PORTS.len();
/// Shorter than that it could be found by chance in what it is not.
const SECRET_BYTES_MIN: usize = 8;
const SECRET_BYTES_MAX: usize = 4 * 1024;

/// `postgres: 5432`, or with another name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum ServiceSetting {
    Port(u16),
    Full(FullService),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FullService {
    /// On this machine's loopback.
    port: u16,
    /// The name that rooms know it by, and the port.
    host: Option<String>,
    #[serde(rename = "as")]
    seen_as: Option<u16>,
    /// Does a tunnel to it begin with TLS that asks for `host`?
    #[serde(default)]
    tls: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretSetting {
    /// A file that holds the value, relative to `$SKEP_HOME`,
    file: Option<String>,
    /// or a variable of whoever starts the kernel.
    env: Option<String>,
    /// The hosts that may get it.
    hosts: Vec<String>,
    /// The only header it may stand in.
    header: Option<String>,
}

/// A port of this machine that rooms may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub name: String,
    pub host: String,
    pub port: u16,
    pub to: u16,
    pub tls: bool,
    /// Whether it is also on the room's own loopback, for programs that know no proxy.
    pub door: bool,
}

impl Service {
    pub fn destination(&self) -> Destination {
        Destination { method: None, host: self.host.clone(), port: self.port }
    }
}

#[derive(Clone, Debug, Default)]
pub struct HostServices {
    pub services: Vec<Service>,
    /// By the variable's name.
    pub secrets: Vec<(String, SentinelSecret)>,
}

impl HostServices {
    /// `given` are the variables of whoever starts the kernel.
    pub fn read(settings: &OperatorSettings, home: &Path, given: &[(String, String)]) -> Result<HostServices, String> {
        let services = services(&settings.services)?;
        let secrets = settings.secrets.iter().map(|(name, setting)| secret(name, setting, home, given)).collect::<Result<_, _>>()?;
        Ok(HostServices { services, secrets })
    }

    /// Keeps the sentinels of secrets that were there before: jobs that run now know them by these.
    pub fn keep_sentinels(&mut self, before: &HostServices) {
        for (name, secret) in &mut self.secrets {
            if let Some((_, known)) = before.secrets.iter().find(|(known, _)| known == name) {
                secret.sentinel.clone_from(&known.sentinel);
            }
        }
    }

    /// The service that a room asks for.
    pub fn service(&self, ask: &Destination) -> Option<&Service> {
        self.services.iter().find(|service| service.host == ask.host && service.port == ask.port)
    }

    /// Where a yes leads, and whether it must be TLS.
    pub fn route_to(&self, ask: &Destination) -> (To, bool) {
        self.service(ask).map_or((To::Name, true), |service| (To::Loopback(service.to), service.tls))
    }
}

fn services(settings: &BTreeMap<String, ServiceSetting>) -> Result<Vec<Service>, String> {
    let plain =
        |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    let mut services: Vec<Service> = Vec::new();
    for (name, setting) in settings {
        let bad = |why: &str| format!("services: `{name}`: {why}");
        if !plain(name) {
            return Err(bad("a name has small letters, digits and `-`"));
        }
        let own = format!("{name}{SERVICE_DOMAIN}");
        let (to, host, port, tls, door) = match setting {
            ServiceSetting::Port(port) => (*port, own, *port, false, true),
            ServiceSetting::Full(FullService { port, host, seen_as, tls }) => {
                (*port, host.clone().unwrap_or(own), seen_as.unwrap_or(*port), *tls, host.is_none() && seen_as.is_none())
            }
        };
        let host = sandbox::egress::host_name(&host).map_err(|malformed| bad(&malformed.why))?;
        if to == 0 || port == 0 || sandbox::OWN_PORTS.contains(&port) {
            return Err(bad("this port cannot be used"));
        }
        if services.iter().any(|other| (&other.host, other.port) == (&host, port) || (door && other.door && other.port == port)) {
            return Err(bad("another service has this host and port"));
        }
        services.push(Service { name: name.clone(), host, port, to, tls, door });
    }
    if services.len() > SERVICES_MAX {
        return Err(format!("services: at most {SERVICES_MAX} can be named"));
    }
    Ok(services)
}

fn secret(name: &str, setting: &SecretSetting, home: &Path, given: &[(String, String)]) -> Result<(String, SentinelSecret), String> {
    let bad = |why: String| format!("secrets: `{name}`: {why}");
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_') {
        return Err(bad("a name has capital letters, digits and `_`".to_owned()));
    }
    let text = match (&setting.file, &setting.env) {
        (Some(file), None) => {
            let path = home.join(file);
            yaml::read_file(&path).map_err(|error| bad(format!("{}: {error}", path.display())))?
        }
        (None, Some(variable)) => {
            let found = given.iter().find(|(own, _)| own == variable).map(|(_, value)| value.clone());
            found.ok_or_else(|| bad(format!("the kernel was started without the variable `{variable}`")))?
        }
        _ => return Err(bad("it comes from either `file` or `env`".to_owned())),
    };
    let value = text.trim_end_matches(['\n', '\r']).to_owned();
    if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&value.len()) || !value.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return Err(bad(format!("its value is not one line of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} plain letters")));
    }
    let hosts = setting.hosts.iter().map(|host| sandbox::egress::host_name(host).map_err(|malformed| bad(malformed.why)));
    let hosts = hosts.collect::<Result<Vec<_>, _>>()?;
    let random = std::fs::read_to_string("/proc/sys/kernel/random/uuid").map_err(|error| bad(error.to_string()))?;
    let sentinel = format!("skep-secret-{name}-{}", random.trim().replace('-', ""));
    Ok((
        name.to_owned(),
        SentinelSecret { sentinel, value, hosts, header: setting.header.as_ref().map(|header| header.to_ascii_lowercase()) },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, home: &Path) -> Result<HostServices, String> {
        HostServices::read(&yaml::from_str(text).unwrap(), home, &[("FROM".into(), "battery staple".into())])
    }

    #[test]
    fn services_have_a_name_of_their_own_or_the_one_they_are_given() {
        let dir = tempfile::tempdir().unwrap();
        let host = read("services: { postgres: 5432, mirror: { port: 4443, host: PyPI.test, as: 443, tls: true } }", dir.path()).unwrap();
        let ask = |host: &str, port| Destination { method: None, host: host.into(), port };
        assert_eq!(host.route_to(&ask("postgres.service.skep", 5432)), (To::Loopback(5432), false));
        assert_eq!(host.route_to(&ask("pypi.test", 443)), (To::Loopback(4443), true));
        for other in [ask("postgres.service.skep", 22), ask("pypi.test", 4443), ask("localhost", 5432)] {
            assert_eq!(host.route_to(&other), (To::Name, true));
        }
        assert_eq!(host.services.iter().map(|service| service.door).collect::<Vec<_>>(), [false, true]);
        for bad in ["{ Postgres: 1 }", "{ a: 0 }", "{ a: { port: 1, host: 127.0.0.1 } }", "{ a: 61128 }", "{ a: 61131 }"] {
            assert!(read(&format!("services: {bad}"), dir.path()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_secret_has_a_sentinel_and_is_never_shown() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("token"), "correct horse\n").unwrap();
        let text = "secrets: { API_TOKEN: { file: token, hosts: [Api.test], header: Authorization } }";
        let host = read(text, dir.path()).unwrap();
        let (name, secret) = &host.secrets[0];
        assert_eq!((name.as_str(), secret.value.as_str(), secret.header.as_deref()), ("API_TOKEN", "correct horse", Some("authorization")));
        assert_eq!(secret.hosts, ["api.test"]);
        assert!(secret.sentinel.starts_with("skep-secret-API_TOKEN-") && secret.sentinel.len() == 54);
        assert!(!format!("{host:?}").contains("correct horse"));
        let passed = read("secrets: { A: { env: FROM, hosts: [] } }", dir.path()).unwrap();
        assert_eq!(passed.secrets[0].1.value, "battery staple");
        let mut again = read(text, dir.path()).unwrap();
        assert_ne!(again.secrets[0].1.sentinel, secret.sentinel);
        again.keep_sentinels(&host);
        assert_eq!(again.secrets[0].1.sentinel, secret.sentinel);
        std::fs::write(dir.path().join("token"), "short\n").unwrap();
        for bad in
            [text, "secrets: { A: { env: NONE, hosts: [] } }", "secrets: { A: { hosts: [] } }", "secrets: { a: { env: FROM, hosts: [] } }"]
        {
            assert!(read(bad, dir.path()).is_err(), "{bad}");
        }
    }
}
