use proptest::prelude::*;
use serde_json::json;

use super::*;

fn check(text: &str, expected: &str) {
    let redactor = Redactor::new();
    let once = redactor.text(text);
    assert_eq!(once, expected, "of {text}");
    assert_eq!(redactor.text(&once), once, "a second time");
}

#[test]
fn keys_of_known_shape() {
    check("use sk-abcdefgh12345678 now", "use [redacted] now");
    check("(ghp_0123456789abcdefghij0123456789abcdef)", "([redacted])");
    check("AKIAIOSFODNN7EXAMPLE", "[redacted]");
    check("x=xoxb-123456789012-abcdef,glpat-abcdefghij0123456789", "x=[redacted],[redacted]");
    check("npm_abcdefghijklmnopqrstuvwxyz0123456789\ngho_abcdefghijklmnop0123", "[redacted]\n[redacted]");
}

#[test]
fn words_survive() {
    for text in [
        "check disk-usage and risk-level of task-123",
        "desk-abcdefghijklmnopqrstuvwxyz123",
        "task-sk-1",
        "sk-learn",
        "npm_config",
        "tokens: 4521",
        "max_tokens=4096",
        "\"max_tokens\": 4096, \"token_count\": 12, \"input_tokens\": 3",
        "total_tokens = 10",
        "the tokenizer: fast",
        "secretary: Ann",
        "PWD=/home/ann",
        "if token == other",
        "token::Kind",
        "token:t-12",
        "password: null",
        "the bearer of news",
        "https://example.com/a@b?x=1",
        "ssh://git@example.com/x",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "see http://user@example.com",
    ] {
        check(text, text);
    }
}

