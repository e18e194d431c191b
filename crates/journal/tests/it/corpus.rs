//! Secrets of every public shape, and as many innocent look-alikes.

use journal::{REDACTED, Redactor};
use serde_json::Value;

#[test]
fn secrets_go_and_look_alikes_stay() {
    let redactor = Redactor::new();
    let (mut hidden, mut kept, mut wrong) = (0, 0, Vec::new());
    for line in include_str!("../../corpus/secrets.tsv").lines().filter(|line| !line.starts_with('#')) {
        let (value, secret) = line.split_once('\t').unwrap();
        let value: Value = serde_json::from_str(value).unwrap();
        let mut clean = value.clone();
        redactor.value(&mut clean);
        let mut again = clean.clone();
        redactor.value(&mut again);
        if again != clean {
            wrong.push(format!("{value}: redacted again, {clean} becomes {again}"));
        }
        if secret == "keep" {
            kept += 1;
            if clean != value {
                wrong.push(format!("{value} became {clean}"));
            }
            continue;
        }
        hidden += 1;
        let secret: String = serde_json::from_str(secret).unwrap();
        let mut strings = Vec::new();
        all(&clean, &mut strings);
        if strings.iter().any(|text| text.contains(&secret)) || !strings.iter().any(|text| text.contains(REDACTED)) {
            wrong.push(format!("{value}: {secret} is left in {clean}"));
        }
        assert!(redactor.suspects(&value.to_string()), "{value} would not be looked at");
    }
    assert!(wrong.is_empty(), "{} are not as expected:\n{}", wrong.len(), wrong.join("\n"));
    assert!(hidden >= 75 && kept >= 75, "{hidden} and {kept}");
}

fn all<'a>(value: &'a Value, strings: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => strings.push(text),
        Value::Array(items) => items.iter().for_each(|item| all(item, strings)),
        Value::Object(members) => members.iter().for_each(|(key, member)| {
            strings.push(key);
            all(member, strings);
        }),
        _ => {}
    }
}

#[test]
fn a_registered_value_is_found_behind_every_escape() {
    let redactor = Redactor::new();
    let secret = "Zx9Kq2Lm4Np6Rs8T";
    redactor.register(secret);
    let each = |wrap: &dyn Fn(u8) -> String| secret.bytes().map(wrap).collect::<String>();
    let shapes = [
        secret.to_owned(),
        each(&|byte| format!("\\u{byte:04x}")),
        each(&|byte| format!("\\\\u{byte:04X}")),
        each(&|byte| format!("\\x{byte:02x}")),
        each(&|byte| format!("\\u{{{byte:x}}}")),
        each(&|byte| format!("%{byte:02X}")),
        each(&|byte| format!("%25{byte:02x}")),
        each(&|byte| format!("&#{byte};")),
        each(&|byte| format!("&#x{byte:x};")),
        each(&|byte| format!("{byte:02x}")),
        each(&|byte| format!("{byte:02X}")),
        each(&|byte| if byte % 2 == 0 { format!("%{byte:02x}") } else { char::from(byte).to_string() }),
        format!("{}\\u004c{}", &secret[..6], &secret[7..]),
    ];
    for shape in shapes {
        let text = format!("é {shape} ü");
        assert_eq!(redactor.text(&text), "é [redacted] ü", "{shape}");
        assert!(redactor.suspects(&serde_json::to_string(&text).unwrap()), "{shape}");
    }
    for text in ["100% of \\users & co &#12;", "%zz \\u12 &#x; &amp; \\"] {
        assert_eq!(redactor.text(text), text);
    }
}
