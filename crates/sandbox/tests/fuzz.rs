//! Bytes out of a room become a request that two readers agree on, or an answer, never a panic.

#[path = "../../testkit/fuzz/fuzz.rs"]
mod fuzz;

use sandbox::egress::{HeadRead, Hello, host_name, read_head, read_hello};

const WORDS: &[&str] = &[
    "GET ",
    "POST ",
    "CONNECT ",
    "http://a.test",
    "a.test:443",
    ":80",
    "/",
    "?",
    " HTTP/1.1\r\n",
    "Host: a.test\r\n",
    "Content-Length: 3\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Connection: x, host\r\n",
    "x: y\r\n",
    "\r\n",
    "\r\n\r\n",
    " ",
    "\t",
    "\n",
    "127.1",
    "@",
];

/// A head that is understood is understood the same when it is sent on, and takes no more than there was.
#[test]
fn proxy_heads() {
    fuzz::text("proxy_heads", WORDS, |text| {
        if let HeadRead::Whole(head, length) = read_head(text.as_bytes()) {
            assert!(length <= text.len());
            assert_eq!(host_name(&head.host).as_ref(), Ok(&head.host));
            assert_eq!(read_head(&text.as_bytes()[..length - 1]), HeadRead::More);
            let Some(path) = &head.path else { return };
            let (onward, swapped) = head.onward(&[]);
            assert!(!swapped);
            // The same request in the form for a proxy must read as the same request.
            let onward = String::from_utf8_lossy(&onward);
            let rest = onward.split_once(" HTTP/1.1\r\n").map(|(_, rest)| rest).unwrap_or_default();
            let again = format!("{} http://{}:{}{path} HTTP/1.1\r\n{rest}", head.method, head.host, head.port);
            match read_head(again.as_bytes()) {
                HeadRead::Whole(second, _) => {
                    let parts = |head: &sandbox::egress::RequestHead| {
                        (head.method.clone(), head.host.clone(), head.port, head.path.clone(), head.body)
                    };
                    assert_eq!(parts(&second), parts(&head));
                    assert_eq!(second.onward(&[]).0, onward.as_bytes());
                }
                other => assert!(!onward.is_ascii(), "{other:?}: {again:?}"),
            }
        }
    });
}

#[test]
fn tls_hellos() {
    fuzz::bytes("tls_hellos", |input| {
        read_hello(input);
        // A body in records of its own making, so that some are whole.
        let mut body = vec![3, 3];
        body.extend([0; 32]);
        body.extend([0, 0, 2, 0, 1, 1, 0]);
        body.extend((input.len() as u16).to_be_bytes());
        body.extend(input);
        let message = [&[1, 0][..], &(body.len() as u16).to_be_bytes(), &body].concat();
        let size = 1 + usize::from(input.first().copied().unwrap_or_default());
        let records: Vec<u8> =
            message.chunks(size).flat_map(|part| [&[22, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat()).collect();
        let found = read_hello(&records);
        assert_ne!(found, Hello::More);
        if let Hello::Named(name) = found {
            assert!(!name.is_empty() && name == name.to_ascii_lowercase());
        }
        assert_eq!(read_hello(&records[..records.len() - 1]), Hello::More);
    });
}
