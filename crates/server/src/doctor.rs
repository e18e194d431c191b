//! What `kernel.doctor` says of models: the operator's files, each provider's key and address, and what each tier leads to.

use gateway::{KeyState, NoKey};
use kernel::Kernel;
use std::time::Duration;
use tokio::net::TcpStream;
use wire::Remedy;
use wire::method::kernel::{HostCheck, HostToolchain, UnseenPath};

/// Longer than a host on the other side of the world needs to take a connection.
const KNOCK: Duration = Duration::from_secs(3);
/// A keyring that wants a person's password gets this long here.
const KEYRING: Duration = Duration::from_secs(5);
const MODELS: &str = "models";

pub(crate) async fn models(kernel: &Kernel) -> Vec<HostCheck> {
    let mut checks = Vec::new();
    if let Some(fault) = kernel.settings_rejected() {
        checks.push(HostCheck { fix: Some(fault.fix), ..check("config.yml", false, fault.why) });
    }
    let gateway = kernel.models.gateway();
    let providers: Vec<_> = gateway.providers().collect();
    if providers.is_empty() {
        let detail = "no model is set up yet".to_owned();
        checks.push(HostCheck { remedy: Some(Remedy::SetUpModel), optional: true, ..check("providers", false, detail) });
        return checks;
    }
    for provider in providers {
        let late = |_| KeyState::Missing(NoKey { what: "its keyring does not answer".to_owned(), fix: "unlock the keyring".to_owned() });
        checks.push(match tokio::time::timeout(KEYRING, provider.find_key()).await.unwrap_or_else(late) {
            KeyState::Missing(none) => HostCheck {
                fix: Some(none.fix),
                remedy: Some(Remedy::SetUpModel),
                ..check(&provider.name, false, format!("has no key: {}", none.what))
            },
            key => {
                let key = match key {
                    KeyState::Found(place) => format!("key from {place}"),
                    _ => "needs no key".to_owned(),
                };
                match (provider.check(), provider.address()) {
                    (Err(why), _) => HostCheck { fix: Some("mend the file".to_owned()), ..check(&provider.name, false, why) },
                    (Ok(()), None) => check(&provider.name, true, format!("answers from a file; {key}")),
                    (Ok(()), Some((host, port))) => match knock(&host, port).await {
                        Ok(()) => check(&provider.name, true, format!("{host}:{port} can be reached; {key}")),
                        Err(why) => HostCheck {
                            fix: Some(format!(
                                "see that the host is up and the network lets you reach it, or change `url` of `{}` in config.yml",
                                provider.name
                            )),
                            ..check(&provider.name, false, format!("{host}:{port} cannot be reached: {why}"))
                        },
                    },
                }
            }
        });
    }
    for (name, targets) in gateway.names() {
        checks.push(check(&name, true, targets.iter().collect::<Vec<_>>().join(", then ")));
    }
    checks
}

fn check(name: &str, ok: bool, detail: String) -> HostCheck {
    HostCheck { section: MODELS.to_owned(), name: name.to_owned(), ok, optional: false, detail, fix: None, remedy: None }
}

/// Whether somebody listens there.
async fn knock(host: &str, port: u16) -> Result<(), String> {
    match tokio::time::timeout(KNOCK, TcpStream::connect((host, port))).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("it did not answer within {} s", KNOCK.as_secs())),
    }
}

/// A toolchain as `skep doctor` lists it.
pub(crate) fn found_toolchain(found: &kernel::Toolchain, shown: bool) -> HostToolchain {
    let left_out =
        |(path, reason): &(std::path::PathBuf, &str)| UnseenPath { path: path.display().to_string(), reason: (*reason).to_owned() };
    HostToolchain {
        ecosystem: found.ecosystem.name().to_owned(),
        name: found.name.to_owned(),
        path: found.path.display().to_string(),
        detail: found.detail.clone(),
        shown,
        left_out: found.left_out.iter().map(left_out).collect(),
    }
}
