//! A client on a socket of the gateway, and the answer that it reads.

use super::{KEY, LONG};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub struct Caller {
    pub(super) stream: TcpStream,
    pub(super) buffer: Vec<u8>,
}

impl Caller {
    pub async fn ask(&mut self, path: &str, body: &str) {
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {KEY}\r\ncookie: c=d\r\naccept-encoding: gzip\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await.unwrap();
    }

    pub async fn until(&mut self, text: &str) {
        while !String::from_utf8_lossy(&self.buffer).contains(text) {
            assert!(tokio::time::timeout(LONG, self.stream.read_buf(&mut self.buffer)).await.expect("nothing came").unwrap() > 0);
        }
    }

    /// Is there any answer within this time?
    pub async fn hears_within(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.stream.read_buf(&mut self.buffer)).await.is_ok()
    }

    pub async fn half_close(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    pub async fn answer(&mut self) -> Answer {
        read_answer(&mut self.stream, &mut self.buffer).await
    }

    pub async fn rest(&mut self) -> Answer {
        self.answer().await
    }
}

pub struct Answer {
    pub head: String,
    pub body: Vec<u8>,
    /// The connection ended before the answer did.
    pub torn: bool,
}

impl Answer {
    pub fn status(&self) -> u16 {
        self.head.split_whitespace().nth(1).unwrap_or("0").parse().unwrap()
    }
}

pub(super) async fn read_answer(stream: &mut (impl AsyncReadExt + Unpin), buffer: &mut Vec<u8>) -> Answer {
    let read = async {
        let end = loop {
            if let Some(at) = find(buffer, b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(buffer).await.unwrap_or(0) == 0 {
                return Answer { head: String::from_utf8_lossy(buffer).into(), body: Vec::new(), torn: true };
            }
        };
        let head = String::from_utf8_lossy(&buffer[..end]).to_lowercase();
        buffer.drain(..end);
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map(|n| n.parse::<usize>().unwrap());
        let mut body = Vec::new();
        if let Some(length) = length {
            while buffer.len() < length {
                if stream.read_buf(buffer).await.unwrap_or(0) == 0 {
                    return Answer { head, body: std::mem::take(buffer), torn: true };
                }
            }
            body.extend(buffer.drain(..length));
            return Answer { head, body, torn: false };
        }
        loop {
            while let Some(at) = find(buffer, b"\r\n") {
                let size = usize::from_str_radix(std::str::from_utf8(&buffer[..at]).unwrap(), 16).unwrap();
                if buffer.len() < at + 2 + size + 2 {
                    break;
                }
                body.extend_from_slice(&buffer[at + 2..at + 2 + size]);
                buffer.drain(..at + 2 + size + 2);
                if size == 0 {
                    return Answer { head, body, torn: false };
                }
            }
            if stream.read_buf(buffer).await.unwrap_or(0) == 0 {
                return Answer { head, body, torn: true };
            }
        }
    };
    tokio::time::timeout(LONG * 3, read).await.expect("the gateway did not answer")
}

pub(super) fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
