//! What a word stands for: nothing, a boolean, a number, or itself.

/// What a plain word stands for where any type may.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ScalarMeaning {
    Nothing,
    Flag(bool),
    Natural(u64),
    Negative(i64),
    Float(f64),
    Word,
}

pub(crate) fn meaning(text: &str) -> ScalarMeaning {
    if is_nothing(text) {
        return ScalarMeaning::Nothing;
    }
    if let Some(flag) = flag(text) {
        return ScalarMeaning::Flag(flag);
    }
    match whole(text) {
        Some(number) => match (u64::try_from(number), i64::try_from(number)) {
            (Ok(natural), _) => ScalarMeaning::Natural(natural),
            (_, Ok(negative)) => ScalarMeaning::Negative(negative),
            _ => ScalarMeaning::Float(number as f64),
        },
        None => float(text).map_or(ScalarMeaning::Word, ScalarMeaning::Float),
    }
}

pub(crate) fn is_nothing(text: &str) -> bool {
    text.is_empty() || text == "~" || text.eq_ignore_ascii_case("null")
}

pub(crate) fn flag(text: &str) -> Option<bool> {
    let text = trimmed(text);
    if text.eq_ignore_ascii_case("true") {
        Some(true)
    } else if text.eq_ignore_ascii_case("false") {
        Some(false)
    } else {
        None
    }
}

/// `12`, `-3`, `1_000`, `0x1f`, `0o17`, `0b1`. A leading zero is none: it once meant base eight.
pub(crate) fn whole(text: &str) -> Option<i128> {
    let text = trimmed(text);
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        _ if digits.len() > 1 && digits.starts_with('0') => return None,
        _ => (10, digits),
    };
    let is_grouped = digits.contains('_');
    if is_grouped && (digits.starts_with('_') || digits.ends_with('_') || digits.contains("__")) {
        return None;
    }
    let digits = if is_grouped { digits.replace('_', "") } else { digits.to_owned() };
    // `from_str_radix` takes a sign of its own.
    if !digits.starts_with(|first: char| first.is_ascii_hexdigit()) {
        return None;
    }
    let number = i128::from_str_radix(&digits, radix).ok()?;
    Some(if is_negative { -number } else { number })
}

/// `1.5`, `2e3`, `.inf`, `.nan`. What Rust also calls a number, `inf` and `infinity`, are words here.
pub(crate) fn float(text: &str) -> Option<f64> {
    let text = trimmed(text);
    match text.to_ascii_lowercase().as_str() {
        ".nan" => return Some(f64::NAN),
        ".inf" | "+.inf" => return Some(f64::INFINITY),
        "-.inf" => return Some(f64::NEG_INFINITY),
        _ => {}
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.');
    if is_number { text.parse().ok() } else { None }
}

/// Without the blanks and line ends that quoted words and blocks may have.
fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}