#[test]
fn values_of_secret_names() {
    check("db_password=hunter2 user=ann", "db_password=[redacted] user=ann");
    check("aws_secret_access_key = abc/def+ghi==", "aws_secret_access_key = [redacted]");
    check("token=123456", "token=[redacted]");
    check("passwd: 'two words', next: 1", "passwd: '[redacted]', next: 1");
    check(r#"{"password": "a\"b", "n": 1}"#, r#"{"password": "[redacted]", "n": 1}"#);
    check(r#"{\"api_key\": \"abc\", \"n\": 1}"#, r#"{\"api_key\": \"[redacted]\", \"n\": 1}"#);
    check("https://x.example/?access_token=abc&page=2", "https://x.example/?access_token=[redacted]&page=2");
    check("PGPASSWORD=hunter2 psql", "PGPASSWORD=[redacted] psql");
    check("login --password hunter2 --user ann", "login --password [redacted] --user ann");
    check("X-Api-Key: abc", "X-Api-Key: [redacted]");
    check("{clientSecret: abc}", "{clientSecret: [redacted]}");
    check("user_pwd=abc", "user_pwd=[redacted]");
    check("tokens=abcdef0123456789", "tokens=[redacted]");
}

#[test]
fn headers_urls_and_pem() {
    check("Authorization: Bearer abc.def.ghi\nHost: x", "Authorization: Bearer [redacted]\nHost: x");
    check("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted]");
    check("authorization: abc", "authorization: [redacted]");
    check(r#"-H "Authorization: Digest username="a", response="b"""#, r#"-H "Authorization: Digest [redacted]"a", response="b"""#);
    check(r#"{"authorization":"Bearer abc"}"#, r#"{"authorization":"Bearer [redacted]"}"#);
    check("curl with Bearer eyJhbGciOiJIUzI1NiJ9.abc", "curl with Bearer [redacted]");
    check("postgres://ann:hunter2@db:5432/x", "postgres://ann:[redacted]@db:5432/x");
    check("https://ann:p@ss@host/x", "https://ann:[redacted]@host/x");
    check("https://abcdef0123456789@github.com/x", "https://[redacted]@github.com/x");
    check(
        "a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nb",
        "a\n-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY-----\nb",
    );
    check("-----BEGIN PRIVATE KEY-----\nMIIE", "-----BEGIN PRIVATE KEY-----[redacted]");
}

#[test]
fn keys_of_our_own_need_no_introduction() {
    let key = format!("{OWN_KEY}{}", "0123456789abcdef".repeat(4));
    for (text, clean) in [
        (format!("it is {key}."), "it is [redacted]."),
        (format!("desk{key}/x"), "desk[redacted]/x"),
        (format!("{}…", &key[..44]), "[redacted]…"),
        (format!("a={} b", base64(&key)), "a=[redacted] b"),
        (format!("a={} b", base64(&format!("x{key}"))), "a=eH[redacted] b"),
        (format!("a={} b", base64(&format!("xy{key} and more"))), "a=eHl[redacted] b"),
        ("sk-skep-run and sk-skep-abcdef".to_owned(), "sk-skep-run and sk-skep-abcdef"),
        (format!("{} {}", "c2stc2tlcC", "x".repeat(90)), &format!("c2stc2tlcC {}", "x".repeat(90))),
    ] {
        check(&text, clean);
    }
}

fn base64(text: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: String = text.bytes().map(|byte| format!("{byte:08b}")).collect();
    let digit = |six: &[u8]| DIGITS[usize::from_str_radix(std::str::from_utf8(six).unwrap(), 2).unwrap()];
    bits.as_bytes().chunks(6).map(|six| char::from(digit(format!("{:0<6}", String::from_utf8_lossy(six)).as_bytes()))).collect()
}

#[test]
fn json_by_name_and_by_content() {
    let mut value = json!({
        "path": "disk-usage", "db_password": "x", "token": 12345, "max_tokens": 100, "tokens": 7, "nested": [{"apiKey": "k", "ok": true}],
        "secrets": {"a": "b", "deep": {"n": 1}}, "cmd": "export TOKEN=abc; ls", "token_type": "cap", "password": "", "secret": null,
        "sk-abcdefgh12345678": 1, "passwords": ["a", "b"],
    });
    Redactor::new().value(&mut value);
    let expected = json!({
        "path": "disk-usage", "db_password": "[redacted]", "token": "[redacted]", "max_tokens": 100, "tokens": 7,
        "nested": [{"apiKey": "[redacted]", "ok": true}], "secrets": {"a": "[redacted]", "deep": {"n": "[redacted]"}},
        "cmd": "export TOKEN=[redacted]; ls", "token_type": "cap", "password": "", "secret": null, "[redacted]": 1,
        "passwords": ["[redacted]", "[redacted]"],
    });
    assert_eq!(value, expected);
}

#[test]
fn registered_values_in_every_shape() {
    let redactor = Redactor::new();
    assert_eq!(redactor.text("correct horse"), "correct horse", "control");
    assert!(redactor.register("correct horse/1"));
    assert!(!redactor.register("abc"));
    for text in ["correct horse/1", "correct%20horse%2F1", "correct%20horse%2f1", "correct+horse%2F1"] {
        assert_eq!(redactor.text(&format!("a {text} b")), "a [redacted] b");
    }
    // base64 of the value alone, and behind one, two and three other bytes.
    for text in ["Y29ycmVjdCBob3JzZS8x", "eGNvcnJlY3QgaG9yc2UvMQ==", "eHhjb3JyZWN0IGhvcnNlLzE=", "eHh4Y29ycmVjdCBob3JzZS8x"] {
        let redacted = redactor.text(text);
        assert!(redacted.contains(REDACTED) && redacted.len() <= REDACTED.len() + 6, "{text} became {redacted}");
    }
}

proptest! {
    #[test]
    fn redaction_is_idempotent(text in "(password|token|tokens|sk-|ghp_|Bearer |Authorization|://|@|:|=| |\"|'|\\\\|\\[|\\]|[a-z0-9]{1,20}|-----BEGIN PRIVATE KEY-----|-----END|\n|,|é){0,24}") {
        let redactor = Redactor::new();
        let once = redactor.text(&text).into_owned();
        let twice = redactor.text(&once).into_owned();
        prop_assert_eq!(&twice, &once, "of {}", text);
    }

    #[test]
    fn text_without_triggers_is_not_touched(text in "[a-fh-jl-nq-rA-J0-9 .,;@/=é\n-]{0,200}") {
        prop_assert!(matches!(Redactor::new().text(&text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn any_text_is_survived(text: String) {
        let _ = Redactor::new().text(&text);
    }

    #[test]
    fn a_password_never_survives_its_name(secret in "[A-Za-z0-9!#^+/~-][A-Za-z0-9!#$%^*+/~-]{5,23}", name in "(db_|my|PG)?(password|PASSWORD|secret|api_key|token)(_x)?", sep in "(=|: | = |\": \")") {
        let redacted = Redactor::new().text(&format!("a {name}{sep}{secret} b")).into_owned();
        prop_assert!(!redacted.contains(&secret), "{}", redacted);
        prop_assert!(redacted.starts_with("a ") );
    }
}

#[test]
fn a_name_without_a_value_is_no_reason_to_look() {
    let redactor = Redactor::new();
    for plain in [r#"{"token":null,"size":null}"#, r#"{"api_key":null,"tool":"fs.read","token":null}"#] {
        assert!(!redactor.suspects(plain), "{plain}");
    }
    for suspicious in [
        r#"{"token":null,"password":"x"}"#,
        r#"{"token":"null"}"#,
        r#"{"token": null}"#,
        r#"{"text":"{\"token\":null}"}"#,
        r#"{"sk-":null}"#,
    ] {
        assert!(redactor.suspects(suspicious), "{suspicious}");
    }
}
