//! Servers on loopback, bound before the launcher forks and served after.

use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

pub struct Server {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    pub port: u16,
    /// The certificate that clients must believe.
    pub pem: String,
    pub heard: Arc<Mutex<Vec<String>>>,
}

/// Bodies by path. Where there are none at all, a request is answered with itself.
pub type Pages = BTreeMap<String, Vec<u8>>;

impl Server {
    pub fn plain() -> Result<Server, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let port = listener.local_addr().map_err(|error| error.to_string())?.port();
        Ok(Server { listener, tls: None, port, pem: String::new(), heard: Arc::default() })
    }

    pub fn secure(names: &[&str]) -> Result<Server, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).map_err(|error| error.to_string())?;
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).map_err(str::to_owned)?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider())).with_safe_default_protocol_versions();
        let config = config.and_then(|config| config.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key));
        let tls = Some(TlsAcceptor::from(Arc::new(config.map_err(|error| error.to_string())?)));
        Ok(Server { tls, pem: cert.pem(), ..Server::plain()? })
    }

    pub fn serve(self, pages: Pages) -> Result<Arc<Mutex<Vec<String>>>, String> {
        self.listener.set_nonblocking(true).map_err(|error| error.to_string())?;
        let listener = tokio::net::TcpListener::from_std(self.listener).map_err(|error| error.to_string())?;
        let (heard, pages) = (self.heard.clone(), Arc::new(pages));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, heard, pages) = (self.tls.clone(), self.heard.clone(), pages.clone());
                tokio::spawn(async move {
                    match tls {
                        None => answer(stream, &heard, &pages).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => answer(stream, &heard, &pages).await,
                            Err(error) => Err(error),
                        },
                    }
                });
            }
        });
        Ok(heard)
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, heard: &Mutex<Vec<String>>, pages: &Pages) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (status, body) = match pages.get(path.split('?').next().unwrap_or_default()) {
        Some(page) => ("200 OK", page.clone()),
        None if pages.is_empty() => ("200 OK", head.clone().into_bytes()),
        None => ("404 Not Found", Vec::new()),
    };
    let kind = if path.ends_with('/') { "text/html" } else { "application/json" };
    let lead = format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    heard.lock().unwrap_or_else(|poison| poison.into_inner()).push(head.clone());
    stream.write_all(lead.as_bytes()).await?;
    stream.write_all(&body).await?;
    stream.shutdown().await
}
