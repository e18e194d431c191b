//! `http.request` over TLS: a server whom nobody vouches for is not spoken to.
//!
//! Whom to believe is the host's list, which `SSL_CERT_FILE` replaces. A process reads it once, so each case is a process: the test
//! runs itself again.

use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tool::{AddressFilter, Context, NoSubcalls, Registry, RunMode, ToolStop};

const ADDRESS: &str = "SKEP_TEST_TLS_ADDRESS";

/// Asks the server that the environment names, and prints what came of it. Without one there is nothing to do.
#[tokio::test]
async fn child() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let address: SocketAddr = address.parse().unwrap();
    let registry = Registry::builtin();
    let tool = registry.find("http.request").unwrap();
    let root = std::fs::File::open("/").unwrap();
    let context = Context {
        root: root.as_fd(),
        project: Path::new("/"),
        room: None,
        test_command: None,
        output_max: 1000,
        visible: &|_: &str| true,
        mode: RunMode::Live,
        addresses: &AddressFilter { allow: vec![address], ..AddressFilter::default() },
        subcalls: &NoSubcalls,
        environment: &[],
        job: Default::default(),
        secrets: &[],
    };
    for host in ["localhost", "127.0.0.1"] {
        match tool.run(&json!({ "url": format!("https://{host}:{}/", address.port()) }), Vec::new(), &context).await {
            Ok(output) => println!("{host}: body {}", output.value["body"]),
            Err(ToolStop::Failed(fault)) => println!("{host}: fault {fault}"),
            Err(ToolStop::Refused(refusal)) => println!("{host}: refused {refusal}"),
        }
    }
}

#[tokio::test]
async fn only_a_server_that_the_host_believes_is_spoken_to() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut buffer = [0; 1024];
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret").await;
            let _ = stream.shutdown().await;
        }
    });

    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("own.pem");
    std::fs::write(&own, cert.pem()).unwrap();
    let other = folder.path().join("other.pem");
    std::fs::write(&other, generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap().cert.pem()).unwrap();
    let ask = async |roots: &Path| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture"]).env(ADDRESS, address.to_string()).env("SSL_CERT_FILE", roots);
        let output = tokio::task::spawn_blocking(move || command.env_remove("SSL_CERT_DIR").output()).await.unwrap().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let believed = ask(&own).await;
    assert!(believed.contains("localhost: body \"secret\""), "{believed}");
    assert!(
        believed.contains("127.0.0.1: fault cannot secure the connection to `127.0.0.1`"),
        "another name is not vouched for: {believed}"
    );
    let doubted = ask(&other).await;
    assert!(doubted.contains("localhost: fault cannot secure the connection to `localhost`"), "{doubted}");
    assert!(!doubted.contains("secret"), "{doubted}");
}
