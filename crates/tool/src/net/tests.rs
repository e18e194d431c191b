use super::*;
use std::net::SocketAddr;

/// What names resolve to, without asking anybody. Any other is on the public internet.
fn resolved(host: &str, port: u16) -> Vec<SocketAddr> {
    let addresses: &[&str] = match host {
        "localhost" => &["127.0.0.1", "::1"],
        "rebind.test" => &["192.168.0.10"],
        "metadata.test" => &["169.254.169.254"],
        "six.test" => &["::ffff:127.0.0.1"],
        "both.test" => &["10.0.0.1", "1.1.1.1"],
        "nowhere.test" | "path" => &[],
        _ => &["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"],
    };
    addresses.iter().map(|address| SocketAddr::new(address.parse().unwrap(), port)).collect()
}

/// As a request goes, without the socket.
fn verdict(filter: &AddressFilter, url: &str) -> Result<Vec<SocketAddr>, Refusal> {
    let target = HttpTarget::parse(url, "GET")?;
    filter.check(&target)?;
    let addresses = match target.literal() {
        Some(ip) => vec![SocketAddr::new(ip, target.port)],
        None => resolved(&target.host, target.port),
    };
    let open = filter.open(&target, addresses)?;
    if open.is_empty() { Err(Refusal::new(Code::NotFound, "no address")) } else { Ok(open) }
}

#[test]
fn the_corpus_of_hosts_is_judged_as_it_says() {
    let corpus = include_str!("../../corpus/hosts.txt");
    let mut seen = (0, 0);
    for (number, line) in corpus.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let [url, expected, why] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("line {}: {line}", number + 1) };
        let found = verdict(&AddressFilter::default(), url);
        match expected {
            "allow" => assert!(found.is_ok(), "line {}: {url} ({why}): {found:?}", number + 1),
            "refuse" => assert!(found.is_err(), "line {}: {url} ({why}): {found:?}", number + 1),
            other => panic!("line {}: {other}", number + 1),
        }
        if expected == "allow" { seen.0 += 1 } else { seen.1 += 1 }
    }
    assert!(seen.0 >= 20 && seen.1 >= 80, "{seen:?}");
}

#[test]
fn of_several_addresses_only_public_ones_are_used() {
    let open = verdict(&AddressFilter::default(), "http://both.test/").unwrap();
    assert_eq!(open, ["1.1.1.1:80".parse().unwrap()]);
}

#[test]
fn an_allowance_is_for_one_address_and_port() {
    let filter = AddressFilter { allow: vec!["127.0.0.1:5000".parse().unwrap()], ..AddressFilter::default() };
    assert!(verdict(&filter, "http://127.0.0.1:5000/").is_ok());
    assert!(verdict(&filter, "http://localhost:5000/").is_ok());
    for url in ["http://127.0.0.1/", "http://127.0.0.1:5001/", "http://127.0.0.2:5000/", "http://[::1]:5000/", "http://1.1.1.1:5000/"] {
        assert!(verdict(&filter, url).is_err(), "{url}");
    }
}

#[test]
fn a_policy_sees_one_form_of_a_host() {
    let host = |url: &str| HttpTarget::parse(url, "get").unwrap().host;
    assert_eq!(host("https://ExAmPlE.com./x"), "example.com");
    assert_eq!(host("http://0x7f.1/"), "127.0.0.1");
    assert_eq!(host("http://[0:0::1]/"), "::1");
    assert_eq!(host("http://bücher.example/"), "xn--bcher-kva.example");
    assert_eq!(host("http://%65xample.com/"), "example.com");
    assert_eq!(host("http://ｅxample.com/"), "example.com");
    assert_eq!(host_of("https://user:pass@%45xample.com:99/").as_deref(), Some("example.com"));
    assert_eq!((host_of("no url"), host_of("file:///etc/passwd")), (None, None));
    let target = HttpTarget::parse("https://example.com/a?b#c", "post").unwrap();
    assert_eq!((target.port, target.method.as_str(), target.url()), (443, "POST", "https://example.com/a?b"));
}

#[test]
fn a_refusal_says_what_the_name_led_to() {
    let refusal = verdict(&AddressFilter::default(), "http://metadata.test/").unwrap_err();
    assert_eq!(refusal.code, Code::Denied);
    assert_eq!(refusal.reason, "`metadata.test` leads to 169.254.169.254:80, and that is link-local, where clouds keep credentials");
}
