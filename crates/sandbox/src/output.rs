//! A job's streams on the kernel's side.

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

/// Reads to the end but keeps no more than `keep` bytes, so that a chatty job neither blocks nor fills memory. True when cut.
pub(crate) async fn collect(fd: OwnedFd, keep: usize) -> io::Result<(Vec<u8>, bool)> {
    let mut pipe = pipe::Receiver::from_owned_fd(fd)?;
    let mut kept = Vec::new();
    let mut cut = false;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let got = pipe.read(&mut buffer).await?;
        if got == 0 {
            return Ok((kept, cut));
        }
        let wanted = got.min(keep - kept.len());
        kept.extend_from_slice(&buffer[..wanted]);
        cut |= wanted < got;
    }
}

/// Writes all of stdin. A job that ends without reading it is no error.
pub(crate) async fn feed(input: Option<(OwnedFd, Vec<u8>)>) -> io::Result<()> {
    let Some((fd, bytes)) = input else { return Ok(()) };
    let mut pipe = pipe::Sender::from_owned_fd(fd)?;
    match pipe.write_all(&bytes).await {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
