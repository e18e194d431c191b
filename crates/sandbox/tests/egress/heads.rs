//! Heads that are not what they seem.

use sandbox::egress::{End, HEAD_BYTES_MAX, To};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::judge::{Heard, ended, impatient, leading_to, listen, patient_client, say, server, unvisited};

const GOOD: &str = "GET http://good.test/ HTTP/1.1\r\nHost: good.test\r\n";

/// The status line of the answer to a request; the server behind the proxy hears nothing of it.
async fn refused(request: &str) -> String {
    let (listener, port) = listen().await;
    let (judge, told) = leading_to("good.test", port);
    let answer = say(judge, request).await;
    assert!(unvisited(&listener).await, "{request}");
    let heard: Vec<Heard> = told.try_iter().collect();
    let [Heard::Malformed(why)] = &heard[..] else { panic!("{request}: {heard:?}") };
    assert!(answer.ends_with(&format!("skep: {why}\n")), "{answer}");
    answer.lines().next().unwrap_or_default().trim_start_matches("HTTP/1.1 ").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_control_passes() {
    let (listener, port) = listen().await;
    let served = server(listener, b"\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nhi");
    let (judge, _told) = leading_to("good.test", port);
    assert_eq!(say(judge, format!("{GOOD}\r\n")).await, "HTTP/1.1 200 OK\r\n\r\nhi");
    served.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_doubt_is_refused() {
    let cases = [
        // Two readers could see two requests.
        (format!("{GOOD}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc"), "400 the request has more than one Content-Length"),
        (format!("{GOOD}Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"), "400 the request has more than one Content-Length"),
        (
            format!("{GOOD}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            "400 the request has both a Content-Length and a Transfer-Encoding",
        ),
        (format!("{GOOD}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "411 send the body with a Content-Length, not in chunks"),
        (format!("{GOOD}Content-Length: +3\r\n\r\nabc"), "400 the Content-Length is not a number"),
        (format!("{GOOD}Content-Length: 3, 3\r\n\r\nabc"), "400 the Content-Length is not a number"),
        (format!("{GOOD}X: a\r\n b\r\n\r\n"), "400 a header is folded over two lines"),
        (format!("{GOOD}X : a\r\n\r\n"), "400 a header's name is not one"),
        (format!("{GOOD}X\r\n\r\n"), "400 a header has no colon"),
        (format!("{GOOD}X: a\u{7}\r\n\r\n"), "400 a header holds a control character"),
        (format!("{GOOD}X: a\0\r\n\r\n"), "400 the head holds a zero byte"),
        (format!("{GOOD}X: a\nY: b\r\n\r\n"), "400 a line ends without a carriage return"),
        (format!("{GOOD}X: a\rY: b\r\n\r\n"), "400 a carriage return stands within a line"),
        ("\r\nGET http://good.test/ HTTP/1.1\r\n\r\n".into(), "400 the request begins with an empty line"),
        ("GET  http://good.test/ HTTP/1.1\r\n\r\n".into(), "400 the request line is not `METHOD target HTTP/1.1`"),
        ("get http://good.test/ HTTP/1.1\r\n\r\n".into(), "400 the method is not one in upper case"),
        ("GET http://good.test/ HTTP/2.0\r\n\r\n".into(), "505 only HTTP/1.1 and HTTP/1.0 are spoken here"),
        ("TRACE http://good.test/ HTTP/1.1\r\n\r\n".into(), "405 TRACE sends headers back"),
        // Another host under the name of this one.
        (
            "GET http://good.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n".into(),
            "403 the Host header names `evil.test:80` and the target `good.test:80`",
        ),
        (
            "GET http://good.test/ HTTP/1.1\r\nHost: good.test:81\r\n\r\n".into(),
            "403 the Host header names `good.test:81` and the target `good.test:80`",
        ),
        (format!("{GOOD}Host: good.test\r\n\r\n"), "400 the request has more than one Host header"),
        ("GET http://good.test/ HTTP/1.1\r\n\r\n".into(), "400 the request has no Host header"),
        (
            "CONNECT good.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n".into(),
            "403 the Host header names `evil.test:443` and the target `good.test:443`",
        ),
        ("GET http://good.test@evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n".into(), "400 the target holds a user name"),
        ("GET http://good.test/#x HTTP/1.1\r\nHost: good.test\r\n\r\n".into(), "400 the target has a fragment"),
        ("GET / HTTP/1.1\r\nHost: good.test\r\n\r\n".into(), "400 this is a proxy: the target must be http://host/path, or use CONNECT"),
        ("GET https://good.test/ HTTP/1.1\r\nHost: good.test\r\n\r\n".into(), "400 https goes through CONNECT"),
        ("CONNECT good.test HTTP/1.1\r\n\r\n".into(), "400 the target has no port that can be used"),
        ("CONNECT good.test:0 HTTP/1.1\r\n\r\n".into(), "400 the target has no port that can be used"),
        ("CONNECT good.test:70000 HTTP/1.1\r\n\r\n".into(), "400 the target has no port that can be used"),
        ("CONNECT good.test:443 HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc".into(), "400 CONNECT has no body"),
        ("CONNECT go%6fd.test:443 HTTP/1.1\r\n\r\n".into(), "400 the target's host is not a name"),
        ("CONNECT g\u{f6}d.test:443 HTTP/1.1\r\n\r\n".into(), "400 the request line is not plain text"),
    ];
    for (request, answer) in cases {
        assert_eq!(refused(&request).await, answer, "{request:?}");
    }
}

/// Resolvers read each of these as an address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_in_any_notation_is_no_host() {
    let hosts = [
        "127.0.0.1",
        "1.1.1.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.0.0.1.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "169.254.169.254",
    ];
    for host in hosts {
        let wanted = "403 hosts are reached by name, not by address";
        assert_eq!(refused(&format!("CONNECT {host}:443 HTTP/1.1\r\n\r\n")).await, wanted, "{host}");
        assert_eq!(refused(&format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n")).await, wanted, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_has_a_size_and_a_time() {
    let long = format!("{GOOD}X: {}\r\n\r\n", "a".repeat(HEAD_BYTES_MAX));
    assert_eq!(refused(&long).await, format!("431 the head has more than {HEAD_BYTES_MAX} bytes"));
    let many = format!("{GOOD}{}\r\n", "X: a\r\n".repeat(101));
    assert_eq!(refused(&many).await, "431 the request has more than 100 headers");
    let endless = "A".repeat(HEAD_BYTES_MAX + 1);
    assert_eq!(refused(&endless).await, format!("431 the head has more than {HEAD_BYTES_MAX} bytes"));

    let (judge, told) = leading_to("good.test", 1);
    let mut slow = patient_client(judge, impatient());
    slow.write_all(b"GET http://go").await.unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 the head did not come in time\r\n"), "{answer}");
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [Heard::Malformed("the head did not come in time".into())]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_no_says_why_and_what_to_do() {
    let (judge, _told) = leading_to("good.test", 1);
    let answer = say(judge, "CONNECT evil.test:443 HTTP/1.1\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 403 no rule allows it?\r\n"), "{answer}");
    assert!(answer.ends_with("skep: no rule allows it\u{202e}\nhint: ask a person\n"), "{answer}");
    let (judge, _told) = leading_to("good.test", 1);
    let answer = say(judge, "GET http://later.test/ HTTP/1.1\r\nHost: later.test\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 511 review-3 waits for a person\r\n"), "{answer}");
}

/// The name is judged a good one, and where it leads is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_leads_inside_is_refused() {
    let (listener, port) = listen().await;
    let request = format!("GET http://localhost:{port}/ HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n");
    let (mut judge, told) = leading_to("localhost", port);
    judge.to = To::Name;
    let answer = say(judge, &request).await;
    assert!(answer.starts_with("HTTP/1.1 403 `localhost` leads to "), "{answer}");
    assert!(answer.contains("that is this machine (loopback)"), "{answer}");
    assert!(matches!(ended(&told).end, End::Refused(why) if why.contains("loopback")));
    assert!(unvisited(&listener).await);
    let served = server(listener, b"\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n");
    let (judge, _told) = leading_to("localhost", port);
    assert_eq!(say(judge, &request).await, "HTTP/1.1 200 OK\r\n\r\n", "the same by a configuration's leave");
    served.await.unwrap();
}
